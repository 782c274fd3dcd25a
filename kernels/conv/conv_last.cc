// How work is cut: depthwise and grouped convolutions into rows of results and, of a row, panels of channels or groups;
// Winograd's transforms into tiles, or groups of results; pointwise ones into blocks of places, others into bands of
// rows, each with all channels or some panels of them. Sums do not depend on the cut, so the bits do not depend on the
// threads.
#include "kernels/conv/conv_last.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/check.h"
#include "kernels/conv/filters.h"
#include "kernels/conv/shares.h"
#include "kernels/isa/isa.h"
#include "kernels/turns.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kNearImage = 192 << 10;  // floats of the image alone, where weights come from further away than it
// of so many rows, products take several times as long as their weights on the way from memory
constexpr int64_t kFarRows = 200;
constexpr int64_t kLeastRun = 8;          // fewer taps in a row are summed up one by one
constexpr int64_t kMostBorder = 1 << 20;  // of padding

// Copies the channels of places that lie from_pitch floats apart to places that lie to_pitch apart.
void CopyPlaces(const float* from, int64_t from_pitch, int64_t places, int64_t channels, float* to, int64_t to_pitch) {
  if (from_pitch == channels && to_pitch == channels) channels *= places, places = 1;
  for (int64_t i = 0; i < places; ++i)
    std::memcpy(to + i * to_pitch, from + i * from_pitch, static_cast<size_t>(channels) * sizeof(float));
}

// The taps of a row of results: `rows` of them from tap `skip` on, the first at row `from` of the image. Those above
// the image and below it do not count.
struct RowTaps {
  int64_t skip, rows, from;
  RowTaps(const FilterShape& f, const ConvShape& s, int64_t y, int64_t in_y) {
    const int64_t first = y * s.stride[1] - s.pad[1];
    const TapsInside inside(first, in_y, f.height, s.dilation[1]);
    skip = inside.first, rows = inside.count(), from = first + skip * s.dilation[1];
  }
  bool Same(const RowTaps& other) const { return rows == other.rows && skip == other.skip; }
};

