// Kernel `dft`: the forward discrete Fourier transform along the last dim, without a factor, in f64. Lengths of small
// prime factors go through Stockham's self-sorting passes of radix 2, 3, 4, 5 and any other; for lengths with a large
// prime factor Bluestein's method makes the transform a convolution of a length that has small factors only. Either way
// O(n log n). There is no FFT library to use: native libraries need libc only, and Debian 12 packages no header-only
// one.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

// std::complex checks products for NaN, which costs more than they do.
struct Complex {
  double re, im;
};
inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
inline Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
inline Complex operator*(double a, Complex b) { return {a * b.re, a * b.im}; }
inline Complex Conjugate(Complex a) { return {a.re, -a.im}; }
inline Complex TimesMinusI(Complex a) { return {a.im, -a.re}; }

// exp(-2πi k / n) for 0 <= k < n. The angle is that of an eighth of a turn at most, so that it is exact to the last
// digit.
Complex Root(int64_t k, int64_t n) {
  auto angle = [n](int64_t k) { return 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n); };
  if (2 * k > n) return Conjugate(Root(n - k, n));
  if (4 * k > n) {  // beyond a quarter: mirrored
    const double a = std::numbers::pi * static_cast<double>(n - 2 * k) / static_cast<double>(n);
    return {-std::cos(a), -std::sin(a)};
  }
  return {std::cos(angle(k)), -std::sin(angle(k))};
}
// roots[k] for all k, by products of two from short tables: few sines, each result within two roundings.
void FillRoots(int64_t n, Complex* roots) {
  constexpr int64_t kStep = 64;
  for (int64_t k = 0; k < std::min(n, kStep); ++k) roots[k] = Root(k, n);
  for (int64_t k = kStep; k < n; k += kStep) {
    const Complex first = Root(k, n);
    for (int64_t j = 0; j < std::min(kStep, n - k); ++j) roots[k + j] = first * roots[j];
  }
}

// A transform of length n by passes, of which `factors` states the radices.
struct Passes {
  int64_t n = 1;
  int count = 0;
  int64_t factors[64];
  Complex* roots = nullptr;  // n

  explicit Passes(int64_t length) : n(length) {
    int64_t rest = n;
    auto take = [&](int64_t p) {
      for (; rest % p == 0; rest /= p) factors[count++] = p;
    };
    take(4), take(2), take(3), take(5);
    for (int64_t p = 7; p * p <= rest; p += 2) take(p);
    if (rest > 1) factors[count++] = rest;
  }
  // Operations, about.
  double cost() const {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += static_cast<double>(factors[i]) * (factors[i] <= 5 ? 1.0 : 1.1);
    return sum * static_cast<double>(n);
  }
  void TakeRoots(Scratch& scratch) {
    roots = scratch.Take<Complex>(n);
    if (!scratch.querying()) FillRoots(n, roots);
  }

  // The transform of x, n numbers; `spare` has as many. Gives which of the two the result is in.
  Complex* Run(Complex* x, Complex* spare) const {
    int64_t done = 1;
    for (int i = 0; i < count; done *= factors[i], ++i, std::swap(x, spare)) {
      switch (factors[i]) {
        case 2: Pass<2>(x, spare, done); break;
        case 3: Pass<3>(x, spare, done); break;
        case 4: Pass<4>(x, spare, done); break;
        case 5: Pass<5>(x, spare, done); break;
        default: PassOf(factors[i], x, spare, done);
      }
    }
    return x;
  }

