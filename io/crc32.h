// CRC-32 as zip archives state it (polynomial 0xedb88320, starting at 0), at the speed of memory.
#ifndef SLIPWAY_IO_CRC32_H_
#define SLIPWAY_IO_CRC32_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "io/byte_source.h"

namespace slipway::io {

// Of bytes that follow those of `crc`; 0 for the first.
uint32_t Crc32(uint32_t crc, absl::Span<const uint8_t> bytes);
// Of all the bytes; pages of a mapped file are given back on the way.
uint32_t Crc32Of(const Bytes& bytes);
// Of two runs of bytes, one behind the other, from those of each.
uint32_t Crc32Combine(uint32_t first, uint32_t second, uint64_t second_size);

// InvalidArgument where the sum of bytes that were read is not the one that the file they are from states.
absl::Status CheckCrc(uint32_t found, uint32_t stated);

}  // namespace slipway::io

#endif  // SLIPWAY_IO_CRC32_H_
