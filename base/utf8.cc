// One table-free decoder: the length follows from the first byte, the second byte's bounds exclude what RFC 3629
// forbids.
#include "base/utf8.h"

#include <cstdio>

#include <cstdint>

namespace slipway::text {

size_t Utf8Length(std::string_view s) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = at(0);
  const size_t n = lead < 0x80                   ? 1
                   : lead >= 0xc2 && lead < 0xe0 ? 2
                   : lead >= 0xe0 && lead < 0xf0 ? 3
                   : lead >= 0xf0 && lead < 0xf5 ? 4
                                                 : 0;
  if (n == 0 || n > s.size()) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and what lies beyond U+10FFFF.
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) >= 0xa0) || (lead == 0xf0 && at(1) < 0x90) ||
      (lead == 0xf4 && at(1) >= 0x90))
    return 0;
  return n;
}

namespace {

// Whether the `n` bytes at the front, as Utf8Length() has it, are a character that may be shown: no control character
// of C0 or C1.
bool Shown(std::string_view s, size_t n) {
  const unsigned char c = s[0];
  return n > 0 && c >= 0x20 && c != 0x7F && !(n == 2 && c == 0xC2 && static_cast<unsigned char>(s[1]) < 0xA0);
}

// Whether it is one that orders what follows, or that some programs end lines at: U+061C, U+200E and F, U+2028 … 2E,
// U+2066 … 69.
bool Reorders(std::string_view s, size_t n) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  if (n == 2) return at(0) == 0xd8 && at(1) == 0x9c;
  if (n != 3 || at(0) != 0xe2) return false;
  return at(1) == 0x80 ? at(2) == 0x8e || at(2) == 0x8f || (at(2) >= 0xa8 && at(2) <= 0xae)
                       : at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9;
}

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

bool IsUtf8(std::string_view s) {
  for (size_t n; !s.empty(); s.remove_prefix(n))
    if ((n = Utf8Length(s)) == 0) return false;
  return true;
}

bool IsPlain(std::string_view s) {
  while (!s.empty()) {
    const size_t n = Utf8Length(s);
    if (!Shown(s, n)) return false;
    s.remove_prefix(n);
  }
  return true;
}

std::string Shortened(std::string_view s, size_t most) {
  if (s.size() <= most) return std::string(s);
  size_t head = most / 3 * 2, tail = s.size() - most / 3;
  while (head > 0 && Continues(s[head])) --head;
  while (tail < s.size() && Continues(s[tail])) ++tail;
  std::string out(s.substr(0, head));
  out += " … ";
  out += std::to_string(tail - head);
  out += " bytes … ";
  out += s.substr(tail);
  return out;
}

std::string Printable(std::string_view s) {
  std::string out;
  while (!s.empty()) {
    const size_t n = Utf8Length(s);
    const unsigned char c = s[0];
    if (Shown(s, n) && !Reorders(s, n)) {
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

void AppendQuoted(std::string_view s, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  *out += '"';
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    const uint8_t u = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (c == '\n') {
      *out += "\\n";
    } else if (c == '\t') {
      *out += "\\t";
    } else if (u >= 0x20 && u < 0x7f) {
      *out += c;
    } else if (size_t n = u >= 0x80 ? Utf8Length(s.substr(i)) : 0;
               n > 0 && !(u == 0xc2 && n == 2 && static_cast<uint8_t>(s[i + 1]) < 0xa0)) {
      out->append(s, i, n);
      i += n - 1;
    } else {
      *out += "\\x";
      *out += kHex[u >> 4];
      *out += kHex[u & 15];
    }
  }
  *out += '"';
}

std::string Quoted(std::string_view s) {
  std::string out;
  AppendQuoted(s, &out);
  return out;
}

}  // namespace slipway::text
