// What kernels are told besides their tensors: one struct a kernel, which the planner's rules fill in and the kernel
// reads. In a plan its members are the numbers of a step, in the order of Fields(): integers, flags and choices among
// the integers, reals among the reals. Plans in files hold them, so an order stays as it is and new members go to the
// end.
//
// Members of the parameter types Int and Real may be expressions over symbols while a plan is made; kernels see them as
// int64_t and double, the defaults. An array or a nested struct stands for its members, one after the other;
// std::optional for a member at the end that need not be there; std::variant for a number that is either an integer or
// a real.
//
// ReadAttributes checks that there are as many numbers as the struct has, that choices are among their enumerators and
// that an int is one. What values make sense is the kernel's to check.
#ifndef SLIPWAY_KERNELS_ATTRIBUTES_H_
#define SLIPWAY_KERNELS_ATTRIBUTES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "kernels/isa/epilogue.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// ---- The structs, by kernel.

struct NoAttributes {
  auto Fields() { return std::tie(); }
};

// fill: every element.
template <typename Int = int64_t, typename Real = double>
struct FillAttributes {
  std::variant<Int, Real> value;
  auto Fields() { return std::tie(value); }
};
// arange: element i is start + i · step; both are of one kind.
template <typename Int = int64_t, typename Real = double>
struct ArangeAttributes {
  std::variant<Int, Real> start, step;
  auto Fields() { return std::tie(start, step); }
};
// linspace: the first and the last element.
template <typename Real = double>
struct LinspaceAttributes {
  Real start, end;
  auto Fields() { return std::tie(start, end); }
};
// tril, triu: the last (first) diagonal that is kept.
template <typename Int = int64_t>
struct TriangleAttributes {
  Int diagonal;
  auto Fields() { return std::tie(diagonal); }
};
// edges: how elements outside are found, and how many there are in front.
enum class EdgeMode : uint8_t { kReflect, kReplicate, kWrap, kCount };
template <typename Int = int64_t>
struct EdgesAttributes {
  EdgeMode mode;
  Int front;
  auto Fields() { return std::tie(mode, front); }
};

// add_scaled, addcmul, addcdiv: an integer where the kernel computes in integers.
struct FactorAttributes {
  std::variant<int64_t, double> factor;
  auto Fields() { return std::tie(factor); }
};
// shift_left, shift_right: bits of the dtype; shifts by as many or more empty the number.
struct ShiftAttributes {
  int64_t bits;
  auto Fields() { return std::tie(bits); }
};
struct EluAttributes {
  double alpha, scale, input_scale;
  auto Fields() { return std::tie(alpha, scale, input_scale); }
};
struct LeakyReluAttributes {
  double slope;
  auto Fields() { return std::tie(slope); }
};
struct SoftplusAttributes {
  double beta, threshold;
  auto Fields() { return std::tie(beta, threshold); }
};
struct NanToNumAttributes {
  double nan, positive_infinity, negative_infinity;
  auto Fields() { return std::tie(nan, positive_infinity, negative_infinity); }
};
// logit: operands are kept this far from 0 and 1; negative: as they are.
struct LogitAttributes {
  double eps;
  auto Fields() { return std::tie(eps); }
};
// round_decimals: the power of ten that is multiplied with, or divided by.
struct RoundDecimalsAttributes {
  double power, divides;
  auto Fields() { return std::tie(power, divides); }
};

