// Products of matrices against what the processor can do: share of the FMA peak where arithmetic limits, of the read
// bandwidth where memory does. `cmake --build build --target bench_gemm && build/bench_gemm [threads]`. Weights are
// packed, as in a native library. Each number is the least CPU time of many repeats, peak and product in turns and over
// times of one length, so that what a shared machine takes away is taken from both.
#include <time.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "kernels/convert.h"
#include "kernels/gemm_fast.h"
#include "kernels/panels.h"
#include "kernels/quant_linear.h"

namespace {

using namespace slipway::kernels;

double Now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Seconds of one call, of the calling thread's CPU time or of the wall.
template <typename F>
double Time(bool wall, F f) {
  const clockid_t clock = wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
  const double begin = Now(clock);
  f();
  return Now(clock) - begin;
}

#if defined(__x86_64__)
typedef float Vec __attribute__((vector_size(32)));
// Twelve chains of multiply-add: enough to hide their latency.
__attribute__((target("avx2,fma"), noinline)) double Multiplications(int64_t n) {
  Vec x = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f}, y = x * 1e-9f;
  Vec a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  for (; n > 0; --n)
    asm volatile(
        "vfmadd231ps %12, %13, %0\n vfmadd231ps %12, %13, %1\n vfmadd231ps %12, %13, %2\n vfmadd231ps %12, %13, %3\n"
        "vfmadd231ps %12, %13, %4\n vfmadd231ps %12, %13, %5\n vfmadd231ps %12, %13, %6\n vfmadd231ps %12, %13, %7\n"
        "vfmadd231ps %12, %13, %8\n vfmadd231ps %12, %13, %9\n vfmadd231ps %12, %13, %10\n vfmadd231ps %12, %13, %11"
        : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f), "+x"(g), "+x"(h), "+x"(i), "+x"(j), "+x"(k), "+x"(l)
        : "x"(x), "x"(y));
  return 12 * 8 * 2;
}
#endif

// As so many streams as the processor sees each for itself; a product of one row reads four.
template <int kStreams>
__attribute__((target("avx2"), noinline)) void ReadAll(const std::vector<float>& v) {
  const int64_t n = static_cast<int64_t>(v.size()) / kStreams;
  typedef float At __attribute__((vector_size(32), aligned(4), may_alias));
  At s[kStreams] = {};
  for (int64_t i = 0; i + 16 <= n; i += 16)
#pragma GCC unroll 8
    for (int k = 0; k < kStreams; ++k)
      s[k] += *reinterpret_cast<const At*>(&v[k * n + i]) + *reinterpret_cast<const At*>(&v[k * n + i + 8]);
  for (At& x : s) asm volatile("" ::"x"(x));
}

struct Product {
  int64_t m, n, k;
  DType dtype;
  std::vector<char> panels;
  std::vector<float> a, c, bias;

  Product(int64_t m, int64_t n, int64_t k, DType dtype)
      : m(m), n(n), k(k), dtype(dtype), panels(PanelBytes(k, n, dtype)), a(m * k), c(m * n), bias(n) {
    std::mt19937 random(1);
    std::vector<uint32_t> words(k * n);
    std::vector<uint16_t> halves(k * n);
    for (int64_t i = 0; i < k * n; ++i) {
      const float x = static_cast<float>(random() % 1000) / 500 - 1;
      words[i] = std::bit_cast<uint32_t>(x);
      halves[i] = dtype == DType::kBF16 ? BF16(x).bits : std::bit_cast<uint16_t>(static_cast<F16>(x));
    }
    const void* from = dtype == DType::kF32 ? static_cast<void*>(words.data()) : halves.data();
    PackPanels({from, dtype, 1, k}, k, n, 0, (n - 1) / kPanel + 1, panels.data());
    for (float& x : a) x = static_cast<float>(random() % 1000) / 500 - 1;
  }
  void Run(const Workers* workers) {
    GemmCall g;
    g.m = m, g.n = n, g.k = k;
    g.a = {a.data(), DType::kF32, k, 1};
    g.b = {panels.data(), dtype, k, 0};
    g.packed = true;
    g.c = c.data(), g.c_row = n;
    g.bias = bias.data();
    FastGemm(g, workers);
  }
};

