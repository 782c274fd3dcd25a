// Threads share the rows of the result. Each goes through its own in groups: the rows of the depthwise convolution, for
// each some rows of the pointwise one before it, then of the group the pointwise one after it. What comes before lies
// in a ring of rows, where the next row of results finds what it reads as well. The rows that two threads need, both
// make.
#include "kernels/conv/depthwise_block.h"

#include <algorithm>

#include "kernels/conv/conv_last.h"
#include "kernels/conv/filters.h"
#include "kernels/conv/shares.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

// Floats of an image between that are made at once. About twice as many are held of the first, in the second-level
// cache.
constexpr int64_t kAtOnce = 32 << 10;
constexpr int64_t kMostTwice = 8;  // one row in so many may be made twice

constexpr int64_t kMostElements = int64_t{1} << 40;  // of an image between

FilterShape FilterShapeOf(const Tensor& w, int64_t groups) {
  return {groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4]};
}

// Rows [first, first + count) of image n.
Tensor Rows(Tensor t, int64_t n, int64_t first, int64_t count) {
  if (t.data != nullptr) t.data = t.as<float>() + n * t.strides[0] + first * t.strides[3];
  t.sizes[0] = 1, t.sizes[3] = count;
  return t;
}
// An image with as many places as t, and so many channels, at `memory`.
Tensor DenseWith(const Tensor& t, int64_t channels, float* memory) {
  Tensor image = t;
  image.data = memory;
  image.sizes[1] = channels;
  image.strides[1] = 1, image.strides[4] = channels, image.strides[3] = channels * t.sizes[4];
  image.strides[0] = image.strides[2] = image.strides[3] * t.sizes[3];
  return image;
}

constexpr ConvShape kPointwise = {1, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};

// Rows of the image before the depthwise convolution that a row of its results reads; `first` may be outside, and the
// rest too.
struct Reach {
  int64_t stride, pad, dilation, taps;
  explicit Reach(const DepthwiseBlock& b)
      : stride(b.shape.stride[1]), pad(b.shape.pad[1]), dilation(b.shape.dilation[1]), taps(b.depthwise.w.sizes[3]) {}
  int64_t rows() const { return (taps - 1) * dilation + 1; }
  int64_t first(int64_t y) const { return y * stride - pad; }
  int64_t end(int64_t y) const { return first(y) + rows(); }
};

class Block {
 public:
  Block(const Tensor& x, const DepthwiseBlock& block, const Tensor& out)
      : x_(x), out_(out), block_(block), reach_(block), channels_(block.depthwise.w.sizes[0]), in_y_(x.sizes[3]),
        to_y_(out.sizes[3]), row_(channels_ * x.sizes[4]), result_(channels_ * out.sizes[4]),
        far_(!block.before && in_y_ * row_ >= kFarImage),
        step_(std::clamp<int64_t>(kAtOnce / (reach_.stride * row_), 1, to_y_)),
        group_(block.after ? std::clamp<int64_t>(kAtOnce / result_, 1, to_y_) : to_y_),
        ring_(step_ * reach_.stride *
              (1 + Ceil(std::max<int64_t>(0, reach_.rows() - reach_.stride), step_ * reach_.stride))) {}

