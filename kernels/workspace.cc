// See workspace.h.
#include "kernels/workspace.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace slipway::kernels {

void Workspace::Free::operator()(char* p) const { std::free(p); }

char* Workspace::Grow(size_t bytes) {
  constexpr size_t kLeast = size_t{64} << 10;
  const size_t size = std::max(bytes, kLeast);
  if (size + 64 < size) throw std::bad_alloc();
  chunks_.reserve(chunks_.size() + 1);
  char* p = static_cast<char*>(std::aligned_alloc(64, (size + 63) / 64 * 64));
  if (!p) throw std::bad_alloc();
  chunks_.push_back({std::unique_ptr<char, Free>(p), size});
  at_ = p + bytes, left_ = size - bytes;
  return p;
}

void Workspace::Join() {
  size_t bytes = 0;
  for (const Chunk& c : chunks_) bytes += c.bytes;
  chunks_.clear();
  at_ = nullptr, left_ = 0;
  Grow(bytes);
  at_ = chunks_[0].memory.get(), left_ = bytes;
}

}  // namespace slipway::kernels
