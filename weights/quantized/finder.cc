// What the families share: looking tensors up, with errors that name them.
#include "weights/quantized/families.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace slipway::weights::quantized {

using ir::DType;

namespace {

// Of transformers' models, those with Conv1D where others have linear layers.
constexpr std::string_view kConv1dModels[] = {"gpt2", "openai-gpt", "imagegpt", "decision_transformer"};

std::string DTypeNames(std::initializer_list<DType> dtypes) {
  std::vector<std::string_view> names;
  for (DType t : dtypes) names.push_back(ir::Name(t));
  return text::Join(names, " or ");
}

}  // namespace

std::vector<std::string> Finder::EndingIn(std::string_view suffix) const {
  std::vector<std::string> out;
  const auto look = [&](const auto& map) {
    for (const auto& [name, tensor] : map)
      if (name.size() > suffix.size() && name.ends_with(suffix))
        out.push_back(name.substr(0, name.size() - suffix.size()));
  };
  look(set_.tensors);
  look(set_.sharded);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> Finder::Of(DType dtype) const {
  std::vector<std::string> out;
  const auto look = [&](const auto& map) {
    for (const auto& [name, tensor] : map)
      if (tensor.dtype == dtype) out.push_back(name);
  };
  look(set_.tensors);
  look(set_.sharded);
  std::sort(out.begin(), out.end());
  return out;
}

bool Finder::Has(const std::string& name) const { return set_.tensors.contains(name) || set_.sharded.contains(name); }

const ir::TensorRef* Finder::Look(const std::string& name) const {
  const auto it = set_.tensors.find(name);
  return it == set_.tensors.end() ? nullptr : &it->second;
}

absl::StatusOr<Values> Finder::Want(const std::string& name, std::initializer_list<DType> dtypes) const {
  if (set_.sharded.contains(name))
    return absl::UnimplementedError(text::StrCat("'", name, "': a part of a quantized weight that lies in pieces"));
  const ir::TensorRef* t = Look(name);
  if (!t) return Values();
  if (std::find(dtypes.begin(), dtypes.end(), t->dtype) == dtypes.end())
    return absl::InvalidArgumentError(
        text::StrCat("'", name, "' is ", ir::Name(t->dtype), Shape(t->sizes), " and should be ", DTypeNames(dtypes)));
  if (absl::Status s = ir::Validate(*t); !s.ok())
    return absl::Status(s.code(), text::StrCat("'", name, "': ", text::FromAbsl(s.message())));
  if (!std::holds_alternative<io::Bytes>(t->storage->bytes) || !t->is_contiguous())
    return absl::UnimplementedError(text::StrCat("'", name, "': a part of a quantized weight that is strided"));
  return Values(*t);
}

absl::StatusOr<Values> Finder::Need(const std::string& name, std::initializer_list<DType> dtypes) const {
  ASSIGN_OR_RETURN(Values values, Want(name, dtypes));
  if (values.data() == nullptr && !Has(name))
    return absl::InvalidArgumentError(text::StrCat("'", name, "' is missing: a part of a quantized weight"));
  return values;
}

absl::Status Finder::Add(Weight weight, const std::vector<std::string>& parts) {
  weight.parts = parts;
  for (const std::string& part : parts) {
    const auto [it, fresh] = taken_.emplace(part, weight.name);
    if (!fresh)
      return absl::InvalidArgumentError(
          text::StrCat("'", part, "' is a part of '", it->second, "' and of '", weight.name, "'"));
    if (const ir::TensorRef* t = Look(part)) weight.stored.push_back(*t);
  }
  if (Has(weight.name) && std::find(parts.begin(), parts.end(), weight.name) == parts.end())
    return absl::InvalidArgumentError(
        text::StrCat("'", weight.name, "' is there, and '", parts[0], "' stands for it, too"));
  weights_.push_back(std::make_shared<const Weight>(std::move(weight)));
  return absl::OkStatus();
}

std::string Shape(const std::vector<int64_t>& sizes) { return text::StrCat("[", text::Join(sizes, ","), "]"); }

absl::Status DoNotAgree(std::string_view name, const std::vector<int64_t>& sizes, std::string_view other,
                        const std::vector<int64_t>& other_sizes) {
  return absl::InvalidArgumentError(
      text::StrCat("'", name, "': ", Shape(sizes), " does not go with '", other, "' of ", Shape(other_sizes)));
}

bool IsMatrix(const std::vector<int64_t>& sizes) { return sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0; }

absl::Status CheckNoConv1d(const Finder& f) {
  for (std::string_view model : kConv1dModels)
    if (f.has_config() && f.config().model_type == model)
      return absl::UnimplementedError(
          text::StrCat("a quantized ", model, ", whose layers are Conv1D: their weights are [in, out]"));
  return absl::OkStatus();
}

}  // namespace slipway::weights::quantized
