// Three views of one report. The table joins layers of a stack: "model.layers.*.mlp.up_proj.weight (32)".
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

std::string Format(const char* format, double v) {
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, format, v);
  return buffer;
}

// Rows of one line of the table.
struct Line {
  std::string name;
  const QuantizedRow* first = nullptr;
  int count = 0, measured = 0;
  uint64_t before = 0, after = 0;
  double errors = 0, squares = 0, max = 0;  // ||w - q||², ||w||²
};

std::vector<Line> Lines(const QuantizeReport& r) {
  std::map<std::tuple<std::string, std::string, std::string>, size_t> places;
  std::vector<Line> lines;
  for (const QuantizedRow& row : r.rows) {
    const std::string pattern = text::NamePattern(row.name);
    const auto [it, fresh] = places.emplace(std::tuple(pattern, row.config, row.why), lines.size());
    if (fresh) lines.push_back({pattern, &row});
    Line& line = lines[it->second];
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

std::string Escaped(std::string_view s) {
  std::string out;
  for (char c : text::Printable(s)) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
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
  for (const Line& line : Lines(r)) {
    std::string shape;
    for (int64_t n : line.first->sizes) shape += text::StrCat(shape.empty() ? "" : "x", n);
    const bool left = line.first->config.empty();
    cells.push_back(
        {text::Printable(line.name), line.count > 1 ? text::StrCat("(", line.count, ")") : "",
         text::StrCat(line.first->dtype, " ", shape),
         left ? text::StrCat("stays: ", line.first->why) : line.first->config, text::ByteCount(line.before),
         left ? "" : text::ByteCount(line.after),
         line.measured == 0 ? "" : Format("%.2e", line.squares > 0 ? std::sqrt(line.errors / line.squares) : 0),
         line.measured == 0 ? "" : Format("%.2e", line.max)});
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
                      Format("%.1f", r.bytes_before() > 0 ? 100.0 * static_cast<double>(r.bytes_after()) /
                                                                static_cast<double>(r.bytes_before())
                                                          : 100.0),
                      " %), relative error ", Format("%.2e", r.relative_error()), "\n");
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
      text::StrAppend(&text, ", relative error ", Format("%.2e", row.relative_error), ", max error ",
                      Format("%.2e", row.max_error));
    cases.push_back({row.config, row.name, TestCase::kPassed, "", "", std::move(text)});
  }
  return ToJunit("slipway quantize", std::move(cases), outcome);
}

std::string ToHtml(const QuantizeReport& r) {
  std::vector<const QuantizedRow*> bars;
  double most = 0;
  for (const QuantizedRow& row : r.rows) {
    if (!row.measured) continue;
    bars.push_back(&row);
    most = std::max(most, row.relative_error);
  }
  // A bar a weight, its height the relative error.
  constexpr int kHeight = 220, kLeft = 60;
  const int width = std::clamp(900 / std::max<int>(1, static_cast<int>(bars.size())), 2, 24);
  std::string svg = text::StrCat("<svg width=\"", kLeft + width * static_cast<int>(bars.size()) + 10, "\" height=\"",
                                 kHeight + 30, "\" role=\"img\" aria-label=\"relative error by weight\">\n");
  for (int i = 0; i <= 4; ++i) {
    const double y = 10 + kHeight * (1 - i / 4.0);
    svg += text::StrCat("<line class=\"grid\" x1=\"", kLeft, "\" x2=\"100%\" y1=\"", y, "\" y2=\"", y, "\"/><text x=\"",
                        kLeft - 6, "\" y=\"", y + 4, "\">", Format("%.1e", most * i / 4), "</text>\n");
  }
  for (size_t i = 0; i < bars.size(); ++i) {
    const double h = most > 0 ? kHeight * bars[i]->relative_error / most : 0;
    svg += text::StrCat("<rect x=\"", kLeft + width * static_cast<int>(i), "\" y=\"", Format("%.1f", 10 + kHeight - h),
                        "\" width=\"", width - 1, "\" height=\"", Format("%.1f", h), "\"><title>",
                        Escaped(bars[i]->name), ": ", Format("%.3e", bars[i]->relative_error), "</title></rect>\n");
  }
  svg += "</svg>\n";
  std::string rows;
  for (const QuantizedRow& row : r.rows) {
    std::string shape;
    for (int64_t n : row.sizes) shape += text::StrCat(shape.empty() ? "" : "×", n);
    const bool left = row.config.empty();
    rows += text::StrCat("<tr", left ? " class=\"left\"" : "", "><td>", Escaped(row.name), "</td><td>", row.dtype, " ",
                         shape, "</td><td>", left ? text::StrCat("stays: ", Escaped(row.why)) : Escaped(row.config),
                         "</td><td>", text::ByteCount(row.bytes_before), "</td><td>",
                         left ? "" : text::ByteCount(row.bytes_after), "</td><td>",
                         row.measured ? Format("%.3e", row.relative_error) : "", "</td><td>",
                         row.measured ? Format("%.3e", row.max_error) : "", "</td></tr>\n");
  }
  return text::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>slipway quantize</title><style>\n"
      "body{font:14px/1.5 system-ui,sans-serif;margin:2em;color:#1c2430;background:#fff}\n"
      "table{border-collapse:collapse}td,th{padding:.2em .9em;border-bottom:1px solid #dde2e8;text-align:left}\n"
      "td:nth-child(n+4){text-align:right;font-variant-numeric:tabular-nums}.left{color:#6b7480}\n"
      "rect{fill:#2f6fb5}rect:hover{fill:#e07b2a}.grid{stroke:#dde2e8}svg "
      "text{font-size:11px;text-anchor:end;fill:#6b7480}\n"
      "</style></head><body>\n<h1>",
      r.quantized(), " of ", r.rows.size(), " weights quantized</h1>\n<p>", text::ByteCount(r.bytes_before()),
      " &rarr; ", text::ByteCount(r.bytes_after()), ", relative error ", Format("%.2e", r.relative_error()),
      "</p>\n<h2>Relative error by weight</h2>\n", svg,
      "<h2>Weights</h2>\n<table><tr><th>weight</th><th>shape</th><th>becomes</th><th>bytes</th><th>to</th><th>rel. "
      "error</th><th>max "
      "error</th></tr>\n",
      rows, "</table>\n</body></html>\n");
}

}  // namespace slipway::driver
