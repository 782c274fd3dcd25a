// Opening and mapping input files.
#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "io/file_access.h"
#include "io/inputs.h"
#include "io/io_error.h"

namespace slipway::io {
namespace {

const char* KindOfFile(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

absl::StatusOr<std::shared_ptr<MappedFile>> MappedFile::Open(std::string_view path_view) {
  std::string path(path_view);
  // O_NONBLOCK: opening a pipe without a writer must not hang before it can be refused.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return IoError(errno, "cannot open", path);
  return Map(std::move(path), fd);
}

absl::StatusOr<std::shared_ptr<MappedFile>> MappedFile::OfBytes(std::string_view name,
                                                                absl::Span<const uint8_t> bytes) {
  const int fd = memfd_create("slipway", MFD_CLOEXEC);
  if (fd < 0) return IoError(errno, "cannot make a file in memory", std::string(name));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      close(fd);
      return IoError(error, "cannot fill a file in memory", std::string(name));
    }
    done += static_cast<size_t>(n);
  }
  return Map(std::string(name), fd);
}

absl::StatusOr<std::shared_ptr<MappedFile>> MappedFile::Map(std::string path, int fd) {
  std::shared_ptr<MappedFile> file(new MappedFile(path, fd, nullptr, 0));  // owns fd from here on
  struct stat info;
  if (fstat(fd, &info) != 0) return IoError(errno, "cannot stat", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is ", KindOfFile(info.st_mode), ", not a regular file"));
  }
  if (info.st_size == 0) {
    AddInput(*file);
    return file;
  }
  if (static_cast<uint64_t>(info.st_size) > std::numeric_limits<size_t>::max()) {
    return absl::OutOfRangeError(absl::StrCat(path, " is too large to map"));
  }
  void* data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return IoError(errno, "cannot map", path);
  file->data_ = static_cast<const uint8_t*>(data);
  file->size_ = static_cast<uint64_t>(info.st_size);
  AddInput(*file);
  return file;
}

MappedFile::~MappedFile() {
  RemoveInput(*this);
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), static_cast<size_t>(size_));
  close(fd_);
}

void MappedFile::Release(uint64_t offset, uint64_t size) const {
  if (offset >= size_) return;
  size = std::min(size, size_ - offset);
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;  // whole pages: the neighbours' bytes come back when touched
  madvise(const_cast<uint8_t*>(data_) + begin, static_cast<size_t>(offset + size - begin), MADV_DONTNEED);
}

bool ReadAt(const MappedFile& file, uint64_t offset, uint64_t size, uint8_t* to) {
  const ssize_t n = pread(file.fd(), to, static_cast<size_t>(size), static_cast<off_t>(offset));
  return n >= 0 && static_cast<uint64_t>(n) == size;
}

bool IsSameFile(const MappedFile& a, const MappedFile& b) {
  struct stat x, y;
  return &a == &b || (fstat(a.fd(), &x) == 0 && fstat(b.fd(), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

}  // namespace slipway::io
