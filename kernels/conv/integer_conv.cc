// Kernel `integer_conv`: a convolution of bytes, and a linear layer of them as one of single pixels, whose sums are
// exact and whose result is requantized before it is stored. With x_zero = input_zero,
//
//   y = activation(Σ (x - x_zero) · w · scale[o] + bias[o] + (added - added_zero) · added_scale)
//   result = y in f32, or clamp(round(y · multiplier) + zero_point, low, high) of u8
//
// Operands: x [n, c, 1, h, w] of u8, best with channels last; w, a k × columns matrix of bytes that are signed but of
// dtype u8 (the packing of u8 leaves them as they are); x_zero · Σ w negated, [o] of i32; scale [o] of f32; then a bias
// [o] of f32 and a tensor to add, of the result's sizes, of u8 or f32. Columns are output channels, or for grouped
// convolutions each group's channels filled up to whole panels. k has, for all kernel rows, columns and channels of a
// group, which are filled up to a multiple of 4: [kernel row][kernel column][channel]; of depthwise convolutions for
// all kernel columns and rows, which are: [kernel column][kernel row].
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attributes.h"
#include "kernels/conv/padded.h"
#include "kernels/conv/work_partition.h"
#include "kernels/gemm/dequant_linear.h"
#include "kernels/gemm/packing.h"
#include "kernels/gemm/product.h"
#include "kernels/isa/int8_conv.h"
#include "kernels/registry.h"
#include "kernels/scratch.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 30;  // of what is multiplied with another
constexpr int64_t kBlockBytes = 256 << 10;      // of image and result that stay in the second-level cache
constexpr int64_t kCopyBytes = 128 << 10;       // of a padded copy
constexpr int64_t kPatchColumns = 12;           // images as narrow as this become patches
constexpr int64_t kSlack = 64;                  // bytes behind a copy that may be read

int64_t RoundUp4(int64_t n) { return (n + 3) / 4 * 4; }

// The geometry of a convolution: checked sizes, and how its weights lie.
struct Geometry {
  int64_t batch, channels, in_y, in_x, outs, out_y, out_x;
  int64_t groups, height, width, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;

  int64_t group_channels() const { return channels / groups; }
  int64_t group_outs() const { return outs / groups; }
  bool depthwise() const { return groups > 1 && groups == channels && groups == outs; }
  int64_t filled_channels() const { return RoundUp4(group_channels()); }
  int64_t depth() const { return depthwise() ? width * RoundUp4(height) : height * width * filled_channels(); }
  int64_t group_columns() const {
    return groups == 1 || depthwise() ? outs : (group_outs() + kPanel - 1) / kPanel * kPanel;
  }
  int64_t columns() const { return groups == 1 || depthwise() ? outs : groups * group_columns(); }
  int64_t extent_y() const { return (height - 1) * dilation_y + 1; }
  int64_t extent_x() const { return (width - 1) * dilation_x + 1; }
  // Whether outputs read pixels outside of the image.
  bool padded() const {
    return pad_y != 0 || pad_x != 0 || (out_y - 1) * stride_y + extent_y() > in_y ||
           (out_x - 1) * stride_x + extent_x() > in_x;
  }
  bool pointwise() const { return height == 1 && width == 1 && !padded() && groups == 1 && channels % 4 == 0; }
  double multiplications() const {
    return static_cast<double>(batch * out_y * out_x * outs) * static_cast<double>(height * width * group_channels());
  }
};

