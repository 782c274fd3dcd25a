// Best fit over a list of gaps, and the second way for plans where that wastes much: the largest buffers first, each at
// the lowest place where it meets no other that is alive with it.
#include "kernels/executor/arena.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

namespace slipway::kernels {

namespace {

constexpr size_t kMany = 512;  // buffers that are not compared with each other

}  // namespace

int64_t Arena::Place(std::span<const Lifetime> lifetimes, std::span<const int32_t> deaths,
                     std::span<const int64_t> bytes, std::span<int64_t> offsets) {
  rounded_.resize(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > std::numeric_limits<int64_t>::max() - kAlignment) return -1;
    rounded_[i] = (bytes[i] + kAlignment - 1) / kAlignment * kAlignment;
  }
  const int64_t total = PlaceByTime(lifetimes, deaths, offsets);
  if (total < 0 || bytes.size() > kMany) return total;
  // What is alive at once; it fits, since the total does.
  int64_t live = 0, most = 0;
  size_t dead = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    while (dead < deaths.size() && lifetimes[deaths[dead]].last < lifetimes[i].first) live -= rounded_[deaths[dead++]];
    most = std::max(most, live += rounded_[i]);
  }
  if (total - most <= most / 32) return total;
  others_.resize(offsets.size());
  const int64_t other = PlaceBySize(lifetimes, others_);
  if (other < 0 || other >= total) return total;
  std::copy(others_.begin(), others_.end(), offsets.begin());
  return other;
}

int64_t Arena::PlaceBySize(std::span<const Lifetime> lifetimes, std::span<int64_t> offsets) {
  order_.resize(lifetimes.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) { return rounded_[a] > rounded_[b]; });
  placed_.clear();  // by place
  int64_t top = 0;
  for (int32_t i : order_) {
    offsets[i] = 0;
    const int64_t want = rounded_[i];
    if (want == 0) continue;
    // The smallest gap between those that live at the same time, or behind them.
    int64_t at = 0, best = -1, least = std::numeric_limits<int64_t>::max();
    for (int32_t j : placed_) {
      if (lifetimes[j].last < lifetimes[i].first || lifetimes[j].first > lifetimes[i].last) continue;
      if (const int64_t gap = offsets[j] - at; gap >= want && gap < least) best = at, least = gap;
      at = std::max(at, offsets[j] + rounded_[j]);
    }
    offsets[i] = best >= 0 ? best : at;
    int64_t end;
    if (__builtin_add_overflow(offsets[i], want, &end)) return -1;
    top = std::max(top, end);
    placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), i,
                                    [&](int32_t a, int32_t b) { return offsets[a] < offsets[b]; }),
                   i);
  }
  return top;
}

int64_t Arena::PlaceByTime(std::span<const Lifetime> lifetimes, std::span<const int32_t> deaths,
                           std::span<int64_t> offsets) {
  gaps_.clear();
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
    const int64_t want = rounded_[i];
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
