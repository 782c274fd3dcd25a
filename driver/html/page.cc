// The frame of a page and its data. The data stand in the page as JSON, in which every "<" is written \u003c: nothing
// in them can end the element that they are in. The policy names the digests of the style and the script, so that a
// browser runs nothing else.
#include "driver/html/page.h"

#include "absl/strings/escaping.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/atomic_writer.h"
#include "io/digest.h"

extern "C" {
extern const char slipway_embedded_page_style[];
extern const char slipway_embedded_page_style_end[];
extern const char slipway_embedded_page_script[];
extern const char slipway_embedded_page_script_end[];
}

namespace slipway::driver {
namespace {

std::string_view Between(const char* begin, const char* end) {
  return std::string_view(begin, static_cast<size_t>(end - begin));
}

const char* NameOf(Unit unit) {
  static constexpr const char* kNames[] = {"text", "code",    "count",   "bytes", "operations",
                                           "rate", "seconds", "percent", "number"};
  return kNames[static_cast<int>(unit)];
}

std::string DigestOf(std::string_view text) {
  io::Sha256 sha;
  sha.Update(text);
  const io::Sha256Digest digest = sha.Finish();
  return absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

std::string HtmlEscaped(std::string_view s) {
  std::string out;
  for (char c : s) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      default: out += c;
    }
  }
  return out;
}

void PutHistogram(const weights::Histogram& h, json::Writer& j) {
  j.BeginObject().Key("elements").Int(h.elements).Key("zeros").Int(h.zeros).Key("nan").Int(h.nan);
  j.Key("infinite").Int(h.infinite).Key("min").Double(h.min).Key("max").Double(h.max);
  j.Key("mean").Double(h.mean).Key("deviation").Double(h.deviation);
  j.Key("from").Double(h.from).Key("width").Double(h.width).Key("counts").BeginArray();
  for (int64_t n : h.counts) j.Int(n);
  j.EndArray().EndObject();
}

void PutAxis(std::string_view key, const PageScatter::Axis& axis, json::Writer& j) {
  j.Key(key).BeginObject().Key("label").String(axis.label).Key("unit").String(NameOf(axis.unit));
  j.Key("log").Bool(axis.log).EndObject();
}

}  // namespace

std::string PageText(std::string_view s) { return text::Printable(text::Shortened(s, 400)); }

Page& Page::Fact(std::string_view label, std::string_view text) {
  facts_.emplace_back(label, PageText(text));
  return *this;
}

Page& Page::Note(std::string_view text) {
  notes_.push_back(PageText(text));
  return *this;
}

void Page::Begin(std::string_view type, std::string_view title, std::string_view text) {
  sections_.BeginObject().Key("type").String(type).Key("title").String(PageText(title));
  sections_.Key("text").String(PageText(text));
}

Page& Page::Add(const PageTable& table) {
  return AddSection("table", table.title, table.text, [&](json::Writer& j) {
    j.Key("columns").BeginArray();
    for (const PageTable::Column& c : table.columns)
      j.BeginObject().Key("title").String(c.title).Key("unit").String(NameOf(c.unit)).EndObject();
    j.EndArray().Key("rows").BeginArray();
    for (const auto& row : table.rows) {
      j.BeginArray();
      for (const PageTable::Cell& cell : row) {
        if (const auto* s = std::get_if<std::string>(&cell))
          j.String(PageText(*s));
        else if (const auto* d = std::get_if<double>(&cell))
          j.Double(*d);
        else
          j.Null();
      }
      j.EndArray();
    }
    j.EndArray();
    if (table.histograms.empty()) return;
    j.Key("histograms").BeginArray();
    for (const auto& h : table.histograms) {
      if (h)
        PutHistogram(*h, j);
      else
        j.Null();
    }
    j.EndArray();
  });
}

Page& Page::Add(const PageBars& bars) {
  return AddSection("bars", bars.title, bars.text, [&](json::Writer& j) {
    j.Key("x").String(bars.x).Key("y").String(bars.y).Key("unit").String(NameOf(bars.unit)).Key("log").Bool(bars.log);
    j.Key("series").BeginArray();
    for (const std::string& s : bars.series) j.String(PageText(s));
    j.EndArray().Key("items").BeginArray();
    for (const PageBars::Item& i : bars.items)
      j.BeginArray().String(PageText(i.name)).Double(i.value).Int(i.series).EndArray();
    j.EndArray().Key("lines").BeginArray();
    for (const auto& [name, value] : bars.lines) j.BeginArray().String(PageText(name)).Double(value).EndArray();
    j.EndArray();
  });
}

