// Products of integers and the integers of rows: every instruction set that this processor has, to the bit, beside the
// definitions in kernels/isa/int8_gemm.h written out with numbers one by one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/convert.h"
#include "kernels/gemm/packing.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/registry.h"

namespace slipway::kernels {
namespace {

constexpr const char* kNames[] = {"v2", "avx2", "avxvnni", "avx512", "avx512vnni", "amx", "neon", "dotprod", "i8mm"};

template <typename T>
std::vector<T> Panels(const std::vector<T>& rows, DType dtype, int64_t k, int64_t n, Packing packing = Packing::kNr16) {
  std::vector<T> out(static_cast<size_t>(PanelBytes(k, n, dtype, packing)) / sizeof(T));
  PackPanels({rows.data(), dtype, 1, k}, k, n, 0, (n - 1) / kPanel + 1, out.data(), packing);
  return out;
}

struct Case {
  int64_t m, n, k, groups;
};

TEST(Dot, SumsAreExactUnderEveryInstructionSet) {
  std::mt19937 random(1);
  auto integer = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (const char* name : kNames) {
    const Int8GemmMicrokernels* isa = FindInt8Gemm(name);
    if (isa == nullptr) {
      std::printf("not run: %s\n", name);
      continue;
    }
    for (const auto& [m, n, k, groups] : {Case{1, 37, 64, 2},
                                          {1, 16, 4096, 1},
                                          {2, 70, 96, 3},
                                          {3, 16, 37, 1},
                                          {5, 100, 40, 5},
                                          {13, 65, 512, 16},
                                          {7, 130, 6, 1},
                                          {45, 70, 300, 1},
                                          {33, 40, 640, 2},
                                          {20, 50, 288, 3},
                                          {16, 33, 520, 1}})
      for (Packing packing : {Packing::kNr16K4, Packing::kNr16Int4, Packing::kNr16UInt4})
        for (int form = 0; form < 8; ++form) {
          const bool shifted = form & 1, asymmetric = form & 2, extreme = form & 4;
          const bool nibbles = packing != Packing::kNr16K4;
          const int low = packing == Packing::kNr16K4     ? -128
                          : packing == Packing::kNr16Int4 ? -8
                                                          : 0,
                    high = nibbles ? low + 15 : 127;
          std::vector<int8_t> a, q, zero;
          for (int64_t i = 0; i < m * k; ++i) a.push_back(static_cast<int8_t>(extreme ? -128 : integer(-128, 127)));
          for (int64_t i = 0; i < n * k; ++i)
            q.push_back(static_cast<int8_t>(extreme ? (packing == Packing::kNr16K4 ? low : high) : integer(low, high)));
          for (int64_t i = 0; i < n * groups; ++i) zero.push_back(static_cast<int8_t>(integer(-9, 9)));
          std::vector<float> scale, a_scale, bias;
          for (int64_t i = 0; i < n * groups; ++i) scale.push_back(static_cast<float>(integer(1, 64)) / 1024);
          for (int64_t i = 0; i < m; ++i) a_scale.push_back(static_cast<float>(integer(1, 999)) / 777);
          for (int64_t i = 0; i < n; ++i) bias.push_back(static_cast<float>(integer(-99, 99)) / 7);
          std::vector<int32_t> a_zero;
          for (int64_t i = 0; i < m; ++i) a_zero.push_back(integer(-128, 127));

          const auto b = Panels(q, DType::kI8, k, n, packing);
          const auto scales = Panels(scale, DType::kF32, groups, n);
          const auto zeros = Panels(zero, DType::kI8, groups, n);
          Int8GemmParams g;
          g.m = m, g.n = n, g.k = k, g.group = k / groups, g.nibbles = nibbles;
          g.b = reinterpret_cast<const uint8_t*>(b.data());
          g.offset = packing == Packing::kNr16K4 ? -128 : packing == Packing::kNr16Int4 ? -8 : 0;
          g.scale = scales.data(), g.zero = shifted ? zeros.data() : nullptr;
          std::vector<uint16_t> narrow;  // the scales are numbers of bf16, too
          for (float s : scales) narrow.push_back(BF16(s).bits);
          if (form % 2 == 1) g.scale = narrow.data(), g.scale_dtype = DType::kBF16;
          g.a_stride = isa->row_bytes(k, nibbles);
          std::vector<char> rows(static_cast<size_t>(m * g.a_stride));
          std::vector<int32_t> sums(static_cast<size_t>(m * groups));
          for (int64_t i = 0; i < m; ++i)
            isa->pack_row(a.data() + i * k, k, g.group, nibbles, rows.data() + i * g.a_stride,
                          sums.data() + i * groups);
          g.a = rows.data(), g.a_sum = sums.data(), g.a_scale = a_scale.data(),
          g.a_zero = asymmetric ? a_zero.data() : nullptr;
          g.bias = bias.data();
          std::vector<int32_t> column_sums(scales.size());
          if (asymmetric && m > 1) {
            isa->column_sums(g, column_sums.data());
            g.column_sums = column_sums.data();
          }
          g.rounded = groups == 1 && form == 0 ? DType::kBF16 : DType::kF32;
          std::vector<float> c(static_cast<size_t>(m * (n + 1)), 7);
          g.c = c.data(), g.c_stride = n + 1;
          isa->gemm(g);
          for (int64_t i = 0; i < m; ++i) {
            ASSERT_EQ(c[static_cast<size_t>(i * (n + 1) + n)], 7);
            for (int64_t j = 0; j < n; ++j) {
              double total = 0, size = 0;
              float exact = 0;
              for (int64_t group = 0; group < groups; ++group) {
                int32_t sum = 0;
                for (int64_t p = group * g.group; p < (group + 1) * g.group; ++p)
                  sum += (a[static_cast<size_t>(i * k + p)] - (asymmetric ? a_zero[static_cast<size_t>(i)] : 0)) *
                         (q[static_cast<size_t>(j * k + p)] -
                          (shifted ? zero[static_cast<size_t>(j * groups + group)] : 0));
                const float s = scale[static_cast<size_t>(j * groups + group)];
                exact = static_cast<float>(sum) * a_scale[static_cast<size_t>(i)];
                if (g.rounded == DType::kBF16) exact = static_cast<float>(BF16(exact));
                exact = exact * s;
                total += static_cast<double>(sum) * static_cast<double>(s),
                    size += std::fabs(static_cast<double>(sum) * static_cast<double>(s));
              }
              const double by = static_cast<double>(a_scale[static_cast<size_t>(i)]),
                           shift = static_cast<double>(bias[static_cast<size_t>(j)]);
              const float got = c[static_cast<size_t>(i * (n + 1) + j)];
              const std::string what = std::string(name) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" +
                                       std::to_string(k) + " packed " + std::to_string(static_cast<int>(packing)) +
                                       " form " + std::to_string(form) + " at " + std::to_string(i) + "," +
                                       std::to_string(j);
              if (groups == 1) {
                ASSERT_EQ(got, exact + bias[static_cast<size_t>(j)]) << what;
              } else {
                ASSERT_NEAR(static_cast<double>(got), total * by + shift, 1e-6 * (size * by + std::fabs(shift)))
                    << what;
              }
            }
          }
        }
  }
}

TEST(Dot, RowsAreQuantizedAlikeUnderEveryInstructionSet) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> range(-3, 3);
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const char* name : kNames) {
    const Int8GemmMicrokernels* isa = FindInt8Gemm(name);
    if (isa == nullptr) continue;
    for (int64_t n : {1, 3, 16, 37, 200}) {
      std::vector<float> x;
      for (int64_t i = 0; i < n; ++i) x.push_back(range(random));
      if (n > 3) x[1] = 0.5f, x[2] = 1.5f, x[3] = -2.5f;
      float least, greatest;
      isa->min_max(x.data(), n, &least, &greatest);
      EXPECT_EQ(least, *std::min_element(x.begin(), x.end()));
      EXPECT_EQ(greatest, *std::max_element(x.begin(), x.end()));
      for (float by : {1.0f, 42.3f, 1e9f}) {
        if (n == 37) x[5] = kInf, x[6] = -kInf, x[7] = kNaN;
        std::vector<int8_t> q(static_cast<size_t>(n));
        isa->quantize(x.data(), n, by, 3, -128, 127, q.data());
        for (int64_t i = 0; i < n; ++i) {
          const float v = std::nearbyint(x[static_cast<size_t>(i)] * by) + 3;
          const int want = std::isnan(v) ? 0 : static_cast<int>(std::clamp(v, -128.0f, 127.0f));
          ASSERT_EQ(q[static_cast<size_t>(i)], want) << name << " " << n << " " << i;
        }
      }
      if (n == 37) {
        isa->min_max(x.data(), n, &least, &greatest);
        EXPECT_TRUE(std::isnan(least) && std::isnan(greatest));
      }
    }
  }
}

