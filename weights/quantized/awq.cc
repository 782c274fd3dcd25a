// AWQ as AutoAWQ's GEMM version writes it, 4 bits, for a layer MODULE of `in` and `out` features with groups along
// `in`:
//
//   MODULE.qweight  i32 [in, out / 8]: the codes of eight neighbouring outputs in a word, from the lowest bits on those
//                   of outputs 0, 2, 4, 6, 1, 3, 5, 7
//   MODULE.qzeros   i32 [groups, out / 8]: zero points, in the same order
//   MODULE.scales   f16, bf16 or f32 [groups, out]
//
// They stand for MODULE.weight, [out, in], of (code - zero point) * scale. AutoAWQ computes it in the type of the
// scales and casts the result where activations have another.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "weights/quantized/families.h"

namespace slipway::weights::quantized {
namespace {

using ir::DType;

constexpr int kShifts[] = {0, 16, 4, 20, 8, 24, 12, 28};  // of the output that is number 0 … 7 of its word

float CodeAt(const uint8_t* words, int64_t output) {
  uint32_t word;
  std::memcpy(&word, words + output / 8 * 4, sizeof word);
  return static_cast<float>(word >> kShifts[output % 8] & 15);
}

absl::Status FindAwqWeight(Finder& f, const std::string& module, int64_t group) {
  const std::string weight_name = module + ".qweight", zeros_name = module + ".qzeros",
                    scales_name = module + ".scales";
  ASSIGN_OR_RETURN(const Values codes, f.Need(weight_name, {DType::kInt32}));
  ASSIGN_OR_RETURN(const Values zeros, f.Need(zeros_name, {DType::kInt32}));
  ASSIGN_OR_RETURN(const Values scales, f.Need(scales_name, {DType::kFloat16, DType::kBFloat16, DType::kFloat32}));
  if (!IsMatrix(codes.sizes()))
    return absl::InvalidArgumentError(text::StrCat("'", weight_name, "': codes of ", Shape(codes.sizes())));
  const int64_t in = codes.sizes()[0], words = codes.sizes()[1], out = words * 8;
  if (group == -1) group = in;
  if (in % group != 0)
    return absl::InvalidArgumentError(
        text::StrCat("'", weight_name, "': groups of ", group, " do not divide ", in, " input features"));
  if (scales.sizes() != std::vector<int64_t>{in / group, out})
    return DoNotAgree(scales_name, scales.sizes(), weight_name, codes.sizes());
  if (zeros.sizes() != std::vector<int64_t>{in / group, words})
    return DoNotAgree(zeros_name, zeros.sizes(), weight_name, codes.sizes());

  Weight w;
  w.name = module + ".weight";
  w.sizes = {out, in};
  w.dtype = scales.dtype();
  w.scattered = true;
  w.form = text::StrCat("4 bits, group ", group);
  w.numbers = [codes, zeros, scales, words, out, group](const Block& b, DType, float* to) {
    std::vector<float> scale(static_cast<size_t>(b.rows)), zero(static_cast<size_t>(b.rows));
    // Columns of a group, some at a time, so that what is written lies together.
    constexpr int64_t kTogether = 16;
    int64_t at = -1;
    for (int64_t c = 0, n; c < b.columns; c += n) {
      const int64_t column = b.column + c, g = column / group;
      n = std::min({kTogether, b.columns - c, (g + 1) * group - column});
      if (g != at) {
        at = g;
        for (int64_t r = 0; r < b.rows; ++r) {
          zero[static_cast<size_t>(r)] = CodeAt(zeros.data() + g * words * 4, b.row + r);
          scale[static_cast<size_t>(r)] = scales.Float(g * out + b.row + r);
        }
      }
      const uint8_t* first = codes.data() + column * words * 4;
      for (int64_t r = 0; r < b.rows; ++r) {
        const float less = zero[static_cast<size_t>(r)], by = scale[static_cast<size_t>(r)];
        float* row = to + r * b.stride + c;
        for (int64_t i = 0; i < n; ++i) row[i] = (CodeAt(first + i * words * 4, b.row + r) - less) * by;
      }
    }
    RoundTo(scales.dtype(), b, to);
  };
  return f.Add(std::move(w), {weight_name, zeros_name, scales_name});
}

}  // namespace

absl::Status FindAwq(Finder& f) {
  const ModelConfig& config = f.config();
  // Under the names of transformers and, in quant_config.json, of AutoAWQ.
  ASSIGN_OR_RETURN(int64_t bits, config.Int("bits", 0));
  if (bits == 0) {
    ASSIGN_OR_RETURN(bits, config.Int("w_bit", 4));
  }
  ASSIGN_OR_RETURN(int64_t group, config.Int("group_size", 0));
  if (group == 0) {
    ASSIGN_OR_RETURN(group, config.Int("q_group_size", 128));
  }
  ASSIGN_OR_RETURN(std::string version, config.Text("version", ""));
  if (version.empty()) {
    ASSIGN_OR_RETURN(version, config.Text("format", "gemm"));
  }
  version = absl::AsciiStrToLower(version);
  ASSIGN_OR_RETURN(const std::string backend, config.Text("backend", "autoawq"));
  if (backend == "llm-awq") version = backend;
  ASSIGN_OR_RETURN(const bool zero_point, config.Bool("zero_point", true));
  if (version != "gemm") return absl::UnimplementedError(text::StrCat("AWQ of version '", version, "'"));
  if (bits != 4) return absl::UnimplementedError(text::StrCat("AWQ of ", bits, " bits"));
  if (!zero_point) return absl::UnimplementedError("AWQ without zero points");
  if (group == 0 || group < -1) return config.quantization.Error("group_size is neither positive nor -1");
  RETURN_IF_ERROR(CheckNoConv1d(f));
  for (const std::string& module : f.EndingIn(".scales"))
    if (!f.Has(module + ".qweight"))
      return absl::UnimplementedError(
          text::StrCat("'", module, ".scales': AWQ with scales of activations, which no plain model has"));
  for (const std::string& module : f.EndingIn(".qweight")) RETURN_IF_ERROR(FindAwqWeight(f, module, group));
  return absl::OkStatus();
}

}  // namespace slipway::weights::quantized
