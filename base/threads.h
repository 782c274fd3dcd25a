// Work on several threads, where the system may give fewer than are asked for (ulimit -u, limits of containers).
#ifndef SLIPWAY_BASE_THREADS_H_
#define SLIPWAY_BASE_THREADS_H_

#include <system_error>
#include <thread>
#include <vector>

namespace slipway {

// Calls `work` on this thread and at the same time on up to `threads` - 1 others: as many as the system gives, none if
// need be. Returns when all calls have. `work` is to look for things to do until none is left, and throws nothing.
template <typename Work>
void OnThreads(int threads, const Work& work) {
  std::vector<std::thread> others;
  try {
    while (static_cast<int>(others.size()) + 1 < threads) others.emplace_back([&work] { work(); });
  } catch (const std::system_error&) {
  }
  work();
  for (std::thread& t : others) t.join();
}

}  // namespace slipway

#endif  // SLIPWAY_BASE_THREADS_H_