class Conv {
 public:
  Conv(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s)
      : x_(x), w_(w), out_(out), s_(s), f_{s.groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4]},
        batch_(out.sizes[0]), channels_(x.sizes[1]), in_y_(x.sizes[3]), in_x_(x.sizes[4]), to_y_(out.sizes[3]),
        to_x_(out.sizes[4]), pixel_(f_.planes()    ? 1
                                    : as_it_lies() ? x.strides[4]
                                                   : channels_),
        laid_(LaysInBands()) {}

  bool possible() const {
    if (x_.numel() == 0 || w_.numel() == 0 || out_.numel() == 0) return false;
    if (x_.dtype != DType::kF32 || w_.dtype != DType::kF32 || out_.dtype != DType::kF32) return false;
    if (x_.sizes[2] != 1 || w_.sizes[2] != 1 || out_.sizes[2] != 1 || s_.pad[0] != 0) return false;
    if (w_.packed != Packing::kFilters && (w_.is_packed() || !w_.is_contiguous())) return false;
    for (int d = 1; d < 3; ++d) {
      const __int128 reach = (static_cast<__int128>(out_.sizes[2 + d]) - 1) * s_.stride[d] +
                             (static_cast<__int128>(w_.sizes[2 + d]) - 1) * s_.dilation[d] + 1;
      // The image with its border is about as large as the image or the result.
      if (s_.pad[d] < 0 || s_.pad[d] > kMostBorder ||
          reach > 2 * (static_cast<__int128>(x_.sizes[2 + d]) + 2 * s_.pad[d]) ||
          s_.pad[d] > 4 * w_.sizes[2 + d] * s_.dilation[d])
        return false;
    }
    return true;
  }
  bool strided() const { return s_.stride[1] != 1 || s_.stride[2] != 1; }
  bool pointwise() const { return f_.taps() == 1 && !bordered() && f_.groups == 1 && !(strided() && f_.planes()); }
  // Whether Winograd's transforms (winograd.h, tiles of 4 × 4) take less time than the sums: about how many
  // multiplications of vectors each takes, transforms of filters in the call included.
  bool winograd() const {
    if (f_.groups != 1 || f_.planes() || f_.height != 3 || f_.width != 3 || channels_ < 16 || f_.outs < 16)
      return false;
    for (int d = 1; d < 3; ++d)
      if (s_.stride[d] != 1 || s_.dilation[d] != 1 || s_.pad[d] > 2) return false;
    const double tiles = static_cast<double>(batch_ * Ceil(to_y_, 4) * Ceil(to_x_, 4)),
                 in = static_cast<double>(channels_), out = static_cast<double>(f_.outs);
    const double places = static_cast<double>(batch_ * to_y_ * to_x_);
    const double bands = std::max(1.0, tiles / static_cast<double>(BandTiles()));
    return tiles * 36 * in * out * 1.1 + bands * in * out * 110 + tiles * 160 * (in + out) < places * 9 * in * out;
  }
  // Whether no partial sum is ever stored.
  bool stores_once() const {
    if (winograd() || f_.depthwise()) return true;
    if (pointwise()) return !Few(to_y_ * to_x_) && !Few(batch_ * to_y_ * to_x_);
    return f_.groups > 1 ? !GroupsAsTheyLie() : TakesPatches() || !TakesAsItLies();
  }
  const char* Way() const {
    if (winograd()) return "channels last, Winograd, F(4 x 4)";
    if (f_.depthwise()) return "channels last, depthwise";
    if (pointwise()) return "channels last, pointwise";
    return f_.groups > 1 ? "channels last, groups" : "channels last, in bands";
  }

  // For an image and a result that are dense planes.
  bool takes_planes() const { return f_.planes() && x_.is_contiguous() && TakesPlanesAsTheyLie(); }
  void RunPlanes(const Tensor& out, const ConvEpilogue& e, const Workers* workers, Scratch& scratch) {
    filters_ = Filters(scratch);
    step_ = channels_ * in_y_ * in_x_, data_ = x_.as<float>();
    finish_ = {e.scale, e.shift, nullptr, e.add != nullptr ? Activation::kNone : e.activation, e.low, e.high};
    if (static_cast<double>(batch_ * to_y_ * to_x_) * static_cast<double>(f_.outs * f_.depth()) < kLeastWork)
      workers = nullptr;
    PlanesAsTheyLie(out, e, workers, scratch);
  }
  // The result's memory, with channels last: the epilogue's `add` lies alike.
  void Run(const ConvEpilogue& e, const Workers* workers, Scratch& scratch) {
    filters_ = Filters(scratch);
    float* const image = f_.planes() ? Planes(scratch) : laid_ ? nullptr : Last(workers, scratch);
    step_ = as_it_lies() || laid_ ? x_.strides[0] : channels_ * in_y_ * in_x_;
    data_ = image != nullptr ? image : x_.as<float>();
    if (pointwise() && strided()) Sample(workers, scratch);
    finish_ = {e.scale, e.shift, e.add, e.activation, e.low, e.high, e.post_scale, e.post_shift, e.post_add};
    const double work = static_cast<double>(batch_ * to_y_ * to_x_) * static_cast<double>(f_.outs * f_.depth());
    if (work < kLeastWork) workers = nullptr;
    in_turns_ = workers != nullptr && workers->threads > 1;
    if (winograd()) return Winograd(workers, scratch);
    if (f_.depthwise()) return Depthwise(workers, scratch);
    if (pointwise()) return Pointwise(workers, scratch);
    if (TakesPlanesAsTheyLie()) return PlanesAsTheyLie(out_, e, workers, scratch);
    if (f_.groups > 1) return Groups(workers, scratch);
    if (TakesPatches()) return Patches(workers, scratch);
    TakesAsItLies() ? AsItLies(workers, scratch) : Bands(workers, scratch);
  }

 private:
  bool as_it_lies() const { return !f_.planes() && ChannelsLast(x_); }
  bool bordered() const {
    return s_.pad[1] != 0 || s_.pad[2] != 0 || Reach(1, to_y_) > in_y_ || Reach(2, to_x_) > in_x_;
  }
  // Whether Bands() lays planes out with channels last while it copies them between their borders.
  bool LaysInBands() const {
    return !winograd() && !f_.depthwise() && !pointwise() && !f_.planes() && !TakesPatches() && !ChannelsLast(x_) &&
           DensePlanes() && InImage() >= 0.8;
  }
  bool DensePlanes() const { return x_.strides[4] == 1 && (in_y_ == 1 || x_.strides[3] == in_x_); }
  // The part of all taps of all results that is in the image.
  double InImage() const {
    const auto part = [this](int d, int64_t in, int64_t to, int64_t taps) {
      int64_t count = 0;
      for (int64_t i = 0; i < to; ++i)
        count += TapsInside(i * s_.stride[d] - s_.pad[d], in, taps, s_.dilation[d]).count();
      return static_cast<double>(count) / static_cast<double>(to * taps);
    };
    return part(1, in_y_, to_y_, f_.height) * part(2, in_x_, to_x_, f_.width);
  }
  // Whether the places that neighbouring results read, so many floats apart in the image, would meet in the same sets
  // of the cache.
  bool Meet(int64_t pixel) const {
    const int64_t row = s_.stride[2] * pixel;
    return !f_.planes() && to_x_ > 4 && Apart(row) != row;
  }
  // Elements of the image that n results go over, with the border.
  int64_t Reach(int d, int64_t n) const { return (n - 1) * s_.stride[d] + (w_.sizes[2 + d] - 1) * s_.dilation[d] + 1; }

  // Whether a pointwise convolution of so many places is a product of few rows: each panel is read once, with all sums
  // in registers.
  bool Few(int64_t rows) const { return rows <= 3 && out_.strides[4] >= f_.outs; }

  const float* Filters(Scratch& scratch) const {
    if (w_.packed == Packing::kFilters) return w_.as<float>();
    float* const to = scratch.Take<float>(f_.floats());
    if (!scratch.counting()) PackFilters(w_.as<float>(), f_, 0, f_.panels(), to);
    return to;
  }
  // A copy with channels last; null where the image is used as it lies.
  float* Last(const Workers* workers, Scratch& scratch) const {
    if (ChannelsLast(x_)) return nullptr;
    float* const to = scratch.Take<float>(x_.numel());
    if (scratch.counting()) return to;
    if (DensePlanes()) {
      const int64_t places = in_y_ * in_x_;
      // Of all channels, or, of images of few places, of some of them.
      const int64_t parts = batch_ * places < 256 ? Ceil(channels_, 128) : 1,
                    some = RoundUp(Ceil(channels_, parts), kPanel);
      ParallelFor(workers, parts * batch_ * places, std::max<int64_t>(48, 32768 / some / 16 * 16),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin, count; i < end; i += count) {
                      const int64_t c = i / (batch_ * places) * some, at = i % (batch_ * places), n = at / places,
                                    p = at % places;
                      count = std::min(end - i, places - p);
                      if (c >= channels_) continue;
                      BestIsa().transpose(
                          reinterpret_cast<const uint32_t*>(x_.as<float>() + n * x_.strides[0] + c * x_.strides[1] + p),
                          x_.strides[1], reinterpret_cast<uint32_t*>(to + at * channels_ + c), channels_, count,
                          std::min(some, channels_ - c));
                    }
                  });
      return to;
    }
    for (int64_t n = 0; n < batch_; ++n)
      for (int64_t y = 0; y < in_y_; ++y) {
        const float* from = x_.as<float>() + n * x_.strides[0] + y * x_.strides[3];
        float* at = to + (n * in_y_ + y) * in_x_ * channels_;
        if (x_.strides[4] == 1)
          BestIsa().transpose(reinterpret_cast<const uint32_t*>(from), x_.strides[1], reinterpret_cast<uint32_t*>(at),
                              channels_, in_x_, channels_);
        else
          for (int64_t i = 0; i < in_x_; ++i)
            for (int64_t c = 0; c < channels_; ++c) *at++ = from[i * x_.strides[4] + c * x_.strides[1]];
      }
    return to;
  }
  // Dense planes; null where the image is that.
  float* Planes(Scratch& scratch) const {
    if (x_.is_contiguous()) return nullptr;
    float* const to = scratch.Take<float>(x_.numel());
    if (scratch.counting()) return to;
    float* at = to;
    for (int64_t n = 0; n < batch_; ++n)
      for (int64_t c = 0; c < channels_; ++c)
        for (int64_t y = 0; y < in_y_; ++y)
          for (int64_t i = 0; i < in_x_; ++i)
            *at++ = x_.as<float>()[n * x_.strides[0] + c * x_.strides[1] + y * x_.strides[3] + i * x_.strides[4]];
    return to;
  }

  // What a strided pointwise convolution reads, as the image of one that is not.
  void Sample(const Workers* workers, Scratch& scratch) {
    float* const to = scratch.Take<float>(batch_ * to_y_ * to_x_ * channels_);
    if (!scratch.counting())
      ParallelFor(workers, batch_ * to_y_, std::max<int64_t>(1, 4096 / (to_x_ * channels_)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i)
                      CopyPlaces(data_ + i / to_y_ * step_ + i % to_y_ * s_.stride[1] * in_x_ * pixel_,
                                 s_.stride[2] * pixel_, to_x_, channels_, to + i * to_x_ * channels_, channels_);
                  });
    data_ = to, pixel_ = channels_, step_ = to_y_ * to_x_ * channels_;
  }

  LastFinish FinishFor(int64_t at, int64_t channel) const {
    LastFinish f = finish_;
    if (f.scale != nullptr) f.scale += channel;
    if (f.shift != nullptr) f.shift += channel;
    if (f.add != nullptr) f.add += at;
    if (f.post_scale != nullptr) f.post_scale += channel;
    if (f.post_shift != nullptr) f.post_shift += channel;
    if (f.post_add != nullptr) f.post_add += at;
    return f;
  }
  // The k-th of n rows to be gone over (turns.h).
  int64_t Turn(int64_t k, int64_t n) const { return in_turns_ ? InTurns(k, n) : k; }
  int64_t PlaceOf(int64_t n, int64_t y) const { return n * out_.strides[0] + y * out_.strides[3]; }

  // The rows of the image that row y of the results reads and the row before it does not.
  std::pair<int64_t, int64_t> NewRows(int64_t y) const {
    const int64_t reach = Reach(1, 1), end = y * s_.stride[1] - s_.pad[1] + reach,
                  count = std::min(s_.stride[1], reach);
    return {std::clamp<int64_t>(end - count, 0, in_y_), std::clamp<int64_t>(end, 0, in_y_)};
  }

  // Threads share the rows of results, and a row that does not divide by its channels: so each has about the rows that
  // it has of the image, and as much work as the others.
  void Depthwise(const Workers* workers, Scratch& scratch) const {
    if (scratch.counting()) return;
    const int64_t panels = f_.panels();
    const bool far = in_y_ * in_x_ * channels_ >= kFarImage, far_result = to_y_ * to_x_ * f_.outs >= kFarImage;
    ParallelFor(workers, batch_ * to_y_ * panels, 1, [&](int64_t begin, int64_t end) {
      const int64_t first = begin / panels, rows = Ceil(end, panels) - first;
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t row = first + Turn(k, rows), n = row / to_y_, y = row % to_y_;
        const int64_t panel = std::max(begin - row * panels, int64_t{0}),
                      end_panel = std::min(end - row * panels, panels), c0 = panel * kPanel;
        const RowTaps taps(f_, s_, y, in_y_);
        const int64_t at = PlaceOf(n, y) + c0;
        LastTaps t;
        t.x_row = s_.dilation[1] * in_x_ * pixel_, t.x_column = pixel_, t.columns = in_x_;
        t.x = data_ + n * step_ + taps.from * in_x_ * pixel_ + c0;
        t.rows = taps.rows, t.width = f_.width;
        t.stride = s_.stride[2], t.pad = s_.pad[2], t.dilation = s_.dilation[2];
        t.w = filters_ + (panel * f_.taps() + taps.skip * f_.width) * kPanel, t.w_panel = f_.depth() * kPanel;
        t.channels = std::min(f_.outs, end_panel * kPanel) - c0, t.n = to_x_;
        t.out = out_.as<float>() + at, t.out_column = out_.strides[4];
        if (far && t.channels == f_.outs && k + 1 < rows) {
          const int64_t next = first + Turn(k + 1, rows), next_n = next / to_y_, next_y = next % to_y_;
          const auto [from, to] = NewRows(next_y);
          t.read = {data_ + next_n * step_ + from * in_x_ * pixel_, (to - from) * in_x_ * pixel_};
          if (far_result) t.written = {out_.as<float>() + PlaceOf(next_n, next_y), to_x_ * out_.strides[4]};
        }
        t.finish = FinishFor(at, c0);
        isa_.last_taps(t);
      }
    });
  }

  void Pointwise(const Workers* workers, Scratch& scratch) const {
    const int64_t places = to_y_ * to_x_;
    const bool one = batch_ == 1 || (step_ == places * pixel_ && out_.strides[0] == places * out_.strides[4]);
    const int64_t rows = one ? batch_ * places : places, images = one ? 1 : batch_;
    const bool few = Few(rows);
    // Blocks of places that stay near, and parts of the columns where there are few blocks.
    const int64_t tile = isa_.last_rows;
    const int64_t panels = Ceil(f_.outs, kPanel);
    // Weights that outweigh the image are read once for each block: as few of these as there are, whose results go
    // straight through.
    const bool heavy_columns = channels_ * f_.outs > 2 * images * rows * (channels_ + f_.outs);
    const int64_t far_rows = heavy_columns ? rows : channels_ * f_.outs >= kFarWeights ? kFarRows : 0;
    const int64_t near = std::max(kNear / (channels_ + f_.outs), std::min(far_rows, kNearImage / channels_));
    const int64_t block = few || rows <= near ? rows : std::max(2 * tile, near / tile * tile);
    const Shares shares = Share(workers, images, rows, panels, Ceil(rows, block), tile, heavy_columns, isa_.last_grain);
    const bool meet = Apart(pixel_) != pixel_ && rows > 2 * tile && f_.outs >= 4 * kColumns;
    ParallelFor(scratch, workers, shares.tasks(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
      float* const copy = meet ? own.Take<float>(shares.MostRows() * Apart(channels_)) : nullptr;
      int64_t copied = -1;
      GemmCall g;
      g.b = {filters_, DType::kF32, channels_, 1}, g.packed = true;
      float* memory = nullptr;
      if (few) {
        g.m = rows, g.n = f_.outs, g.k = channels_;
        g.a = {data_, DType::kF32, pixel_, 1}, g.c_row = out_.strides[4];
        memory = own.Take<float>(BestIsa().gemm_scratch(g));
      }
      if (own.counting()) return;
      const int64_t run = 0;
      for (int64_t i = begin; i < end; ++i) {
        const Shares::Task task = shares[i];
        const int64_t j0 = task.panel * kPanel, j1 = std::min(f_.outs, task.end_panel * kPanel);
        const int64_t at = task.image * out_.strides[0] + task.row * out_.strides[4] + j0;
        LastBlock b;
        b.m = task.end_row - task.row, b.n = j1 - j0, b.k = channels_;
        b.x = data_ + task.image * step_ + task.row * pixel_, b.x_row = pixel_;
        if (meet) {
          if (copied != task.block) CopyPlaces(b.x, pixel_, b.m, channels_, copy, Apart(channels_));
          copied = task.block;
          b.x = copy, b.x_row = Apart(channels_);
        }
        b.runs = &run, b.run_count = 1, b.in_turns = in_turns_;
        b.w = filters_ + j0 * channels_, b.w_panel = channels_ * kPanel;
        b.out = out_.as<float>() + at, b.out_row = out_.strides[4];
        b.finish = FinishFor(at, j0);
        if (few) {
          g.a.data = b.x, g.b.data = b.w, g.n = b.n, g.c = b.out;
          BestIsa().gemm(g, memory);
          // What follows the sums.
          b.run_count = 0, b.accumulate = true;
        }
        isa_.last_block(b);
      }
    });
  }

  // Whether rows are so short that much of last_block's tiles is empty, and a copy of what each result reads is small
  // beside the weights: there are more outputs than places, and a place is copied three times at most.
  bool TakesPatches() const {
    const int64_t places = to_y_ * to_x_, tile = isa_.last_rows;
    return f_.groups == 1 && !f_.planes() && f_.outs > places && places > to_x_ &&
           4 * to_x_ < 3 * tile * Ceil(to_x_, tile) && f_.taps() <= 3 * s_.stride[1] * s_.stride[2];
  }
  // A product of what each result reads, [places][tap][channels], and the weights. Threads that share the columns copy
  // all of it, each for itself.
  void Patches(const Workers* workers, Scratch& scratch) const {
    constexpr int64_t kNearPatches = 128 << 10;  // floats
    const int64_t places = to_y_ * to_x_, units = Ceil(f_.outs, kColumns), depth = f_.depth(), row = Apart(depth);
    const int64_t most = std::max<int64_t>(2 * isa_.last_rows, kNearPatches / depth);
    const Shares shares =
        Share(workers, batch_, places, units, Ceil(places, most), isa_.last_rows, true, isa_.last_grain);
    ParallelFor(scratch, workers, shares.tasks(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
      float* const patches = own.Take<float>(shares.MostRows() * row);
      if (own.counting()) return;
      const int64_t run = 0;
      int64_t held = -1;  // the block in `patches`
      for (int64_t i = begin; i < end; ++i) {
        const Shares::Task task = shares[i];
        const int64_t j = task.panel * kColumns, at = task.image * out_.strides[0] + task.row * out_.strides[4] + j;
        if (std::exchange(held, task.block) != task.block)
          for (int64_t p = task.row; p < task.end_row; ++p)
            CopyPatch(task.image, p / to_x_, p % to_x_, patches + (p - task.row) * row);
        LastBlock b;
        b.m = task.end_row - task.row, b.n = std::min(f_.outs, task.end_panel * kColumns) - j, b.k = depth;
        b.x = patches, b.x_row = row, b.runs = &run, b.run_count = 1, b.in_turns = in_turns_;
        b.w = filters_ + j * depth, b.w_panel = depth * kPanel;
        b.out = out_.as<float>() + at, b.out_row = out_.strides[4];
        b.finish = FinishFor(at, j);
        isa_.last_block(b);
      }
    });
  }
  // What the result (y, x) of image n reads, zeros at the border.
  void CopyPatch(int64_t n, int64_t y, int64_t x, float* to) const {
    const int64_t first = x * s_.stride[2] - s_.pad[2], by = s_.dilation[2];
    const RowTaps rows(f_, s_, y, in_y_);
    const TapsInside columns(first, in_x_, f_.width, by);
    if (rows.rows * columns.count() < f_.taps()) std::fill_n(to, f_.depth(), 0.0f);
    if (columns.count() == 0) return;
    for (int64_t r = 0; r < rows.rows; ++r)
      CopyPlaces(data_ + n * step_ + ((rows.from + r * s_.dilation[1]) * in_x_ + first + columns.first * by) * pixel_,
                 by * pixel_, columns.count(), channels_, to + ((rows.skip + r) * f_.width + columns.first) * channels_,
                 channels_);
  }

  // Tiles whose transforms are held at once.
  int64_t BandTiles() const { return std::clamp<int64_t>((int64_t{1} << 18) / (36 * channels_), 64, 256); }

  // Threads share the tiles where each has many; else groups of results, and each transforms all tiles for itself: that
  // takes less time than fetching what another thread has transformed.
  void Winograd(const Workers* workers, Scratch& scratch) const {
    // of a thread: the transforms of filters, which each needs, take an eighth as long as the products
    constexpr int64_t kLeastTiles = 24;
    const int64_t tiles = batch_ * Ceil(to_y_, 4) * Ceil(to_x_, 4), groups = Ceil(f_.outs, kColumns);
    const int64_t threads = workers != nullptr ? workers->threads : 1;
    const bool by_tiles = tiles >= kLeastTiles * threads;
    const int64_t slices = by_tiles ? threads * std::clamp<int64_t>(tiles / (threads * BandTiles()), 1, 2)
                                    : std::min(Ceil(threads, groups), tiles);
    const int64_t parts = by_tiles ? 1 : groups;
    ParallelFor(scratch, workers, slices * parts, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      for (int64_t i = begin; i < end;) {
        const int64_t slice = i / parts, next = std::min(end, (slice + 1) * parts), first = i % parts,
                      last = first + next - i;
        const Scratch::Frame frame(own);
        WinogradOf(tiles * slice / slices, tiles * (slice + 1) / slices, groups * first / parts, groups * last / parts,
                   own);
        i = next;
      }
    });
  }

  // Tiles [tile, end_tile), groups of results [group, end_group): a band of tiles after the other, first its
  // transforms, then for each group the transforms of its filters, the 36 products and the way back. Filters are
  // transformed some channels at a time, so that they stay in the second-level cache; sums of products go on over these
  // in the same order for every cut.
  void WinogradOf(int64_t tile, int64_t end_tile, int64_t group, int64_t end_group, Scratch& scratch) const {
    constexpr int64_t kElements = 36, kChannels = 96, kTiles = 48;
    const int64_t across = Ceil(to_x_, 4), down = Ceil(to_y_, 4), tiles = end_tile - tile;
    const int64_t rows = Ceil(tiles, Ceil(tiles, BandTiles())), deep = std::min(channels_, kChannels);
    // A line of the cache more than there is to hold, so that the 36 elements of a place do not meet in the same sets.
    const int64_t v_row = Apart(channels_);
    const int64_t element = Ceil(rows * v_row, kPanel) * kPanel + kPanel, u_element = deep * kColumns + kPanel,
                  p_element = std::min(rows, kTiles) * kColumns + kPanel;
    float* const v = scratch.Take<float>(kElements * element);
    float *const u = scratch.Take<float>(kElements * u_element), *const p = scratch.Take<float>(kElements * p_element);
    if (scratch.counting()) return;
    const auto place = [&](int64_t t, int64_t* n, int64_t* y, int64_t* x) {
      *n = t / across / down, *y = t / across % down * 4, *x = t % across * 4;
    };
    const int64_t run = 0;
    for (int64_t t0 = tile; t0 < end_tile; t0 += rows) {
      const int64_t count = std::min(rows, end_tile - t0);
      for (int64_t t = 0; t < count; ++t) {
        int64_t n, y, x;
        place(t0 + t, &n, &y, &x);
        y -= s_.pad[1], x -= s_.pad[2];
        LastWinogradInput in;
        in.x = data_ + n * step_ + (y * in_x_ + x) * pixel_, in.x_row = in_x_ * pixel_, in.x_column = pixel_;
        in.y0 = std::max<int64_t>(0, -y), in.y1 = std::min<int64_t>(6, in_y_ - y);
        in.x0 = std::max<int64_t>(0, -x), in.x1 = std::min<int64_t>(6, in_x_ - x);
        in.channels = channels_, in.v = v + t * v_row, in.element = element;
        isa_.last_winograd_input(in);
      }
      for (int64_t i = group; i < end_group; ++i) {
        const int64_t j = i * kColumns, columns = std::min(kColumns, f_.outs - j);
        for (int64_t b0 = 0; b0 < count; b0 += kTiles) {
          const int64_t block = std::min(kTiles, count - b0);
          for (int64_t c0 = 0; c0 < channels_; c0 += kChannels) {
            const int64_t c = std::min(kChannels, channels_ - c0);
            if (b0 == 0 || channels_ > kChannels)
              for (int64_t o = 0; o < columns; o += kPanel)
                isa_.last_winograd_filters(filters_ + (j + o) / kPanel * f_.depth() * kPanel + c0 * kPanel,
                                           channels_ * kPanel, c, u + o * deep, u_element);
            for (int64_t e = 0; e < kElements; ++e) {
              LastBlock g;
              g.m = block, g.n = columns, g.k = c;
              g.x = v + e * element + b0 * v_row + c0, g.x_row = v_row;
              g.runs = &run, g.run_count = 1;
              g.w = u + e * u_element, g.w_panel = deep * kPanel;
              g.out = p + e * p_element, g.out_row = kColumns, g.accumulate = c0 > 0;
              isa_.last_block(g);
            }
          }
          for (int64_t t = 0; t < block; ++t) {
            int64_t n, y, x;
            place(t0 + b0 + t, &n, &y, &x);
            const int64_t at = PlaceOf(n, y) + x * out_.strides[4] + j;
            LastWinogradOutput out;
            out.p = p + t * kColumns, out.element = p_element;
            out.rows = std::min<int64_t>(4, to_y_ - y), out.columns = std::min<int64_t>(4, to_x_ - x),
            out.channels = columns;
            out.out = out_.as<float>() + at, out.out_row = out_.strides[3], out.out_column = out_.strides[4];
            out.finish = FinishFor(at, j);
            isa_.last_winograd_output(out);
          }
        }
      }
    }
  }

  // Places of a row of results whose taps are all columns of the image: [first, second).
  std::pair<int64_t, int64_t> InnerPlaces() const {
    const int64_t reach = (f_.width - 1) * s_.dilation[2] + 1, room = in_x_ + s_.pad[2] - reach;
    return {std::min(to_x_, Ceil(s_.pad[2], s_.stride[2])), room < 0 ? 0 : std::min(to_x_, room / s_.stride[2] + 1)};
  }
  // Floats of a row of results and of what it reads alone, of an image of `wide` places a row.
  int64_t RowFloats(int64_t wide) const { return wide * channels_ * s_.stride[1] + to_x_ * f_.outs; }
  // Whether most results are of places that the image has around them, or most taps are not in the image (of large
  // dilations), so that it is not worth a copy with a border.
  bool TakesAsItLies() const {
    const auto [first, last] = InnerPlaces();
    return f_.groups == 1 && !f_.planes() && !laid_ && bordered() && !Meet(pixel_) && to_x_ > 1 && in_y_ > 1 &&
           (2 * (last - first) >= to_x_ || InImage() < 0.6) && RowFloats(in_x_) <= 2 * kNear;
  }
  // The places of an image, or of a copy of some of its channels, that the taps of a result read: runs[r] floats from
  // its first.
  struct Runs {
    int64_t* at = nullptr;
    int64_t count = 0;
    int64_t* down = nullptr;  // of the first tap of each row of taps
  };
  // Of an image whose rows are row_step and whose planes, where it has these, are `plane` floats apart.
  Runs RunsOf(int64_t pixel, int64_t row_step, int64_t plane, Scratch& scratch) const {
    // taps of a row lie together
    const bool joined = !f_.planes() && f_.groups == 1 && s_.dilation[2] == 1 && pixel == channels_;
    const bool rows_of_taps = f_.planes() && s_.dilation[2] == 1 && f_.width >= kLeastRun;
    Runs runs;
    runs.count = f_.planes() ? f_.per * (rows_of_taps ? f_.height : f_.taps()) : joined ? f_.height : f_.taps();
    runs.at = scratch.Take<int64_t>(runs.count),
    runs.down = scratch.Take<int64_t>((f_.planes() ? f_.per : 1) * f_.height);
    if (scratch.counting()) return runs;
    int64_t *at = runs.at, *down = runs.down;
    for (int64_t c = 0; c < (f_.planes() ? f_.per : 1); ++c)
      for (int64_t y = 0; y < f_.height; ++y) {
        const int64_t first = c * plane + y * s_.dilation[1] * row_step;
        *down++ = first;
        if (joined || rows_of_taps)
          *at++ = first;
        else
          for (int64_t z = 0; z < f_.width; ++z) *at++ = first + z * s_.dilation[2] * pixel;
      }
    return runs;
  }
  // The weights that are read after those of `step` columns of unit u from j on, where they are far.
  FloatsAhead After(int64_t u, int64_t j, int64_t step) const {
    if (f_.groups == 1 && f_.floats() < kFarWeights) return {};
    j += step;
    if (j >= std::min((u + 1) * Unit(), f_.outs)) ++u, j = u * Unit();
    if (j >= f_.outs) return {};
    const int64_t columns = std::min({step, f_.outs - j, (u + 1) * Unit() - j});
    return {WeightsOf(u, j), Ceil(columns, kPanel) * f_.depth() * kPanel};
  }
  // Row k's part of these, of so many rows.
  static FloatsAhead PartOf(const FloatsAhead& all, int64_t k, int64_t rows) {
    return {all.at + k * all.count / rows / kPanel * kPanel, Ceil(all.count, rows * kPanel) * kPanel};
  }
  // Rows [y0, y1) and the columns of unit u of an image as it lies; `far`: nobody has read these rows before.
  void SumsAsItLies(int64_t n, int64_t y0, int64_t y1, int64_t u, bool far, const Runs& runs) const {
    const int64_t end_j = std::min((u + 1) * Unit(), f_.outs);
    for (int64_t j = u * Unit(); j < end_j; j += kColumns)
      ColumnsAsItLies(n, y0, y1, j, std::min(kColumns, end_j - j), WeightsOf(u, j), ChannelsOf(u, j),
                      After(u, j, kColumns), far && j == u * Unit(), runs);
  }
  // Columns [j, j + columns), whose weights begin at `w` and which read the channels from `from` on: the inner places
  // of each row with all taps that are in the image, and the columns at the border downwards, tap column by tap column.
  void ColumnsAsItLies(int64_t n, int64_t y0, int64_t y1, int64_t j, int64_t columns, const float* w, int64_t from,
                       const FloatsAhead& after, bool far, const Runs& runs) const {
    auto [first, last] = InnerPlaces();
    if (last <= first) first = last = 0;
    const int64_t row = in_x_ * pixel_, tap = f_.per * kPanel;  // of weights
    const int64_t row_runs = runs.count / f_.height;            // of a row of taps
    const float* const image = data_ + n * step_ + from;
    LastBlock b;
    b.n = columns, b.w_panel = f_.depth() * kPanel, b.in_turns = in_turns_;
    const auto sum = [&](int64_t at, const LastFinish& finish) {
      b.out = out_.as<float>() + at, b.finish = finish;
      f_.shared() ? isa_.last_groups(b, f_.per) : isa_.last_block(b);
    };
    b.m = last - first, b.k = f_.depth() / runs.count;
    b.x_row = s_.stride[2] * pixel_, b.out_row = out_.strides[4];
    b.runs = runs.at, b.w_run = b.k * kPanel;
    for (int64_t k = 0; k < y1 - y0 && first < last; ++k) {
      const int64_t y = y0 + Turn(k, y1 - y0), next = y0 + Turn(k + 1, y1 - y0);
      const RowTaps taps(f_, s_, y, in_y_);
      b.ahead = far && k + 1 < y1 - y0 ? (next - y) * s_.stride[1] * row : 0,
      b.ahead_step = row_runs == 1 ? kPanel : b.x_row;
      b.next_w = PartOf(after, k, y1 - y0);
      b.run_count = taps.rows * row_runs;
      b.x = image + (taps.rows > 0 ? taps.from * row : 0) + (first * s_.stride[2] - s_.pad[2]) * pixel_;
      b.w = w + taps.skip * f_.width * tap;
      const int64_t at = PlaceOf(n, y) + first * out_.strides[4] + j;
      sum(at, FinishFor(at, j));
    }
    b.ahead = 0, b.next_w = {};
    b.k = f_.per, b.x_row = s_.stride[1] * row, b.out_row = out_.strides[3];
    b.runs = runs.down, b.w_run = f_.width * tap;
    for (int64_t y = y0, next; y < y1; y = next) {
      // Rows that have the same taps.
      const RowTaps taps(f_, s_, y, in_y_);
      for (next = y + 1; next < y1 && RowTaps(f_, s_, next, in_y_).Same(taps);) ++next;
      b.m = next - y, b.run_count = taps.rows;
      for (int64_t x = first > 0 ? 0 : last; x < to_x_; x = x + 1 == first ? last : x + 1) {
        const int64_t column = x * s_.stride[2] - s_.pad[2], by = s_.dilation[2],
                      at = PlaceOf(n, y) + x * out_.strides[4] + j;
        const auto [z0, z1] = TapsInside(column, in_x_, f_.width, by);
        b.accumulate = false;
        if (z0 == z1 || taps.rows == 0) b.run_count = 0, sum(at, FinishFor(at, j)), b.run_count = taps.rows;
        for (int64_t z = z0; z < z1 && taps.rows > 0; ++z, b.accumulate = true) {
          b.x = image + taps.from * row + (column + z * by) * pixel_;
          b.w = w + (taps.skip * f_.width + z) * tap;
          sum(at, z + 1 == z1 ? FinishFor(at, j) : LastFinish());
        }
      }
      b.accumulate = false;
    }
  }
  // Rows of results that are taken at once, whose image and result are per_row floats each: both stay near. Of an image
  // that its weights outweigh, which are read once for each band, only the image does.
  int64_t MostRows(int64_t per_row) const {
    const int64_t image = in_x_ * channels_ * s_.stride[1];
    const bool heavy = f_.depth() * f_.outs > in_y_ * in_x_ * channels_ + to_y_ * to_x_ * f_.outs;
    return std::clamp<int64_t>(heavy ? kNearImage / std::max<int64_t>(1, image) : kNear / std::max<int64_t>(1, per_row),
                               1, to_y_);
  }
  // Bands of rows of the image as it lies.
  void AsItLies(const Workers* workers, Scratch& scratch) const {
    const int64_t units = Ceil(f_.outs, kColumns), most = MostRows(RowFloats(in_x_));
    const Shares shares = Share(workers, batch_, to_y_, units, Ceil(to_y_, most), 1, false);
    const Runs runs = RunsOf(pixel_, in_x_ * pixel_, 0, scratch);
    if (scratch.counting()) return;
    ParallelFor(workers, shares.tasks(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Shares::Task task = shares[i];
        for (int64_t u = task.panel; u < task.end_panel; ++u)
          SumsAsItLies(task.image, task.row, task.end_row, u, u == task.panel, runs);
      }
    });
  }

  // The same for images of few channels, which are planes: most results read nothing but the image.
  bool TakesPlanesAsTheyLie() const {
    const auto [first, last] = InnerPlaces();
    return f_.planes() && s_.dilation[1] == 1 && s_.dilation[2] == 1 && in_y_ >= f_.height &&
           2 * (last - first) >= to_x_;
  }
  // Bands of rows: the inner places of each row with all taps, and the columns at the border downwards, with the taps
  // that are in the image. Rows at the border are taken from a copy with zeros.
  // The result has channels last, or is dense planes, into which each band is laid out while it is near.
  void PlanesAsTheyLie(const Tensor& out, const ConvEpilogue& e, const Workers* workers, Scratch& scratch) const {
    const bool to_planes = !ChannelsLast(out);
    const auto [first, last] = InnerPlaces();
    const int64_t per_row = RowFloats(in_x_), plane = in_y_ * in_x_, wide = Reach(2, to_x_);
    const int64_t most = std::clamp<int64_t>(kNear / per_row, 1, to_y_);
    const Shares shares = Share(workers, batch_, to_y_, Ceil(f_.outs, kColumns), Ceil(to_y_, most), 1, false);
    const int64_t rows = f_.per * f_.height;  // of taps
    const Runs runs = RunsOf(1, in_x_, plane, scratch), copied = RunsOf(1, wide, f_.height * wide, scratch);
    ParallelFor(scratch, workers, shares.tasks(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
      float* const memory = own.Take<float>(rows * wide);
      float* const results = to_planes ? own.Take<float>(shares.MostRows() * to_x_ * f_.outs) : nullptr;
      if (own.counting()) return;
      for (int64_t i = begin; i < end; ++i) {
        const Shares::Task task = shares[i];
        const int64_t n = task.image, j = task.panel * kColumns;
        LastBlock b;
        b.n = std::min(f_.outs, task.end_panel * kColumns) - j;
        const int64_t pixel = to_planes ? b.n : out.strides[4], line = to_planes ? to_x_ * pixel : out.strides[3];
        float* const to = to_planes ? results - task.row * line : out.as<float>() + n * out.strides[0] + j;
        b.w_panel = f_.depth() * kPanel;
        const float* const w = filters_ + j / kPanel * b.w_panel;
        // Rows [y0, y1) that have all taps.
        const int64_t y0 = std::clamp(Ceil(s_.pad[1], s_.stride[1]), task.row, task.end_row);
        const int64_t y1 = std::clamp((in_y_ + s_.pad[1] - f_.height) / s_.stride[1] + 1, y0, task.end_row);
        const auto sum = [&](int64_t m, const float* x, int64_t row, int64_t y, int64_t at_x, int64_t out_row) {
          b.m = m, b.x = x, b.x_row = row, b.out = to + y * line + at_x * pixel, b.out_row = out_row;
          b.finish = FinishFor(to_planes ? 0 : b.out - out.as<float>(), j);
          isa_.last_block(b);
        };
        b.w = w, b.k = f_.depth() / runs.count, b.w_run = b.k * kPanel, b.run_count = runs.count;
        for (int64_t y = task.row; y < task.end_row; ++y) {
          const bool inner = y >= y0 && y < y1;
          if (!inner) PadPlanes(n, y, f_.height, wide, memory);
          b.runs = inner ? runs.at : copied.at;
          if (!inner)
            sum(to_x_, memory, s_.stride[2], y, 0, pixel);
          else
            sum(last - first, Column(n, y) + first * s_.stride[2] - s_.pad[2], s_.stride[2], y, first, pixel);
        }
        b.runs = runs.down, b.w_run = f_.width * kPanel;
        for (int64_t x = first > 0 ? 0 : last; x < to_x_ && y0 < y1; x = x + 1 == first ? last : x + 1) {
          const int64_t column = x * s_.stride[2] - s_.pad[2];
          const auto [z0, z1] = TapsInside(column, in_x_, f_.width, 1);
          b.w = w + z0 * kPanel, b.k = z1 - z0;
          b.run_count = b.k > 0 ? rows : 0;
          sum(y1 - y0, Column(n, y0) + column + z0, s_.stride[1] * in_x_, y0, x, line);
        }
        if (!to_planes) continue;
        const int64_t places = (task.end_row - task.row) * to_x_,
                      at = n * out.strides[0] + j * out.strides[1] + task.row * to_x_;
        BestIsa().transpose(reinterpret_cast<const uint32_t*>(results), pixel,
                            reinterpret_cast<uint32_t*>(out.as<float>() + at), out.strides[1], b.n, places);
        if (e.add == nullptr) continue;
        const ConvEpilogue rest = e.AfterAffine();
        for (int64_t c = 0; c < b.n; ++c) {
          float* const plane_out = out.as<float>() + at + c * out.strides[1];
          isa_.finish(plane_out, plane_out, places, rest.For(j + c, at + c * out.strides[1]));
        }
      }
    });
  }
  // Column 0 of the first row that row y of the result reads, of the first plane.
  const float* Column(int64_t n, int64_t y) const { return data_ + n * step_ + (y * s_.stride[1] - s_.pad[1]) * in_x_; }

  // Part of the results: rows [y0, y1) of image n, m places from x0 on, units [unit, end_unit) of columns.
  struct Part {
    int64_t n, y0, y1, x0, m, unit, end_unit;
  };
  // The sums of a part. `image` is what the first result reads first, of channel 0; its places are `pixel` floats
  // apart, its rows row_step.
  void Sums(const Part& p, const float* image, int64_t pixel, int64_t row_step, const Runs& runs) const {
    LastBlock b;
    b.m = p.m, b.k = f_.depth() / runs.count;
    b.x_row = s_.stride[2] * pixel;
    b.runs = runs.at, b.run_count = runs.count;
    b.w_panel = f_.depth() * kPanel, b.w_run = b.k * kPanel;
    b.out_row = out_.strides[4], b.in_turns = in_turns_;
    const int64_t per_row = runs.count / f_.height;  // runs of a row of taps; not of planes
    for (int64_t u = p.unit; u < p.end_unit; ++u) {
      const int64_t end_j = std::min((u + 1) * Unit(), f_.outs);
      // Columns whose weights stay near for all rows; all of them for one, whose loops fetch the next ones' ahead.
      const int64_t step = p.y1 - p.y0 == 1 ? end_j - u * Unit() : kColumns;
      for (int64_t j = u * Unit(); j < end_j; j += step) {
        b.n = std::min(step, end_j - j);
        const float* const w = WeightsOf(u, j);
        b.w = w;
        const int64_t from = ChannelsOf(u, j);
        const FloatsAhead next = After(u, j, step);
        for (int64_t k = 0; k < p.y1 - p.y0; ++k) {
          b.next_w = PartOf(next, k, p.y1 - p.y0);
          const int64_t y = p.y0 + Turn(k, p.y1 - p.y0), at = PlaceOf(p.n, y) + p.x0 * out_.strides[4] + j;
          b.x = image + (y - p.y0) * s_.stride[1] * row_step + from;
          if (!f_.planes()) {  // rows of taps above and below the image are left out
            const RowTaps taps(f_, s_, y, in_y_);
            const int64_t skip = taps.skip * per_row;
            b.run_count = taps.rows * per_row, b.runs = runs.at + skip, b.w = w + skip * b.w_run;
          }
          b.out = out_.as<float>() + at;
          b.finish = FinishFor(at, j);
          if (f_.shared())
            isa_.last_groups(b, f_.per);
          else
            isa_.last_block(b);
        }
      }
    }
  }
  bool own_panels() const { return f_.groups > 1 && !f_.shared(); }
  // The first channel that they read.
  int64_t ChannelsOf(int64_t u, int64_t j) const { return own_panels() ? u * f_.per : f_.shared() ? j : 0; }
  // The weights of the columns from j on, which are of unit u.
  const float* WeightsOf(int64_t u, int64_t j) const {
    return filters_ +
           (own_panels() ? u * f_.group_panels() + (j - u * Unit()) / kPanel : j / kPanel) * f_.depth() * kPanel;
  }
  // Columns are cut into whole groups, or into panels of the one group.
  int64_t Unit() const { return own_panels() ? f_.group_outs() : kColumns; }
  // Where in the image, as it lies, the first result of a part reads first: there is no border.
  const float* First(const Part& p) const {
    return data_ + p.n * step_ + (p.y0 * s_.stride[1] * in_x_ + p.x0 * s_.stride[2]) * pixel_;
  }

  // Whether groups read the image as it lies. Their sums are short, so that each column at the border takes about as
  // long as a copy of eight places, of which each result has as many as the stride.
  bool GroupsAsTheyLie() const {
    const auto [first, last] = InnerPlaces();
    if (!as_it_lies() || !bordered()) return false;
    const int64_t inner = last - first, border = to_x_ - inner, copies = to_x_ * s_.stride[2];
    if (isa_.last_grain == 1 || f_.shared()) return 8 * border <= inner * s_.stride[2];
    // Tiles that are not whole take the time of more places than they have: measured, with AVX2.
    const auto places = [this](int64_t n) {
      const int64_t rest = n % isa_.last_grain;
      return static_cast<double>(n) + (rest == 0   ? 0
                                       : rest >= 4 ? 0.5
                                                   : std::max(0.8, 3.2 - static_cast<double>(rest)));
    };
    return inner > 0 &&
           places(inner) + 1.1 * static_cast<double>(border) < places(to_x_) + 0.06 * static_cast<double>(copies);
  }
  // Groups read their own channels only: some groups of some rows at a time, with the border that they have. Threads
  // share the rows of the results, and a row that does not divide by its groups: so each has about the rows that it has
  // of the image.
  void Groups(const Workers* workers, Scratch& scratch) const {
    const bool direct = GroupsAsTheyLie(), copied = !direct && (laid_ || bordered() || Meet(pixel_));
    const int64_t unit = Unit(), units = Ceil(f_.outs, unit), unit_channels = f_.shared() ? unit : f_.per;
    const int64_t threads = workers != nullptr ? workers->threads : 1, lines = batch_ * to_y_;
    const int64_t wide = copied ? Reach(2, to_x_) : in_x_;
    // Spans of rows that are too long to stay near.
    const int64_t place = s_.stride[2] * unit_channels + unit;  // floats of image and result
    const int64_t span = to_x_ * place <= 2 * kNear
                             ? to_x_
                             : std::max(4 * isa_.last_rows, kNear / place / isa_.last_rows * isa_.last_rows);
    const int64_t held_wide = copied && span < to_x_ ? Reach(2, span) : wide;  // places of a row that are held at once
    // Rows and groups that stay near: all rows of a thread where that is so of one group.
    const auto floats = [&](int64_t rows) {
      return Reach(1, rows) * Reach(2, span) * unit_channels + rows * span * unit;
    };
    int64_t most = std::min(to_y_, Ceil(lines, threads));
    while (most > 1 && floats(most) > kNear) most = Ceil(most, 2);
    const int64_t some = std::clamp<int64_t>(kNear / floats(most), 1, units);
    const int64_t held = std::min(channels_, some * unit_channels);
    const int64_t pixel = !copied ? pixel_ : Meet(held) ? held + kPanel : held;
    const int64_t row_step = held_wide * pixel, high = Reach(1, most);
    const Runs runs = RunsOf(pixel, row_step, 0, scratch);
    const int64_t parts = threads > 1 && lines >= 16 * threads ? 2 * threads : threads;
    ParallelFor(scratch, workers, parts, 1, [&](int64_t first_part, int64_t end_part, Scratch& own) {
      float* const memory = copied ? own.Take<float>((high * held_wide + (laid_ ? isa_.lanes : 0)) * pixel) : nullptr;
      if (own.counting()) return;
      const int64_t end = lines * units * end_part / parts;
      for (int64_t i = lines * units * first_part / parts, next; i < end; i = next) {
        // Whole rows, or groups of one.
        const int64_t line = i / units, first = i % units, y = line % to_y_;
        const int64_t rows = first == 0 ? std::clamp<int64_t>((end - i) / units, 1, to_y_ - y) : 1;
        const int64_t last = std::min(units, first + end - i);
        next = i + (rows - 1) * units + last - first;
        if (direct) {
          for (int64_t u = first; u < last; ++u) SumsAsItLies(line / to_y_, y, y + rows, u, true, runs);
          continue;
        }
        for (int64_t u = first; u < last; u += some)
          for (int64_t y0 = y; y0 < y + rows; y0 += most)
            for (int64_t x0 = 0; x0 < to_x_; x0 += span) {
              const Part p{line / to_y_,
                           y0,
                           std::min(y + rows, y0 + most),
                           x0,
                           std::min(span, to_x_ - x0),
                           u,
                           std::min(last, u + some)};
              const float* image = nullptr;
              if (copied) {
                const int64_t c0 = u * unit_channels, c1 = std::min(channels_, p.end_unit * unit_channels);
                PadRows(p.n, y0, Reach(1, p.y1 - y0), x0 * s_.stride[2], held_wide, c0, c1, pixel, memory);
                image = memory - c0;
              } else {
                image = First(p);
              }
              Sums(p, image, pixel, row_step, runs);
            }
      }
    });
  }

  // One group: bands of rows that stay near, or, of rows that are too long for that, spans of them, each with all
  // channels or some panels.
  void Bands(const Workers* workers, Scratch& scratch) const {
    const bool planes = f_.planes(), copied = laid_ || bordered() || Meet(pixel_);
    const int64_t wide = copied ? Reach(2, to_x_) : in_x_;
    const int64_t per_row = RowFloats(wide);
    const int64_t most_span =
        std::max(4 * isa_.last_rows, kNear / (s_.stride[2] * channels_ + f_.outs) / isa_.last_rows * isa_.last_rows);
    const int64_t spans = planes || per_row <= 2 * kNear ? 1 : Ceil(to_x_, most_span),
                  span = spans == 1 ? to_x_ : most_span;
    const int64_t most = MostRows(per_row);
    const Shares shares = Share(workers, batch_ * spans, to_y_, Ceil(f_.outs, Unit()), Ceil(to_y_, most), 1, false);
    // floats of a place
    const int64_t pixel = planes ? 1 : !copied ? pixel_ : Meet(channels_) ? channels_ + kPanel : channels_;
    const int64_t high = Reach(1, shares.MostRows());
    const int64_t held_wide = copied && spans > 1 ? Reach(2, span) : wide;  // places of a row that are held at once
    const int64_t row_step = held_wide * pixel;
    const Runs runs = RunsOf(pixel, row_step, planes ? (copied ? high : in_y_) * held_wide : 0, scratch);
    ParallelFor(scratch, workers, shares.tasks(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
      float* const memory =
          copied ? own.Take<float>((high * held_wide + (laid_ ? isa_.lanes : 0)) * (planes ? channels_ : pixel))
                 : nullptr;
      if (own.counting()) return;
      int64_t held = -1;  // the block whose image is in `memory`
      for (int64_t i = begin; i < end; ++i) {
        const Shares::Task task = shares[i];
        const int64_t x0 = task.image % spans * span;  // of the shares, each span is an image
        const Part p{task.image / spans,         task.row,   task.end_row,  x0,
                     std::min(span, to_x_ - x0), task.panel, task.end_panel};
        if (p.y0 >= p.y1 || p.m <= 0) continue;
        if (copied && std::exchange(held, task.block) != task.block) {
          if (planes)
            PadPlanes(p.n, p.y0, high, wide, memory);
          else
            PadRows(p.n, p.y0, high, x0 * s_.stride[2], held_wide, 0, channels_, pixel, memory);
        }
        Sums(p, copied ? memory : First(p), pixel, row_step, runs);
      }
    });
  }
  // Rows of the image, from that of result row y0 on, between the zeros of the border; of each `wide` places from x0 of
  // the border on, of these the channels [c0, c1), places `pixel` floats apart. Rows above and below the image, of
  // which Sums reads nothing, stay as they are. Of an image of planes, rows are laid out in whole vectors where that
  // reads
  // nothing but their plane: what is written beyond a row is overwritten, and memory for as much must follow the last.
  void PadRows(int64_t n, int64_t y0, int64_t high, int64_t x0, int64_t wide, int64_t c0, int64_t c1, int64_t pixel,
               float* to) const {
    const int64_t left = std::clamp<int64_t>(s_.pad[2] - x0, 0, wide), first = std::max<int64_t>(0, x0 - s_.pad[2]);
    const int64_t count = std::max<int64_t>(0, std::min(wide - left, in_x_ - first));
    for (int64_t r = 0; r < high; ++r, to += wide * pixel) {
      const int64_t y = y0 * s_.stride[1] - s_.pad[1] + r;
      if (y < 0 || y >= in_y_) continue;
      const int64_t place = y * in_x_ + first;
      const float* const image = data_ + n * step_;
      std::fill_n(to, left * pixel, 0.0f);
      if (laid_) {
        const int64_t whole = RoundUp(count, isa_.lanes);
        BestIsa().transpose(reinterpret_cast<const uint32_t*>(image + c0 * x_.strides[1] + place), x_.strides[1],
                            reinterpret_cast<uint32_t*>(to + left * pixel), pixel,
                            place + whole <= in_y_ * in_x_ ? whole : count, c1 - c0);
      } else {
        CopyPlaces(image + place * pixel_ + c0, pixel_, count, c1 - c0, to + left * pixel, pixel);
      }
      std::fill_n(to + (left + count) * pixel, (wide - left - count) * pixel, 0.0f);
    }
  }
  void PadPlanes(int64_t n, int64_t y0, int64_t high, int64_t wide, float* to) const {
    const int64_t left = std::min(s_.pad[2], wide), count = std::clamp<int64_t>(wide - left, 0, in_x_);
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t r = 0; r < high; ++r, to += wide) {
        const int64_t y = y0 * s_.stride[1] - s_.pad[1] + r;
        const bool in = y >= 0 && y < in_y_;
        std::fill_n(to, in ? left : wide, 0.0f);
        if (!in) continue;
        std::memcpy(to + left, data_ + n * step_ + (c * in_y_ + y) * in_x_, static_cast<size_t>(count) * sizeof(float));
        std::fill_n(to + left + count, wide - left - count, 0.0f);
      }
  }

  const ConvIsa& isa_ = *BestIsa().conv;
  const Tensor &x_, &w_, &out_;
  const ConvShape& s_;
  const FilterShape f_;
  const int64_t batch_, channels_, in_y_, in_x_, to_y_, to_x_;
  const float *filters_ = nullptr, *data_ = nullptr;
  int64_t pixel_, step_ = 0;  // floats between places, between images
  const bool laid_ = false;
  bool in_turns_ = false;
  LastFinish finish_;
};

}  // namespace

