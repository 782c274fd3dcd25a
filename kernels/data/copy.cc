// Kernels that move elements without arithmetic (copy, tril, triu, edges), and those that make tensors of numbers
// (fill, arange, linspace).
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/convert.h"
#include "kernels/elementwise/chain.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

// out = in, converted where dtypes differ.
const char* Copy(const Call& c, const NoAttributes&) {
  const Tensor &in = c.in[0], &out = c.out[0];
  constexpr int64_t kSmall = 1024;
  if (in.dtype != out.dtype || out.numel() > kSmall) return RunCopy(c);
  WithWord(out.dtype, [&]<typename W>() {
    Walk<2>({&out, &in}, [](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t n) {
      if (step[0] == 1 && step[1] == 1) {
        std::memcpy(at[0], at[1], n * sizeof(W));
        return;
      }
      W* to = reinterpret_cast<W*>(at[0]);
      const W* from = reinterpret_cast<const W*>(at[1]);
      for (int64_t i = 0; i < n; ++i) to[i * step[0]] = from[i * step[1]];
    });
  });
  return nullptr;
}

// out[...] = f(position along the last dim)
template <typename T, typename F>
void Generate(const Tensor& out, F f) {
  int64_t position = 0;
  Walk<1>({&out}, [&](std::array<char*, 1> at, const std::array<int64_t, 1>& step, int64_t n) {
    T row[kRowBlock];
    for (int64_t done = 0; done < n; done += kRowBlock) {
      const int64_t m = std::min(kRowBlock, n - done);
      for (int64_t i = 0; i < m; ++i) row[i] = f(position++);
      StoreRow<T>(row, m, at[0], out.dtype, step[0]);
      at[0] += m * step[0] * ByteSize(out.dtype);
    }
  });
}

const char* Fill(const Call& c, const FillAttributes<>& a) {
  Tensor out = c.out[0];
  if (out.numel() == 0) return nullptr;
  uint64_t element = 0;
  std::visit([&](auto v) { StoreRow(&v, 1, &element, out.dtype, 1); }, a.value);
  // In the order of memory: long rows last.
  for (int d = 1; d < out.rank; ++d)
    for (int e = d; e > 0 && std::abs(out.strides[e - 1]) < std::abs(out.strides[e]); --e)
      std::swap(out.strides[e - 1], out.strides[e]), std::swap(out.sizes[e - 1], out.sizes[e]);
  WithWord(out.dtype, [&]<typename W>() {
    W word;
    std::memcpy(&word, &element, sizeof word);
    Walk<1>({&out}, [word](std::array<char*, 1> at, const std::array<int64_t, 1>& step, int64_t n) {
      W* to = reinterpret_cast<W*>(at[0]);
      if (step[0] == 1)
        std::fill_n(to, n, word);
      else
        for (int64_t i = 0; i < n; ++i) to[i * step[0]] = word;
    });
  });
  return nullptr;
}

const char* Arange(const Call& c, const ArangeAttributes<>& a) {
  if (a.start.index() != a.step.index()) return kAttributesMalformed;
  if (const double* start = std::get_if<double>(&a.start)) {
    const double step = std::get<double>(a.step);
    Generate<double>(c.out[0], [&](int64_t i) { return *start + static_cast<double>(i) * step; });
  } else {
    const auto first = static_cast<uint64_t>(std::get<int64_t>(a.start)),
               by = static_cast<uint64_t>(std::get<int64_t>(a.step));
    Generate<int64_t>(c.out[0], [&](int64_t i) { return static_cast<int64_t>(first + static_cast<uint64_t>(i) * by); });
  }
  return nullptr;
}

// Both ends included, and exact.
const char* Linspace(const Call& c, const LinspaceAttributes<>& a) {
  const int64_t n = c.out[0].numel();
  WithComputeType(c.compute, [&]<typename T>() {
    const T start = static_cast<T>(a.start), end = static_cast<T>(a.end);
    if constexpr (std::is_floating_point_v<T>) {
      const T step = n > 1 ? (end - start) / static_cast<T>(n - 1) : T(0);
      Generate<T>(c.out[0], [&](int64_t i) {
        return i < n / 2 || n == 1 ? start + step * static_cast<T>(i) : end - step * static_cast<T>(n - i - 1);
      });
    } else {
      const double step = n > 1 ? static_cast<double>(end - start) / static_cast<double>(n - 1) : 0;
      Generate<T>(c.out[0], [&](int64_t i) {
        return static_cast<T>(i < n / 2 || n == 1 ? static_cast<double>(start) + step * static_cast<double>(i)
                                                  : static_cast<double>(end) - step * static_cast<double>(n - i - 1));
      });
    }
  });
  return nullptr;
}

