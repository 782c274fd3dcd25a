// Scratch memory: what the caller provides comes first, frames, slots of parts that run at once, and querying.
#include "kernels/scratch.h"

#include <atomic>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/parallel.h"

namespace slipway::kernels {
namespace {

TEST(Scratch, WhatTheCallerProvidesComesFirst) {
  alignas(64) char given[256];
  Scratch s;
  s.Reset(given, sizeof given);
  EXPECT_EQ(s.Take<char>(100), given);
  EXPECT_EQ(s.Take<char>(64), given + 128);
  char* const own = s.Take<char>(100);  // 64 are left
  EXPECT_TRUE(own < given || own >= given + sizeof given);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(own) % 64, 0u);
  EXPECT_GE(s.own_bytes(), 100);
  const int64_t bytes = s.own_bytes();
  s.Reset(given, sizeof given);
  EXPECT_EQ(s.Take<char>(256), given);
  EXPECT_EQ(s.Take<char>(100), own);  // kept
  EXPECT_EQ(s.own_bytes(), bytes);
  s.Reset();
  EXPECT_EQ(s.Take<char>(1), own);
}

TEST(Scratch, FramesGiveBack) {
  alignas(64) char given[128];
  Scratch s;
  s.Reset(given, sizeof given);
  char *first = nullptr, *big = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Scratch::Frame frame(s);
    char* const a = s.Take<char>(64);
    char* const b = s.Take<char>(1 << 20);
    if (i == 0) first = a, big = b;
    EXPECT_EQ(a, first);
    EXPECT_EQ(b, big);
  }
  EXPECT_EQ(s.own_bytes(), 1 << 20);
}

TEST(Scratch, PartsThatRunAtOnceHaveTheirOwn) {
  const auto pool = ThreadPool::Make(3);
  for (const Workers* workers : {static_cast<const Workers*>(nullptr), pool ? &pool->workers() : nullptr}) {
    auto fill = [&](Scratch& scratch) {
      std::atomic<int> wrong = 0;
      ParallelFor(scratch, workers, 200, 1, [&](int64_t begin, int64_t end, Scratch& own) {
        char* const at = own.Take<char>(1000);
        if (own.querying()) return;
        for (int64_t i = begin; i < end; ++i) {
          std::memset(at, static_cast<int>(i % 100), 1000);
          for (int k = 0; k < 1000; ++k) wrong += at[k] != static_cast<char>(i % 100);
        }
      });
      return wrong.load();
    };
    Scratch counter = Scratch::Counter();
    EXPECT_EQ(fill(counter), 0);
    EXPECT_EQ(counter.counted(), 1024 * (workers != nullptr ? 3 : 1));
    Scratch scratch;
    EXPECT_EQ(fill(scratch), 0);
  }
}

// A caller's pool may run more at once than it said: a part that finds no slot has memory of its own.
TEST(Scratch, MoreThanThereAreSlots) {
  Scratch s;
  ScratchSlots slots(s, nullptr, 5, 100);
  ScratchSlots::Slot a(slots);
  EXPECT_NE(a.Take<char>(100), nullptr);
  EXPECT_EQ(a.own_bytes(), 0);
  ScratchSlots::Slot b(slots);
  EXPECT_NE(b.Take<char>(100), nullptr);
  EXPECT_GE(b.own_bytes(), 100);
}

TEST(Scratch, CountsWhatIsTakenAtATime) {
  Scratch counter = Scratch::Counter();
  counter.Take<float>(1);
  EXPECT_EQ(counter.counted(), 64);
  counter.Take<float>(0);
  counter.Take<float>(-5);
  EXPECT_EQ(counter.counted(), 64);
  for (int i = 0; i < 2; ++i) {
    const Scratch::Frame frame(counter);
    counter.Take<float>(17);
  }
  EXPECT_EQ(counter.counted(), 192);
  counter.Take<float>(16);
  EXPECT_EQ(counter.counted(), 192);
  counter.Take<float>(std::numeric_limits<int64_t>::max() / 2);
  EXPECT_EQ(counter.counted(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(counter.own_bytes(), 0);
}

}  // namespace
}  // namespace slipway::kernels
