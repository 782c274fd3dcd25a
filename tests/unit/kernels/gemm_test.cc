// Products of matrices by every instruction set that this processor has, beside sums in f64: odd sizes, strides,
// dtypes.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/convert.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packing.h"
#include "kernels/isa/bf16_gemm.h"

namespace slipway::kernels {
namespace {

struct Values {
  std::vector<float> f32;
  std::vector<uint16_t> narrow;
  DType dtype;
  Values(int64_t n, DType t, std::mt19937& random) : f32(n), narrow(n), dtype(t) {
    std::uniform_real_distribution<float> range(-1, 1);
    for (int64_t i = 0; i < n; ++i) {
      f32[i] = range(random);
      if (t == DType::kBF16) {
        const BF16 x(f32[i]);
        narrow[i] = x.bits, f32[i] = x;
      } else if (t == DType::kF16) {
        const F16 x = static_cast<F16>(f32[i]);
        std::memcpy(&narrow[i], &x, 2), f32[i] = static_cast<float>(x);
      }
    }
  }
  const void* data() const { return dtype == DType::kF32 ? static_cast<const void*>(f32.data()) : narrow.data(); }
};

void Check(const Isa& isa, int64_t m, int64_t n, int64_t k, DType a_type, DType b_type, int layout,
           std::mt19937& random) {
  const bool a_turned = layout & 1, b_turned = layout & 2, c_turned = layout & 4, accumulate = layout & 8,
             bias = !accumulate, packed = layout & 16;
  // Rows lie further apart than they are long.
  const int64_t a_step = (a_turned ? m : k) + 3, b_step = (b_turned ? k : n) + 5, c_step = (c_turned ? m : n) + 1;
  const Values a((a_turned ? k : m) * a_step + 1, a_type, random), b((b_turned ? n : k) * b_step + 1, b_type, random);
  std::vector<float> c((c_turned ? n : m) * c_step, 0.5f), add(n);
  for (float& x : add) x = static_cast<float>(random() % 100) / 50;
  GemmParams g;
  g.m = m, g.n = n, g.k = k;
  g.a = {a.data(), a_type, a_turned ? 1 : a_step, a_turned ? a_step : 1};
  g.b = {b.data(), b_type, b_turned ? 1 : b_step, b_turned ? b_step : 1};
  g.c = c.data(), g.c_stride = c_turned ? 1 : c_step, g.c_column_stride = c_turned ? c_step : 1;
  g.bias = bias ? add.data() : nullptr;
  g.accumulate = accumulate;
  const MatrixRef right = g.b;  // as the sums are taken from
  std::vector<char> panels;
  if (packed) {
    panels.resize(static_cast<size_t>(PanelBytes(k, n, b_type)));
    PackPanels(g.b, k, n, 0, (n + kPanel - 1) / kPanel, panels.data());
    std::vector<uint32_t> back(b.f32.size());
    UnpackPanels(panels.data(), b_type, k, n, back.data(), g.b.row, g.b.column);
    const auto* bits = static_cast<const char*>(b.data());
    const int size = ByteSize(b_type);
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = (p * g.b.row + j * g.b.column) * size;
        ASSERT_EQ(std::memcmp(reinterpret_cast<const char*>(back.data()) + at, bits + at, size), 0);
      }
    if (b_type == DType::kF32) {
      std::vector<float> same(panels.size() / sizeof(float), -1);
      isa.gemm.pack(g.b, k, n, same.data());
      EXPECT_EQ(std::memcmp(same.data(), panels.data(), panels.size()), 0);
    }
    g.b = {panels.data(), b_type, k, 0};
    g.packed = true;
  }
  const int64_t floats = isa.gemm.workspace(g);
  constexpr float kFence = 12345;
  Scratch memory;
  float* const scratch = memory.Take<float>(floats + 16);
  std::fill_n(scratch + floats, 16, kFence);
  isa.gemm.run(g, scratch);
  for (int i = 0; i < 16; ++i) ASSERT_EQ(scratch[floats + i], kFence);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double want = accumulate ? 0.5 : add[j], size = std::fabs(want);
      for (int64_t p = 0; p < k; ++p) {
        const double x =
            static_cast<double>(a.f32[i * g.a.row + p * g.a.column]) * b.f32[p * right.row + j * right.column];
        want += x, size += std::fabs(x);
      }
      ASSERT_NEAR(c[i * g.c_stride + j * g.c_column_stride], want, 1e-6 * size + 1e-6)
          << isa.name << " " << m << "x" << n << "x" << k << " layout " << layout << " at " << i << "," << j;
    }
  // What lies between the rows is as it was.
  for (int64_t i = 0; i + 1 < (c_turned ? n : m); ++i) ASSERT_EQ(c[i * c_step + c_step - 1], 0.5f);
}

