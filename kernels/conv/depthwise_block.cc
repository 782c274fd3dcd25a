// Threads share the rows of the result. Each goes through its own in groups: the rows of the depthwise convolution, for
// each some rows of the pointwise one before it, then of the group the pointwise one after it. What comes before lies
// in a ring of rows, where the next row of results finds what it reads as well. The rows that two threads need, both
// make.
#include "kernels/conv/depthwise_block.h"

#include <algorithm>
#include <cstring>

#include "kernels/conv/conv_bf16.h"
#include "kernels/conv/conv_half.h"
#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/filters.h"
#include "kernels/conv/half_rows.h"
#include "kernels/conv/work_partition.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

// Bytes of an image between that are made at once. About twice as many are held of the first, in the second-level
// cache.
constexpr int64_t kAtOnce = 128 << 10;
constexpr int64_t kMaxTwice = 8;  // one row in so many may be made twice

constexpr int64_t kMaxElements = int64_t{1} << 40;  // of an image between

FilterShape FilterShapeOf(const Tensor& w, int64_t groups) {
  return {groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4]};
}

// Rows [first, first + count) of image n.
Tensor Rows(Tensor t, int64_t n, int64_t first, int64_t count) {
  if (t.data != nullptr) t.data = t.as<char>() + (n * t.strides[0] + first * t.strides[3]) * ByteSize(t.dtype);
  t.sizes[0] = 1, t.sizes[3] = count;
  return t;
}
// An image with as many places as t, and so many channels, at `memory`.
Tensor DenseWith(const Tensor& t, DType dtype, int64_t channels, void* memory) {
  Tensor image = t;
  image.data = memory, image.dtype = dtype;
  image.sizes[1] = channels;
  image.strides[1] = 1, image.strides[4] = channels, image.strides[3] = channels * t.sizes[4];
  image.strides[0] = image.strides[2] = image.strides[3] * t.sizes[3];
  return image;
}

constexpr ConvShape kPointwise = {1, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};
constexpr ConvAttributes<> kPointwiseAttributes{1, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};

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

// Rows that are held of what comes before the depthwise convolution: row r lies at Slot(r), so that what a step adds
// lies together.
template <typename T>
struct Ring {
  T* memory = nullptr;
  int64_t rows = 1, row = 0;  // elements of a row
  int64_t origin = 0;
  int64_t Slot(int64_t r) const { return (r - origin + rows) % rows; }
  T* At(int64_t r) const { return memory + Slot(r) * row; }
};

Epilogue At(Epilogue e, int64_t at) {
  if (e.residual != nullptr) e.residual += at;
  if (e.post_residual != nullptr) e.post_residual += at;
  return e;
}

// The convolutions of a block of f32, some rows at a time; of a block of bf16 or f16 in f32 as well, whose images are
// widened when they are read and whose result is rounded, as convolutions one by one would round each (conv_half.h).
class F32Rows {
 public:
  using Element = float;

  F32Rows(const Tensor& x, const DepthwiseBlock& block, const Tensor& out)
      : x_(x), out_(out), block_(block), extent_(block), half_(IsHalf(x.dtype)), channels_(block.depthwise.w.sizes[0]),
        far_(!block.before && x.sizes[3] * ring_row() >= kImageExceedsL2Floats) {}

  // Whether there is a ring, which is read instead of the image, and rows between the depthwise convolution and After.
  bool has_ring() const { return block_.before || half_; }
  bool has_group() const { return block_.after || half_; }
  int64_t ring_row() const { return channels_ * x_.sizes[4]; }
  int64_t group_row() const { return channels_ * out_.sizes[4]; }
  void ClearRing(Element*, int64_t) const {}

