// Escaping is the whole difficulty: names in files may hold any bytes, and the output must be JSON that strict readers
// accept, so bytes that are not UTF-8 are replaced and numbers print in the shortest form that reads back the same.
#include "base/json.h"

#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace slipway::json {
void AppendString(std::string* out, std::string_view s) {
  const auto control = [&](char c) {
    constexpr char kHex[] = "0123456789abcdef";
    *out += "\\u00";
    *out += kHex[c >> 4 & 15];
    *out += kHex[c & 15];
  };
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
      control(c);
    } else if (const size_t n = text::Utf8Length(s); n == 2 && c == '\xc2' && static_cast<uint8_t>(s[1]) < 0xa0) {
      control(s[1]);  // terminals take these as controls, too
      taken = 2;
    } else if (n > 0) {
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
