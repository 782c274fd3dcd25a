// Convolutions of images with channels last whose loops take words of 32 bits: four bytes, or two bf16, that are
// neighbours in K. What `integer_conv` and `conv` of bf16 share: geometry, layouts of the operands, padded copies and
// patches, and how the work is cut. Loops are the arithmetic:
//
//   struct Loops {
//     using Weight, Widened;              // an element of the weights; of the room that Igemm needs
//     using IgemmParams, DwconvParams;    // parameters of its micro-kernels, but for what follows the sums
//     static constexpr int64_t kBytes;    // of an element of the image
//     uint8_t padding;                    // each byte of an element outside of the image
//     int64_t result_bytes;               // of an element of the result
//     int64_t WidenedElements(int64_t pixels, int64_t depth);        // room that Igemm needs
//     // Of columns from `column` on, which begin `element` elements into the result.
//     void Igemm(IgemmParams& p, Widened* widened, int64_t column, int64_t element);
//     void Dwconv(DwconvParams& p, int64_t element);
//     const Weight* ArrangeDepthwise(const WordGeometry& g, const Weight* weights, Scratch& scratch);
//     int64_t PatchColumns();                                        // images that are narrower become patches
//     int64_t CopiedColumns();                                       // depthwise images up to these are copied first
//     int64_t DepthwiseBlock(), DepthwisePixels();                   // channels and pixels of a tile of Dwconv
//   };
//
// Weights are panels of kPanel columns, [panel][segment][k / kPerWord][kPanel][kPerWord]. Columns are output channels,
// or for grouped convolutions each group's channels filled up to whole panels; a segment has the channels of a kernel
// element, filled up to whole words.
#ifndef SLIPWAY_KERNELS_CONV_WORD_CONV_H_
#define SLIPWAY_KERNELS_CONV_WORD_CONV_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/padded.h"
#include "kernels/conv/work_partition.h"
#include "kernels/scratch.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// The geometry of a convolution: checked sizes, and how its weights lie.
struct WordGeometry {
  static constexpr int64_t kMaxSize = int64_t{1} << 30;  // of what is multiplied with another
  static constexpr int64_t kMaxBehind = 16;              // padding behind an image smaller than that
  int64_t batch, channels, in_y, in_x, outs, out_y, out_x;
  int64_t groups, height, width, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  int64_t per_word;  // channels of a word

  int64_t group_channels() const { return channels / groups; }
  int64_t group_outs() const { return outs / groups; }
  bool depthwise() const { return groups > 1 && groups == channels && groups == outs; }
  int64_t filled_channels() const { return depthwise() ? 1 : RoundUp(group_channels(), per_word); }
  int64_t taps() const { return height * width; }
  int64_t segment_depth() const { return taps() * filled_channels(); }
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
  bool pointwise() const { return taps() == 1 && !padded() && groups == 1 && channels % per_word == 0; }
  double multiplications() const {
    return static_cast<double>(batch * out_y * out_x * outs) * static_cast<double>(taps() * group_channels());
  }
  // Whether nothing is read behind the padding, which is as much as before the image.
  bool padding_is_even() const {
    return (out_y - 1) * stride_y + extent_y() <= in_y + 2 * pad_y &&
           (out_x - 1) * stride_x + extent_x() <= in_x + 2 * pad_x;
  }
  // Whether sizes are in range, what is read is the image or its padding, and neither is much larger than the other.
  bool IsValid() const {
    for (const int64_t v : {batch, channels, in_y, in_x, outs, out_y, out_x, groups, height, width, stride_y, stride_x,
                            dilation_y, dilation_x})
      if (v < 1 || v >= kMaxSize) return false;
    for (const int64_t v : {pad_y, pad_x})
      if (v < 0 || v >= kMaxSize) return false;
    if (channels % groups != 0 || outs % groups != 0) return false;
    // What is behind the image may be more than what is before it.
    const auto inside = [](int64_t outputs, int64_t stride, int64_t extent, int64_t size, int64_t pad) {
      return (outputs - 1) * stride <= size + 2 * pad && extent <= 2 * (size + 2 * pad) + kMaxBehind;
    };
    const __int128 depth = static_cast<__int128>(height) * width * (group_channels() + 4);
    return pad_y <= height * dilation_y && pad_x <= width * dilation_x &&
           inside(out_y, stride_y, extent_y(), in_y, pad_y) && inside(out_x, stride_x, extent_x(), in_x, pad_x) &&
           depth < kMaxSize;
  }

