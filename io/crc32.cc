// libdeflate sums. Sums are combined as polynomials over bits, the highest power in the lowest bit; zlib's function for
// that takes sizes of 32 bits on some systems.
#include "io/crc32.h"

#include <libdeflate.h>

#include <algorithm>

namespace slipway::io {
namespace {

// Bytes of a mapped file that are summed before their pages are given back.
constexpr uint64_t kCrcChunk = uint64_t{8} << 20;

constexpr uint32_t kPolynomial = 0xedb88320, kOne = 1u << 31, kX8 = 1u << 23;

// a * b modulo the polynomial.
uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? b >> 1 ^ kPolynomial : b >> 1;
  }
  return product;
}

}  // namespace

uint32_t Crc32(uint32_t crc, absl::Span<const uint8_t> bytes) {
  return libdeflate_crc32(crc, bytes.data() == nullptr ? "" : static_cast<const void*>(bytes.data()), bytes.size());
}

uint32_t Crc32Of(const Bytes& bytes) {
  uint32_t crc = 0;
  for (uint64_t done = 0; done < bytes.size(); done += kCrcChunk) {
    const Bytes chunk = bytes.Part(done, std::min(kCrcChunk, bytes.size() - done));
    crc = Crc32(crc, chunk.data());
    if (chunk.file_range() != nullptr) chunk.file_range()->Release();
  }
  return crc;
}

uint32_t Crc32Combine(uint32_t first, uint32_t second, uint64_t second_size) {
  // The first bytes are followed by second_size others: times x to the power of 8 * second_size.
  for (uint32_t power = kX8; second_size != 0; second_size >>= 1) {
    if ((second_size & 1) != 0) first = Multiply(first, power);
    power = Multiply(power, power);
  }
  return first ^ second;
}

absl::Status CheckCrc(uint32_t found, uint32_t stated) {
  if (found == stated) return absl::OkStatus();
  return absl::InvalidArgumentError("the bytes do not have the CRC-32 that the file states");
}

}  // namespace slipway::io
