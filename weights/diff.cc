// Names are joined, and values compared (weights/compare.h) a piece at a time.
#include "weights/diff.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/inputs.h"
#include "io/io_error.h"
#include "ir/sharded.h"
#include "weights/cast.h"
#include "weights/compare.h"

namespace slipway::weights {
namespace {

std::string TypeOf(const ir::ShardedTensor& t) {
  return text::StrCat(ir::Name(t.dtype), "[", text::Join(t.sizes, ","), "]");
}

// The type that elements of both are compared in: their own, or of two floating-point types the narrower one, so that a
// tensor and its rounded copy are equal; of f16 and bf16, which do not hold each other's numbers, f32. kUnknown for
// others.
ir::DType CommonType(ir::DType a, ir::DType b) {
  if (a == b) return a;
  if (!FindCast(a, b) || !FindCast(b, a)) return ir::DType::kUnknown;
  if (ir::BitSize(a) == ir::BitSize(b)) return ir::DType::kFloat32;
  return ir::BitSize(a) < ir::BitSize(b) ? a : b;
}

// A run of elements of one type as another; in `buffer` where that is not the same.
const uint8_t* As(ir::DType to, ir::DType from, absl::Span<const uint8_t> run, int64_t elements, std::string* buffer) {
  if (to == from) return run.data();
  buffer->resize(static_cast<size_t>(elements) * ir::ByteSize(to));
  uint8_t* const out = reinterpret_cast<uint8_t*>(buffer->data());
  FindCast(from, to)(run.data(), out, static_cast<uint64_t>(elements));
  return out;
}

// Of equal sizes; of types with one in common.
absl::Status CompareValues(const ir::ShardedTensor& a, const ir::ShardedTensor& b, double tolerance, DiffRow* row) {
  if (absl::Status s = ir::Validate(a); !s.ok()) return s;
  if (absl::Status s = ir::Validate(b); !s.ok()) return s;
  auto x = ir::ElementReader::Open(a);
  if (!x.ok()) return x.status();
  auto y = ir::ElementReader::Open(b);
  if (!y.ok()) return y.status();
  const ir::DType type = CommonType(a.dtype, b.dtype);
  const bool numbers = ir::IsFloating(type) || ir::IsComplex(type);
  Comparison comparison(type, {.atol = numbers ? tolerance : 0});
  // Types below a byte are read as bytes, in steps of whole elements.
  const bool parts = ir::ByteSize(type) == 0;
  int64_t step = std::max(x->step(), y->step());
  if (parts) step = step / 3 * 3;
  std::string cast_a, cast_b;
  for (int64_t done = 0; x->left() > 0;) {
    const absl::Span<const uint8_t> p = x->NextDense(step), q = y->NextDense(step);
    const int64_t bytes = static_cast<int64_t>(p.size());
    const int64_t elements = parts ? std::min(bytes * 8 / ir::BitSize(type), row->elements - done) : bytes / x->item();
    comparison.Add(As(type, a.dtype, p, elements, &cast_a), As(type, b.dtype, q, elements, &cast_b), elements);
    done += elements;
  }
  row->compared_as = type;
  row->unequal = comparison.result().unequal;
  row->one_nan = comparison.result().one_nan;
  row->max_abs = comparison.result().max_abs;
  return absl::OkStatus();
}

const char* const kDifferenceKinds[] = {"only_in_a", "only_in_b", "type", "values"};

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
    if (a.dtype != b.dtype || a.sizes != b.sizes) row.kind = DiffRow::kType;
    if (a.sizes == b.sizes && CommonType(a.dtype, b.dtype) != ir::DType::kUnknown) {
      if (absl::Status s = CompareValues(a, b, options.tolerance, &row); !s.ok())
        return io::Prefixed(text::StrCat("'", name, "': "), s);
      report.bytes += a.nbytes() + b.nbytes();
      if (row.unequal == 0 && (row.kind != DiffRow::kType || options.by_value)) {
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

std::string ValuesText(const DiffRow& r) {
  std::string out = text::StrCat(r.unequal, " of ", r.elements, " differ");
  if (r.unequal > r.one_nan) text::StrAppend(&out, ", by at most ", Number(r.max_abs));
  if (r.one_nan > 0) text::StrAppend(&out, ", ", r.one_nan, " NaN in one only");
  return out;
}

}  // namespace

std::string ToTable(const DiffReport& report, const DiffOptions& options) {
  std::string out;
  size_t widest = 0;
  for (const DiffRow& r : report.rows) widest = std::max(widest, Shown(r.name).size());
  for (const DiffRow& r : report.rows) {
    const std::string name = Shown(r.name);
    text::StrAppend(&out, name, std::string(widest - name.size() + 2, ' '));
    switch (r.kind) {
      case DiffRow::kOnlyInA: text::StrAppend(&out, "only in A  ", r.a); break;
      case DiffRow::kOnlyInB: text::StrAppend(&out, "only in B  ", r.b); break;
      case DiffRow::kType:
        text::StrAppend(&out, r.a, " in A, ", r.b, " in B");
        if (r.compared_as != ir::DType::kUnknown)
          text::StrAppend(&out, "; as ", ir::Name(r.compared_as), " ", ValuesText(r));
        break;
      case DiffRow::kValues: text::StrAppend(&out, r.a, "  ", ValuesText(r)); break;
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

std::string ToJson(const DiffReport& report, const DiffOptions& options, std::string_view graph) {
  json::Writer j;
  j.BeginObject().Key("version").Int(1).Key("a").String(options.a).Key("b").String(options.b);
  j.Key("tolerance")
      .Double(options.tolerance)
      .Key("equal")
      .Bool(report.rows.empty() && (graph.empty() || graph == "[]"));
  j.Key("tensors_compared").Int(report.compared).Key("tensors_equal").Int(report.equal).Key("differences").BeginArray();
  for (const DiffRow& r : report.rows) {
    j.BeginObject().Key("name").String(r.name).Key("kind").String(kDifferenceKinds[r.kind]);
    if (!r.a.empty()) j.Key("a").String(r.a);
    if (!r.b.empty()) j.Key("b").String(r.b);
    if (r.kind == DiffRow::kType && r.compared_as != ir::DType::kUnknown)
      j.Key("compared_as").String(ir::Name(r.compared_as));
    if (r.compared_as != ir::DType::kUnknown) {
      j.Key("elements").Int(r.elements).Key("unequal").Int(r.unequal).Key("one_nan").Int(r.one_nan).Key("max_abs");
      if (r.unequal > r.one_nan)
        j.Double(r.max_abs);
      else
        j.Null();
    }
    j.EndObject();
  }
  j.EndArray();
  if (!graph.empty()) j.Key("graph").Raw(graph);
  j.EndObject();
  return j.Take() + "\n";
}

}  // namespace slipway::weights
