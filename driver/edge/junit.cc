// Without times, so that the same models give the same bytes.
#include "driver/edge/junit.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace slipway::driver {
namespace {

// For attributes and text; control characters, which XML has not, are shown as escapes, but for line ends.
std::string XmlEscaped(std::string_view s) {
  std::string out;
  for (std::string_view line : text::Split(s, '\n')) {
    if (line.data() != s.data()) out += "&#10;";
    for (char c : text::Printable(line)) {
      switch (c) {
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '&': out += "&amp;"; break;
        case '"': out += "&quot;"; break;
        default: out += c;
      }
    }
  }
  return out;
}

std::string Element(const TestCase& c) {
  std::string out =
      text::StrCat("    <testcase classname=\"", XmlEscaped(c.group), "\" name=\"", XmlEscaped(c.name), "\"");
  const std::string message = text::StrCat(" message=\"", XmlEscaped(c.message), "\"");
  const std::string type = c.id.empty() ? "" : text::StrCat(" type=\"", XmlEscaped(c.id), "\"");
  if (c.result == TestCase::kPassed && c.text.empty()) return out + "/>\n";
  out += ">\n      ";
  if (c.result == TestCase::kPassed)
    text::StrAppend(&out, "<system-out>", XmlEscaped(c.text), "</system-out>");
  else if (c.result == TestCase::kSkipped)
    text::StrAppend(&out, "<skipped", message, "/>");
  else
    text::StrAppend(&out, c.result == TestCase::kFailed ? "<failure" : "<error", type, message, ">", XmlEscaped(c.text),
                    c.result == TestCase::kFailed ? "</failure>" : "</error>");
  return out + "\n    </testcase>\n";
}

}  // namespace

std::string ToJunit(std::string_view suite, std::vector<TestCase> cases, const Outcome& outcome) {
  const auto failed = [&] {
    return std::any_of(cases.begin(), cases.end(), [](const TestCase& c) { return c.result >= TestCase::kFailed; });
  };
  if (outcome.code != kDone && !failed()) {
    const Diagnostic d = outcome.diagnostics.empty() ? Diagnostic() : outcome.diagnostics.back();
    std::string text;
    for (const Diagnostic& one : outcome.diagnostics) text += ToText(one, false);
    cases.push_back({std::string(suite), std::string(suite), outcome.code == kNo ? TestCase::kFailed : TestCase::kError,
                     d.id, d.cause, std::move(text)});
  }
  const auto count = [&](TestCase::Result r) {
    return std::count_if(cases.begin(), cases.end(), [&](const TestCase& c) { return c.result == r; });
  };
  const std::string counts =
      text::StrCat(" tests=\"", cases.size(), "\" failures=\"", count(TestCase::kFailed), "\" errors=\"",
                   count(TestCase::kError), "\" skipped=\"", count(TestCase::kSkipped), "\">\n");
  std::string out = text::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites", counts,
                                 "  <testsuite name=\"", XmlEscaped(suite), "\"", counts);
  for (const TestCase& c : cases) out += Element(c);
  return out + "  </testsuite>\n</testsuites>\n";
}

}  // namespace slipway::driver
