// Which algorithm an NHWC convolution takes: rules of cost, measured per layer by scripts/bench_conv.py.
#include <algorithm>

#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {
namespace {

// Whether F(4 × 4, 3 × 3) takes less time than direct accumulation: estimated vector multiplications of each, filter
// transforms of the call included.
bool WinogradIsFaster(const ConvProblem& c) {
  const FilterShape& f = c.filter;
  if (f.groups != 1 || f.reads_nchw() || f.height != 3 || f.width != 3 || c.channels < 16 || f.output_channels < 16)
    return false;
  for (int d = 1; d < 3; ++d)
    if (c.shape.stride[d] != 1 || c.shape.dilation[d] != 1 || c.shape.pad[d] > 2) return false;
  const double tiles = static_cast<double>(c.batch * Ceil(c.out_y, 4) * Ceil(c.out_x, 4)),
               in = static_cast<double>(c.channels), out = static_cast<double>(f.output_channels);
  const double pixels = static_cast<double>(c.batch * c.out_y * c.out_x);
  const double blocks = std::max(1.0, tiles / static_cast<double>(WinogradBlockTiles(c)));
  return tiles * 36 * in * out * 1.1 + blocks * in * out * 110 + tiles * 160 * (in + out) < pixels * 9 * in * out;
}

// Whether output rows are so short that much of an igemm tile would be empty, and copied patches are small beside the
// weights: more output channels than pixels, and a pixel is copied at most three times.
bool CanUseIm2col(const ConvProblem& c) {
  const FilterShape& f = c.filter;
  const int64_t pixels = c.out_y * c.out_x, tile = c.ukernels.mr;
  return f.groups == 1 && !f.reads_nchw() && f.output_channels > pixels && pixels > c.out_x &&
         4 * c.out_x < 3 * tile * Ceil(c.out_x, tile) && f.kernel_size() <= 3 * c.shape.stride[1] * c.shape.stride[2];
}

// Whether most outputs read only pixels inside the image, or most kernel elements are outside it (large dilations), so
// that a padded copy does not pay.
bool CanUseDirect(const ConvProblem& c) {
  const auto [first, last] = c.InnerPixels();
  return c.filter.groups == 1 && !c.filter.reads_nchw() && !c.reorders_in_row_blocks && c.padded() &&
         !c.HasCacheSetConflict(c.pixel_stride) && c.out_x > 1 && c.in_y > 1 &&
         (2 * (last - first) >= c.out_x || c.InsideFraction() < 0.6) && c.RowFloats(c.in_x) <= 2 * kL2BlockFloats;
}

}  // namespace

int64_t WinogradBlockTiles(const ConvProblem& c) {
  return std::clamp<int64_t>((int64_t{1} << 18) / (36 * c.channels), 64, 256);
}

bool ReordersInRowBlocks(const ConvProblem& c) {
  return !WinogradIsFaster(c) && !c.filter.depthwise() && !c.pointwise() && !c.filter.reads_nchw() &&
         !CanUseIm2col(c) && !c.input_is_nhwc_view() && c.input_is_dense_planes() && c.InsideFraction() >= 0.8;
}

bool ReadsPlanesInPlace(const ConvProblem& c) {
  const auto [first, last] = c.InnerPixels();
  return c.filter.reads_nchw() && c.shape.dilation[1] == 1 && c.shape.dilation[2] == 1 && c.in_y >= c.filter.height &&
         2 * (last - first) >= c.out_x;
}

// Groups accumulate little per output, so that each padded column takes about the time of copying eight pixels, and
// each output copies as many as the stride.
bool GroupsReadInPlace(const ConvProblem& c) {
  const auto [first, last] = c.InnerPixels();
  if (!c.input_is_nhwc_view() || !c.padded()) return false;
  const int64_t inner = last - first, border = c.out_x - inner, copies = c.out_x * c.shape.stride[2];
  if (c.ukernels.row_block_multiple == 1 || c.filter.shared()) return 8 * border <= inner * c.shape.stride[2];
  // Partial tiles take the time of more pixels than they have: measured, with AVX2.
  const auto time = [&c](int64_t n) {
    const int64_t rest = n % c.ukernels.row_block_multiple;
    return static_cast<double>(n) + (rest == 0 ? 0 : rest >= 4 ? 0.5 : std::max(0.8, 3.2 - static_cast<double>(rest)));
  };
  return inner > 0 &&
         time(inner) + 1.1 * static_cast<double>(border) < time(c.out_x) + 0.06 * static_cast<double>(copies);
}

NhwcAlgorithm SelectAlgorithm(const ConvProblem& c) {
  using enum NhwcAlgorithm;
  if (WinogradIsFaster(c)) return kWinograd;
  if (c.filter.depthwise()) return kDepthwise;
  if (c.pointwise()) return kPointwise;
  if (ReadsPlanesInPlace(c)) return kDirectNchw;
  if (c.filter.groups > 1) return kGrouped;
  if (CanUseIm2col(c)) return kIm2col;
  return CanUseDirect(c) ? kDirect : kRowBlocked;
}

const char* AlgorithmName(const ConvProblem& c) {
  switch (SelectAlgorithm(c)) {
    case NhwcAlgorithm::kWinograd: return "channels last, Winograd, F(4 x 4)";
    case NhwcAlgorithm::kDepthwise: return "channels last, depthwise";
    case NhwcAlgorithm::kPointwise: return "channels last, pointwise";
    case NhwcAlgorithm::kGrouped: return "channels last, groups";
    default: return "channels last, in row blocks";
  }
}

bool StoresOnce(const ConvProblem& c) {
  const int64_t pixels = c.out_y * c.out_x;
  switch (SelectAlgorithm(c)) {
    case NhwcAlgorithm::kPointwise: return !UseSkinnyGemm(c, pixels) && !UseSkinnyGemm(c, c.batch * pixels);
    case NhwcAlgorithm::kGrouped: return !GroupsReadInPlace(c);
    case NhwcAlgorithm::kDirect: return false;
    default: return true;
  }
}

}  // namespace slipway::kernels
