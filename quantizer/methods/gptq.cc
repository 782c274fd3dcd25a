// GPTQ. Of H = Σ x xᵀ, with the part `percdamp` of the diagonal's mean added to the diagonal, H⁻¹ = Uᵀ U. Column by
// column a weight's row becomes codes, and what column j is off by, e = (w_j - q_j) / U_jj, is taken from all after it:
// w -= e · U_j. Scales of a group are chosen from the corrected weights when its first column is reached. Features that
// are always zero get zero weights.
//
// Columns go in blocks, and blocks after the current one are corrected by one product of matrices. Rows do not depend
// on each other: threads take 128 at a time, so that memory is that of U and a few rows, and the bits are the same for
// any number of threads.
//
// Two differences from torchao's code. A block ends where a group does, or a group where blocks do, so that a group's
// scale comes from all of its weights with all corrections; torchao looks at no more than the current block, and past
// its end for groups that do not divide it. And corrected weights stay f32 whatever the weight's dtype.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "kernels/gemm/gemm.h"
#include "quantizer/methods/methods.h"

namespace slipway::quantizer {
namespace {

using kernels::GemmParams;
using kernels::ParallelFor;
using kernels::Scratch;
using kernels::Workers;
constexpr auto kF32 = kernels::DType::kF32;

constexpr int64_t kFactorBlock = 128;  // of the factorization
constexpr int64_t kRows = 128;         // that a thread takes

// The Cholesky factor of a block, of doubles, in place; false where it is not positive definite.
bool FactorBlock(double* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double pivot = a[j * n + j];
    for (int64_t p = 0; p < j; ++p) pivot -= a[j * n + p] * a[j * n + p];
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    const double root = a[j * n + j] = std::sqrt(pivot);
    for (int64_t i = j + 1; i < n; ++i) {
      double sum = a[i * n + j];
      for (int64_t p = 0; p < j; ++p) sum -= a[i * n + p] * a[j * n + p];
      a[i * n + j] = sum / root;
    }
  }
  return true;
}

// The inverse of a lower triangular block, with zeros above.
void InvertBlock(const double* l, int64_t n, float* to) {
  std::vector<double> x(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    double* row = x.data() + i * n;
    for (int64_t p = 0; p < i; ++p)
      for (int64_t j = 0; j <= p; ++j) row[j] -= l[i * n + p] * x[static_cast<size_t>(p * n + j)];
    for (int64_t j = 0; j < i; ++j) row[j] /= l[i * n + i];
    row[i] = 1 / l[i * n + i];
  }
  for (int64_t i = 0; i < n * n; ++i) to[i] = static_cast<float>(x[static_cast<size_t>(i)]);
}

std::vector<double> LowerBlock(const float* a, int64_t n, int64_t at, int64_t b) {
  std::vector<double> block(static_cast<size_t>(b * b));
  for (int64_t i = 0; i < b; ++i)
    for (int64_t j = 0; j <= i; ++j) block[static_cast<size_t>(i * b + j)] = a[(at + i) * n + at + j];
  return block;
}

// The lower Cholesky factor of a matrix of which the lower triangle holds, in place; what is above the diagonal's
// blocks stays. False where the matrix is not positive definite.
bool Factor(std::vector<float>& matrix, int64_t n, const Workers* workers, Scratch& scratch) {
  float* a = matrix.data();
  std::vector<float> inverse(kFactorBlock * kFactorBlock), below(static_cast<size_t>(n * kFactorBlock));
  for (int64_t k0 = 0; k0 < n; k0 += kFactorBlock) {
    const int64_t b = std::min(kFactorBlock, n - k0), k1 = k0 + b, m = n - k1;
    std::vector<double> block = LowerBlock(a, n, k0, b);
    if (!FactorBlock(block.data(), b)) return false;
    for (int64_t i = 0; i < b; ++i)
      for (int64_t j = 0; j <= i; ++j)
        a[(k0 + i) * n + k0 + j] = static_cast<float>(block[static_cast<size_t>(i * b + j)]);
    if (m == 0) break;
    // Below: X = A · L⁻ᵀ; `below` is -X.
    InvertBlock(block.data(), b, inverse.data());
    for (int64_t i = 0; i < b * b; ++i) inverse[static_cast<size_t>(i)] = -inverse[static_cast<size_t>(i)];
    kernels::GemmF32({m, b, b, {a + k1 * n + k0, kF32, n, 1}, {inverse.data(), kF32, 1, b}, below.data(), b}, workers,
                     scratch);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < b; ++j) a[(k1 + i) * n + k0 + j] = -below[static_cast<size_t>(i * b + j)];
    // The rest -= X · Xᵀ.
    for (int64_t j = k1; j < n; j += 2 * kFactorBlock) {
      GemmParams g{n - j,
                   std::min(2 * kFactorBlock, n - j),
                   b,
                   {below.data() + (j - k1) * b, kF32, b, 1},
                   {a + j * n + k0, kF32, 1, n}};
      g.c = a + j * n + j, g.c_stride = n, g.accumulate = true;
      kernels::GemmF32(g, workers, scratch);
    }
  }
  return true;
}

