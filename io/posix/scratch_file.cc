// The file is unlinked as soon as it is open, and mapped through /proc, which has no need of its name.
#include "io/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "io/io_error.h"

namespace slipway::io {

absl::StatusOr<std::unique_ptr<ScratchFile>> ScratchFile::Make(const std::string& folder) {
  std::string path = absl::StrCat(folder, "/.slipway-XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return IoError(errno, folder);
  unlink(path.c_str());
  return std::unique_ptr<ScratchFile>(new ScratchFile(fd));
}

ScratchFile::~ScratchFile() { close(fd_); }

absl::Status ScratchFile::Append(absl::Span<const uint8_t> bytes) {
  const uint64_t at = size_;
  size_ += bytes.size();
  return WriteAt(at, bytes);
}

absl::Status ScratchFile::WriteAt(uint64_t offset, absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return IoError(errno, "a scratch file for weights");
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<MappedFile>> ScratchFile::Map() const {
  return MappedFile::Open(absl::StrCat("/proc/self/fd/", fd_));
}

}  // namespace slipway::io
