// Whether a file's bytes are those its checksums were made of: `slipway inspect --verify`.
#ifndef SLIPWAY_DRIVER_VERIFY_PAYLOADS_H_
#define SLIPWAY_DRIVER_VERIFY_PAYLOADS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/mapped_file.h"

namespace slipway::driver {

struct Verified {
  uint64_t members = 0;
  uint64_t bytes = 0;  // uncompressed
  // Types that a program declares wrongly and that are known better: what older exporters did.
  std::vector<std::string> corrected;
};

// Reads every member of a zip archive (PT2, torch.save), those of zips within it included, and compares with the CRC-32
// that the archive states. InvalidArgument naming all members that differ. Files of other kinds have no checksums:
// nothing is verified.
absl::StatusOr<Verified> VerifyPayloads(const std::shared_ptr<io::MappedFile>& file);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_VERIFY_PAYLOADS_H_