// index, index_put, index_put_add: whether negative indices count from the end.
struct IndexAttributes {
  bool from_end;
  auto Fields() { return std::tie(from_end); }
};
// gather, scatter, scatter_add.
struct AxisAttributes {
  int dim;
  auto Fields() { return std::tie(dim); }
};
enum class Reduction : uint8_t { kSum, kProd, kMean, kMax, kMin, kCount };
// scatter_reduce: `include_self`: what stood there counts; `rounds`: f16 and bf16 are rounded at each step instead of
// once in the end, as torch does in some of its kernels.
struct ScatterReduceAttributes {
  int dim;
  Reduction how;
  bool include_self, rounds;
  auto Fields() { return std::tie(dim, how, include_self, rounds); }
};
// segment_reduce: `offsets`: segments are given by where they begin, not by their lengths.
struct SegmentReduceAttributes {
  int dim;
  Reduction how;
  bool offsets;
  std::optional<double> initial;
  auto Fields() { return std::tie(dim, how, offsets, initial); }
};
// embedding_bag: `last_offset_ends`: the last offset only ends a bag; row `padding` counts for nothing, -1 for none.
enum class BagMode : uint8_t { kSum, kMean, kMax, kCount };
struct EmbeddingBagAttributes {
  BagMode mode;
  bool last_offset_ends;
  int64_t padding;
  auto Fields() { return std::tie(mode, last_offset_ends, padding); }
};
struct SortAttributes {
  bool descending;
  auto Fields() { return std::tie(descending); }
};

// rank: which of the sorted elements, from 0.
template <typename Int = int64_t>
struct RankAttributes {
  Int k;
  auto Fields() { return std::tie(k); }
};
struct MedianAttributes {
  bool ignores_nan;
  auto Fields() { return std::tie(ignores_nan); }
};
// quantile: between two numbers.
enum class Interpolation : uint8_t { kLinear, kLower, kHigher, kMidpoint, kNearest, kCount };
struct QuantileAttributes {
  bool ignores_nan;
  Interpolation interpolation;
  auto Fields() { return std::tie(ignores_nan, interpolation); }
};
// histogram: bounds of the bins; where they are equal, the least and the largest element.
struct HistogramAttributes {
  double low, high;
  auto Fields() { return std::tie(low, high); }
};
// search: behind equal elements.
struct SearchAttributes {
  bool right;
  auto Fields() { return std::tie(right); }
};
// unique: distinct rows in order; else runs of equal neighbours.
struct UniqueAttributes {
  bool sorted;
  auto Fields() { return std::tie(sorted); }
};

// Reductions: how many dims go, which are the last of the operand.
struct ReduceAttributes {
  int dims;
  auto Fields() { return std::tie(dims); }
};
// var, std.
struct VarianceAttributes {
  int dims;
  double correction;
  auto Fields() { return std::tie(dims, correction); }
};
struct VectorNormAttributes {
  int dims;
  double order;
  auto Fields() { return std::tie(dims, order); }
};
// layer_norm, rms_norm, group_scales: which of the operands there are behind the first.
enum NormPart : int64_t { kNormHasWeight = 1, kNormHasBias = 2 };
struct NormAttributes {
  int64_t parts;
  double epsilon;
  auto Fields() { return std::tie(parts, epsilon); }
};
// group_scales.
struct GroupNormAttributes {
  NormAttributes norm;
  int64_t groups;
  auto Fields() { return std::tie(norm, groups); }
};

// attention: `causal`: query i sees keys 0 … i.
struct AttentionAttributes {
  bool causal;
  double scale;
  auto Fields() { return std::tie(causal, scale); }
};
// lstm, gru, rnn_tanh, rnn_relu: `reverse`: from the last time to the first.
struct RecurrentAttributes {
  bool reverse, has_bias;
  auto Fields() { return std::tie(reverse, has_bias); }
};
// quant_linear, quant_embedding: which operands there are behind the first two, in this order; what elements of the
// matrix, and the scale before, are rounded to (f32: they are not). With kQuantAddedZero the zero is added behind the
// scale, of integers less `middle`.
enum QuantPart : int64_t { kQuantScale = 1, kQuantZero = 2, kQuantBias = 4, kQuantAddedZero = 8 };
struct QuantLinearAttributes {
  int64_t parts;
  DType rounded, scale_rounded;
  int64_t middle;
  bool exact;  // false: the kernel may leave these roundings out, which is nearer the exact result
  auto Fields() { return std::tie(parts, rounded, scale_rounded, middle, exact); }
};