bool ChannelsLast(const Tensor& t) {
  return t.rank == 5 && t.sizes[2] == 1 && (t.strides[1] == 1 || t.sizes[1] == 1) && t.strides[4] >= t.sizes[1] &&
         (t.sizes[3] == 1 || t.strides[3] == t.sizes[4] * t.strides[4]) && t.strides[0] >= 0;
}

bool WantsConvLast(const Tensor& x, const Tensor& w, const Tensor& out) {
  return w.packed == Packing::kFilters || (ChannelsLast(out) && !out.is_contiguous()) ||
         (ChannelsLast(x) && !x.is_contiguous());
}

// A dense image of these sizes with channels last.
static Tensor WithChannelsLast(Tensor t) {
  t.strides[1] = 1, t.strides[4] = t.sizes[1], t.strides[3] = t.strides[2] = t.sizes[1] * t.sizes[4];
  t.strides[0] = t.strides[3] * t.sizes[3];
  return t;
}

bool ConvFewChannels(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  // Results are laid out into planes, patches are not; and panels are to be mostly full.
  const int64_t outs = out.sizes[1], depth = w.sizes[1] * w.sizes[3] * w.sizes[4];
  if (!out.is_contiguous() || outs > 2 * depth || 5 * outs < 4 * Ceil(outs, kPanel) * kPanel) return false;
  const Tensor last = WithChannelsLast(out);
  const Conv conv(x, w, last, shape);
  return conv.possible() && conv.takes_planes();
}

