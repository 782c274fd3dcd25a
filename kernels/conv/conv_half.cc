// A block of rows is a convolution of f32. Borders of its rows are zeros that are widened with them, but for depthwise
// ones; rows above and below the image are padding, which f32 loops leave out. How the rows are cut does not depend on
// the threads, so neither do the bits; they share the blocks, or each of them where these are few.
#include "kernels/conv/conv_half.h"

#include <algorithm>
#include <utility>

#include "kernels/conv/conv_bf16.h"
#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/half_rows.h"
#include "kernels/conv/nhwc/algorithms.h"
#include "kernels/conv/word_conv.h"
#include "kernels/convert.h"
#include "kernels/isa/isa.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kBlockFloats = 64 << 10;  // of image and result, in the second-level cache
constexpr int64_t kMinWinogradTiles = 96;   // of a block, which transforms all filters

class RowBlocks {
 public:
  RowBlocks(const Tensor& x, const Tensor& filters, const Tensor& out, const ConvAttributes<>& a,
            const HalfEpilogue& epilogue)
      : x_(x), out_(out), filters_(filters), epilogue_(epilogue), shape_(ShapeOf(a)), stride_y_(a.stride[1]),
        stride_x_(a.stride[2]), pad_y_(a.padding[1]),
        residuals_((epilogue.residual != nullptr ? 1 : 0) + (epilogue.post_residual != nullptr ? 1 : 0)),
        pad_x_(a.padding[2]) {
    const FilterShape f{a.groups, filters.sizes[1], filters.sizes[0], filters.sizes[3], filters.sizes[4]};
    planes_ = f.reads_nchw();
    extent_y_ = (f.height - 1) * a.dilation[1] + 1, extent_x_ = (f.width - 1) * a.dilation[2] + 1;
    shape_.pad[1] = shape_.pad[2] = 0;
    pixels_ = f.kernel_size() == 1 && f.groups == 1 && pad_y_ == 0 && pad_x_ == 0 &&
              (out.sizes[3] - 1) * stride_y_ < x.sizes[3] && (out.sizes[4] - 1) * stride_x_ < x.sizes[4];
    if (pixels_) shape_.stride[1] = shape_.stride[2] = 1;  // what it skips is not widened
    if (pixels_ && stride_y_ == 1 && stride_x_ == 1 && SameSizes(x, 2, 3, out, 2)) JoinRows();
    width_ = pixels_ ? out_.sizes[4] : (out_.sizes[4] - 1) * stride_x_ + extent_x_;
    if (f.depthwise() && TakesPadding(width_, x_.sizes[4], pad_x_, f.width * a.dilation[2])) {
      width_ = x_.sizes[4];
      shape_.pad[2] = std::exchange(pad_x_, 0);
    }
    const int64_t channels = x_.sizes[1];
    pixel_ = channels;
    if (!planes_ && !f.depthwise() && PaddedStride(shape_.stride[2] * channels) != shape_.stride[2] * channels)
      pixel_ += kPanel;  // as f32 loops would copy it
    CutRows(f);
  }

