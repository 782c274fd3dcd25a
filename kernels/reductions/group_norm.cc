// Group norm as a factor and a summand of each channel: group_norm(x) = x · scale + shift. What multiplies and adds is
// a chain with what follows, which takes the image as it lies; this kernel reads it once. It goes by blocks that stay
// in the cache: their sum, then the squares of the distances from their own mean, and from these the mean and the
// variance of a group. Blocks and the order in which they are put together follow from sizes and layout alone, so the
// bits do not depend on the number of threads.
#include <algorithm>
#include <cmath>

#include "kernels/convert.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kBlock = 8192;       // numbers of a block in planes
constexpr int64_t kBlockLast = 16384;  // about so many with channels last
constexpr int64_t kMinRows = 64;       // of these: so many times fewer are a block's sums, one a channel
constexpr int64_t kGrain = 2;          // of these

// Of `count` numbers: their sum, and that of the squares of their distances from their mean.
struct Moments {
  double count = 0, sum = 0, squares = 0;
  double mean() const { return sum / count; }
};

// Of all numbers of `parts` parts, of which none is empty.
template <typename F>
Moments Together(int64_t parts, F part) {
  Moments all;
  for (int64_t i = 0; i < parts; ++i) {
    const Moments one = part(i);
    all.count += one.count, all.sum += one.sum;
  }
  const double mean = all.mean();
  for (int64_t i = 0; i < parts; ++i) {
    const Moments one = part(i);
    const double distance = one.mean() - mean;
    all.squares += one.squares + one.count * distance * distance;
  }
  return all;
}

// An image [n, c, …] as the loops see it.
struct Image {
  Image(const Tensor& x, int64_t groups) : x(x), channels(x.sizes[1]), groups(groups) {
    for (int d = 2; d < x.rank; ++d) places *= x.sizes[d];
    planes = Tail(x, 1).is_contiguous();
    last = channels == 1 || x.strides[1] == 1;
    pitch = channels;
    int64_t step = 0;  // to the next element of dim d, where this is known
    for (int d = x.rank - 1; d >= 2; --d) {
      if (x.sizes[d] == 1) continue;
      if (step == 0) pitch = x.strides[d];
      last = last && (step == 0 || x.strides[d] == step);
      step = x.strides[d] * x.sizes[d];
    }
    // In planes, the channels of a group lie together.
    numbers = channels / groups * places;
    rows = planes ? kBlock : std::max(kMinRows, kBlockLast / channels / 8 * 8);
    blocks = ((planes ? numbers : places) + rows - 1) / rows;
  }
  const char* sample(int64_t n) const { return x.as<char>() + n * x.strides[0] * ByteSize(x.dtype); }
  // n numbers from element `first` of a sample on, `held` being room for them where they are not of f32.
  const float* Floats(int64_t sample_index, int64_t first, int64_t n, float* held) const {
    const char* const from = sample(sample_index) + first * ByteSize(x.dtype);
    if (x.dtype == DType::kF32) return reinterpret_cast<const float*>(from);
    BestIsa().elementwise.convert_to_f32(from, x.dtype, held, n);
    return held;
  }

  const Tensor& x;
  int64_t channels, groups, places = 1, pitch, numbers, rows, blocks;
  bool planes, last;
};

