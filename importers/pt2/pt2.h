// Reads PT2 archives of torch 2.5 … 2.13 into ir::Archive. Only headers and graphs are read: weights stay references
// into the mapped file. Those that were saved without values (torch's device meta, FakeTensorMode) are not among the
// program's weights.
#ifndef SLIPWAY_IMPORTERS_PT2_PT2_H_
#define SLIPWAY_IMPORTERS_PT2_PT2_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/mapped_file.h"
#include "ir/graph.h"

namespace slipway::importers {

// True when the file looks like a PT2 archive (a zip with one of the containers' programs inside).
bool LooksLikePt2(const std::shared_ptr<io::MappedFile>& file);

// Errors: InvalidArgument for a malformed archive or program, naming member and place; Unimplemented for features of
// the format slipway does not read, likewise.
absl::StatusOr<ir::Archive> ReadPt2(const std::shared_ptr<io::MappedFile>& file);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_PT2_PT2_H_