 private:
  static int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
};

// Whether pixels are vectors of channels, and rows do not overlap.
inline bool PixelsAreDense(const Tensor& t) {
  return (t.strides[1] == 1 || t.sizes[1] == 1) && t.strides[4] >= t.sizes[1] &&
         (t.sizes[3] == 1 || t.strides[3] >= t.sizes[4] * t.strides[4]);
}

template <typename Loops>
class WordConv {
 public:
  using Weight = typename Loops::Weight;
  static constexpr int64_t kBytes = Loops::kBytes, kPerWord = 4 / kBytes;

  WordConv(const WordGeometry& g, Loops& loops, const Workers* workers)
      : g_(g), loops_(loops), workers_(g.multiplications() < kMinParallelWork ? nullptr : workers) {}

  // Where the result is written: `out`, or a dense tensor with channels last that Run copies there.
  static Tensor ResultOf(const Tensor& out, Scratch& scratch) {
    if (PixelsAreDense(out)) return out;
    Tensor to = DenseNhwc(out);
    to.data = scratch.Take<char>(out.numel() * ByteSize(out.dtype));
    return to;
  }
  // Between two layouts.
  static void CopyElements(const Tensor& from, const Tensor& to) {
    switch (ByteSize(from.dtype)) {
      case 1: return CopyElements<uint8_t>(from, to);
      case 2: return CopyElements<uint16_t>(from, to);
      default: return CopyElements<uint32_t>(from, to);
    }
  }

  void Run(const Tensor& x, const Weight* weights, const Tensor& to, const Tensor& out, Scratch& scratch) {
    weights_ = weights;
    TakeImage(x, scratch);
    out_ = static_cast<char*>(to.data);
    out_pixel_ = to.strides[4], out_row_ = to.strides[3], out_image_ = to.strides[0];
    if (g_.depthwise())
      Depthwise(scratch);
    else if (g_.pointwise() && x_.channels_last)
      Pointwise(scratch);
    else
      Direct(scratch);
    if (to.data != out.data && !scratch.querying()) CopyElements(to, out);
  }

 private:
  static constexpr int64_t kBlockBytes = 256 << 10;  // of image and result that stay in the second-level cache
  static constexpr int64_t kCopyBytes = 128 << 10;   // of a padded copy
  static constexpr int64_t kSlack = 64;              // bytes behind a copy that may be read
  static constexpr int64_t kMaxPlanes = 4;           // images of so few channels may stay planes

  template <typename T>
  static void CopyElements(const Tensor& from, const Tensor& to) {
    constexpr int64_t kTogether = 32;  // pixels: what is strided stays in the cache for all channels
    for (int64_t n = 0; n < from.sizes[0]; ++n)
      for (int64_t y = 0; y < from.sizes[3]; ++y)
        for (int64_t x = 0; x < from.sizes[4]; x += kTogether) {
          const int64_t count = std::min(kTogether, from.sizes[4] - x);
          const T* p = from.as<T>() + n * from.strides[0] + y * from.strides[3] + x * from.strides[4];
          T* q = to.as<T>() + n * to.strides[0] + y * to.strides[3] + x * to.strides[4];
          for (int64_t c = 0; c < from.sizes[1]; ++c, p += from.strides[1], q += to.strides[1])
            for (int64_t i = 0; i < count; ++i) q[i * to.strides[4]] = p[i * from.strides[4]];
        }
  }

  // Images of few channels stay planes: their pixels are put together while they are padded.
  void TakeImage(const Tensor& x, Scratch& scratch) {
    Tensor t = x;
    x_.channels_last = PixelsAreDense(x);
    const bool planes = !x_.channels_last && g_.groups == 1 && g_.channels <= kMaxPlanes && x.strides[4] == 1;
    if (!x_.channels_last && !planes) {
      t = DenseNhwc(x);
      t.data = scratch.Take<char>(x.numel() * kBytes + kSlack);
      if (!scratch.querying()) CopyElements(x, t);
      x_.channels_last = true;
    }
    x_.at = t.as<uint8_t>();
    x_.pixel = t.strides[4] * kBytes, x_.row = t.strides[3] * kBytes, x_.image = t.strides[0] * kBytes;
    x_.plane = t.strides[1] * kBytes;
  }

  void* Result(int64_t element) const { return out_ + element * loops_.result_bytes; }

