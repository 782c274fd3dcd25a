// See arena.h.
#include "kernels/arena.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace slipway::kernels {

int64_t Arena::Place(std::span<const Lifetime> lifetimes, std::span<const int32_t> deaths,
                     std::span<const int64_t> bytes, std::span<int64_t> offsets) {
  gaps_.clear();
  rounded_.resize(bytes.size());
  int64_t top = 0;
  size_t dead = 0;
  auto release = [&](int32_t i) {
    const Gap g{offsets[i], rounded_[i]};
    if (g.bytes == 0) return;
    auto next = std::lower_bound(gaps_.begin(), gaps_.end(), g.at, [](const Gap& a, int64_t at) { return a.at < at; });
    const bool joins_next = next != gaps_.end() && g.at + g.bytes == next->at;
    if (next != gaps_.begin() && (next - 1)->at + (next - 1)->bytes == g.at) {
      (next - 1)->bytes += g.bytes + (joins_next ? next->bytes : 0);
      if (joins_next) gaps_.erase(next);
    } else if (joins_next) {
      next->at = g.at;
      next->bytes += g.bytes;
    } else {
      gaps_.insert(next, g);
    }
  };
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    while (dead < deaths.size() && lifetimes[deaths[dead]].last < lifetimes[i].first) release(deaths[dead++]);
    if (bytes[i] > std::numeric_limits<int64_t>::max() - kAlignment) return -1;
    const int64_t want = rounded_[i] = (bytes[i] + kAlignment - 1) / kAlignment * kAlignment;
    offsets[i] = 0;
    if (want == 0) continue;
    auto best = gaps_.end();
    for (auto g = gaps_.begin(); g != gaps_.end(); ++g)
      if (g->bytes >= want && (best == gaps_.end() || g->bytes < best->bytes)) best = g;
    if (best != gaps_.end()) {
      offsets[i] = best->at;
      best->at += want;
      best->bytes -= want;
      if (best->bytes == 0) gaps_.erase(best);
      continue;
    }
    // On top; a gap that reaches the top is part of it.
    int64_t at = top;
    if (!gaps_.empty() && gaps_.back().at + gaps_.back().bytes == top) {
      at = gaps_.back().at;
      gaps_.pop_back();
    }
    if (__builtin_add_overflow(at, want, &top)) return -1;
    offsets[i] = at;
  }
  return top;
}

}  // namespace slipway::kernels