// integer_linear: which operands there are beside input, matrix, scale and the input's scale: a zero point before the
// latter, the input's behind it, then a bias; what sums times the input's scale are rounded to (f32: they are not).
enum IntegerPart : int64_t { kIntegerZero = 1, kIntegerInputZero = 2, kIntegerBias = 4 };
inline constexpr int64_t kMaxIntegerTerms = 1 << 16;  // of a sum: of more, 255 · 128 each, it may leave 32 bits
struct IntegerLinearAttributes {
  int64_t parts;
  DType rounded;
  auto Fields() { return std::tie(parts, rounded); }
};
// quantize_rows: integers in low..high; scales are at least eps. A zero point is chosen where `asymmetric`.
struct QuantizeRowsAttributes {
  bool asymmetric;
  int64_t low, high;
  double eps;
  auto Fields() { return std::tie(asymmetric, low, high, eps); }
};

// quantize: round(x · multiplier) + zero_point, kept in low..high.
struct QuantizeAttributes {
  int64_t zero_point, low, high;
  double multiplier;
  auto Fields() { return std::tie(zero_point, low, high, multiplier); }
};
// dequantize: (x - zero_point) · scale.
struct DequantizeAttributes {
  int64_t zero_point;
  double scale;
  auto Fields() { return std::tie(zero_point, scale); }
};

// Convolutions, by spatial dim. The numbers of groups may be an expression.
template <typename Int = int64_t>
struct ConvAttributes {
  Int groups;
  int64_t stride[3], padding[3], dilation[3];
  auto Fields() { return std::tie(groups, stride, padding, dilation); }
};
// Which operands a convolution (or a batch norm) has behind the image and the weights (behind the image), in this
// order.
enum ConvPart : int64_t {
  kBias = 1,
  kNormWeight = 2,
  kNormBias = 4,
  kNormStatistics = 8,  // mean and variance
  kAdded = 16,          // a tensor of the result's sizes
};
struct BatchNormAttributes {
  int64_t parts;
  double epsilon;
  auto Fields() { return std::tie(parts, epsilon); }
};
// What follows the function of a convolution's tail: a batch norm, an addition, whose operands come last.
struct ConvPostAttributes {
  int64_t parts;
  double epsilon;
  auto Fields() { return std::tie(parts, epsilon); }
};
// What follows the sums of a convolution: as the first of ConvTailAttributes.
struct ConvSumsAttributes {
  int64_t parts;
  Activation activation;
  double epsilon, low, high;
  auto Fields() { return std::tie(parts, activation, epsilon, low, high); }
};
// conv, conv_transposed: what follows the sums, where that is more than a bias: a batch norm, an addition, a function
// (`low` and `high` of kClamp, `low` the slope of kLeakyRelu); of conv, what follows that.
struct ConvTailAttributes {
  int64_t parts;
  Activation activation;
  double epsilon, low, high;
  std::optional<ConvPostAttributes> post;
  auto Fields() { return std::tie(parts, activation, epsilon, low, high, post); }
};
template <typename Int = int64_t>
struct FusedConvAttributes {
  ConvAttributes<Int> conv;
  std::optional<ConvTailAttributes> tail;
  auto Fields() { return std::tie(conv, tail); }
};

// integer_conv (conv/integer_conv.cc), by height and width. `input_zero` is what the image has outside. `activation` is
// with its bounds; the result is of f32 where `multiplier` is 0.
enum IntegerConvPart : int64_t { kIntegerConvBias = 1, kIntegerConvAdded = 2 };
struct IntegerConvAttributes {
  int64_t parts, groups;
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t input_zero, added_zero, zero_point, low, high;
  Activation activation;
  double min, max, added_scale, multiplier;
  auto Fields() {
    return std::tie(parts, groups, kernel, stride, padding, dilation, input_zero, added_zero, zero_point, low, high,
                    activation, min, max, added_scale, multiplier);
  }
};

