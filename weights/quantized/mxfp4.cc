// MXFP4 as gpt-oss has it, for the experts of a layer (MODULE.gate_up_proj, MODULE.down_proj):
//
//   X_blocks   u8 [experts, n, groups, 16]: two e2m1 in a byte, the even one low
//   X_scales   u8 [experts, n, groups]: powers of two, 2^(byte - 127), one for 32 numbers
//
// They stand for X, [experts, 32 * groups, n]: what transformers' convert_moe_packed_tensors makes, which turns the
// last two dimensions around. It multiplies in f32 and rounds to the dtype that is asked for.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "weights/quantized/families.h"

namespace slipway::weights::quantized {
namespace {

using ir::DType;

absl::Status FindMxfp4Weight(Finder& f, const std::string& name) {
  const std::string blocks_name = name + "_blocks", scales_name = name + "_scales";
  ASSIGN_OR_RETURN(const Values blocks, f.Need(blocks_name, {DType::kUInt8}));
  ASSIGN_OR_RETURN(const Values scales, f.Need(scales_name, {DType::kUInt8, DType::kFloat8E8M0FNU}));
  const std::vector<int64_t>& sizes = blocks.sizes();
  if (sizes.size() != 4 || sizes[3] != 16 || std::find(sizes.begin(), sizes.end(), 0) != sizes.end())
    return absl::InvalidArgumentError(
        text::StrCat("'", blocks_name, "': ", Shape(sizes), " is not [experts, rows, groups, 16]"));
  if (scales.sizes() != std::vector<int64_t>{sizes[0], sizes[1], sizes[2]})
    return DoNotAgree(scales_name, scales.sizes(), blocks_name, sizes);
  const int64_t n = sizes[1], groups = sizes[2], k = groups * 32;

  Weight w;
  w.name = name;
  w.sizes = {sizes[0], k, n};
  w.dtype = DType::kBFloat16;
  w.scattered = true;
  w.form = "blocks of 32";
  w.numbers = [blocks, scales, n, groups, k](const Block& b, DType, float* out) {
    const float* e2m1 = NumbersOfE2M1();
    for (int64_t c = 0; c < b.columns; ++c) {
      for (int64_t r = 0; r < b.rows;) {
        const int64_t row = b.row + r, in = row % k;
        const int64_t group = (row / k * n + b.column + c) * groups + in / 32;
        const float half = std::ldexp(1.0f, scales.data()[group] - 128);  // of what is no float for the byte 255
        const uint8_t* q = blocks.data() + group * 16;
        for (int64_t i = in % 32; i < 32 && r < b.rows; ++i, ++r)
          out[r * b.stride + c] = e2m1[q[i / 2] >> (i % 2 * 4) & 15] * 2 * half;
      }
    }
  };
  return f.Add(std::move(w), {blocks_name, scales_name});
}

}  // namespace

absl::Status FindMxfp4(Finder& f) {
  for (const std::string& name : f.EndingIn("_blocks")) RETURN_IF_ERROR(FindMxfp4Weight(f, name));
  return absl::OkStatus();
}

}  // namespace slipway::weights::quantized
