// Views of one report: a table and JSON (the page: report_html.cc). The table joins layers of a stack:
// "model.layers.*.mlp.up_proj.weight (32)".
#include "driver/quantize/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "base/byte_count.h"
#include "base/json.h"
#include "base/name_pattern.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/edge/junit.h"

namespace slipway::driver {
namespace {

std::string Formatted(const char* format, double v) {
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, format, v);
  return buffer;
}

// Rows of one line of the table.
struct ModuleLine {
  std::string name;
  const QuantizedRow* first = nullptr;
  int count = 0, measured = 0;
  uint64_t before = 0, after = 0;
  double errors = 0, squares = 0, max = 0;  // ||w - q||², ||w||²
};

std::vector<ModuleLine> Lines(const QuantizeReport& r) {
  std::map<std::tuple<std::string, std::string, std::string>, size_t> places;
  std::vector<ModuleLine> lines;
  for (const QuantizedRow& row : r.rows) {
    const std::string pattern = text::NamePattern(row.name);
    const auto [it, fresh] = places.emplace(std::tuple(pattern, row.config, row.why), lines.size());
    if (fresh) lines.push_back({pattern, &row});
    ModuleLine& line = lines[it->second];
    if (++line.count == 1) line.name = row.name;
    if (line.count == 2) line.name = pattern;
    line.before += row.bytes_before;
    line.after += row.bytes_after;
    line.errors += row.relative_error * row.relative_error * row.squares;
    line.squares += row.squares;
    line.measured += row.measured;
    line.max = std::max(line.max, row.max_error);
  }
  return lines;
}

std::string Padded(std::string s, size_t width) {
  s.resize(std::max(width, s.size()), ' ');
  return s;
}

}  // namespace

int QuantizeReport::quantized() const {
  return static_cast<int>(
      std::count_if(rows.begin(), rows.end(), [](const QuantizedRow& r) { return !r.config.empty(); }));
}
uint64_t QuantizeReport::bytes_before() const {
  uint64_t sum = other_bytes;
  for (const QuantizedRow& r : rows) sum += r.bytes_before;
  return sum;
}
uint64_t QuantizeReport::bytes_after() const {
  uint64_t sum = other_bytes;
  for (const QuantizedRow& r : rows) sum += r.bytes_after;
  return sum;
}
double QuantizeReport::relative_error() const {
  double errors = 0, squares = 0;
  for (const QuantizedRow& r : rows) {
    if (r.config.empty()) continue;
    errors += r.relative_error * r.relative_error * r.squares;
    squares += r.squares;
  }
  return squares > 0 ? std::sqrt(errors / squares) : 0;
}
std::vector<const QuantizedRow*> QuantizeReport::left() const {
  std::vector<const QuantizedRow*> out;
  for (const QuantizedRow& r : rows)
    if (r.asked && r.config.empty()) out.push_back(&r);
  return out;
}

std::string ToTable(const QuantizeReport& r) {
  std::vector<std::vector<std::string>> cells = {
      {"weight", "", "shape", "becomes", "bytes", "to", "rel. error", "max error"}};
  for (const ModuleLine& line : Lines(r)) {
    std::string shape;
    for (int64_t n : line.first->sizes) shape += text::StrCat(shape.empty() ? "" : "x", n);
    const bool left = line.first->config.empty();
    cells.push_back(
        {text::Printable(line.name), line.count > 1 ? text::StrCat("(", line.count, ")") : "",
         text::StrCat(line.first->dtype, " ", shape),
         left ? text::StrCat("stays: ", line.first->why) : line.first->config, text::ByteCount(line.before),
         left ? "" : text::ByteCount(line.after),
         line.measured == 0 ? "" : Formatted("%.2e", line.squares > 0 ? std::sqrt(line.errors / line.squares) : 0),
         line.measured == 0 ? "" : Formatted("%.2e", line.max)});
  }
  std::vector<size_t> widths(cells[0].size());
  for (const auto& row : cells)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : cells) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += Padded(row[i], widths[i]) + (i + 1 < row.size() ? "  " : "");
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  if (r.other_tensors > 0)
    out += text::StrCat(r.other_tensors, " other tensors stay as they are (", text::ByteCount(r.other_bytes), ")\n");
  out += text::StrCat(r.quantized(), " of ", r.rows.size(), " weights quantized, ", text::ByteCount(r.bytes_before()),
                      " -> ", text::ByteCount(r.bytes_after()), " (",
                      Formatted("%.1f", r.bytes_before() > 0 ? 100.0 * static_cast<double>(r.bytes_after()) /
                                                                   static_cast<double>(r.bytes_before())
                                                             : 100.0),
                      " %), relative error ", Formatted("%.2e", r.relative_error()), "\n");
  return out;
}

std::string ToJson(const QuantizeReport& r) {
  json::Writer out;
  out.BeginObject().Key("version").Int(1).Key("weights").BeginArray();
  for (const QuantizedRow& row : r.rows) {
    out.BeginObject().Key("name").String(row.name).Key("dtype").String(row.dtype).Key("shape").BeginArray();
    for (int64_t n : row.sizes) out.Int(n);
    out.EndArray().Key("config");
    row.config.empty() ? out.Null() : out.String(row.config);
    if (row.config.empty()) out.Key("why").String(row.why).Key("asked").Bool(row.asked);
    out.Key("bytes_before")
        .Int(static_cast<int64_t>(row.bytes_before))
        .Key("bytes_after")
        .Int(static_cast<int64_t>(row.bytes_after));
    if (row.measured) out.Key("relative_error").Double(row.relative_error).Key("max_error").Double(row.max_error);
    out.EndObject();
  }
  out.EndArray().Key("quantized").Int(r.quantized()).Key("bytes_before").Int(static_cast<int64_t>(r.bytes_before()));
  out.Key("bytes_after").Int(static_cast<int64_t>(r.bytes_after())).Key("relative_error").Double(r.relative_error());
  if (r.choice.of_outputs) out.Key("output_error").Double(r.choice.output_error);
  out.Key("config").Raw(r.config_json.empty() ? "null" : r.config_json).EndObject();
  return out.Take() + "\n";
}

std::string ToJunit(const QuantizeReport* r, bool required, const Outcome& outcome) {
  std::vector<TestCase> cases;
  for (const QuantizedRow& row : r ? r->rows : std::vector<QuantizedRow>()) {
    if (row.config.empty()) {
      const bool failed = required && row.asked;
      cases.push_back({"float", row.name, failed ? TestCase::kFailed : TestCase::kSkipped,
                       failed ? id::kNotQuantized : "", text::StrCat("stays in float: ", row.why), row.why});
      continue;
    }
    std::string text = text::StrCat(text::ByteCount(row.bytes_before), " -> ", text::ByteCount(row.bytes_after));
    if (row.measured)
      text::StrAppend(&text, ", relative error ", Formatted("%.2e", row.relative_error), ", max error ",
                      Formatted("%.2e", row.max_error));
    cases.push_back({row.config, row.name, TestCase::kPassed, "", "", std::move(text)});
  }
  return ToJunit("slipway quantize", std::move(cases), outcome);
}

}  // namespace slipway::driver
