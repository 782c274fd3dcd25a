// Reads calibration data by the names of its tensors; docs/quantize.md describes the two forms.
#include "driver/quantize/samples.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "importers/safetensors/safetensors.h"
#include "io/mapped_file.h"

namespace slipway::driver {
namespace {

// The types of the inputs that a run takes.
std::vector<const ir::Type*> InputTypes(const ir::Program& p) {
  std::vector<const ir::Type*> types;
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    if (p.input_specs[i].kind == ir::InputSpec::kUser && p.graph->inputs()[i]->type().kind != ir::Type::kConstant)
      types.push_back(&p.graph->inputs()[i]->type());
  return types;
}

// Digits without a sign or leading zeros, as an index below a million.
std::optional<size_t> ReadIndex(std::string_view text) {
  if (text.empty() || text.size() > 6 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  size_t n = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    n = n * 10 + static_cast<size_t>(c - '0');
  }
  return n;
}

}  // namespace

absl::StatusOr<Samples> Samples::Open(const ir::Program& p, const std::string& path) {
  const std::vector<const ir::Type*> types = InputTypes(p);
  ASSIGN_OR_RETURN(const std::shared_ptr<io::MappedFile> file, io::MappedFile::Open(path));
  auto set = importers::ReadSafetensors(file);
  if (!set.ok()) return WithPlace(set.status(), path);
  auto samples = Read(set->tensors, types);
  if (samples.ok()) return samples;
  std::vector<std::string> wants;
  for (size_t i = 0; i < types.size(); ++i) wants.push_back(text::StrCat("input.", i, " of ", types[i]->ToString()));
  return WithHelp(
      WithPlace(samples.status(), path),
      text::StrCat("the program takes ", wants.empty() ? "no inputs" : text::Join(wants, ", "),
                   "; calibration data has them with one dimension more in front, which counts samples, or as "
                   "sample0.input.0, sample1.input.0, ..."));
}

absl::StatusOr<Samples> Samples::Read(const std::map<std::string, ir::TensorRef>& tensors,
                                      const std::vector<const ir::Type*>& types) {
  Samples out;
  std::map<size_t, std::vector<std::optional<ir::TensorRef>>> separate;
  std::vector<const ir::TensorRef*> stacked(types.size());
  std::vector<std::string> unknown;
  for (const auto& [name, t] : tensors) {
    const size_t dot = name.starts_with("sample") ? name.find('.') : std::string::npos;
    const std::string_view rest =
        dot == std::string::npos ? std::string_view(name) : std::string_view(name).substr(dot + 1);
    const auto sample = dot == std::string::npos ? std::nullopt : ReadIndex(std::string_view(name).substr(6, dot - 6));
    const auto input = rest.starts_with("input.") ? ReadIndex(rest.substr(6)) : std::nullopt;
    if (!input || *input >= types.size() || (dot != std::string::npos && !sample)) {
      unknown.push_back(text::StrCat("'", name, "'"));
    } else if (sample) {
      auto& of = separate[*sample];
      of.resize(types.size());
      of[*input] = t;
    } else {
      stacked[*input] = &t;
    }
  }
  if (!unknown.empty()) {
    if (unknown.size() > 5) unknown.resize(5), unknown.push_back("...");
    return absl::InvalidArgumentError(
        text::StrCat("calibration data with tensors that are no inputs of the program: ", text::Join(unknown, ", ")));
  }
  const bool any_stacked =
      std::any_of(stacked.begin(), stacked.end(), [](const ir::TensorRef* t) { return t != nullptr; });
  if (any_stacked && !separate.empty())
    return absl::InvalidArgumentError("calibration data of both forms, input.N and sampleM.input.N");
  if (!any_stacked && separate.empty()) return absl::InvalidArgumentError("calibration data without a sample");
  RETURN_IF_ERROR(any_stacked ? out.Unstack(stacked, types) : out.Collect(separate, types));
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t j = 0; j < types.size(); ++j) RETURN_IF_ERROR(Check(out[i][j], *types[j], i, j));
  return out;
}

absl::Status Samples::Unstack(const std::vector<const ir::TensorRef*>& stacked,
                              const std::vector<const ir::Type*>& types) {
  std::optional<int64_t> count;
  bool single = true;
  for (size_t j = 0; j < types.size(); ++j) {
    if (!stacked[j]) return absl::InvalidArgumentError(text::StrCat("calibration data without input.", j));
    single = single && static_cast<int>(stacked[j]->sizes.size()) == types[j]->rank();
  }
  if (single) {
    samples_.emplace_back();
    for (const ir::TensorRef* t : stacked) samples_.back().push_back(*t);
    return absl::OkStatus();
  }
  for (size_t j = 0; j < types.size(); ++j) {
    const ir::TensorRef& t = *stacked[j];
    if (static_cast<int>(t.sizes.size()) != types[j]->rank() + 1)
      return absl::InvalidArgumentError(text::StrCat("input.", j, " of calibration data has ", t.sizes.size(),
                                                     " dimensions, not ", types[j]->rank() + 1));
    if (count.value_or(t.sizes[0]) != t.sizes[0])
      return absl::InvalidArgumentError(
          text::StrCat("input.", j, " of calibration data has ", t.sizes[0], " samples where another has ", *count));
    if (ir::BitSize(t.dtype) % 8 != 0)
      return absl::InvalidArgumentError(
          text::StrCat("input.", j, " of calibration data has elements of less than a byte"));
    count = t.sizes[0];
  }
  if (*count == 0) return absl::InvalidArgumentError("calibration data without a sample");
  samples_.resize(static_cast<size_t>(*count));
  for (size_t i = 0; i < samples_.size(); ++i)
    for (const ir::TensorRef* t : stacked) {
      ir::TensorRef one = *t;
      one.offset += static_cast<int64_t>(i) * one.strides[0] * ir::ByteSize(one.dtype);
      one.sizes.erase(one.sizes.begin());
      one.strides.erase(one.strides.begin());
      samples_[i].push_back(std::move(one));
    }
  return absl::OkStatus();
}

absl::Status Samples::Collect(const std::map<size_t, std::vector<std::optional<ir::TensorRef>>>& separate,
                              const std::vector<const ir::Type*>& types) {
  for (const auto& [i, inputs] : separate) {
    samples_.emplace_back();
    for (size_t j = 0; j < types.size(); ++j) {
      if (!inputs[j])
        return absl::InvalidArgumentError(text::StrCat("calibration data has no sample", i, ".input.", j));
      samples_.back().push_back(*inputs[j]);
    }
  }
  return absl::OkStatus();
}

absl::Status Samples::Check(const ir::TensorRef& t, const ir::Type& type, size_t sample, size_t input) {
  bool fits = static_cast<int>(t.sizes.size()) == type.rank() && (!type.is_tensor() || t.dtype == type.dtype);
  for (size_t d = 0; fits && d < t.sizes.size(); ++d)
    fits = !type.sizes[d].constant() || *type.sizes[d].constant() == t.sizes[d];
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(text::StrCat("sample ", sample, " of calibration data has ", ir::Name(t.dtype), "[",
                                                 text::Join(t.sizes, ","), "] as input.", input,
                                                 ", where the program takes ", type.ToString()));
}

}  // namespace slipway::driver
