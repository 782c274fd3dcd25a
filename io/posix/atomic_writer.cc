// Temporaries, copies inside the kernel, renames, and the registry of what a stopped process has to remove.
#include "io/atomic_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "io/crc32.h"
#include "io/inputs.h"
#include "io/io_error.h"
#include "io/signal_slots.h"

namespace slipway::io {
namespace {

// Writes below this are gathered.
constexpr size_t kBufferSize = size_t{256} << 10;
// Bytes of one copy in the kernel: large enough for full speed, small enough to be interrupted soon.
constexpr uint64_t kCopyChunk = uint64_t{16} << 20;
constexpr uint64_t kPage = 4096;
// Bytes of one write. Measured on ext4 of Linux 6.18: calls of 1 MiB and more take five times as long a byte.
constexpr uint64_t kWriteChunk = uint64_t{512} << 10;
// Files from this size on ask for their room first, so that a full disk is known before the work is done.
constexpr uint64_t kReserveFrom = uint64_t{16} << 20;
constexpr int kMaxNameAttempts = 1000;

// ----- the registry of temporaries

constinit SignalSlots<char> temporaries;  // paths
pid_t owner;                              // a forked child must not remove its parent's files
void (*end_on_lost_input)(const LostInput& lost);

// Async-signal-safe: atomics, getpid and unlink only. The paths are not freed: free() is not safe here.
void RemoveAllTemporaries() {
  const int saved_errno = errno;
  if (getpid() == owner) temporaries.TakeAll([](const char& path) { unlink(&path); });
  errno = saved_errno;
}

void OnSignal(int signal_number) {
  RemoveAllTemporaries();
  raise(signal_number);  // SA_RESETHAND has put the default back
}

void OnBusError(int signal_number, siginfo_t* info, void*) {
  RemoveAllTemporaries();
  LostInput lost;
  if (info->si_code > 0 && FindLostInput(info->si_addr, &lost)) end_on_lost_input(lost);
  raise(signal_number);
}

int Register(const std::string& path) { return temporaries.Add(strdup(path.c_str())); }
void Unregister(int place) { free(temporaries.Take(place)); }

// ----- paths

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// `path` with a symbolic link at its end followed, as far as it leads.
absl::StatusOr<std::string> FollowLinks(std::string path) {
  for (int i = 0; i < 40; ++i) {
    struct stat info;
    if (lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
    char target[PATH_MAX];
    const ssize_t size = readlink(path.c_str(), target, sizeof(target));
    if (size < 0) return IoError(errno, "cannot read the link", path);
    if (size == sizeof(target)) return IoError(ENAMETOOLONG, "cannot follow the link", path);
    std::string next(target, size);
    path = next[0] == '/' ? next : absl::StrCat(FolderOf(path), "/", next);
  }
  return IoError(ELOOP, "cannot follow the link", path);
}

bool IsFile(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Where the file that names several others waits while these are put in place.
constexpr absl::string_view kAside = ".before.tmp";
std::string AsideOf(const std::string& path, pid_t pid) { return absl::StrCat(path, ".", pid, kAside); }

constexpr absl::string_view kTemporary = ".slipway-";
constexpr size_t kMostOfName = 180;  // of a destination's name in a temporary's: file systems allow 255 bytes
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Which file's temporary, or old file put aside, a name in a folder is, and the process that made it; 0 for other
// names.
int MakerOf(absl::string_view name, absl::string_view* file) {
  absl::string_view pid;
  if (absl::ConsumeSuffix(&name, kAside)) {
    const size_t dot = name.rfind('.');
    if (dot == name.npos) return 0;
    *file = name.substr(0, dot);
    pid = name.substr(dot + 1);
  } else {
    const size_t mark = name.rfind(kTemporary);
    if (mark == name.npos || mark == 0 || !absl::ConsumeSuffix(&name, ".tmp") || !absl::ConsumePrefix(&name, "."))
      return 0;
    *file = name.substr(0, mark - 1);
    pid = name.substr(mark - 1 + kTemporary.size());
    pid = pid.substr(0, pid.find('-'));
  }
  int number;
  return absl::SimpleAtoi(pid, &number) && number > 0 ? number : 0;
}

// Removes what processes that were killed left in the folder of files of these names. What one that lives made is in
// use.
void RemoveLeftovers(const std::string& folder, const std::set<std::string>& names) {
  std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), closedir);
  if (open == nullptr) return;
  std::vector<std::string> found;
  while (const dirent* entry = readdir(open.get())) {
    absl::string_view file;
    const int maker = MakerOf(entry->d_name, &file);
    if (maker == 0 || maker == getpid() || !names.contains(std::string(file))) continue;
    if (kill(maker, 0) != 0 && errno == ESRCH) found.push_back(absl::StrCat(folder, "/", entry->d_name));
  }
  for (const std::string& path : found)
    if (IsFile(path)) unlink(path.c_str());
}

// Whether a failed or empty call says that this way of copying does not work here, rather than that copying failed.
bool NotSupportedHere(int error) {
  return error == EINVAL || error == EXDEV || error == ENOSYS || error == EOPNOTSUPP || error == ETXTBSY ||
         error == EPERM;
}

}  // namespace

void RemoveTemporariesOnSignals(void (*end)(const LostInput& lost)) {
  owner = getpid();
  end_on_lost_input = end;
  for (int signal_number : {SIGBUS, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU, SIGXFSZ}) {
    struct sigaction current;
    // A signal that is ignored (nohup) or that the program handles stays as it is.
    if (sigaction(signal_number, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) != 0 ||
        current.sa_handler != SIG_DFL)
      continue;
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    action.sa_flags = SA_RESETHAND;
    if (signal_number == SIGBUS) {
      action.sa_sigaction = OnBusError;
      action.sa_flags |= SA_SIGINFO;
    }
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, nullptr);
  }
}

