// Kernels' memory: what is lent first, frames, shares of parts that run at once, what is needed added up.
#include "kernels/workspace.h"

#include <atomic>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/parallel.h"
#include "kernels/scope.h"

namespace slipway::kernels {
namespace {

TEST(Workspace, WhatIsLentComesFirst) {
  alignas(64) char lent[256];
  Workspace w;
  w.Clear(lent, sizeof lent);
  EXPECT_EQ(w.Take(100), lent);
  EXPECT_EQ(w.Take(64), lent + 128);
  char* const own = w.Take(100);  // 64 are left
  EXPECT_TRUE(own < lent || own >= lent + sizeof lent);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(own) % 64, 0u);
  EXPECT_GE(w.own_bytes(), 100u);
  const size_t bytes = w.own_bytes();
  w.Clear(lent, sizeof lent);
  EXPECT_EQ(w.Take(256), lent);
  EXPECT_EQ(w.Take(100), own);  // kept
  EXPECT_EQ(w.own_bytes(), bytes);
  w.Clear();
  EXPECT_EQ(w.Take(1), own);
}

TEST(Workspace, FramesGiveBack) {
  alignas(64) char lent[128];
  Workspace w;
  w.Clear(lent, sizeof lent);
  char *first = nullptr, *big = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Workspace::Frame frame(w);
    char* const a = w.Take(64);
    char* const b = w.Take(1 << 20);
    if (i == 0) first = a, big = b;
    EXPECT_EQ(a, first);
    EXPECT_EQ(b, big);
  }
  EXPECT_EQ(w.own_bytes(), size_t{1} << 20);
}

TEST(Workspace, SharesOfPartsThatRunAtOnce) {
  const auto pool = ThreadPool::Make(3);
  for (const Workers* workers : {static_cast<const Workers*>(nullptr), pool ? &pool->workers() : nullptr}) {
    Workspace w;
    Shares shares(w, workers, 1000);
    std::atomic<int> wrong = 0;
    ParallelFor(workers, 200, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Share share(shares);
        char* const at = share.Take(1000);
        std::memset(at, static_cast<int>(i % 100), 1000);
        for (int k = 0; k < 1000; ++k) wrong += at[k] != static_cast<char>(i % 100);
        if (share.own_bytes() != 0) ++wrong;
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

// A caller's pool may run more at once than it said: who finds no share has memory of its own.
TEST(Workspace, MoreThanThereAreShares) {
  Workspace w;
  Shares shares(w, nullptr, 100);
  Share a(shares);
  EXPECT_NE(a.Take(100), nullptr);
  EXPECT_EQ(a.own_bytes(), 0u);
  char* again;
  {
    Share b(shares);
    again = b.Take(100);
    EXPECT_NE(again, nullptr);
    EXPECT_GE(b.own_bytes(), 100u);
  }
}

TEST(Workspace, NeedsAddUpAndSaturate) {
  Need need;
  need.Take<float>(1);
  EXPECT_EQ(need.bytes(), 64);
  need.Take<float>(0);
  need.Take<float>(-5);
  EXPECT_EQ(need.bytes(), 64);
  Workers workers;
  workers.threads = 4;
  Need all;
  all.Share(&workers, need, 3);
  EXPECT_EQ(all.bytes(), 192);
  all.Share(&workers, need);
  EXPECT_EQ(all.bytes(), 192 + 256);
  all.Take<float>(std::numeric_limits<int64_t>::max() / 2);
  EXPECT_EQ(all.bytes(), std::numeric_limits<int64_t>::max());
  all.Take(need);
  EXPECT_EQ(all.bytes(), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace slipway::kernels