struct Split {
  std::vector<int8_t> rows;
  std::vector<int32_t> sums;
  std::vector<float> unit;
  bool whole;
};
Split SplitOf(const Int8GemmMicrokernels& isa, const std::vector<float>& x, int64_t m, int64_t block, int32_t times,
              int slices = 3) {
  const int64_t k = static_cast<int64_t>(x.size()) / m, blocks = (k + block - 1) / block;
  Split s{std::vector<int8_t>(static_cast<size_t>(m * SplitInt8Rows::RowBytes(k, slices))),
          std::vector<int32_t>(static_cast<size_t>(m * blocks * slices)),
          std::vector<float>(static_cast<size_t>(m * blocks)), true};
  for (int64_t i = 0; i < m; ++i)
    s.whole &=
        isa.split_row(x.data() + i * k, k, block, slices, times, s.rows.data() + i * SplitInt8Rows::RowBytes(k, slices),
                      s.sums.data() + i * blocks * slices, s.unit.data() + i * blocks);
  return s;
}

TEST(Dot, DigitsAreWithinTheirBoundUnderEveryInstructionSet) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> range(-1, 1);
  int run = 0;
  for (const char* name : kNames) {
    const Int8GemmMicrokernels* isa = FindInt8Gemm(name);
    if (isa == nullptr || isa->split_row == nullptr) continue;
    ++run;
    for (int64_t k : {1, 7, 16, 32, 100, 256, 1000})
      for (const auto& [block, slices] : {std::pair<int64_t, int>(16, 3), {32, 3}, {128, 3}, {32, 2}, {128, 2}})
        for (float size : {0.0f, 1e-44f, 1e-30f, 0x1.fffffep-1f, 0x1.fdfdfcp0f, 0x1.fdfdfep0f, 1.0f, 3e4f, 1e25f}) {
          std::vector<float> x;
          for (int64_t i = 0; i < k; ++i) x.push_back(size * range(random));
          x[0] = -size;
          const Split s = SplitOf(*isa, x, 1, block, -8, slices);
          ASSERT_TRUE(s.whole) << name << " " << k << " " << size;
          for (int64_t p = 0; p < k; p += block) {
            const int64_t n = std::min(block, k - p);
            double greatest = 0;
            for (int64_t i = p; i < p + n; ++i)
              greatest = std::max(greatest, std::fabs(static_cast<double>(x[static_cast<size_t>(i)])));
            int64_t sums[3] = {};
            for (int64_t i = p; i < p + n; ++i) {
              double value = 0;
              for (int d = slices - 1; d >= 0; --d) {
                const int digit = s.rows[static_cast<size_t>(i / 16 * 16 * slices + d * 16 + i % 16)];
                value = value * 256 + digit, sums[d] += digit;
              }
              value *= static_cast<double>(s.unit[static_cast<size_t>(p / block)]);
              ASSERT_LE(std::fabs(value - static_cast<double>(x[static_cast<size_t>(i)])),
                        std::max(greatest, 0x1p-103) * 1.01 * (slices == 3 ? 0x1p-23 : 0x1p-15))
                  << name << " " << k << " " << size;
            }
            for (int d = 0; d < slices; ++d)
              ASSERT_EQ(s.sums[static_cast<size_t>(p / block * slices + d)], -8 * sums[d]);
          }
        }
    // What has no digits: numbers that are none or too great, and blocks whose numbers lie too far apart.
    constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
    for (float odd : {kInf, -kInf, kNaN, 1e30f, 5e3f}) {
      std::vector<float> x(64, 0.5f);
      x[37] = odd;
      EXPECT_FALSE(SplitOf(*isa, x, 1, 32, 1).whole) << name << " " << odd;
    }
    std::vector<float> x(64, 0.0f);
    x[37] = 5e3f, x[38] = -0.5f;  // zeros are no numbers that bits are lost of
    EXPECT_TRUE(SplitOf(*isa, x, 1, 32, 1).whole) << name;
  }
  if (run == 0) GTEST_SKIP() << "no instruction set of this processor has digits";
}

