// Weights by name: what fits is taken as it lies, another floating-point type is cast, and the rest is reported at
// once.
#include "weights/join.h"

#include <algorithm>
#include <cctype>
#include <set>

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

absl::Status JoinWeights(ir::Program& p, const std::map<std::string, ir::ShardedTensor>& given,
                         const JoinOptions& options, std::vector<std::string>* notes) {
  std::vector<std::string> missing, wrong;
  std::map<std::string, ir::TensorRef> taken;  // as they are
  std::vector<std::string> made_names;
  std::vector<WeightToMake> made;
  int casts = 0;
  std::set<std::string> used;
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::InputSpec& s = p.input_specs[i];
    if (s.kind != ir::InputSpec::kParameter && s.kind != ir::InputSpec::kBuffer) continue;
    auto it = given.find(s.target);
    if (it == given.end()) {
      if ((!p.weights.contains(s.target) && !p.objects.contains(s.target)) || (s.persistent && !options.allow_missing))
        missing.push_back(s.target);
      continue;
    }
    used.insert(s.target);
    // Another floating-point type is computed, or cast, where it would fit otherwise.
    const ir::DType wanted = p.graph->inputs()[i]->type().dtype;
    const ir::ShardedTensor from = it->second.In(wanted);
    const bool cast = FindCast(from.dtype, wanted) != nullptr;
    if (absl::Status fits = FitsWeight(p, i, cast ? wanted : from.dtype, from.sizes); !fits.ok()) {
      wrong.emplace_back(fits.message());
    } else if (cast || !from.whole()) {
      casts += cast;
      made_names.push_back(s.target);
      made.push_back({from, cast ? wanted : from.dtype, {}});
    } else {
      taken[s.target] = *from.whole();
    }
  }
  const auto no = [](const std::string& what) { return absl::InvalidArgumentError(text::StrCat("--weights: ", what)); };
  if (!wrong.empty()) return no(text::Join(wrong, "; "));
  if (!missing.empty())
    return ListError(text::StrCat("--weights: ", missing.size(), " names of the program are missing"), missing);
  if (absl::Status s = MakeWeights(made, options.folder); !s.ok()) return s;
  for (size_t i = 0; i < made.size(); ++i) taken[made_names[i]] = std::move(made[i].made);
  if (casts > 0) notes->push_back(text::StrCat(casts, " tensors of --weights are cast to the program's types"));
  for (auto& [name, t] : taken) p.weights.insert_or_assign(name, std::move(t));
  if (size_t unused = given.size() - used.size(); unused > 0) {
    std::vector<std::string> names;
    for (const auto& [name, t] : given)
      if (!used.contains(name)) names.push_back(name);
    notes->push_back(text::StrCat(unused, " tensors of --weights are not used: ", text::Join(names, ", ")));
  }
  return absl::OkStatus();
}

std::string RenameThatFits(const ir::Program& p, const std::map<std::string, ir::ShardedTensor>& given) {
  std::vector<std::string_view> missing;
  for (const ir::InputSpec& s : p.input_specs)
    if ((s.kind == ir::InputSpec::kParameter || (s.kind == ir::InputSpec::kBuffer && s.persistent)) &&
        !given.contains(s.target))
      missing.push_back(s.target);
  if (missing.empty()) return "";
  // The program's beginning: nothing, or up to a dot of the first name; the file's is what then stands before the rest.
  const std::string_view first = missing[0];
  for (size_t cut = 0; cut != std::string_view::npos;
       cut = first.find('.', cut) == first.npos ? first.npos : first.find('.', cut) + 1) {
    const std::string_view to = first.substr(0, cut), rest = first.substr(cut);
    for (const auto& [name, tensor] : given) {
      std::string_view from = name;
      if (!text::ConsumeSuffix(&from, rest) || (!from.empty() && !from.ends_with('.')) || from == to) continue;
      const bool all = std::all_of(missing.begin(), missing.end(), [&](std::string_view m) {
        return m.starts_with(to) && given.contains(text::StrCat(from, m.substr(to.size())));
      });
      if (!all) continue;
      std::string out = "^";
      for (char c : from) {
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') out += '\\';
        out += c;
      }
      return text::StrCat(out, "=>", to);
    }
  }
  return "";
}

}  // namespace slipway::weights
