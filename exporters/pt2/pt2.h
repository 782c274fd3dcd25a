// ir::Archive -> PT2 archive, in the layout of torch 2.9 … 2.13 or in that of 2.5 … 2.7, which all releases since 2.6
// load. Weights are copied file to file.
#ifndef SLIPWAY_EXPORTERS_PT2_PT2_H_
#define SLIPWAY_EXPORTERS_PT2_PT2_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "exporters/output_limit.h"
#include "exporters/pt2/program.h"
#include "io/zip_writer.h"
#include "ir/graph.h"

namespace slipway::exporters {

struct Pt2Options {
  TorchTarget target = TorchTarget::k29;
  bool weights = true;               // false: graphs only; torch wants the weights put back before it runs them
  uint64_t max_output = kAnyOutput;  // bytes of payloads
  std::function<void(uint64_t done, uint64_t total)> progress;  // payload bytes; may be empty
  // Adds members of others' to an archive in the layout of torch 2.9, whose members all lie in `folder` ("name/"); may
  // be empty.
  std::function<absl::Status(io::ZipWriter& zip, const std::string& folder)> more;
};

struct Pt2Report {
  uint64_t weight_bytes = 0;  // written for tensors, shared ones once
  uint64_t file_bytes = 0;
};

struct Pt2File {
  const ir::Archive* archive;  // the caller's
  std::string path;
};

// Whether an archive can have an extra file of this name.
bool MayNameExtraFile(std::string_view name);

// Writes each archive's programs, which keep their form, to its path: all files or none of them. Programs of an archive
// may share tensors: bytes that two of them hold alike are written once. The report is of all files together. `dry_run`
// stops before writing.
//
// Errors: Unimplemented for what the format cannot say, all of an archive at once; InvalidArgument for program names
// that cannot be members' names or repeat, and for payloads that fail their CRC; and those of io::AtomicFile.
absl::StatusOr<Pt2Report> ExportPt2(absl::Span<const Pt2File> files, const Pt2Options& options, bool dry_run);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_PT2_PT2_H_
