// One table-free decoder: the length follows from the first byte, the second byte's bounds exclude what RFC 3629 forbids.
#include "base/utf8.h"

#include <cstdio>

#include <cstdint>

namespace slipway::text {

size_t Utf8Length(std::string_view s) {
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

std::string Printable(std::string_view s) {
  std::string out;
  while (!s.empty()) {
    const size_t n = Utf8Length(s);
    const unsigned char c = s[0];
    const bool control = n == 0 || c < 0x20 || c == 0x7F || (n == 2 && c == 0xC2 && static_cast<unsigned char>(s[1]) < 0xA0);
    if (!control) {
      out += s.substr(0, n);
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else {
      for (unsigned char x : s.substr(0, n == 0 ? 1 : n)) {
        char buffer[8];
        std::snprintf(buffer, sizeof buffer, "\\x%02x", x);
        out += buffer;
      }
    }
    s.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

}  // namespace slipway::text
