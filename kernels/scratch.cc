// Chunks of a scratch's own, and the slots that the parts of a loop take. Chunks are joined to one at the next Reset,
// so that the same call finds all its memory in one piece from its second time on.
#include "kernels/scratch.h"

#include <new>

#include "kernels/system.h"

namespace slipway::kernels {

void Scratch::Free::operator()(char* p) const { FreeAligned(p); }

char* Scratch::Grow(int64_t bytes) {
  if (counting_) {
    if (__builtin_add_overflow(taken_, bytes, &taken_)) taken_ = kLimit;
    peak_ = std::max(peak_, taken_);
    return reinterpret_cast<char*>(uintptr_t{64});  // aligned, and not mapped
  }
  while (next_ < chunks_.size()) {
    const Chunk& c = chunks_[next_++];
    if (c.bytes < bytes) continue;
    at_ = c.memory.get() + bytes, left_ = c.bytes - bytes;
    return c.memory.get();
  }
  constexpr int64_t kMinimum = int64_t{64} << 10;
  const int64_t size = std::max(bytes, kMinimum);
  if (size > int64_t{1} << 62) throw std::bad_alloc();
  chunks_.reserve(chunks_.size() + 1);
  char* p = static_cast<char*>(AllocateAligned(64, static_cast<size_t>(size)));
  if (!p) throw std::bad_alloc();
  chunks_.push_back({std::unique_ptr<char, Free>(p), size});
  next_ = chunks_.size();
  at_ = p + bytes, left_ = size - bytes;
  return p;
}

void Scratch::Reset(void* memory, int64_t bytes) {
  if (chunks_.size() > 1) {
    const int64_t all = own_bytes();
    chunks_.clear();
    Grow(all);
  }
  at_ = static_cast<char*>(memory), left_ = memory != nullptr ? bytes / 64 * 64 : 0, next_ = 0, taken_ = 0;
}

int64_t Scratch::own_bytes() const {
  int64_t bytes = 0;
  for (const Chunk& c : chunks_) bytes += c.bytes;
  return bytes;
}

ScratchSlots::Slot::Slot(ScratchSlots& of, int64_t wish) : of_(of) {
  uint64_t taken = of.taken_.load(std::memory_order_relaxed);
  do {
    int64_t tried = 0;
    while (tried < of.count_ && (taken >> (wish + tried) % of.count_ & 1) != 0) ++tried;
    index_ = tried < of.count_ ? (wish + tried) % of.count_ : of.count_;
    if (index_ == of.count_) return;
  } while (!of.taken_.compare_exchange_weak(taken, taken | uint64_t{1} << index_, std::memory_order_acquire,
                                            std::memory_order_relaxed));
  Reset(of.at_ + index_ * of.bytes_, of.bytes_);
}

ScratchSlots::Slot::~Slot() {
  if (index_ < of_.count_) of_.taken_.fetch_and(~(uint64_t{1} << index_), std::memory_order_release);
}

}  // namespace slipway::kernels