bool ReadGeometry(const Tensor& x, const Tensor& w, const Tensor& out, const IntegerConvAttributes& a, Geometry* g) {
  if (x.rank != 5 || w.rank != 2 || out.rank != 5 || x.sizes[2] != 1 || out.sizes[2] != 1) return false;
  auto fits = [](int64_t v, int64_t least) { return v >= least && v < kMaxSize; };
  for (int d : {0, 1})
    if (!fits(a.kernel[d], 1) || !fits(a.stride[d], 1) || !fits(a.padding[d], 0) || !fits(a.dilation[d], 1))
      return false;
  *g = {x.sizes[0],  x.sizes[1],  x.sizes[3],  x.sizes[4],  out.sizes[1], out.sizes[3], out.sizes[4],  a.groups,
        a.kernel[0], a.kernel[1], a.stride[0], a.stride[1], a.padding[0], a.padding[1], a.dilation[0], a.dilation[1]};
  for (const int64_t v : {g->batch, g->channels, g->in_y, g->in_x, g->outs, g->out_y, g->out_x})
    if (!fits(v, 1)) return false;
  if (!fits(g->groups, 1) || g->channels % g->groups != 0 || g->outs % g->groups != 0 || out.sizes[0] != g->batch)
    return false;
  // What is read is the image or its padding.
  const auto inside = [](int64_t outputs, int64_t stride, int64_t extent, int64_t size, int64_t pad) {
    return (outputs - 1) * stride + extent <= size + 2 * pad && extent < kMaxSize;
  };
  __int128 depth = static_cast<__int128>(g->height) * g->width * (g->group_channels() + 4);
  return g->pad_y <= g->height * g->dilation_y && g->pad_x <= g->width * g->dilation_x &&
         inside(g->out_y, g->stride_y, g->extent_y(), g->in_y, g->pad_y) &&
         inside(g->out_x, g->stride_x, g->extent_x(), g->in_x, g->pad_x) && depth <= 4 * kMaxIntegerTerms &&
         w.sizes[0] == g->depth() && w.sizes[1] == g->columns();
}

// An image of bytes with channels last, and where its pixels and rows lie.
struct Image {
  const uint8_t* at = nullptr;
  int64_t pixel = 0, row = 0, image = 0;  // bytes from one to the next
  bool channels_last = true;              // false: planes, `plane` bytes apart
  int64_t plane = 0;
};

bool HasChannelsLast(const Tensor& t) {
  return (t.strides[1] == 1 || t.sizes[1] == 1) && t.strides[4] >= t.sizes[1] &&
         (t.sizes[3] == 1 || t.strides[3] >= t.sizes[4] * t.strides[4]);
}

class IntegerConv {
 public:
  IntegerConv(const Geometry& g, const IntegerConvAttributes& a) : g_(g), a_(a) {}

  void Run(const Tensor& x, const Tensor& w, const Tensor& offset, const Tensor& scale, const Tensor* bias,
           const Tensor* added, const Tensor& out, const Call& c) {
    Scratch& scratch = *c.scratch;
    workers_ = g_.multiplications() < kMinParallelWork ? nullptr : c.workers;
    QuantizedMatrix matrix;
    matrix.k = g_.depth(), matrix.n = g_.columns();
    TakeIntegers(w, matrix, c, scratch);
    weights_ = static_cast<const int8_t*>(matrix.q);
    TakeImage(x, scratch);
    const bool last = HasChannelsLast(out);
    result_bytes_ = ByteSize(out.dtype);
    Tensor to = out;
    if (!last) {
      to = NhwcOf(out);
      to.data = scratch.Take<char>(out.numel() * result_bytes_);
    }
    Tensor other;
    if (added != nullptr) {
      other = *added;
      bool same = true;
      for (int d : {0, 1, 3, 4}) same = same && (to.sizes[d] == 1 || other.strides[d] == to.strides[d]);
      if (!same) {
        other = NhwcOf(*added);
        for (int d = 0; d < 5; ++d) other.strides[d] = to.strides[d];
        int64_t reach = 1;
        for (int d = 0; d < 5; ++d) reach += (to.sizes[d] - 1) * to.strides[d];
        other.data = scratch.Take<char>(reach * ByteSize(added->dtype));
        if (!scratch.querying()) CopyElements(*added, other);
      }
    }
    SetRequantization(offset, scale, bias, added != nullptr ? &other : nullptr, out.dtype, scratch);
    out_ = static_cast<char*>(to.data);
    out_pixel_ = to.strides[4], out_row_ = to.strides[3], out_image_ = to.strides[0];
    if (g_.depthwise())
      Depthwise(scratch);
    else if (g_.pointwise() && x_.channels_last)
      Pointwise(scratch);
    else
      Direct(scratch);
    if (!last && !scratch.querying()) CopyElements(to, out);
  }