// The moments of each block of each group, [n][groups][blocks].
void OfPlanes(const Image& x, const Workers* workers, Moments* to) {
  ParallelFor(workers, x.x.sizes[0] * x.groups * x.blocks, 2 * kBlock / std::min(kBlock, x.numbers + 1),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t group = i / x.blocks, first = i % x.blocks * kBlock,
                                n = std::min(kBlock, x.numbers - first);
                  float held[kBlock];
                  const float* const from = x.Floats(group / x.groups, group % x.groups * x.numbers + first, n, held);
                  Moments& m = to[i];
                  m.count = static_cast<double>(n), m.sum = BestIsa().reduction.sum(from, n);
                  m.squares = BestIsa().reduction.sum_squares(from, n, m.mean());
                }
              });
}
void OfRows(const Image& x, const Workers* workers, Scratch& scratch, Moments* to) {
  const int64_t channels = x.channels, each = channels / x.groups;
  ParallelFor(scratch, workers, x.x.sizes[0] * x.blocks, kGrain, [&](int64_t begin, int64_t end, Scratch& own) {
    double *const sums = own.Take<double>(channels), *const means = own.Take<double>(channels),
                  *const squares = own.Take<double>(channels);
    float* const held = x.x.dtype != DType::kF32 ? own.Take<float>(x.rows * channels) : nullptr;
    if (own.querying()) return;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sample = i / x.blocks, block = i % x.blocks, first = block * x.rows,
                    n = std::min(x.rows, x.places - first);
      const float* from = nullptr;
      int64_t pitch = x.pitch;
      if (held == nullptr) {
        from = x.Floats(sample, first * pitch, 0, nullptr);
      } else {
        for (int64_t r = 0; r < n; ++r) x.Floats(sample, (first + r) * pitch, channels, held + r * channels);
        from = held, pitch = channels;
      }
      const double count = static_cast<double>(n);
      std::fill_n(sums, channels, 0.0), std::fill_n(squares, channels, 0.0);
      BestIsa().reduction.sum_rows(from, pitch, n, channels, sums);
      for (int64_t c = 0; c < channels; ++c) means[c] = sums[c] / count;
      BestIsa().reduction.sum_squares_of_rows(from, pitch, n, channels, means, squares);
      for (int64_t g = 0; g < x.groups; ++g)
        to[(sample * x.groups + g) * x.blocks + block] =
            Together(each, [&](int64_t c) { return Moments{count, sums[g * each + c], squares[g * each + c]}; });
    }
  });
}

const char* GroupScales(const Call& c, const GroupNormAttributes& a) {
  const Tensor &x = c.in[0], &scale = c.out[0], &shift = c.out[1];
  if (x.rank < 2 || scale.rank != 2 || !SameSizes(x, 0, 2, scale, 0) || !SameSizes(scale, shift)) return kSizesDiffer;
  const int64_t batch = x.sizes[0], channels = x.sizes[1];
  const Tensor *weight, *bias;
  if (a.groups < 1 || channels % a.groups != 0 || !NormParameters(c, a.norm.parts, channels, &weight, &bias))
    return kSizesDiffer;
  for (const Tensor* t : {&x, weight, bias})
    if (t != nullptr && t->dtype != DType::kF32 && t->dtype != DType::kBF16 && t->dtype != DType::kF16)
      return "the tensors are not of f32, bf16 or f16";
  if (scale.dtype != DType::kF32 || shift.dtype != DType::kF32) return "the results are not of f32";
  if (scale.numel() == 0) return nullptr;
  const Image image(x, a.groups);
  if (!image.planes && !image.last) return "the image lies neither in planes nor with channels last";
  Moments* const moments = c.scratch->Take<Moments>(batch * a.groups * image.blocks);
  if (!image.planes)
    OfRows(image, c.workers, *c.scratch, moments);
  else if (!c.scratch->querying())
    OfPlanes(image, c.workers, moments);
  if (c.scratch->querying()) return nullptr;
  const int64_t each = channels / a.groups;
  const auto number = [](const Tensor* t, int64_t k) {
    float value;
    LoadRow<float>(t->as<char>() + k * t->strides[0] * ByteSize(t->dtype), t->dtype, 1, 1, DType::kF32, &value);
    return static_cast<double>(value);
  };
  ParallelFor(c.workers, batch * a.groups, (int64_t{1} << 13) / (each + image.blocks) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const Moments all = Together(image.blocks, [&](int64_t b) { return moments[i * image.blocks + b]; });
                  const double mean = all.mean(), rate = 1 / std::sqrt(all.squares / all.count + a.norm.epsilon);
                  for (int64_t k = i % a.groups * each, n = i / a.groups, last = k + each; k < last; ++k) {
                    const double by = weight ? number(weight, k) * rate : rate;
                    const double to = bias ? number(bias, k) : 0;
                    scale.as<float>()[n * scale.strides[0] + k * scale.strides[1]] = static_cast<float>(by);
                    shift.as<float>()[n * shift.strides[0] + k * shift.strides[1]] = static_cast<float>(to - mean * by);
                  }
                }
              });
  return nullptr;
}

constexpr Kernel kKernels[] = {
    With<GroupNormAttributes, GroupScales>(
        {.name = "group_scales", .outputs = 2, .queries_workspace = true, .pitched = true}),
};

}  // namespace

std::span<const Kernel> GroupNormKernels() { return kKernels; }

}  // namespace slipway::kernels
