// See panels.h.
#include "kernels/panels.h"

#include <algorithm>

namespace slipway::kernels {
namespace {

template <typename T>
void Pack(const T* from, int64_t row, int64_t column, int64_t k, int64_t n, T* to) {
  if (n < kPanel) std::fill_n(to, k * kPanel, T(0));
  if (row == 1) {  // rows of memory go down the panel: some of them together, so that both sides stay in the cache
    constexpr int64_t kRun = 16;
    for (int64_t p = 0; p < k; p += kRun)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = p; i < std::min(k, p + kRun); ++i) to[i * kPanel + j] = from[j * column + i];
    return;
  }
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = 0; j < n; ++j) to[p * kPanel + j] = from[p * row + j * column];
}

template <typename T>
void Unpack(const T* from, int64_t k, int64_t n, T* to, int64_t row, int64_t column) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t p = 0; p < k; ++p) to[p * row + j * column] = from[(j / kPanel * k + p) * kPanel + j % kPanel];
}

}  // namespace

bool TakesPacked(const Plan& p, const Step& s, int operand, WeightMatrix* m) {
  if (s.kind != Step::kKernel || s.kernel == nullptr || s.kernel->packed < 0 || operand != s.kernel->packed || operand >= s.inputs)
    return false;
  const View& v = p.views[s.first_view + operand];
  const Buffer& b = p.buffers[v.buffer];
  auto known = [&](int32_t e) { return p.exprs[e].op == Expr::kInt; };
  auto value = [&](int32_t e) { return p.exprs[e].value; };
  const int32_t *sizes = p.dims.data() + v.first_dim, *strides = sizes + v.rank;
  if (b.kind != Buffer::kConstant || v.rank < 2 || !known(v.offset) || value(v.offset) != 0) return false;
  for (int d = 0; d < v.rank; ++d) {
    const bool matrix = d >= v.rank - 2;
    if (!known(strides[d]) || (matrix ? !known(sizes[d]) : value(strides[d]) != 0)) return false;
  }
  // Sums of what is narrower than f32 are f32, of its elements as they are.
  if (ComputeType(s.compute) != DType::kF32 || (v.dtype != s.compute && s.compute != DType::kF32)) return false;
  if (v.dtype != DType::kF32 && v.dtype != DType::kBF16 && v.dtype != DType::kF16) return false;
  *m = {v.dtype, value(sizes[v.rank - 2]), value(sizes[v.rank - 1]), value(strides[v.rank - 2]), value(strides[v.rank - 1])};
  int64_t bytes;
  return m->k > 0 && m->n > 0 && ((m->row == 1 && m->column == m->k) || (m->row == m->n && m->column == 1)) &&
         !__builtin_mul_overflow(m->k, m->n, &bytes) && !__builtin_mul_overflow(bytes, int64_t{ByteSize(v.dtype)}, &bytes) &&
         known(b.bytes) && bytes == value(b.bytes);
}

int64_t PanelBytes(int64_t k, int64_t n, DType dtype) {
  int64_t bytes, columns;
  if (k < 0 || n < 0 || __builtin_add_overflow(n, kPanel - 1, &columns) ||
      __builtin_mul_overflow(columns / kPanel * kPanel, k, &bytes) ||
      __builtin_mul_overflow(bytes, int64_t{ByteSize(dtype)}, &bytes))
    return -1;
  return bytes;
}

void PackPanels(const MatrixRef& m, int64_t k, int64_t n, int64_t first, int64_t last, void* to) {
  auto pack = [&]<typename T>(T) {
    T* at = static_cast<T*>(to);
    for (int64_t panel = first; panel < last; ++panel, at += k * kPanel) {
      const int64_t j = panel * kPanel;
      Pack(static_cast<const T*>(m.data) + j * m.column, m.row, m.column, k, std::min(kPanel, n - j), at);
    }
  };
  if (ByteSize(m.dtype) == 4)
    pack(uint32_t{});
  else
    pack(uint16_t{});
}

void UnpackPanels(const void* panels, DType dtype, int64_t k, int64_t n, void* to, int64_t row, int64_t column) {
  if (ByteSize(dtype) == 4)
    Unpack(static_cast<const uint32_t*>(panels), k, n, static_cast<uint32_t*>(to), row, column);
  else
    Unpack(static_cast<const uint16_t*>(panels), k, n, static_cast<uint16_t*>(to), row, column);
}

}  // namespace slipway::kernels