  void Prepare(Scratch& scratch) {
    if (block_.before) block_.before->w = F32Filters(block_.before->w, 1, scratch);
    block_.depthwise.w = F32Filters(block_.depthwise.w, channels_, scratch);
    if (block_.after) block_.after->w = F32Filters(block_.after->w, 1, scratch);
  }
  // Rows [from, end) of what comes before the depthwise convolution.
  void Before(int64_t n, int64_t from, int64_t end, const Ring<float>& ring, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    Tensor rows = Rows(x_, n, from, end - from);
    if (half_) {
      const int64_t elements = (end - from) * x_.sizes[1] * x_.sizes[4];
      float* const to = block_.before ? scratch.Take<float>(elements) : ring.At(from);
      if (!scratch.querying()) LoadRows(x_, n, from, end - from, to);
      rows = DenseWith(rows, DType::kF32, x_.sizes[1], to);
    }
    if (!block_.before) return;
    ConvNhwc(rows, block_.before->w, DenseWith(rows, DType::kF32, channels_, ring.At(from)), kPointwise,
             block_.before->epilogue, nullptr, scratch);
  }
  // Row y of the depthwise convolution, at `to`, or of the result where that is null; `more`: the next row will follow.
  void Depthwise(int64_t n, int64_t y, bool more, const Ring<float>& ring, float* to, const Scratch& scratch) const {
    if (scratch.querying()) return;
    const ConvShape& s = block_.shape;
    const FilterShape f = FilterShapeOf(block_.depthwise.w, channels_);
    const ValidKernelRange inside(extent_.first(y), x_.sizes[3], extent_.taps, extent_.dilation);
    const int64_t from = extent_.first(y) + inside.first * extent_.dilation;
    DwconvNhwcParams t;
    if (has_ring()) {
      t.x = ring.At(from), t.x_stride = extent_.dilation * ring.row, t.x_pixel_stride = channels_;
      t.ring_row = Ceil(ring.rows - ring.Slot(from), extent_.dilation), t.ring_stride = ring.rows * ring.row;
    } else {
      const float* const image = x_.as<float>() + n * x_.strides[0];
      t.x = image + from * x_.strides[3], t.x_stride = extent_.dilation * x_.strides[3],
      t.x_pixel_stride = x_.strides[4];
      const int64_t end = std::min(x_.sizes[3], extent_.end(y + 1)),
                    first = std::clamp<int64_t>(extent_.end(y), 0, end);
      if (far_ && more) t.read = {image + first * x_.strides[3], (end - first) * x_.strides[3]};
    }
    t.columns = x_.sizes[4], t.rows = inside.count(), t.width = f.width;
    t.stride = s.stride[2], t.pad = s.pad[2], t.dilation = s.dilation[2];
    t.w = block_.depthwise.w.as<float>() + inside.first * f.width * kPanel, t.w_panel_stride = f.depth() * kPanel;
    t.channels = channels_, t.n = out_.sizes[4];
    const int64_t at = n * out_.strides[0] + y * out_.strides[3];
    t.out = to != nullptr ? to : out_.as<float>() + at,
    t.out_pixel_stride = to != nullptr ? channels_ : out_.strides[4];
    t.epilogue = At(block_.depthwise.epilogue, at);
    BestIsa().conv_nhwc.dwconv(t);
  }
  // Rows [y, end) of the result, of which `from` has those of the depthwise convolution.
  void After(int64_t n, int64_t y, int64_t end, float* from, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const Tensor rows = Rows(out_, n, y, end - y);
    const DepthwiseBlock::Layer& last = block_.last();
    if (!half_) {
      ConvNhwc(DenseWith(rows, DType::kF32, channels_, from), block_.after->w, rows, kPointwise,
               At(last.epilogue, n * out_.strides[0] + y * out_.strides[3]), nullptr, scratch);
      return;
    }
    const int64_t elements = (end - y) * out_.sizes[1] * out_.sizes[4];
    Epilogue e = last.epilogue;
    const auto widen = [&](const uint16_t* added) -> const float* {
      if (added == nullptr) return nullptr;
      auto* const to = scratch.Take<float>(elements);
      Tensor t = out_;
      t.data = const_cast<uint16_t*>(added);
      if (!scratch.querying()) LoadRows(t, n, y, end - y, to);
      return to;
    };
    e.residual = widen(block_.residual), e.post_residual = widen(block_.post_residual);
    float* to = from;
    if (block_.after) {
      to = scratch.Take<float>(elements);
      ConvNhwc(DenseWith(rows, DType::kF32, channels_, from), block_.after->w,
               DenseWith(rows, DType::kF32, out_.sizes[1], to), kPointwise, e, nullptr, scratch);
    }
    if (!scratch.querying()) StoreRows(to, out_, n, y, end - y);
  }
  // Whole images, one convolution after the other; false where it does not do that.
  bool OneByOne(const Workers* workers, Scratch& scratch) const {
    if (half_) return false;
    const auto image = [&](const Tensor& t) {
      return DenseWith(t, DType::kF32, channels_,
                       scratch.Take<float>(t.sizes[0] * t.sizes[3] * t.sizes[4] * channels_));
    };
    const auto run = [&](const Tensor& x, const DepthwiseBlock::Layer& layer, const ConvShape& shape,
                         const Tensor& out) {
      const Scratch::Frame frame(scratch);
      ConvNhwc(x, layer.w, out, shape, layer.epilogue, workers, scratch);
    };
    const Tensor wide = image(x_), narrow = block_.after ? image(out_) : out_;
    run(x_, *block_.before, kPointwise, wide);
    run(wide, block_.depthwise, block_.shape, narrow);
    if (block_.after) run(narrow, *block_.after, kPointwise, out_);
    return true;
  }

