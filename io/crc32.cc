// libdeflate sums, zlib combines.
#include "io/crc32.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>

namespace slipway::io {
namespace {

// Bytes of a mapped file that are summed before their pages are given back.
constexpr uint64_t kChunk = uint64_t{8} << 20;

}  // namespace

uint32_t Crc32(uint32_t crc, absl::Span<const uint8_t> bytes) {
  return libdeflate_crc32(crc, bytes.data() == nullptr ? "" : static_cast<const void*>(bytes.data()), bytes.size());
}

uint32_t Crc32Of(const Bytes& bytes) {
  uint32_t crc = 0;
  for (uint64_t done = 0; done < bytes.size(); done += kChunk) {
    const Bytes chunk = bytes.Part(done, std::min(kChunk, bytes.size() - done));
    crc = Crc32(crc, chunk.data());
    if (chunk.file_range() != nullptr) chunk.file_range()->Release();
  }
  return crc;
}

uint32_t Crc32Combine(uint32_t first, uint32_t second, uint64_t second_size) {
  return static_cast<uint32_t>(crc32_combine64(first, second, static_cast<z_off64_t>(second_size)));
}

absl::Status CheckCrc(uint32_t found, uint32_t stated) {
  if (found == stated) return absl::OkStatus();
  return absl::InvalidArgumentError("the bytes do not have the CRC-32 that the file states");
}

}  // namespace slipway::io
