// Threads that share the loops of one kernel. A kernel is handed `Workers`, which may be the library's own threads or
// the caller's; it splits only over results that do not depend on each other, so that the bits are the same for any
// number of threads.
#ifndef SLIPWAY_KERNELS_PARALLEL_H_
#define SLIPWAY_KERNELS_PARALLEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>

namespace slipway::kernels {

// A pool that runs tasks at the same time.
struct Workers {
  // How many run at once, the calling thread included.
  int threads = 1;
  // Calls task(context, i) once for each i below `tasks`, on any threads and in any order, and returns when all are
  // done.
  void (*run)(void* self, int64_t tasks, void (*task)(void* context, int64_t i), void* context) = nullptr;
  void* self = nullptr;
};

// Threads that this process has for all its models. The calling thread works too; those that find no work look for it
// for some microseconds and then sleep. One loop at a time has them: another that comes meanwhile runs on its own
// thread alone.
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

// As many threads as this process may use at once: SLIPWAY_NUM_THREADS, else OMP_NUM_THREADS, else the processors it
// may run on.
int DefaultThreads();

// No more parts than this make a loop. Two a thread even out what one thread is held up by.
inline int64_t MostParts(const Workers& w) { return int64_t{2} * w.threads; }

// How [0, n) is split: into parts that are a multiple of `grain` but the last, as many as the workers are worth. A part
// has several grains where there are many, so that preparations for a part are few.
struct Partition {
  Partition(const Workers* workers, int64_t n, int64_t grain)
      : n(std::max<int64_t>(n, 0)), grain(std::max<int64_t>(grain, 1)), grains(n > 0 ? (n - 1) / this->grain + 1 : 0),
        parts(workers == nullptr || workers->threads < 2 ? std::min<int64_t>(grains, 1)
                                                         : std::min(grains, MostParts(*workers))) {}
  int64_t begin(int64_t i) const { return parts < 2 ? 0 : grains * i / parts * grain; }
  int64_t end(int64_t i) const { return parts < 2 ? n : std::min(n, grains * (i + 1) / parts * grain); }

  int64_t n, grain, grains, parts;
};

// Calls f(begin, end) for parts that cover [0, n), as Partition says; `workers` may be null.
template <typename F>
void ParallelFor(const Workers* workers, int64_t n, int64_t grain, F f) {
  struct Context {
    F& f;
    const Partition p;
  } context{f, {workers, n, grain}};
  if (context.p.parts == 0) return;
  if (context.p.parts == 1) return f(int64_t{0}, n);
  workers->run(
      workers->self, context.p.parts,
      [](void* p, int64_t i) {
        const Context& c = *static_cast<Context*>(p);
        c.f(c.p.begin(i), c.p.end(i));
      },
      &context);
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_PARALLEL_H_
