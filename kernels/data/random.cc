// Random numbers. The generator is Philox 4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3"), its key a constant and its counter one of the process, which every number that is drawn moves on by one: the
// first run of a process always draws the same numbers, the next run others. Element i of a result takes the counter's
// value i behind its first, so the numbers do not depend on threads. They are not torch's.
#include <array>
#include <atomic>
#include <cmath>
#include <numbers>

#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

using Block = std::array<uint32_t, 4>;

Block Philox(uint64_t counter) {
  constexpr uint32_t kFirst = 0xD2511F53, kSecond = 0xCD9E8D57, kWeyl = 0x9E3779B9, kGolden = 0xBB67AE85;
  Block x = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t key[2] = {0x736C6970, 0x77617900};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{kFirst} * x[0], b = uint64_t{kSecond} * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += kWeyl, key[1] += kGolden;
  }
  return x;
}
uint64_t Bits64(const Block& b) { return uint64_t{b[1]} << 32 | b[0]; }
// In [0, 1), a multiple of 2^-bits.
double Unit(uint64_t random, int bits) { return std::ldexp(static_cast<double>(random >> (64 - bits)), -bits); }

// out[...] = f(the next block of the generator)
template <typename T, typename F>
void Draw(const Tensor& out, F f) {
  static std::atomic<uint64_t> drawn{0};
  uint64_t counter = drawn.fetch_add(static_cast<uint64_t>(out.numel()), std::memory_order_relaxed);
  Walk<1>({&out}, [&](std::array<char*, 1> at, const std::array<int64_t, 1>& step, int64_t n) {
    T row[kRowBlock];
    for (int64_t done = 0; done < n; done += kRowBlock) {
      const int64_t m = std::min(kRowBlock, n - done);
      for (int64_t i = 0; i < m; ++i) row[i] = f(Philox(counter++));
      StoreRow<T>(row, m, at[0], out.dtype, step[0]);
      at[0] += m * step[0] * ByteSize(out.dtype);
    }
  });
}

// In [0, 1), every number with as many bits as the dtype has.
const char* Uniform(const Call& c, const NoAttributes&) {
  const DType t = c.out[0].dtype;
  const int bits = t == DType::kF64 ? 53 : t == DType::kF32 ? 24 : t == DType::kF16 ? 11 : 8;
  Draw<double>(c.out[0], [=](const Block& b) { return Unit(Bits64(b), bits); });
  return nullptr;
}
// By Box and Muller's transform.
const char* Normal(const Call& c, const NoAttributes&) {
  Draw<double>(c.out[0], [](const Block& b) {
    const double radius = std::sqrt(-2 * std::log(1 - Unit(Bits64(b), 53)));
    return radius * std::cos(2 * std::numbers::pi * Unit(uint64_t{b[3]} << 32 | b[2], 53));
  });
  return nullptr;
}
const char* Integers(const Call& c, const RandomIntegersAttributes<>& a) {
  if (a.count <= 0) return c.out[0].numel() == 0 ? nullptr : "the range of random numbers is empty";
  const uint64_t low = static_cast<uint64_t>(a.low), count = static_cast<uint64_t>(a.count);
  Draw<int64_t>(c.out[0], [=](const Block& b) { return static_cast<int64_t>(low + Bits64(b) % count); });
  return nullptr;
}

constexpr Kernel kKernels[] = {
    With<NoAttributes, Uniform>({"random_uniform"}),
    With<NoAttributes, Normal>({"random_normal"}),
    With<RandomIntegersAttributes<>, Integers>({"random_integers"}),
};

}  // namespace

std::span<const Kernel> RandomKernels() { return kKernels; }

}  // namespace slipway::kernels