TEST(Dot, ProductsByDigitsAreThoseOfFloats) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  auto integer = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  int run = 0;
  std::vector<std::vector<float>> first;  // the results of the first instruction set, which are those of all
  for (const char* name : kNames) {
    const Int8GemmMicrokernels* isa = FindInt8Gemm(name);
    if (isa == nullptr || isa->split_int8_gemm == nullptr) continue;
    random.seed(4), normal.reset();
    size_t made = 0;
    for (const auto& [m, n, k, groups] : {Case{1, 37, 64, 2},
                                          {1, 80, 4096, 1},
                                          {2, 70, 96, 3},
                                          {3, 16, 37, 1},
                                          {5, 100, 160, 5},
                                          {13, 65, 512, 16},
                                          {7, 130, 6, 1},
                                          {1, 64, 640, 4}})
      for (Packing packing : {Packing::kNr16K4, Packing::kNr16Int4, Packing::kNr16UInt4})
        for (int form = 0; form < 12; ++form) {
          const int slices = form < 6 ? 3 : 2;
          const bool shifted = form % 3 == 1, added = form % 3 == 2, extreme = form / 3 % 2 == 1,
                     nibbles = packing != Packing::kNr16K4;
          if (added && !nibbles) continue;
          const int low = packing == Packing::kNr16K4     ? -128
                          : packing == Packing::kNr16Int4 ? -8
                                                          : 0,
                    high = nibbles ? low + 15 : 127;
          std::vector<float> a, scale, bias, shift;
          std::vector<int8_t> q, zero;
          for (int64_t i = 0; i < m * k; ++i) a.push_back(extreme ? 0x1.fdfdfcp0f : normal(random));
          for (int64_t i = 0; i < n * k; ++i)
            q.push_back(static_cast<int8_t>(extreme ? (nibbles ? high : low) : integer(low, high)));
          for (int64_t i = 0; i < n * groups; ++i)
            zero.push_back(static_cast<int8_t>(extreme ? 127 : integer(-9, 9))),
                scale.push_back(static_cast<float>(integer(1, 64)) / 1024), shift.push_back(normal(random));
          for (int64_t i = 0; i < n; ++i) bias.push_back(normal(random));
          const auto b = Panels(q, DType::kI8, k, n, packing), zeros = Panels(zero, DType::kI8, groups, n);
          const auto scales = Panels(scale, DType::kF32, groups, n), shifts = Panels(shift, DType::kF32, groups, n);
          SplitInt8GemmParams g;
          QuantizedMatrix& w = g.gemm.b;
          w.n = n, w.k = k, w.q = b.data(), w.nibbles = nibbles, w.group = k / groups, w.scale = scales.data();
          std::vector<uint16_t> narrow;  // the scales are numbers of bf16, too
          for (float s : scales) narrow.push_back(BF16(s).bits);
          if (slices == 2) w.scale = narrow.data(), w.scale_dtype = DType::kBF16;
          w.offset = packing == Packing::kNr16K4 ? -128 : packing == Packing::kNr16Int4 ? -8 : 0;
          if (!nibbles) w.offset += static_cast<float>(isa->split_takes_off);
          if (shifted) w.zero = zeros.data(), w.zero_dtype = DType::kI8;
          if (added) w.zero = shifts.data(), w.adds_zero = true;
          const int64_t block = groups == 1          ? (added ? 64 : 128)
                                : w.group % 128 == 0 ? 128
                                : w.group % 32 == 0  ? 32
                                                     : 16;
          if (groups > 1 && w.group % block != 0) continue;
          const Split s = SplitOf(*isa, a, m, block, shifted ? 1 : static_cast<int32_t>(w.offset), slices);
          ASSERT_TRUE(s.whole);
          g.a = {block, slices, s.rows.data(), s.sums.data(), s.unit.data()};
          std::vector<float> sums, c(static_cast<size_t>(m * (n + 1)), 7);
          for (int64_t i = 0; i < m * groups; ++i) {
            double sum = 0;
            for (int64_t p = 0; p < w.group; ++p) sum += static_cast<double>(a[static_cast<size_t>(i * w.group + p)]);
            sums.push_back(static_cast<float>(sum));
          }
          g.gemm.m = m, g.gemm.c = c.data(), g.gemm.c_stride = n + 1, g.gemm.bias = bias.data(),
          g.gemm.sums = sums.data();
          isa->split_int8_gemm(g);
          for (int64_t i = 0; i < m; ++i) {
            ASSERT_EQ(c[static_cast<size_t>(i * (n + 1) + n)], 7);
            for (int64_t j = 0; j < n; ++j) {
              double want = static_cast<double>(bias[static_cast<size_t>(j)]), size = std::fabs(want), bound = 0;
              for (int64_t p = 0; p < k; ++p) {
                const auto at = static_cast<size_t>(j * groups + p / w.group);
                const double x = static_cast<double>(a[static_cast<size_t>(i * k + p)]),
                             by = static_cast<double>(scale[at]);
                const double weight = (q[static_cast<size_t>(j * k + p)] - (shifted ? zero[at] : 0)) * by +
                                      (added ? static_cast<double>(shift[at]) : 0);
                want += x * weight,
                    size += std::fabs(x * weight) + (added ? std::fabs(x * static_cast<double>(shift[at])) : 0);
                double greatest = 0;
                for (int64_t o = p / block * block; o < std::min(k, (p / block + 1) * block); ++o)
                  greatest = std::max(greatest, std::fabs(static_cast<double>(a[static_cast<size_t>(i * k + o)])));
                bound += greatest * 1.01 * (slices == 3 ? 0x1p-23 : 0x1p-15) *
                         std::fabs(weight - (added ? static_cast<double>(shift[at]) : 0));
              }
              // What digits may differ by, and roundings of f32: a few for each block.
              ASSERT_NEAR(static_cast<double>(c[static_cast<size_t>(i * (n + 1) + j)]), want,
                          bound + size * (static_cast<double>(k / block) + 4) * 0x1p-24)
                  << name << " " << m << "x" << n << "x" << k << " packed " << static_cast<int>(packing) << " form "
                  << form << " at " << i << "," << j;
            }
          }
          if (run == 0)
            first.push_back(c);
          else
            ASSERT_EQ(c, first[made]) << name;
          ++made;
        }
    ++run;
  }
  if (run == 0) GTEST_SKIP() << "no instruction set of this processor has digits";
}

}  // namespace
}  // namespace slipway::kernels
