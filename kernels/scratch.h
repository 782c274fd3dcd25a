// Scratch: memory that a kernel needs for the time of a call. It is taken from the front of what the caller provides,
// which the executor places among a plan's temporaries, and beyond that from chunks of the scratch's own, which are
// kept from call to call: a run in the steady state asks the system for nothing.
//
// How much a call takes is found by running the same code on a scratch that counts. Such a scratch gives out addresses
// that must not be used, and adds up the bytes; a kernel whose row says so (Kernel::queries_workspace) does its
// allocations and returns where scratch.querying(). What it takes beyond the count is no error, only memory that was
// not planned.
#ifndef SLIPWAY_KERNELS_SCRATCH_H_
#define SLIPWAY_KERNELS_SCRATCH_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/parallel.h"

namespace slipway::kernels {

// Not thread-safe: the parts of a loop get scratch memory of their own (ParallelFor below).
class Scratch {
 public:
  Scratch() = default;
  // One that counts.
  static Scratch Counter() {
    Scratch s;
    s.counting_ = true;
    return s;
  }
  Scratch(Scratch&&) = default;
  Scratch& operator=(Scratch&&) = default;

  bool querying() const { return counting_; }
  // Of one that counts: the most bytes that were taken at a time; the largest number where that does not fit.
  int64_t counted() const { return peak_; }

  // `n` elements, aligned to 64 bytes and not initialised; std::bad_alloc where there is no memory. Valid until the
  // Frame around it ends, or Reset.
  template <typename T>
  T* Take(int64_t n) {
    int64_t bytes;
    if (__builtin_mul_overflow(std::max<int64_t>(n, 0), int64_t{sizeof(T)}, &bytes) ||
        __builtin_add_overflow(bytes, 63, &bytes))
      bytes = kLimit;
    bytes = bytes / 64 * 64;
    if (bytes > left_) return reinterpret_cast<T*>(Grow(bytes));
    char* const p = at_;
    at_ += bytes, left_ -= bytes;
    return reinterpret_cast<T*>(p);
  }

  // What was taken is free again. The next allocations come from the `bytes` at `memory`, which are aligned to 64 and
  // stay the caller's.
  void Reset(void* memory = nullptr, int64_t bytes = 0);

  // What is taken in its time is free again when it ends.
  class Frame {
   public:
    explicit Frame(Scratch& of) : of_(of), at_(of.at_), left_(of.left_), next_(of.next_), taken_(of.taken_) {}
    ~Frame() { of_.at_ = at_, of_.left_ = left_, of_.next_ = next_, of_.taken_ = taken_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scratch& of_;
    char* at_;
    int64_t left_;
    size_t next_;
    int64_t taken_;
  };

  // Bytes of chunks of its own.
  int64_t own_bytes() const;

 private:
  struct Free {
    void operator()(char* p) const;
  };
  struct Chunk {
    std::unique_ptr<char, Free> memory;
    int64_t bytes = 0;
  };
  static constexpr int64_t kLimit = INT64_MAX;
  char* Grow(int64_t bytes);  // counts, or takes from the next chunk

  bool counting_ = false;
  std::vector<Chunk> chunks_;
  char* at_ = nullptr;
  int64_t left_ = 0;
  size_t next_ = 0;               // chunk
  int64_t taken_ = 0, peak_ = 0;  // of one that counts
};

// Scratch memory for the parts of a loop that run at the same time: slots of equal size, which parts take and give
// back.
class ScratchSlots {
 public:
  // For a loop of `parts` parts, of which each takes `bytes`.
  ScratchSlots(Scratch& from, const Workers* workers, int64_t parts, int64_t bytes)
      : bytes_(std::min(bytes, INT64_MAX - 63) / 64 * 64 + (bytes % 64 != 0 ? 64 : 0)),
        count_(workers == nullptr ? 1 : std::clamp<int64_t>(std::min<int64_t>(workers->threads, parts), 1, kLimit)),
        at_(from.Take<char>(__builtin_mul_overflow(bytes_, count_, &parts) ? INT64_MAX : parts)) {}

  int64_t count() const { return count_; }

  // The slot of one part, while it runs; where all are taken (a caller's pool runs more at once than it said), chunks
  // of its own.
  class Slot : public Scratch {
   public:
    // The slot `wish` if that is free, else the next one that is: a thread finds its slot in its cache.
    explicit Slot(ScratchSlots& of, int64_t wish = 0);
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    ScratchSlots& of_;
    int64_t index_ = 0;
  };

 private:
  static constexpr int64_t kLimit = 64;
  int64_t bytes_, count_;
  char* at_;
  std::atomic<uint64_t> taken_{0};  // a bit a slot
};

// Calls f(begin, end, scratch) for parts of [0, n), as ParallelFor(workers, n, grain, f) does, each with scratch memory
// of its own: as much as f takes when it is called with a scratch that counts. So f does its allocations first, and
// returns where its scratch counts. Where `scratch` counts itself, nothing else happens.
template <typename F>
void ParallelFor(Scratch& scratch, const Workers* workers, int64_t n, int64_t grain, F f) {
  const Partition parts(workers, n, grain);
  const Scratch::Frame frame(scratch);
  if (parts.parts == 0) return;
  if (parts.parts == 1) return f(int64_t{0}, n, scratch);
  int64_t bytes = 0;
  for (int64_t i = 0; i < parts.parts; ++i) {
    Scratch counter = Scratch::Counter();
    f(parts.begin(i), parts.end(i), counter);
    bytes = std::max(bytes, counter.counted());
  }
  ScratchSlots slots(scratch, workers, parts.parts, bytes);
  if (scratch.querying()) return;
  ParallelFor(workers, n, grain, [&](int64_t begin, int64_t end) {
    ScratchSlots::Slot slot(slots, slots.count() * begin / n);
    f(begin, end, static_cast<Scratch&>(slot));
  });
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_SCRATCH_H_
