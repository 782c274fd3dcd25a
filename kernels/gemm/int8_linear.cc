// Products of integers with integers (`integer_linear`) and the integers of activations (`quantize_rows`), as programs
// have them whose activations are quantized while they run. The sums are exact; what is around them is in the order
// that isa/int8_gemm.h states.
#include <algorithm>
#include <cmath>

#include "kernels/convert.h"
#include "kernels/gemm/dequant_linear.h"
#include "kernels/gemm/packing.h"
#include "kernels/gemm/product.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/registry.h"
#include "kernels/scratch.h"
#include "kernels/strided_iterator.h"

namespace slipway::kernels {
namespace {

// Columns that a thread takes at least.
constexpr int64_t kColumns = 64;

bool SameRows(const Tensor& a, const Tensor& b) {
  if (a.rank != b.rank) return false;
  for (int d = 0; d + 1 < a.rank; ++d)
    if (a.sizes[d] != b.sizes[d]) return false;
  return true;
}
bool IsScale(DType t) { return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16; }
bool IsDense(const Tensor& t) { return !t.is_packed() && t.is_contiguous(); }
bool IsByte(DType t) { return t == DType::kI8 || t == DType::kU8; }

// Unsigned integers of activations are multiplied as signed ones, less by this; their zero points are, too.
constexpr int32_t kUnsignedShift = 128;
void Shift(const uint8_t* from, int64_t n, uint8_t* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] ^ uint8_t { kUnsignedShift };
}

// Elements of a tensor of [rows…, 1], row by row.
template <typename From, typename To>
void TakeRows(const Tensor& t, To* to) {
  for (Positions<1> at(t, {&t}); at; at.Next()) *to++ = static_cast<To>(*reinterpret_cast<const From*>(at[0]));
}

// Half of it checks: operands come from a file. Then the quantized input is packed and multiplied by blocks of rows.
const char* IntegerLinear(const Call& c, const IntegerLinearAttributes& a) {
  constexpr const char* kMalformed = "the operands do not agree";
  const bool shifted = (a.parts & kIntegerZero) != 0, asymmetric = (a.parts & kIntegerInputZero) != 0,
             biased = (a.parts & kIntegerBias) != 0;
  const size_t operands = size_t{4} + shifted + asymmetric + biased;
  if (a.parts < 0 || a.parts > 7 || c.in.size() != operands) return kMalformed;
  const Tensor &x = c.in[0], &q = c.in[1], &scale = c.in[2], &out = c.out[0];
  size_t next = 3;
  const Tensor* const zero = shifted ? &c.in[next++] : nullptr;
  const Tensor& x_scale = c.in[next++];
  const Tensor* const x_zero = asymmetric ? &c.in[next++] : nullptr;
  const Tensor* const bias = biased ? &c.in[next++] : nullptr;

  const int r = out.rank;
  if (r < 1 || x.rank != r || q.rank != 2 || scale.rank != 2 || !IsByte(q.dtype) || !IsByte(x.dtype) ||
      out.dtype != DType::kF32 || !IsScale(scale.dtype) || x_scale.dtype != DType::kF32 || !SameRows(x, out) ||
      !SameRows(x_scale, out) || x_scale.sizes[r - 1] != 1 || x_scale.is_packed() || x.sizes[r - 1] != q.sizes[0] ||
      out.sizes[r - 1] != q.sizes[1] || !IsDense(x) || !IsDense(out) ||
      (a.rounded != DType::kF32 && a.rounded != DType::kBF16))
    return kMalformed;
  Int8GemmParams g;
  g.k = q.sizes[0], g.n = q.sizes[1];
  const int64_t groups = scale.sizes[0];
  if (groups < 1 || g.k % groups != 0 || scale.sizes[1] != g.n || g.k > kMaxIntegerTerms) return kMalformed;
  g.group = g.k / groups;
  if (groups > 1 && (g.group % 8 != 0 || a.rounded != DType::kF32)) return kMalformed;
  if (zero != nullptr &&
      (zero->rank != 2 || zero->sizes[0] != groups || zero->sizes[1] != g.n || zero->dtype != q.dtype))
    return kMalformed;
  if (x_zero != nullptr &&
      (x_zero->dtype != x.dtype || !SameRows(*x_zero, out) || x_zero->sizes[r - 1] != 1 || x_zero->is_packed()))
    return kMalformed;
  if (bias != nullptr && (bias->rank != 1 || bias->sizes[0] != g.n || bias->dtype != DType::kF32 || bias->is_packed()))
    return kMalformed;
  if (out.numel() == 0) return nullptr;
  if (g.k == 0) return "a product over nothing";
  g.m = out.numel() / g.n;

  Scratch& scratch = *c.scratch;
  QuantizedMatrix matrix;
  matrix.k = g.k, matrix.n = g.n;
  TakeIntegers(q, matrix, c, scratch);
  g.b = static_cast<const uint8_t*>(matrix.q), g.nibbles = matrix.nibbles;
  g.offset = static_cast<int32_t>(matrix.offset);
  g.scale = scale.is_packed() ? scale.data : PanelsOfFloats(scale, scratch);
  g.scale_dtype = scale.is_packed() ? scale.dtype : DType::kF32;
  if (zero != nullptr) {
    g.zero = PanelsOfBytes(*zero, scratch);
    if (zero->dtype == DType::kU8) g.offset -= 128;  // which these are less by
  }
  float* scales = scratch.Take<float>(g.m);
  const bool is_unsigned = x.dtype == DType::kU8;
  int32_t* zeros = x_zero != nullptr || is_unsigned ? scratch.Take<int32_t>(g.m) : nullptr;
  float* row = bias != nullptr ? scratch.Take<float>(g.n) : nullptr;
  const Int8GemmMicrokernels& isa = BestInt8Gemm();
  g.a_stride = isa.row_bytes(g.k, g.nibbles);
  char* prepared = scratch.Take<char>(g.m * g.a_stride);
  int32_t* sums = scratch.Take<int32_t>(g.m * groups);
  int32_t* const column_sums =
      zeros != nullptr && g.m > 1 ? scratch.Take<int32_t>((g.n + kPanel - 1) / kPanel * kPanel * groups) : nullptr;
  const bool small = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) < 256 * 1024;
  const Workers* workers = small ? nullptr : c.workers;
  ParallelFor(scratch, workers, g.m, 16, [&](int64_t first, int64_t last, Scratch& own) {
    uint8_t* const room = is_unsigned ? own.Take<uint8_t>(g.k) : nullptr;
    if (own.querying()) return;
    for (int64_t i = first; i < last; ++i) {
      const int8_t* integers = x.as<int8_t>() + i * g.k;
      if (is_unsigned) {
        Shift(x.as<uint8_t>() + i * g.k, g.k, room);
        integers = reinterpret_cast<const int8_t*>(room);
      }
      isa.pack_row(integers, g.k, g.group, g.nibbles, prepared + i * g.a_stride, sums + i * groups);
    }
  });
  if (scratch.querying()) return nullptr;