 private:
  const Tensor &x_, &out_;
  DepthwiseBlock block_;
  const ReceptiveExtent extent_;
  const bool half_;
  const int64_t channels_;
  const bool far_;  // x is read by the depthwise convolution and is far
};

// Those of a block of bf16 on a processor with sums of two products. Rows of the ring have zeros for the borders, and
// whole tiles and blocks of channels may be read of them.
class Bf16Rows {
 public:
  using Element = uint16_t;

  Bf16Rows(const Tensor& x, const DepthwiseBlock& block, const Tensor& out)
      : x_(x), out_(out), block_(block), extent_(block), loops_(*BestBf16Conv()), channels_(block.depthwise.w.sizes[0]),
        width_(block.depthwise.w.sizes[4]) {
    const ConvShape& s = block.shape;
    const int64_t tiles = RoundUp(out.sizes[4], loops_.depthwise_pixels);
    columns_ = std::max(s.pad[2] + x.sizes[4], (tiles - 1) * s.stride[2] + (width_ - 1) * s.dilation[2] + 1) +
               Ceil(loops_.depthwise_block, channels_);
  }

  static bool has_ring() { return true; }
  bool has_group() const { return block_.after.has_value(); }
  int64_t ring_row() const { return channels_ * columns_; }
  int64_t group_row() const { return channels_ * out_.sizes[4]; }
  void ClearRing(uint16_t* ring, int64_t elements) const { std::fill_n(ring, elements, uint16_t{0}); }