// A weight of i8, or of halves of a byte, with a scale of f32 for each `group` rows of a column, beside the same product in f32.
void MeasureIntegers(int64_t m, int64_t n, int64_t k, Packing packing, int64_t group, const Workers* workers, bool wall) {
  Product f32(m, n, k, DType::kF32);
  std::mt19937 random(2);
  std::vector<int8_t> q(k * n);
  for (int8_t& x : q) x = static_cast<int8_t>(random() % (packing == Packing::kPanels ? 256 : 16) - (packing == Packing::kPanels ? 128 : 8));
  std::vector<char> panels(PanelBytes(k, n, DType::kI8, packing));
  PackPanels({q.data(), DType::kI8, 1, k}, k, n, 0, (n - 1) / kPanel + 1, panels.data(), packing);
  const std::vector<float> scale(PanelBytes(k / group, n, DType::kF32) / 4, 0.01f);
  QuantCall g;
  g.b.n = n, g.b.k = k, g.b.q = panels.data(), g.b.nibbles = packing != Packing::kPanels, g.b.group = group, g.b.scale = scale.data();
  g.m = m, g.a = f32.a.data(), g.a_row = k, g.c = f32.c.data(), g.c_row = n, g.bias = f32.bias.data();
  double best = std::numeric_limits<double>::infinity(), wide = best;
  Workspace workspace;
  const double work = 2.0 * static_cast<double>(m * n * k);
  const int inner = std::max(1, static_cast<int>(4e7 / work));
  for (const double end = Now(CLOCK_MONOTONIC) + 1.5; Now(CLOCK_MONOTONIC) < end;) {
    auto least = [&](double& to, auto run) {
      to = std::min(to, Time(wall, [&] {
                      for (int i = 0; i < inner; ++i) run();
                    }) / inner);
    };
    least(best, [&] {
      workspace.Clear();
      FastQuantProduct(g, &workspace, workers);
    });
    least(wide, [&] { f32.Run(workers); });
  }
  const double bytes = static_cast<double>(panels.size() + scale.size() * 4);
  std::printf("%5lld x %5lld x %5lld %s/%-5lld %6.1f us %7.1f GFLOP/s, %5.1f GB/s of weight, %.2f x f32\n", static_cast<long long>(m),
              static_cast<long long>(n), static_cast<long long>(k), packing == Packing::kPanels ? "int8" : "int4", static_cast<long long>(group),
              best * 1e6, work / best * 1e-9, bytes / best * 1e-9, wide / best);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const auto pool = ThreadPool::Make(threads);
  const Workers* workers = pool ? &pool->workers() : nullptr;
  const bool wall = threads > 1;
  std::printf("%s, %d thread(s)\n", BestIsa().name, threads);
  struct {
    int64_t m, n, k;
  } const sizes[] = {{128, 384, 384}, {128, 1536, 384}, {128, 384, 1536}, {1024, 1024, 1024},
                     {16, 384, 384},  {64, 1024, 784},  {1, 384, 384},    {1, 4096, 4096}};
  for (const auto& s : sizes)
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      Product p(s.m, s.n, s.k, dtype);
      double best = std::numeric_limits<double>::infinity(), peak = 0, read = 0;
      const std::vector<float> memory(p.panels.size() / sizeof(float), 1.0f);  // as much as the weight: caches keep as much of it
      const double work = 2.0 * static_cast<double>(s.m * s.n * s.k);
      if (argc > 2 && s.m * s.n * s.k != std::atoll(argv[2])) continue;
      const int64_t rounds = std::max<int64_t>(200000, static_cast<int64_t>(work / 192));  // as long as a product
      int turn = 0;
      const int inner = std::max(1, static_cast<int>(4e7 / work));
      for (const double end = Now(CLOCK_MONOTONIC) + 1.5; Now(CLOCK_MONOTONIC) < end;) {
        best = std::min(best, Time(wall, [&] {
                                for (int i = 0; i < inner; ++i) p.Run(workers);
                              }) / inner);
        double flops = 0;
        const double t = Time(false, [&] { flops = static_cast<double>(rounds) * Multiplications(rounds); });
        peak = std::max(peak, flops / t);
        if (s.m == 1 && s.n > 1000) {
          // One a turn: like the product it finds the caches full of the other's bytes.
          void (*const readers[])(const std::vector<float>&) = {ReadAll<1>, ReadAll<2>, ReadAll<4>, ReadAll<8>};
          const double r = Time(false, [&] { readers[turn++ % 4](memory); });
          read = std::max(read, static_cast<double>(memory.size()) * 4 / r);
        }
      }
      std::printf("%5lld x %5lld x %5lld %-5s %9.1f us %7.1f GFLOP/s %5.1f %% of peak", static_cast<long long>(s.m),
                  static_cast<long long>(s.n), static_cast<long long>(s.k),
                  dtype == DType::kF32   ? "f32"
                  : dtype == DType::kF16 ? "f16"
                                         : "bf16",
                  best * 1e6, work / best * 1e-9, 100 * work / best / peak / threads);
      if (read > 0) {
        const double rate = static_cast<double>(p.panels.size()) / best;
        std::printf(", %5.1f GB/s of weight, %5.1f %% of %.1f GB/s read", rate * 1e-9, 100 * rate / read, read * 1e-9);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  for (int64_t m : {1, 16, 128})
    for (int64_t n : {384, 4096}) {
      if (argc > 2 && m * n * n != std::atoll(argv[2])) continue;
      MeasureIntegers(m, n, n, Packing::kPanels, n, workers, wall);
      MeasureIntegers(m, n, n, Packing::kPanels, 32, workers, wall);
      MeasureIntegers(m, n, n, Packing::kNibbles, 32, workers, wall);
    }
}
