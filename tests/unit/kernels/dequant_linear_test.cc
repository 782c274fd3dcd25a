// Products with matrices of small integers: every instruction set that this processor has and the kernel that plans
// call, beside sums in f64 of the weights as the definition makes them; and their packed forms.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/convert.h"
#include "kernels/gemm/dequant_linear.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packing.h"
#include "kernels/registry.h"

namespace slipway::kernels {
namespace {

float Rounded(float x, DType t) {
  return t == DType::kBF16  ? static_cast<float>(BF16(x))
         : t == DType::kF16 ? static_cast<float>(static_cast<F16>(x))
                            : x;
}
std::vector<uint16_t> Narrow(const std::vector<float>& v, DType t) {
  std::vector<uint16_t> out(t == DType::kF32 ? 0 : v.size());
  if (out.empty()) return out;
  StoreRow<float>(v.data(), static_cast<int64_t>(v.size()), out.data(), t, 1);
  return out;
}

constexpr int kMiddle = 8;
// A k × n weight, n-major as programs have it.
struct Weight {
  int64_t k, n, groups;
  DType dtype;
  Packing packing;
  std::vector<uint8_t> q;          // [n][k]
  std::vector<float> scale, zero;  // [n][groups]
  DType rounded = DType::kF32, scale_rounded = DType::kF32;
  bool added = false;  // zeros, behind the scale, to integers less kMiddle

