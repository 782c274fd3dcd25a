// Attention by its kernel beside sums in f64: blocks of queries and keys, masks, rows that see nothing, shared heads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "fenced_scratch.h"
#include "gtest/gtest.h"
#include "kernels/convert.h"
#include "kernels/isa/isa.h"
#include "kernels/registry.h"

namespace slipway::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor Of(void* data, DType t, std::vector<int64_t> sizes) {
  Tensor x;
  x.data = data, x.dtype = t, x.rank = static_cast<int>(sizes.size());
  int64_t step = 1;
  for (int d = x.rank - 1; d >= 0; --d) x.sizes[d] = sizes[d], x.strides[d] = step, step *= sizes[d];
  return x;
}

enum Mask { kNone, kBools, kNumbers, kOneRow, kWindow };  // a window of bools that slides

void Check(int64_t heads, int64_t groups, int64_t queries, int64_t keys, int64_t width, int64_t out_width, Mask kind,
           bool causal) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> range(-2, 2);
  auto values = [&](int64_t n) {
    std::vector<float> v(n);
    for (float& x : v) x = range(random);
    return v;
  };
  std::vector<float> q = values(heads * groups * queries * width), k = values(heads * keys * width),
                     v = values(heads * keys * out_width), numbers = values(queries * keys),
                     out(heads * groups * queries * out_width, -1);
  std::vector<uint8_t> bools(queries * keys);
  for (int64_t i = 0; i < queries * keys; ++i) {
    bools[i] = random() % 3 != 0 && i / keys % 5 != 1;  // some rows see nothing
    if (kind == kWindow) bools[i] = std::abs(i % keys - i / keys * keys / queries) <= 9;
    if (!bools[i]) numbers[i] = -kInf;
  }
  if (kind == kOneRow) numbers[0] = 0;
  std::vector<Tensor> in = {Of(q.data(), DType::kF32, {heads, groups, queries, width}),
                            Of(k.data(), DType::kF32, {heads, groups, keys, width}),
                            Of(v.data(), DType::kF32, {heads, groups, keys, out_width})};
  for (int t : {1, 2}) in[t].strides[0] = in[t].sizes[2] * in[t].sizes[3], in[t].strides[1] = 0;
  if (kind != kNone) {
    Tensor mask = Of(bools.data(), DType::kBool, {heads, groups, queries, keys});
    if (kind != kBools && kind != kWindow) mask.data = numbers.data(), mask.dtype = DType::kF32;
    mask.strides[0] = mask.strides[1] = 0;
    if (kind == kOneRow) mask.strides[2] = 0;
    in.push_back(mask);
  }
  const std::vector<Tensor> results = {Of(out.data(), DType::kF32, {heads, groups, queries, out_width})};
  const int64_t ints[] = {causal};
  const double floats[] = {0.3};
  const Kernel* kernel = FindKernel("attention");
  ASSERT_NE(kernel, nullptr);
  Call call{in, results, DType::kF32, ints, floats};
  FencedScratch memory(QueryWorkspace(*kernel, call));
  call.scratch = &*memory;
  ASSERT_EQ(kernel->run(call), nullptr);
  ASSERT_TRUE(memory.sufficed());
  std::vector<double> weights(keys);
  for (int64_t h = 0; h < heads * groups; ++h)
    for (int64_t i = 0; i < queries; ++i) {
      double most = -kInf, sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double s = 0;
        for (int64_t e = 0; e < width; ++e)
          s += static_cast<double>(q[(h * queries + i) * width + e]) * k[(h / groups * keys + j) * width + e];
        s *= 0.3;
        if (causal && j > i) s = -kInf;
        if ((kind == kBools || kind == kWindow) && !bools[i * keys + j]) s = -kInf;
        if (kind == kNumbers) s += numbers[i * keys + j];
        if (kind == kOneRow) s += numbers[j];
        weights[j] = s;
        most = std::max(most, s);
      }
      for (double& w : weights) sum += w = most == -kInf ? 0 : std::exp(w - most);
      for (int64_t f = 0; f < out_width; ++f) {
        double want = 0;
        for (int64_t j = 0; j < keys; ++j) want += weights[j] * v[(h / groups * keys + j) * out_width + f];
        if (sum != 0) want /= sum;
        ASSERT_NEAR(out[(h * queries + i) * out_width + f], want, 2e-5)
            << queries << "x" << keys << "x" << width << " mask " << kind << " causal " << causal << " head " << h
            << " row " << i;
      }
    }
}

