// Threads share the rows of the result. Each goes through its own in groups: the rows of the depthwise convolution, for
// each some rows of the pointwise one before it, then of the group the pointwise one after it. What comes before lies
// in a ring of rows, where the next row of results finds what it reads as well. The rows that two threads need, both
// make.
#include "kernels/conv/depthwise_block.h"

#include <algorithm>

#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/filters.h"
#include "kernels/conv/work_partition.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

// Floats of an image between that are made at once. About twice as many are held of the first, in the second-level
// cache.
constexpr int64_t kAtOnce = 32 << 10;
constexpr int64_t kMaxTwice = 8;  // one row in so many may be made twice

constexpr int64_t kMaxElements = int64_t{1} << 40;  // of an image between

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
struct ReceptiveExtent {
  int64_t stride, pad, dilation, taps;
  explicit ReceptiveExtent(const DepthwiseBlock& b)
      : stride(b.shape.stride[1]), pad(b.shape.pad[1]), dilation(b.shape.dilation[1]), taps(b.depthwise.w.sizes[3]) {}
  int64_t rows() const { return (taps - 1) * dilation + 1; }
  int64_t first(int64_t y) const { return y * stride - pad; }
  int64_t end(int64_t y) const { return first(y) + rows(); }
};

class Block {
 public:
  Block(const Tensor& x, const DepthwiseBlock& block, const Tensor& out)
      : x_(x), out_(out), block_(block), extent_(block), channels_(block.depthwise.w.sizes[0]), in_y_(x.sizes[3]),
        to_y_(out.sizes[3]), row_(channels_ * x.sizes[4]), result_(channels_ * out.sizes[4]),
        far_(!block.before && in_y_ * row_ >= kImageExceedsL2Floats),
        step_(std::clamp<int64_t>(kAtOnce / (extent_.stride * row_), 1, to_y_)),
        group_(block.after ? std::clamp<int64_t>(kAtOnce / result_, 1, to_y_) : to_y_),
        ring_(step_ * extent_.stride *
              (1 + Ceil(std::max<int64_t>(0, extent_.rows() - extent_.stride), step_ * extent_.stride))) {}

