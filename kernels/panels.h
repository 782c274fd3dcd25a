// Packed weights: the right matrix of a product, k × n, as panels of kPanel columns, [n / kPanel][k][kPanel], the last one
// filled up with zeros. Products read such a weight straight through (isa.h), so a native model holds it in this form; the
// elements keep their dtype.
#ifndef SLIPWAY_KERNELS_PANELS_H_
#define SLIPWAY_KERNELS_PANELS_H_

#include <cstdint>

#include "kernels/isa.h"
#include "kernels/plan.h"

namespace slipway::kernels {

// Whether operand `operand` of the step is such a matrix and its kernel takes it packed. The plan's indices are in range.
bool TakesPacked(const Plan& plan, const Step& step, int operand, WeightMatrix* matrix);

// Bytes of a packed k × n matrix; -1 where they do not fit.
int64_t PanelBytes(int64_t k, int64_t n, DType dtype);

// Panels [first, last) of `matrix`, of f32, bf16 or f16, one after the other.
void PackPanels(const MatrixRef& matrix, int64_t k, int64_t n, int64_t first, int64_t last, void* to);

// The way back: element (i, j) goes to to[i * row + j * column].
void UnpackPanels(const void* panels, DType dtype, int64_t k, int64_t n, void* to, int64_t row, int64_t column);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_PANELS_H_
