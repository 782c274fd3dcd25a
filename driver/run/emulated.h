// A native library of another machine, run under an emulator of it.
#ifndef SLIPWAY_DRIVER_RUN_EMULATED_H_
#define SLIPWAY_DRIVER_RUN_EMULATED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/machine.h"
#include "driver/edge/format.h"
#include "driver/verify/inputs.h"

namespace slipway::driver {

// The machine that the library is for, where that is another than this one that is known; else null.
const Machine* ForeignMachine(const Source& source);

struct EmulatorOptions {
  std::string emulator;  // its path; "": the machine's, by name, in PATH
  int threads = 0;
  int64_t repeat = 1;        // runs of each set; outputs are those of the last
  bool reset_state = false;  // before each set
};

struct EmulatedRun {
  absl::StatusOr<Tensors> outputs;  // or what the model refuses, as NativeLibrary::Execute() says it
  std::vector<double> seconds;      // of each run, as the emulated machine measures
};

// Runs the library in a process of the emulator, all sets in order in one. **The library's code is run.**
// Unimplemented, with the next step, where this slipway or this machine lacks what that takes; InvalidArgument for what
// is cut off or no model.
absl::StatusOr<std::vector<EmulatedRun>> RunEmulated(const std::string& library, const Machine& machine,
                                                     absl::Span<const Tensors> sets, const EmulatorOptions& options);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_RUN_EMULATED_H_
