// See winograd.h.
#include "kernels/winograd.h"

#include <algorithm>

#include "kernels/gemm_fast.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kLine = 16;            // floats of a cache's line
constexpr int64_t kImage = 1024 * 1024;  // floats of a transformed part of the image
// Floats that stay in the second-level cache: of products, of filters.
constexpr int64_t kNear = 96 * 1024, kFilters = 96 * 1024;
constexpr int64_t kDepth = 320;              // channels of a block of products
constexpr int64_t kMost = int64_t{1} << 40;  // no image is that large

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
// A distance between rows such that neighbours fall into different sets of a cache.
int64_t OddLines(int64_t floats) { return (RoundUp(floats, kLine) / kLine | 1) * kLine; }

// Rows of tiles of a part of the image.
int64_t RowsAtOnce(int64_t c, int64_t rows, int64_t tiles, int64_t t) {
  return std::clamp<int64_t>(kImage / (t * t * c * tiles), 1, rows);
}

// How many of `rows` rows of tiles are multiplied at once: of those that give up to `most` columns, the number that
// leaves least of panels empty.
int64_t PartRows(int64_t rows, int64_t tiles, int64_t most, const ConvIsa& isa) {
  int64_t best = 1;
  double least = 1e30;
  for (int64_t n = 1; n <= rows && (n == 1 || n * tiles <= most); ++n) {
    const int64_t columns = n * tiles, rest = columns % isa.width;
    const double cost =
        static_cast<double>(columns - rest) + static_cast<double>(isa.width) * (rest == 0           ? 0
                                                                                : rest <= isa.lanes ? 0.6
                                                                                                    : 1);
    if (cost / static_cast<double>(columns) <= least * 1.005) least = cost / static_cast<double>(columns), best = n;
  }
  return best;
}

}  // namespace

int WinogradTile(const WinogradCall& call) {
  const double lanes = static_cast<double>(BestIsa().conv->lanes);
  const double c = static_cast<double>(call.c), o = static_cast<double>(call.o);
  // In multiplications that a product of matrices does in the time.
  double best = 1.05 * 9 * c * o * static_cast<double>(call.batch) * static_cast<double>(call.out_height) *
                static_cast<double>(call.out_width);
  int which = 0;
  struct Cost {
    int m;
    double image, filter;  // of transforms: per channel and tile, per filter
  };
  for (const Cost& k : {Cost{2, 80, 100}, Cost{4, 200, 180}}) {
    const int64_t t = k.m + 2, rows = call.batch * ((call.out_height + k.m - 1) / k.m),
                  tiles = (call.out_width + k.m - 1) / k.m;
    const int64_t at_once = RowsAtOnce(call.c, rows, tiles, t), parts = (rows + at_once - 1) / at_once;
    const double all = static_cast<double>(rows) * static_cast<double>(tiles);
    const double padded = static_cast<double>(rows) * static_cast<double>(RoundUp(tiles, static_cast<int64_t>(lanes)));
    const double columns = std::max(all, std::min(lanes, 8.0));
    const double cost = static_cast<double>(t * t) * c * o * columns + k.image * (c + o) * (all + padded) / 2 +
                        k.filter * c * o * static_cast<double>(parts);
    if (cost < best) best = cost, which = k.m;
  }
  return which;
}

