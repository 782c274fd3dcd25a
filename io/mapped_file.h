// A whole input file as read-only memory. Weights are used straight from this mapping or copied file to file, so a
// 100 GB checkpoint costs address space, not RAM.
#ifndef SLIPWAY_IO_MAPPED_FILE_H_
#define SLIPWAY_IO_MAPPED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace slipway::io {

// A regular file mapped from its first byte to its last. Immutable and safe to share between threads.
//
// If another process shortens the file while it is mapped, touching the lost pages raises SIGBUS, as with every
// mapping; copies made through fd() report it as an error instead.
class MappedFile {
 public:
  // Opens and maps `path`. Errors: IoError() (io/io_error.h), NotFound where there is none;
  // InvalidArgument where `path` is not a regular file (a directory, a pipe, a device).
  static absl::StatusOr<std::shared_ptr<MappedFile>> Open(std::string_view path);
  // A copy of `bytes` as a file that is in memory alone and goes with this object; `name` is its path() for messages.
  static absl::StatusOr<std::shared_ptr<MappedFile>> OfBytes(std::string_view name, absl::Span<const uint8_t> bytes);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // The bytes of the file; valid as long as this object lives. Empty for an empty file.
  absl::Span<const uint8_t> data() const { return {data_, static_cast<size_t>(size_)}; }
  // Size in bytes at the time of opening.
  uint64_t size() const { return size_; }
  // Read-only descriptor owned by this object, for copies inside the kernel. Its file position means nothing.
  int fd() const { return fd_; }
  // The path as it was given to Open(), for messages.
  const std::string& path() const { return path_; }

  // Tells the system that the pages of [offset, offset + size) are not needed at present, so that they stop counting
  // as this process's memory. They come back from the file when touched again. Ranges past the end are clipped.
  void Release(uint64_t offset, uint64_t size) const;

 private:
  static absl::StatusOr<std::shared_ptr<MappedFile>> Map(std::string path, int fd);  // owns `fd`

  MappedFile(std::string path, int fd, const uint8_t* data, uint64_t size)
      : path_(std::move(path)), fd_(fd), data_(data), size_(size) {}

  std::string path_;
  int fd_;
  const uint8_t* data_;  // nullptr for an empty file: the system maps no empty range
  uint64_t size_;
};

}  // namespace slipway::io

#endif  // SLIPWAY_IO_MAPPED_FILE_H_