  void Prepare(Scratch& scratch) {
    const int64_t height = extent_.taps;
    const uint16_t* panels = block_.depthwise.w.as<uint16_t>();
    if (!block_.depthwise.w.is_packed()) {
      const FilterShape f{channels_, 1, channels_, height, width_, /*pairs=*/true};
      auto* const packed = scratch.Take<uint16_t>(f.elements());
      if (!scratch.querying()) PackFilters(panels, f, 0, f.panels(), packed);
      panels = packed;
    }
    auto* const arranged = scratch.Take<uint16_t>(loops_.arranged(channels_, height, width_));
    zeros_ = scratch.Take<uint16_t>(ring_row());
    if (scratch.querying()) return;
    loops_.arrange_depthwise(panels, channels_, height, width_, arranged);
    std::fill_n(zeros_, ring_row(), uint16_t{0});
    arranged_ = arranged;
  }
  void Before(int64_t n, int64_t from, int64_t end, const Ring<uint16_t>& ring, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const int64_t left = block_.shape.pad[2] * channels_;
    if (block_.before) {
      const Tensor rows = Rows(x_, n, from, end - from);
      Tensor to = DenseWith(rows, DType::kBF16, channels_, ring.At(from) + left);
      to.strides[3] = ring.row;
      ConvBf16(rows, block_.before->w, to, kPointwiseAttributes, {block_.before->epilogue}, nullptr, scratch);
      return;
    }
    if (scratch.querying()) return;
    for (int64_t y = from; y < end; ++y) {
      uint16_t* to = ring.At(y) + left;
      const bool dense = x_.strides[4] == channels_;
      const int64_t pieces = dense ? 1 : x_.sizes[4], piece = dense ? channels_ * x_.sizes[4] : channels_;
      for (int64_t i = 0; i < pieces; ++i, to += piece)
        std::memcpy(to, HalfAt(x_, n, y, i), static_cast<size_t>(piece) * sizeof *to);
    }
  }
  void Depthwise(int64_t n, int64_t y, bool, const Ring<uint16_t>& ring, uint16_t* to, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const uint8_t** const rows = scratch.Take<const uint8_t*>(extent_.taps);
    if (scratch.querying()) return;
    for (int64_t k = 0; k < extent_.taps; ++k) {
      const int64_t r = extent_.first(y) + k * extent_.dilation;
      rows[k] = reinterpret_cast<const uint8_t*>(r < 0 || r >= x_.sizes[3] ? zeros_ : ring.At(r));
    }
    const ConvShape& s = block_.shape;
    Bf16DwconvParams p;
    p.rows = rows, p.x_pixel_stride = channels_ * int64_t{sizeof(uint16_t)}, p.columns = columns_;
    p.height = extent_.taps, p.width = width_, p.stride = s.stride[2], p.dilation = s.dilation[2];
    p.w = arranged_, p.channels = channels_, p.n = out_.sizes[4];
    const int64_t at = n * out_.strides[0] + y * out_.strides[3];
    p.out = to != nullptr ? to : out_.as<uint16_t>() + at;
    p.out_pixel_stride = to != nullptr ? channels_ : out_.strides[4];
    p.after = HalfEpilogue{block_.depthwise.epilogue};
    if (to == nullptr) p.after = Added(p.after).At(0, at);
    loops_.dwconv(p);
  }
  void After(int64_t n, int64_t y, int64_t end, uint16_t* from, Scratch& scratch) const {
    const Scratch::Frame frame(scratch);
    const Tensor rows = Rows(out_, n, y, end - y);
    const HalfEpilogue e = Added({block_.after->epilogue}).At(0, n * out_.strides[0] + y * out_.strides[3]);
    ConvBf16(DenseWith(rows, DType::kBF16, channels_, from), block_.after->w, rows, kPointwiseAttributes, e, nullptr,
             scratch);
  }
  static bool OneByOne(const Workers*, Scratch&) { return false; }

 private:
  HalfEpilogue Added(HalfEpilogue e) const {
    e.residual = block_.residual, e.post_residual = block_.post_residual;
    return e;
  }

  const Tensor &x_, &out_;
  DepthwiseBlock block_;
  const ReceptiveExtent extent_;
  const Bf16ConvMicrokernels& loops_;
  const int64_t channels_, width_;
  int64_t columns_;  // of a row of the ring
  const uint16_t* arranged_ = nullptr;
  uint16_t* zeros_ = nullptr;  // a row
};

template <typename RowLoops>
class Block {
  using T = typename RowLoops::Element;
  static constexpr int64_t kElementsAtOnce = kAtOnce / int64_t{sizeof(T)};

