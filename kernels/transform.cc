// The discrete Fourier transform along the last dim, in f64: mixed radix, by the prime factors of the length.
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {
namespace {

using Complex = std::complex<double>;

// out[0 … n) = the transform of in[0], in[stride], …; roots[k · step] = exp(-2πik/n).
void Transform(const Complex* in, int64_t stride, int64_t n, const Complex* roots, int64_t step, Complex* out, Complex* scratch) {
  if (n == 1) {
    out[0] = in[0];
    return;
  }
  int64_t p = 2;
  while (p * p <= n && n % p != 0) ++p;
  if (n % p != 0) p = n;
  const int64_t m = n / p;
  for (int64_t r = 0; r < p; ++r) Transform(in + r * stride, stride * p, m, roots, step * p, scratch + r * m, out + r * m);
  for (int64_t k = 0; k < m; ++k)
    for (int64_t q = 0; q < p; ++q) {
      const int64_t at = k + q * m;
      Complex sum = scratch[k];
      for (int64_t r = 1; r < p; ++r) sum += scratch[r * m + k] * roots[r * at % n * step];
      out[at] = sum;
    }
}

// in[0]: real parts, in[1], where there is one: imaginary; out[0], out[1] likewise.
const char* Dft(const Call& c) {
  const Tensor &re = c.in[0], &out = c.out[0];
  const int last = re.rank - 1;
  for (const auto* list : {&c.in, &c.out})
    for (const Tensor& t : *list) {
      bool same = t.rank == re.rank && last >= 0;
      for (int d = 0; same && d <= last; ++d) same = t.sizes[d] == re.sizes[d];
      if (!same) return "the sizes do not agree";
    }
  const int64_t n = re.sizes[last];
  if (out.numel() == 0) return nullptr;
  std::vector<Complex> roots(n), x(n), y(n), scratch(n);
  for (int64_t k = 0; k < n; ++k) roots[k] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
  std::vector<double> row(n);
  int64_t rows = 1;
  for (int d = 0; d < last; ++d) rows *= re.sizes[d];
  int64_t at[kMaxRank] = {};
  for (; rows > 0; --rows) {
    auto base = [&](const Tensor& t) {
      int64_t o = 0;
      for (int d = 0; d < last; ++d) o += at[d] * t.strides[d];
      return static_cast<char*>(t.data) + o * ByteSize(t.dtype);
    };
    LoadRow<double>(base(re), re.dtype, re.strides[last], n, re.dtype, row.data());
    for (int64_t i = 0; i < n; ++i) x[i] = row[i];
    if (c.in.size() > 1) {
      LoadRow<double>(base(c.in[1]), c.in[1].dtype, c.in[1].strides[last], n, c.in[1].dtype, row.data());
      for (int64_t i = 0; i < n; ++i) x[i].imag(row[i]);
    }
    Transform(x.data(), 1, n, roots.data(), 1, y.data(), scratch.data());
    for (int64_t i = 0; i < n; ++i) row[i] = y[i].real();
    StoreRow<double>(row.data(), n, base(out), out.dtype, out.strides[last]);
    for (int64_t i = 0; i < n; ++i) row[i] = y[i].imag();
    StoreRow<double>(row.data(), n, base(c.out[1]), c.out[1].dtype, c.out[1].strides[last]);
    for (int d = last - 1; d >= 0 && ++at[d] == re.sizes[d]; --d) at[d] = 0;
  }
  return nullptr;
}

constexpr Kernel kKernels[] = {{"dft", Dft, false, 1, 2}};

}  // namespace

std::span<const Kernel> TransformKernels() { return kKernels; }

}  // namespace slipway::kernels