  static const char* NameOf(const Geometry& g) {
    return g.depthwise()   ? "depthwise, four kernel rows a step"
           : g.pointwise() ? "GEMM over pixels"
           : g.groups > 1  ? "indirect GEMM of each group"
                           : "indirect GEMM";
  }

 private:
  static Tensor NhwcOf(Tensor t) {
    t.strides[1] = 1, t.strides[4] = t.sizes[1], t.strides[3] = t.strides[2] = t.sizes[1] * t.sizes[4];
    t.strides[0] = t.strides[3] * t.sizes[3];
    return t;
  }
  // Between two layouts.
  static void CopyElements(const Tensor& from, const Tensor& to) {
    const int64_t bytes = ByteSize(from.dtype);
    for (int64_t n = 0; n < from.sizes[0]; ++n)
      for (int64_t y = 0; y < from.sizes[3]; ++y)
        for (int64_t x = 0; x < from.sizes[4]; ++x) {
          const char* p = from.as<char>() + (n * from.strides[0] + y * from.strides[3] + x * from.strides[4]) * bytes;
          char* q = to.as<char>() + (n * to.strides[0] + y * to.strides[3] + x * to.strides[4]) * bytes;
          for (int64_t c = 0; c < from.sizes[1]; ++c, p += from.strides[1] * bytes, q += to.strides[1] * bytes)
            std::memcpy(q, p, static_cast<size_t>(bytes));
        }
  }

  // Images of few channels stay planes: their pixels are put together while they are padded.
  void TakeImage(const Tensor& x, Scratch& scratch) {
    Tensor t = x;
    x_.channels_last = HasChannelsLast(x);
    const bool planes = !x_.channels_last && g_.groups == 1 && g_.channels <= 4 && x.strides[4] == 1;
    if (!x_.channels_last && !planes) {
      t = NhwcOf(x);
      t.data = scratch.Take<char>(x.numel() + kSlack);
      if (!scratch.querying()) CopyElements(x, t);
      x_.channels_last = true;
    }
    x_.at = t.as<uint8_t>();
    x_.pixel = t.strides[4], x_.row = t.strides[3], x_.image = t.strides[0], x_.plane = t.strides[1];
  }

