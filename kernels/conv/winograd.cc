// How the transforms and the products of a call are cut, so that what one makes is still in the second-level cache when
// the other reads it, and how threads share them.
#include "kernels/conv/winograd.h"

#include <algorithm>
#include <cstring>

#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kLine = 16;  // floats of a cache's line
// Floats at most: of a transformed slice of the image where filters are kept, where they are not, of filters that are
// kept.
constexpr int64_t kSlice = 160 * 1024, kImage = 1024 * 1024, kKept = 1024 * 1024;
// Floats that stay in the second-level cache: of products, of filters.
constexpr int64_t kL2BlockFloats = 96 * 1024, kFilters = 96 * 1024;
constexpr int64_t kDepth = 320;  // channels of a block of products

// A distance between rows such that neighbours fall into different sets of a cache.
int64_t OddLines(int64_t floats) { return (RoundUp(floats, kLine) / kLine | 1) * kLine; }

// Of up to `most` rows of tiles the number that leaves least of panels empty.
int64_t FullRows(int64_t most, int64_t tiles, const ConvNchwMicrokernels& ukernels) {
  int64_t best = 1;
  double least = 1e30;
  for (int64_t n = 1; n <= most; ++n) {
    const int64_t columns = n * tiles, rest = columns % ukernels.nr;
    const double last = rest == 0 ? 0 : rest <= BestIsa().lanes ? 0.6 : 1;
    const double cost = static_cast<double>(columns - rest) + static_cast<double>(ukernels.nr) * last;
    if (cost / static_cast<double>(columns) <= least * 1.005) least = cost / static_cast<double>(columns), best = n;
  }
  return best;
}

// How a call is cut: rows of tiles (those of one image after those of the one before) into parts, which are multiplied
// at once, parts into slices; output channels into blocks. Where the transformed filters are few they are all kept, a
// slice is one part and threads take slices; elsewhere slices are few, threads take input channels, then output
// channels, and filters are transformed for each slice, a block at a time.
struct Cut {
  int64_t t, elements, per_image, all_rows, tiles;
  bool kept;
  int64_t part_rows, parts, outs;  // rows of a part, parts of a slice, output channels of a block
  // Floats: of a row of filters, of a part by elements and panels (which begin in different sets of a cache, as
  // neighbours are written one after the other), of rows and elements of products.
  int64_t u_row, v_panel, v_element, v_part, p_row, p_element, line, plane, spare_row, out_line;

  Cut(const WinogradCall& call, int m, const Workers* workers) {
    const ConvNchwMicrokernels& ukernels = BestIsa().conv_nchw;
    const int64_t c = call.c, o = call.o, threads = workers != nullptr ? workers->threads : 1;
    t = m + 2, elements = t * t;
    per_image = Ceil(call.out_height, m), all_rows = call.batch * per_image;
    tiles = Ceil(call.out_width, m);
    u_row = RoundUp(c, BestIsa().lanes);
    const double filters = static_cast<double>(elements) * static_cast<double>(o) * static_cast<double>(u_row);
    const double image = static_cast<double>(elements * c) * static_cast<double>(all_rows) * static_cast<double>(tiles);
    kept = filters <= std::min<double>(image, kKept) && (image > kSlice || threads > 1) && all_rows >= 2 * threads;
    outs = kFilters / (elements * u_row);
    if (!kept && threads > 1) outs = std::min(outs, RoundUp(Ceil(o, 2 * threads), ukernels.mr));
    outs = std::clamp<int64_t>(outs / ukernels.mr, 1, 8) * ukernels.mr;
    outs = std::min(o, RoundUp(Ceil(o, Ceil(o, outs)), ukernels.mr));
    const int64_t most_rows = kept && threads > 1 ? Ceil(all_rows, 2 * threads) : all_rows;
    part_rows = kL2BlockFloats / (elements * outs * tiles);
    if (kept) part_rows = std::min(part_rows, kSlice / (elements * c * tiles));
    part_rows = FullRows(std::clamp<int64_t>(part_rows, 1, most_rows), tiles, ukernels);
    const int64_t panels = Ceil(part_rows * tiles, ukernels.nr), all_parts = Ceil(all_rows, part_rows);
    v_panel = ukernels.nr * c + kLine, v_element = panels * v_panel + kLine, v_part = elements * v_element;
    parts = kept ? 1 : std::clamp<int64_t>(kImage / v_part, 1, all_parts);
    parts = Ceil(all_parts, Ceil(all_parts, parts));  // evenly
    p_row = RoundUp(panels * ukernels.nr, kLine), p_element = OddLines(outs * p_row + kLine);
    // Phases of a padded channel: the last tile reads one element beyond, a vector of tiles more.
    line = RoundUp(tiles + 2 + BestIsa().lanes, BestIsa().lanes);
    plane = (m * std::min(part_rows, per_image) + 2) * m * line;
    spare_row = OddLines(part_rows * tiles + ukernels.nr);
    out_line = RoundUp(tiles, BestIsa().lanes) * m;
  }