 public:
  Block(const Tensor& x, const DepthwiseBlock& block, const Tensor& out)
      : loops_(x, block, out), extent_(block), with_before_(block.before), images_(x.sizes[0]), in_y_(x.sizes[3]),
        to_y_(out.sizes[3]), row_(loops_.ring_row()), result_(loops_.group_row()),
        step_(std::clamp<int64_t>(kElementsAtOnce / (extent_.stride * row_), 1, to_y_)),
        group_(loops_.has_group() ? std::clamp<int64_t>(kElementsAtOnce / result_, 1, to_y_) : to_y_),
        ring_(step_ * extent_.stride *
              (1 + Ceil(std::max<int64_t>(0, extent_.rows() - extent_.stride), step_ * extent_.stride))) {}

  void Run(const Workers* workers, Scratch& scratch) {
    const Scratch::Frame frame(scratch);
    loops_.Prepare(scratch);
    const int64_t threads = workers != nullptr ? workers->threads : 1;
    int64_t parts = std::min(Ceil(threads, images_), to_y_);
    const int64_t twice = std::max<int64_t>(0, extent_.rows() - extent_.stride);  // rows of a part
    if (with_before_ && (parts - 1) * twice > in_y_ / kMaxTwice) {
      if (loops_.OneByOne(workers, scratch)) return;
      parts = 1 + in_y_ / kMaxTwice / twice;
    }
    ParallelFor(scratch, workers, images_ * parts, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      Ring<T> ring{.rows = ring_, .row = row_};
      T* group = nullptr;
      if (loops_.has_ring()) ring.memory = own.Take<T>(ring_ * row_);
      if (loops_.has_group()) group = own.Take<T>(group_ * result_);
      if (own.querying()) {
        if (loops_.has_ring()) loops_.Before(0, 0, std::min(in_y_, step_ * extent_.stride), ring, own);
        loops_.Depthwise(0, 0, false, ring, group, own);
        if (loops_.has_group()) loops_.After(0, 0, group_, group, own);
        return;
      }
      if (loops_.has_ring()) loops_.ClearRing(ring.memory, ring_ * row_);
      for (int64_t i = begin; i < end; ++i)
        Part(i / parts, to_y_ * (i % parts) / parts, to_y_ * (i % parts + 1) / parts, ring, group, own);
    });
  }

 private:
  // Rows [begin, end) of the result of image n.
  void Part(int64_t n, int64_t begin, int64_t end, Ring<T> ring, T* memory, Scratch& scratch) const {
    ring.origin = extent_.end(begin) - extent_.stride;
    int64_t have = std::max<int64_t>(0, extent_.first(begin));
    for (int64_t group = begin, group_end; group < end; group = group_end) {
      group_end = std::min(end, group + group_);
      for (int64_t y = group, next; y < group_end; y = next) {
        next = loops_.has_ring() ? std::min(group_end, y + step_) : group_end;
        const int64_t need = loops_.has_ring() ? std::min(in_y_, extent_.end(next - 1)) : have;
        for (int64_t to; have < need; have = to) {
          to = std::min(need, have + ring_ - ring.Slot(have));
          loops_.Before(n, have, to, ring, scratch);
        }
        for (int64_t row = y; row < next; ++row)
          loops_.Depthwise(n, row, row + 1 < end, ring, loops_.has_group() ? memory + (row - group) * result_ : nullptr,
                           scratch);
      }
      if (loops_.has_group()) loops_.After(n, group, group_end, memory, scratch);
    }
  }

  RowLoops loops_;
  const ReceptiveExtent extent_;
  const bool with_before_;
  const int64_t images_, in_y_, to_y_;
  const int64_t row_, result_;  // elements of a row that the depthwise convolution reads, and that it gives
  // rows of the depthwise convolution: that are made of one step of what comes before, and before what comes after
  const int64_t step_, group_;
  // rows that are held of what comes before: of whole steps, and what a row of results reads
  const int64_t ring_;
};

