// What a call of a kernel is as a product of matrices: its sizes, its work, and the loop that it takes on this
// processor. Kernels say it themselves (Kernel::product), by the functions that choose their loops, for `inspect
// --kernels` and for profiles.
#ifndef SLIPWAY_KERNELS_GEMM_PRODUCT_H_
#define SLIPWAY_KERNELS_GEMM_PRODUCT_H_

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/packing.h"
#include "kernels/registry.h"

namespace slipway::kernels {

struct Loop {
  const char* isa = "";  // the instruction set's name
  const char* way = "";  // for people
};

// A size is the product of dims [first, last) of one of the call's tensors, operands then results, divided by `over` or
// multiplied by `times`.
struct ProductSize {
  int64_t value = 1;
  int tensor = 0, first = 0, last = 0;
  int64_t over = 1, times = 1;
};

struct Product {
  ProductSize batch, m, k, n;  // `batch` products of m × k and k × n; n is 0 where nothing is multiplied
  int64_t groups = 0;          // of rows of the right matrix that have a scale each; 0: there are no scales
  int matrix = -1;             // which operand is the right matrix (of convolutions: the weights); -1: none
  double operations = 0;       // multiplications and additions
  double bytes = 0;            // of the right matrix as it lies, with its scales
  double reads = 1;            // how often the call goes over these
  Loop loop;
};

// Bytes of a tensor as it lies; elements that it repeats count once.
inline double BytesOf(const Tensor& t) {
  double bytes = ByteSize(t.dtype);
  const int matrix = t.is_packed() ? std::max(0, t.rank - 2) : t.rank;
  for (int d = 0; d < matrix; ++d)
    if (t.strides[d] != 0) bytes *= static_cast<double>(t.sizes[d]);
  if (!t.is_packed()) return bytes;
  return bytes / ByteSize(t.dtype) *
         static_cast<double>(PanelBytes(t.sizes[matrix], t.sizes[matrix + 1], t.dtype, t.packed));
}

// The product of dims [first, last) of t, which is tensor number `tensor` of the call.
inline ProductSize SizeOf(const Tensor& t, int tensor, int first, int last) {
  ProductSize s{1, tensor, first, last};
  for (int d = first; d < last; ++d) s.value *= t.sizes[d];
  return s;
}

// The sizes of a product x[…, k] · q[k, n] whose rows are all of x's, and the bytes of operands [1, end).
inline void SetRows(const Call& c, size_t end, Product* p) {
  const Tensor &x = c.in[0], &q = c.in[1];
  p->m = SizeOf(x, 0, 0, x.rank - 1);
  p->k = SizeOf(q, 1, 0, 1), p->n = SizeOf(q, 1, 1, 2);
  p->matrix = 1;
  for (size_t i = 1; i < end; ++i) p->bytes += BytesOf(c.in[i]);
}
// Twice the multiplications.
inline double Operations(const Product& p) {
  return 2.0 * static_cast<double>(p.batch.value) * static_cast<double>(p.m.value) * static_cast<double>(p.k.value) *
         static_cast<double>(p.n.value);
}

// kFunction(call, attributes, rows, product) as what a row of a table has.
template <typename Attributes, bool (*kFunction)(const Call&, const Attributes&, int64_t, Product*)>
bool ProductOfCall(const Call& c, int64_t rows, Product* p) {
  Attributes a{};
  return ReadAttributes(c.ints, c.floats, &a) && kFunction(c, a, rows, p);
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_GEMM_PRODUCT_H_
