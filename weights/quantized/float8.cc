// Float8 with a scale for each block of a matrix, as DeepSeek publishes its models and transformers' "fp8" reads them:
//
//   X              f8e4m3fn [..., n, k], any name: mostly MODULE.weight
//   X_scale_inv    [..., ceil(n / bn), ceil(k / bk)] of f32 or bf16, or powers of two as f8e8m0; blocks at the edges
//   are
//                  partial. weight_block_size of the configuration is [bn, bk]; without it there is one scale for the
//                  matrix, or one a row, which older tools call X_scale
//
// Despite its name the scale is what the codes are multiplied by. DeepSeek's weight_dequant and transformers multiply
// in f32 and round once, to the dtype that is asked for.
#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "weights/quantized/families.h"

namespace slipway::weights::quantized {
namespace {

using ir::DType;

constexpr std::string_view kInverse = "_scale_inv", kScale = "_scale";

// One weight, with blocks [bn, bk]; bn is 0 where the configuration has none.
absl::Status FindFloat8Weight(Finder& f, const std::string& name, int64_t bn, int64_t bk) {
  std::string scale_name = text::StrCat(name, kInverse);
  if (!f.Has(scale_name) && bn == 0) scale_name = text::StrCat(name, kScale);
  if (!f.Has(scale_name))
    return absl::InvalidArgumentError(text::StrCat("'", name, "' is f8e4m3fn and has no '", name, kInverse, "'"));
  ASSIGN_OR_RETURN(const Values codes, f.Need(name, {DType::kFloat8E4M3FN}));
  ASSIGN_OR_RETURN(const Values scales,
                   f.Need(scale_name, {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8E8M0FNU}));
  const std::vector<int64_t>& sizes = codes.sizes();
  const size_t rank = sizes.size();
  if (rank < 2 || std::find(sizes.begin(), sizes.end(), 0) != sizes.end())
    return absl::InvalidArgumentError(text::StrCat("'", name, "': a weight of ", Shape(sizes)));
  const int64_t n = sizes[rank - 2], k = sizes[rank - 1];
  std::string form = text::StrCat("blocks of ", bn, "x", bk);
  if (bn == 0) {
    const bool rows = n > 1 && rank == 2 && scales.sizes() == std::vector<int64_t>{n, 1};
    bn = rows ? 1 : n, bk = k;
    form = rows ? "rows" : "one scale";
  }
  std::vector<int64_t> wanted = sizes;
  wanted[rank - 2] = (n - 1) / bn + 1;
  wanted[rank - 1] = (k - 1) / bk + 1;
  const bool single = rank == 2 && wanted[0] == 1 && wanted[1] == 1 && scales.tensor().numel() == 1;
  if (scales.sizes() != wanted && !single) return DoNotAgree(scale_name, scales.sizes(), name, sizes);

  Weight w;
  w.name = name;
  w.sizes = sizes;
  w.dtype = DType::kBFloat16;
  w.form = std::move(form);
  const int64_t down = wanted[rank - 2], across = wanted[rank - 1];
  w.numbers = [codes, scales, n, k, bn, bk, down, across](const Block& b, DType, float* out) {
    const float* numbers = NumbersOfE4M3();
    for (int64_t r = 0; r < b.rows; ++r, out += b.stride) {
      const int64_t row = b.row + r;
      const uint8_t* q = codes.data() + row * k;
      const int64_t first = (row / n * down + row % n / bn) * across;
      for (int64_t c = b.column, end = b.column + b.columns; c < end;) {
        const float scale = scales.Float(first + c / bk);
        for (const int64_t stop = std::min(end, (c / bk + 1) * bk); c < stop; ++c)
          out[c - b.column] = numbers[q[c]] * scale;
      }
    }
  };
  return f.Add(std::move(w), {name, scale_name});
}

}  // namespace

absl::Status FindFloat8(Finder& f) {
  const ModelConfig& config = f.config();
  ASSIGN_OR_RETURN(const std::string format, config.Text("fmt", "e4m3"));
  if (format != "e4m3" && format != "float8_e4m3fn")
    return absl::UnimplementedError(text::StrCat("float8 of fmt '", format, "'"));
  ASSIGN_OR_RETURN(const std::string experts, config.Text("expert_dtype", "fp8"));
  if (experts != "fp8") return absl::UnimplementedError(text::StrCat("float8 with experts of '", experts, "'"));
  int64_t bn = 0, bk = 0;
  if (const auto* block = config.Find("weight_block_size")) {
    ASSIGN_OR_RETURN(const auto sizes, block->AsArray());
    if (sizes.size() != 2) return block->Error("weight_block_size is not two numbers");
    ASSIGN_OR_RETURN(bn, sizes[0].AsInt());
    ASSIGN_OR_RETURN(bk, sizes[1].AsInt());
    if (bn < 1 || bk < 1) return block->Error("weight_block_size is not two positive numbers");
  }
  for (const std::string& name : f.EndingIn(kInverse)) {
    const ir::TensorRef* t = f.Look(name);
    if (t && (ir::IsIntegral(t->dtype) || t->dtype == DType::kFloat4E2M1 || t->dtype == DType::kFloat8E5M2))
      return absl::UnimplementedError(text::StrCat("'", name, "' is ", ir::Name(t->dtype), ": float8 is f8e4m3fn"));
    if (!f.Has(name) || (t && t->dtype != DType::kFloat8E4M3FN))
      return absl::InvalidArgumentError(
          text::StrCat("'", name, kInverse, "' is there, and '", name, "' is no tensor of f8e4m3fn"));
  }
  for (const std::string& name : f.Of(DType::kFloat8E4M3FN)) RETURN_IF_ERROR(FindFloat8Weight(f, name, bn, bk));
  return absl::OkStatus();
}

}  // namespace slipway::weights::quantized