  int64_t rows() const { return parts * part_rows; }  // of a slice
  int64_t slices() const { return Ceil(all_rows, rows()); }
  int64_t filters(int64_t o) const { return elements * (o * u_row + kLine); }  // floats of o filters
};

class WinogradRun {
 public:
  WinogradRun(const WinogradCall& call, int m, const Epilogue& epilogue, int64_t first, int64_t at,
              const Workers* workers)
      : call_(call), m_(m), epilogue_(epilogue), first_(first), at_(at), workers_(workers), k_(call, m, workers) {}

  void Do(Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const int64_t o = call_.o;
    if (k_.kept) {
      float* const u = scratch.Take<float>(k_.filters(o));
      const int64_t u_element = o * k_.u_row + kLine;
      if (!scratch.querying())
        ParallelFor(workers_, o, 1,
                    [&](int64_t begin, int64_t end) { Filters(begin, end, u + begin * k_.u_row, u_element); });
      ParallelFor(scratch, workers_, k_.slices(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
        float* const v = own.Take<float>(k_.parts * k_.v_part);
        for (int64_t i = begin; i < (own.querying() ? begin + 1 : end); ++i) {
          const int64_t row0 = i * k_.rows(), rows = std::min(k_.rows(), k_.all_rows - row0);
          Input(row0, rows, 0, call_.c, v, own);
          Products(row0, rows, 0, o, v, u, own);
        }
      });
      return;
    }
    float* const v = scratch.Take<float>(k_.parts * k_.v_part);
    for (int64_t row0 = 0; row0 < (scratch.querying() ? 1 : k_.all_rows); row0 += k_.rows()) {
      const int64_t rows = std::min(k_.rows(), k_.all_rows - row0);
      ParallelFor(scratch, workers_, call_.c, 1,
                  [&](int64_t begin, int64_t end, Scratch& own) { Input(row0, rows, begin, end, v, own); });
      ParallelFor(scratch, workers_, o, k_.outs,
                  [&](int64_t begin, int64_t end, Scratch& own) { Products(row0, rows, begin, end, v, nullptr, own); });
    }
  }

 private:
  // Those of output channels [begin, end), from `u` on.
  void Filters(int64_t begin, int64_t end, float* u, int64_t u_element) const {
    for (int64_t i = begin; i < end; ++i, u += k_.u_row)
      transforms_.filters({call_.w + i * call_.c * 9, call_.c, u, u_element});
  }

  // Calls f(row0, rows, part) for the parts of a slice.
  template <typename F>
  void ForEachPart(int64_t row0, int64_t rows, F f) const {
    for (int64_t r = 0; r < rows; r += k_.part_rows) f(row0 + r, std::min(k_.part_rows, rows - r), r / k_.part_rows);
  }