TEST(Gemm, EveryIsaAgreesWithSumsInDouble) {
  std::mt19937 random(1);
  const int64_t sizes[][3] = {{1, 1, 1},    {1, 130, 37},   {2, 5, 19},   {3, 70, 33},   {4, 16, 16},  {5, 17, 3},
                              {7, 33, 401}, {8, 8, 0},      {13, 31, 50}, {16, 48, 40},  {25, 65, 17}, {64, 70, 34},
                              {97, 5, 90},  {200, 40, 810}, {1, 1030, 9}, {20, 1100, 21}};
  for (const char* name : {"v2", "avx2", "avx512", "neon"}) {
    const Isa* isa = FindIsa(name);
    if (isa == nullptr) {
      std::printf("not run: %s\n", name);
      continue;
    }
    for (const auto& [m, n, k] : sizes)
      for (int layout = 0; layout < 32; ++layout) {
        Check(*isa, m, n, k, DType::kF32, DType::kF32, layout, random);
        if (HasFatalFailure()) return;
        if (m * n * k > 1000000) continue;
        Check(*isa, m, n, k, DType::kF32, DType::kBF16, layout, random);
        Check(*isa, m, n, k, DType::kF16, DType::kF16, layout, random);
        Check(*isa, m, n, k, DType::kBF16, DType::kF32, layout, random);
        if (HasFatalFailure()) return;
      }
  }
}

// Products of bf16 by instructions for sums of two: sums in f32 of exact products, whatever the sizes.
TEST(Gemm, SumsOfTwoProductsOfBF16) {
  const Bf16GemmMicrokernels* bf16 = BestBf16Gemm();
  if (bf16 == nullptr) GTEST_SKIP() << "this processor has no instructions for them";
  std::mt19937 random(5);
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{8, 16, 2}, {13, 70, 64}, {9, 33, 1030}, {37, 129, 2050}})
    for (bool accumulate : {false, true}) {
      const Values a(m * (k + 2), DType::kBF16, random), b(n * k, DType::kBF16, random);
      std::vector<char> panels(static_cast<size_t>(PanelBytes(k, n, DType::kBF16)));
      PackPanels({b.data(), DType::kBF16, 1, k}, k, n, 0, (n - 1) / kPanel + 1, panels.data());
      std::vector<float> c(static_cast<size_t>(m * (n + 1)), 0.5f), bias(static_cast<size_t>(n), 0.25f);
      GemmParams g;
      g.m = m, g.n = n, g.k = k;
      g.a = {a.data(), DType::kBF16, k + 2, 1};
      g.b = {panels.data(), DType::kBF16, k, 0};
      g.packed = true, g.c = c.data(), g.c_stride = n + 1, g.accumulate = accumulate;
      g.bias = accumulate ? nullptr : bias.data();
      ASSERT_TRUE(bf16->supports(g));
      std::vector<float> scratch(static_cast<size_t>(bf16->workspace(g)));
      bf16->run(g, scratch.data());
      for (int64_t i = 0; i < m; ++i) {
        ASSERT_EQ(c[static_cast<size_t>(i * (n + 1) + n)], 0.5f);
        for (int64_t j = 0; j < n; ++j) {
          double sum = accumulate ? 0.5 : 0.25, size = sum;
          for (int64_t p = 0; p < k; ++p) {
            const double term = static_cast<double>(a.f32[static_cast<size_t>(i * (k + 2) + p)]) *
                                static_cast<double>(b.f32[static_cast<size_t>(j * k + p)]);
            sum += term, size += std::fabs(term);
          }
          ASSERT_NEAR(static_cast<double>(c[static_cast<size_t>(i * (n + 1) + j)]), sum, 1e-6 * size + 1e-30)
              << m << "x" << n << "x" << k;
        }
      }
      // Odd k, few rows and other types are not taken.
      GemmParams other = g;
      other.k = 3;
      EXPECT_FALSE(bf16->supports(other));
      other = g, other.m = 2;
      EXPECT_FALSE(bf16->supports(other));
      other = g, other.a.dtype = DType::kF32;
      EXPECT_FALSE(bf16->supports(other));
    }
}

}  // namespace
}  // namespace slipway::kernels