void Winograd(const WinogradCall& call, int m, const ConvEpilogue& epilogue, int64_t first, int64_t at,
              const Workers* workers) {
  const ConvIsa& isa = *BestIsa().conv;
  const ConvIsa::Winograd& way = isa.winograd[m == 2 ? 0 : 1];
  const int64_t t = m + 2, elements = t * t, c = call.c, o = call.o;
  // Rows of tiles, those of one image after those of the one before.
  const int64_t per_image = (call.out_height + m - 1) / m, all_rows = call.batch * per_image;
  const int64_t tiles = (call.out_width + m - 1) / m;
  const int64_t rows = RowsAtOnce(c, all_rows, tiles, t), columns = rows * tiles;
  // Phases of a padded channel: the last tile reads one element beyond, a vector of tiles more.
  const int64_t line = RoundUp(tiles + 2 + isa.lanes, isa.lanes),
                image = (m * std::min(rows, per_image) + 2) * m * line;
  const int64_t v_row = OddLines(columns + isa.width), v_element = c * v_row + kLine;
  // Output channels whose filters stay near, and rows of tiles whose products do.
  const int64_t u_row = RoundUp(c, isa.lanes);
  int64_t outs = std::clamp<int64_t>(kFilters / (elements * u_row) / isa.rows, 1, 8) * isa.rows;
  if (workers != nullptr && workers->threads > 1)
    outs = std::min(outs, RoundUp((o + 2 * workers->threads - 1) / (2 * workers->threads), isa.rows));
  const int64_t blocks = (o + outs - 1) / outs;
  outs = std::min(o, RoundUp((o + blocks - 1) / blocks, isa.rows));
  const int64_t u_element = outs * u_row + kLine;
  const int64_t part_rows = PartRows(rows, tiles, kNear / (elements * outs), isa), part_columns = part_rows * tiles;
  const int64_t p_row = OddLines(part_columns + isa.width), p_element = outs * p_row + kLine;
  const int64_t out_line = RoundUp(tiles, isa.lanes) * m;
  // What of a row the tiles reach.
  const int64_t width = std::min(call.width, m * tiles + 2 - call.pad_x);

  Scratch v(elements * v_element + isa.width);
  for (int64_t row0 = 0; row0 < all_rows; row0 += rows) {
    const int64_t now = std::min(rows, all_rows - row0);
    ParallelFor(workers, c, 1, [&](int64_t begin_channel, int64_t end_channel) {
      Scratch plane(image);
      for (int64_t r = 0, some; r < now; r += some) {  // rows of one image
        const int64_t n = (row0 + r) / per_image, y = (row0 + r) % per_image;
        some = std::min(per_image - y, now - r);
        // Input rows [begin, end) lie inside; the others are zeros, as is what pads a row.
        const int64_t top = m * y - call.pad_y;
        const int64_t begin = std::clamp<int64_t>(top, 0, call.height);
        const int64_t end = std::clamp<int64_t>(top + m * some + 2, begin, call.height);
        std::fill_n(plane.data(), image, 0.0f);
        for (int64_t i = begin_channel; i < end_channel; ++i) {
          const float* x = call.x + n * call.x_step + (i * call.height + begin) * call.width;
          isa.pad(x, call.width, end - begin, width, call.pad_x, m, line, plane.data() + (begin - top) * m * line,
                  m * line);
          way.input(plane.data(), line, some, tiles, v.data() + i * v_row + r * tiles, v_element);
        }
      }
    });
    ParallelFor(workers, o, outs, [&](int64_t begin_out, int64_t end_out) {
      Scratch u(elements * u_element + isa.lanes), p(elements * p_element + isa.width), lines(m * out_line);
      for (int64_t o0 = begin_out; o0 < end_out; o0 += outs) {
        const int64_t some = std::min(outs, end_out - o0);
        for (int64_t i = 0; i < some; ++i) way.weights(call.w + (o0 + i) * c * 9, c, u.data() + i * u_row, u_element);
        for (int64_t y0 = 0; y0 < now; y0 += part_rows) {
          const int64_t few = std::min(part_rows, now - y0);
          for (int64_t e = 0; e < elements; ++e)
            for (int64_t k = 0; k < c; k += kDepth) {
              ConvBlock g;
              g.m = some, g.n = few * tiles, g.k = std::min(kDepth, c - k);
              g.a = u.data() + e * u_element + k, g.a_row = u_row;
              g.b = v.data() + e * v_element + k * v_row + y0 * tiles, g.b_row = v_row, g.b_panel = isa.width;
              g.c = p.data() + e * p_element, g.c_row = p_row;
              g.add = k > 0, g.slack = true;
              isa.block(g);
            }
          for (int64_t i = 0; i < some; ++i)
            for (int64_t y = 0; y < few; ++y) {
              way.output(p.data() + i * p_row + y * tiles, p_element, tiles, lines.data(), out_line);
              const int64_t n = (row0 + y0 + y) / per_image, row = (row0 + y0 + y) % per_image * m;
              for (int64_t q = 0; q < m && row + q < call.out_height; ++q) {
                const int64_t place = n * call.out_step + ((o0 + i) * call.out_height + row + q) * call.out_width;
                isa.finish(lines.data() + q * out_line, call.out + place, call.out_width,
                           epilogue.For(first + o0 + i, at + place));
              }
            }
        }
      }
    });
  }
}

}  // namespace slipway::kernels