// The rows of an image with channels last as one.
static Tensor JoinRows(Tensor t) {
  t.sizes[4] *= t.sizes[3], t.sizes[3] = 1;
  return t;
}

bool ConvLast(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape, const ConvEpilogue& epilogue,
              const Workers* workers, Scratch& scratch) {
  if (ChannelsLast(out)) {
    // Groups over single places do not ask where a row ends.
    const bool joins = shape.groups > 1 && w.sizes[3] * w.sizes[4] == 1 && SameSizes(x, 2, 3, out, 2) &&
                       shape.stride[1] == 1 && shape.stride[2] == 1 && shape.pad[1] == 0 && shape.pad[2] == 0 &&
                       ChannelsLast(x);
    const Tensor image = joins ? JoinRows(x) : x, result = joins ? JoinRows(out) : out;
    Conv conv(image, w, result, shape);
    if (!conv.possible()) return false;
    conv.Run(epilogue, workers, scratch);
    return true;
  }
  // Sums with channels last, then the result as it lies, with what follows.
  Tensor last = WithChannelsLast(out);
  Conv conv(x, w, last, shape);
  if (!conv.possible() || !out.is_contiguous()) return false;
  if (conv.takes_planes()) {
    conv.RunPlanes(out, epilogue, workers, scratch);
    return true;
  }
  last.data = scratch.Take<float>(out.numel());
  ConvEpilogue sums;
  sums.scale = epilogue.scale, sums.shift = epilogue.shift;
  conv.Run(sums, workers, scratch);
  if (scratch.counting()) return true;
  const int64_t plane = out.sizes[3] * out.sizes[4], channels = out.sizes[1], parts = Ceil(channels, kPanel);
  const ConvEpilogue rest = epilogue.AfterAffine();
  ParallelFor(workers, out.sizes[0] * parts, std::max<int64_t>(1, 2048 / plane), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % parts * kPanel, some = std::min(kPanel, channels - c), first = i / parts * channels * plane,
                    at = first + c * plane;
      float* const to = out.as<float>() + at;
      BestIsa().transpose(reinterpret_cast<const uint32_t*>(last.as<float>() + first + c), channels,
                          reinterpret_cast<uint32_t*>(to), plane, some, plane);
      if (!rest.empty()) BestIsa().conv->finish(to, to, some * plane, rest.For(0, at));
    }
  });
  return true;
}

