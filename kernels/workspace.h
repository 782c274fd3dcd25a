// Memory that kernels need for the time of a call: what the caller lends them, beyond it some of their own, which is kept from
// step to step, so that a run in the steady state asks the system for nothing.
#ifndef SLIPWAY_KERNELS_WORKSPACE_H_
#define SLIPWAY_KERNELS_WORKSPACE_H_

#include <cstddef>
#include <memory>
#include <vector>

namespace slipway::kernels {

// Not thread-safe: what parts of a kernel need at the same time is taken before they begin.
class Workspace {
 public:
  // Aligned to 64 bytes, with nothing of use in it; std::bad_alloc where there is none. It stays until Clear.
  char* Take(size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    if (bytes > left_) return Grow(bytes);
    char* p = at_;
    at_ += bytes, left_ -= bytes;
    return p;
  }
  template <typename T>
  T* Take(int64_t n) {
    return reinterpret_cast<T*>(Take(static_cast<size_t>(n > 0 ? n : 0) * sizeof(T)));
  }
  // What was taken may be taken again. The `bytes` at `lent` come first, which are aligned to 64 and stay the caller's.
  void Clear(void* lent = nullptr, size_t bytes = 0) {
    if (chunks_.size() > 1) Join();
    at_ = static_cast<char*>(lent), left_ = lent != nullptr ? bytes / 64 * 64 : 0, next_ = 0;
  }
  // What is taken in its time may be taken again afterwards.
  class Frame {
   public:
    explicit Frame(Workspace& of) : of_(of), at_(of.at_), left_(of.left_), next_(of.next_) {}
    ~Frame() { of_.at_ = at_, of_.left_ = left_, of_.next_ = next_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Workspace& of_;
    char* at_;
    size_t left_, next_;
  };
  // Bytes of its own, beside those that were lent.
  size_t own_bytes() const;

 private:
  struct Free {
    void operator()(char* p) const;
  };
  struct Chunk {
    std::unique_ptr<char, Free> memory;
    size_t bytes = 0;
  };
  char* Grow(size_t bytes);  // from the next chunk
  void Join();  // one chunk for as much as was taken

  std::vector<Chunk> chunks_;
  char* at_ = nullptr;
  size_t left_ = 0, next_ = 0;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_WORKSPACE_H_
