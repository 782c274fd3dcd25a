// Softmax and layer normalization over the last dims of dense tensors' rows.
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/check.h"
#include "kernels/convert.h"
#include "kernels/isa.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {
namespace {

constexpr const char* kFloatsOnly = "the operator is for floating-point numbers";

// Calls f(row) for every row along the last dim of in[0], and writes what f leaves in `row` to out[0].
template <typename T, typename F>
void ForEachRow(const Call& c, F f) {
  const Tensor &in = c.in[0], &out = c.out[0];
  const int last = out.rank - 1;
  const Tensor from = DropDim(in, last), to = DropDim(out, last);
  std::vector<T> row(out.sizes[last]);
  Walk<2>({&to, &from}, [&](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      LoadRow<T>(at[1] + i * step[1] * ByteSize(in.dtype), in.dtype, in.strides[last], out.sizes[last], c.compute,
                 row.data());
      f(row);
      StoreRow<T>(row.data(), out.sizes[last], at[0] + i * step[0] * ByteSize(out.dtype), out.dtype, out.strides[last]);
    }
  });
}

// In f32: calls f(from, to) for every row along the last dim; dense rows are handed to it where they are.
template <typename F>
void ForEachFloatRow(const Call& c, F f) {
  const Tensor &in = c.in[0], &out = c.out[0];
  const int last = out.rank - 1;
  const int64_t n = out.sizes[last];
  const Tensor from = DropDim(in, last), to = DropDim(out, last);
  const bool reads = in.dtype != DType::kF32 || c.compute != DType::kF32 || in.strides[last] != 1;
  const bool writes = out.dtype != DType::kF32 || out.strides[last] != 1;
  std::vector<float> row(reads || writes ? static_cast<size_t>(n) : 0);
  Walk<2>({&to, &from}, [&](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) {
      const char* source = at[1] + i * step[1] * ByteSize(in.dtype);
      char* target = at[0] + i * step[0] * ByteSize(out.dtype);
      if (reads) LoadRow<float>(source, in.dtype, in.strides[last], n, c.compute, row.data());
      f(reads ? row.data() : reinterpret_cast<const float*>(source),
        writes ? row.data() : reinterpret_cast<float*>(target));
      if (writes) StoreRow<float>(row.data(), n, target, out.dtype, out.strides[last]);
    }
  });
}

// Along the last dim.
template <bool kLog>
const char* Softmax(const Call& c) {
  if (c.in[0].rank == 0 || !SameSizes(c.in[0], c.out[0])) return kSizesDiffer;
  if (ComputeType(c.compute) == DType::kF32) {
    const auto run = kLog ? BestIsa().log_softmax : BestIsa().softmax;
    const int64_t n = c.out[0].sizes[c.out[0].rank - 1];
    ForEachFloatRow(c, [&](const float* from, float* to) { run(from, to, n); });
    return nullptr;
  }
  return WithComputeType(c.compute, [&]<typename T>() -> const char* {
    if constexpr (std::is_integral_v<T>) {
      return kFloatsOnly;
    } else {
      ForEachRow<T>(c, [](std::vector<T>& row) {
        if (row.empty()) return;
        T most = row[0];
        for (T x : row) most = x != x || x > most ? x : most;
        double sum = 0;
        for (T x : row) sum += static_cast<double>(std::exp(x - most));
        const T log = static_cast<T>(std::log(sum)), scale = static_cast<T>(1 / sum);
        for (T& x : row) x = kLog ? x - most - log : std::exp(x - most) * scale;
      });
      return nullptr;
    }
  });
}

// Over the last dim: (x - mean) / sqrt(var + floats[0]), times in[1] plus in[2] where given (vectors of that length);
// ints[0] says which are: 1 weight, 2 bias, 3 both.
const char* LayerNorm(const Call& c) {
  if (c.in[0].rank == 0 || !SameSizes(c.in[0], c.out[0]) || c.ints.empty() || c.floats.empty()) return kSizesDiffer;
  const size_t parameters = static_cast<size_t>((c.ints[0] & 1) + (c.ints[0] >> 1 & 1));
  if (c.in.size() < 1 + parameters) return kSizesDiffer;
  for (size_t k = 1; k <= parameters; ++k)
    if (c.in[k].rank != 1 || c.in[k].sizes[0] != c.out[0].sizes[c.out[0].rank - 1]) return kSizesDiffer;
  return WithComputeType(c.compute, [&]<typename T>() -> const char* {
    if constexpr (std::is_integral_v<T>) {
      return kFloatsOnly;
    } else {
      const int64_t n = c.out[0].sizes[c.out[0].rank - 1];
      std::vector<T> weight(n, T(1)), bias(n, T(0));
      size_t next = 1;
      for (int bit : {1, 2}) {
        if (!(c.ints[0] & bit)) continue;
        const Tensor& t = c.in[next++];
        LoadRow<T>(t.data, t.dtype, t.strides[0], n, c.compute, bit == 1 ? weight.data() : bias.data());
      }
      if constexpr (std::is_same_v<T, float>) {
        const auto run = BestIsa().layer_norm;
        ForEachFloatRow(c, [&](const float* from, float* to) {
          run(from, weight.data(), bias.data(), static_cast<float>(c.floats[0]), to, n);
        });
        return nullptr;
      }
      ForEachRow<T>(c, [&](std::vector<T>& row) {
        double sum = 0, squares = 0;
        for (T x : row) sum += static_cast<double>(x);
        const double mean = sum / static_cast<double>(n);
        for (T x : row) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
        const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + c.floats[0]);
        for (int64_t i = 0; i < n; ++i)
          row[i] = static_cast<T>((static_cast<double>(row[i]) - mean) * scale) * weight[i] + bias[i];
      });
      return nullptr;
    }
  });
}

constexpr Kernel kKernels[] = {
    {"softmax", Softmax<false>},
    {"log_softmax", Softmax<true>},
    {"layer_norm", LayerNorm},
};

}  // namespace

std::span<const Kernel> NormalizeKernels() { return kKernels; }

}  // namespace slipway::kernels
