// Elements become f64 or 128-bit integers one by one; runs of equal bytes, which most are, are passed over.
#include "weights/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/floats.h"
#include "base/text.h"

namespace slipway::weights {
namespace {

using ir::DType;

constexpr std::pair<DType, SmallFloat> kSmallFloats[] = {
    {DType::kFloat8E4M3FN, kE4M3FN},     {DType::kFloat8E5M2, kE5M2}, {DType::kFloat8E4M3FNUZ, kE4M3FNUZ},
    {DType::kFloat8E5M2FNUZ, kE5M2FNUZ}, {DType::kFloat4E2M1, kE2M1}, {DType::kFloat6E2M3, kE2M3},
    {DType::kFloat6E3M2, kE3M2},
};

template <typename T>
T Load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double ValueOf(double v) { return v; }
double ValueOf(float v) { return v; }
double ValueOf(F16 v) { return v; }
double ValueOf(BF16 v) { return v; }

// Codes of IEEE numbers in the order of the numbers: 0 and -0 are one.
template <typename Bits>
uint64_t Steps(Bits a, Bits b) {
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const auto place = [](Bits x) {
    const __int128 magnitude = x & static_cast<Bits>(~kSign);
    return x & kSign ? -magnitude : magnitude;
  };
  const __int128 d = place(a) - place(b);
  return static_cast<uint64_t>(d < 0 ? -d : d);
}
uint64_t UlpsOf(double a, double b) { return Steps(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)); }
uint64_t UlpsOf(float a, float b) { return Steps(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b)); }
uint64_t UlpsOf(F16 a, F16 b) { return Steps(a.bits, b.bits); }
uint64_t UlpsOf(BF16 a, BF16 b) { return Steps(a.bits, b.bits); }

template <typename T, typename Make>
void Widen(const std::string& bytes, std::vector<double>* out, Make make) {
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T))
    out->push_back(make(Load<T>(reinterpret_cast<const uint8_t*>(bytes.data()) + i)));
}

}  // namespace

std::vector<double> ValuesOfCodes(DType dtype) {
  std::vector<double> values;
  if (dtype == DType::kFloat8E8M0FNU) {  // powers of two
    for (int i = 0; i < 255; ++i) values.push_back(std::ldexp(1.0, i - 127));
    values.push_back(std::numeric_limits<double>::quiet_NaN());
  }
  for (const auto& [t, f] : kSmallFloats)
    if (t == dtype)
      for (unsigned bits = 0; bits < (1u << ir::BitSize(dtype)); ++bits) values.push_back(Decode(f, bits));
  return values;
}

Comparison::Comparison(DType dtype, Tolerance tolerance)
    : dtype_(dtype), tolerance_(tolerance), small_(ValuesOfCodes(dtype)) {
  d_.has_ulp =
      dtype == DType::kFloat64 || dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

void Comparison::Apart(int64_t at, double distance, double size, double a, double b) {
  d_.max_abs = std::max(d_.max_abs, distance);
  d_.max_rel = std::max(d_.max_rel, distance / size);
  // An infinity is no measure of what is near it.
  if (std::isfinite(size) && distance <= tolerance_.atol + tolerance_.rtol * size) return;
  if (d_.unequal++ == 0) d_.first = at, d_.first_a = a, d_.first_b = b;
}

void Comparison::Real(int64_t at, double a, double b, uint64_t ulp) {
  if (a == b) return;
  const bool a_nan = std::isnan(a), b_nan = std::isnan(b);
  if (a_nan && b_nan) return;
  if (a_nan || b_nan) {
    if (d_.unequal++ == 0) d_.first = at, d_.first_a = a, d_.first_b = b;
    ++d_.one_nan;
    return;
  }
  d_.max_ulp = std::max(d_.max_ulp, ulp);
  Apart(at, std::fabs(a - b), std::fabs(a), a, b);
}

template <typename T, typename Of>
void Comparison::Reals(const uint8_t* a, const uint8_t* b, int64_t elements, Of of) {
  for (int64_t i = 0; i < elements; ++i) {
    const T x = Load<T>(a + i * sizeof(T)), y = Load<T>(b + i * sizeof(T));
    Real(d_.elements + i, of(x), of(y), UlpsOf(x, y));
  }
}

template <typename T>
void Comparison::Complexes(const uint8_t* a, const uint8_t* b, int64_t elements) {
  using Pair = std::array<T, 2>;
  for (int64_t i = 0; i < elements; ++i) {
    const Pair p = Load<Pair>(a + i * sizeof(Pair)), q = Load<Pair>(b + i * sizeof(Pair));
    const double x[] = {ValueOf(p[0]), ValueOf(p[1])}, y[] = {ValueOf(q[0]), ValueOf(q[1])};
    const auto same = [&](int k) { return x[k] == y[k] || (std::isnan(x[k]) && std::isnan(y[k])); };
    if (same(0) && same(1)) continue;
    if (std::isnan(x[0]) != std::isnan(y[0]) || std::isnan(x[1]) != std::isnan(y[1])) {
      if (d_.unequal++ == 0) d_.first = d_.elements + i, d_.first_a = x[0], d_.first_b = y[0];
      ++d_.one_nan;
      continue;
    }
    Apart(d_.elements + i, std::hypot(same(0) ? 0 : x[0] - y[0], same(1) ? 0 : x[1] - y[1]), std::hypot(x[0], x[1]),
          x[0], y[0]);
  }
}

template <typename T>
void Comparison::Integers(const uint8_t* a, const uint8_t* b, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    const T x = Load<T>(a + i * sizeof(T)), y = Load<T>(b + i * sizeof(T));
    if (x == y) continue;
    const __int128 d = static_cast<__int128>(x) - static_cast<__int128>(y);
    Apart(d_.elements + i, std::fabs(static_cast<double>(d)), std::fabs(static_cast<double>(x)), static_cast<double>(x),
          static_cast<double>(y));
  }
}

