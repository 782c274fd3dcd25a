// See utf8.h.
#include "base/utf8.h"

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

}  // namespace slipway::text
