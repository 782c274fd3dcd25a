// Reads zip archives without copying: PT2 archives and torch.save checkpoints are zips of stored members, and the
// place of each member's bytes in the file is what the rest of slipway works with. libzip inflates but gives no data
// offsets, so this walks the central directory itself (PKWARE APPNOTE 6.3.10: plain and zip64 records, data
// descriptors, stored and deflated members).
#ifndef SLIPWAY_IO_ZIP_READER_H_
#define SLIPWAY_IO_ZIP_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/byte_source.h"

namespace slipway::io {

// How a member's bytes are kept: the only two methods that are read.
enum class ZipMethod : uint16_t { kStored = 0, kDeflated = 8 };

// One member, as the central directory states it and its local header confirms.
struct ZipEntry {
  std::string name;  // relative, '/' between parts, no ".." part, no NUL; unique in the archive
  ZipMethod method = ZipMethod::kStored;
  uint16_t flags = 0;            // general purpose flags of the central directory
  uint32_t crc32 = 0;            // of the uncompressed bytes
  uint64_t compressed_size = 0;  // bytes in the archive
  uint64_t size = 0;             // bytes uncompressed; equals compressed_size for a stored member
  uint64_t data_offset = 0;      // of the first byte of the data, from the start of the archive
};

// An opened archive. Immutable and safe to share between threads.
class ZipReader {
 public:
  // Most members an archive may have.
  static constexpr uint64_t kMaxEntries = 1'000'000;

  // Reads and checks the whole directory of the archive that fills `archive`: a file, or a part of one (a zip stored
  // inside a zip). No data of members is read.
  //
  // Errors: InvalidArgument where this is not a zip, or its records are truncated, contradict each other or the
  // local headers, point outside, overlap, repeat a name or use a name that leaves the archive's folder;
  // Unimplemented for encrypted members, compression methods other than stored and deflated, and split archives.
  // Messages name the file, the member and the byte offset within the archive.
  static absl::StatusOr<std::shared_ptr<const ZipReader>> Open(Bytes archive);
  static absl::StatusOr<std::shared_ptr<const ZipReader>> Open(std::shared_ptr<MappedFile> file) {
    return Open(Bytes::Of(std::move(file)));
  }

  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  // All members, in the order of the directory.
  absl::Span<const ZipEntry> entries() const { return entries_; }
  // The member of that exact name, or nullptr. Valid as long as this reader.
  const ZipEntry* Find(std::string_view name) const;

  // The bytes of a stored member as a part of the archive's file; nothing is read, so the CRC is not checked.
  // FailedPrecondition where the member is deflated or the archive itself is in memory.
  absl::StatusOr<FileRange> Raw(const ZipEntry& entry) const;

  // The uncompressed bytes of a member by reference: a stored member costs nothing (and its CRC is not checked),
  // a deflated one is inflated into memory and checked. OutOfRange where `entry.size` exceeds `limit` bytes.
  absl::StatusOr<Bytes> Read(const ZipEntry& entry, uint64_t limit) const;

  // The uncompressed bytes of a member, copied; the CRC is checked. OutOfRange where `entry.size` exceeds `limit`
  // bytes, InvalidArgument where the data is corrupt.
  absl::StatusOr<std::string> ReadAll(const ZipEntry& entry, uint64_t limit) const;

  // The name of the file for messages.
  const std::string& source_name() const { return source_name_; }

 private:
  explicit ZipReader(Bytes archive);

  absl::Status ReadDirectory();
  absl::Status CheckOverlaps(absl::Span<const uint64_t> header_offsets) const;

  Bytes archive_;
  std::string source_name_;
  std::vector<ZipEntry> entries_;
  absl::flat_hash_map<std::string_view, uint32_t> index_;  // name (owned by entries_) -> place in entries_
};

}  // namespace slipway::io

#endif  // SLIPWAY_IO_ZIP_READER_H_