void Comparison::Codes(const uint8_t* a, const uint8_t* b, int64_t elements) {
  const int64_t bits = ir::BitSize(dtype_), bytes = (elements * bits + 7) / 8;
  const unsigned mask = (1u << bits) - 1;
  const auto code = [&](const uint8_t* from, int64_t i) {
    const int64_t bit = i * bits, at = bit / 8;
    const unsigned two = from[at] | (at + 1 < bytes ? from[at + 1] << 8 : 0);
    return two >> bit % 8 & mask;
  };
  for (int64_t i = 0; i < elements; ++i) {
    const unsigned x = code(a, i), y = code(b, i);
    if (x == y) continue;
    if (small_.empty())
      Apart(d_.elements + i, std::fabs(static_cast<double>(x) - y), x, x, y);
    else
      Real(d_.elements + i, small_[x], small_[y], 0);
  }
}

void Comparison::Add(const uint8_t* a, const uint8_t* b, int64_t elements) {
  const auto value = [](auto v) { return ValueOf(v); };
  if (std::memcmp(a, b, static_cast<size_t>((elements * ir::BitSize(dtype_) + 7) / 8)) != 0) {
    switch (dtype_) {
      case DType::kFloat64: Reals<double>(a, b, elements, value); break;
      case DType::kFloat32: Reals<float>(a, b, elements, value); break;
      case DType::kFloat16: Reals<F16>(a, b, elements, value); break;
      case DType::kBFloat16: Reals<BF16>(a, b, elements, value); break;
      case DType::kComplex32: Complexes<F16>(a, b, elements); break;
      case DType::kComplex64: Complexes<float>(a, b, elements); break;
      case DType::kComplex128: Complexes<double>(a, b, elements); break;
      case DType::kInt8: Integers<int8_t>(a, b, elements); break;
      case DType::kInt16: Integers<int16_t>(a, b, elements); break;
      case DType::kInt32: Integers<int32_t>(a, b, elements); break;
      case DType::kInt64: Integers<int64_t>(a, b, elements); break;
      case DType::kUInt16: Integers<uint16_t>(a, b, elements); break;
      case DType::kUInt32: Integers<uint32_t>(a, b, elements); break;
      case DType::kUInt64: Integers<uint64_t>(a, b, elements); break;
      default: Codes(a, b, elements); break;
    }
  }
  d_.elements += elements;
}

absl::StatusOr<Difference> Compare(const ir::TensorRef& a, const ir::TensorRef& b, Tolerance tolerance) {
  if (a.dtype != b.dtype || a.sizes != b.sizes) return absl::InternalError("tensors of different types are compared");
  constexpr uint64_t kMost = uint64_t{1} << 40;
  auto x = ir::ReadDense(a, kMost);
  if (!x.ok()) return x.status();
  auto y = ir::ReadDense(b, kMost);
  if (!y.ok()) return y.status();
  Comparison c(a.dtype, tolerance);
  c.Add(reinterpret_cast<const uint8_t*>(x->data()), reinterpret_cast<const uint8_t*>(y->data()), a.numel());
  return c.result();
}

absl::StatusOr<std::vector<double>> ToDoubles(const ir::TensorRef& t) {
  auto bytes = ir::ReadDense(t, uint64_t{1} << 40);
  if (!bytes.ok()) return bytes.status();
  std::vector<double> out;
  out.reserve(static_cast<size_t>(t.numel()));
  const auto plain = [](auto v) { return static_cast<double>(v); };
  const auto wide = [](auto v) { return ValueOf(v); };
  switch (t.dtype) {
    case DType::kFloat64: Widen<double>(*bytes, &out, plain); break;
    case DType::kFloat32: Widen<float>(*bytes, &out, plain); break;
    case DType::kFloat16: Widen<F16>(*bytes, &out, wide); break;
    case DType::kBFloat16: Widen<BF16>(*bytes, &out, wide); break;
    case DType::kBool:
    case DType::kUInt8: Widen<uint8_t>(*bytes, &out, plain); break;
    case DType::kInt8: Widen<int8_t>(*bytes, &out, plain); break;
    case DType::kInt16: Widen<int16_t>(*bytes, &out, plain); break;
    case DType::kInt32: Widen<int32_t>(*bytes, &out, plain); break;
    case DType::kInt64: Widen<int64_t>(*bytes, &out, plain); break;
    case DType::kUInt16: Widen<uint16_t>(*bytes, &out, plain); break;
    case DType::kUInt32: Widen<uint32_t>(*bytes, &out, plain); break;
    case DType::kUInt64: Widen<uint64_t>(*bytes, &out, plain); break;
    default: {
      const std::vector<double> values = ValuesOfCodes(t.dtype);
      if (values.size() != 256) return absl::UnimplementedError(text::StrCat(ir::Name(t.dtype), " as f64"));
      Widen<uint8_t>(*bytes, &out, [&](uint8_t code) { return values[code]; });
    }
  }
  return out;
}

double RootMeanSquare(absl::Span<const double> values) {
  double sum = 0;
  int64_t n = 0;
  for (double v : values)
    if (std::isfinite(v)) sum += v * v, ++n;
  return n == 0 ? 0 : std::sqrt(sum / static_cast<double>(n));
}

}  // namespace slipway::weights