  void Run(const Workers* workers, Scratch& scratch) {
    const Scratch::Frame frame(scratch);
    if (block_.before) Pack(block_.before->w, 1, scratch);
    Pack(block_.depthwise.w, channels_, scratch);
    if (block_.after) Pack(block_.after->w, 1, scratch);
    const int64_t images = x_.sizes[0], threads = workers != nullptr ? workers->threads : 1;
    const int64_t parts = std::min(Ceil(threads, images), to_y_);
    if (block_.before && (parts - 1) * std::max<int64_t>(0, reach_.rows() - reach_.stride) > in_y_ / kMostTwice)
      return OneByOne(workers, scratch);
    ParallelFor(scratch, workers, images * parts, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      Memory memory;
      if (block_.before) memory.ring = own.Take<float>(ring_ * row_);
      if (block_.after) memory.group = own.Take<float>(group_ * result_);
      if (own.counting()) {
        if (block_.before) Widen(0, 0, std::min(in_y_, step_ * reach_.stride), memory.ring, own);
        if (block_.after) Narrow(0, 0, group_, memory.group, own);
        return;
      }
      for (int64_t i = begin; i < end; ++i)
        Part(i / parts, to_y_ * (i % parts) / parts, to_y_ * (i % parts + 1) / parts, memory, own);
    });
  }

 private:
  struct Memory {
    float *ring = nullptr, *group = nullptr;
  };

  // The filters, packed once for all rows.
  static void Pack(Tensor& w, int64_t groups, Scratch& scratch) {
    if (w.packed == Packing::kFilters) return;
    const FilterShape f = FilterShapeOf(w, groups);
    float* const to = scratch.Take<float>(f.floats());
    if (!scratch.counting()) PackFilters(w.as<float>(), f, 0, f.panels(), to);
    w.data = to, w.packed = Packing::kFilters;
  }

  // Whole images, one convolution after the other: where many threads would make many rows twice.
  void OneByOne(const Workers* workers, Scratch& scratch) const {
    const Tensor wide = DenseWith(x_, channels_, scratch.Take<float>(x_.sizes[0] * in_y_ * row_));
    const Tensor narrow =
        block_.after ? DenseWith(out_, channels_, scratch.Take<float>(x_.sizes[0] * to_y_ * result_)) : out_;
    const auto run = [&](const Tensor& x, const DepthwiseBlock::Layer& layer, const ConvShape& shape,
                         const Tensor& out) {
      const Scratch::Frame frame(scratch);
      ConvLast(x, layer.w, out, shape, layer.epilogue, workers, scratch);
    };
    run(x_, *block_.before, kPointwise, wide);
    run(wide, block_.depthwise, block_.shape, narrow);
    if (block_.after) run(narrow, *block_.after, kPointwise, out_);
  }
  // Rows [begin, end) of the result of image n.
  void Part(int64_t n, int64_t begin, int64_t end, const Memory& memory, Scratch& scratch) const {
    // Row r of what comes before the depthwise convolution lies at Slot(r, origin) of the ring, so that what a step
    // adds lies together.
    const int64_t origin = reach_.end(begin) - reach_.stride;
    int64_t have = std::max<int64_t>(0, reach_.first(begin));
    for (int64_t group = begin, group_end; group < end; group = group_end) {
      group_end = std::min(end, group + group_);
      for (int64_t y = group, next; y < group_end; y = next) {
        next = block_.before ? std::min(group_end, y + step_) : group_end;
        const int64_t need = block_.before ? std::min(in_y_, reach_.end(next - 1)) : have;
        for (int64_t to, slot; have < need; have = to) {
          slot = Slot(have, origin), to = std::min(need, have + ring_ - slot);
          Widen(n, have, to, memory.ring + slot * row_, scratch);
        }
        for (int64_t row = y; row < next; ++row)
          Depthwise(n, row, row + 1 < end, memory.ring, origin,
                    block_.after ? memory.group + (row - group) * result_ : nullptr);
      }
      if (block_.after) Narrow(n, group, group_end, memory.group, scratch);
    }
  }
  int64_t Slot(int64_t r, int64_t origin) const { return (r - origin + ring_) % ring_; }

  // Rows [from, end) of the pointwise convolution before.
  void Widen(int64_t n, int64_t from, int64_t end, float* to, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const Tensor rows = Rows(x_, n, from, end - from);
    ConvLast(rows, block_.before->w, DenseWith(rows, channels_, to), kPointwise, block_.before->epilogue, nullptr,
             scratch);
  }
  // Row y of the depthwise convolution, at `to`, or of the result where that is null; `more`: the next row will follow.
  void Depthwise(int64_t n, int64_t y, bool more, const float* ring, int64_t origin, float* to) const {
    const ConvShape& s = block_.shape;
    const FilterShape f = FilterShapeOf(block_.depthwise.w, channels_);
    const TapsInside inside(reach_.first(y), in_y_, reach_.taps, reach_.dilation);
    const int64_t from = reach_.first(y) + inside.first * reach_.dilation;
    LastTaps t;
    if (block_.before) {
      const int64_t slot = Slot(from, origin);
      t.x = ring + slot * row_, t.x_row = reach_.dilation * row_, t.x_column = channels_;
      t.wraps = Ceil(ring_ - slot, reach_.dilation), t.x_ring = ring_ * row_;
    } else {
      const float* const image = x_.as<float>() + n * x_.strides[0];
      t.x = image + from * x_.strides[3], t.x_row = reach_.dilation * x_.strides[3], t.x_column = x_.strides[4];
      const int64_t end = std::min(in_y_, reach_.end(y + 1)), first = std::clamp<int64_t>(reach_.end(y), 0, end);
      if (far_ && more) t.read = {image + first * x_.strides[3], (end - first) * x_.strides[3]};
    }
    t.columns = x_.sizes[4], t.rows = inside.count(), t.width = f.width;
    t.stride = s.stride[2], t.pad = s.pad[2], t.dilation = s.dilation[2];
    t.w = block_.depthwise.w.as<float>() + inside.first * f.width * kPanel, t.w_panel = f.depth() * kPanel;
    t.channels = channels_, t.n = out_.sizes[4];
    const int64_t at = n * out_.strides[0] + y * out_.strides[3];
    t.out = to != nullptr ? to : out_.as<float>() + at, t.out_column = to != nullptr ? channels_ : out_.strides[4];
    const ConvEpilogue e = At(block_.depthwise.epilogue, at);
    t.finish = {e.scale, e.shift, e.add, e.activation, e.low, e.high, e.post_scale, e.post_shift, e.post_add};
    BestIsa().conv->last_taps(t);
  }
  // Rows [y, end) of the pointwise convolution after, of which `from` has the image.
  void Narrow(int64_t n, int64_t y, int64_t end, float* from, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const Tensor rows = Rows(out_, n, y, end - y);
    const ConvEpilogue e = At(block_.after->epilogue, n * out_.strides[0] + y * out_.strides[3]);
    ConvLast(DenseWith(rows, channels_, from), block_.after->w, rows, kPointwise, e, nullptr, scratch);
  }
  static ConvEpilogue At(ConvEpilogue e, int64_t at) {
    if (e.add != nullptr) e.add += at;
    if (e.post_add != nullptr) e.post_add += at;
    return e;
  }

  const Tensor &x_, &out_;
  DepthwiseBlock block_;
  const Reach reach_;
  const int64_t channels_, in_y_, to_y_;
  const int64_t row_, result_;  // floats of a row that the depthwise convolution reads, and that it gives
  const bool far_;              // x is read by the depthwise convolution and is far
  // rows of the depthwise convolution: that are made of one step of what comes before, and before what comes after
  const int64_t step_, group_;
  // rows that are held of what comes before: of whole steps, and what a row of results reads
  const int64_t ring_;
};

}  // namespace