// The inverse of a lower triangular matrix, in place.
void Invert(std::vector<float>& matrix, int64_t n, const Workers* workers, Scratch& scratch) {
  float* a = matrix.data();
  std::vector<float> inverse(kFactorBlock * kFactorBlock), sums(static_cast<size_t>(n * kFactorBlock));
  for (int64_t i0 = 0; i0 < n; i0 += kFactorBlock) {
    const int64_t b = std::min(kFactorBlock, n - i0);
    InvertBlock(LowerBlock(a, n, i0, b).data(), b, inverse.data());
    // L[i, :] · X, of the rows above; then -L⁻¹[i, i] times that.
    ParallelFor(workers, i0 / kFactorBlock, 1, [&](int64_t first, int64_t last) {
      Scratch own;
      for (int64_t j = first * kFactorBlock; j < last * kFactorBlock; j += kFactorBlock)
        kernels::GemmF32(
            {b, kFactorBlock, i0 - j, {a + i0 * n + j, kF32, n, 1}, {a + j * n + j, kF32, n, 1}, sums.data() + j, i0},
            nullptr, own);
    });
    for (int64_t i = 0; i < b * b; ++i) inverse[static_cast<size_t>(i)] = -inverse[static_cast<size_t>(i)];
    if (i0 > 0)
      kernels::GemmF32({b, i0, b, {inverse.data(), kF32, b, 1}, {sums.data(), kF32, i0, 1}, a + i0 * n, n}, workers,
                       scratch);
    for (int64_t i = 0; i < b; ++i)
      for (int64_t j = 0; j < b; ++j) a[(i0 + i) * n + i0 + j] = j <= i ? -inverse[static_cast<size_t>(i * b + j)] : 0;
  }
}

// U of H⁻¹ = Uᵀ U, of which the upper triangle holds, and which features are dead. With the order of rows and columns
// turned round, H = L Lᵀ and U = L⁻¹: one factorization, where by H⁻¹ there would be two.
absl::StatusOr<std::vector<float>> FactorOfInverse(const LayerStatistics& s, double percdamp, std::vector<bool>* dead,
                                                   const Workers* workers) {
  const int64_t k = s.k();
  const auto diagonal = [&](int64_t i) { return static_cast<double>(s.hessian()[static_cast<size_t>(i * k + i)]); };
  dead->assign(static_cast<size_t>(k), false);
  double mean = 0, largest = 0;
  for (int64_t i = 0; i < k; ++i) largest = std::max(largest, diagonal(i));
  if (!std::isfinite(largest))
    return absl::InvalidArgumentError("the squares of the layer's inputs are too large for a float");
  if (largest == 0)
    return absl::InvalidArgumentError("all inputs of the layer are zero: there is nothing to calibrate by");
  for (int64_t i = 0; i < k; ++i) {
    (*dead)[static_cast<size_t>(i)] = diagonal(i) == 0;
    mean += diagonal(i) / static_cast<double>(k);
  }
  Scratch scratch;
  constexpr double kMost = 1;
  for (double damp = percdamp;; damp = std::min(kMost, std::max(0.01, damp * 10))) {
    std::vector<float> h(s.hessian().rbegin(), s.hessian().rend());
    for (int64_t i = 0; i < k; ++i) {
      // A dead feature is apart from the others; its number does not matter.
      float& x = h[static_cast<size_t>(i * k + i)];
      x = static_cast<float>((x == 0 ? mean : static_cast<double>(x)) + damp * mean);
    }
    if (Factor(h, k, workers, scratch)) {
      Invert(h, k, workers, scratch);
      std::reverse(h.begin(), h.end());
      bool finite = true;
      for (int64_t i = 0; i < k; ++i) finite = finite && std::isfinite(h[static_cast<size_t>(i * k + i)]);
      if (finite) return h;
    }
    if (damp >= kMost)
      return absl::InvalidArgumentError(
          text::StrCat("the layer's inputs depend on each other too much for GPTQ, with a percdamp of ", damp,
                       ", too; more calibration data may help"));
  }
}

// What is the same for all rows.
struct Solver {
  const Scheme& scheme;
  const std::vector<float>& u;
  const std::vector<bool>& dead;
  int64_t k, group, block;  // `group` a multiple of `block` or the other way round

  // Corrects rows [count, k] and leaves what their codes stand for; scales and zero points [count, k / group].
  void Solve(float* w, int64_t count, float* scale, float* zero, Scratch& scratch) const {
    const int64_t groups = k / group;
    std::vector<float> errors(static_cast<size_t>(count * block));
    for (int64_t j = 0; j < k; ++j)
      if (dead[static_cast<size_t>(j)])
        for (int64_t r = 0; r < count; ++r) w[r * k + j] = 0;
    for (int64_t first = 0, last; first < k; first = last) {
      last = std::min({first + block, k, group > block ? (first / group + 1) * group : k});
      for (int64_t r = 0; r < count; ++r)
        SolveBlock(w + r * k, first, last, scale + r * groups, zero + r * groups, errors.data() + r * block);
      if (last == k) break;
      GemmParams g{
          count, k - last, last - first, {errors.data(), kF32, block, 1}, {u.data() + first * k + last, kF32, k, 1}};
      g.c = w + last, g.c_stride = k, g.accumulate = true;
      kernels::GemmF32(g, nullptr, scratch);
    }
  }

