#include "io/inflated.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace slipway::io {

uint64_t MostMadeOf(uint64_t held) {
  constexpr uint64_t kTimes = 4, kAnyhow = uint64_t{1} << 30;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  return held > (kMost - kAnyhow) / kTimes ? kMost : held * kTimes + kAnyhow;
}

absl::StatusOr<Bytes> MembersWithin::Read(const ZipEntry& entry) {
  if (entry.method == ZipMethod::kStored) return zip_.Read(entry, entry.size);
  if (entry.size > left_)
    return absl::ResourceExhaustedError(
        absl::StrCat(zip_.source_name(), ": its deflated members inflate to many times what the archive takes, '",
                     entry.name, "' to ", entry.size, " bytes; as a zip of stored members it takes no memory"));
  left_ -= entry.size;
  return zip_.Read(entry, entry.size);
}

}  // namespace slipway::io