Page& Page::Add(const PageScatter& scatter) {
  return AddSection("scatter", scatter.title, scatter.text, [&](json::Writer& j) {
    PutAxis("x", scatter.x, j);
    PutAxis("y", scatter.y, j);
    j.Key("series").BeginArray();
    for (const PageScatter::Series& s : scatter.series) {
      j.BeginObject().Key("name").String(PageText(s.name)).Key("points").BeginArray();
      for (const PageScatter::Point& p : s.points) {
        j.BeginArray().Double(p.x).Double(p.y).String(PageText(p.name));
        if (p.area) j.Double(*p.area);
        j.EndArray();
      }
      j.EndArray().EndObject();
    }
    j.EndArray().Key("lines").BeginArray();
    for (const auto& [name, points] : scatter.lines) {
      j.BeginArray().String(PageText(name)).BeginArray();
      for (const auto& [x, y] : points) j.BeginArray().Double(x).Double(y).EndArray();
      j.EndArray().EndArray();
    }
    j.EndArray();
  });
}

Page& Page::Add(const PageTreemap& treemap) {
  return AddSection("treemap", treemap.title, treemap.text, [&](json::Writer& j) {
    j.Key("measures").BeginArray();
    for (const auto& [name, unit] : treemap.measures)
      j.BeginObject().Key("name").String(name).Key("unit").String(NameOf(unit)).EndObject();
    j.EndArray().Key("leaves").BeginArray();
    for (const PageTreemap::Leaf& leaf : treemap.leaves) {
      j.BeginArray().String(PageText(leaf.module)).String(PageText(leaf.name)).Int(leaf.is_operator);
      for (double v : leaf.values) j.Double(v);
      j.EndArray();
    }
    j.EndArray();
  });
}

Page& Page::AddText(std::string_view title, std::string_view text, std::string_view content) {
  return AddSection("text", title, text, [&](json::Writer& j) {
    std::string lines;
    for (std::string_view line : text::Split(content, '\n')) text::StrAppend(&lines, text::Printable(line), "\n");
    while (lines.ends_with("\n\n")) lines.pop_back();
    j.Key("content").String(lines);
  });
}

std::string Page::Take() {
  json::Writer head;
  head.BeginObject().Key("title").String(title_).Key("facts").BeginArray();
  for (const auto& [label, text] : facts_) head.BeginArray().String(label).String(text).EndArray();
  head.EndArray().Key("notes").BeginArray();
  for (const std::string& note : notes_) head.String(note);
  head.EndArray().Key("sections");
  const std::string_view style = Between(slipway_embedded_page_style, slipway_embedded_page_style_end);
  const std::string_view script = Between(slipway_embedded_page_script, slipway_embedded_page_script_end);
  std::string out = text::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'sha256-",
      DigestOf(style), "'; script-src 'sha256-", DigestOf(script), "'; base-uri 'none'; form-action 'none'\">\n",
      "<meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n<title>",
      HtmlEscaped(title_), "</title>\n<style>", style,
      "</style></head>\n<body><main id=\"page\"></main>\n<noscript>A script in this page draws it.</noscript>\n"
      "<script type=\"application/json\" id=\"data\">");
  const auto put = [&out](std::string_view json) {
    for (size_t at; (at = json.find('<')) != json.npos; json.remove_prefix(at + 1))
      text::StrAppend(&out, json.substr(0, at), "\\u003c");
    text::StrAppend(&out, json);
  };
  put(head.text());
  out += '[';
  put(sections_.text());
  out += "]}</script>\n<script>";
  text::StrAppend(&out, script, "</script>\n</body></html>\n");
  return out;
}

absl::Status WritePage(const std::string& path, std::string html) {
  return path.empty() ? absl::OkStatus() : io::WriteFile(path, html);
}

}  // namespace slipway::driver
