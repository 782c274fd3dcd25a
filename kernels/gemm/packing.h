// Packed weights: a matrix of a product, k × n, in panels of kPanel columns, the last one filled up with zeros.
// Products read such a weight straight through (isa.h), so a native model holds it in this form.
//
//   kPanels           [n / kPanel][k][kPanel] elements of the dtype; of u8 they are less by 128
//   kQuads            integers of 8 bits: [n / kPanel][k / 4][kPanel][4] bytes, four rows of a column next to each
//                     other, as the
//                     instructions for sums of four products take them. Unsigned: i8 is larger by 128
//   kNibbles          integers in -8..7: [n / kPanel][k / 8][kPanel][4] bytes. Byte b of rows 8i … 8i + 7 of a column
//                     has row 8i + b in
//                     its lower half and row 8i + 4 + b in its upper one, both larger by 8
//   kUnsignedNibbles  integers in 0..15: the same, not larger
//
//   kFilters          f32, bf16, f16: those of a convolution whose images have channels last (conv/filters.h)
//   kTaps             f32: those of a transposed convolution (conv/filters.h)
//
// Rows behind k are zeros as they are stored.
#ifndef SLIPWAY_KERNELS_GEMM_PACKING_H_
#define SLIPWAY_KERNELS_GEMM_PACKING_H_

#include <cstdint>
#include <utility>

#include "kernels/executor/plan.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {

// Whether operand `operand` of the step is such a matrix and its kernel takes it packed like this. The plan's indices
// are in range.
bool CanUsePacked(const Plan& plan, const Step& step, int operand, Packing packing, WeightMatrix* matrix);

// The integers that a packing in nibbles holds: from the first to the second.
constexpr std::pair<int, int> NibbleRange(Packing p) {
  return p == Packing::kNr16Int4 ? std::pair(-8, 7) : std::pair(0, 15);
}
// Whether `n` integers of i8 or u8 may be packed like this.
bool FitsPacking(const void* integers, DType dtype, int64_t n, Packing packing);

// Bytes of a packed matrix; -1 where they do not fit.
int64_t PanelBytes(int64_t k, int64_t n, DType dtype, Packing packing = Packing::kNr16);

// Panels [first, last) of `matrix`, of f32, bf16, f16, i8 or u8, one after the other. What goes into nibbles must fit.
void PackPanels(const MatrixRef& matrix, int64_t k, int64_t n, int64_t first, int64_t last, void* to,
                Packing packing = Packing::kNr16);

// The same for a matrix that is the whole of a constant, packed as it says: how many panels, the bytes of one and of
// all (-1 where they do not fit), panels [first, last) of the constant at `from`, the way back.
int64_t Panels(const WeightMatrix& m);
int64_t PanelBytes(const WeightMatrix& m);
int64_t PackedBytes(const WeightMatrix& m);
void PackPanels(const void* from, const WeightMatrix& m, int64_t first, int64_t last, void* to);
void UnpackPanels(const void* panels, const WeightMatrix& m, void* to);

// The way back: element (i, j) goes to to[i * row + j * column].
void UnpackPanels(const void* panels, DType dtype, int64_t k, int64_t n, void* to, int64_t row, int64_t column,
                  Packing packing = Packing::kNr16);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_GEMM_PACKING_H_