  void Run(const Workers* workers, Scratch& scratch) {
    const Scratch::Frame frame(scratch);
    if (block_.before) Pack(block_.before->w, 1, scratch);
    Pack(block_.depthwise.w, channels_, scratch);
    if (block_.after) Pack(block_.after->w, 1, scratch);
    const int64_t images = x_.sizes[0], threads = workers != nullptr ? workers->threads : 1;
    const int64_t parts = std::min(Ceil(threads, images), to_y_);
    if (block_.before && (parts - 1) * std::max<int64_t>(0, extent_.rows() - extent_.stride) > in_y_ / kMaxTwice)
      return OneByOne(workers, scratch);
    ParallelFor(scratch, workers, images * parts, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      Memory memory;
      if (block_.before) memory.ring = own.Take<float>(ring_ * row_);
      if (block_.after) memory.group = own.Take<float>(group_ * result_);
      if (own.querying()) {
        if (block_.before) Widen(0, 0, std::min(in_y_, step_ * extent_.stride), memory.ring, own);
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
    if (w.packed == Packing::kConvFilters) return;
    const FilterShape f = FilterShapeOf(w, groups);
    float* const to = scratch.Take<float>(f.elements());
    if (!scratch.querying()) PackFilters(w.as<float>(), f, 0, f.panels(), to);
    w.data = to, w.packed = Packing::kConvFilters;
  }

  // Whole images, one convolution after the other: where many threads would make many rows twice.
  void OneByOne(const Workers* workers, Scratch& scratch) const {
    const Tensor wide = DenseWith(x_, channels_, scratch.Take<float>(x_.sizes[0] * in_y_ * row_));
    const Tensor narrow =
        block_.after ? DenseWith(out_, channels_, scratch.Take<float>(x_.sizes[0] * to_y_ * result_)) : out_;
    const auto run = [&](const Tensor& x, const DepthwiseBlock::Layer& layer, const ConvShape& shape,
                         const Tensor& out) {
      const Scratch::Frame frame(scratch);
      ConvNhwc(x, layer.w, out, shape, layer.epilogue, workers, scratch);
    };
    run(x_, *block_.before, kPointwise, wide);
    run(wide, block_.depthwise, block_.shape, narrow);
    if (block_.after) run(narrow, *block_.after, kPointwise, out_);
  }
  // Rows [begin, end) of the result of image n.
  void Part(int64_t n, int64_t begin, int64_t end, const Memory& memory, Scratch& scratch) const {
    // Row r of what comes before the depthwise convolution lies at Slot(r, origin) of the ring, so that what a step
    // adds lies together.
    const int64_t origin = extent_.end(begin) - extent_.stride;
    int64_t have = std::max<int64_t>(0, extent_.first(begin));
    for (int64_t group = begin, group_end; group < end; group = group_end) {
      group_end = std::min(end, group + group_);
      for (int64_t y = group, next; y < group_end; y = next) {
        next = block_.before ? std::min(group_end, y + step_) : group_end;
        const int64_t need = block_.before ? std::min(in_y_, extent_.end(next - 1)) : have;
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
    ConvNhwc(rows, block_.before->w, DenseWith(rows, channels_, to), kPointwise, block_.before->epilogue, nullptr,
             scratch);
  }
  // Row y of the depthwise convolution, at `to`, or of the result where that is null; `more`: the next row will follow.
  void Depthwise(int64_t n, int64_t y, bool more, const float* ring, int64_t origin, float* to) const {
    const ConvShape& s = block_.shape;
    const FilterShape f = FilterShapeOf(block_.depthwise.w, channels_);
    const ValidKernelRange inside(extent_.first(y), in_y_, extent_.taps, extent_.dilation);
    const int64_t from = extent_.first(y) + inside.first * extent_.dilation;
    DwconvNhwcParams t;
    if (block_.before) {
      const int64_t slot = Slot(from, origin);
      t.x = ring + slot * row_, t.x_stride = extent_.dilation * row_, t.x_pixel_stride = channels_;
      t.ring_row = Ceil(ring_ - slot, extent_.dilation), t.ring_stride = ring_ * row_;
    } else {
      const float* const image = x_.as<float>() + n * x_.strides[0];
      t.x = image + from * x_.strides[3], t.x_stride = extent_.dilation * x_.strides[3],
      t.x_pixel_stride = x_.strides[4];
      const int64_t end = std::min(in_y_, extent_.end(y + 1)), first = std::clamp<int64_t>(extent_.end(y), 0, end);
      if (far_ && more) t.read = {image + first * x_.strides[3], (end - first) * x_.strides[3]};
    }
    t.columns = x_.sizes[4], t.rows = inside.count(), t.width = f.width;
    t.stride = s.stride[2], t.pad = s.pad[2], t.dilation = s.dilation[2];
    t.w = block_.depthwise.w.as<float>() + inside.first * f.width * kPanel, t.w_panel_stride = f.depth() * kPanel;
    t.channels = channels_, t.n = out_.sizes[4];
    const int64_t at = n * out_.strides[0] + y * out_.strides[3];
    t.out = to != nullptr ? to : out_.as<float>() + at,
    t.out_pixel_stride = to != nullptr ? channels_ : out_.strides[4];
    const Epilogue e = At(block_.depthwise.epilogue, at);
    t.epilogue = e;
    BestIsa().conv_nhwc.dwconv(t);
  }
  // Rows [y, end) of the pointwise convolution after, of which `from` has the image.
  void Narrow(int64_t n, int64_t y, int64_t end, float* from, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const Tensor rows = Rows(out_, n, y, end - y);
    const Epilogue e = At(block_.after->epilogue, n * out_.strides[0] + y * out_.strides[3]);
    ConvNhwc(DenseWith(rows, channels_, from), block_.after->w, rows, kPointwise, e, nullptr, scratch);
  }
  static Epilogue At(Epilogue e, int64_t at) {
    if (e.residual != nullptr) e.residual += at;
    if (e.post_residual != nullptr) e.post_residual += at;
    return e;
  }

  const Tensor &x_, &out_;
  DepthwiseBlock block_;
  const ReceptiveExtent extent_;
  const int64_t channels_, in_y_, to_y_;
  const int64_t row_, result_;  // floats of a row that the depthwise convolution reads, and that it gives
  const bool far_;              // x is read by the depthwise convolution and is far
  // rows of the depthwise convolution: that are made of one step of what comes before, and before what comes after
  const int64_t step_, group_;
  // rows that are held of what comes before: of whole steps, and what a row of results reads
  const int64_t ring_;
};

}  // namespace

bool CanUseDepthwiseBlock(const Tensor& x, const DepthwiseBlock& block, const Tensor& out) {
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
    if (layer != nullptr && layer != &block.last() &&
        (layer->epilogue.residual != nullptr || layer->epilogue.has_post()))
      return false;
  const __int128 places =
      std::max(static_cast<__int128>(x.sizes[3]) * x.sizes[4], static_cast<__int128>(out.sizes[3]) * out.sizes[4]);
  if (places * channels * x.sizes[0] > kMaxElements) return false;
  const Tensor wide = DenseWith(x, channels, nullptr), narrow = DenseWith(out, channels, nullptr);
  if (ConvNhwcAlgorithm(wide, taps, narrow, s) == nullptr) return false;
  if (block.before && ConvNhwcAlgorithm(x, block.before->w, wide, kPointwise) == nullptr) return false;
  if (block.after && ConvNhwcAlgorithm(narrow, block.after->w, out, kPointwise) == nullptr) return false;
  // Each row of results reads some of the image's, and a row is no product of few places, whose sums ConvNhwc makes in
  // another order.
  const ReceptiveExtent reach(block);
  return reach.pad < reach.rows() && reach.first(out.sizes[3] - 1) < x.sizes[3] &&
         std::min(x.sizes[4], out.sizes[4]) >= 4;
}

void RunDepthwiseBlock(const Tensor& x, const DepthwiseBlock& block, const Tensor& out, const Workers* workers,
                       Scratch& scratch) {
  Block(x, block, out).Run(workers, scratch);
}

}  // namespace slipway::kernels
