// Products of matrices and Fourier transforms by their kernels, with Google Benchmark:
//
//   cmake --build build --target bench_kernels && build/bench_kernels [--benchmark_filter=REGEX]
//
// Peak/… is what the processor's multiply-adds reach with vectors of 32 and 64 bytes: beside it the FLOPS of a product
// say how close the loops come (kernels/isa/). Weights are packed, as in a native library. SLIPWAY_ISA caps the
// instruction set, SLIPWAY_NUM_THREADS states threads (1 unless set). On a shared machine run it with
// --benchmark_repetitions and compare the best.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/convert.h"
#include "kernels/gemm/dequant_linear.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packing.h"
#include "kernels/registry.h"

namespace {

using namespace slipway::kernels;
using benchmark::Counter;
using benchmark::State;

const Workers* Threads() {
  static const auto pool = ThreadPool::Make(std::getenv("SLIPWAY_NUM_THREADS") ? DefaultThreads() : 1);
  return pool ? &pool->workers() : nullptr;
}

#if defined(__x86_64__)
// Twelve chains of multiply-add: enough to hide their latency.
#define SLIPWAY_TWELVE                                                                                          \
  "vfmadd231ps %12, %13, %0\n vfmadd231ps %12, %13, %1\n vfmadd231ps %12, %13, %2\n vfmadd231ps %12, %13, %3\n" \
  "vfmadd231ps %12, %13, %4\n vfmadd231ps %12, %13, %5\n vfmadd231ps %12, %13, %6\n vfmadd231ps %12, %13, %7\n" \
  "vfmadd231ps %12, %13, %8\n vfmadd231ps %12, %13, %9\n vfmadd231ps %12, %13, %10\n vfmadd231ps %12, %13, %11"
#define SLIPWAY_PEAK(NAME, BYTES, TARGET, CONSTRAINT)                                                         \
  typedef float NAME##Vec __attribute__((vector_size(BYTES)));                                                \
  __attribute__((target(TARGET), noinline)) void NAME(int64_t n) {                                            \
    NAME##Vec v[14] = {};                                                                                     \
    for (; n > 0; --n)                                                                                        \
      asm volatile(SLIPWAY_TWELVE                                                                             \
                   : "+" CONSTRAINT(v[0]), "+" CONSTRAINT(v[1]), "+" CONSTRAINT(v[2]), "+" CONSTRAINT(v[3]),  \
                     "+" CONSTRAINT(v[4]), "+" CONSTRAINT(v[5]), "+" CONSTRAINT(v[6]), "+" CONSTRAINT(v[7]),  \
                     "+" CONSTRAINT(v[8]), "+" CONSTRAINT(v[9]), "+" CONSTRAINT(v[10]), "+" CONSTRAINT(v[11]) \
                   : CONSTRAINT(v[12]), CONSTRAINT(v[13]));                                                   \
  }
SLIPWAY_PEAK(Peak32, 32, "avx2,fma", "x")
SLIPWAY_PEAK(Peak64, 64, "avx512f", "v")

template <void (*kRun)(int64_t), int kBytes>
void Peak(State& state) {
  constexpr int64_t kRounds = 200000;
  for (auto _ : state) kRun(kRounds);
  state.counters["FLOPS"] =
      Counter(static_cast<double>(kRounds) * 12 * kBytes / 4 * 2, Counter::kIsIterationInvariantRate);
}
#endif

struct Product {
  int64_t m, n, k;
  DType dtype;
  std::vector<char> panels;
  std::vector<float> a, c, bias;
  Scratch scratch;