absl::Status AtomicFile::Failed(int error, const char* what) const {
  return IoError(error, absl::StrCat("cannot ", what), path_);
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(std::string_view path, const Options& options) {
  std::unique_ptr<AtomicFile> file(new AtomicFile(std::string(path)));
  file->options_ = options;
  if (path.empty() || path.back() == '/') {
    return absl::InvalidArgumentError(absl::StrCat("'", file->path_, "' does not name a file"));
  }
  absl::StatusOr<std::string> destination = FollowLinks(file->path_);
  if (!destination.ok()) return destination.status();
  file->destination_ = *std::move(destination);
  mode_t mode = 0666;  // less the process's umask
  bool replaces = false;
  struct stat info;
  if (stat(file->destination_.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(file->path_, " exists and is not a regular file"));
    }
    mode = info.st_mode & 0777;
    replaces = file->options_.durable = true;
  } else if (errno != ENOENT) {
    return file->Failed(errno, "write");
  }

  static std::atomic<uint64_t> counter = 0;
  const std::string& target = file->destination_;
  const std::string folder = FolderOf(target);
  const std::string name = NameOf(target).substr(0, kMostOfName);
  for (int attempt = 0;; ++attempt) {
    std::string temporary = absl::StrCat(folder, "/.", name, kTemporary, getpid(), "-", counter.fetch_add(1), ".tmp");
    // Registered first: a signal between the two calls must find it.
    file->registration_ = Register(temporary);
    file->fd_ = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file->fd_ >= 0) {
      file->temporary_ = std::move(temporary);
      break;
    }
    const int error = errno;
    Unregister(file->registration_);
    if (error != EEXIST || attempt == kMaxNameAttempts) return file->Failed(error, "write");
  }
  if (replaces && fchmod(file->fd_, mode) != 0 && errno != EPERM) return file->Failed(errno, "set the permissions of");
  file->buffer_.reserve(kBufferSize);
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  RemoveTemporary();
}

void AtomicFile::RemoveTemporary() {
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  Unregister(registration_);
  temporary_.clear();
}

