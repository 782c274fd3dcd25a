// The thread pool. Threads take the tasks of a loop by a ticket (State), look for the next loop for half a millisecond,
// then sleep; in a child process after a fork there are none, and loops run on the calling thread.
#include "kernels/parallel.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/system.h"

namespace slipway::kernels {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr std::chrono::microseconds kLook{500};  // for work, before sleeping

}  // namespace

// The ticket is what threads take tasks by: how many the loop has, how many are taken from its front and from its back,
// and the loop's number (16 bits each). Taking one is a compare-and-swap of the whole, and the loop's function is read
// by the one that took a task, since the loop does not end before its tasks have. The calling thread takes tasks from
// the front and the others from the back: with two threads, the halves of an image stay in the caches of the threads
// that made them.
struct ThreadPool::State {
  static constexpr uint64_t kMask = 0xffff;
  static constexpr int kFront = 0, kBack = 16, kTasks = 32, kLoop = 48;

  std::mutex busy;
  // What the threads look at while they wait, together.
  alignas(64) std::atomic<uint32_t> loops{0};  // what sleepers wait on
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> ticket{0};
  void (*task)(void*, int64_t) = nullptr;
  void* context = nullptr;
  alignas(64) std::atomic<int64_t> done{0};
  std::exception_ptr thrown;  // the first
  std::mutex thrown_mutex;
  std::vector<std::thread> threads;
  int64_t process = 0;  // a fork's child has none of the threads

  // Works on the loop at hand until its tasks are taken.
  void Work(bool caller) {
    uint64_t t = ticket.load(std::memory_order_acquire);
    for (;;) {
      const uint64_t front = t >> kFront & kMask, back = t >> kBack & kMask, tasks = t >> kTasks & kMask;
      if (front + back >= tasks) return;
      if (!ticket.compare_exchange_weak(t, t + (uint64_t{1} << (caller ? kFront : kBack)), std::memory_order_acq_rel,
                                        std::memory_order_acquire))
        continue;
      try {
        task(context, static_cast<int64_t>(caller ? front : tasks - 1 - back));
      } catch (...) {
        std::lock_guard lock(thrown_mutex);
        if (!thrown) thrown = std::current_exception();
      }
      done.fetch_add(1, std::memory_order_release);
      t = ticket.load(std::memory_order_acquire);
    }
  }

  void Live() {
    uint32_t seen = 0;
    while (!stop.load(std::memory_order_acquire)) {
      Work(false);
      auto changed = [&] {
        return loops.load(std::memory_order_acquire) != seen || stop.load(std::memory_order_acquire);
      };
      const auto end = std::chrono::steady_clock::now() + kLook;
      do {
        for (int i = 0; i < 64 && !changed(); ++i) Pause();
      } while (!changed() && std::chrono::steady_clock::now() < end);
      if (!changed()) loops.wait(seen, std::memory_order_acquire);
      seen = loops.load(std::memory_order_acquire);
    }
  }

  void Run(int64_t tasks, void (*f)(void*, int64_t), void* c) {
    std::unique_lock lock(busy, std::try_to_lock);
    if (!lock.owns_lock() || tasks < 2 || tasks > static_cast<int64_t>(kMask) || ProcessId() != process) {
      for (int64_t i = 0; i < tasks; ++i) f(c, i);
      return;
    }
    task = f, context = c;
    done.store(0, std::memory_order_relaxed);
    const uint32_t loop = loops.load(std::memory_order_relaxed) + 1;
    ticket.store(uint64_t{loop} << kLoop | static_cast<uint64_t>(tasks) << kTasks, std::memory_order_release);
    loops.store(loop, std::memory_order_release);
    loops.notify_all();
    Work(true);
    for (int i = 0; done.load(std::memory_order_acquire) != tasks; ++i) {
      if (i < 1000)
        Pause();
      else
        std::this_thread::yield();  // the thread that has the last task may need this processor
    }
    if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
  }
};

ThreadPool::ThreadPool(std::unique_ptr<State> state) : state_(std::move(state)) {
  workers_.threads = static_cast<int>(state_->threads.size()) + 1;
  workers_.self = state_.get();
  workers_.run = [](void* self, int64_t tasks, void (*task)(void*, int64_t), void* context) {
    static_cast<State*>(self)->Run(tasks, task, context);
  };
}

std::unique_ptr<ThreadPool> ThreadPool::Make(int threads) {
  auto state = std::make_unique<State>();
  state->process = ProcessId();
  try {
    for (int i = 1; i < threads; ++i) state->threads.emplace_back([s = state.get()] { s->Live(); });
  } catch (const std::system_error&) {
    // As many as the system gives.
  }
  if (state->threads.empty()) return nullptr;
  return std::unique_ptr<ThreadPool>(new ThreadPool(std::move(state)));
}

ThreadPool::~ThreadPool() {
  // the threads are the parent's: there are none to wait for here, and their state must be left alone
  if (ProcessId() != state_->process) {
    (void)state_.release();
    return;
  }
  state_->stop.store(true, std::memory_order_release);
  state_->loops.fetch_add(1, std::memory_order_release);
  state_->loops.notify_all();
  for (std::thread& t : state_->threads) t.join();
}

int DefaultThreads() {
  for (const char* name : {"SLIPWAY_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const char* text = std::getenv(name)) {
      const long n = std::strtol(text, nullptr, 10);  // OpenMP allows a list, the first is meant
      if (n >= 1 && n <= 4096) return static_cast<int>(n);
    }
  return std::max(UsableProcessors(), 1);
}

}  // namespace slipway::kernels