bool TakesDepthwiseBlock(const Tensor& x, const DepthwiseBlock& block, const Tensor& out) {
  const auto whole = [](const Tensor& t) {
    return t.dtype == DType::kF32 && t.rank == 5 && t.sizes[2] == 1 && t.numel() > 0;
  };
  if (!whole(x) || !whole(out) || !ChannelsLast(x) || !ChannelsLast(out) || x.sizes[0] != out.sizes[0] ||
      !(block.before || block.after))
    return false;
  const Tensor& taps = block.depthwise.w;
  const ConvShape& s = block.shape;
  if (!whole(taps)) return false;
  const int64_t channels = taps.sizes[0];
  if (s.groups != channels || taps.sizes[1] != 1 || s.stride[1] > x.sizes[3] || s.dilation[1] > x.sizes[3])
    return false;
  const auto pointwise = [&](const Tensor& w, int64_t outs, int64_t ins) {
    return whole(w) && w.sizes[0] == outs && w.sizes[1] == ins && w.sizes[3] * w.sizes[4] == 1;
  };
  if (block.before ? !pointwise(block.before->w, channels, x.sizes[1]) : x.sizes[1] != channels) return false;
  if (block.after ? !pointwise(block.after->w, out.sizes[1], channels) : out.sizes[1] != channels) return false;
  for (const DepthwiseBlock::Layer* layer : {block.before ? &*block.before : nullptr, &block.depthwise})
    if (layer != nullptr && layer != &block.last() && (layer->epilogue.add != nullptr || layer->epilogue.has_post()))
      return false;
  const __int128 places =
      std::max(static_cast<__int128>(x.sizes[3]) * x.sizes[4], static_cast<__int128>(out.sizes[3]) * out.sizes[4]);
  if (places * channels * x.sizes[0] > kMostElements) return false;
  const Tensor wide = DenseWith(x, channels, nullptr), narrow = DenseWith(out, channels, nullptr);
  if (ConvLastWay(wide, taps, narrow, s) == nullptr) return false;
  if (block.before && ConvLastWay(x, block.before->w, wide, kPointwise) == nullptr) return false;
  if (block.after && ConvLastWay(narrow, block.after->w, out, kPointwise) == nullptr) return false;
  // Each row of results reads some of the image's, and a row is no product of few places, whose sums ConvLast makes in
  // another order.
  const Reach reach(block);
  return reach.pad < reach.rows() && reach.first(out.sizes[3] - 1) < x.sizes[3] &&
         std::min(x.sizes[4], out.sizes[4]) >= 4;
}

void RunDepthwiseBlock(const Tensor& x, const DepthwiseBlock& block, const Tensor& out, const Workers* workers,
                       Scratch& scratch) {
  Block(x, block, out).Run(workers, scratch);
}

}  // namespace slipway::kernels
