// What kernels take their memory from, and how much it is going to be.
#ifndef SLIPWAY_KERNELS_SCOPE_H_
#define SLIPWAY_KERNELS_SCOPE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/workspace.h"

namespace slipway::kernels {

// The workspace of a call, or one of its own where the caller has none.
class Scope {
 public:
  explicit Scope(const Call& c)
      : workspace_(c.workspace ? *c.workspace : own_), parts_(c.workers ? MostParts(*c.workers) : 1) {}
  Workspace& operator*() const { return workspace_; }
  Workspace* operator->() const { return &workspace_; }
  // How many parts of a loop there may be.
  int64_t parts() const { return parts_; }

 private:
  Workspace own_;
  Workspace& workspace_;
  int64_t parts_;
};

// Memory for the parts of a loop: as many shares as run at the same time.
class Shares {
 public:
  // Of so many bytes each, for a loop of at most `parts` parts.
  Shares(Workspace& memory, const Workers* workers, int64_t bytes, int64_t parts = std::numeric_limits<int64_t>::max())
      : bytes_(Rounded(bytes)), count_(Count(workers, parts)), at_(memory.Take(static_cast<size_t>(bytes_ * count_))) {}

  static int64_t Count(const Workers* workers, int64_t parts) {
    return workers == nullptr ? 1 : std::clamp<int64_t>(std::min<int64_t>(workers->threads, parts), 1, kMost);
  }
  static int64_t Rounded(int64_t bytes) { return bytes > 0 ? (bytes + 63) / 64 * 64 : 0; }

 private:
  friend class Share;
  static constexpr int64_t kMost = 64;
  int64_t bytes_, count_;
  char* at_;
  std::atomic<uint64_t> taken_{0};  // a bit a share
};

// The share of one part, while it runs; memory of its own where all are taken.
class Share : public Workspace {
 public:
  explicit Share(Shares& of) : of_(of) {
    uint64_t taken = of.taken_.load(std::memory_order_relaxed);
    do {
      for (slot_ = 0; slot_ < of.count_ && (taken >> slot_ & 1) != 0; ++slot_) {
      }
      if (slot_ == of.count_) return;
    } while (!of.taken_.compare_exchange_weak(taken, taken | uint64_t{1} << slot_, std::memory_order_acquire,
                                              std::memory_order_relaxed));
    Clear(of.at_ + slot_ * of.bytes_, static_cast<size_t>(of.bytes_));
  }
  ~Share() {
    if (slot_ < of_.count_) of_.taken_.fetch_and(~(uint64_t{1} << slot_), std::memory_order_release);
  }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

 private:
  Shares& of_;
  int64_t slot_ = 0;
};

// What a kernel is going to take, added up as it will be taken. What does not fit 63 bits becomes the largest number.
class Need {
 public:
  template <typename T>
  void Take(int64_t n) {
    int64_t bytes;
    if (n > 0) Add(__builtin_mul_overflow(n, int64_t{sizeof(T)}, &bytes) ? kMost : bytes, 1);
  }
  void Take(const Need& other, int64_t times = 1) { Add(other.bytes_, times); }
  void Share(const Workers* workers, const Need& each, int64_t parts = std::numeric_limits<int64_t>::max()) {
    Add(each.bytes_, Shares::Count(workers, parts));
  }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  void Add(int64_t bytes, int64_t times) {
    if (__builtin_add_overflow(bytes, 63, &bytes) || __builtin_mul_overflow(bytes / 64 * 64, times, &bytes) ||
        __builtin_add_overflow(bytes_, bytes, &bytes_))
      bytes_ = kMost;
  }
  int64_t bytes_ = 0;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_SCOPE_H_
