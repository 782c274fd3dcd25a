// `slipway inspect`: what is in a file.
#include <cstdio>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "driver/convert.h"
#include "ir/graph.h"

namespace slipway::cli {

void AddInspect(CLI::App& app, int* code) {
  struct State {
    std::string file;
    bool ops = false;
  };
  auto state = std::make_shared<State>();
  CLI::App* cmd = app.add_subcommand("inspect", "Show what is in a file");
  cmd->add_option("FILE", state->file, "exported program (.pt2)")->required();
  cmd->add_flag("--ops", state->ops, "operators and their counts");
  cmd->callback([state, code] {
    auto archive = driver::OpenArchive(state->file);
    if (!archive.ok()) {
      driver::Outcome o{driver::ExitCodeOf(archive.status()), {driver::FromStatus(archive.status(), state->file)}};
      Report(o, false);
      *code = o.code;
      return;
    }
    for (const auto& p : archive->programs) {
      std::printf("program %s: %zu nodes, %zu weights, from %s\n", p->name.c_str(), p->graph->node_count(),
                  p->weights.size(), archive->producer.c_str());
      std::map<std::string, int> ops;
      for (const ir::Node* n : *p->graph) ++ops[std::string(n->op_name())];
      if (state->ops)
        for (const auto& [name, count] : ops) std::printf("  %6d  %s\n", count, name.c_str());
    }
  });
}

}  // namespace slipway::cli
