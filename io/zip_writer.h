// Writes zip archives of stored members for mapping: every payload begins at a multiple of 64 bytes, as torch's own
// writer does it, and the same members give the same bytes on every run (dates are fixed at 1980-01-01).
#ifndef SLIPWAY_IO_ZIP_WRITER_H_
#define SLIPWAY_IO_ZIP_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "io/atomic_writer.h"
#include "io/byte_source.h"
#include "io/crc32.h"

namespace slipway::io {

// What the directory says of a member.
struct ZipMember {
  std::string name;
  uint64_t size = 0;
  uint64_t header_offset = 0;
  uint32_t crc = 0;
};

// Appends members to an empty AtomicFile, which must outlive this and is committed by its owner after Finish(). After
// an error neither is of further use.
class ZipWriter {
 public:
  // Multiple of which every payload's offset is.
  static constexpr uint64_t kAlignment = 64;

  explicit ZipWriter(AtomicFile* file) : file_(file) {}
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // A member in one step. `name` is relative, with '/' between its parts; InvalidArgument where it is empty, too long
  // (65,535 bytes) or taken already.
  absl::Status Add(std::string_view name, absl::Span<const uint8_t> bytes);
  absl::Status Add(std::string_view name, std::string_view bytes) {
    return Add(name, absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  }
  // As above; `crc` is the CRC-32 of the bytes where it is known, which spares reading them.
  absl::Status Add(std::string_view name, const Bytes& bytes, std::optional<uint32_t> crc = std::nullopt);

  // A member in parts: Begin() with its exact size in bytes, any number of Append(), End().
  absl::Status Begin(std::string_view name, uint64_t size);
  absl::Status Append(absl::Span<const uint8_t> bytes);
  absl::Status Append(const Bytes& bytes, std::optional<uint32_t> crc = std::nullopt);
  absl::Status End();

  // Writes the directory. No member may follow.
  absl::Status Finish();

 private:
  AtomicFile* file_;
  std::vector<ZipMember> members_;
  absl::flat_hash_set<std::string> names_;
  bool open_ = false;       // between Begin() and End()
  uint64_t remaining_ = 0;  // bytes the open member still lacks
};

// Lays out an archive of the same kind that becomes a member of another one (weights of torch up to 2.8 are a zip
// within
// the zip): all headers are made before anything is written, so CRCs are needed at once.
class ZipLayout {
 public:
  // A run of the archive's bytes.
  struct Piece {
    Bytes bytes;
    std::optional<uint32_t> crc;
  };

  // As ZipWriter::Add(). Without `crc` the bytes are read, mapped ones page by page.
  absl::Status Add(std::string_view name, const Bytes& bytes, std::optional<uint32_t> crc = std::nullopt);
  // The whole archive in order; nothing may follow.
  std::vector<Piece> Finish();
  // Bytes so far; of the whole archive after Finish().
  uint64_t size() const { return size_; }

 private:
  std::vector<ZipMember> members_;
  absl::flat_hash_set<std::string> names_;
  std::vector<Piece> pieces_;
  uint64_t size_ = 0;

  void Put(std::string text);
};

}  // namespace slipway::io

#endif  // SLIPWAY_IO_ZIP_WRITER_H_
