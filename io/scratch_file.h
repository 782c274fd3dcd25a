// Values that are made on the way from input to output and are too many for memory: a file without a name, which the
// kernel frees with the last mapping of it.
#ifndef SLIPWAY_IO_SCRATCH_FILE_H_
#define SLIPWAY_IO_SCRATCH_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/mapped_file.h"

namespace slipway::io {

class ScratchFile {
 public:
  // In `folder`. Errors of all: IoError()s (io_error.h).
  static absl::StatusOr<std::unique_ptr<ScratchFile>> Make(const std::string& folder);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // At the end; and anywhere, which several threads may do at once.
  absl::Status Append(absl::Span<const uint8_t> bytes);
  absl::Status WriteAt(uint64_t offset, absl::Span<const uint8_t> bytes);
  // Its bytes so far, which outlive it.
  absl::StatusOr<std::shared_ptr<MappedFile>> Map() const;

 private:
  explicit ScratchFile(int fd) : fd_(fd) {}
  const int fd_;
  uint64_t size_ = 0;  // appended
};

}  // namespace slipway::io

#endif  // SLIPWAY_IO_SCRATCH_FILE_H_
