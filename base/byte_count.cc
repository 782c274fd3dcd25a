#include "base/byte_count.h"

#include <cstdio>

#include "base/text.h"

namespace slipway::text {

std::string ByteCount(uint64_t n) {
  constexpr struct {
    uint64_t from;
    double unit;
    const char* format;
  } kUnits[] = {{10'000'000'000, 1e9, "%.1f GB"}, {10'000'000, 1e6, "%.1f MB"}, {10'000, 1e3, "%.1f kB"}};
  for (const auto& u : kUnits) {
    if (n < u.from) continue;
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, u.format, static_cast<double>(n) / u.unit);
    return buffer;
  }
  return StrCat(n, n == 1 ? " byte" : " bytes");
}

}  // namespace slipway::text