 private:
  // Columns [first, last) of a row; errors are of the other sign.
  void SolveBlock(float* w, int64_t first, int64_t last, float* scale, float* zero, float* errors) const {
    const Loops& loops = BestLoops();
    for (int64_t j = first; j < last; ++j) {
      float& s = scale[j / group];
      float& z = zero[j / group];
      if (j % group == 0) {
        float low, high;
        loops.min_max(w + j, 1, group, &low, &high);
        scheme.Choose(low, high, &s, &z);
      }
      const float* row = u.data() + j * k;
      const float number = scheme.Nearest(w[j], s, z), e = (number - w[j]) / row[j];
      w[j] = number;
      errors[j - first] = e;
      loops.add_scaled(row + j + 1, e, last - j - 1, w + j + 1);
    }
  }
};

}  // namespace

absl::StatusOr<Calibrated> QuantizeGptq(const CalibratedWeight& q) {
  const Config& c = q.scheme.config();
  if (c.hqq)
    return absl::InvalidArgumentError("GPTQ chooses scales from the extremes of corrected weights, not by HQQ");
  const int64_t k = q.k(), n = q.n(), group = q.scheme.shape().group, groups = k / group;
  const std::unique_ptr<kernels::ThreadPool> pool = kernels::ThreadPool::Make(q.threads);
  const Workers* workers = pool ? &pool->workers() : nullptr;
  std::vector<bool> dead;
  ASSIGN_OR_RETURN(const std::vector<float> u, FactorOfInverse(q.statistics, c.gptq_percdamp, &dead, workers));

  q.scheme.Start();
  const absl::Cleanup finish = [&] { q.scheme.Finish(); };
  if (q.scheme.observes()) {  // a scale of the tensor beside those of groups
    ASSIGN_OR_RETURN(RowReader reader, RowReader::Open(q.w));
    int64_t row = 0;
    for (absl::Span<const float> rows = reader.Next(); !rows.empty(); rows = reader.Next()) {
      const int64_t count = static_cast<int64_t>(rows.size()) / k;
      q.scheme.Observe(rows.data(), row, count);
      row += count;
    }
    q.scheme.Settle();
  }
  const int64_t block = group >= c.gptq_block ? c.gptq_block : c.gptq_block / group * group;
  const Solver solver{q.scheme, u, dead, k, group, std::min(block, k)};
  const int64_t together = std::min(n, kRows * q.threads);
  std::vector<float> w, solved, scale, zero;
  std::vector<float> numbers;
  PartWriter writer(q.scheme, q.codes_as_they_are, q.sink);
  ErrorSums sums;
  ASSIGN_OR_RETURN(RowReader reader, RowReader::Open(q.w));
  absl::Span<const float> next = reader.Next();
  for (int64_t row = 0; row < n;) {
    const int64_t count = std::min(together, n - row);
    w.clear();
    while (static_cast<int64_t>(w.size()) < count * k) {
      const size_t take = std::min(next.size(), static_cast<size_t>(count * k) - w.size());
      w.insert(w.end(), next.begin(), next.begin() + static_cast<int64_t>(take));
      next.remove_prefix(take);
      if (next.empty()) next = reader.Next();
    }
    float low, high;
    if (!BestLoops().min_max(w.data(), 1, count * k, &low, &high)) return NotFinite();
    solved = w;
    scale.resize(static_cast<size_t>(count * groups)), zero.resize(scale.size());
    // Blocks of rows at fixed places: the sums do not depend on how many threads there are.
    ParallelFor(workers, (count + kRows - 1) / kRows, 1, [&](int64_t begin, int64_t end) {
      Scratch own;
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b * kRows, rows = std::min(kRows, count - first);
        solver.Solve(solved.data() + first * k, rows, scale.data() + first * groups, zero.data() + first * groups, own);
      }
    });
    if (!BestLoops().min_max(solved.data(), 1, count * k, &low, &high))
      return absl::InvalidArgumentError("GPTQ's corrections are too large for a float; a larger percdamp may help");
    numbers.resize(w.size());
    ASSIGN_OR_RETURN(int8_t* const codes, writer.Rows(count));
    q.scheme.QuantizeWith(solved.data(), row, count, scale.data(), zero.data(), codes, numbers.data());
    BestLoops().errors(w.data(), numbers.data(), count * k, &sums);
    row += count;
  }
  RETURN_IF_ERROR(writer.Finish());
  return Calibrated{Error::Of(sums)};
}

}  // namespace slipway::quantizer