TEST(Attention, AgreesWithSumsInDouble) {
  const int64_t sizes[][6] = {{1, 1, 1, 1, 1, 1},      {2, 3, 5, 7, 4, 6},     {1, 2, 130, 128, 32, 32},
                              {1, 1, 70, 1100, 17, 9}, {2, 2, 1, 600, 16, 16}, {1, 1, 700, 40, 8, 8},
                              {1, 2, 1300, 1030, 5, 8}};  // several groups of blocks of queries
  for (const auto& [heads, groups, queries, keys, width, out_width] : sizes)
    for (Mask mask : {kNone, kBools, kNumbers, kOneRow, kWindow})
      for (bool causal : {false, true}) {
        Check(heads, groups, queries, keys, width, out_width, mask, causal);
        if (HasFatalFailure()) return;
      }
}

// As of a cache that is filled up to a place only: what lies behind it may be anything.
TEST(Attention, KeysThatNoQuerySeesAreNotRead) {
  constexpr int64_t kKeys = 1500, kWidth = 16, kBegin = 520, kEnd = 1100;
  const Kernel* kernel = FindKernel("attention");
  ASSERT_NE(kernel, nullptr);
  for (DType type : {DType::kBool, DType::kF32}) {
    std::vector<float> q(kWidth, 1), k(kKeys * kWidth, std::nanf("")), v = k, numbers(kKeys, -kInf), out(kWidth, -1);
    std::vector<uint8_t> bools(kKeys);
    for (int64_t i = kBegin; i < kEnd; ++i) {
      bools[i] = 1, numbers[i] = 0;
      for (int64_t e = 0; e < kWidth; ++e) k[i * kWidth + e] = 1, v[i * kWidth + e] = static_cast<float>(e);
    }
    const std::vector<Tensor> in = {
        Of(q.data(), DType::kF32, {1, kWidth}), Of(k.data(), DType::kF32, {kKeys, kWidth}),
        Of(v.data(), DType::kF32, {kKeys, kWidth}),
        Of(type == DType::kBool ? static_cast<void*>(bools.data()) : numbers.data(), type, {1, kKeys})};
    const std::vector<Tensor> results = {Of(out.data(), DType::kF32, {1, kWidth})};
    const int64_t ints[] = {0};
    const double floats[] = {0.25};
    Call call{in, results, DType::kF32, ints, floats};
    FencedScratch memory(QueryWorkspace(*kernel, call));
    call.scratch = &*memory;
    ASSERT_EQ(kernel->run(call), nullptr);
    for (int64_t e = 0; e < kWidth; ++e) EXPECT_NEAR(out[e], static_cast<float>(e), 1e-5);
  }
}

TEST(Attention, NoKeysGiveZeros) { Check(1, 1, 3, 0, 4, 4, kNone, false); }

float FromCode(DType t, int8_t code) {
  if (t == DType::kI8) return code;
  float f;
  LoadRow<float>(&code, t, 2, 1, DType::kF32, &f);  // not dense: one by one
  return f;
}