  // offset, scale and bias by column, in whole panels, with everything constant joined to them.
  void SetRequantization(const Tensor& offset, const Tensor& scale, const Tensor* bias, const Tensor* added,
                         DType result, Scratch& scratch) {
    const int64_t block = BestInt8Conv().depthwise_block;
    const int64_t columns = g_.columns(), room = (columns + block + kPanel) / block * block + block;
    auto* const offsets = scratch.Take<int32_t>(room);
    auto *const scales = scratch.Take<float>(room), *const biases = scratch.Take<float>(room);
    if (scratch.querying()) return;
    Requantization& q = after_;
    q.offset = offsets, q.scale = scales, q.bias = biases;
    q.result = result;
    const auto multiplier = static_cast<float>(a_.multiplier);
    // Without an activation in between, everything is multiplied at once.
    const bool bytes = result == DType::kU8;
    const bool bounds = a_.activation == Activation::kClamp && bytes;
    const bool joined = bytes && (bounds || a_.activation == Activation::kNone);
    const float by = joined ? multiplier : 1;
    const auto added_scale = added != nullptr ? static_cast<float>(a_.added_scale) : 0;
    const float less = static_cast<float>(a_.added_zero) * added_scale;
    std::fill_n(offsets, room, 0), std::fill_n(scales, room, 0.0f), std::fill_n(biases, room, 0.0f);
    double most = 0;
    const int64_t per = g_.groups == 1 || g_.depthwise() ? g_.outs : g_.group_outs();
    for (int64_t o = 0; o < g_.outs; ++o) {
      const int64_t column = o / per * g_.group_columns() + o % per;
      offsets[column] = offset.as<int32_t>()[o * offset.strides[0]];
      scales[column] = scale.as<float>()[o * scale.strides[0]] * by;
      const float b = bias != nullptr ? bias->as<float>()[o * bias->strides[0]] : 0;
      biases[column] = (b - less) * by;
      most = std::max(most, std::abs(double{scales[column]}) * 255 * 128 * static_cast<double>(g_.depth()) * 2 +
                                std::abs(double{biases[column]}));
    }
    q.activation = bounds ? Activation::kNone : a_.activation;
    q.min = static_cast<float>(a_.min), q.max = static_cast<float>(a_.max);
    q.multiplier = multiplier;
    q.zero_point = static_cast<int32_t>(a_.zero_point);
    q.low = static_cast<int32_t>(a_.low), q.high = static_cast<int32_t>(a_.high);
    if (bounds) {
      // Rounding does not change an order: bounds of y are bounds of the integers.
      const auto quantized = [&](float v) {
        const float y = std::nearbyint(v * multiplier) + static_cast<float>(q.zero_point);
        return static_cast<int32_t>(std::min(std::max(y, static_cast<float>(q.low)), static_cast<float>(q.high)));
      };
      const int32_t low = quantized(q.min), high = quantized(q.max);
      q.low = low, q.high = high;
    }
    if (added != nullptr) {
      q.added = added->data, q.added_dtype = added->dtype;
      q.added_scale = added_scale * by;
      most += added->dtype == DType::kF32 ? 1e30 : 255 * std::abs(double{q.added_scale});
    }
    q.saturates = !(most * (joined ? 1 : std::abs(a_.multiplier)) < 1e9);
    if (!g_.depthwise()) return;
    auto arranged = [&](const auto* from) {
      auto* const to = scratch.Take<uint32_t>(room);
      BestInt8Conv().arrange_columns(reinterpret_cast<const uint32_t*>(from), g_.outs, to);
      return to;
    };
    q.offset = reinterpret_cast<const int32_t*>(arranged(offsets));
    q.scale = reinterpret_cast<const float*>(arranged(scales));
    q.bias = reinterpret_cast<const float*>(arranged(biases));
  }

  void* Result(int64_t element) const { return out_ + element * result_bytes_; }