  void Run(const Workers* workers, Scratch& scratch) const {
    const int64_t blocks = x_.sizes[0] * blocks_;
    const int64_t threads = workers != nullptr ? workers->threads : 1;
    const bool shared = threads > 1 && blocks < 2 * threads && blocks % threads != 0;
    ParallelFor(scratch, shared ? nullptr : workers, blocks, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      for (int64_t i = begin; i < end; ++i) {
        const Scratch::Frame frame(own);
        const int64_t y = i % blocks_ * rows_, last = std::min(out_.sizes[3], y + rows_);
        Block(i / blocks_, y, last - y, shared ? workers : nullptr, own);
      }
    });
  }

 private:
  // Whether f32 loops take so much padding before an image of `size`, of whose windows all span `extent` and one spans
  // `window`, and what is behind the image.
  static bool TakesPadding(int64_t extent, int64_t size, int64_t pad, int64_t window) {
    return size > 0 && extent <= 2 * (size + 2 * pad) && pad <= 4 * window;
  }
  int64_t InputRows(int64_t rows) const { return pixels_ ? rows : (rows - 1) * stride_y_ + extent_y_; }

  // All pixels, of all images where these follow each other, as one column.
  void JoinRows() {
    for (Tensor* t : {&x_, &out_}) {
      const bool dense = t->sizes[3] == 1 || t->strides[3] == t->sizes[4] * t->strides[4];
      if (!dense || LoadsByPlanes(*t)) return;
    }
    const int64_t pixels = x_.sizes[3] * x_.sizes[4];
    const bool one =
        x_.sizes[0] == 1 || (x_.strides[0] == pixels * x_.strides[4] && out_.strides[0] == pixels * out_.strides[4]);
    for (Tensor* t : {&x_, &out_}) {
      t->strides[3] = t->strides[4], t->sizes[3] = pixels, t->sizes[4] = 1;
      if (one) t->sizes[3] *= t->sizes[0], t->sizes[0] = 1;
    }
  }

  void CutRows(const FilterShape& f) {
    const int64_t channels = x_.sizes[1], out_y = out_.sizes[3], out_x = out_.sizes[4];
    const int64_t in_row = width_ * channels * (pixels_ ? 1 : stride_y_),
                  row = in_row + out_x * f.output_channels * (1 + residuals_);
    const Tensor image = Image(nullptr, InputRows(out_y)), result = Result(nullptr, out_y);
    const ConvProblem whole(image, filters_, result, shape_);
    int64_t multiple = 1;
    rows_ = std::max<int64_t>(1, kBlockFloats / row);
    if (SelectAlgorithm(whole) == NhwcAlgorithm::kWinograd) {
      multiple = 4;
      rows_ = multiple * Ceil(std::max(kMinWinogradTiles, WinogradBlockTiles(whole)), Ceil(out_x, multiple));
    } else if (f.elements() >= kWeightsExceedL2Floats) {
      // Weights that are read from memory are read for many pixels, all where they outweigh the images.
      constexpr int64_t kMinPixels = 200;
      rows_ = f.elements() > 2 * out_y * row ? out_y : std::max(rows_, Ceil(kMinPixels, out_x));
    }
    if (pixels_ && out_x == 1) multiple = whole.ukernels.mr;
    rows_ = std::min(out_y, RoundUp(Ceil(out_y, Ceil(out_y, std::min(rows_, out_y))), multiple));
    blocks_ = Ceil(out_y, rows_);
  }

  // Rows of the widened image, padded, and of the result.
  Tensor Image(float* data, int64_t rows) const {
    const int64_t channels = x_.sizes[1], plane = rows * width_;
    Tensor t = x_;
    t.data = data, t.dtype = DType::kF32, t.sizes[0] = 1, t.sizes[3] = rows, t.sizes[4] = width_;
    const int64_t as_planes[] = {channels * plane, plane, plane, width_, 1},
                  last[] = {plane * pixel_, 1, plane * pixel_, width_ * pixel_, pixel_};
    std::copy_n(planes_ ? as_planes : last, 5, t.strides);
    return t;
  }
  Tensor Result(float* data, int64_t rows) const {
    Tensor t = out_;
    t.data = data, t.dtype = DType::kF32, t.sizes[0] = 1, t.sizes[3] = rows;
    return DenseNhwc(t);
  }

  // Rows [y, y + rows) of image n.
  void Block(int64_t n, int64_t y, int64_t rows, const Workers* workers, Scratch& scratch) const {
    const int64_t row = out_.sizes[1] * out_.sizes[4], grain = Grain(row);
    // The rows of the image that it reads, the first of which may be padding.
    int64_t first_row = pixels_ ? y : y * stride_y_ - pad_y_, in_rows = InputRows(rows);
    ConvShape shape = shape_;
    const int64_t above = std::max<int64_t>(0, -first_row),
                  inside = std::min(x_.sizes[3], first_row + in_rows) - first_row - above;
    if (!pixels_ && !planes_ && TakesPadding(in_rows, inside, above, extent_y_))
      shape.pad[1] = above, first_row += above, in_rows = inside;
    auto* const widened = scratch.Take<float>(in_rows * width_ * (planes_ ? x_.sizes[1] : pixel_));
    auto* const result = scratch.Take<float>(rows * row);
    Epilogue e = epilogue_.sums;
    const auto widen_added = [&](const uint16_t* added, float* to) -> const float* {
      if (added == nullptr) return nullptr;
      if (to == nullptr) to = scratch.Take<float>(rows * row);
      Tensor t = out_;
      t.data = const_cast<uint16_t*>(added);
      if (!scratch.querying())
        ParallelFor(workers, rows, grain,
                    [&](int64_t first, int64_t end) { LoadRows(t, n, y + first, end - first, to + first * row); });
      return to;
    };
    // In place of the result where each of its elements is read before it is written.
    const bool in_place = ConvNhwcWritesOnce(Image(widened, in_rows), filters_, Result(result, rows), shape);
    e.residual = widen_added(epilogue_.residual, in_place ? result : nullptr);
    e.post_residual = widen_added(epilogue_.post_residual, nullptr);
    ParallelFor(scratch, workers, in_rows, Grain(width_ * x_.sizes[1]), [&](int64_t first, int64_t end, Scratch& own) {
      float* const room = LoadsByPlanes(x_) && !planes_ ? own.Take<float>(x_.sizes[1] * x_.sizes[4]) : nullptr;
      if (own.querying()) return;
      Widen(n, first_row, first, end, in_rows, widened, room);
    });
    ConvNhwc(Image(widened, in_rows), filters_, Result(result, rows), shape, e, workers, scratch);
    if (scratch.querying()) return;
    ParallelFor(workers, rows, grain,
                [&](int64_t first, int64_t end) { StoreRows(result + first * row, out_, n, y + first, end - first); });
  }
  static int64_t Grain(int64_t row) { return std::max<int64_t>(1, 16384 / row); }

  // Rows [first, end) of the `rows` from row y of the image on, or of those that a pointwise one reads, at their place
  // in `widened`.
  void Widen(int64_t n, int64_t y, int64_t first, int64_t end, int64_t rows, float* widened, float* room) const {
    if (pixels_) {
      float* const to = widened + first * width_ * pixel_;
      if (width_ == 1 && !LoadsByPlanes(x_)) {  // a column
        Tensor column = x_;
        column.strides[4] = x_.strides[3] * stride_y_;
        return LoadPixels(column, n, 0, (y + first), 1, end - first, to, pixel_, room);
      }
      for (int64_t r = first; r < end; ++r)
        LoadPixels(x_, n, (y + r) * stride_y_, 0, stride_x_, width_, to + (r - first) * width_ * pixel_, pixel_, room);
      return;
    }
    const int64_t left = std::min(pad_x_, width_), count = std::clamp<int64_t>(width_ - left, 0, x_.sizes[4]);
    for (int64_t r = first; r < end; ++r) {
      const int64_t from = y + r;
      const bool inside = from >= 0 && from < x_.sizes[3];
      for (int64_t c = 0; planes_ && c < x_.sizes[1]; ++c) {
        float* const to = widened + (c * rows + r) * width_;
        std::fill_n(to, inside ? left : width_, 0.0f);
        if (!inside) continue;
        LoadRow<float>(HalfAt(x_, n, from, 0) + c * x_.strides[1], x_.dtype, x_.strides[4], count, DType::kF32,
                       to + left);
        std::fill_n(to + left + count, width_ - left - count, 0.0f);
      }
      if (planes_) continue;
      float* const to = widened + r * width_ * pixel_;
      std::fill_n(to, (inside ? left : width_) * pixel_, 0.0f);
      if (!inside) continue;
      LoadPixels(x_, n, from, 0, 1, count, to + left * pixel_, pixel_, room);
      std::fill_n(to + (left + count) * pixel_, (width_ - left - count) * pixel_, 0.0f);
    }
  }

  Tensor x_, out_;
  const Tensor filters_;
  const HalfEpilogue& epilogue_;
  ConvShape shape_;  // of blocks, which may be padded above
  const int64_t stride_y_, stride_x_, pad_y_, residuals_;
  int64_t pad_x_;        // that is widened
  bool planes_ = false;  // few channels, which f32 loops read as planes
  bool pixels_ = false;  // pointwise without padding
  int64_t extent_y_ = 1, extent_x_ = 1;
  int64_t width_ = 1, pixel_ = 1;  // of a widened row: pixels, and floats from one to the next
  int64_t rows_ = 1, blocks_ = 1;  // of the result: of a block, of an image
};