  // All pixels, or those of each row, as one matrix.
  void Pointwise(Scratch& scratch) {
    const int64_t pixels = g_.out_y * g_.out_x;
    const bool strided = g_.stride_y != 1 || g_.stride_x != 1;
    const bool dense = !strided && (g_.in_y == 1 || x_.row == g_.in_x * x_.pixel) &&
                       (g_.out_y == 1 || out_row_ == g_.out_x * out_pixel_);
    const bool one = dense && (g_.batch == 1 || (x_.image == pixels * x_.pixel && out_image_ == pixels * out_pixel_));
    if (!dense) {
      ParallelFor(scratch, workers_, g_.batch * g_.out_y, 1, [&](int64_t first, int64_t last, Scratch& own) {
        auto* const widened = TakeWidened(g_.out_y * g_.out_x, own);
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
    const int64_t block =
        std::max<int64_t>(28, kBlockBytes / (g_.channels * kBytes + g_.outs * loops_.result_bytes) / 14 * 14);
    const int64_t panels = Ceil(g_.outs, kPanel);
    const WorkPartition partition = PartitionWork(workers_, images, rows, panels, Ceil(rows, block), 14,
                                                  g_.channels * g_.outs > rows * g_.channels);
    ParallelFor(scratch, workers_, partition.tasks(), 1, [&](int64_t first, int64_t last, Scratch& own) {
      auto* const widened = TakeWidened(partition.MaxRowsPerTask(), own);
      if (own.querying()) return;
      for (int64_t i = first; i < last; ++i) {
        const WorkPartition::Task t = partition[i];
        MultiplyPixels(x_.at + t.image * x_.image + t.row * x_.pixel, 1, t.end_row - t.row,
                       t.image * out_image_ + t.row * out_pixel_, t.panel * kPanel,
                       std::min(g_.outs, t.end_panel * kPanel), widened);
      }
    });
  }
  auto* TakeWidened(int64_t pixels, Scratch& scratch) const {
    using Widened = typename Loops::Widened;
    const int64_t elements = loops_.WidenedElements(pixels, g_.segment_depth());
    return elements > 0 ? scratch.Take<Widened>(elements) : static_cast<Widened*>(nullptr);
  }
  // `rows` rows of m pixels, or of a matrix of patches where `patches`, by the columns [j, end_j).
  void MultiplyPixels(const uint8_t* x, int64_t rows, int64_t m, int64_t element, int64_t j, int64_t end_j,
                      typename Loops::Widened* widened, bool patches = false) const {
    const int64_t segment = 0;
    typename Loops::IgemmParams p;
    p.rows = rows, p.m = m, p.n = end_j - j, p.k = g_.segment_depth();
    p.x = x, p.x_stride = patches ? p.k * kBytes : g_.stride_x * x_.pixel;
    p.x_row_stride = patches ? m * p.x_stride : g_.stride_y * x_.row;
    if (patches && out_row_ == m * out_pixel_) p.rows = 1, p.m = rows * m;
    p.segments = &segment, p.segment_count = 1;
    p.w = weights_ + j * g_.segment_depth(), p.w_panel_stride = g_.segment_depth() * kPanel;
    p.out = Result(element + j), p.out_row_stride = out_row_, p.out_stride = out_pixel_;
    loops_.Igemm(p, widened, j, element + j);
  }

  // Over copies of row blocks with padding and channels filled up, or over patches of narrow images; in place where
  // neither is needed.
  void Direct(Scratch& scratch) {
    const int64_t filled = g_.filled_channels() * kBytes, pixel = g_.groups * filled, depth = g_.segment_depth();
    const bool copied = g_.padded() || g_.group_channels() % kPerWord != 0 || !x_.channels_last;
    const bool patches = g_.groups == 1 && g_.out_x < loops_.PatchColumns() && g_.taps() > 1;
    const int64_t width = (g_.out_x - 1) * g_.stride_x + g_.extent_x();
    const int64_t row_bytes = width * pixel * g_.stride_y, patch_bytes = depth * kBytes;
    const int64_t rows_at_once =
        patches ? std::clamp<int64_t>(kBlockBytes / std::max<int64_t>(1, g_.out_x * patch_bytes), 1, g_.out_y)
                : std::clamp<int64_t>(kCopyBytes / std::max<int64_t>(1, row_bytes), 1, g_.out_y);
    const int64_t columns = g_.groups == 1 ? Ceil(g_.outs, kPanel) : g_.groups;
    const WorkPartition partition = PartitionWork(workers_, g_.batch, g_.out_y, columns, Ceil(g_.out_y, rows_at_once),
                                                  1, depth * g_.outs > g_.out_y * g_.out_x * g_.channels);
    const int64_t held = partition.MaxRowsPerTask();
    const int64_t copy_rows = (held - 1) * g_.stride_y + g_.extent_y();
    // A kernel row is one segment where its pixels are contiguous.
    const int64_t pixel_stride = copied ? pixel : x_.pixel, row_stride = copied ? width * pixel : x_.row;
    const bool joined = g_.groups == 1 && g_.dilation_x == 1 && pixel_stride == filled;
    const int64_t segment_count = joined ? g_.height : g_.taps();
    auto* const segments = scratch.Take<int64_t>(segment_count);
    if (!scratch.querying()) {
      int64_t* at = segments;
      for (int64_t y = 0; y < g_.height; ++y)
        for (int64_t z = 0; z < (joined ? 1 : g_.width); ++z)
          *at++ = y * g_.dilation_y * row_stride + z * g_.dilation_x * pixel_stride;
    }
    ParallelFor(scratch, workers_, partition.tasks(), 1, [&](int64_t first, int64_t last, Scratch& own) {
      uint8_t* const copy = copied ? own.Take<uint8_t>(copy_rows * width * pixel + kSlack) : nullptr;
      uint8_t* const patch = patches ? own.Take<uint8_t>(held * g_.out_x * patch_bytes + kSlack) : nullptr;
      auto* const widened = TakeWidened(held * g_.out_x, own);
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
        typename Loops::IgemmParams p;
        p.rows = rows, p.m = g_.out_x, p.k = depth / segment_count;
        p.x_row_stride = g_.stride_y * row_stride, p.x_stride = g_.stride_x * pixel_stride;
        p.segments = segments, p.segment_count = segment_count;
        p.w_panel_stride = depth * kPanel, p.w_segment_stride = p.k * kPanel;
        p.out_row_stride = out_row_, p.out_stride = out_pixel_;
        const auto multiply = [&](int64_t column, int64_t n, int64_t out_channel, int64_t from) {
          p.n = n, p.w = weights_ + column * depth;
          p.x = image + from;
          p.out = Result(element + out_channel);
          loops_.Igemm(p, widened, column, element + out_channel);
        };
        if (g_.groups == 1) {
          const int64_t j = t.panel * kPanel;
          multiply(j, std::min(g_.outs, t.end_panel * kPanel) - j, j, 0);
        } else {
          for (int64_t group = t.panel; group < t.end_panel; ++group)
            multiply(group * g_.group_columns(), g_.group_outs(), group * g_.group_outs(),
                     group * (copied ? filled : g_.group_channels() * kBytes));
        }
      }
    });
  }

  // `rows` padded rows of `width` pixels from those of output row `row` on; channels of each group filled up.
  void CopyRows(int64_t n, int64_t row, int64_t rows, int64_t width, uint8_t* to) const {
    const int64_t filled = g_.filled_channels() * kBytes, pixel = g_.groups * filled,
                  per = g_.group_channels() * kBytes;
    const int64_t left = std::min(g_.pad_x, width), count = std::clamp<int64_t>(width - left, 0, g_.in_x);
    for (int64_t r = 0; r < rows; ++r, to += width * pixel) {
      const int64_t y = row * g_.stride_y - g_.pad_y + r;
      if (y < 0 || y >= g_.in_y) {
        std::memset(to, loops_.padding, static_cast<size_t>(width * pixel));
        continue;
      }
      std::memset(to, loops_.padding, static_cast<size_t>(left * pixel));
      std::memset(to + (left + count) * pixel, loops_.padding, static_cast<size_t>((width - left - count) * pixel));
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
  // Pixels of whole words from up to kMaxPlanes planes, filled up with zeros.
  void JoinPlanes(const uint8_t* from, int64_t count, uint8_t* to) const {
    using Element = std::conditional_t<kBytes == 1, uint8_t, uint16_t>;
    const int64_t filled = g_.filled_channels();
    const Element* plane[kMaxPlanes];
    for (int64_t c = 0; c < kMaxPlanes; ++c)
      plane[c] = reinterpret_cast<const Element*>(from + std::min(c, g_.channels - 1) * x_.plane);
    auto join = [&]<int kFilled>() {
      for (int64_t i = 0; i < count; ++i) {
        Element pixel[kFilled];
        for (int c = 0; c < kFilled; ++c) pixel[c] = c < g_.channels ? plane[c][i] : Element{0};
        std::memcpy(to + i * kFilled * kBytes, pixel, sizeof pixel);
      }
    };
    filled == 2 ? join.template operator()<2>() : join.template operator()<4>();
  }
  void MakePatches(const uint8_t* image, int64_t rows, int64_t pixel_stride, int64_t row_stride,
                   const int64_t* segments, int64_t count, uint8_t* to) const {
    const auto bytes = static_cast<size_t>(g_.segment_depth() / count * kBytes);
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t x = 0; x < g_.out_x; ++x) {
        const uint8_t* const from = image + y * g_.stride_y * row_stride + x * g_.stride_x * pixel_stride;
        for (int64_t s = 0; s < count; ++s, to += bytes) std::memcpy(to, from + segments[s], bytes);
      }
  }

  void Depthwise(Scratch& scratch) {
    const Weight* const weights = loops_.ArrangeDepthwise(g_, weights_, scratch);
    // Of narrow images, whose tiles are at a border for the most part, a copy: whole tiles and blocks may be read of
    // it.
    const bool copied = g_.padded() && g_.dilation_y == 1 && g_.dilation_x == 1 && g_.out_x <= loops_.CopiedColumns();
    const int64_t tiles = Ceil(g_.out_x, loops_.DepthwisePixels()) * loops_.DepthwisePixels();
    const int64_t width = (tiles - 1) * g_.stride_x + g_.extent_x() + Ceil(loops_.DepthwiseBlock(), g_.channels);
    const int64_t pixel = copied ? g_.channels * kBytes : x_.pixel, row_bytes = width * pixel;
    const int64_t rows_at_once = std::clamp<int64_t>(kCopyBytes / (row_bytes * g_.stride_y), 1, g_.out_y);
    const int64_t threads = workers_ != nullptr ? workers_->threads : 1;
    const int64_t blocks = copied ? std::min(g_.out_y, std::max(Ceil(g_.out_y, rows_at_once), Ceil(threads, g_.batch)))
                                  : g_.out_y,
                  held = Ceil(g_.out_y, blocks);
    ParallelFor(scratch, workers_, g_.batch * blocks, 1, [&](int64_t first, int64_t last, Scratch& own) {
      const uint8_t** const rows = own.Take<const uint8_t*>(g_.height);
      const int64_t copy_rows = (held - 1) * g_.stride_y + g_.height;
      uint8_t* const copy = copied ? own.Take<uint8_t>(copy_rows * row_bytes + kSlack) : nullptr;
      if (own.querying()) return;
      typename Loops::DwconvParams p;
      p.rows = rows, p.x_pixel_stride = pixel, p.columns = copied ? width : g_.in_x;
      p.height = g_.height, p.width = g_.width, p.stride = g_.stride_x, p.pad = copied ? 0 : g_.pad_x;
      p.dilation = g_.dilation_x, p.padding = loops_.padding;
      p.w = weights, p.channels = g_.channels, p.n = g_.out_x;
      p.out_pixel_stride = out_pixel_;
      for (int64_t i = first; i < last; ++i) {
        const int64_t n = i / blocks, begin = i % blocks * held, end = std::min(g_.out_y, begin + held);
        if (copied && begin < end) CopyRows(n, begin, (end - begin - 1) * g_.stride_y + g_.height, width, copy);
        for (int64_t y = begin; y < end; ++y) {
          for (int64_t k = 0; k < g_.height; ++k) {
            const int64_t row = y * g_.stride_y - g_.pad_y + k * g_.dilation_y;
            rows[k] = copied                      ? copy + ((y - begin) * g_.stride_y + k) * row_bytes
                      : row < 0 || row >= g_.in_y ? nullptr
                                                  : x_.at + n * x_.image + row * x_.row;
          }
          const int64_t at = n * out_image_ + y * out_row_;
          p.out = Result(at);
          loops_.Dwconv(p, at);
        }
      }
    });
  }

  // An image with channels last, and where its pixels and rows lie.
  struct Image {
    const uint8_t* at = nullptr;
    int64_t pixel = 0, row = 0, image = 0;  // bytes from one to the next
    bool channels_last = true;              // false: planes, `plane` bytes apart
    int64_t plane = 0;
  };

  const WordGeometry& g_;
  Loops& loops_;
  const Workers* workers_;
  const Weight* weights_ = nullptr;
  Image x_;
  char* out_ = nullptr;
  int64_t out_pixel_ = 0, out_row_ = 0, out_image_ = 0;  // strides in elements
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_WORD_CONV_H_