bool ConvLastOverwrites(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  const Conv conv(x, w, out, shape);
  return ChannelsLast(out) && conv.possible() && conv.stores_once();
}

namespace {

// A depthwise convolution of planes: a panel of channels of some rows at a time is laid out with channels last, where
// it is near, and so its results are laid back.
class DepthwisePlanes {
 public:
  DepthwisePlanes(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s)
      : s_(s), f_{s.groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4]}, batch_(out.sizes[0]),
        channels_(x.sizes[1]), in_y_(x.sizes[3]), in_x_(x.sizes[4]), to_y_(out.sizes[3]), to_x_(out.sizes[4]) {
    possible_ =
        Conv(x, w, out, s).possible() && f_.depthwise() && !w.is_packed() && x.is_contiguous() && out.is_contiguous();
  }
  // A panel of few channels is as much work as a whole one, and a short row is mostly its border.
  bool possible() const { return possible_ && 2 * channels_ >= kPanel && to_x_ >= 4; }

  void Run(const float* x, const float* w, float* out, const ConvEpilogue& e, const Workers* workers,
           Scratch& scratch) const {
    if (static_cast<double>(batch_ * to_y_ * to_x_ * f_.outs * f_.taps()) < kLeastWork) workers = nullptr;
    const int64_t panels = f_.panels(), wanted = workers != nullptr ? 2 * workers->threads : 1;
    const int64_t most = std::clamp<int64_t>(kNearPlanes / ((in_x_ * s_.stride[1] + to_x_) * kPanel), 1, to_y_);
    const int64_t bands = std::clamp<int64_t>(Ceil(wanted, batch_ * panels), Ceil(to_y_, most), to_y_),
                  rows = Ceil(to_y_, bands);
    const int64_t reach = (f_.height - 1) * s_.dilation[1],
                  high = std::min(in_y_, (rows - 1) * s_.stride[1] + reach + 1);
    ParallelFor(scratch, workers, batch_ * panels * bands, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      float *const image = own.Take<float>(high * in_x_ * kPanel), *const sums = own.Take<float>(rows * to_x_ * kPanel);
      float* const filters = own.Take<float>(f_.taps() * kPanel);
      if (own.counting()) return;
      int64_t packed = -1;  // the panel whose filters are in `filters`
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / bands / panels, panel = i / bands % panels, y0 = i % bands * rows,
                      y1 = std::min(to_y_, y0 + rows);
        const int64_t c0 = panel * kPanel, some = std::min(kPanel, channels_ - c0);
        if (y0 >= y1) continue;
        if (std::exchange(packed, panel) != panel) PackFilters(w, f_, panel, panel + 1, filters);
        const int64_t r0 = std::clamp<int64_t>(y0 * s_.stride[1] - s_.pad[1], 0, in_y_);
        const int64_t r1 = std::clamp<int64_t>((y1 - 1) * s_.stride[1] - s_.pad[1] + reach + 1, r0, in_y_);
        BestIsa().transpose(reinterpret_cast<const uint32_t*>(x + ((n * channels_ + c0) * in_y_ + r0) * in_x_),
                            in_y_ * in_x_, reinterpret_cast<uint32_t*>(image), kPanel, (r1 - r0) * in_x_, some);
        LastTaps t;
        t.x_column = kPanel, t.x_row = s_.dilation[1] * in_x_ * kPanel, t.columns = in_x_;
        t.width = f_.width, t.stride = s_.stride[2], t.pad = s_.pad[2], t.dilation = s_.dilation[2];
        t.w_panel = f_.depth() * kPanel, t.channels = some, t.n = to_x_, t.out_column = kPanel;
        t.finish.scale = e.scale != nullptr ? e.scale + c0 : nullptr,
        t.finish.shift = e.shift != nullptr ? e.shift + c0 : nullptr;
        if (e.add == nullptr) t.finish.activation = e.activation, t.finish.low = e.low, t.finish.high = e.high;
        for (int64_t y = y0; y < y1; ++y) {
          const RowTaps taps(f_, s_, y, in_y_);
          t.rows = taps.rows;
          t.x = t.rows > 0 ? image + (taps.from - r0) * in_x_ * kPanel : image;
          t.w = filters + taps.skip * f_.width * kPanel;
          t.out = sums + (y - y0) * to_x_ * kPanel;
          BestIsa().conv->last_taps(t);
        }
        const int64_t plane = to_y_ * to_x_, at = (n * channels_ + c0) * plane + y0 * to_x_;
        BestIsa().transpose(reinterpret_cast<const uint32_t*>(sums), kPanel, reinterpret_cast<uint32_t*>(out + at),
                            plane, some, (y1 - y0) * to_x_);
        if (e.add == nullptr) continue;
        const ConvEpilogue rest = e.AfterAffine();
        for (int64_t c = 0; c < some; ++c)
          BestIsa().conv->finish(out + at + c * plane, out + at + c * plane, (y1 - y0) * to_x_,
                                 rest.For(c0 + c, at + c * plane));
      }
    });
  }

 private:
  // floats of a band and its results: both of 56 × 56 places, in the second-level cache
  static constexpr int64_t kNearPlanes = 100 << 10;
  const ConvShape& s_;
  const FilterShape f_;
  const int64_t batch_, channels_, in_y_, in_x_, to_y_, to_x_;
  bool possible_ = false;
};

}  // namespace

bool ConvDepthwisePlanes(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                         const ConvEpilogue& epilogue, const Workers* workers, Scratch& scratch) {
  const DepthwisePlanes conv(x, w, out, shape);
  if (!conv.possible()) return false;
  conv.Run(x.as<float>(), w.as<float>(), out.as<float>(), epilogue, workers, scratch);
  return true;
}
bool TakesConvDepthwisePlanes(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  return DepthwisePlanes(x, w, out, shape).possible();
}

const char* ConvLastWay(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  const Conv conv(x, w, out, shape);
  return conv.possible() ? conv.Way() : nullptr;
}

}  // namespace slipway::kernels