// Whether all its convolutions are such as ConvBf16 takes.
bool MultipliesBf16(const DepthwiseBlock& block) {
  if (BestBf16Conv() == nullptr) return false;
  for (const DepthwiseBlock::Layer* layer :
       {block.before ? &*block.before : nullptr, &block.depthwise, block.after ? &*block.after : nullptr})
    if (layer != nullptr && layer->w.dtype != DType::kBF16) return false;
  return (!block.before || block.before->w.sizes[1] % 2 == 0) && (!block.after || block.after->w.sizes[1] % 2 == 0);
}

}  // namespace

bool CanUseDepthwiseBlock(const Tensor& x, const DepthwiseBlock& block, const Tensor& out) {
  const bool half = IsHalf(x.dtype);
  const auto whole = [&](const Tensor& t) { return t.rank == 5 && t.sizes[2] == 1 && t.numel() > 0; };
  if ((x.dtype != DType::kF32 && !half) || out.dtype != x.dtype || !whole(x) || !whole(out) || !ChannelsLast(x) ||
      !ChannelsLast(out) || x.sizes[0] != out.sizes[0] || !(block.before || block.after))
    return false;
  const Tensor& taps = block.depthwise.w;
  const ConvShape& s = block.shape;
  const auto filters = [&](const Tensor& w) {
    return whole(w) && (w.dtype == x.dtype || (w.dtype == DType::kF32 && w.packed == Packing::kConvFilters)) &&
           (w.packed == Packing::kConvFilters || (!w.is_packed() && w.is_contiguous()));
  };
  if (!filters(taps)) return false;
  const int64_t channels = taps.sizes[0];
  if (s.groups != channels || taps.sizes[1] != 1 || s.stride[1] > x.sizes[3] || s.dilation[1] > x.sizes[3])
    return false;
  const auto pointwise = [&](const Tensor& w, int64_t outs, int64_t ins) {
    return filters(w) && w.sizes[0] == outs && w.sizes[1] == ins && w.sizes[3] * w.sizes[4] == 1;
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
  // What the last adds to a result of halves, a pointwise one widens with its rows.
  if (half && !block.after && (block.residual != nullptr || block.post_residual != nullptr)) return false;
  constexpr DType kF32 = DType::kF32;
  const auto takes = [](const Tensor& from, Tensor w, const Tensor& to, const ConvShape& shape) {
    w.dtype = kF32;
    return ConvNhwcAlgorithm(from, w, to, shape) != nullptr;
  };
  const Tensor wide = DenseWith(x, kF32, channels, nullptr), narrow = DenseWith(out, kF32, channels, nullptr);
  const Tensor from = half ? DenseWith(x, kF32, x.sizes[1], nullptr) : x,
               to = half ? DenseWith(out, kF32, out.sizes[1], nullptr) : out;
  if (!takes(wide, taps, narrow, s)) return false;
  if (block.before && !takes(from, block.before->w, wide, kPointwise)) return false;
  if (block.after && !takes(narrow, block.after->w, to, kPointwise)) return false;
  // Each row of results reads some of the image's, and a row is no product of few places, whose sums ConvNhwc makes in
  // another order.
  const ReceptiveExtent reach(block);
  return reach.pad < reach.rows() && reach.first(out.sizes[3] - 1) < x.sizes[3] &&
         std::min(x.sizes[4], out.sizes[4]) >= 4;
}

void RunDepthwiseBlock(const Tensor& x, const DepthwiseBlock& block, const Tensor& out, const Workers* workers,
                       Scratch& scratch) {
  if (x.dtype == DType::kBF16 && MultipliesBf16(block)) return Block<Bf16Rows>(x, block, out).Run(workers, scratch);
  Block<F32Rows>(x, block, out).Run(workers, scratch);
}

}  // namespace slipway::kernels