  // Input channels [begin, end) of rows of tiles [row0, row0 + rows), by parts, elements, panels, channels.
  void Input(int64_t row0, int64_t rows, int64_t begin, int64_t end, float* v, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    float *const plane = scratch.Take<float>(k_.plane), *const spare = scratch.Take<float>(k_.elements * k_.spare_row);
    if (scratch.querying()) return;
    ForEachPart(row0, rows, [&](int64_t first, int64_t n, int64_t part) {
      InputPart(first, n, begin, end, v + part * k_.v_part, plane, spare);
    });
  }
  void InputPart(int64_t row0, int64_t rows, int64_t begin, int64_t end, float* v, float* plane, float* spare) const {
    const int64_t phases = m_ * k_.line;
    const int64_t width = std::min(call_.width, m_ * k_.tiles + 2 - call_.pad_x);  // what of a row the tiles reach
    for (int64_t r = 0, some; r < rows; r += some) {                               // of one image
      const int64_t n = (row0 + r) / k_.per_image, y = (row0 + r) % k_.per_image;
      some = std::min(k_.per_image - y, rows - r);
      // Input rows [in0, in1) lie inside; the others are zeros, as is what pads a row.
      const int64_t top = m_ * y - call_.pad_y;
      const int64_t in0 = std::clamp<int64_t>(top, 0, call_.height);
      const int64_t in1 = std::clamp<int64_t>(top + m_ * some + 2, in0, call_.height);
      std::fill_n(plane, k_.plane, 0.0f);
      for (int64_t i = begin; i < end; ++i) {
        const float* x = call_.x + n * call_.x_step + (i * call_.height + in0) * call_.width;
        ukernels_.pad_and_deinterleave(
            {x, call_.width, in1 - in0, width, call_.pad_x, m_, k_.line, plane + (in0 - top) * phases, phases});
        float* const to = v + i * ukernels_.nr;
        if (k_.tiles % ukernels_.nr == 0) {  // rows of tiles are panels
          for (int64_t j = 0; j < some * k_.tiles; j += ukernels_.nr)
            transforms_.input({plane + j / k_.tiles * m_ * phases + j % k_.tiles, k_.line, 1, ukernels_.nr,
                               to + (r * k_.tiles + j) / ukernels_.nr * k_.v_panel, k_.v_element});
          continue;
        }
        transforms_.input({plane, k_.line, some, k_.tiles, spare, k_.spare_row});
        Lay(spare, r * k_.tiles, some * k_.tiles, to);
      }
    }
  }
  // One channel's elements of columns [first, first + n) into panels. Copies up to a panel's row too much.
  void Lay(const float* from, int64_t first, int64_t n, float* v) const {
    switch (ukernels_.nr) {
      case 8: return LayPanels<8>(from, first, n, v);
      case 16: return LayPanels<16>(from, first, n, v);
      default: return LayPanels<32>(from, first, n, v);
    }
  }
  template <int kWidth>
  void LayPanels(const float* from, int64_t first, int64_t n, float* v) const {
    const int64_t q = first % kWidth, head = q != 0 ? std::min(kWidth - q, n) : 0;
    v += first / kWidth * k_.v_panel;
    for (int64_t e = 0; e < k_.elements; ++e, from += k_.spare_row, v += k_.v_element) {
      float* to = v;
      int64_t j = head;
      if (head != 0) std::memcpy(to + q, from, static_cast<size_t>(head) * sizeof(float)), to += k_.v_panel;
      for (; j < n; j += kWidth, to += k_.v_panel) std::memcpy(to, from + j, kWidth * sizeof(float));
    }
  }

