// Names of other values are the exporters' own business.
#include "exporters/program_names.h"

#include "base/text.h"
#include "base/utf8.h"

namespace slipway::exporters {

absl::Status CheckProgramNames(const ir::Program& p) {
  const auto check = [](std::string_view what, std::string_view name) {
    return text::IsUtf8(name) ? absl::OkStatus()
                              : absl::InvalidArgumentError(text::StrCat(what, " '", name, "' is not UTF-8"));
  };
  absl::Status s = check("the program's name", p.name);
  for (const ir::Value* v : p.graph->inputs())
    if (s.ok()) s = check("the input's name", v->name());
  for (const ir::Arg& a : p.graph->outputs)
    if (const ir::Value* v = a.value(); v && s.ok()) s = check("the output's name", v->name());
  for (const ir::InputSpec& spec : p.input_specs)
    if (s.ok()) s = check("the name", spec.target);
  for (const auto& [name, tensor] : p.weights)
    if (s.ok()) s = check("the weight's name", name);
  return s;
}

}  // namespace slipway::exporters
