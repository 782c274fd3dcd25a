// Threads that share the loops of one kernel. A kernel is handed `Workers`, which may be the library's own threads or the
// caller's; it splits only over results that do not depend on each other, so that the bits are the same for any number of
// threads.
#ifndef SLIPWAY_KERNELS_PARALLEL_H_
#define SLIPWAY_KERNELS_PARALLEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>

namespace slipway::kernels {

// Whoever can run tasks at the same time.
struct Workers {
  // How many run at once, the calling thread included.
  int threads = 1;
  // Calls task(context, i) once for each i below `tasks`, on any threads and in any order, and returns when all are done.
  void (*run)(void* self, int64_t tasks, void (*task)(void* context, int64_t i), void* context) = nullptr;
  void* self = nullptr;
};

// Threads that this process has for all its models. The calling thread works too; those that find no work look for it for
// some microseconds and then sleep. One loop at a time has them: another that comes meanwhile runs on its own thread alone.
class ThreadPool {
 public:
  // Null where the system gives no thread, or for fewer than two.
  static std::unique_ptr<ThreadPool> Make(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  const Workers& workers() const { return workers_; }

 private:
  struct State;
  explicit ThreadPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  Workers workers_;
};

// As many threads as this process may use at once: SLIPWAY_NUM_THREADS, else OMP_NUM_THREADS, else the processors it may
// run on.
int DefaultThreads();

// No more parts than this make a loop. Two a thread even out what one thread is held up by.
inline int64_t MostParts(const Workers& w) { return int64_t{2} * w.threads; }

// Calls f(begin, end) for parts that cover [0, n), each a multiple of `grain` but the last; `workers` may be null. A part
// has several grains where there are many, so that f's own preparations are few.
template <typename F>
void ParallelFor(const Workers* workers, int64_t n, int64_t grain, F f) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = (n - 1) / grain + 1;
  if (workers == nullptr || workers->threads < 2 || grains < 2) return f(int64_t{0}, n);
  const int64_t parts = std::min<int64_t>(grains, MostParts(*workers));
  struct Context {
    F& f;
    int64_t n, grain, grains, parts;
  } context{f, n, grain, grains, parts};
  workers->run(
      workers->self, parts,
      [](void* p, int64_t i) {
        const Context& c = *static_cast<Context*>(p);
        const int64_t begin = c.grains * i / c.parts * c.grain, end = c.grains * (i + 1) / c.parts * c.grain;
        c.f(begin, std::min(end, c.n));
      },
      &context);
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_PARALLEL_H_
