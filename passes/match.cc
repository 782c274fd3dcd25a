// A filled tensor holds the number that it was filled with in its own dtype; callers compare with numbers that every
// dtype has, or compute in f32.
#include "passes/match.h"

#include "passes/stored_weights.h"

namespace slipway::passes {

std::optional<double> ReadNumber(const ir::Arg& a, const StoredWeights* weights) {
  if (const double* d = a.get<double>()) return *d;
  if (const int64_t* i = a.get<int64_t>()) return static_cast<double>(*i);
  const ir::Value* v = a.value();
  if (!v || !v->type().is_tensor() || v->type().StaticNumel() != 1) return std::nullopt;
  if (Is(v->producer(), "aten.full.default")) return ReadNumber(v->producer()->Get("fill_value"));
  const std::string* name = weights ? weights->NameOf(v) : nullptr;
  const auto numbers = name ? weights->Read(*name) : absl::NotFoundError("no weight");
  return numbers.ok() && numbers->size() == 1 ? std::optional<double>((*numbers)[0]) : std::nullopt;
}

}  // namespace slipway::passes
