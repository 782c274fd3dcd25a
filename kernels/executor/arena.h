// Where temporaries lie: buffers that are never alive together share memory.
#ifndef SLIPWAY_KERNELS_EXECUTOR_ARENA_H_
#define SLIPWAY_KERNELS_EXECUTOR_ARENA_H_

#include <cstdint>
#include <span>
#include <vector>

namespace slipway::kernels {

inline constexpr int64_t kAlignment = 64;

// A buffer that is alive from step `first` to step `last`, both included.
struct Lifetime {
  int32_t first = 0, last = 0;
};

// Places buffers in the order given, which is by `first`, each into the smallest gap that holds it. Where that takes
// much more than what is alive at once, and buffers are not too many, the largest are placed first instead if that is
// better. Keeps its own memory, so that placing again costs no allocation.
class Arena {
 public:
  // `deaths`: the same buffers by `last`. offsets[i] gets that of buffer i, a multiple of kAlignment; returns the bytes
  // of all, or -1 where they do not fit 63 bits.
  int64_t Place(std::span<const Lifetime> lifetimes, std::span<const int32_t> deaths, std::span<const int64_t> bytes,
                std::span<int64_t> offsets);

 private:
  struct Gap {
    int64_t at, bytes;
  };
  // The two ways, which say as Place how much they take.
  int64_t PlaceByTime(std::span<const Lifetime> lifetimes, std::span<const int32_t> deaths, std::span<int64_t> offsets);
  int64_t PlaceBySize(std::span<const Lifetime> lifetimes, std::span<int64_t> offsets);

  std::vector<Gap> gaps_;  // by place; neighbours are joined
  std::vector<int64_t> rounded_, others_;
  std::vector<int32_t> order_, placed_;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_ARENA_H_