  // All pixels, or those of each row, as one matrix.
  void Pointwise(Scratch& scratch) {
    const int64_t pixels = g_.out_y * g_.out_x;
    const bool strided = g_.stride_y != 1 || g_.stride_x != 1;
    const bool dense = !strided && (g_.in_y == 1 || x_.row == g_.in_x * x_.pixel) &&
                       (g_.out_y == 1 || out_row_ == g_.out_x * out_pixel_);
    const bool one = dense && (g_.batch == 1 || (x_.image == pixels * x_.pixel && out_image_ == pixels * out_pixel_));
    if (!dense) {
      ParallelFor(scratch, workers_, g_.batch * g_.out_y, 1, [&](int64_t first, int64_t last, Scratch& own) {
        int16_t* const widened = TakeWidened(g_.out_y * g_.out_x, own);
        if (own.querying()) return;
        for (int64_t i = first; i < last;) {
          const int64_t n = i / g_.out_y, y = i % g_.out_y, rows = std::min(last - i, g_.out_y - y);
          MultiplyPixels(x_.at + n * x_.image + y * g_.stride_y * x_.row, rows, g_.out_x, n * out_image_ + y * out_row_,
                         0, g_.outs, widened);
          i += rows;
        }
      });
      return;
    }
    const int64_t images = one ? 1 : g_.batch, rows = one ? g_.batch * pixels : pixels;
    const int64_t block = std::max<int64_t>(28, kBlockBytes / (g_.channels + g_.outs * result_bytes_) / 14 * 14);
    const int64_t panels = Ceil(g_.outs, kPanel);
    const WorkPartition partition = PartitionWork(workers_, images, rows, panels, Ceil(rows, block), 14,
                                                  g_.channels * g_.outs > rows * g_.channels);
    ParallelFor(scratch, workers_, partition.tasks(), 1, [&](int64_t first, int64_t last, Scratch& own) {
      int16_t* const widened = TakeWidened(partition.MaxRowsPerTask(), own);
      if (own.querying()) return;
      for (int64_t i = first; i < last; ++i) {
        const WorkPartition::Task t = partition[i];
        MultiplyPixels(x_.at + t.image * x_.image + t.row * x_.pixel, 1, t.end_row - t.row,
                       t.image * out_image_ + t.row * out_pixel_, t.panel * kPanel,
                       std::min(g_.outs, t.end_panel * kPanel), widened);
      }
    });
  }
  int16_t* TakeWidened(int64_t pixels, Scratch& scratch) const {
    const int64_t elements = BestInt8Conv().widened_elements(pixels, g_.depth());
    return elements > 0 ? scratch.Take<int16_t>(elements) : nullptr;
  }
  // `rows` rows of m pixels, or of a matrix of patches where `patches`, by the columns [j, end_j).
  void MultiplyPixels(const uint8_t* x, int64_t rows, int64_t m, int64_t element, int64_t j, int64_t end_j,
                      int16_t* widened, bool patches = false) const {
    const int64_t segment = 0;
    Int8IgemmParams p;
    p.rows = rows, p.m = m, p.n = end_j - j, p.k = g_.depth();
    p.x = x, p.x_stride = patches ? p.k : g_.stride_x * x_.pixel;
    p.x_row_stride = patches ? m * p.k : g_.stride_y * x_.row;
    p.segments = &segment, p.segment_count = 1;
    p.w = weights_ + j * g_.depth(), p.w_panel_stride = g_.depth() * kPanel, p.widened = widened;
    p.out = Result(element + j), p.out_row_stride = out_row_, p.out_stride = out_pixel_;
    p.after = after_.At(j, element + j);
    BestInt8Conv().igemm(p);
  }

