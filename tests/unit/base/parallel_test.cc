// Loops shared by threads: every task once, from several callers at once, after sleeping, with exceptions, in a fork's
// child; products whose bits do not depend on the number of threads.
#include "kernels/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packing.h"

namespace slipway::kernels {
namespace {

TEST(Parallel, EveryElementOnce) {
  const auto pool = ThreadPool::Make(4);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->workers().threads, 4);
  for (int64_t n : {0, 1, 2, 7, 64, 1000, 12345})
    for (int64_t grain : {1, 3, 64, 100000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      ParallelFor(&pool->workers(), n, grain, [&](int64_t begin, int64_t end) {
        EXPECT_LT(begin, end);
        EXPECT_EQ(begin % grain, 0);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& s : seen) EXPECT_EQ(s, 1);
    }
}

TEST(Parallel, ManyLoopsFromSeveralCallers) {
  const auto pool = ThreadPool::Make(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        if (i % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that threads fall asleep
        int64_t own[8] = {};
        ParallelFor(&pool->workers(), 8, 1, [&](int64_t b, int64_t e) {
          for (; b < e; ++b) own[b] = b;
        });
        for (int64_t x : own) sum += x;
      }
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum, 3 * 2000 * 28);
}

TEST(Parallel, AnExceptionReachesTheCaller) {
  const auto pool = ThreadPool::Make(2);
  const auto loop = [&](bool fails) {
    ParallelFor(&pool->workers(), 4, 1, [&](int64_t, int64_t) {
      if (fails) throw std::runtime_error("x");
    });
  };
  EXPECT_THROW(loop(true), std::runtime_error);
  EXPECT_NO_THROW(loop(false));
}

TEST(Parallel, AForksChildGoesOnAlone) {
  auto pool = ThreadPool::Make(2);
  ParallelFor(&pool->workers(), 4, 1, [](int64_t, int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> n{0};
    ParallelFor(&pool->workers(), 4, 1, [&](int64_t b, int64_t e) { n += static_cast<int>(e - b); });
    pool.reset();
    _exit(n == 4 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Parallel, ProductsAreTheSameBits) {
  const auto pool = ThreadPool::Make(4);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> range(-1, 1);
  struct {
    int64_t m, n, k;
  } const sizes[] = {{1, 517, 300}, {1, 1030, 64},  {2, 400, 130},  {3, 389, 129},  {7, 512, 100}, {8, 259, 333},
                     {9, 300, 77},  {40, 640, 96},  {64, 256, 500}, {130, 200, 70}, {150, 9, 32},  {200, 1, 256},
                     {333, 3, 70},  {193, 65, 410}, {500, 33, 50},  {289, 289, 40}};
  for (const auto& s : sizes)
    for (const bool b_turned : {false, true})
      for (const bool bias : {false, true}) {
        std::vector<float> a(s.m * s.k), b(s.k * s.n), add(s.n), alone(s.m * s.n), together(s.m * s.n);
        for (std::vector<float>* v : {&a, &b, &add})
          for (float& x : *v) x = range(random);
        Scratch scratch;
        GemmParams g;
        g.m = s.m, g.n = s.n, g.k = s.k;
        g.a = {a.data(), DType::kF32, s.k, 1};
        g.b = {b.data(), DType::kF32, b_turned ? 1 : s.n, b_turned ? s.k : 1};
        g.c = alone.data(), g.c_stride = s.n;
        g.bias = bias ? add.data() : nullptr;
        GemmF32(g, nullptr, scratch);
        g.c = together.data();
        GemmF32(g, &pool->workers(), scratch);
        EXPECT_EQ(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)), 0)
            << s.m << " " << s.n << " " << s.k << " " << b_turned << bias;
        std::vector<char> panels(static_cast<size_t>(PanelBytes(s.k, s.n, DType::kF32)));
        PackPanels(g.b, s.k, s.n, 0, (s.n + kPanel - 1) / kPanel, panels.data());
        g.b = {panels.data(), DType::kF32, s.k, 0};
        g.packed = true;
        GemmF32(g, &pool->workers(), scratch);
        g.c = alone.data();
        GemmF32(g, nullptr, scratch);
        EXPECT_EQ(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)), 0)
            << "packed " << s.m << " " << s.n << " " << s.k << " " << b_turned << bias;
      }
}

}  // namespace
}  // namespace slipway::kernels