// depthwise_block: a depthwise convolution and whether there is a pointwise one before it and after it; what follows
// the sums of each of the three, in this order, and the function of the last. Operands: the image, the weights of the
// depthwise one, of that before, of that after, then what each has behind its sums.
template <typename Int = int64_t>
struct DepthwiseBlockAttributes {
  bool before, after;
  ConvAttributes<Int> depthwise;
  ConvSumsAttributes sums[3];
  std::optional<ConvPostAttributes> post;
  auto Fields() { return std::tie(before, after, depthwise, sums, post); }
};

// Pools, by spatial dim.
struct MaxPoolAttributes {
  int64_t window[3], stride[3], padding[3], dilation[3];
  auto Fields() { return std::tie(window, stride, padding, dilation); }
};
// avg_pool: the padding counts as elements, or not; a divisor instead of their number, 0 for none.
template <typename Int = int64_t>
struct AveragePoolAttributes {
  int64_t window[3], stride[3], padding[3];
  bool padding_counts;
  Int divisor;
  auto Fields() { return std::tie(window, stride, padding, padding_counts, divisor); }
};

// resample: the factor that was asked for, 0 where sizes were.
enum class ResampleMode : uint8_t { kLinear, kCubic, kLinearAntialias, kCubicAntialias, kCount };
struct ResampleAttributes {
  ResampleMode mode;
  bool align_corners;
  double factor;
  auto Fields() { return std::tie(mode, align_corners, factor); }
};
// resample_nearest: of the last `spatial` of three dims; `exact` takes the element at the middle of the result's, else
// at its beginning. Factors as above.
struct NearestAttributes {
  bool exact;
  int64_t spatial;
  double factors[3];
  auto Fields() { return std::tie(exact, spatial, factors); }
};
// grid_sample, numbered as torch numbers them.
enum class GridMode : uint8_t { kBilinear, kNearest, kBicubic, kCount };
enum class GridPadding : uint8_t { kZeros, kBorder, kReflection, kCount };
struct GridSampleAttributes {
  GridMode mode;
  GridPadding padding;
  bool align_corners;
  auto Fields() { return std::tie(mode, padding, align_corners); }
};

// random_integers: they are low … low + count - 1.
template <typename Int = int64_t>
struct RandomIntegersAttributes {
  Int low, count;
  auto Fields() { return std::tie(low, count); }
};

// nms: boxes that overlap by a larger part of what they cover together are suppressed.
struct SuppressionAttributes {
  double threshold;
  auto Fields() { return std::tie(threshold); }
};
// roi_align, roi_pool: `scale` takes regions to the image; `sampling` samples a bin in each direction, as many as it
// has pixels where that is not positive. With `by_position`, each bin has channels of its own.
struct RegionAttributes {
  double scale;
  int64_t sampling;
  bool aligned, by_position;
  auto Fields() { return std::tie(scale, sampling, aligned, by_position); }
};
// deform_columns: by height and width.
struct DeformAttributes {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t offset_groups;
  auto Fields() { return std::tie(kernel, stride, padding, dilation, offset_groups); }
};

// ---- Between structs and the numbers of a step.

namespace attributes_internal {

template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
constexpr bool kIsVariant = false;
template <typename... T>
constexpr bool kIsVariant<std::variant<T...>> = true;
template <typename T>
concept HasFields = requires(T t) { t.Fields(); };
template <typename E>
constexpr int64_t kChoices = static_cast<int64_t>(E::kCount);
template <>
inline constexpr int64_t kChoices<DType> = kDTypes;
template <>
inline constexpr int64_t kChoices<Activation> = static_cast<int64_t>(Activation::kLeakyRelu) + 1;

class Reader {
 public:
  Reader(std::span<const int64_t> ints, std::span<const double> reals) : ints_(ints), reals_(reals) {}
  bool done() const { return ints_.empty() && reals_.empty(); }

