// Sums of CRC-32 combined: of parts of any size, also of more bytes than 32 bits count.
#include "io/crc32.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace slipway::io {
namespace {

uint32_t Sum(const std::string& text) {
  return Crc32(0, absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

// The sum of that many zero bytes, by doubling.
uint32_t SumOfZeros(uint64_t count) {
  uint32_t all = 0, power = Sum(std::string(1, '\0'));
  uint64_t size = 1;
  for (; count != 0; count >>= 1, size *= 2) {
    if ((count & 1) != 0) all = Crc32Combine(all, power, size);
    power = Crc32Combine(power, power, size);
  }
  return all;
}

TEST(Crc32Combine, ZerosAsTheyAreSummed) {
  for (uint64_t count : {0, 1, 2, 3, 255, 256, 65'537, 1'000'003})
    EXPECT_EQ(SumOfZeros(count), Sum(std::string(count, '\0'))) << count;
}

// 5 GiB of zeros and a text, from zlib's crc32_combine().
TEST(Crc32Combine, MoreThanFourGigabytes) {
  const uint64_t count = uint64_t{5} << 30;
  EXPECT_EQ(SumOfZeros(count), 0x193838c3u);
  EXPECT_EQ(Crc32Combine(Sum("123456789"), SumOfZeros(count), count), 0x2d89a4b2u);
}

}  // namespace
}  // namespace slipway::io
