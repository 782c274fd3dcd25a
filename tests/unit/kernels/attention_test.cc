// Attention by its kernel beside sums in f64: blocks of queries and keys, masks, rows that see nothing, shared heads.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "fenced_scratch.h"
#include "gtest/gtest.h"
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

}  // namespace
}  // namespace slipway::kernels
