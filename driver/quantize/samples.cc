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

bool Fits(ir::DType dtype, const std::vector<int64_t>& sizes, const ir::Type& type) {
  bool fits = static_cast<int>(sizes.size()) == type.rank() && (!type.is_tensor() || dtype == type.dtype);
  for (size_t d = 0; fits && d < sizes.size(); ++d)
    fits = !type.sizes[d].constant() || *type.sizes[d].constant() == sizes[d];
  return fits;
}

std::string TypeOf(ir::DType dtype, const std::vector<int64_t>& sizes) {
  return text::StrCat(ir::Name(dtype), "[", text::Join(sizes, ","), "]");
}

}  // namespace

absl::Status Samples::CheckOptions(const ConvertOptions& o) {
  if (!o.calibration_images.empty())
    return o.calibration.empty() ? absl::OkStatus()
                                 : UsageError("--calibration and --calibration-images", "one of them");
  std::vector<std::string_view> others;
  if (!o.mean.empty()) others.push_back("--mean");
  if (!o.std.empty()) others.push_back("--std");
  if (!o.image_size.empty()) others.push_back("--size");
  if (o.limit > 0) others.push_back("--limit");
  if (others.empty()) return absl::OkStatus();
  return UsageError(text::StrCat(text::Join(others, ", "), " without images"), "--calibration-images DIR");
}

absl::StatusOr<Samples> Samples::Open(const ir::Program& p, const ConvertOptions& o) {
  const std::vector<const ir::Type*> types = InputTypes(p);
  if (o.calibration_images.empty()) return OpenFile(o.calibration, types);
  Samples out;
  ASSIGN_OR_RETURN(out.images_, ImageFolder::Open(o));
  const std::vector<int64_t> sizes = out.images_->sizes();
  if (types.size() == 1 && Fits(ir::DType::kFloat32, sizes, *types[0])) return out;
  std::vector<std::string> wants;
  for (const ir::Type* t : types) wants.push_back(t->ToString());
  return WithHelp(WithPlace(absl::InvalidArgumentError(text::StrCat(
                                "images are ", TypeOf(ir::DType::kFloat32, sizes), ", where the program takes ",
                                wants.empty() ? "no inputs" : text::Join(wants, ", "))),
                            o.calibration_images),
                  "--size chooses height and width; inputs of other kinds come from --calibration FILE.safetensors");
}

absl::StatusOr<std::vector<ir::TensorRef>> Samples::Read(size_t i) const {
  if (!images_) return samples_[i];
  ASSIGN_OR_RETURN(ir::TensorRef image, images_->Read(i));
  return std::vector<ir::TensorRef>{std::move(image)};
}

absl::StatusOr<Samples> Samples::OpenFile(const std::string& path, const std::vector<const ir::Type*>& types) {
  ASSIGN_OR_RETURN(const std::shared_ptr<io::MappedFile> file, io::MappedFile::Open(path));
  auto set = importers::ReadSafetensors(file);
  if (!set.ok()) return WithPlace(set.status(), path);
  auto samples = Collect(set->tensors, types);
  if (samples.ok()) return samples;
  std::vector<std::string> wants;
  for (size_t i = 0; i < types.size(); ++i) wants.push_back(text::StrCat("input.", i, " of ", types[i]->ToString()));
  return WithHelp(
      WithPlace(samples.status(), path),
      text::StrCat("the program takes ", wants.empty() ? "no inputs" : text::Join(wants, ", "),
                   "; calibration data has them with one dimension more in front, which counts samples, or as "
                   "sample0.input.0, sample1.input.0, ..."));
}

absl::StatusOr<Samples> Samples::Collect(const std::map<std::string, ir::TensorRef>& tensors,
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
  RETURN_IF_ERROR(any_stacked ? out.Unstack(stacked, types) : out.AddSeparate(separate, types));
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t j = 0; j < types.size(); ++j)
      if (const ir::TensorRef& t = out.samples_[i][j]; !Fits(t.dtype, t.sizes, *types[j]))
        return absl::InvalidArgumentError(text::StrCat("sample ", i, " of calibration data has ",
                                                       TypeOf(t.dtype, t.sizes), " as input.", j,
                                                       ", where the program takes ", types[j]->ToString()));
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

absl::Status Samples::AddSeparate(const std::map<size_t, std::vector<std::optional<ir::TensorRef>>>& separate,
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

}  // namespace slipway::driver