  TakeRows<float>(x_scale, scales);
  if (x_zero != nullptr) is_unsigned ? TakeRows<uint8_t>(*x_zero, zeros) : TakeRows<int8_t>(*x_zero, zeros);
  if (is_unsigned)
    for (int64_t i = 0; i < g.m; ++i) zeros[i] = (x_zero != nullptr ? zeros[i] : 0) - kUnsignedShift;
  if (bias != nullptr)
    for (int64_t j = 0; j < g.n; ++j) row[j] = bias->as<float>()[j * bias->strides[0]];
  g.a = prepared, g.a_sum = sums, g.a_scale = scales, g.a_zero = zeros, g.bias = row;
  g.rounded = a.rounded;
  g.c = out.as<float>(), g.c_stride = g.n;
  const int64_t unit = g.nibbles ? 8 : 4, column_bytes = (g.k + unit - 1) / unit * 4;
  ParallelFor(workers, (g.n - 1) / kColumns + 1, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kColumns;
    Int8GemmParams part = g;
    part.n = std::min(g.n, last * kColumns) - begin;
    part.b += begin * column_bytes, part.c += begin;
    part.scale = static_cast<const char*>(g.scale) + begin * groups * ByteSize(g.scale_dtype);
    if (column_sums != nullptr) {
      isa.column_sums(part, column_sums + begin * groups);
      part.column_sums = column_sums + begin * groups;
    }
    if (part.zero != nullptr) part.zero += begin * groups;
    if (part.bias != nullptr) part.bias += begin;
    isa.gemm(part);
  });
  return nullptr;
}