  // Over copies of row blocks with padding and channels filled up, or over patches of narrow images; in place where
  // neither is needed.
  void Direct(Scratch& scratch) {
    const int64_t filled = g_.filled_channels(), pixel = g_.groups * filled;
    const bool copied = g_.padded() || g_.group_channels() % 4 != 0 || !x_.channels_last;
    const bool patches = g_.groups == 1 && g_.out_x < kPatchColumns && g_.height * g_.width > 1 &&
                         BestInt8Conv().widened_elements(1, g_.depth()) == 0;  // which are patches as well
    const int64_t width = (g_.out_x - 1) * g_.stride_x + g_.extent_x();
    const int64_t row_bytes = width * pixel * g_.stride_y;
    const int64_t rows_at_once =
        patches ? std::clamp<int64_t>(kBlockBytes / std::max<int64_t>(1, g_.out_x * g_.depth()), 1, g_.out_y)
                : std::clamp<int64_t>(kCopyBytes / std::max<int64_t>(1, row_bytes), 1, g_.out_y);
    const int64_t columns = g_.groups == 1 ? Ceil(g_.outs, kPanel) : g_.groups;
    const WorkPartition partition = PartitionWork(workers_, g_.batch, g_.out_y, columns, Ceil(g_.out_y, rows_at_once),
                                                  1, g_.depth() * g_.outs > g_.out_y * g_.out_x * g_.channels);
    const int64_t held = partition.MaxRowsPerTask();
    const int64_t copy_rows = (held - 1) * g_.stride_y + g_.extent_y();
    // A kernel row is one segment where its pixels are contiguous.
    const int64_t pixel_stride = copied ? pixel : x_.pixel, row_stride = copied ? width * pixel : x_.row;
    const bool joined = g_.groups == 1 && g_.dilation_x == 1 && pixel_stride == filled;
    const int64_t segment_count = joined ? g_.height : g_.height * g_.width;
    auto* const segments = scratch.Take<int64_t>(segment_count);
    if (!scratch.querying()) {
      int64_t* at = segments;
      for (int64_t y = 0; y < g_.height; ++y)
        for (int64_t z = 0; z < (joined ? 1 : g_.width); ++z)
          *at++ = y * g_.dilation_y * row_stride + z * g_.dilation_x * pixel_stride;
    }
    ParallelFor(scratch, workers_, partition.tasks(), 1, [&](int64_t first, int64_t last, Scratch& own) {
      uint8_t* const copy = copied ? own.Take<uint8_t>(copy_rows * width * pixel + kSlack) : nullptr;
      uint8_t* const patch = patches ? own.Take<uint8_t>(held * g_.out_x * g_.depth() + kSlack) : nullptr;
      int16_t* const widened = TakeWidened(held * g_.out_x, own);
      if (own.querying()) return;
      int64_t in_copy = -1;  // the block that is there
      for (int64_t i = first; i < last; ++i) {
        const WorkPartition::Task t = partition[i];
        if (t.row >= t.end_row) continue;
        const int64_t rows = t.end_row - t.row;
        const uint8_t* image = x_.at + t.image * x_.image + t.row * g_.stride_y * x_.row;
        if (copied) {
          if (in_copy != t.block) CopyRows(t.image, t.row, (rows - 1) * g_.stride_y + g_.extent_y(), width, copy);
          image = copy;
        }
        if (patches && in_copy != t.block)
          MakePatches(image, rows, pixel_stride, row_stride, segments, segment_count, patch);
        in_copy = t.block;
        const int64_t element = t.image * out_image_ + t.row * out_row_;
        if (patches) {
          MultiplyPixels(patch, rows, g_.out_x, element, t.panel * kPanel, std::min(g_.outs, t.end_panel * kPanel),
                         widened, true);
          continue;
        }
        Int8IgemmParams p;
        p.rows = rows, p.m = g_.out_x, p.k = g_.depth() / segment_count;
        p.x_row_stride = g_.stride_y * row_stride, p.x_stride = g_.stride_x * pixel_stride;
        p.segments = segments, p.segment_count = segment_count;
        p.w_panel_stride = g_.depth() * kPanel, p.w_segment_stride = p.k * kPanel, p.widened = widened;
        p.out_row_stride = out_row_, p.out_stride = out_pixel_;
        const auto multiply = [&](int64_t column, int64_t n, int64_t out_channel, int64_t from) {
          p.n = n, p.w = weights_ + column * g_.depth();
          p.x = image + from;
          p.out = Result(element + out_channel);
          p.after = after_.At(column, element + out_channel);
          BestInt8Conv().igemm(p);
        };
        if (g_.groups == 1) {
          const int64_t j = t.panel * kPanel;
          multiply(j, std::min(g_.outs, t.end_panel * kPanel) - j, j, 0);
        } else {
          for (int64_t group = t.panel; group < t.end_panel; ++group)
            multiply(group * g_.group_columns(), g_.group_outs(), group * g_.group_outs(),
                     group * (copied ? filled : g_.group_channels()));
        }
      }
    });
  }