  template <typename T>
  bool Read(T& to) {
    if constexpr (HasFields<T>) {
      return std::apply([&](auto&... field) { return (Read(field) && ...); }, to.Fields());
    } else if constexpr (std::is_array_v<T>) {
      for (auto& x : to)
        if (!Read(x)) return false;
      return true;
    } else if constexpr (kIsOptional<T>) {
      if constexpr (std::is_same_v<T, std::optional<double>>) {
        if (reals_.empty()) return true;
      } else {
        if (done()) return true;
      }
      return Read(to.emplace());
    } else if constexpr (kIsVariant<T>) {
      if (!ints_.empty()) return Read(to.template emplace<int64_t>());
      return Read(to.template emplace<double>());
    } else if constexpr (std::is_same_v<T, double>) {
      if (reals_.empty()) return false;
      to = reals_.front(), reals_ = reals_.subspan(1);
      return true;
    } else {
      if (ints_.empty()) return false;
      const int64_t x = ints_.front();
      ints_ = ints_.subspan(1);
      if constexpr (std::is_enum_v<T>) {
        if (x < 0 || x >= kChoices<T>) return false;
        to = static_cast<T>(x);
      } else if constexpr (std::is_same_v<T, bool>) {
        to = x != 0;
      } else {
        if (x < std::numeric_limits<T>::min() || x > std::numeric_limits<T>::max()) return false;
        to = static_cast<T>(x);
      }
      return true;
    }
  }

 private:
  std::span<const int64_t> ints_;
  std::span<const double> reals_;
};

}  // namespace attributes_internal

// False where the numbers are not those of such a struct.
template <typename Attributes>
bool ReadAttributes(std::span<const int64_t> ints, std::span<const double> reals, Attributes* to) {
  attributes_internal::Reader reader(ints, reals);
  return reader.Read(*to) && reader.done();
}

// Calls add for each number of a struct, in order: add(int64_t) or add(double), or add(x) with a member of another type
// Int or Real.
template <typename T, typename F>
void ForEachNumber(T& x, F& add) {
  using attributes_internal::kIsOptional;
  if constexpr (attributes_internal::HasFields<T>) {
    std::apply([&](auto&... field) { (ForEachNumber(field, add), ...); }, x.Fields());
  } else if constexpr (std::is_array_v<T>) {
    for (auto& element : x) ForEachNumber(element, add);
  } else if constexpr (kIsOptional<T>) {
    if (x) ForEachNumber(*x, add);
  } else if constexpr (attributes_internal::kIsVariant<T>) {
    std::visit([&](auto& one) { ForEachNumber(one, add); }, x);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    add(static_cast<int64_t>(x));
  } else {
    add(x);
  }
}

// How many numbers such a struct has, optional members included; a variant counts as an integer.
template <typename Attributes>
constexpr void CountNumbers(int8_t* ints, int8_t* reals) {
  using attributes_internal::kIsOptional;
  if constexpr (attributes_internal::HasFields<Attributes>) {
    [&]<typename... T>(std::type_identity<std::tuple<T&...>>) {
      (CountNumbers<T>(ints, reals), ...);
    }(std::type_identity<decltype(std::declval<Attributes&>().Fields())>{});
  } else if constexpr (std::is_array_v<Attributes>) {
    for (size_t i = 0; i < std::extent_v<Attributes>; ++i) CountNumbers<std::remove_extent_t<Attributes>>(ints, reals);
  } else if constexpr (kIsOptional<Attributes>) {
    CountNumbers<typename Attributes::value_type>(ints, reals);
  } else if constexpr (std::is_same_v<Attributes, double>) {
    ++*reals;
  } else {
    ++*ints;
  }
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ATTRIBUTES_H_
