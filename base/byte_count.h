// A number of bytes as people read it: "512 bytes", "12.3 kB", "4.5 MB", "12.3 GB".
#ifndef SLIPWAY_BASE_BYTE_COUNT_H_
#define SLIPWAY_BASE_BYTE_COUNT_H_

#include <cstdint>
#include <string>

namespace slipway::text {

// Powers of 1000, each from 10 of its unit on, so that three digits are never fewer.
std::string ByteCount(uint64_t n);

}  // namespace slipway::text

#endif  // SLIPWAY_BASE_BYTE_COUNT_H_