  // `rows` padded rows of `width` pixels from those of output row `row` on; channels of each group filled up.
  void CopyRows(int64_t n, int64_t row, int64_t rows, int64_t width, uint8_t* to) const {
    const int64_t filled = g_.filled_channels(), pixel = g_.groups * filled, per = g_.group_channels();
    const auto padding = static_cast<uint8_t>(a_.input_zero);
    const int64_t left = std::min(g_.pad_x, width), count = std::clamp<int64_t>(width - left, 0, g_.in_x);
    for (int64_t r = 0; r < rows; ++r, to += width * pixel) {
      const int64_t y = row * g_.stride_y - g_.pad_y + r;
      if (y < 0 || y >= g_.in_y) {
        std::memset(to, padding, static_cast<size_t>(width * pixel));
        continue;
      }
      std::memset(to, padding, static_cast<size_t>(left * pixel));
      std::memset(to + (left + count) * pixel, padding, static_cast<size_t>((width - left - count) * pixel));
      const uint8_t* from = x_.at + n * x_.image + y * x_.row;
      uint8_t* at = to + left * pixel;
      if (!x_.channels_last) {
        JoinPlanes(from, count, at);
      } else if (x_.pixel == pixel) {
        std::memcpy(at, from, static_cast<size_t>(count * pixel));
      } else if (filled == per) {
        for (int64_t i = 0; i < count; ++i, from += x_.pixel, at += pixel)
          std::memcpy(at, from, static_cast<size_t>(pixel));
      } else {
        for (int64_t i = 0; i < count; ++i, from += x_.pixel)
          for (int64_t group = 0; group < g_.groups; ++group, at += filled) {
            std::memcpy(at, from + group * per, static_cast<size_t>(per));
            std::memset(at + per, 0, static_cast<size_t>(filled - per));
          }
      }
    }
  }
  // Pixels of four bytes from up to four planes.
  void JoinPlanes(const uint8_t* from, int64_t count, uint8_t* to) const {
    const uint8_t* plane[4];
    for (int64_t c = 0; c < 4; ++c) plane[c] = from + std::min(c, g_.channels - 1) * x_.plane;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t word =
          plane[0][i] | uint32_t{plane[1][i]} << 8 | uint32_t{plane[2][i]} << 16 | uint32_t{plane[3][i]} << 24;
      std::memcpy(to + 4 * i, &word, 4);
    }
  }
  void MakePatches(const uint8_t* image, int64_t rows, int64_t pixel_stride, int64_t row_stride,
                   const int64_t* segments, int64_t count, uint8_t* to) const {
    const auto bytes = static_cast<size_t>(g_.depth() / count);
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t x = 0; x < g_.out_x; ++x) {
        const uint8_t* const from = image + y * g_.stride_y * row_stride + x * g_.stride_x * pixel_stride;
        for (int64_t s = 0; s < count; ++s, to += bytes) std::memcpy(to, from + segments[s], bytes);
      }
  }

  void Depthwise(Scratch& scratch) {
    const Int8ConvMicrokernels& isa = BestInt8Conv();
    const int64_t quads = g_.width * RoundUp4(g_.height) / 4;
    auto* const weights =
        scratch.Take<int8_t>((g_.channels + isa.depthwise_block) * quads * 4 * isa.depthwise_weight_bytes + kSlack);
    if (!scratch.querying()) isa.arrange_depthwise(weights_, g_.channels, g_.height, g_.width, weights);
    ParallelFor(scratch, workers_, g_.batch * g_.out_y, 1, [&](int64_t first, int64_t last, Scratch& own) {
      const uint8_t** const rows = own.Take<const uint8_t*>(g_.height);
      if (own.querying()) return;
      Int8DwconvParams p;
      p.rows = rows, p.x_pixel_stride = x_.pixel, p.columns = g_.in_x;
      p.height = g_.height, p.width = g_.width, p.stride = g_.stride_x, p.pad = g_.pad_x, p.dilation = g_.dilation_x;
      p.padding = static_cast<uint8_t>(a_.input_zero);
      p.w = weights, p.channels = g_.channels, p.n = g_.out_x;
      p.out_pixel_stride = out_pixel_;
      for (int64_t i = first; i < last; ++i) {
        const int64_t n = i / g_.out_y, y = i % g_.out_y;
        for (int64_t k = 0; k < g_.height; ++k) {
          const int64_t row = y * g_.stride_y - g_.pad_y + k * g_.dilation_y;
          rows[k] = row < 0 || row >= g_.in_y ? nullptr : x_.at + n * x_.image + row * x_.row;
        }
        const int64_t at = n * out_image_ + y * out_row_;
        p.out = Result(at);
        p.after = after_.At(0, at);
        isa.dwconv(p);
      }
    });
  }

  const Geometry& g_;
  const IntegerConvAttributes& a_;
  const Workers* workers_ = nullptr;
  const int8_t* weights_ = nullptr;
  Image x_;
  Requantization after_;
  char* out_ = nullptr;
  int64_t result_bytes_ = 1, out_pixel_ = 0, out_row_ = 0, out_image_ = 0;  // strides in elements
};