bool IntegerProduct(const Call& c, const IntegerLinearAttributes& a, int64_t rows, Product* p) {
  if (c.in.size() < 4 || c.in[0].rank < 1 || c.in[1].rank != 2 || c.in[2].rank != 2) return false;
  SetRows(c, a.parts & kIntegerZero ? 4 : 3, p);
  if (rows > 0) p->m.value = rows;
  p->operations = Operations(*p);
  p->groups = c.in[2].sizes[0];
  QuantizedMatrix matrix;
  SetPacking(c.in[1], matrix);
  const Int8GemmMicrokernels& isa = BestInt8Gemm();
  p->loop = {isa.name, isa.algorithm[matrix.nibbles]};
  return true;
}

// Scale and zero point of a row, each operation rounded to the dtype of the activations, as torchao's
// choose_qparams_affine.
struct RowQuantizer {
  const QuantizeRowsAttributes& a;
  DType own;

  float Round(float v) const {
    return own == DType::kBF16  ? static_cast<float>(BF16(v))
           : own == DType::kF16 ? static_cast<float>(static_cast<F16>(v))
                                : v;
  }
  static float AtLeast(float v, float bound) { return v < bound ? bound : v; }  // NaN stays
  static float AtMost(float v, float bound) { return v > bound ? bound : v; }
  void Choose(float least, float most, float* scale, float* zero) const {
    const auto low = static_cast<float>(a.low), high = static_cast<float>(a.high);
    const float eps = Round(static_cast<float>(a.eps));
    least = AtMost(least, 0), most = AtLeast(most, 0);
    if (a.asymmetric) {
      *scale = AtLeast(Round(Round(most - least) / (high - low)), eps);
      *zero = AtMost(AtLeast(Round(low - std::nearbyint(Round(least / *scale))), low), high);
    } else {
      const float size = -least > most || std::isnan(least) ? -least : most;
      *scale = AtLeast(Round(size / ((high - low) / 2)), eps);
      *zero = static_cast<float>(static_cast<int64_t>((high + low + 1) / 2));
    }
  }
};

// The integers of part of a row, whose scale and zero point are known.
struct RowIntegers {
  const QuantizeRowsAttributes& a;
  const Int8GemmMicrokernels& isa;
  bool is_unsigned;

  void Make(const float* x, int64_t n, float scale, float zero, void* to) const {
    const auto shift = static_cast<float>(is_unsigned ? kUnsignedShift : 0);
    isa.quantize(x, n, 1 / scale, zero - shift, static_cast<float>(a.low) - shift, static_cast<float>(a.high) - shift,
                 static_cast<int8_t*>(to));
    auto* bytes = static_cast<uint8_t*>(to);
    if (is_unsigned) Shift(bytes, n, bytes);
  }
};

