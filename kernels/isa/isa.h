// The inner loops that are compiled once per instruction set. body.h is their one source, written with vectors whose
// width each file that includes it (base.cc, avx2.cc, avx512.cc, neon.cc) states; BestIsa() picks the best set that the
// processor has when the program first asks. Nothing here allocates, checks or uses threads: callers pass sizes that
// are right, memory that is large enough, and scratch where a function asks for it.
#ifndef SLIPWAY_KERNELS_ISA_ISA_H_
#define SLIPWAY_KERNELS_ISA_ISA_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// Columns of a panel of a packed weight, for every instruction set: what AVX2 takes at once.
inline constexpr int64_t kPanel = 16;

// A matrix of f32, bf16 or f16 in memory; strides in elements.
struct MatrixRef {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t row = 0, column = 0;
};

// c[m,n] = bias[n] + a[m,k] · b[k,n], or added to c. Sums are kept in f32.
struct GemmCall {
  int64_t m = 0, n = 0, k = 0;
  MatrixRef a, b;
  float* c = nullptr;
  int64_t c_row = 0, c_column = 1;
  const float* bias = nullptr;  // n, or null
  bool accumulate = false;      // c holds something already; there is no bias then
  // b is a packed matrix (panels.h) of b.dtype with b.row >= k rows, of which the first k count.
  bool packed = false;
  bool b_is_bf16 = false;  // b's elements are numbers of bf16, of whatever dtype they are stored
};

// Functions of dense rows of f32, within a few units in the last place. The result may be the operand.
// Sines and cosines are of |x| < 2^30.
// clang-format off
enum class RowOp : uint8_t {
  kExp, kTanh, kErf, kSigmoid, kSilu, kGelu, kGeluTanh, kRelu, kNeg, kSqrt, kRsqrt, kHardSigmoid, kHardSwish, kLog,
  kLog1p, kExpm1, kSin, kCos, kMish,
};
// clang-format on
inline constexpr int kRowOps = 19;
enum class PairOp : uint8_t { kAdd, kSub, kMul, kDiv };
inline constexpr int kPairOps = 4;

// A step of a recurrent cell for one row of n units. Gates lie n apart, in torch's order: LSTM i f g o, GRU r z n.
enum class Cell : uint8_t { kLstm, kGru, kTanh, kRelu };
inline constexpr int kCells = 4;
constexpr int Gates(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
struct CellCall {
  const float *x, *own, *bias;  // what input and state contribute; of the latter: a bias, or null
  const float* h;               // the state: of kGru
  float* c;                     // of kLstm, updated
  float* out;                   // the next state, which may not be where h is
  int64_t n;
};

// How `gemm` takes a product.
enum class GemmWay : uint8_t {
  kPanels,      // few rows: each packed panel is read once, with all sums in registers
  kDots,        // few rows: dots along the dense columns of b
  kCombine,     // one row: a sum of the dense rows of b
  kColumnDots,  // few columns: dots along the dense rows of a
  kTransposed,  // tiles of the transposed product
  kTiles,       // tiles, of blocks of a and b
};

struct ConvIsa;
struct QuantIsa;

struct Isa {
  const char* name;
  // Floats of scratch memory that `gemm` needs, which must be aligned to 64 bytes.
  int64_t (*gemm_scratch)(const GemmCall& g);
  void (*gemm)(const GemmCall& g, float* scratch);
  GemmWay (*gemm_way)(const GemmCall& g);
  // A k × n matrix as panels (panels.h) of f32, [ceil(n / kPanel)][k][kPanel].
  void (*pack)(const MatrixRef& from, int64_t k, int64_t n, float* to);
  void (*row[kRowOps])(const float* x, float* out, int64_t n);
  // An operand of one element counts for all (`one`: 1 the first, 2 the second).
  void (*pair[kPairOps])(const float* x, const float* y, float* out, int64_t n, int one);
  // out = exp(x - shift), which may be written over x; the sum of that.
  float (*exp_sum)(const float* x, float shift, float* out, int64_t n);
  float (*max)(const float* x, int64_t n);  // -inf of nothing; NaN does not count
  // x += add, or x = add where that is not 0 (`instead`); then the largest as above.
  float (*add_max)(float* x, const float* add, bool instead, int64_t n);
  void (*scale)(float* x, float by, int64_t n);
  void (*softmax)(const float* x, float* out, int64_t n);
  void (*log_softmax)(const float* x, float* out, int64_t n);
  // out[i] = bias + sum over t of w[t] · x[offsets[t] + i].
  void (*taps)(const float* x, const int64_t* offsets, const float* w, int64_t taps, float bias, float* out, int64_t n);
  // (x - mean) / sqrt(variance + epsilon) · weight + bias; these may be null.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon, float* out, int64_t n);
  const ConvIsa* conv;  // conv.h
  // x / sqrt(mean of squares + epsilon) · weight, which may be null.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, float* out, int64_t n);
  double (*sum)(const float* x, int64_t n);
  // sums[j] += x[i · row + j] for i < rows, j < n: whole vectors of columns add up eight rows at a time in f32.
  void (*sum_rows)(const float* x, int64_t row, int64_t rows, int64_t n, double* sums);
  // The sum of (x - center)², in f64; sums[j] += (x[i · row + j] - centers[j])² for i < rows, j < n.
  double (*sum_squares)(const float* x, int64_t n, double center);
  void (*sum_squares_of_rows)(const float* x, int64_t row, int64_t rows, int64_t n, const double* centers,
                              double* sums);
  // From and to rows of bf16 and f16; also from i8.
  void (*widen)(const void* x, DType dtype, float* out, int64_t n);
  void (*narrow)(const float* x, void* out, DType dtype, int64_t n);
  // to[i * to_row + j] = from[j * from_row + i] for i < rows, j < columns.
  void (*transpose)(const uint32_t* from, int64_t from_row, uint32_t* to, int64_t to_row, int64_t rows,
                    int64_t columns);
  // to[2 · i] = to[2 · i + 1] = from[i] for i < n, and the same to `again`, which may be null.
  void (*twice)(const uint32_t* from, int64_t n, uint32_t* to, uint32_t* again);
  void (*cell)(Cell cell, const CellCall& c);
  const QuantIsa* quant;  // quant.h
};

// The best of this processor; the environment's SLIPWAY_ISA (v2, avx2, avxvnni, avx512, avx512vnni, avx512bf16) caps
// it.
const Isa& BestIsa();

// What SLIPWAY_ISA caps it to; null where that is not set, or not the name of a set.
const char* IsaCap();

// Null where this build or this processor has none of that name.
const Isa* FindIsa(const char* name);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_ISA_H_