// Checks the operands, which come from a file.
const char* RunIntegerConv(const Call& c, const IntegerConvAttributes& a) {
  constexpr const char* kMalformed = "the operands do not agree";
  const bool biased = (a.parts & kIntegerConvBias) != 0, adds = (a.parts & kIntegerConvAdded) != 0;
  if (a.parts < 0 || a.parts > 3 || c.in.size() != size_t{4} + biased + adds) return kMalformed;
  const Tensor &x = c.in[0], &w = c.in[1], &offset = c.in[2], &scale = c.in[3], &out = c.out[0];
  const Tensor* const bias = biased ? &c.in[4] : nullptr;
  const Tensor* const added = adds ? &c.in[4 + biased] : nullptr;
  const bool bytes = a.multiplier != 0;
  Geometry g;
  if (out.numel() == 0) return nullptr;
  if (!ReadGeometry(x, w, out, a, &g)) return kSizesDiffer;
  auto per_channel = [&](const Tensor& t, DType dtype) {
    return t.rank == 1 && t.sizes[0] == g.outs && t.dtype == dtype && !t.is_packed();
  };
  if (x.dtype != DType::kU8 || x.is_packed() || w.dtype != DType::kU8 ||
      (w.is_packed() && w.packed != Packing::kNr16K4) || !per_channel(offset, DType::kI32) ||
      !per_channel(scale, DType::kF32) || (bias != nullptr && !per_channel(*bias, DType::kF32)) ||
      out.dtype != (bytes ? DType::kU8 : DType::kF32))
    return kMalformed;
  if (added != nullptr &&
      (!SameSizes(*added, out) || added->is_packed() || (added->dtype != DType::kU8 && added->dtype != DType::kF32)))
    return kMalformed;
  auto byte = [](int64_t v) { return v >= 0 && v <= 255; };
  if (!byte(a.input_zero) || !byte(a.added_zero) || !byte(a.zero_point) || !byte(a.low) || !byte(a.high) ||
      a.low > a.high || !std::isfinite(a.multiplier) || !std::isfinite(a.added_scale))
    return kMalformed;
  IntegerConv(g, a).Run(x, w, offset, scale, bias, added, out, c);
  return nullptr;
}

bool ConvProduct(const Call& c, const IntegerConvAttributes& a, int64_t, Product* p) {
  Geometry g;
  if (c.in.size() < 4 || !ReadGeometry(c.in[0], c.in[1], c.out[0], a, &g)) return false;
  const Tensor& out = c.out[0];
  const int result = static_cast<int>(c.in.size());
  p->batch = SizeOf(out, result, 0, 1), p->batch.value *= g.groups, p->batch.times = g.groups;
  p->m = SizeOf(out, result, 1, 2), p->m.value /= g.groups, p->m.over = g.groups;
  p->k.value = g.height * g.width * g.group_channels(), p->n = SizeOf(out, result, 2, 5);
  p->matrix = 1, p->bytes = BytesOf(c.in[1]);
  p->operations = Operations(*p);
  p->loop = {BestInt8Conv().name, IntegerConv::NameOf(g)};
  return true;
}

constexpr Kernel kKernels[] = {
    With<IntegerConvAttributes, RunIntegerConv>({.name = "integer_conv",
                                                 .inputs = 4,
                                                 .packed = {Packable::kNever, Packable::kBytes},
                                                 .queries_workspace = true,
                                                 .product = ProductOfCall<IntegerConvAttributes, ConvProduct>,
                                                 .pitched = true}),
};

}  // namespace

std::span<const Kernel> IntegerConvKernels() { return kKernels; }

}  // namespace slipway::kernels
