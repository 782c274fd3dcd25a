// See clone.h.
#include "ir/clone.h"

#include "base/text.h"
#include "ir/text.h"

namespace slipway::ir {

absl::StatusOr<std::unique_ptr<Program>> Clone(const Program& p) {
  PrintOptions options;
  options.data = false;
  auto parsed = Parse(Print(p, options));
  if (!parsed.ok()) return absl::InternalError(text::StrCat("copying '", p.name, "': ", parsed.status().message()));
  if (parsed->programs.size() != 1)
    return absl::InternalError(text::StrCat("copying '", p.name, "' gave ", parsed->programs.size(), " programs"));
  std::unique_ptr<Program> copy = std::move(parsed->programs[0]);
  copy->weights = p.weights;
  copy->objects = p.objects;
  copy->sample_inputs = p.sample_inputs;
  return copy;
}

}  // namespace slipway::ir
