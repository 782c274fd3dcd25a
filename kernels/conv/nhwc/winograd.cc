// Winograd's F(4 × 4, 3 × 3) over vectors of channels (conv/winograd.h has the matrices): input transforms of a block
// of tiles, then per 32 output channels the filter transforms, 36 GEMMs [tiles, c] · [c, oc] and the output transforms.
#include <algorithm>

#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {
namespace {

// Tiles [tile, end_tile) × column groups [group, end_group). Filters are transformed some channels at a time, so that
// they stay in the second-level cache; partial sums over channels accumulate in the same order for every partition.
void WinogradPart(const ConvRun& run, int64_t tile, int64_t end_tile, int64_t group, int64_t end_group,
                  Scratch& scratch) {
  const auto& [c, o] = run;
  constexpr int64_t kElements = 36, kChannels = 96, kTiles = 48;
  const int64_t across = Ceil(c.out_x, 4), down = Ceil(c.out_y, 4), tiles = end_tile - tile;
  const int64_t rows = Ceil(tiles, Ceil(tiles, WinogradBlockTiles(c))), depth = std::min(c.channels, kChannels);
  // Strides are a cache line longer than the data, so that the 36 elements of a pixel map to different cache sets.
  const int64_t v_row = PaddedStride(c.channels);
  const int64_t v_stride = Ceil(rows * v_row, kPanel) * kPanel + kPanel, u_stride = depth * kColumns + kPanel,
                p_stride = std::min(rows, kTiles) * kColumns + kPanel;
  float* const v = scratch.Take<float>(kElements * v_stride);
  float *const u = scratch.Take<float>(kElements * u_stride), *const p = scratch.Take<float>(kElements * p_stride);
  if (scratch.querying()) return;
  const auto locate = [&](int64_t t, int64_t* n, int64_t* y, int64_t* x) {
    *n = t / across / down, *y = t / across % down * 4, *x = t % across * 4;
  };
  const int64_t segment = 0;
  for (int64_t t0 = tile; t0 < end_tile; t0 += rows) {
    const int64_t count = std::min(rows, end_tile - t0);
    for (int64_t t = 0; t < count; ++t) {
      int64_t n, y, x;
      locate(t0 + t, &n, &y, &x);
      y -= c.shape.pad[1], x -= c.shape.pad[2];
      WinogradNhwcInputParams in;
      in.x = o.image + n * o.image_stride + (y * c.in_x + x) * o.pixel_stride;
      in.x_stride = c.in_x * o.pixel_stride, in.x_pixel_stride = o.pixel_stride;
      in.y0 = std::max<int64_t>(0, -y), in.y1 = std::min<int64_t>(6, c.in_y - y);
      in.x0 = std::max<int64_t>(0, -x), in.x1 = std::min<int64_t>(6, c.in_x - x);
      in.channels = c.channels, in.v = v + t * v_row, in.v_stride = v_stride;
      c.ukernels.winograd_input(in);
    }
    for (int64_t i = group; i < end_group; ++i) {
      const int64_t j = i * kColumns, columns = std::min(kColumns, c.filter.output_channels - j);
      for (int64_t b0 = 0; b0 < count; b0 += kTiles) {
        const int64_t block = std::min(kTiles, count - b0);
        for (int64_t c0 = 0; c0 < c.channels; c0 += kChannels) {
          const int64_t k = std::min(kChannels, c.channels - c0);
          if (b0 == 0 || c.channels > kChannels)
            for (int64_t q = 0; q < columns; q += kPanel)
              c.ukernels.winograd_filters({o.filters + (j + q) / kPanel * c.filter.depth() * kPanel + c0 * kPanel,
                                           c.channels * kPanel, k, u + q * depth, u_stride});
          for (int64_t e = 0; e < kElements; ++e) {
            NhwcIgemmParams g;
            g.m = block, g.n = columns, g.k = k;
            g.x = v + e * v_stride + b0 * v_row + c0, g.x_stride = v_row;
            g.segments = &segment, g.segment_count = 1;
            g.w = u + e * u_stride, g.w_panel_stride = depth * kPanel;
            g.out = p + e * p_stride, g.out_stride = kColumns, g.accumulate = c0 > 0;
            c.ukernels.igemm(g);
          }
        }
        for (int64_t t = 0; t < block; ++t) {
          int64_t n, y, x;
          locate(t0 + b0 + t, &n, &y, &x);
          const int64_t at = c.OutputOffset(n, y) + x * c.out.strides[4] + j;
          WinogradNhwcOutputParams out;
          out.p = p + t * kColumns, out.p_stride = p_stride;
          out.rows = std::min<int64_t>(4, c.out_y - y), out.columns = std::min<int64_t>(4, c.out_x - x),
          out.channels = columns;
          out.out = c.out.as<float>() + at, out.out_stride = c.out.strides[3], out.out_pixel_stride = c.out.strides[4];
          out.epilogue = o.epilogue.At(j, at);
          c.ukernels.winograd_output(out);
        }
      }
    }
  }
}

}  // namespace

// Threads share the tiles where each has many; else the column groups, each thread transforming all tiles itself, which
// takes less time than fetching what another thread has transformed.
void RunWinograd(const ConvRun& run, Scratch& scratch) {
  const auto& [c, o] = run;
  // Filter transforms, which each thread needs, then take an eighth of the time of the products.
  constexpr int64_t kMinTilesPerThread = 24;
  const int64_t tiles = c.batch * Ceil(c.out_y, 4) * Ceil(c.out_x, 4),
                groups = Ceil(c.filter.output_channels, kColumns);
  const int64_t threads = o.workers != nullptr ? o.workers->threads : 1;
  const bool by_tiles = tiles >= kMinTilesPerThread * threads;
  const int64_t slices = by_tiles ? threads * std::clamp<int64_t>(tiles / (threads * WinogradBlockTiles(c)), 1, 2)
                                  : std::min(Ceil(threads, groups), tiles);
  const int64_t parts = by_tiles ? 1 : groups;
  ParallelFor(scratch, o.workers, slices * parts, 1, [&](int64_t begin, int64_t end, Scratch& own) {
    for (int64_t i = begin; i < end;) {
      const int64_t slice = i / parts, next = std::min(end, (slice + 1) * parts), first = i % parts,
                    last = first + next - i;
      const Scratch::Frame frame(own);
      WinogradPart(run, tiles * slice / slices, tiles * (slice + 1) / slices, groups * first / parts,
                   groups * last / parts, own);
      i = next;
    }
  });
}

}  // namespace slipway::kernels
