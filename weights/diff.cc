// Elements of every type become f64 or are compared as bits, a piece at a time; small floats go through tables of their codes.
#include "weights/diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "base/floats.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/inputs.h"
#include "io/io_error.h"
#include "ir/sharded.h"
#include "weights/cast.h"

namespace slipway::weights {
namespace {

using ir::DType;

constexpr std::pair<DType, SmallFloat> kSmallFloats[] = {
    {DType::kFloat8E4M3FN, kE4M3FN}, {DType::kFloat8E5M2, kE5M2}, {DType::kFloat8E4M3FNUZ, kE4M3FNUZ}, {DType::kFloat8E5M2FNUZ, kE5M2FNUZ},
    {DType::kFloat4E2M1, kE2M1},     {DType::kFloat6E2M3, kE2M3}, {DType::kFloat6E3M2, kE3M2},
};

// The values of all codes of a small type; empty for others.
std::vector<double> SmallValues(DType dtype) {
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

template <typename T>
T Load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Counts the elements of two runs that differ, into a row.
class Counter {
 public:
  Counter(double tolerance, DiffRow* row) : tolerance_(tolerance), row_(row) {}

  void Real(double a, double b) {
    if (a == b) return;
    const bool a_nan = std::isnan(a), b_nan = std::isnan(b);
    if (a_nan && b_nan) return;
    if (a_nan || b_nan) return OneNan();
    Different(std::fabs(a - b));
  }
  void Complex(double ar, double ai, double br, double bi) {
    const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
    if (same(ar, br) && same(ai, bi)) return;
    if (std::isnan(ar) != std::isnan(br) || std::isnan(ai) != std::isnan(bi)) return OneNan();
    Different(std::hypot(same(ar, br) ? 0 : ar - br, same(ai, bi) ? 0 : ai - bi));
  }
  // Bits that differ, of numbers this far from each other.
  void Exact(double distance) {
    ++row_->unequal;
    row_->max_abs = std::max(row_->max_abs, distance);
  }

 private:
  const double tolerance_;
  DiffRow* row_;

  void OneNan() {
    ++row_->unequal;
    ++row_->one_nan;
  }
  void Different(double distance) {
    if (distance > tolerance_) Exact(distance);
  }
};

template <typename T, typename Function>
void EachPair(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b, const Function& f) {
  for (size_t i = 0; i + sizeof(T) <= a.size(); i += sizeof(T)) f(Load<T>(&a[i]), Load<T>(&b[i]));
}

template <typename T>
void CountReal(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b, Counter* count) {
  EachPair<T>(a, b, [&](T x, T y) { count->Real(x, y); });
}

template <typename T>
void CountComplex(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b, Counter* count) {
  using Pair = std::array<T, 2>;
  EachPair<Pair>(a, b, [&](Pair x, Pair y) { count->Complex(x[0], x[1], y[0], y[1]); });
}

template <typename T>
void CountInteger(absl::Span<const uint8_t> a, absl::Span<const uint8_t> b, Counter* count) {
  EachPair<T>(a, b, [&](T x, T y) {
    if (x != y) count->Exact(std::fabs(static_cast<double>(static_cast<__int128>(x) - static_cast<__int128>(y))));
  });
}

// f16 and bf16 as f32, which holds all of them.
std::vector<uint8_t> Widened(DType dtype, absl::Span<const uint8_t> halves) {
  std::vector<uint8_t> out(halves.size() * 2);
  FindCast(dtype, DType::kFloat32)(halves.data(), out.data(), halves.size() / 2);
  return out;
}

// Elements of at most 8 bits, the first in the lowest bits.
void CountSmall(DType dtype, const std::vector<double>& values, int64_t elements, absl::Span<const uint8_t> a,
                absl::Span<const uint8_t> b, Counter* count) {
  const int bits = static_cast<int>(ir::BitSize(dtype));
  const unsigned mask = (1u << bits) - 1;
  const auto code = [&](absl::Span<const uint8_t> from, int64_t i) {
    const size_t bit = static_cast<size_t>(i) * bits, at = bit / 8;
    const unsigned two = from[at] | (at + 1 < from.size() ? from[at + 1] << 8 : 0);
    return two >> bit % 8 & mask;
  };
  for (int64_t i = 0; i < elements; ++i) {
    const unsigned x = code(a, i), y = code(b, i);
    if (x == y) continue;
    if (values.empty())
      count->Exact(std::fabs(static_cast<double>(x) - y));
    else
      count->Real(values[x], values[y]);
  }
}

void Count(DType dtype, const std::vector<double>& values, int64_t elements, absl::Span<const uint8_t> a,
           absl::Span<const uint8_t> b, Counter* count) {
  switch (dtype) {
    case DType::kFloat64:
      return CountReal<double>(a, b, count);
    case DType::kFloat32:
      return CountReal<float>(a, b, count);
    case DType::kFloat16:
    case DType::kBFloat16:
      return CountReal<float>(Widened(dtype, a), Widened(dtype, b), count);
    case DType::kComplex64:
      return CountComplex<float>(a, b, count);
    case DType::kComplex128:
      return CountComplex<double>(a, b, count);
    case DType::kComplex32:
      return CountComplex<float>(Widened(DType::kFloat16, a), Widened(DType::kFloat16, b), count);
    case DType::kInt8:
      return CountInteger<int8_t>(a, b, count);
    case DType::kInt16:
      return CountInteger<int16_t>(a, b, count);
    case DType::kInt32:
      return CountInteger<int32_t>(a, b, count);
    case DType::kInt64:
      return CountInteger<int64_t>(a, b, count);
    case DType::kUInt16:
      return CountInteger<uint16_t>(a, b, count);
    case DType::kUInt32:
      return CountInteger<uint32_t>(a, b, count);
    case DType::kUInt64:
      return CountInteger<uint64_t>(a, b, count);
    default:
      return CountSmall(dtype, values, elements, a, b, count);
  }
}

std::string TypeOf(const ir::ShardedTensor& t) {
  return text::StrCat(ir::Name(t.dtype), "[", text::Join(t.sizes, ","), "]");
}

absl::Status CompareValues(const ir::ShardedTensor& a, const ir::ShardedTensor& b, double tolerance, DiffRow* row) {
  if (absl::Status s = ir::Validate(a); !s.ok()) return s;
  if (absl::Status s = ir::Validate(b); !s.ok()) return s;
  auto x = ir::ElementReader::Open(a);
  if (!x.ok()) return x.status();
  auto y = ir::ElementReader::Open(b);
  if (!y.ok()) return y.status();
  const std::vector<double> values = SmallValues(a.dtype);
  Counter counter(tolerance, row);
  // Types below a byte are read as bytes, in steps of whole elements.
  const bool parts = ir::ByteSize(a.dtype) == 0;
  int64_t step = std::max(x->step(), y->step());
  if (parts) step = step / 3 * 3;
  for (int64_t done = 0; x->left() > 0;) {
    const absl::Span<const uint8_t> p = x->NextDense(step), q = y->NextDense(step);
    const int64_t bytes = static_cast<int64_t>(p.size());
    const int64_t elements =
        parts ? std::min(bytes * 8 / ir::BitSize(a.dtype), row->elements - done) : bytes / x->item();
    if (std::memcmp(p.data(), q.data(), p.size()) != 0) Count(a.dtype, values, elements, p, q, &counter);
    done += elements;
  }
  return absl::OkStatus();
}

const char* const kKinds[] = {"only_in_a", "only_in_b", "type", "values"};

std::string Number(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", v);
  return buffer;
}

}  // namespace

absl::StatusOr<DiffReport> Diff(ir::TensorSet first, ir::TensorSet second, const DiffOptions& options) {
  std::map<std::string, ir::ShardedTensor> sets[2];
  for (auto [set, to] : {std::pair(&first, &sets[0]), std::pair(&second, &sets[1])}) {
    *to = std::move(set->sharded);
    for (auto& [name, tensor] : set->tensors) to->emplace(name, std::move(tensor));
  }
  DiffReport report;
  for (const auto& [name, a] : sets[0]) {
    DiffRow row;
    row.name = name;
    row.a = TypeOf(a);
    const auto other = sets[1].find(name);
    if (other == sets[1].end()) {
      row.kind = DiffRow::kOnlyInA;
      report.rows.push_back(std::move(row));
      continue;
    }
    ++report.compared;
    const ir::ShardedTensor& b = other->second;
    row.b = TypeOf(b);
    row.elements = a.numel();
    if (a.dtype != b.dtype || a.sizes != b.sizes) {
      row.kind = DiffRow::kType;
    } else {
      if (absl::Status s = CompareValues(a, b, options.tolerance, &row); !s.ok())
        return io::Prefixed(text::StrCat("'", name, "': "), s);
      report.bytes += a.nbytes() + b.nbytes();
      if (row.unequal == 0) {
        ++report.equal;
        continue;
      }
    }
    report.rows.push_back(std::move(row));
  }
  for (const auto& [name, b] : sets[1]) {
    if (sets[0].contains(name)) continue;
    DiffRow row;
    row.name = name;
    row.kind = DiffRow::kOnlyInB;
    row.b = TypeOf(b);
    report.rows.push_back(std::move(row));
  }
  if (absl::Status s = io::InputsUnchanged(); !s.ok()) return s;
  std::sort(report.rows.begin(), report.rows.end(), [](const DiffRow& x, const DiffRow& y) { return x.name < y.name; });
  return report;
}

namespace {

std::string Shown(std::string_view name) { return text::Printable(text::Shortened(name, 400)); }

}  // namespace

std::string ToTable(const DiffReport& report, const DiffOptions& options) {
  std::string out;
  size_t widest = 0;
  for (const DiffRow& r : report.rows) widest = std::max(widest, Shown(r.name).size());
  for (const DiffRow& r : report.rows) {
    const std::string name = Shown(r.name);
    text::StrAppend(&out, name, std::string(widest - name.size() + 2, ' '));
    switch (r.kind) {
      case DiffRow::kOnlyInA:
        text::StrAppend(&out, "only in A  ", r.a);
        break;
      case DiffRow::kOnlyInB:
        text::StrAppend(&out, "only in B  ", r.b);
        break;
      case DiffRow::kType:
        text::StrAppend(&out, r.a, " in A, ", r.b, " in B");
        break;
      case DiffRow::kValues:
        text::StrAppend(&out, r.a, "  ", r.unequal, " of ", r.elements, " differ");
        if (r.unequal > r.one_nan) text::StrAppend(&out, ", by at most ", Number(r.max_abs));
        if (r.one_nan > 0) text::StrAppend(&out, ", ", r.one_nan, " NaN in one only");
        break;
    }
    out += '\n';
  }
  text::StrAppend(&out, report.equal, " of ", report.compared,
                  report.compared == 1 ? " common tensor is equal" : " common tensors are equal");
  if (options.tolerance > 0) text::StrAppend(&out, " within ", Number(options.tolerance));
  const int64_t alone = std::count_if(report.rows.begin(), report.rows.end(), [](const DiffRow& r) {
    return r.kind == DiffRow::kOnlyInA || r.kind == DiffRow::kOnlyInB;
  });
  if (alone > 0) text::StrAppend(&out, ", ", alone, alone == 1 ? " is in one only" : " are in one only");
  return out + "\n";
}

std::string ToJson(const DiffReport& report, const DiffOptions& options) {
  json::Writer j;
  j.BeginObject().Key("version").Int(1).Key("a").String(options.a).Key("b").String(options.b);
  j.Key("tolerance").Double(options.tolerance).Key("equal").Bool(report.rows.empty());
  j.Key("tensors_compared").Int(report.compared).Key("tensors_equal").Int(report.equal).Key("differences").BeginArray();
  for (const DiffRow& r : report.rows) {
    j.BeginObject().Key("name").String(r.name).Key("kind").String(kKinds[r.kind]);
    if (!r.a.empty()) j.Key("a").String(r.a);
    if (!r.b.empty()) j.Key("b").String(r.b);
    if (r.kind == DiffRow::kValues) {
      j.Key("elements").Int(r.elements).Key("unequal").Int(r.unequal).Key("one_nan").Int(r.one_nan).Key("max_abs");
      if (r.unequal > r.one_nan)
        j.Double(r.max_abs);
      else
        j.Null();
    }
    j.EndObject();
  }
  j.EndArray().EndObject();
  return j.Take() + "\n";
}

}  // namespace slipway::weights
