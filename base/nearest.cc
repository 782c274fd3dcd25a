// Edit distance with swaps of neighbours (optimal string alignment), for names of at most 64 bytes: longer ones are
// near nothing.
#include "base/nearest.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.h"

namespace slipway::text {
namespace {

constexpr size_t kLongest = 64;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Both at most kLongest bytes.
size_t Distance(std::string_view a, std::string_view b) {
  using Row = std::array<uint8_t, kLongest + 1>;
  Row before{}, last{}, row{};
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<uint8_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<uint8_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      int best = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) && Lower(a[i - 2]) == Lower(b[j - 1]))
        best = std::min(best, before[j - 2] + 1);
      row[j] = static_cast<uint8_t>(best);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string_view Nearest(std::string_view name, absl::Span<const std::string_view> candidates) {
  std::string_view nearest;
  if (name.empty() || name.size() > kLongest) return nearest;
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    if (const size_t d = Distance(name, candidate); d < best) {
      best = d;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string Suggestion(std::string_view name, absl::Span<const std::string_view> candidates) {
  if (const std::string_view near = Nearest(name, candidates); !near.empty())
    return StrCat("; did you mean '", near, "'?");
  std::string out;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i == 0)
      out = candidates.size() == 1 ? "; there is " : "; there are ";
    else
      out += i + 1 < candidates.size() ? ", " : " and ";
    out += candidates[i];
  }
  return out;
}

}  // namespace slipway::text
