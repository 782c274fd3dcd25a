// ir::Program -> a native library: a copy of the template with the plan and the weights inside, made without a compiler
// or a linker; or the package of it that torch's own loader of AOT packages opens.
#ifndef SLIPWAY_EXPORTERS_NATIVE_NATIVE_H_
#define SLIPWAY_EXPORTERS_NATIVE_NATIVE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/machine.h"
#include "exporters/output_limit.h"
#include "io/byte_source.h"
#include "ir/graph.h"
#include "planner/planner.h"

namespace slipway::exporters {

struct NativeOptions {
  const Machine* machine = &kThisMachine;  // HasTemplate() holds
  bool package = false;                    // a PT2 archive with the library in it
  // … and with these programs, as torch.export.load opens them: what was exported, of which `program` was made. May be
  // null.
  const ir::Archive* with_program = nullptr;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::pair<std::string, io::Bytes>> plugins;  // shared libraries that ride inside, with names for messages
  std::function<void(uint64_t done, uint64_t total)> progress;  // weight bytes; may be empty
  uint64_t max_output = kAnyOutput;                             // bytes
};

struct NativeReport {
  int steps = 0;
  uint64_t weight_bytes = 0, file_bytes = 0;
};

// Writes the library to `path`, atomically. `program` is what `planned` was made of: its signature says what callers
// see. Weights are copied file to file. The same program and options give the same bytes. `dry_run` stops before
// writing.
//
// Errors: Unimplemented for what a library cannot hold; those of io::AtomicFile.
absl::StatusOr<NativeReport> ExportNative(const ir::Program& program, const planner::PlannedProgram& planned,
                                          const std::string& path, const NativeOptions& options, bool dry_run);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_NATIVE_NATIVE_H_
