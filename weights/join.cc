// Weights by name: what fits is taken as it lies, another floating-point type is cast, and the rest is reported at
// once.
#include "weights/join.h"

#include <map>
#include <set>
#include <utility>

#include "base/list_error.h"
#include "base/text.h"
#include "weights/cast.h"
#include "weights/make_weights.h"

namespace slipway::weights {

absl::Status FitsWeight(const ir::Program& p, size_t input, ir::DType dtype, const std::vector<int64_t>& sizes) {
  const std::string& name = p.input_specs[input].target;
  if (p.objects.contains(name))
    return absl::InvalidArgumentError(text::StrCat(name, " is a tensor subclass in the program"));
  const ir::Type& t = p.graph->inputs()[input]->type();
  const auto wanted = t.StaticSizes();
  if (t.dtype == dtype && wanted && *wanted == sizes) return absl::OkStatus();
  const ir::Type found = ir::Type::Tensor(dtype, ir::Sizes(sizes.begin(), sizes.end()));
  return absl::InvalidArgumentError(text::StrCat(name, " is ", found.ToString(), ", the program wants ", t.ToString()));
}

absl::Status JoinWeights(ir::Program& p, const GivenTensors& given, const Sources& sources, const std::string& folder,
                         std::vector<std::string>* notes) {
  std::vector<std::string> wrong;
  std::map<std::string, ir::TensorRef> taken;  // as they are
  std::vector<WeightToMake> made;
  std::map<std::pair<std::string, ir::DType>, size_t> made_from;  // what weights share is made once
  std::vector<std::pair<std::string, size_t>> made_names;
  std::set<std::pair<ir::DType, ir::DType>> types;
  int casts = 0;
  std::set<std::string> seen, used;
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::InputSpec& s = p.input_specs[i];
    const auto source = sources.given.find(s.target);
    if (!s.is_weight() || source == sources.given.end() || !seen.insert(s.target).second) continue;
    used.insert(source->second);
    // Another floating-point type is computed, or cast, where it would fit otherwise.
    const ir::DType wanted = p.graph->inputs()[i]->type().dtype;
    const ir::ShardedTensor from = given.at(source->second).In(wanted);
    const bool cast = FindCast(from.dtype, wanted) != nullptr;
    if (absl::Status fits = FitsWeight(p, i, cast ? wanted : from.dtype, from.sizes); !fits.ok()) {
      wrong.emplace_back(fits.message());
    } else if (cast || !from.whole()) {
      casts += cast;
      if (cast) types.emplace(from.dtype, wanted);
      const auto [at, fresh] = made_from.try_emplace({source->second, wanted}, made.size());
      if (fresh) made.push_back({from, cast ? wanted : from.dtype, {}});
      made_names.emplace_back(s.target, at->second);
    } else {
      taken[s.target] = *from.whole();
    }
  }
  if (!wrong.empty() || !sources.missing.empty()) {
    std::vector<std::string> parts, items = sources.missing;
    if (!items.empty())
      parts.push_back(text::StrCat(
          items.size(), items.size() == 1 ? " name of the program is missing" : " names of the program are missing"));
    if (!wrong.empty())
      parts.push_back(text::StrCat(wrong.size(), wrong.size() == 1 ? " tensor does not fit" : " tensors do not fit"));
    items.insert(items.end(), wrong.begin(), wrong.end());
    return ListError(text::StrCat("--weights: ", text::Join(parts, ", ")), items);
  }
  if (absl::Status s = MakeWeights(made, folder); !s.ok()) return s;
  for (const auto& [name, at] : made_names) taken[name] = made[at].made;
  if (casts > 0) {
    std::vector<std::string> pairs;
    for (const auto& [from, to] : types) pairs.push_back(text::StrCat(ir::Name(from), " to ", ir::Name(to)));
    notes->push_back(text::StrCat(casts, casts == 1 ? " tensor of --weights is" : " tensors of --weights are",
                                  " cast to the program's types: ", text::Join(pairs, ", ")));
  }
  for (auto& [name, t] : taken) p.weights.insert_or_assign(name, std::move(t));
  for (const std::string& note : sources.notes) notes->push_back(text::StrCat("--weights: ", note));
  if (size_t unused = given.size() - used.size(); unused > 0) {
    constexpr size_t kShown = 10;
    std::vector<std::string> names;
    for (const auto& [name, t] : given)
      if (!used.contains(name) && names.size() < kShown) names.push_back(name);
    notes->push_back(text::StrCat(unused, unused == 1 ? " tensor of --weights is" : " tensors of --weights are",
                                  " not used: ", text::Join(names, ", "), unused > kShown ? ", …" : ""));
  }
  return absl::OkStatus();
}

}  // namespace slipway::weights
