// Decompositions: divisors of integers, and the parts and neighbours of floating-point numbers, by arithmetic in
// binary64, in which all of it is exact.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "passes/decompositions/special/expression.h"
#include "passes/decompositions/special/special.h"
#include "passes/decompositions/util.h"
#include "passes/float_constants.h"

namespace slipway::passes {
namespace {

// Euclid's algorithm on magnitudes, which are of the result's type: the least number has none there and stays negative.
Expr Gcd(Decomposer& d, Expr x, Expr y) {
  const DType t = d.node().output()->dtype();
  auto magnitude = [&](Expr v) { return Abs(v).Cast(t).Cast(v.dtype()); };
  return While(
      d.b, {magnitude(x), magnitude(y)}, {},
      [](const Exprs& in) { return Expr{in[0].b, in[0].b->Call("aten.any.default", {(!Equal(in[0], 0.0)).v})}; },
      [](const Exprs& in) -> Exprs {
        Expr done = Equal(in[0], 0.0), divisor = Where(done, 1.0, in[0]);
        Expr rest{in[0].b, in[0].b->Call("aten.fmod.Tensor", {in[1].v, divisor.v})};
        return {Where(done, in[0], rest), Where(done, in[1], in[0])};
      })[1];
}
std::pair<Expr, Expr> Integers(Decomposer& d) {
  auto [x, y] = Broadcast(NarrowInput(d, "self"), NarrowInput(d, "other"));
  return {x.Cast(DType::kInt64), y.Cast(DType::kInt64)};
}
void GcdOp(Decomposer& d) {
  auto [x, y] = Integers(d);
  Result(d, Gcd(d, x, y));
}
void Lcm(Decomposer& d) {
  auto [x, y] = Integers(d);
  Expr gcd = Gcd(d, x, y), zero = Equal(gcd, 0.0);
  Expr part{&d.b, d.b.Call("aten.div.Tensor_mode", {x.v, Where(zero, 1.0, gcd).v}, {{"rounding_mode", "trunc"}})};
  Expr multiple = part * y;
  // what overflows wraps first
  if (d.node().output()->dtype() == DType::kInt32) multiple = multiple.Cast(DType::kInt32).Cast(DType::kInt64);
  Result(d, Where(zero, 0.0, Abs(multiple)));
}

// Integers to powers of integers by squares; overflow wraps. To negative powers 1 and -1 alone are not 0.
void IntegerPower(Decomposer& d) {
  const DType t = d.node().output()->dtype();
  if (!ir::IsIntegral(t) || ir::IsBool(t)) return d.Unsupported(text::StrCat("of ", ir::Name(t)));
  auto [base, exponent] = Broadcast(NarrowInput(d, "self"), NarrowInput(d, "exponent"));
  base = base.Cast(DType::kInt64), exponent = exponent.Cast(DType::kInt64);
  const auto bitwise = [](const char* op, Expr x, int64_t y) { return Expr{x.b, x.b->Call(op, {x.v, y})}; };
  Expr negative = exponent < 0.0;
  if (const int64_t* two = d.node().Get("self").get<int64_t>(); two && *two == 2) {
    Expr power{&d.b, d.b.Call("aten.bitwise_left_shift.Tensor", {(exponent * 0.0 + 1.0).v, exponent.v})};
    return Result(d, power);  // 0 of negative exponents, too
  }
  Expr odd = bitwise("aten.bitwise_and.Scalar", exponent, 1);
  const Exprs powers = While(
      d.b, {base * 0.0 + 1.0, base, Where(negative, 0.0, exponent)}, {},
      [](const Exprs& in) { return Expr{in[0].b, in[0].b->Call("aten.any.default", {(!Equal(in[2], 0.0)).v})}; },
      [&](const Exprs& in) -> Exprs {
        Expr is_odd = Equal(bitwise("aten.bitwise_and.Scalar", in[2], 1), 1.0);
        return {Where(is_odd, in[0] * in[1], in[0]), in[1] * in[1],
                bitwise("aten.bitwise_right_shift.Tensor_Scalar", in[2], 1)};
      });
  Expr inverse = Where(Equal(base, 1.0), base, Where(Equal(base, -1.0), 1.0 - odd * 2.0, 0.0));
  Result(d, Where(negative, inverse, powers[0]));
}

struct Parts {
  Expr fraction;  // in [1/2, 1), of x's sign; x itself where x is zero or not finite
  Expr exponent;  // whole; 0 there
  Expr regular;   // whether x is neither
};
// x = fraction 2^exponent, for x in binary64.
Parts Split(Expr x) {
  constexpr double kSmall = 0x1p-1000, kScaleBits = 54;
  Expr size = Abs(x), regular = (size > 0.0) & (size < kInf);
  size = Where(regular, size, 1.0);
  Expr small = size < kSmall;
  size = Where(small, size * std::exp2(kScaleBits), size);
  // The logarithm may be off by one; the fraction tells.
  Expr e = Floor(Log(size) * std::numbers::log2e) + 1.0, f = size * Pow(2.0, -e);
  Expr above = f >= 1.0, below = f < 0.5;
  f = Where(above, f * 0.5, Where(below, f * 2.0, f));
  e = Where(above, e + 1.0, Where(below, e - 1.0, e));
  e = Where(small, e - kScaleBits, e);
  return {Where(regular, Where(x < 0.0, -f, f), x), Where(regular, e, 0.0), regular};
}
void Frexp(Decomposer& d) {
  Parts parts = Split(Input(d));
  d.Return({d.b.Cast(parts.fraction.v, d.compute_dtype(0)), parts.exponent.Cast(DType::kInt32).v});
}

// Digits of the fraction, and the exponent of the smallest number.
struct Format {
  DType dtype;
  double digits, least;
  double max;
};
constexpr Format kFormats[] = {
    {DType::kFloat64, 53, -1074, std::numeric_limits<double>::max()},
    {DType::kFloat32, 24, -149, std::numeric_limits<float>::max()},
    {DType::kFloat16, 11, -24, 65504},
    {DType::kBFloat16, 8, -133, 0x1.fep127},
};
void NextAfter(Decomposer& d) {
  const Format* format = nullptr;
  for (const Format& f : kFormats)
    if (f.dtype == d.out_type().dtype) format = &f;
  if (!format) return d.Unsupported("the neighbour of a number of this type");
  auto [x, y] = Broadcast(Input(d, "self"), Input(d, "other"));
  Parts parts = Split(x);
  Expr up = x < y, grows = ((x > 0.0) & up) | ((x < 0.0) & (!up));
  // Towards zero from a power of two, the next number is half as far.
  Expr halved = (!grows) & Equal(Abs(parts.fraction), 0.5);
  Expr exponent = parts.exponent - format->digits - halved.Cast(DType::kFloat64);
  Expr step = Pow(2.0, Where(parts.regular, exponent, format->least).Call("clamp_min", {format->least}));
  Expr next = x + Where(up, step, -step);
  next = Where(Equal(next, 0.0), x * 0.0, next);
  next = Where(IsInf(x), Sign(x) * format->max, next);
  next = Where(Equal(x, y), y, next);
  Result(d, Where(IsNan(x) | IsNan(y), kNan, next));
}

void Angle(Decomposer& d) {
  if (ir::IsComplex(d.tensor("self")->dtype())) return d.Unsupported("complex numbers");
  Expr x = NarrowInput(d, "self");
  Expr zero = x.Like(0);
  Result(d, Where(IsNan(x), x, Where(x < 0.0, x.Like(std::numbers::pi), zero)));
}

// The 64 bits of a number as torch hashes it: integers extended, others as binary64.
Expr Bits(Decomposer& d, Value* value) {
  Expr given{&d.b, value};
  if (!ir::IsFloating(value->dtype())) return given.Cast(DType::kInt64);
  constexpr double kSmallest = 0x1p-1022, kHalfScale = 0x1p537;
  constexpr int64_t kExponentBias = 1022, kSignBit = std::numeric_limits<int64_t>::min();
  constexpr int64_t kInfBits = int64_t{2047} << 52, kNanBits = int64_t{4095} << 51;
  Expr x = given.Cast(DType::kFloat64), size = Abs(x);
  Parts parts = Split(size);
  auto constant = [&](int64_t v) { return Expr{&d.b, d.b.ScalarTensor(v, DType::kInt64)}; };
  Expr low = (parts.fraction * 0x1p53 - 0x1p52).Cast(DType::kInt64);
  Expr high = (parts.exponent.Cast(DType::kInt64) + static_cast<double>(kExponentBias)) * constant(int64_t{1} << 52);
  Expr bits = Where(size < kSmallest, (size * kHalfScale * kHalfScale).Cast(DType::kInt64), high + low);
  bits = Where(IsInf(x), constant(kInfBits), bits);
  Expr negative = (x < 0.0) | (Equal(x, 0.0) & (x.Call("reciprocal") < 0.0));
  bits = Where(negative, bits + constant(kSignBit), bits);
  return Where(IsNan(x), constant(kNanBits), bits);
}
// The exclusive or of all bits along dims, by halving.
void HashTensor(Decomposer& d) {
  Value* x = d.tensor("self");
  if (d.i("mode") != 0) return d.Unsupported("a mode of hash_tensor other than 0");
  if (ir::IsComplex(x->dtype())) return d.Unsupported("complex numbers");
  std::vector<int> dims = d.dims("dim", x->rank()), order;
  if (!d.ok()) return;
  if (x->rank() == 0) dims.clear();
  int64_t count = 1;
  SymInts kept, sizes;
  for (int i = 0; i < x->rank(); ++i) {
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) {
      order.push_back(i);
      kept.push_back(d.b.Size(x, i));
      sizes.push_back(kept.back());
      continue;
    }
    auto n = x->sizes()[i].constant();
    if (!n) return d.Unsupported("hash_tensor over a symbolic size");
    if (__builtin_mul_overflow(count, *n, &count)) return d.Unsupported("hash_tensor of so many elements");
    if (d.flag("keepdim")) sizes.push_back(1);
  }
  Value* bits = Bits(d, x).v;
  const int last = static_cast<int>(kept.size());
  if (count == 0) {
    bits = d.b.Full(kept, 0, DType::kInt64);
  } else {
    order.insert(order.end(), dims.begin(), dims.end());
    if (!std::is_sorted(order.begin(), order.end())) bits = Permute(d, bits, order);
    SymInts flat = kept;
    flat.push_back(count);
    bits = Reshape(d, bits, flat);
    while (count > 1) {
      const int64_t half = count / 2;
      Value* pairs =
          d.b.Call("aten.bitwise_xor.Tensor", {Slice(d, bits, last, 0, half), Slice(d, bits, last, half, 2 * half)});
      bits = count % 2 ? Cat(d, {pairs, Slice(d, bits, last, count - 1)}, last) : pairs;
      count = half + count % 2;
    }
  }
  d.Return(d.b.Cast(Reshape(d, bits, sizes), d.out_type().dtype));
}

// clang-format off
constexpr DecomposeRow kNumberRows[] = {
    {"aten.pow.Tensor_Tensor", IntegerPower}, {"aten.pow.Scalar", IntegerPower},
    {"aten.gcd.default", GcdOp},   {"aten.lcm.default", Lcm},
    {"aten.frexp.Tensor", Frexp},  {"aten.nextafter.default", NextAfter},
    {"aten.angle.default", Angle}, {"aten.hash_tensor.default", HashTensor, false},
};
// clang-format on

}  // namespace

absl::Span<const DecomposeRow> NumberDecompositions() { return kNumberRows; }

}  // namespace slipway::passes