 private:
  // From x as [p][m][s] to y as [m][p][s], where s is the product of the factors so far.
  template <int kP>
  void Pass(const Complex* x, Complex* y, int64_t s) const {
    const int64_t m = n / (kP * s);
    for (int64_t q = 0; q < m; ++q) {
      Complex w[kP];
      for (int k = 1; k < kP; ++k) w[k] = roots[q * k * s];
      for (int64_t j = 0; j < s; ++j) {
        Complex a[kP];
        for (int r = 0; r < kP; ++r) a[r] = x[(r * m + q) * s + j];
        Butterfly(a);
        Complex* to = y + q * kP * s + j;
        to[0] = a[0];
        for (int k = 1; k < kP; ++k) to[k * s] = a[k] * w[k];
      }
    }
  }
  static void Butterfly(Complex (&a)[2]) {
    const Complex sum = a[0] + a[1];
    a[1] = a[0] - a[1], a[0] = sum;
  }
  static void Butterfly(Complex (&a)[3]) {
    constexpr double kSin = 0.86602540378443864676;
    const Complex sum = a[1] + a[2], middle = a[0] - 0.5 * sum, turn = TimesMinusI(kSin * (a[1] - a[2]));
    a[0] = a[0] + sum, a[1] = middle + turn, a[2] = middle - turn;
  }
  static void Butterfly(Complex (&a)[4]) {
    const Complex s02 = a[0] + a[2], d02 = a[0] - a[2], s13 = a[1] + a[3], d13 = TimesMinusI(a[1] - a[3]);
    a[0] = s02 + s13, a[1] = d02 + d13, a[2] = s02 - s13, a[3] = d02 - d13;
  }
  static void Butterfly(Complex (&a)[5]) {
    constexpr double kCos1 = 0.30901699437494742410, kCos2 = -0.80901699437494742410;
    constexpr double kSin1 = 0.95105651629515357212, kSin2 = 0.58778525229247312917;
    const Complex s14 = a[1] + a[4], d14 = a[1] - a[4], s23 = a[2] + a[3], d23 = a[2] - a[3];
    const Complex m1 = a[0] + kCos1 * s14 + kCos2 * s23, m2 = a[0] + kCos2 * s14 + kCos1 * s23;
    const Complex t1 = TimesMinusI(kSin1 * d14 + kSin2 * d23), t2 = TimesMinusI(kSin2 * d14 - kSin1 * d23);
    a[0] = a[0] + s14 + s23, a[1] = m1 + t1, a[2] = m2 + t2, a[3] = m2 - t2, a[4] = m1 - t1;
  }
  void PassOf(int64_t p, const Complex* x, Complex* y, int64_t s) const {
    const int64_t m = n / (p * s), step = n / p;
    for (int64_t q = 0; q < m; ++q)
      for (int64_t k = 0; k < p; ++k)
        for (int64_t j = 0; j < s; ++j) {
          Complex sum = x[q * s + j];
          for (int64_t r = 1, at = k; r < p; ++r, at = at + k < p ? at + k : at + k - p)
            sum = sum + x[(r * m + q) * s + j] * roots[at * step];
          y[(q * p + k) * s + j] = sum * roots[q * k * s];
        }
  }
};

// A transform of any length, with its tables.
class Transform {
 public:
  explicit Transform(int64_t n)
      : passes_(n), wide_(GoodLength(2 * n - 1)), by_chirp_(3 * wide_.cost() < passes_.cost()) {}

