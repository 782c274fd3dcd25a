// Softmax, layer norm and RMS norm over rows, which are the last dim. Rows are worked on in the compute type; f32 goes
// through the instruction set's loops, f64 through plain ones.
#include <cmath>
#include <type_traits>

#include "kernels/convert.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

// Calls f(from, to, row) for every row along the last dim, of in[0] and of out[0], in the compute type T: dense rows of
// it are handed over where they are, others by way of `row`. Threads share the rows.
template <typename T, typename F>
void ForEachRow(const Call& c, F f) {
  const Tensor &in = c.in[0], &out = c.out[0];
  const int last = out.rank - 1;
  const int64_t n = out.sizes[last];
  constexpr DType kType = std::is_same_v<T, double> ? DType::kF64 : DType::kF32;
  const bool reads = in.dtype != kType || c.compute != kType || (in.strides[last] != 1 && n > 1);
  const bool writes = out.dtype != kType || (out.strides[last] != 1 && n > 1);
  const Tensor from = DropDim(in, last), to = DropDim(out, last);
  ParallelFor(*c.scratch, c.workers, to.numel(), (int64_t{1} << 13) / (n + 1) + 1,
              [&](int64_t first, int64_t end, Scratch& scratch) {
                T* const row = reads || writes ? scratch.Take<T>(n) : nullptr;
                if (scratch.querying()) return;
                for (Positions<2> at(to, {&to, &from}, first); first < end; ++first, at.Next()) {
                  if (reads) LoadRow<T>(at[1], in.dtype, in.strides[last], n, c.compute, row);
                  f(reads ? row : reinterpret_cast<const T*>(at[1]), writes ? row : reinterpret_cast<T*>(at[0]));
                  if (writes) StoreRow<T>(row, n, at[0], out.dtype, out.strides[last]);
                }
              });
}

// A vector of n as dense numbers of T; null for none.
template <typename T>
const T* Vector(const Call& c, const Tensor* t, int64_t n) {
  constexpr DType kType = std::is_same_v<T, double> ? DType::kF64 : DType::kF32;
  if (t == nullptr) return nullptr;
  if (t->dtype == kType && c.compute == kType && (t->strides[0] == 1 || n == 1)) return t->as<const T>();
  T* row = c.scratch->Take<T>(n);
  LoadRow<T>(t->data, t->dtype, t->strides[0], n, c.compute, row);
  return row;
}

// Along the last dim.
template <bool kLog>
const char* Softmax(const Call& c, const NoAttributes&) {
  if (c.in[0].rank == 0 || !SameSizes(c.in[0], c.out[0])) return kSizesDiffer;
  const int64_t n = c.out[0].sizes[c.out[0].rank - 1];
  return WithFloatType(c.compute, [&]<typename T>() {
    ForEachRow<T>(c, [n](const T* x, T* y) {
      if constexpr (std::is_same_v<T, float>) {
        (kLog ? BestIsa().reduction.log_softmax : BestIsa().reduction.softmax)(x, y, n);
      } else {
        if (n == 0) return;
        T most = x[0], sum = 0;
        for (int64_t i = 0; i < n; ++i) most = x[i] != x[i] || x[i] > most ? x[i] : most;
        for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - most);
        const T log = std::log(sum), scale = 1 / sum;
        for (int64_t i = 0; i < n; ++i) y[i] = kLog ? x[i] - most - log : std::exp(x[i] - most) * scale;
      }
    });
    return nullptr;
  });
}

// Over the last dim: (x - mean) / sqrt(variance + epsilon), times in[1] plus in[2] where given; kRms: the mean is not
// subtracted, and the mean of squares stands for the variance.
template <bool kRms>
const char* Norm(const Call& c, const NormAttributes& a) {
  if (c.in[0].rank == 0 || !SameSizes(c.in[0], c.out[0])) return kSizesDiffer;
  const int64_t n = c.out[0].sizes[c.out[0].rank - 1];
  const Tensor *with_weight, *with_bias;
  if (!NormParameters(c, a.parts, n, &with_weight, &with_bias) || (kRms && with_bias)) return kSizesDiffer;
  return WithFloatType(c.compute, [&]<typename T>() {
    const T *weight = Vector<T>(c, with_weight, n), *bias = Vector<T>(c, with_bias, n);
    ForEachRow<T>(c, [&](const T* x, T* y) {
      if constexpr (std::is_same_v<T, float>) {
        if constexpr (kRms)
          BestIsa().reduction.rms_norm(x, weight, static_cast<float>(a.epsilon), y, n);
        else
          BestIsa().reduction.layer_norm(x, weight, bias, static_cast<float>(a.epsilon), y, n);
      } else {
        T sum = 0, squares = 0;
        for (int64_t i = 0; i < n && !kRms; ++i) sum += x[i];
        const T mean = kRms ? 0 : sum / static_cast<T>(n);
        for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
        const T scale = 1 / std::sqrt(squares / static_cast<T>(n) + a.epsilon);
        for (int64_t i = 0; i < n; ++i) {
          y[i] = (x[i] - mean) * scale;
          if (weight) y[i] *= weight[i];
          if (bias) y[i] += bias[i];
        }
      }
    });
    return nullptr;
  });
}

constexpr Kernel kKernels[] = {
    With<NoAttributes, Softmax<false>>({"softmax"}),
    With<NoAttributes, Softmax<true>>({"log_softmax"}),
    With<NormAttributes, Norm<false>>({"layer_norm"}),
    With<NormAttributes, Norm<true>>({"rms_norm"}),
};

}  // namespace

std::span<const Kernel> NormalizeKernels() { return kKernels; }

}  // namespace slipway::kernels
