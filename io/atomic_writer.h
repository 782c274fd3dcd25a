// Output files that appear whole or not at all: written under a temporary name beside the destination, then renamed
// over it. A failure, a full disk or an interrupt leaves what was there before.
#ifndef SLIPWAY_IO_ATOMIC_WRITER_H_
#define SLIPWAY_IO_ATOMIC_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/byte_source.h"
#include "io/inputs.h"

namespace slipway::io {

// One output file, written from front to back. Not for use by several threads at once.
//
// Errors are IoError()s (io/io_error.h) with the destination's path: ResourceExhausted for a full disk or quota,
// PermissionDenied, NotFound (no such folder), and so on. After an error the object is good only for destruction.
//
// The temporary, .NAME.slipway-PID-N.tmp, is removed by the destructor, and by signals as RemoveTemporariesOnSignals()
// says. SIGKILL leaves it behind, for the next process that writes NAME.
class AtomicFile {
 public:
  struct Options {
    // Whether Commit() waits until the bytes are on the disk (fdatasync, and fsync of the folder), so that the file
    // survives a power cut: for files that complete others or that a later run relies on. A file that replaces another
    // always
    // does: the old one is gone. Off for what is new, as with cp: the system writes back later, and errors of write and
    // close are reported all the same.
    bool durable = false;
  };

  // Creates the temporary. `path` must name a regular file or nothing yet; a symbolic link is followed, so that the
  // link stays and its target is replaced. An existing file's permissions are kept.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(std::string_view path, const Options& options);
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(std::string_view path) { return Create(path, Options()); }

  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends bytes. Small writes are gathered.
  absl::Status Write(absl::Span<const uint8_t> bytes);
  absl::Status Write(std::string_view bytes) {
    return Write(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  }
  // Appends `count` zero bytes.
  absl::Status WriteZeros(uint64_t count);
  // Asks for the room of the first `size` bytes, so that a full disk is known before the work is done. What is not
  // written of it is given back.
  absl::Status Reserve(uint64_t size);
  // Appends a part of another file at the speed of cp, none of it mapped: inside the kernel where its pages are pages
  // of this one, too, through a small buffer otherwise. `crc` is the CRC-32 that the bytes should have: InvalidArgument
  // where they came through the buffer and have another. DataLoss where that file has become shorter since it was
  // opened.
  absl::Status CopyFrom(const FileRange& range, std::optional<uint32_t> crc = std::nullopt);
  // Appends either kind of bytes.
  absl::Status Append(const Bytes& bytes, std::optional<uint32_t> crc = std::nullopt);
  // Appends `count` bytes that WriteAt() fills in later; they are zero until then.
  absl::Status Skip(uint64_t count);
  // Replaces bytes already written: [offset, offset + bytes.size()) must lie before position(). Several threads may do
  // this at once for bytes that were skipped, as long as none appends.
  absl::Status WriteAt(uint64_t offset, absl::Span<const uint8_t> bytes);

  // The CRC-32 of bytes [offset, position()), read back from the file: for checksums that stand before what they are
  // of.
  absl::StatusOr<uint32_t> Crc32From(uint64_t offset);

  // Bytes appended so far.
  uint64_t position() const { return written_ + buffer_.size(); }
  // The destination as it was given to Create().
  const std::string& path() const { return path_; }

  // Finishes the file and puts it in place of the destination.
  absl::Status Commit();

 private:
  friend absl::Status CommitAll(absl::Span<AtomicFile* const> files, absl::Span<const std::string> obsolete);
  static absl::Status PutInPlace(absl::Span<AtomicFile* const> files);

  explicit AtomicFile(std::string path) : path_(std::move(path)) {}

  absl::Status Failed(int error, const char* what) const;
  absl::StatusOr<uint64_t> CopyInKernel(const FileRange& range);
  absl::Status Flush();
  absl::Status WriteThrough(const uint8_t* data, uint64_t size);
  absl::Status Finish();
  absl::Status SyncFolder() const;
  void RemoveTemporary();

  std::string path_;         // as given
  std::string destination_;  // after following links
  std::string temporary_;    // empty once it is gone
  Options options_;
  int fd_ = -1;
  int registration_ = -1;  // place in the registry that signals clean up
  uint64_t written_ = 0;   // bytes handed to the system
  uint64_t reserved_ = 0;
  std::vector<uint8_t> buffer_;
};

// A file of these bytes.
absl::Status WriteFile(std::string_view path, std::string_view content, const AtomicFile::Options& options = {});

// From now on SIGBUS, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU and SIGXFSZ remove the temporaries of this
// process, where it had left them to their default, which is then carried out. SIGBUS of a mapped file (io/inputs.h)
// calls `end` instead, which ends the process and is async-signal-safe. For programs: a library has no business with
// its host's signals.
void RemoveTemporariesOnSignals(void (*end)(const LostInput& lost));

// Commits several files that belong together (a model and its weights). An error where an input that this process has
// mapped changed since it was opened (io/inputs.h). None is put in place before all are finished,
// and where putting one in place fails, those already there are taken back and, where the file system can exchange
// names (ext4, xfs, btrfs, tmpfs, overlayfs), the old files restored. The last is to
// be the one that names the others: it is absent for the moment between the renames, so that neither readers nor a kill
// find an old one beside new files.
//
// Once all are in place, what processes that were killed had left of files of these names goes, too: temporaries, and
// the old one that had been put aside, as PATH.PID.before.tmp. It does not come back before: the files that it names
// may be new.
//
// `obsolete` are the paths of files that the new ones take the place of besides those of their names: removed once all
// are in place. Killed before that, both are there.
absl::Status CommitAll(absl::Span<AtomicFile* const> files, absl::Span<const std::string> obsolete = {});

}  // namespace slipway::io

#endif  // SLIPWAY_IO_ATOMIC_WRITER_H_