  float stored(int64_t p, int64_t j) const {
    const uint8_t x = q[static_cast<size_t>(j * k + p)];
    if (!IsFloat8(dtype)) return static_cast<float>(dtype == DType::kI8 ? static_cast<int8_t>(x) : x);
    float value;
    LoadRow<float>(&x, dtype, 1, 1, dtype, &value);
    return value;
  }
  double at(int64_t p, int64_t j) const {
    const size_t g = static_cast<size_t>(j * groups + p / (k / groups));
    if (added) {
      const float scaled = (stored(p, j) - kMiddle) * Rounded(scale[g], scale_rounded);
      return static_cast<double>(Rounded(Rounded(scaled, rounded) + zero[g], rounded));
    }
    const float w =
        (stored(p, j) - (zero.empty() ? 0 : zero[g])) * (scale.empty() ? 1 : Rounded(scale[g], scale_rounded));
    return static_cast<double>(Rounded(w, rounded));
  }
  std::vector<char> Packed() const {
    std::vector<char> out(static_cast<size_t>(PanelBytes(k, n, dtype, packing)));
    PackPanels({q.data(), dtype, 1, k}, k, n, 0, (n - 1) / kPanel + 1, out.data(), packing);
    return out;
  }
};

Weight Made(int64_t k, int64_t n, int64_t groups, DType dtype, Packing packing, bool scaled, bool shifted,
            std::mt19937& random, bool added = false) {
  Weight w{k, n, groups, dtype, packing};
  w.added = added;
  const int low = packing == Packing::kNr16Int4 ? -8 : packing == Packing::kNr16UInt4 || dtype == DType::kU8 ? 0 : -128;
  for (int64_t i = 0; i < k * n; ++i)
    w.q.push_back(static_cast<uint8_t>(low + static_cast<int>(random() % (packing == Packing::kNr16K4 ? 256 : 16))));
  if (IsFloat8(dtype))  // numbers, of sizes whose sums say something
    for (uint8_t& x : w.q)
      x = static_cast<uint8_t>((x & 0x80) | (x & 0x7f) % (dtype == DType::kF8E4M3FN ? 0x50 : 0x48));
  std::uniform_real_distribution<float> range(0.01f, 0.3f);
  for (int64_t i = 0; i < groups * n && scaled; ++i) w.scale.push_back(range(random));
  // Some groups have none.
  for (int64_t i = 0; i < groups * n && shifted; ++i)
    w.zero.push_back(added ? range(random) * 9 - 1 : i / 40 % 2 == 0 ? 0 : static_cast<float>(random() % 21) - 10);
  return w;
}

std::vector<float> Values(int64_t n, std::mt19937& random) {
  std::uniform_real_distribution<float> range(-1, 1);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = range(random);
  return v;
}

// Sums of what is in `x` as it was rounded, with how large their terms are together.
void ExpectProduct(const Weight& w, int64_t m, const std::vector<float>& x, const std::vector<float>& bias,
                   const std::vector<float>& got, double precision, const std::string& what) {
  std::vector<double> weights;  // [n][k]
  for (int64_t j = 0; j < w.n; ++j)
    for (int64_t p = 0; p < w.k; ++p) weights.push_back(w.at(p, j));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < w.n; ++j) {
      double want = bias.empty() ? 0 : static_cast<double>(bias[static_cast<size_t>(j)]), size = std::fabs(want);
      for (int64_t p = 0; p < w.k; ++p) {
        const double term =
            static_cast<double>(x[static_cast<size_t>(i * w.k + p)]) * weights[static_cast<size_t>(j * w.k + p)];
        want += term, size += std::fabs(term);
      }
      ASSERT_NEAR(static_cast<double>(got[static_cast<size_t>(i * w.n + j)]), want, precision * size + 1e-6)
          << what << " at " << i << "," << j;
    }
}

struct Form {
  DType dtype;
  Packing packing;
  bool scaled, shifted;
  DType rounded = DType::kF32;
  bool added = false;
};
constexpr Form kForms[] = {
    {DType::kI8, Packing::kNr16K4, false, false},
    {DType::kI8, Packing::kNr16K4, true, false},
    {DType::kI8, Packing::kNr16K4, true, true},
    {DType::kU8, Packing::kNr16K4, true, true},
    {DType::kU8, Packing::kNr16K4, false, false},
    {DType::kI8, Packing::kNr16Int4, true, false},
    {DType::kI8, Packing::kNr16Int4, true, true},
    {DType::kI8, Packing::kNr16UInt4, true, true},
    {DType::kU8, Packing::kNr16UInt4, true, false},
    {DType::kI8, Packing::kNr16K4, true, true, DType::kBF16},
    {DType::kI8, Packing::kNr16Int4, true, true, DType::kBF16},
    {DType::kI8, Packing::kNr16Int4, true, false, DType::kF16},
    {DType::kF8E4M3FN, Packing::kNr16K4, true, false},
    {DType::kF8E5M2, Packing::kNr16K4, true, false},
    {DType::kF8E4M3FN, Packing::kNr16K4, true, false, DType::kBF16},
    {DType::kI8, Packing::kNr16UInt4, true, true, DType::kF32, true},
    {DType::kU8, Packing::kNr16K4, true, true, DType::kF32, true},
    {DType::kI8, Packing::kNr16UInt4, true, true, DType::kBF16, true},
    {DType::kI8, Packing::kNr16K4, true, true, DType::kBF16, true},
    {DType::kI8, Packing::kNr16UInt4, true, true, DType::kF16, true},
};
std::string Name(const Form& f) {
  return std::to_string(static_cast<int>(f.dtype)) + " packed " + std::to_string(static_cast<int>(f.packing)) +
         (f.scaled ? " scaled" : "") + (f.shifted ? f.added ? " added" : " shifted" : "") + " rounded " +
         std::to_string(static_cast<int>(f.rounded));
}

TEST(QuantLinear, EveryIsaAgreesWithSumsInDouble) {
  std::mt19937 random(1);
  constexpr int64_t sizes[][4] = {// m, n, k, groups
                                  {1, 200, 128, 4}, {3, 70, 160, 5},  {1, 1, 1, 1},  {1, 130, 64, 2},
                                  {2, 37, 33, 1},   {3, 70, 96, 3},   {4, 16, 8, 1}, {5, 17, 34, 17},
                                  {6, 300, 40, 20}, {13, 50, 640, 20}};
  for (const char* name : {"v2", "avx2", "avx512", "neon"}) {
    const Isa* isa = FindIsa(name);
    if (isa == nullptr) {
      std::printf("not run: %s\n", name);
      continue;
    }
    for (const auto& [m, n, k, groups] : sizes)
      for (const Form& f : kForms) {
        Weight w = Made(k, n, groups, f.dtype, f.packing, f.scaled, f.shifted, random, f.added);
        w.rounded = f.rounded;
        if (!f.scaled) w.groups = 1;
        const std::vector<char> q = w.Packed();
        std::vector<float> scale, zero;
        for (auto [from, to] : {std::pair{&w.scale, &scale}, {&w.zero, &zero}}) {
          if (from->empty()) continue;
          to->resize(static_cast<size_t>(PanelBytes(w.groups, n, DType::kF32)) / 4);
          PackPanels({from->data(), DType::kF32, 1, w.groups}, w.groups, n, 0, (n - 1) / kPanel + 1, to->data());
        }
        DequantGemmParams g;
        g.b.n = n, g.b.k = k, g.b.q = q.data(), g.b.nibbles = f.packing != Packing::kNr16K4, g.b.group = k / w.groups;
        g.b.offset = f.packing == Packing::kNr16Int4                          ? -8
                     : f.packing == Packing::kNr16K4 && f.dtype == DType::kI8 ? -128
                                                                              : 0;
        g.b.scale = scale.empty() ? nullptr : scale.data();
        g.b.zero = zero.empty() ? nullptr : zero.data();
        g.b.rounded = f.rounded;
        g.b.dtype = f.dtype;
        g.b.adds_zero = f.added;
        if (f.added) g.b.offset -= kMiddle;
        const std::string what = std::string(name) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" +
                                 std::to_string(k) + " " + Name(f);

        // Elements themselves, to the bit; a part of the rows, too.
        const int64_t from = k > 8 ? 6 : 0;
        std::vector<float> wide(static_cast<size_t>((k - from) * kPanel));
        for (int64_t j = 0; j < n; j += kPanel) {
          isa->dequant_gemm.dequantize_panel(g.b, from, k - from, j, wide.data());
          for (int64_t p = from; p < k; ++p)
            for (int64_t i = 0; i < kPanel; ++i)
              if (j + i < n) {
                ASSERT_EQ(static_cast<double>(wide[static_cast<size_t>((p - from) * kPanel + i)]), w.at(p, j + i))
                    << what;
              }
        }

        const std::vector<float> a = Values(m * (k + 3), random), bias = Values(n, random);
        std::vector<float> x, c(static_cast<size_t>(m * (n + 1)), 7), got;
        g.m = m, g.a = a.data(), g.a_stride = k + 3, g.c = c.data(), g.c_stride = n + 1, g.bias = bias.data();
        // Which are not the loop's: it goes by units of rows.
        std::vector<float> sums(static_cast<size_t>(m * w.groups));
        for (int64_t i = 0; i < m; ++i)
          for (int64_t p = 0; p < k; ++p)
            sums[static_cast<size_t>(i * w.groups + p / g.b.group)] += a[static_cast<size_t>(i * (k + 3) + p)];
        g.sums = sums.data();
        if (f.rounded == DType::kF16 || (w.groups > 1 && g.b.group % RowsPerWord(g.b) != 0)) continue;
        isa->dequant_gemm.gemm(g);
        for (int64_t i = 0; i < m; ++i) {
          x.insert(x.end(), a.begin() + i * (k + 3), a.begin() + i * (k + 3) + k);
          got.insert(got.end(), c.begin() + i * (n + 1), c.begin() + i * (n + 1) + n);
          ASSERT_EQ(c[static_cast<size_t>(i * (n + 1) + n)], 7);
        }
        ExpectProduct(w, m, x, bias, got, 1e-6, what);
        if (HasFatalFailure()) return;
      }
  }
}

// All numbers of float8, with infinities and NaN.
TEST(QuantLinear, EveryFloat8) {
  for (const char* name : {"v2", "avx2", "avx512", "neon"}) {
    const Isa* isa = FindIsa(name);
    if (isa == nullptr) continue;
    for (DType t : {DType::kF8E4M3FN, DType::kF8E5M2}) {
      std::vector<uint8_t> codes;
      for (int i = 0; i < 256; ++i) codes.push_back(static_cast<uint8_t>(i));
      std::vector<char> packed(static_cast<size_t>(PanelBytes(16, kPanel, t, Packing::kNr16K4)));
      PackPanels({codes.data(), t, 1, 16}, 16, kPanel, 0, 1, packed.data(), Packing::kNr16K4);
      QuantizedMatrix b;
      b.n = kPanel, b.k = 16, b.q = packed.data(), b.dtype = t, b.group = 16;
      float wide[16 * kPanel], want[256];
      isa->dequant_gemm.dequantize_panel(b, 0, 16, 0, wide);
      LoadRow<float>(codes.data(), t, 1, 256, t, want);
      for (int64_t p = 0; p < 16; ++p)
        for (int64_t j = 0; j < kPanel; ++j) {
          const float got = wide[p * kPanel + j], code = want[j * 16 + p];
          if (std::isnan(code))
            EXPECT_TRUE(std::isnan(got)) << name;
          else
            EXPECT_EQ(got, code) << name << " " << j * 16 + p;
        }
    }
  }
}

Tensor Of(const void* data, DType t, std::vector<int64_t> sizes, std::vector<int64_t> strides = {}) {
  Tensor x;
  x.data = const_cast<void*>(data), x.dtype = t, x.rank = static_cast<int>(sizes.size());
  int64_t step = 1;
  for (int d = x.rank - 1; d >= 0; --d) x.sizes[d] = sizes[d], x.strides[d] = step, step *= sizes[d];
  for (size_t d = 0; d < strides.size(); ++d) x.strides[d] = strides[d];
  return x;
}

// Few rows and many, packed and not, of any types; the bits do not depend on the number of threads, or on the packing.
TEST(QuantLinear, TheKernelTakesWhatPlansHave) {
  std::mt19937 random(2);
  const Kernel* kernel = FindKernel("quant_linear");
  ASSERT_NE(kernel, nullptr);
  const std::unique_ptr<ThreadPool> pool = ThreadPool::Make(3);
  constexpr int64_t sizes[][4] = {{1, 400, 96, 3}, {7, 40, 66, 1}, {30, 150, 800, 25},
                                  {65, 33, 45, 3}, {26, 1, 2, 1},  {1, 40, 45, 3}};
  for (const auto& [m, n, k, groups] : sizes)
    for (const Form& f : kForms)
      for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
        Weight w = Made(k, n, groups, f.dtype, f.packing, f.scaled, f.shifted, random, f.added);
        w.rounded = f.rounded, w.scale_rounded = type;
        if (!f.scaled) w.groups = 1, w.scale_rounded = DType::kF32;
        std::vector<float> x = Values(2 * m * k, random), bias = Values(n, random);
        for (float& v : x) v = Rounded(v, type);
        for (float& v : bias) v = Rounded(v, type);
        for (float& v : w.scale) v = type == DType::kBF16 ? v : Rounded(v, type);  // bf16 is to round it
        const std::vector<uint16_t> narrow_x = Narrow(x, type), narrow_bias = Narrow(bias, type),
                                    narrow_scale = Narrow(w.scale, type);
        const bool wide = type == DType::kF32;
        const std::vector<char> q = w.Packed();
        std::vector<int8_t> zero;
        for (float& v : w.zero) v = f.added ? Rounded(v, type) : v, zero.push_back(static_cast<int8_t>(v));
        const std::vector<uint16_t> narrow_zero = Narrow(w.zero, type);
        auto run = [&](bool packed, const Workers* workers, bool exact = true) {
          // x is [2, m, k], its rows further apart where they are not of f32.
          std::vector<Tensor> in = {
              wide ? Of(x.data(), type, {2, m, k}) : Of(narrow_x.data(), type, {m, 2, k}, {k, m * k, 1}),
              Of(w.q.data(), f.dtype, {k, n}, {1, k})};
          if (packed) in[1].data = const_cast<char*>(q.data()), in[1].packed = f.packing;
          std::vector<std::vector<char>> panels;
          auto add = [&](const void* data, DType t) {
            in.push_back(Of(data, t, {w.groups, n}, {1, w.groups}));
            if (!packed) return;
            panels.emplace_back(static_cast<size_t>(PanelBytes(w.groups, n, t)));
            PackPanels({data, t, 1, w.groups}, w.groups, n, 0, (n - 1) / kPanel + 1, panels.back().data());
            in.back().data = panels.back().data(), in.back().packed = Packing::kNr16;
          };
          panels.reserve(2);
          if (f.scaled) type == DType::kF16 ? add(narrow_scale.data(), type) : add(w.scale.data(), DType::kF32);
          if (f.shifted && !f.added) add(zero.data(), DType::kI8);
          if (f.added) wide ? add(w.zero.data(), type) : add(narrow_zero.data(), type);
          in.push_back(wide ? Of(bias.data(), type, {n}) : Of(narrow_bias.data(), type, {n}));
          std::vector<float> out(static_cast<size_t>(2 * m * n));
          std::vector<uint16_t> narrow_out(out.size());
          const Tensor to =
              wide ? Of(out.data(), type, {2, m, n}) : Of(narrow_out.data(), type, {m, 2, n}, {n, m * n, 1});
          const int64_t ints[] = {(f.scaled ? kQuantScale : QuantPart{}) | (f.shifted ? kQuantZero : QuantPart{}) |
                                      kQuantBias | (f.added ? kQuantAddedZero : QuantPart{}),
                                  static_cast<int64_t>(w.rounded), static_cast<int64_t>(w.scale_rounded),
                                  f.added ? kMiddle : 0, exact};
          Scratch scratch;
          Call c{.in = in, .out = {&to, 1}, .ints = ints, .workers = workers, .scratch = &scratch};
          const char* why = kernel->run(c);
          EXPECT_EQ(why, nullptr) << why;
          if (!wide) LoadRow<float>(narrow_out.data(), type, 1, 2 * m * n, type, out.data());
          return out;
        };
        const std::string what = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " + Name(f) +
                                 " of " + std::to_string(static_cast<int>(type));
        const std::vector<float> got = run(true, nullptr);
        ExpectProduct(w, 2 * m, x, bias, got, wide ? 1e-6 : type == DType::kBF16 ? 4e-3 : 6e-4, what);
        ASSERT_EQ(got, run(false, nullptr)) << what;
        if (pool) {
          ASSERT_EQ(got, run(true, &pool->workers())) << what;
        }
        const std::vector<float> relaxed = run(true, nullptr, false);
        if (w.rounded == DType::kF32 && w.scale_rounded == DType::kF32) {
          ASSERT_EQ(got, relaxed) << what;
        }
        ASSERT_EQ(relaxed, run(false, nullptr, false)) << what;
        w.rounded = w.scale_rounded = DType::kF32;
        // Where bf16 instructions take many rows, the rounding stays.
        ExpectProduct(w, 2 * m, x, bias, relaxed, wide ? 4e-3 : type == DType::kBF16 ? 8e-3 : 4e-3, what + " relaxed");
        if (HasFatalFailure()) return;
      }
}