// Keys and values in 8 bits beside the same as floats. They are of a cache with room for more, whose scales say NaN
// where it has nothing.
void CheckCodes(DType codes, int64_t heads, int64_t groups, int64_t queries, int64_t keys, int64_t width,
                int64_t out_width, bool masked, bool causal) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> range(-2, 2);
  const int64_t room = keys + 9;
  struct Cache {
    std::vector<int8_t> codes;
    std::vector<float> scales, floats;
  };
  auto cache = [&](int64_t n) {
    Cache c{std::vector<int8_t>(heads * room * n), std::vector<float>(heads * room, std::nanf("")),
            std::vector<float>(heads * room * n, std::nanf(""))};
    for (int64_t i = 0; i < heads * room; ++i) {
      if (i % room >= keys) continue;
      c.scales[i] = std::abs(range(random)) / (codes == DType::kI8 ? 127 : 448);
      for (int64_t e = 0; e < n; ++e) {
        int8_t& code = c.codes[i * n + e];
        do code = static_cast<int8_t>(random());
        while (std::isnan(FromCode(codes, code)));
        c.floats[i * n + e] = FromCode(codes, code) * c.scales[i];
      }
    }
    return c;
  };
  Cache k = cache(width), v = cache(out_width);
  std::vector<float> q(heads * groups * queries * width), want(heads * groups * queries * out_width, -1), got = want;
  for (float& x : q) x = range(random);
  std::vector<uint8_t> bools(groups * queries * keys);
  for (size_t i = 0; i < bools.size(); ++i) bools[i] = random() % 4 != 0 && i / keys % 5 != 1;
  Tensor mask = Of(bools.data(), DType::kBool, {heads, groups, queries, keys});
  mask.strides[0] = 0;  // each query head has one of its own
  auto of = [&](void* data, DType t, int64_t n) {
    Tensor x = Of(data, t, {heads, groups, keys, n});
    x.strides[0] = room * n, x.strides[1] = 0;
    return x;
  };
  const Tensor query = Of(q.data(), DType::kF32, {heads, groups, queries, width});
  auto run = [&](const char* name, std::vector<Tensor> in, std::vector<float>& to) {
    if (masked) in.push_back(mask);
    const std::vector<Tensor> out = {Of(to.data(), DType::kF32, {heads, groups, queries, out_width})};
    const int64_t ints[] = {causal};
    const double floats[] = {0.3};
    const Kernel* kernel = FindKernel(name);
    ASSERT_NE(kernel, nullptr);
    Call call{in, out, DType::kF32, ints, floats};
    FencedScratch memory(QueryWorkspace(*kernel, call));
    call.scratch = &*memory;
    ASSERT_EQ(kernel->run(call), nullptr);
    ASSERT_TRUE(memory.sufficed());
  };
  run("attention", {query, of(k.floats.data(), DType::kF32, width), of(v.floats.data(), DType::kF32, out_width)}, want);
  run("quant_attention",
      {query, of(k.codes.data(), codes, width), of(v.codes.data(), codes, out_width),
       of(k.scales.data(), DType::kF32, 1), of(v.scales.data(), DType::kF32, 1)},
      got);
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 2e-5) << heads << "x" << groups << "x" << queries << "x" << keys << "x" << width;
}

TEST(Attention, CodesAreTheNumbersThatTheyStandFor) {
  const int64_t sizes[][6] = {{1, 1, 1, 1, 1, 1},     {2, 1, 1, 600, 64, 64},  {2, 3, 1, 1100, 17, 9},
                              {1, 4, 1, 515, 32, 80}, {2, 7, 1, 100, 128, 32}, {1, 16, 1, 600, 24, 16},
                              {2, 2, 5, 90, 16, 33},  {1, 2, 40, 1100, 20, 8}, {1, 1, 3, 0, 4, 4}};
  for (const auto& [heads, groups, queries, keys, width, out_width] : sizes)
    for (DType codes : {DType::kI8, DType::kF8E4M3FN})
      for (bool masked : {false, true})
        for (bool causal : {false, true}) {
          CheckCodes(codes, heads, groups, queries, keys, width, out_width, masked, causal);
          if (HasFatalFailure()) return;
        }
}

