// Scratch memory for tests of exactly as many bytes as a kernel counted, with a fence behind it: whether that was
// enough.
#ifndef SLIPWAY_TESTS_UNIT_FENCED_SCRATCH_H_
#define SLIPWAY_TESTS_UNIT_FENCED_SCRATCH_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/scratch.h"

namespace slipway::kernels {

class FencedScratch {
 public:
  explicit FencedScratch(int64_t bytes) {
    char* const at = behind_.Take<char>(bytes + kFence);
    // large numbers: what is read before it is written shows
    std::memset(at, 0x7f, static_cast<size_t>(bytes + kFence));
    fence_ = at + bytes;
    scratch_.Reset(at, bytes);
  }
  // Whether nothing more was taken, nor written behind it.
  bool sufficed() const {
    return scratch_.own_bytes() == 0 && std::all_of(fence_, fence_ + kFence, [](char c) { return c == 0x7f; });
  }
  Scratch& operator*() { return scratch_; }

 private:
  static constexpr int64_t kFence = 256;
  Scratch behind_, scratch_;
  char* fence_ = nullptr;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_TESTS_UNIT_FENCED_SCRATCH_H_
