// Dropping of mutations: the outputs that carry updated state go, in both lists that describe outputs; what computed
// them is left to eliminate-dead-code.
#include "passes/pass.h"

namespace slipway::passes {

std::vector<std::string> DropMutations(ir::Program& p) {
  std::vector<std::string> names;
  std::vector<ir::Arg> outputs;
  std::vector<ir::OutputSpec> specs;
  for (size_t i = 0; i < p.graph->outputs.size() && i < p.output_specs.size(); ++i) {
    const ir::OutputSpec& s = p.output_specs[i];
    if (s.updates_state()) {
      names.push_back(s.target);
      continue;
    }
    outputs.push_back(std::move(p.graph->outputs[i]));
    specs.push_back(s);
  }
  p.graph->outputs = std::move(outputs);
  p.output_specs = std::move(specs);
  return names;
}

}  // namespace slipway::passes
