// `slipway unpack`: the programs of an archive, each in an archive of its own.
#ifndef SLIPWAY_DRIVER_INSPECT_UNPACK_H_
#define SLIPWAY_DRIVER_INSPECT_UNPACK_H_

#include <string>
#include <vector>

#include "driver/convert/convert.h"

namespace slipway::driver {

struct UnpackOptions {
  std::string input;
  std::string folder;                 // made where it is missing
  std::vector<std::string> programs;  // names; none: all
  ConvertOptions convert;             // of which torch, check_crc, max_output, dry_run and progress apply
};

struct UnpackReport {
  std::vector<std::string> files;
  ConvertSummary summary;
};

// Writes FOLDER/NAME.pt2 for every program, with its own weights and all extra files: convert's inverse of packing
// several programs into one archive. All files or none of them.
Outcome Unpack(const UnpackOptions& options, UnpackReport* report);

// One object of schemas/unpack.schema.json.
std::string ToJson(const UnpackOptions& options, const UnpackReport& report);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_INSPECT_UNPACK_H_