  Product(int64_t m, int64_t n, int64_t k, DType dtype)
      : m(m), n(n), k(k), dtype(dtype), panels(PanelBytes(k, n, dtype)), a(m * k), c(m * n), bias(n) {
    std::mt19937 random(1);
    std::vector<float> words(k * n);
    std::vector<uint16_t> halves(k * n);
    for (int64_t i = 0; i < k * n; ++i) {
      words[i] = static_cast<float>(random() % 1000) / 500 - 1;
      halves[i] = dtype == DType::kBF16 ? BF16(words[i]).bits : F16(words[i]).bits;
    }
    const void* from = dtype == DType::kF32 ? static_cast<void*>(words.data()) : halves.data();
    PackPanels({from, dtype, 1, k}, k, n, 0, (n - 1) / kPanel + 1, panels.data());
    for (float& x : a) x = static_cast<float>(random() % 1000) / 500 - 1;
  }
  void Run(const Workers* workers) {
    GemmParams g;
    g.m = m, g.n = n, g.k = k;
    g.a = {a.data(), DType::kF32, k, 1};
    g.b = {panels.data(), dtype, k, 0};
    g.packed = true;
    g.c = c.data(), g.c_stride = n;
    g.bias = bias.data();
    GemmF32(g, workers, scratch);
  }
};

void Report(State& state, double flops, double bytes) {
  state.counters["FLOPS"] = Counter(flops, Counter::kIsIterationInvariantRate);
  state.counters["weight"] = Counter(bytes, Counter::kIsIterationInvariantRate, Counter::kIs1024);
  state.SetLabel(BestIsa().name);
}

template <DType kDType>
void Matmul(State& state) {
  Product p(state.range(0), state.range(1), state.range(2), kDType);
  for (auto _ : state) p.Run(Threads());
  Report(state, 2.0 * static_cast<double>(p.m * p.n * p.k), static_cast<double>(p.panels.size()));
}

// A weight of i8, or of halves of a byte, with a scale of f32 for each `group` rows of a column.
template <Packing kPacking>
void QuantMatmul(State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = n, group = state.range(2) != 0 ? state.range(2) : k;
  std::mt19937 random(2);
  std::vector<int8_t> q(k * n);
  for (int8_t& x : q) x = static_cast<int8_t>(kPacking == Packing::kNr16K4 ? random() % 256 - 128 : random() % 16 - 8);
  std::vector<char> panels(PanelBytes(k, n, DType::kI8, kPacking));
  PackPanels({q.data(), DType::kI8, 1, k}, k, n, 0, (n - 1) / kPanel + 1, panels.data(), kPacking);
  const std::vector<float> scale(PanelBytes(k / group, n, DType::kF32) / 4, 0.01f), a(m * k, 0.5f);
  std::vector<float> c(m * n);
  DequantGemmParams g;
  g.b.n = n, g.b.k = k, g.b.q = panels.data(), g.b.nibbles = kPacking != Packing::kNr16K4,
  g.b.offset = kPacking == Packing::kNr16K4 ? -128 : -8, g.b.group = group, g.b.scale = scale.data();
  g.m = m, g.a = a.data(), g.a_stride = k, g.c = c.data(), g.c_stride = n;
  Scratch scratch;
  for (auto _ : state) {
    scratch.Reset();
    DequantGemm(g, Threads(), scratch);
  }
  Report(state, 2.0 * static_cast<double>(m * n * k), static_cast<double>(panels.size() + scale.size() * 4));
}

void Dft(State& state) {
  const int64_t n = state.range(0);
  std::vector<double> x(n), re(n), im(n);
  std::mt19937 random(3);
  for (double& v : x) v = static_cast<double>(random() % 1000) / 500 - 1;
  auto of = [n](std::vector<double>& data) {
    Tensor t;
    t.data = data.data(), t.dtype = DType::kF64, t.rank = 1, t.sizes[0] = n, t.strides[0] = 1;
    return t;
  };
  const Tensor in[] = {of(x)}, out[] = {of(re), of(im)};
  Scratch scratch;
  const Kernel& kernel = *FindKernel("dft");
  for (auto _ : state) {
    scratch.Reset();
    kernel.run({.in = in, .out = out, .compute = DType::kF64, .scratch = &scratch});
  }
}

void Sizes(benchmark::internal::Benchmark* b) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{128, 384, 384},
                                {128, 1536, 384},
                                {128, 384, 1536},
                                {1024, 1024, 1024},
                                {16, 384, 384},
                                {64, 1024, 784},
                                {1, 384, 384},
                                {1, 4096, 4096}})
    b->Args({m, n, k});
}
#if defined(__x86_64__)
const bool kPeaks = [] {
  if (__builtin_cpu_supports("fma")) benchmark::RegisterBenchmark("Peak/32", Peak<Peak32, 32>);
  if (__builtin_cpu_supports("avx512f")) benchmark::RegisterBenchmark("Peak/64", Peak<Peak64, 64>);
  return true;
}();
#endif
BENCHMARK_TEMPLATE(Matmul, DType::kF32)->Apply(Sizes);
BENCHMARK_TEMPLATE(Matmul, DType::kBF16)->Apply(Sizes);
BENCHMARK_TEMPLATE(Matmul, DType::kF16)->Apply(Sizes);
BENCHMARK_TEMPLATE(QuantMatmul, Packing::kNr16K4)->ArgsProduct({{1, 16, 128}, {384, 4096}, {0, 32}});
BENCHMARK_TEMPLATE(QuantMatmul, Packing::kNr16Int4)->ArgsProduct({{1, 16, 128}, {384, 4096}, {32}});
BENCHMARK(Dft)->Arg(4096)->Arg(4093)->Arg(5000)->Arg(100000);

}  // namespace

BENCHMARK_MAIN();
