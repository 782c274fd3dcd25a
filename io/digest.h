// SHA-256 (FIPS 180-4), for telling whether two graphs or two runs of bytes are the same across processes and
// machines: deduplicated subgraphs, caches, reproducible identifiers.
#ifndef SLIPWAY_IO_DIGEST_H_
#define SLIPWAY_IO_DIGEST_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace slipway::io {

// A digest in the order its bytes are written out.
using Sha256Digest = std::array<uint8_t, 32>;

// A digest in the making: any number of Update(), then Finish() once.
class Sha256 {
 public:
  void Update(absl::Span<const uint8_t> bytes);
  void Update(std::string_view bytes) {
    Update(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  }
  Sha256Digest Finish();

 private:
  void Block(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_;  // the first `size_ % 64` bytes of the next block
  uint64_t size_ = 0;                // bytes so far
};

// The digest of `bytes`, and a digest as 64 lower-case hexadecimal digits.
Sha256Digest Sha256Of(absl::Span<const uint8_t> bytes);
std::string ToHex(const Sha256Digest& digest);

}  // namespace slipway::io

#endif  // SLIPWAY_IO_DIGEST_H_