// Keeps what lies on or below (above) a diagonal of the last two dims.
template <bool kLower>
const char* Triangle(const Call& c, const TriangleAttributes<>& a) {
  const Tensor &in = c.in[0], &out = c.out[0];
  const int row = out.rank - 2, column = out.rank - 1;
  if (row < 0 || !SameSizes(in, out) || in.dtype != out.dtype) return kSizesDiffer;
  const Tensor from = DropDim(in, column), to = DropDim(out, column);
  WithWord(out.dtype, [&]<typename W>() {
    // Rows one at a time, so that the walk tells which row it is at.
    for (int64_t i = 0; i < out.sizes[row]; ++i) {
      Tensor x_rows = DropDim(to, row), y_rows = DropDim(from, row);
      x_rows.data = static_cast<W*>(to.data) + i * to.strides[row];
      y_rows.data = static_cast<W*>(from.data) + i * from.strides[row];
      Walk<2>({&x_rows, &y_rows}, [&](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t n) {
        for (int64_t k = 0; k < n; ++k) {
          W* x = reinterpret_cast<W*>(at[0]) + k * step[0];
          const W* y = reinterpret_cast<const W*>(at[1]) + k * step[1];
          for (int64_t j = 0; j < out.sizes[column]; ++j) {
            const bool keep = kLower ? j - i <= a.diagonal : j - i >= a.diagonal;
            x[j * out.strides[column]] = keep ? y[j * in.strides[column]] : W(0);
          }
        }
      });
    }
  });
  return nullptr;
}

// Along the last dim, out[i] = in[i - front]. What lies outside is reflected at the edge, which is not repeated, is the
// edge itself, or is taken from the other end.
const char* Edges(const Call& c, const EdgesAttributes<>& a) {
  const Tensor &in = c.in[0], &out = c.out[0];
  const int last = out.rank - 1;
  if (last < 0 || in.rank != out.rank || in.dtype != out.dtype) return kSizesDiffer;
  for (int d = 0; d < last; ++d)
    if (in.sizes[d] != out.sizes[d]) return kSizesDiffer;
  const int64_t n = in.sizes[last], low = a.front;
  if (out.numel() == 0) return nullptr;
  if (n == 0) return "of a tensor without elements";
  std::vector<int64_t> from(out.sizes[last]);
  for (int64_t i = 0; i < out.sizes[last]; ++i) {
    int64_t p;
    if (__builtin_sub_overflow(i, low, &p)) return "padding is out of range";
    if (a.mode == EdgeMode::kReflect) {
      if (p < 0) p = -p;
      if (p >= n) p = 2 * (n - 1) - p;
    } else if (a.mode == EdgeMode::kReplicate) {
      p = std::clamp<int64_t>(p, 0, n - 1);
    } else {
      p = (p % n + n) % n;
    }
    if (p < 0 || p >= n) return "padding is larger than the tensor";
    from[i] = p;
  }
  const Tensor rows = DropDim(in, last), to = DropDim(out, last);
  WithWord(out.dtype, [&]<typename W>() {
    Walk<2>({&to, &rows}, [&](std::array<char*, 2> at, const std::array<int64_t, 2>& step, int64_t count) {
      for (int64_t k = 0; k < count; ++k) {
        W* y = reinterpret_cast<W*>(at[0]) + k * step[0];
        const W* x = reinterpret_cast<const W*>(at[1]) + k * step[1];
        for (size_t i = 0; i < from.size(); ++i)
          y[static_cast<int64_t>(i) * out.strides[last]] = x[from[i] * in.strides[last]];
      }
    });
  });
  return nullptr;
}

constexpr Kernel kKernels[] = {
    With<EdgesAttributes<>, Edges>({.name = "edges", .inputs = 1, .any_type = true}),
    With<NoAttributes, Copy>({.name = "copy", .elementwise = true, .inputs = 1, .any_type = true}),
    With<FillAttributes<>, Fill>({.name = "fill", .unsigned64 = Unsigned64::kSame}),
    With<ArangeAttributes<>, Arange>({.name = "arange", .unsigned64 = Unsigned64::kSame}),
    With<LinspaceAttributes<>, Linspace>({"linspace"}),
    With<TriangleAttributes<>, Triangle<true>>({.name = "tril", .inputs = 1, .unsigned64 = Unsigned64::kSame}),
    With<TriangleAttributes<>, Triangle<false>>({.name = "triu", .inputs = 1, .unsigned64 = Unsigned64::kSame}),
};

}  // namespace

std::span<const Kernel> MoveKernels() { return kKernels; }

}  // namespace slipway::kernels