TEST(QuantLinear, OperandsThatDoNotAgreeAreRefused) {
  const Kernel* kernel = FindKernel("quant_linear");
  const std::vector<float> x(12), scale(12);
  const std::vector<int8_t> q(12);
  std::vector<float> y(12);
  auto why = [&](std::vector<Tensor> in, std::vector<int64_t> ints, std::vector<int64_t> out) {
    const Tensor to = Of(y.data(), DType::kF32, std::move(out));
    Call c{.in = in, .out = {&to, 1}, .ints = ints};
    return kernels::Run(*kernel, c) != nullptr;
  };
  const int64_t f32 = static_cast<int64_t>(DType::kF32);
  const Tensor a = Of(x.data(), DType::kF32, {2, 4}), b = Of(q.data(), DType::kI8, {4, 3});
  EXPECT_FALSE(why({a, b}, {0, f32, f32, 0, 1}, {2, 3}));
  EXPECT_TRUE(why({a, b}, {0, f32, f32, 0}, {2, 3}));
  EXPECT_TRUE(why({a, b}, {0, f32, 99, 0, 1}, {2, 3}));
  EXPECT_TRUE(why({a, b}, {0, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({a, b}, {1, f32, f32, 0, 1}, {2, 3}));
  EXPECT_TRUE(why({a, Of(x.data(), DType::kF32, {4, 3})}, {0, f32, f32, 0, 1}, {2, 3}));
  const Tensor scales = Of(scale.data(), DType::kF32, {2, 3});
  EXPECT_FALSE(why({a, b, scales}, {1, f32, f32, 0, 1}, {2, 3}));
  EXPECT_TRUE(why({a, b, Of(scale.data(), DType::kF32, {3, 3})}, {1, f32, f32, 0, 1}, {2, 3}));
  EXPECT_TRUE(why({a, b, Of(scale.data(), DType::kF32, {3})}, {2, f32, f32, 0, 1}, {2, 3}));
  EXPECT_TRUE(why({a, b, Of(scale.data(), DType::kF32, {2})}, {4, f32, f32, 0, 1}, {2, 3}));
  // Zeros that are added are floats, and only they have a middle.
  EXPECT_FALSE(why({a, b, scales, scales}, {11, f32, f32, 8, 1}, {2, 3}));
  EXPECT_TRUE(why({a, b, scales, scales}, {11, f32, f32, 257, 1}, {2, 3}));
  EXPECT_TRUE(why({a, b, scales, scales}, {3, f32, f32, 8, 1}, {2, 3}));
  EXPECT_TRUE(why({a, b, scales}, {9, f32, f32, 8, 1}, {2, 3}));
  EXPECT_TRUE(why({a, b, scales, Of(scale.data(), DType::kI8, {2, 3})}, {11, f32, f32, 8, 1}, {2, 3}));
}

// Rows of the table, packed and not, of any types, in any place: the elements of the matrix to the bit.
TEST(QuantEmbedding, RowsAreThoseOfTheMatrix) {
  std::mt19937 random(4);
  const Kernel* kernel = FindKernel("quant_embedding");
  ASSERT_NE(kernel, nullptr);
  const std::unique_ptr<ThreadPool> pool = ThreadPool::Make(3);
  constexpr int64_t sizes[][3] = {{40, 96, 3}, {66, 40, 1}, {150, 1200, 75}, {33, 45, 3}, {1, 8, 1}};
  for (const auto& [n, k, groups] : sizes)
    for (const Form& f : kForms)
      for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
        if (!f.scaled) continue;
        Weight w = Made(k, n, groups, f.dtype, f.packing, true, f.shifted, random, f.added);
        w.rounded = f.rounded;
        for (float& v : w.scale) v = Rounded(v, type);
        const bool wide = type == DType::kF32;
        const std::vector<uint16_t> narrow_scale = Narrow(w.scale, type);
        const std::vector<char> q = w.Packed();
        std::vector<int8_t> zero;
        for (float& v : w.zero) v = f.added ? Rounded(v, type) : v, zero.push_back(static_cast<int8_t>(v));
        const std::vector<uint16_t> narrow_zero = Narrow(w.zero, type);
        std::vector<int64_t> index;
        for (int64_t i = 0; i < 10; ++i) index.push_back(static_cast<int64_t>(random() % static_cast<unsigned>(n)));
        index[9] = n - 1;
        auto run = [&](bool packed, const Workers* workers) {
          std::vector<Tensor> in = {Of(index.data(), DType::kI64, {5, 2}, {1, 5}),
                                    Of(w.q.data(), f.dtype, {k, n}, {1, k})};
          if (packed) in[1].data = const_cast<char*>(q.data()), in[1].packed = f.packing;
          std::vector<std::vector<char>> panels;
          panels.reserve(2);
          auto add = [&](const void* data, DType t) {
            in.push_back(Of(data, t, {groups, n}, {1, groups}));
            if (!packed) return;
            panels.emplace_back(static_cast<size_t>(PanelBytes(groups, n, t)));
            PackPanels({data, t, 1, groups}, groups, n, 0, (n - 1) / kPanel + 1, panels.back().data());
            in.back().data = panels.back().data(), in.back().packed = Packing::kNr16;
          };
          wide ? add(w.scale.data(), type) : add(narrow_scale.data(), type);
          if (f.shifted && !f.added) add(zero.data(), DType::kI8);
          if (f.added) wide ? add(w.zero.data(), type) : add(narrow_zero.data(), type);
          std::vector<float> out(static_cast<size_t>(10 * k));
          const Tensor to = Of(out.data(), DType::kF32, {5, 2, k});
          const int64_t ints[] = {
              kQuantScale | (f.shifted ? kQuantZero : QuantPart{}) | (f.added ? kQuantAddedZero : QuantPart{}),
              static_cast<int64_t>(w.rounded), static_cast<int64_t>(DType::kF32), f.added ? kMiddle : 0, 1};
          Scratch scratch;
          Call c{.in = in, .out = {&to, 1}, .ints = ints, .workers = workers, .scratch = &scratch};
          const int64_t asked = QueryWorkspace(*kernel, c);
          EXPECT_TRUE(packed ? asked > 0 : asked > k * kPanel) << asked;
          const char* why = kernel->run(c);
          EXPECT_EQ(why, nullptr) << why;
          return out;
        };
        const std::vector<float> got = run(true, nullptr);
        for (int64_t i = 0; i < 10; ++i)
          for (int64_t p = 0; p < k; ++p)
            ASSERT_EQ(static_cast<double>(got[static_cast<size_t>(i * k + p)]),
                      w.at(p, index[static_cast<size_t>(i % 2 * 5 + i / 2)]))
                << Name(f) << " " << n << "x" << k << " row " << i << " element " << p;
        ASSERT_EQ(got, run(false, nullptr)) << Name(f);
        if (pool) {
          ASSERT_EQ(got, run(true, &pool->workers())) << Name(f);
        }
      }
}

TEST(QuantEmbedding, OperandsThatDoNotAgreeAreRefused) {
  const Kernel* kernel = FindKernel("quant_embedding");
  const std::vector<float> scale(12);
  const std::vector<int8_t> q(12);
  std::vector<int64_t> index = {0, 2};
  std::vector<float> y(12);
  auto why = [&](std::vector<Tensor> in, std::vector<int64_t> ints, std::vector<int64_t> out,
                 DType to_type = DType::kF32) {
    const Tensor to = Of(y.data(), to_type, std::move(out));
    Call c{.in = in, .out = {&to, 1}, .ints = ints};
    return kernels::Run(*kernel, c) != nullptr;
  };
  const int64_t f32 = static_cast<int64_t>(DType::kF32);
  const Tensor i = Of(index.data(), DType::kI64, {2}), b = Of(q.data(), DType::kI8, {4, 3}),
               s = Of(scale.data(), DType::kF32, {2, 3});
  EXPECT_FALSE(why({i, b, s}, {1, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, s}, {1, f32, f32, 0}, {2, 4}));
  EXPECT_TRUE(why({i, b, s}, {0, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, s}, {5, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, s}, {16, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, s}, {1, 99, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, s}, {1, f32, f32, 8, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, s}, {1, f32, f32, 0, 1}, {2, 3}));
  EXPECT_TRUE(why({i, b, s}, {1, f32, f32, 0, 1}, {3, 4}));
  EXPECT_TRUE(why({i, b, s}, {1, f32, f32, 0, 1}, {2, 1, 4}));
  EXPECT_TRUE(why({i, b, s}, {1, f32, f32, 0, 1}, {2, 4}, DType::kI64));
  EXPECT_TRUE(why({i, b}, {1, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({b, b, s}, {1, f32, f32, 0, 1}, {4, 4}));
  EXPECT_TRUE(why({i, b, s}, {3, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, Of(scale.data(), DType::kF32, {3, 3})}, {1, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, Of(scale.data(), DType::kF32, {2, 2})}, {1, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, Of(scale.data(), DType::kF32, {0, 3})}, {1, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, Of(scale.data(), DType::kF32, {4, 3}), s}, {1, f32, f32, 0, 1}, {2, 4}));
  EXPECT_TRUE(why({i, b, s, Of(scale.data(), DType::kI8, {2, 3})}, {11, f32, f32, 8, 1}, {2, 4}));
  for (int64_t outside : {int64_t{-1}, int64_t{3}, INT64_MAX, INT64_MIN}) {
    index[1] = outside;
    EXPECT_TRUE(why({i, b, s}, {1, f32, f32, 0, 1}, {2, 4}));
  }
}

TEST(QuantLinear, PackedIntegersComeBack) {
  std::mt19937 random(3);
  for (const Form& f : kForms)
    for (int64_t k : {1, 2, 7, 40})
      for (int64_t n : {1, 16, 37}) {
        const Weight w = Made(k, n, 1, f.dtype, f.packing, false, false, random);
        EXPECT_TRUE(FitsPacking(w.q.data(), f.dtype, k * n, f.packing));
        const std::vector<char> panels = w.Packed();
        std::vector<uint8_t> back(w.q.size());
        UnpackPanels(panels.data(), f.dtype, k, n, back.data(), 1, k, f.packing);
        EXPECT_EQ(back, w.q) << Name(f) << " " << k << "x" << n;
      }
  const int8_t out[] = {-9, 8, 0};
  EXPECT_FALSE(FitsPacking(out, DType::kI8, 1, Packing::kNr16Int4));
  EXPECT_FALSE(FitsPacking(out + 1, DType::kI8, 2, Packing::kNr16Int4));
  EXPECT_TRUE(FitsPacking(out + 1, DType::kI8, 2, Packing::kNr16UInt4));
  EXPECT_FALSE(FitsPacking(out, DType::kU8, 1, Packing::kNr16UInt4));
}

}  // namespace
}  // namespace slipway::kernels