absl::Status AtomicFile::Reserve(uint64_t size) {
  if (size < kReserveFrom) return absl::OkStatus();
  if (fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0) {
    reserved_ = size;
    return absl::OkStatus();
  }
  // Other errors say that this file system cannot.
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? Failed(errno, "write") : absl::OkStatus();
}

absl::Status AtomicFile::WriteThrough(const uint8_t* data, uint64_t size) {
  while (size > 0) {
    const ssize_t count = write(fd_, data, std::min(size, kWriteChunk));
    if (count < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      // The bytes lie in a mapping that has lost them.
      if (absl::Status s = error == EFAULT ? InputsUnchanged() : absl::OkStatus(); !s.ok()) return s;
      return Failed(error, "write");
    }
    data += count;
    size -= count;
    written_ += count;
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Flush() {
  absl::Status status = WriteThrough(buffer_.data(), buffer_.size());
  buffer_.clear();
  return status;
}

absl::Status AtomicFile::Write(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < kBufferSize) {
    if (buffer_.size() + bytes.size() > kBufferSize) {
      if (absl::Status status = Flush(); !status.ok()) return status;
    }
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  if (absl::Status status = Flush(); !status.ok()) return status;
  return WriteThrough(bytes.data(), bytes.size());
}

absl::Status AtomicFile::WriteZeros(uint64_t count) {
  static constexpr uint8_t kZeros[4096] = {};
  while (count > 0) {
    const uint64_t size = std::min<uint64_t>(count, sizeof(kZeros));
    if (absl::Status status = Write(absl::MakeConstSpan(kZeros, size)); !status.ok()) return status;
    count -= size;
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Skip(uint64_t count) {
  if (count == 0) return absl::OkStatus();
  if (absl::Status status = Flush(); !status.ok()) return status;
  if (ftruncate(fd_, static_cast<off_t>(written_ + count)) != 0 ||
      lseek(fd_, static_cast<off_t>(written_ + count), SEEK_SET) < 0)
    return Failed(errno, "write");
  written_ += count;
  return absl::OkStatus();
}

// Bytes [at, at + size) of the file, at most; 0 where it has become shorter.
absl::StatusOr<uint64_t> ReadSome(const MappedFile& file, uint8_t* to, uint64_t size, uint64_t at) {
  for (;;) {
    const ssize_t count = pread(file.fd(), to, size, static_cast<off_t>(at));
    if (count > 0) return static_cast<uint64_t>(count);
    if (count == 0)
      return absl::DataLossError(absl::StrCat(file.path(), " changed while it was read: byte ", at, " is missing"));
    if (errno != EINTR) return IoError(errno, "cannot read", file.path());
  }
}

// Between files of one file system, maybe by sharing the blocks; then across file systems. Returns how many bytes:
// fewer where the rest cannot be copied this way.
absl::StatusOr<uint64_t> AtomicFile::CopyInKernel(const FileRange& range) {
  const int source = range.file->fd();
  off_t from = static_cast<off_t>(range.offset);
  uint64_t left = range.size;
  while (left > 0) {
    const ssize_t count = copy_file_range(source, &from, fd_, nullptr, std::min(left, kCopyChunk), 0);
    if (count > 0) {
      left -= count;
    } else if (count == 0 || NotSupportedHere(errno)) {
      break;
    } else if (errno != EINTR) {
      return Failed(errno, "write");
    }
  }
  while (left > 0) {
    const ssize_t count = sendfile(fd_, source, &from, std::min(left, kCopyChunk));
    if (count > 0) {
      left -= count;
    } else if (count == 0 || NotSupportedHere(errno)) {
      break;
    } else if (errno != EINTR && errno != EAGAIN) {
      return Failed(errno, "write");
    }
  }
  written_ += range.size - left;
  return range.size - left;
}

absl::Status AtomicFile::CopyFrom(const FileRange& range, std::optional<uint32_t> crc) {
  if (range.size == 0) return absl::OkStatus();
  const MappedFile& file = *range.file;
  uint32_t sum = 0;
  uint64_t done = 0;
  bool summed = crc.has_value();
  if (range.size < kBufferSize) {
    if (buffer_.size() + range.size > kBufferSize) {
      if (absl::Status status = Flush(); !status.ok()) return status;
    }
    const size_t begin = buffer_.size();
    buffer_.resize(begin + range.size);
    while (done < range.size) {
      absl::StatusOr<uint64_t> count =
          ReadSome(file, buffer_.data() + begin + done, range.size - done, range.offset + done);
      if (!count.ok()) return count.status();
      done += *count;
    }
    if (summed) sum = Crc32(0, absl::MakeConstSpan(buffer_).subspan(begin));
  } else {
    if (absl::Status status = Flush(); !status.ok()) return status;
    // Where pages of the one file straddle those of the other, the kernel takes 1.5 times as long to copy them by
    // itself as through a buffer that stays in the processor's cache (ext4, 1 GB: 0.94 s, 0.65 s; cp, whose pages
    // agree, 0.6 s).
    if ((range.offset - written_) % kPage == 0) {
      absl::StatusOr<uint64_t> count = CopyInKernel(range);
      if (!count.ok()) return count.status();
      done = *count;
      summed = summed && done == 0;
    }
    std::vector<uint8_t> block(std::min(range.size - done, kWriteChunk));
    while (done < range.size) {
      absl::StatusOr<uint64_t> count =
          ReadSome(file, block.data(), std::min<uint64_t>(range.size - done, block.size()), range.offset + done);
      if (!count.ok()) return count.status();
      if (summed) sum = Crc32(sum, absl::MakeConstSpan(block).first(*count));
      if (absl::Status status = WriteThrough(block.data(), *count); !status.ok()) return status;
      done += *count;
    }
  }
  return summed ? CheckCrc(sum, *crc) : absl::OkStatus();
}

absl::Status AtomicFile::Append(const Bytes& bytes, std::optional<uint32_t> crc) {
  if (const FileRange* range = bytes.file_range()) return CopyFrom(*range, crc);
  return Write(bytes.data());
}

absl::Status AtomicFile::WriteAt(uint64_t offset, absl::Span<const uint8_t> bytes) {
  if (offset > position() || bytes.size() > position() - offset) {
    return absl::InternalError(absl::StrCat("bytes to replace lie behind the end of ", path_));
  }
  if (offset >= written_) {
    std::copy(bytes.begin(), bytes.end(), buffer_.begin() + (offset - written_));
    return absl::OkStatus();
  }
  if (!buffer_.empty())
    if (absl::Status status = Flush(); !status.ok()) return status;
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (count < 0) {
      if (errno == EINTR) continue;
      return Failed(errno, "write");
    }
    bytes.remove_prefix(count);
    offset += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> AtomicFile::Crc32From(uint64_t offset) {
  if (absl::Status status = Flush(); !status.ok()) return status;
  std::vector<uint8_t> block(kWriteChunk);
  uint32_t crc = 0;
  while (offset < written_) {
    const ssize_t count =
        pread(fd_, block.data(), std::min<uint64_t>(block.size(), written_ - offset), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Failed(count < 0 ? errno : EIO, "read back");
    crc = Crc32(crc, absl::MakeConstSpan(block).first(static_cast<size_t>(count)));
    offset += static_cast<uint64_t>(count);
  }
  return crc;
}

// Everything but the rename.
absl::Status AtomicFile::Finish() {
  if (fd_ < 0) return absl::FailedPreconditionError(absl::StrCat(path_, " is committed already"));
  if (absl::Status status = Flush(); !status.ok()) return status;
  // gives back the rest
  if (reserved_ > written_ && ftruncate(fd_, static_cast<off_t>(written_)) != 0) return Failed(errno, "write");
  if (options_.durable && fdatasync(fd_) != 0) return Failed(errno, "write");
  const int fd = fd_;
  fd_ = -1;
  // Network file systems report a full disk only here. Never closed twice: Linux frees the descriptor in any case.
  if (close(fd) != 0 && errno != EINTR) return Failed(errno, "write");
  return absl::OkStatus();
}

absl::Status AtomicFile::SyncFolder() const {
  if (!options_.durable) return absl::OkStatus();
  const int fd = open(FolderOf(destination_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed(errno, "sync the folder of");
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  // Some file systems cannot sync folders; the file itself is on the disk.
  return result != 0 && error != EINVAL ? Failed(error, "sync the folder of") : absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  AtomicFile* self = this;
  return CommitAll(absl::MakeConstSpan(&self, 1));
}

// Gives all finished files their names. Old files that must come back on failure change places with the temporaries,
// which then hold them. The old one that names the others is put aside for that time: killed in between, there is none
// rather than one that reads others' bytes.
absl::Status AtomicFile::PutInPlace(absl::Span<AtomicFile* const> files) {
  const auto exchange = [](const std::string& a, const std::string& b) {
    return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
  };
  const bool several = files.size() > 1;
  const std::string& last = files.back()->destination_;
  const std::string aside = AsideOf(last, getpid());
  const bool put_aside = several && IsFile(last);
  if (put_aside && rename(last.c_str(), aside.c_str()) != 0) return files.back()->Failed(errno, "put in place");

  enum class Placed { kRenamed, kExchanged };
  std::vector<Placed> placed;
  absl::Status status;
  for (AtomicFile* file : files) {
    if (several && IsFile(file->destination_) && exchange(file->temporary_, file->destination_)) {
      placed.push_back(Placed::kExchanged);
    } else if (rename(file->temporary_.c_str(), file->destination_.c_str()) == 0) {
      placed.push_back(Placed::kRenamed);
    } else {
      status = file->Failed(errno, "put in place");
      break;
    }
  }
  if (!status.ok()) {
    for (size_t i = 0; i < placed.size(); ++i) {
      if (placed[i] == Placed::kExchanged) {
        exchange(files[i]->temporary_, files[i]->destination_);
      } else {
        rename(files[i]->destination_.c_str(), files[i]->temporary_.c_str());
      }
    }
    if (put_aside) rename(aside.c_str(), last.c_str());
  } else if (put_aside) {
    unlink(aside.c_str());
  }
  return status;
}

absl::Status WriteFile(std::string_view path, std::string_view content, const AtomicFile::Options& options) {
  auto file = AtomicFile::Create(path, options);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Write(content); !s.ok()) return s;
  return (*file)->Commit();
}

absl::Status CommitAll(absl::Span<AtomicFile* const> files, absl::Span<const std::string> obsolete) {
  for (AtomicFile* file : files) {
    if (absl::Status status = file->Finish(); !status.ok()) return status;
  }
  if (absl::Status status = InputsUnchanged(); !status.ok()) return status;
  // From here on it is names only, and what signals would clean up is half in place.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status = AtomicFile::PutInPlace(files);
  for (const std::string& path : obsolete) {
    if (status.ok() && unlink(path.c_str()) != 0 && errno != ENOENT) {
      status = IoError(errno, "cannot remove", path);
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!status.ok()) return status;
  for (AtomicFile* file : files) file->RemoveTemporary();  // the old file, or nothing
  std::map<std::string, std::set<std::string>> names;
  const auto add = [&](const std::string& path) {
    names[FolderOf(path)].insert({NameOf(path), NameOf(path).substr(0, kMostOfName)});
  };
  for (AtomicFile* file : files) add(file->destination_);
  for (const std::string& path : obsolete) add(path);
  for (const auto& [folder, of_folder] : names) RemoveLeftovers(folder, of_folder);
  for (AtomicFile* file : files) {
    if (absl::Status synced = file->SyncFolder(); !synced.ok()) return synced;
  }
  return absl::OkStatus();
}

}  // namespace slipway::io