TEST(Attention, MalformedCodesAreRefused) {
  std::vector<float> floats(64);
  std::vector<int8_t> codes(64);
  const Kernel* kernel = FindKernel("quant_attention");
  ASSERT_NE(kernel, nullptr);
  auto refused = [&](auto change) {
    std::vector<Tensor> in = {Of(floats.data(), DType::kF32, {1, 4}), Of(codes.data(), DType::kI8, {8, 4}),
                              Of(codes.data(), DType::kI8, {8, 4}), Of(floats.data(), DType::kF32, {8, 1}),
                              Of(floats.data(), DType::kF32, {8, 1})};
    std::vector<float> result(4);
    const std::vector<Tensor> out = {Of(result.data(), DType::kF32, {1, 4})};
    change(in);
    const int64_t ints[] = {0};
    const double numbers[] = {1};
    return kernels::Run(*kernel, Call{in, out, DType::kF32, ints, numbers}) != nullptr;
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& in) { in.pop_back(); }));
  EXPECT_TRUE(refused([](auto& in) { in[1].dtype = DType::kU8; }));
  EXPECT_TRUE(refused([](auto& in) { in[0].dtype = DType::kF8E4M3FN; }));
  EXPECT_TRUE(refused([](auto& in) { in[3].dtype = DType::kI32; }));
  EXPECT_TRUE(refused([](auto& in) { in[3].sizes[0] = 7; }));
  EXPECT_TRUE(refused([](auto& in) { in[4].sizes[1] = 2; }));
  EXPECT_TRUE(refused([](auto& in) { in[2].strides[1] = 2; }));
}

// Of each instruction set of this processor.
TEST(Attention, CodesUnderEachInstructionSet) {
  for (const char* name : {"v2", "avx2", "avx512", "neon"}) {
    const Isa* isa = FindIsa(name);
    if (isa == nullptr) continue;
    for (DType type : {DType::kI8, DType::kF8E4M3FN}) {
      constexpr int64_t kRows = 3, kColumns = 85, kStride = 90;  // all codes, and some again
      std::vector<int8_t> codes(kRows * kStride);
      for (int64_t i = 0; i < kRows * kColumns; ++i)
        codes[i / kColumns * kStride + i % kColumns] = static_cast<int8_t>(i);
      const CodeRows rows = {codes.data(), type, kStride};
      const float scales[kRows] = {1, 0.5f, -2};
      std::vector<float> wide(kRows * kColumns);
      isa->attention.dequantize(rows, scales, kRows, kColumns, wide.data());
      for (int64_t i = 0; i < kRows * kColumns; ++i) {
        const float want = FromCode(type, codes[i / kColumns * kStride + i % kColumns]) * scales[i / kColumns];
        if (std::isnan(want))
          EXPECT_TRUE(std::isnan(wide[i])) << name << " " << i;
        else
          EXPECT_EQ(wide[i], want) << name << " " << i;
      }
      for (int8_t& c : codes)
        if (std::isnan(FromCode(type, c))) c = 1;
      for (int64_t m = 1; m <= 9; ++m) {
        std::vector<float> a(m * kColumns), out(m * kColumns, 1);
        for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
        isa->attention.dots(a.data(), m, rows, kRows, kColumns, out.data());
        for (int64_t i = 0; i < m * kRows; ++i) {
          double want = 0;
          for (int64_t p = 0; p < kColumns; ++p)
            want += a[i / kRows * kColumns + p] * FromCode(type, codes[i % kRows * kStride + p]);
          EXPECT_NEAR(out[i], want, 1e-2) << name << " " << m;
        }
        for (bool accumulate : {false, true}) {
          std::fill(out.begin(), out.end(), 1.0f);
          isa->attention.combine(a.data(), m, rows, kRows, kColumns, accumulate, out.data());
          for (int64_t i = 0; i < m * kColumns; ++i) {
            double want = accumulate ? 1 : 0;
            for (int64_t j = 0; j < kRows; ++j)
              want += a[i / kColumns * kRows + j] * FromCode(type, codes[j * kStride + i % kColumns]);
            EXPECT_NEAR(out[i], want, 1e-3) << name << " " << m;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace slipway::kernels
