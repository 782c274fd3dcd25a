// ir::Archive -> PT2 archive, in the layout of torch 2.9 … 2.13 or in that of 2.5 … 2.7, which all releases since 2.6
// load. Weights are copied file to file.
#ifndef SLIPWAY_EXPORTERS_PT2_PT2_H_
#define SLIPWAY_EXPORTERS_PT2_PT2_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exporters/pt2/program.h"
#include "ir/graph.h"

namespace slipway::exporters {

struct Pt2Options {
  TorchTarget target = TorchTarget::k29;
  bool weights = true;    // false: graphs only; torch wants the weights put back before it runs them
  bool check_crc = false; // read every payload whose CRC-32 the source states, and compare
  std::function<void(uint64_t done, uint64_t total)> progress;  // payload bytes; may be empty
};

struct Pt2Report {
  uint64_t weight_bytes = 0;  // written for tensors, shared ones once
  uint64_t file_bytes = 0;
};

// Writes the programs, which keep their form, to `path`, atomically. Programs may share tensors: bytes that two of them
// hold alike are written once. `dry_run` stops before writing.
//
// Errors: Unimplemented for what the format cannot say, all of it at once; InvalidArgument for program names that cannot
// be members' names or repeat, and for payloads that fail their CRC; and those of io::AtomicFile.
absl::StatusOr<Pt2Report> ExportPt2(const ir::Archive& archive, const std::string& path, const Pt2Options& options, bool dry_run);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_PT2_PT2_H_
