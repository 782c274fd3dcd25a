// See json.h.
#include "base/json.h"

#include <charconv>
#include <cmath>

namespace slipway::json {
namespace {

// Bytes of the UTF-8 sequence at the front of `s`; 0 where there is none.
size_t SequenceLength(std::string_view s) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = at(0);
  const size_t n = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
  if (n == 0 || n > s.size()) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and what lies beyond U+10FFFF.
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) >= 0xa0) || (lead == 0xf0 && at(1) < 0x90) ||
      (lead == 0xf4 && at(1) >= 0x90))
    return 0;
  return n;
}

}  // namespace

void AppendString(std::string* out, std::string_view s) {
  *out += '"';
  while (!s.empty()) {
    const char c = s[0];
    size_t taken = 1;
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (c == '\n') {
      *out += "\\n";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      *out += "\\u00";
      *out += kHex[c >> 4 & 15];
      *out += kHex[c & 15];
    } else if (const size_t n = SequenceLength(s); n > 0) {
      out->append(s.substr(0, n));
      taken = n;
    } else {
      *out += "\xef\xbf\xbd";
    }
    s.remove_prefix(taken);
  }
  *out += '"';
}

Writer& Writer::Key(std::string_view key) {
  Separate();
  AppendString(&out_, key);
  out_ += ':';
  comma_ = false;
  return *this;
}

Writer& Writer::String(std::string_view s) {
  Separate();
  AppendString(&out_, s);
  return *this;
}

Writer& Writer::Int(int64_t v) {
  char buffer[24];
  return Raw({buffer, static_cast<size_t>(std::to_chars(buffer, buffer + sizeof buffer, v).ptr - buffer)});
}

Writer& Writer::Double(double v) {
  if (std::isnan(v)) return String("NaN");
  if (std::isinf(v)) return String(v < 0 ? "-Infinity" : "Infinity");
  char buffer[40];
  std::string_view s(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr - buffer);
  Raw(s);
  if (s.find_first_of(".e") == s.npos) out_ += ".0";
  return *this;
}

Writer& Writer::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

}  // namespace slipway::json
