// Pointers that a signal handler can take at any moment, on any thread. A slot is claimed and emptied by exchanging its
// pointer, so that handler and owner never both have it. Slots come in chunks that are never freed.
#ifndef SLIPWAY_IO_SIGNAL_SLOTS_H_
#define SLIPWAY_IO_SIGNAL_SLOTS_H_

#include <atomic>

namespace slipway::io {

template <typename T>
class SignalSlots {
 public:
  constexpr SignalSlots() = default;

  // Keeps `item`, which is not null. Returns its place, for Take().
  int Add(T* item) {
    int base = 0;
    for (Chunk* chunk = &first_;; base += kSlotsPerChunk) {
      for (int i = 0; i < kSlotsPerChunk; ++i) {
        T* empty = nullptr;
        if (chunk->slots[i].compare_exchange_strong(empty, item)) return base + i;
      }
      Chunk* next = chunk->next.load(std::memory_order_acquire);
      if (next == nullptr) {
        auto* fresh = new Chunk;
        if (chunk->next.compare_exchange_strong(next, fresh, std::memory_order_acq_rel)) {
          next = fresh;
        } else {
          delete fresh;  // another thread was first; `next` is its chunk
        }
      }
      chunk = next;
    }
  }

  // What was put at that place; null where a handler has taken it.
  T* Take(int place) {
    Chunk* chunk = &first_;
    for (; place >= kSlotsPerChunk; place -= kSlotsPerChunk) chunk = chunk->next.load(std::memory_order_acquire);
    return chunk->slots[place].exchange(nullptr);
  }

  // Takes all and hands each to `f`. Async-signal-safe where `f` is.
  template <typename F>
  void TakeAll(F f) {
    for (Chunk* chunk = &first_; chunk != nullptr; chunk = chunk->next.load(std::memory_order_acquire))
      for (std::atomic<T*>& slot : chunk->slots)
        if (T* item = slot.exchange(nullptr)) f(*item);
  }

 private:
  static constexpr int kSlotsPerChunk = 64;
  struct Chunk {
    std::atomic<T*> slots[kSlotsPerChunk] = {};
    std::atomic<Chunk*> next = nullptr;
  };
  static_assert(std::atomic<T*>::is_always_lock_free);
  Chunk first_;
};

}  // namespace slipway::io

#endif  // SLIPWAY_IO_SIGNAL_SLOTS_H_
