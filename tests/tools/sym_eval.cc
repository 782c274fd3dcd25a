// Evaluates symbolic expressions line by line, so that a script can compare the algebra with sympy.
//
// Input:  EXPR <tab> s0=3,u0=-4 [<tab> s0=2:10,u0=-8:]      values, and ranges set before parsing (an end may be empty)
// Output: infix <tab> srepr <tab> value <tab> min:max <tab> round trip
// value is an integer, a bool, a double or "none"; round trip is "same" or says which text did not parse back to the
// same expression. A line that does not parse gives "error: …". A symbol whose name starts with s is assumed positive.
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ir/sym.h"

namespace {

using slipway::ir::Sym;
using slipway::ir::SymRange;
using slipway::ir::SymTable;

std::string EvaluateLine(const std::string& line) {
  const std::vector<std::string> fields = absl::StrSplit(line, '\t');
  SymTable table;
  std::map<std::string, int64_t, std::less<>> values;
  const auto pairs = [&](size_t index) {
    std::vector<std::pair<std::string, std::string>> out;
    if (index >= fields.size()) return out;
    for (absl::string_view item : absl::StrSplit(fields[index], ',', absl::SkipEmpty())) {
      out.push_back(absl::StrSplit(item, absl::MaxSplits('=', 1)));
      table.Symbol(out.back().first, /*positive=*/out.back().first[0] == 's');
    }
    return out;
  };
  for (const auto& [name, value] : pairs(1)) {
    if (!absl::SimpleAtoi(value, &values[name])) return absl::StrCat("error: value ", value);
  }
  for (const auto& [name, ends] : pairs(2)) {
    const std::pair<std::string, std::string> range = absl::StrSplit(ends, absl::MaxSplits(':', 1));
    SymRange r;
    if (!range.first.empty() && !absl::SimpleAtoi(range.first, &r.min)) return "error: range";
    if (!range.second.empty() && !absl::SimpleAtoi(range.second, &r.max)) return "error: range";
    if (auto status = table.SetRange(name, r); !status.ok()) return absl::StrCat("error: ", status.message());
  }
  auto e = table.ParseExpr(fields[0]);
  if (!e.ok()) return absl::StrCat("error: ", e.status().message());

  const auto lookup = [&](std::string_view name) -> std::optional<int64_t> {
    auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional<int64_t>(it->second);
  };
  std::string value = "none";
  if (auto integer = Evaluate(*e, lookup)) {
    value = absl::StrCat(*integer);
  } else if (auto truth = EvaluateBool(*e, lookup)) {
    value = *truth ? "True" : "False";
  } else if (auto real = EvaluateFloat(*e, lookup); real && !e->is_integer_valued()) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.17g", *real);
    value = buffer;
  }
  std::string round_trip;
  for (const std::string& text : {e->ToString(), e->ToSrepr()}) {
    auto again = table.ParseExpr(text);
    if (!again.ok()) absl::StrAppend(&round_trip, "[", text, ": ", again.status().message(), "]");
    if (again.ok() && *again != *e) absl::StrAppend(&round_trip, "[", text, " came back as ", again->ToString(), "]");
  }
  // A table that has seen nothing else must print the same text.
  SymTable fresh;
  for (const auto& info : table.symbols()) {
    fresh.Symbol(info.name, info.positive);
    (void)fresh.SetRange(info.name, info.range);
  }
  auto elsewhere = fresh.ParseExpr(e->ToString());
  if (!elsewhere.ok() || elsewhere->ToString() != e->ToString()) absl::StrAppend(&round_trip, "[fresh table differs]");
  if (round_trip.empty()) round_trip = "same";
  const SymRange range = RangeOf(*e);
  return absl::StrCat(e->ToString(), "\t", e->ToSrepr(), "\t", value, "\t", range.min, ":", range.max, "\t",
                      round_trip);
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << EvaluateLine(line) << "\n";
  return 0;
}