const char* QuantizeRows(const Call& c, const QuantizeRowsAttributes& a) {
  constexpr const char* kMalformed = "the operands do not agree";
  if (c.in.size() != 1 || c.out.size() != 3) return kMalformed;
  const Tensor &x = c.in[0], &q = c.out[0], &scale = c.out[1], &zero = c.out[2];
  const int r = x.rank;
  const bool is_unsigned = q.dtype == DType::kU8;
  if (r < 1 || q.rank != r || scale.rank != r || zero.rank != r || !IsByte(q.dtype) || scale.dtype != DType::kF32 ||
      zero.dtype != q.dtype || !SameRows(x, q) || !SameRows(x, scale) || !SameRows(x, zero) ||
      q.sizes[r - 1] != x.sizes[r - 1] || scale.sizes[r - 1] != 1 || zero.sizes[r - 1] != 1 || !IsDense(x) ||
      !IsDense(q) || !IsDense(scale) || !IsDense(zero) ||
      (x.dtype != DType::kF32 && x.dtype != DType::kBF16 && x.dtype != DType::kF16) ||
      a.low < (is_unsigned ? 0 : -128) || a.high > (is_unsigned ? 255 : 127) || a.low >= a.high)
    return kMalformed;
  const int64_t k = x.sizes[r - 1];
  if (q.numel() == 0) return scale.numel() == 0 ? nullptr : "extremes of nothing";
  const int64_t rows = q.numel() / k;
  Scratch& scratch = *c.scratch;
  const bool wide = x.dtype == DType::kF32;
  const Int8GemmMicrokernels& isa = BestInt8Gemm();
  const RowQuantizer choose{a, x.dtype};
  const RowIntegers integers{a, isa, is_unsigned};
  const Workers* workers = rows * k < 16 * 1024 ? nullptr : c.workers;
  auto choose_for = [&](int64_t i, float least, float most) {
    float z;
    choose.Choose(least, most, &scale.as<float>()[i], &z);
    zero.as<uint8_t>()[i] = is_unsigned ? Convert<uint8_t>(z) : static_cast<uint8_t>(Convert<int8_t>(z));
  };
  auto make = [&](int64_t i, const float* row, int64_t first, int64_t n) {
    const auto z = is_unsigned ? static_cast<float>(zero.as<uint8_t>()[i]) : static_cast<float>(zero.as<int8_t>()[i]);
    integers.Make(row + first, n, scale.as<float>()[i], z, q.as<uint8_t>() + i * k + first);
  };
  if (rows == 1 && wide && workers != nullptr) {  // a whole tensor: threads share it
    constexpr int64_t kParts = 64;
    const int64_t part = std::max<int64_t>((k - 1) / kParts + 1, 4096), parts = (k - 1) / part + 1;
    float lowest[kParts], highest[kParts];
    if (scratch.querying()) return nullptr;
    const float* row = x.as<float>();
    auto of_part = [&](int64_t p) { return std::min(part, k - p * part); };
    ParallelFor(workers, parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) isa.min_max(row + p * part, of_part(p), &lowest[p], &highest[p]);
    });
    float least, most, unused;
    isa.min_max(lowest, parts, &least, &unused);
    isa.min_max(highest, parts, &unused, &most);
    choose_for(0, least, most);
    ParallelFor(workers, parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) make(0, row, p * part, of_part(p));
    });
    return nullptr;
  }
  ParallelFor(scratch, workers, rows, 4, [&](int64_t first, int64_t last, Scratch& own) {
    float* room = wide ? nullptr : own.Take<float>(k);
    if (own.querying()) return;
    for (int64_t i = first; i < last; ++i) {
      const float* row = x.as<float>() + i * k;
      if (!wide) LoadRow<float>(x.as<uint16_t>() + i * k, x.dtype, 1, k, x.dtype, room), row = room;
      float least, most;
      isa.min_max(row, k, &least, &most);
      choose_for(i, least, most);
      make(i, row, 0, k);
    }
  });
  return nullptr;
}

bool RowsProduct(const Call& c, const QuantizeRowsAttributes&, int64_t rows, Product* p) {
  if (c.in.size() != 1 || c.in[0].rank < 1) return false;
  const Tensor& x = c.in[0];
  p->m = SizeOf(x, 0, 0, x.rank - 1), p->k = SizeOf(x, 0, x.rank - 1, x.rank);
  if (rows > 0) p->m.value = rows;
  p->n.value = 0;
  p->loop = {BestInt8Gemm().name, "extremes of a row, then its integers"};
  return true;
}

constexpr Kernel kKernels[] = {
    With<IntegerLinearAttributes, IntegerLinear>(
        {.name = "integer_linear",
         .inputs = 4,
         .packed = {Packable::kNever, Packable::kBytesAndNibbles, Packable::kFloats, Packable::kFloatsAndBytes},
         .queries_workspace = true,
         .product = ProductOfCall<IntegerLinearAttributes, IntegerProduct>}),
    With<QuantizeRowsAttributes, QuantizeRows>({.name = "quantize_rows",
                                                .inputs = 1,
                                                .outputs = 3,
                                                .queries_workspace = true,
                                                .product = ProductOfCall<QuantizeRowsAttributes, RowsProduct>}),
};

}  // namespace

std::span<const Kernel> IntegerKernels() { return kKernels; }

}  // namespace slipway::kernels