WordGeometry GeometryOf(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a) {
  return {x.sizes[0],    x.sizes[1], x.sizes[3],  x.sizes[4],  out.sizes[1], out.sizes[3], out.sizes[4],  a.groups,
          w.sizes[3],    w.sizes[4], a.stride[1], a.stride[2], a.padding[1], a.padding[2], a.dilation[1], a.dilation[2],
          /*per_word=*/1};
}

}  // namespace

Tensor F32Filters(const Tensor& w, int64_t groups, Scratch& scratch) {
  if (w.dtype == DType::kF32 && w.packed == Packing::kConvFilters) return w;
  const FilterShape shape{groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4], w.dtype == DType::kBF16};
  FilterShape wide = shape;
  wide.pairs = false;
  Tensor filters = w;
  auto* const panels = scratch.Take<float>(wide.elements());
  filters.data = panels, filters.dtype = DType::kF32, filters.packed = Packing::kConvFilters;
  if (w.is_packed()) {
    if (!scratch.querying()) WidenFilters(w.as<uint16_t>(), w.dtype, shape, panels);
    return filters;
  }
  const float* plain = w.as<float>();
  if (w.dtype != DType::kF32) {
    auto* const floats = scratch.Take<float>(w.numel());
    if (!scratch.querying()) BestIsa().elementwise.convert_to_f32(w.data, w.dtype, floats, w.numel());
    plain = floats;
  }
  if (!scratch.querying()) PackFilters(plain, wide, 0, wide.panels(), panels);
  return filters;
}