  void TakeTables(Scratch& scratch) {
    if (!by_chirp_) return passes_.TakeRoots(scratch);
    const int64_t n = passes_.n, m = wide_.n;
    wide_.TakeRoots(scratch);
    chirp_ = scratch.Take<Complex>(n), kernel_ = scratch.Take<Complex>(m);
    Complex* const spare = scratch.Take<Complex>(m);
    if (scratch.querying()) return;
    // exp(-πi k² / n), whose exponent counts modulo 2n.
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), ++k)
      chirp_[k] = Root(square, 2 * n);
    std::fill_n(kernel_, m, Complex{0, 0});
    for (int64_t k = 0; k < n; ++k)
      kernel_[k] = kernel_[k == 0 ? 0 : m - k] = 1.0 / static_cast<double>(m) * Conjugate(chirp_[k]);
    if (Complex* const made = wide_.Run(kernel_, spare); made != kernel_) std::copy_n(made, m, kernel_);
  }
  // Numbers of x and of the spare memory that Run gets; n of x are given.
  int64_t size() const { return by_chirp_ ? wide_.n : passes_.n; }
  const Complex* Run(Complex* x, Complex* spare) const {
    if (!by_chirp_) return passes_.Run(x, spare);
    const int64_t n = passes_.n, m = wide_.n;
    for (int64_t k = 0; k < n; ++k) x[k] = x[k] * chirp_[k];
    std::fill(x + n, x + m, Complex{0, 0});
    Complex* y = wide_.Run(x, spare);
    // The inverse is the forward transform of conjugates.
    for (int64_t k = 0; k < m; ++k) y[k] = Conjugate(y[k] * kernel_[k]);
    y = wide_.Run(y, y == x ? spare : x);
    for (int64_t k = 0; k < n; ++k) y[k] = Conjugate(y[k]) * chirp_[k];
    return y;
  }

 private:
  // The least product of powers of 2, 3 and 5 that is not below n.
  static int64_t GoodLength(int64_t n) {
    int64_t best = 1;
    while (best < n) best *= 2;
    for (int64_t five = 1; five < best; five *= 5)
      for (int64_t x = five; x < best; x *= 3) {
        int64_t y = x;
        while (y < n) y *= 2;
        best = std::min(best, y);
      }
    return best;
  }

  Passes passes_, wide_;
  bool by_chirp_;
  Complex *chirp_ = nullptr, *kernel_ = nullptr;
};

// in[0]: real parts, in[1], where there is one: imaginary; out[0], out[1] likewise.
const char* Dft(const Call& c, const NoAttributes&) {
  const Tensor &re = c.in[0], &out = c.out[0];
  const int last = re.rank - 1;
  if (last < 0) return kSizesDiffer;
  for (const auto* list : {&c.in, &c.out})
    for (const Tensor& t : *list)
      if (!SameSizes(t, re)) return kSizesDiffer;
  const int64_t n = re.sizes[last];
  if (re.numel() == 0) return nullptr;
  if (n > int64_t{1} << 40) return "a transform of too many numbers";
  Transform transform(n);
  transform.TakeTables(*c.scratch);
  const Tensor rows = Head(re, last);
  ParallelFor(*c.scratch, c.workers, rows.numel(), std::max<int64_t>(1, 4096 / n),
              [&](int64_t first, int64_t end, Scratch& scratch) {
                Complex *const x = scratch.Take<Complex>(transform.size()), *const spare =
                                                                                scratch.Take<Complex>(transform.size());
                double* const part = scratch.Take<double>(n);
                if (scratch.querying()) return;
                for (Positions<0> at(rows, {}, first); first < end; ++first, at.Next()) {
                  auto load = [&](const Tensor& t) {
                    LoadRow<double>(at.Of(t), t.dtype, t.strides[last], n, t.dtype, part);
                  };
                  load(re);
                  for (int64_t i = 0; i < n; ++i) x[i] = {part[i], 0};
                  if (c.in.size() > 1) {
                    load(c.in[1]);
                    for (int64_t i = 0; i < n; ++i) x[i].im = part[i];
                  }
                  const Complex* y = transform.Run(x, spare);
                  for (int64_t i = 0; i < n; ++i) part[i] = y[i].re;
                  StoreRow<double>(part, n, at.Of(out), out.dtype, out.strides[last]);
                  for (int64_t i = 0; i < n; ++i) part[i] = y[i].im;
                  StoreRow<double>(part, n, at.Of(c.out[1]), c.out[1].dtype, c.out[1].strides[last]);
                }
              });
  return nullptr;
}

constexpr Kernel kKernels[] = {
    With<NoAttributes, Dft>({.name = "dft", .inputs = 1, .outputs = 2, .queries_workspace = true})};

}  // namespace

std::span<const Kernel> TransformKernels() { return kKernels; }

}  // namespace slipway::kernels
