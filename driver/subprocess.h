// Commands that may crash, hang or eat memory, run where they can do no harm: in a process group of their own, with limits, their
// output read as it comes.
#ifndef SLIPWAY_DRIVER_SUBPROCESS_H_
#define SLIPWAY_DRIVER_SUBPROCESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace slipway::driver {

struct ProcessLimits {
  double seconds = 0;   // of wall time; 0: none. The whole group is killed then
  uint64_t memory = 0;  // bytes of writable memory of each process (RLIMIT_DATA); 0: none
};

struct ProcessResult {
  enum How : uint8_t { kExited, kSignalled, kTimedOut } how = kExited;
  int code = 0;          // the exit code or the signal
  std::string out, err;  // the first and last 256 KiB of each
};

// Runs `argv`, whose first is a path or found in PATH, without input. Once it has ended, what it started is killed. Thread-safe.
// Errors: those of the system for making a process; Unavailable for a program that cannot be run.
absl::StatusOr<ProcessResult> RunProcess(const std::vector<std::string>& argv, const ProcessLimits& limits);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_SUBPROCESS_H_