bool ReadsFiltersAsF32(DType dtype) {
  return dtype == DType::kF16 || (dtype == DType::kBF16 && BestBf16Conv() == nullptr);
}

bool CanUseConvHalf(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a) {
  if (CanUseConvBf16(x, w, out, a)) return true;
  if (!IsHalf(x.dtype) || out.dtype != x.dtype || x.is_packed()) return false;
  if (w.dtype == DType::kF32
          ? w.packed != Packing::kConvFilters
          : w.dtype != x.dtype || (w.is_packed() ? w.packed != Packing::kConvFilters : !w.is_contiguous()))
    return false;
  for (const Tensor* t : {&x, &w, &out})
    if (t->rank != 5 || t->sizes[2] != 1) return false;
  return a.padding[0] == 0 && ChannelsLast(out) && GeometryOf(x, w, out, a).IsValid();
}

Loop ConvHalfLoop(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a) {
  if (CanUseConvBf16(x, w, out, a)) return {BestBf16Conv()->name, ConvBf16Algorithm(x, w, out, a)};
  Tensor image = DenseNhwc(x), filters = w, result = DenseNhwc(out);
  image.dtype = filters.dtype = result.dtype = DType::kF32, filters.packed = Packing::kConvFilters;
  const char* const way = ConvNhwcAlgorithm(image, filters, result, ShapeOf(a));
  return {BestIsa().name, way != nullptr ? way : "channels last, in row blocks"};
}

void ConvHalf(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a,
              const HalfEpilogue& epilogue, const Workers* workers, Scratch& scratch) {
  if (CanUseConvBf16(x, w, out, a)) return ConvBf16(x, w, out, a, epilogue, workers, scratch);
  const Tensor filters = F32Filters(w, a.groups, scratch);
  if (GeometryOf(x, w, out, a).multiplications() < kMinParallelWork) workers = nullptr;
  RowBlocks(x, filters, out, a, epilogue).Run(workers, scratch);
}

}  // namespace slipway::kernels