  // Output channels [begin, end) of a slice. `kept`: all filters, or null.
  void Products(int64_t row0, int64_t rows, int64_t begin, int64_t end, const float* v, const float* kept,
                Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    float* const own = kept == nullptr ? scratch.Take<float>(k_.filters(k_.outs)) : nullptr;
    float *const p = scratch.Take<float>(k_.elements * k_.p_element), *const lines =
                                                                          scratch.Take<float>(k_.t * k_.out_line);
    if (scratch.querying()) return;
    const int64_t u_element = (kept == nullptr ? k_.outs : call_.o) * k_.u_row + kLine;
    for (int64_t o0 = begin; o0 < end; o0 += k_.outs) {
      const int64_t some = std::min(k_.outs, end - o0);
      const float* u = own;
      if (kept == nullptr)
        Filters(o0, o0 + some, own, u_element);
      else
        u = kept + o0 * k_.u_row;
      ForEachPart(row0, rows, [&](int64_t first, int64_t n, int64_t part) {
        Multiply(u, u_element, v + part * k_.v_part, some, n * k_.tiles, p);
        for (int64_t i = 0; i < some; ++i) Output(p + i * k_.p_row, o0 + i, first, n, lines);
      });
    }
  }
  // p[e] = u[e] · v[e] for all elements: `outs` rows, `columns` tiles.
  void Multiply(const float* u, int64_t u_element, const float* v, int64_t outs, int64_t columns, float* p) const {
    for (int64_t e = 0; e < k_.elements; ++e)
      for (int64_t k = 0; k < call_.c; k += kDepth) {
        NchwGemmParams g;
        g.m = outs, g.n = columns, g.k = std::min(kDepth, call_.c - k);
        g.a = u + e * u_element + k, g.a_stride = k_.u_row;
        g.b = v + e * k_.v_element + k * ukernels_.nr, g.b_stride = ukernels_.nr, g.b_panel_stride = k_.v_panel;
        g.c = p + e * k_.p_element, g.c_stride = k_.p_row;
        g.accumulate = k > 0, g.writes_full_vectors = true;
        ukernels_.gemm(g);
      }
  }
  // Output channel o of rows of tiles [row0, row0 + rows).
  void Output(const float* p, int64_t o, int64_t row0, int64_t rows, float* lines) const {
    for (int64_t y = 0; y < rows; ++y) {
      transforms_.output({p + y * k_.tiles, k_.p_element, k_.tiles, lines, k_.out_line});
      const int64_t n = (row0 + y) / k_.per_image, row = (row0 + y) % k_.per_image * m_;
      for (int64_t q = 0; q < m_ && row + q < call_.out_height; ++q) {
        const int64_t place = n * call_.out_step + (o * call_.out_height + row + q) * call_.out_width;
        BestIsa().elementwise.epilogue(lines + q * k_.out_line, call_.out + place, call_.out_width,
                                       epilogue_.At(first_ + o, at_ + place));
      }
    }
  }

  const WinogradCall& call_;
  const int64_t m_;
  const Epilogue& epilogue_;
  const int64_t first_, at_;
  const Workers* const workers_;
  const Cut k_;
  const ConvNchwMicrokernels& ukernels_ = BestIsa().conv_nchw;
  const ConvNchwMicrokernels::Winograd& transforms_ = ukernels_.winograd[m_ == 2 ? 0 : 1];
};

}  // namespace

int WinogradTile(const WinogradCall& call) {
  const double lanes = static_cast<double>(BestIsa().lanes);
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
    const Cut cut(call, k.m, nullptr);
    const double rows = static_cast<double>(cut.all_rows), tiles = static_cast<double>(cut.tiles);
    const double all = rows * tiles,
                 padded = rows * static_cast<double>(RoundUp(cut.tiles, static_cast<int64_t>(lanes)));
    const double columns = std::max(all, std::min(lanes, 8.0));
    const double times = cut.kept ? 1 : static_cast<double>(cut.slices());
    const double cost = static_cast<double>(cut.elements) * c * o * columns + k.image * (c + o) * (all + padded) / 2 +
                        k.filter * c * o * times;
    if (cost < best) best = cost, which = k.m;
  }
  return which;
}

void Winograd(const WinogradCall& call, int m, const Epilogue& epilogue, int64_t first, int64_t at,
              const Workers* workers, Scratch& scratch) {
  WinogradRun(call, m, epilogue, first, at, workers).Do(scratch);
}

}  // namespace slipway::kernels
