// A workspace for tests that holds as much as a kernel said it needs, and sees whether that was enough.
#ifndef SLIPWAY_TESTS_UNIT_LENT_H_
#define SLIPWAY_TESTS_UNIT_LENT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/workspace.h"

namespace slipway::kernels {

class Lent {
 public:
  explicit Lent(int64_t bytes) {
    const auto n = static_cast<size_t>(bytes);
    char* const at = behind_.Take(n + kFence);
    std::memset(at, 0x7f, n + kFence);  // large numbers: what is read before it is written shows
    fence_ = at + n;
    memory_.Clear(at, n);
  }
  // Whether nothing more was taken, nor written to behind it.
  bool sufficed() const {
    return memory_.own_bytes() == 0 && std::all_of(fence_, fence_ + kFence, [](char c) { return c == 0x7f; });
  }
  Workspace& operator*() { return memory_; }

 private:
  static constexpr size_t kFence = 256;
  Workspace behind_, memory_;
  char* fence_ = nullptr;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_TESTS_UNIT_LENT_H_
