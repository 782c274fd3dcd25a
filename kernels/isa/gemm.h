// GEMM micro-kernels of an instruction set: C = A · B in f32, A and B of f32, bf16 or f16. gemm.inc.h and gemv.inc.h
// are their source.
#ifndef SLIPWAY_KERNELS_ISA_GEMM_H_
#define SLIPWAY_KERNELS_ISA_GEMM_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// nr of packed weights: columns of a panel, the same for every instruction set so that a packed weight fits all of
// them.
inline constexpr int64_t kPanel = 16;

// A matrix of f32, bf16 or f16 in memory; strides in elements.
struct MatrixRef {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t row = 0, column = 0;
};

// c[m,n] = bias[n] + a[m,k] · b[k,n], or added to c. Accumulators are f32. With `rounded`, what c would be goes there
// as bf16 and c holds partial sums: of Bf16GemmMicrokernels that round.
struct GemmParams {
  int64_t m = 0, n = 0, k = 0;
  MatrixRef a, b;
  float* c = nullptr;
  int64_t c_stride = 0, c_column_stride = 1;
  const float* bias = nullptr;  // n, or null
  bool accumulate = false;      // c += a · b; there is no bias then
  uint16_t* rounded = nullptr;  // rows are rounded_stride elements apart
  int64_t rounded_stride = 0;
  // b is packed ([n / kPanel][b.row][kPanel], gemm/packing.h) with b.row >= k rows, of which the first k count.
  bool packed = false;
  bool b_is_bf16 = false;  // b's elements are exact in bf16, whatever dtype they are stored in
};

enum class GemmAlgorithm : uint8_t {
  kPanels,      // GEMV, small m: each packed panel is read once, all accumulators in registers
  kDots,        // small m: dot products along the dense columns of b
  kCombine,     // m = 1: linear combination of the dense rows of b
  kColumnDots,  // small n: dot products along the dense rows of a
  kTransposed,  // tiles of the transposed product
  kTiles,       // tiles over blocks of a and b
};

struct GemmMicrokernels {
  // Floats of workspace that `run` needs, aligned to 64 bytes.
  int64_t (*workspace)(const GemmParams& g);
  void (*run)(const GemmParams& g, float* workspace);
  GemmAlgorithm (*algorithm)(const GemmParams& g);
  // Packs a k × n matrix as f32 panels, [ceil(n / kPanel)][k][kPanel].
  void (*pack)(const MatrixRef& from, int64_t k, int64_t n, float* to);
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_GEMM_H_
