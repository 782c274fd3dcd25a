// The files that a command line names: a report must not take the place of what the command reads or writes, nor an
// output that of weights, calibration data or a configuration.
#ifndef SLIPWAY_DRIVER_EDGE_PATHS_H_
#define SLIPWAY_DRIVER_EDGE_PATHS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "driver/convert/options.h"

namespace slipway::driver {

struct NamedPath {
  enum Role : uint8_t {
    kModel,   // what is converted: an output may replace it, which happens in one step when all is read
    kData,    // anything else that is read
    kOutput,  // the result: a file, or a folder of files that are named in it
    kReport,  // a file that tells about the result
  };
  std::string flag;  // as the command line calls it: "--html", "IN"
  std::string path;
  Role role = kData;
};

// Usage naming two of the paths that are one file, by the same name or through links, where one of them is written: a
// report may be none of the others and no part of a checkpoint in a folder among them; an output may be nothing but a
// model. Empty paths are none.
absl::Status CheckDistinct(absl::Span<const NamedPath> paths);

// The paths among the options of a conversion.
std::vector<NamedPath> PathsOf(const ConvertOptions& o);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_PATHS_H_
