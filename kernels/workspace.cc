// See workspace.h.
#include "kernels/workspace.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace slipway::kernels {

void Workspace::Free::operator()(char* p) const { std::free(p); }

char* Workspace::Grow(size_t bytes) {
  while (next_ < chunks_.size()) {
    const Chunk& c = chunks_[next_++];
    if (c.bytes < bytes) continue;
    at_ = c.memory.get() + bytes, left_ = c.bytes - bytes;
    return c.memory.get();
  }
  constexpr size_t kLeast = size_t{64} << 10;
  const size_t size = std::max(bytes, kLeast);
  if (size + 64 < size) throw std::bad_alloc();
  chunks_.reserve(chunks_.size() + 1);
  char* p = static_cast<char*>(std::aligned_alloc(64, (size + 63) / 64 * 64));
  if (!p) throw std::bad_alloc();
  chunks_.push_back({std::unique_ptr<char, Free>(p), size});
  next_ = chunks_.size();
  at_ = p + bytes, left_ = size - bytes;
  return p;
}

void Workspace::Join() {
  const size_t bytes = own_bytes();
  chunks_.clear();
  Grow(bytes);
}

size_t Workspace::own_bytes() const {
  size_t bytes = 0;
  for (const Chunk& c : chunks_) bytes += c.bytes;
  return bytes;
}

}  // namespace slipway::kernels
