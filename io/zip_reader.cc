// Walks a zip's central directory and checks every record before anything is believed.
//
// An archive that two readers could understand differently is refused: the records at the end must agree with each
// other, each local header with the directory, and no two members may share bytes.
#include "io/zip_reader.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace slipway::io {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocatorSignature = 0x07064b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint64_t kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20, kCentralSize = 46, kLocalSize = 30;
constexpr uint64_t kMaxComment = 0xffff;
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kFlagEncrypted = 1 << 0, kFlagDescriptor = 1 << 3, kFlagPatched = 1 << 5, kFlagStrong = 1 << 6,
                   kFlagMasked = 1 << 13;
constexpr uint32_t kSaturated32 = 0xffffffff;
constexpr uint16_t kSaturated16 = 0xffff;
// Deflate cannot expand by more than this (258 bytes from two bits, plus headers); larger claims are lies.
constexpr uint64_t kMaxDeflateRatio = 1032;

// Little-endian integers at a place that the caller has checked.
uint16_t U16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
uint32_t U32(const uint8_t* p) { return U16(p) | static_cast<uint32_t>(U16(p + 2)) << 16; }
uint64_t U64(const uint8_t* p) { return U32(p) | static_cast<uint64_t>(U32(p + 4)) << 32; }

// True where [offset, offset + size) lies in [0, limit).
bool Inside(uint64_t offset, uint64_t size, uint64_t limit) { return offset <= limit && size <= limit - offset; }

std::string Quoted(std::string_view name) {
  constexpr size_t kMost = 300;  // bytes; names may have 65,535
  const bool cut = name.size() > kMost;
  name = name.substr(0, kMost);
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(absl::string_view(name.data(), name.size())), cut ? "\"…" : "\"");
}

// Where the directory is.
struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t count = 0;
};

// The three 64-bit fields that a 32-bit header leaves to the zip64 extra field when saturated.
struct Sizes {
  uint64_t size = 0;
  uint64_t compressed_size = 0;
  uint64_t header_offset = 0;
};

// Fills the saturated members of `sizes` from the zip64 extra field, in the order the format fixes.
absl::Status ApplyZip64(absl::Span<const uint8_t> extra, Sizes* sizes) {
  uint64_t* fields[] = {&sizes->size, &sizes->compressed_size, &sizes->header_offset};
  if (std::none_of(std::begin(fields), std::end(fields), [](uint64_t* field) { return *field == kSaturated32; })) {
    return absl::OkStatus();
  }
  while (extra.size() >= 4) {
    const uint16_t id = U16(extra.data()), length = U16(extra.data() + 2);
    extra.remove_prefix(4);
    if (length > extra.size()) break;
    if (id == kZip64Extra) {
      absl::Span<const uint8_t> values = extra.first(length);
      for (uint64_t* field : fields) {
        if (*field != kSaturated32) continue;
        if (values.size() < 8) return absl::InvalidArgumentError("its zip64 extra field is too short");
        *field = U64(values.data());
        values.remove_prefix(8);
      }
      return absl::OkStatus();
    }
    extra.remove_prefix(length);
  }
  return absl::InvalidArgumentError("its sizes are left to a zip64 extra field that is missing");
}

absl::Status CheckName(std::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("its name is empty");
  if (name.find('\0') != name.npos) return absl::InvalidArgumentError("its name contains a NUL byte");
  if (name.front() == '/') return absl::InvalidArgumentError("its name is an absolute path");
  for (size_t begin = 0, end; begin <= name.size(); begin = end + 1) {
    end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") {
      return absl::InvalidArgumentError("its name leaves the archive's folder");
    }
  }
  return absl::OkStatus();
}

// The end record: the last one whose comment reaches exactly the end of the archive.
std::optional<uint64_t> FindEnd(absl::Span<const uint8_t> data) {
  if (data.size() < kEndSize) return std::nullopt;
  const uint64_t last = data.size() - kEndSize;
  const uint64_t first = last > kMaxComment ? last - kMaxComment : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    const uint8_t* p = data.data() + at;
    if (U32(p) == kEndSignature && U16(p + 20) == last - at) return at;
  }
  return std::nullopt;
}

absl::StatusOr<Directory> FindDirectory(absl::Span<const uint8_t> data) {
  const std::optional<uint64_t> end = FindEnd(data);
  if (!end.has_value()) {
    return absl::InvalidArgumentError("not a zip archive, or a truncated one: no end-of-directory record");
  }
  const uint8_t* p = data.data() + *end;
  const uint16_t disk = U16(p + 4), directory_disk = U16(p + 6), disk_count = U16(p + 8), count = U16(p + 10);
  const uint32_t size = U32(p + 12), offset = U32(p + 16);
  Directory directory{offset, size, count};
  uint64_t limit = *end;  // the directory ends here at the latest

  const bool has_zip64 = *end >= kLocatorSize && U32(p - kLocatorSize) == kLocatorSignature;
  const bool saturated =
      disk_count == kSaturated16 || count == kSaturated16 || size == kSaturated32 || offset == kSaturated32;
  if (has_zip64) {
    const uint64_t locator = *end - kLocatorSize, at = U64(p - kLocatorSize + 8);
    if (U32(p - kLocatorSize + 4) != 0 || U32(p - kLocatorSize + 16) > 1) {
      return absl::UnimplementedError(
          absl::StrCat("split zip archives are not read (zip64 locator at byte ", locator, ")"));
    }
    if (!Inside(at, kEnd64Size, locator) || U32(data.data() + at) != kEnd64Signature) {
      return absl::InvalidArgumentError(
          absl::StrCat("the zip64 locator at byte ", locator, " points to byte ", at, ", where no zip64 record is"));
    }
    const uint8_t* q = data.data() + at;
    if (U32(q + 16) != 0 || U32(q + 20) != 0) {
      return absl::UnimplementedError(absl::StrCat("split zip archives are not read (zip64 record at byte ", at, ")"));
    }
    directory = {U64(q + 48), U64(q + 40), U64(q + 32)};
    limit = at;
    if (U64(q + 24) != directory.count || (count != kSaturated16 && count != directory.count) ||
        (size != kSaturated32 && size != directory.size) || (offset != kSaturated32 && offset != directory.offset)) {
      return absl::InvalidArgumentError(absl::StrCat("the zip64 record at byte ", at,
                                                     " and the end-of-directory record at byte ", *end, " disagree"));
    }
  } else if (saturated && (count == kSaturated16 || !Inside(offset, size, limit))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the end-of-directory record at byte ", *end, " needs a zip64 record, which is missing"));
  }
  if ((disk != 0 && disk != kSaturated16) || (directory_disk != 0 && directory_disk != kSaturated16) ||
      disk_count != count) {
    return absl::UnimplementedError(
        absl::StrCat("split zip archives are not read (end-of-directory record at byte ", *end, ")"));
  }
  if (!Inside(directory.offset, directory.size, limit)) {
    return absl::InvalidArgumentError(absl::StrCat("the directory (", directory.size, " bytes at byte ",
                                                   directory.offset, ") does not lie before its end record at byte ",
                                                   limit));
  }
  if (directory.count > ZipReader::kMaxEntries) {
    return absl::InvalidArgumentError(absl::StrCat("the archive claims ", directory.count, " members; at most ",
                                                   ZipReader::kMaxEntries, " are read"));
  }
  if (directory.count > directory.size / kCentralSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("the archive claims ", directory.count, " members in a directory of ", directory.size, " bytes"));
  }
  return directory;
}

// Checks the local header at `header_offset` against the directory's `entry` and sets its data_offset.
absl::Status CheckLocalHeader(absl::Span<const uint8_t> data, uint64_t header_offset, uint64_t limit, ZipEntry* entry) {
  if (!Inside(header_offset, kLocalSize, limit)) return absl::InvalidArgumentError("its local header lies outside");
  const uint8_t* p = data.data() + header_offset;
  if (U32(p) != kLocalSignature) return absl::InvalidArgumentError("no local header is at that offset");
  const uint16_t flags = U16(p + 6), method = U16(p + 8), name_length = U16(p + 26), extra_length = U16(p + 28);
  const uint64_t variable = static_cast<uint64_t>(name_length) + extra_length;
  if (!Inside(header_offset + kLocalSize, variable, limit)) {
    return absl::InvalidArgumentError("its local header is truncated");
  }
  const std::string_view name(reinterpret_cast<const char*>(p) + kLocalSize, name_length);
  if (name != entry->name) {
    return absl::InvalidArgumentError(absl::StrCat("its local header names it ", Quoted(name)));
  }
  if (method != static_cast<uint16_t>(entry->method) || ((flags ^ entry->flags) & (kFlagEncrypted | kFlagDescriptor))) {
    return absl::InvalidArgumentError("its local header states another method or other flags than the directory");
  }
  Sizes local{.size = U32(p + 22), .compressed_size = U32(p + 18)};
  const uint32_t crc = U32(p + 14);
  // With a data descriptor the local fields are zero, or already right.
  const bool deferred = (flags & kFlagDescriptor) && local.size == 0 && local.compressed_size == 0 && crc == 0;
  if (!deferred) {
    if (auto status = ApplyZip64({p + kLocalSize + name_length, extra_length}, &local); !status.ok()) {
      // Streaming writers leave saturated sizes without the extra field and state them behind the data.
      if (!(flags & kFlagDescriptor)) return status;
    } else if (local.size != entry->size || local.compressed_size != entry->compressed_size) {
      if (!(flags & kFlagDescriptor) || local.size != 0 || local.compressed_size != 0) {
        return absl::InvalidArgumentError(absl::StrCat("its local header states ", local.compressed_size, " -> ",
                                                       local.size, " bytes, the directory ", entry->compressed_size,
                                                       " -> ", entry->size));
      }
    }
    if (crc != entry->crc32 && !((flags & kFlagDescriptor) && crc == 0)) {
      return absl::InvalidArgumentError("its local header states another CRC than the directory");
    }
  }
  entry->data_offset = header_offset + kLocalSize + variable;
  if (!Inside(entry->data_offset, entry->compressed_size, limit)) {
    return absl::InvalidArgumentError(absl::StrCat("its data (", entry->compressed_size, " bytes at byte ",
                                                   entry->data_offset, ") does not end before the directory at byte ",
                                                   limit));
  }
  return absl::OkStatus();
}

// Checks what the directory alone says of `entry`.
absl::Status CheckEntry(const ZipEntry& entry, uint16_t method) {
  if (auto status = CheckName(entry.name); !status.ok()) return status;
  if (entry.flags & (kFlagEncrypted | kFlagStrong | kFlagMasked)) {
    return absl::UnimplementedError("it is encrypted");
  }
  if (entry.flags & kFlagPatched) return absl::UnimplementedError("it is compressed patched data");
  if (method != static_cast<uint16_t>(ZipMethod::kStored) && method != static_cast<uint16_t>(ZipMethod::kDeflated)) {
    return absl::UnimplementedError(
        absl::StrCat("it is compressed by method ", method, "; only stored (0) and deflated (8) are read"));
  }
  if (entry.method == ZipMethod::kStored && entry.size != entry.compressed_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is stored, yet its sizes are ", entry.compressed_size, " and ", entry.size, " bytes"));
  }
  if (entry.method == ZipMethod::kDeflated && entry.size / kMaxDeflateRatio > entry.compressed_size) {
    return absl::InvalidArgumentError(absl::StrCat("it claims to inflate from ", entry.compressed_size, " to ",
                                                   entry.size, " bytes, more than deflate can"));
  }
  return absl::OkStatus();
}

absl::Status Annotate(const absl::Status& status, const std::string& source, std::string_view name, uint64_t offset) {
  return absl::Status(status.code(),
                      absl::StrCat(source, ": zip member ", Quoted(name), " at byte ", offset, ": ", status.message()));
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* decompressor) const { libdeflate_free_decompressor(decompressor); }
};

}  // namespace

ZipReader::ZipReader(Bytes archive) : archive_(std::move(archive)) {
  const FileRange* range = archive_.file_range();
  if (range == nullptr || range->file == nullptr) {
    source_name_ = "archive in memory";
  } else if (range->offset == 0 && range->size == range->file->size()) {
    source_name_ = range->file->path();
  } else {
    source_name_ = absl::StrCat(range->file->path(), " (archive at byte ", range->offset, ")");
  }
}

absl::StatusOr<std::shared_ptr<const ZipReader>> ZipReader::Open(Bytes archive) {
  std::shared_ptr<ZipReader> reader(new ZipReader(std::move(archive)));
  if (auto status = reader->ReadDirectory(); !status.ok()) return status;
  return reader;
}

absl::Status ZipReader::ReadDirectory() {
  const absl::Span<const uint8_t> data = archive_.data();
  absl::StatusOr<Directory> directory = FindDirectory(data);
  if (!directory.ok()) {
    return absl::Status(directory.status().code(), absl::StrCat(source_name_, ": ", directory.status().message()));
  }
  entries_.reserve(directory->count);  // also keeps the names in place for index_
  index_.reserve(directory->count);
  std::vector<uint64_t> header_offsets;
  header_offsets.reserve(directory->count);
  uint64_t at = directory->offset;
  const uint64_t end = directory->offset + directory->size;
  while (entries_.size() < directory->count) {
    const uint8_t* p = data.data() + at;
    if (!Inside(at, kCentralSize, end) || U32(p) != kCentralSignature) {
      return absl::InvalidArgumentError(absl::StrCat(source_name_, ": no directory record for member ", entries_.size(),
                                                     " of ", directory->count, " at byte ", at));
    }
    const uint16_t name_length = U16(p + 28), extra_length = U16(p + 30), comment_length = U16(p + 32);
    const uint64_t variable = static_cast<uint64_t>(name_length) + extra_length + comment_length;
    if (!Inside(at + kCentralSize, variable, end)) {
      return absl::InvalidArgumentError(
          absl::StrCat(source_name_, ": the directory record at byte ", at, " is truncated"));
    }
    const uint16_t method = U16(p + 10);
    Sizes sizes{.size = U32(p + 24), .compressed_size = U32(p + 20), .header_offset = U32(p + 42)};
    ZipEntry entry{.name = std::string(reinterpret_cast<const char*>(p) + kCentralSize, name_length),
                   .method = static_cast<ZipMethod>(method),
                   .flags = U16(p + 8),
                   .crc32 = U32(p + 16)};
    absl::Status status = ApplyZip64({p + kCentralSize + name_length, extra_length}, &sizes);
    if (!status.ok()) return Annotate(status, source_name_, entry.name, at);
    entry.size = sizes.size;
    entry.compressed_size = sizes.compressed_size;
    status = CheckEntry(entry, method);
    if (!status.ok()) return Annotate(status, source_name_, entry.name, at);
    status = CheckLocalHeader(data, sizes.header_offset, directory->offset, &entry);
    if (!status.ok()) return Annotate(status, source_name_, entry.name, sizes.header_offset);
    entries_.push_back(std::move(entry));
    header_offsets.push_back(sizes.header_offset);
    if (!index_.emplace(entries_.back().name, static_cast<uint32_t>(entries_.size() - 1)).second) {
      return Annotate(absl::InvalidArgumentError("the name occurs twice"), source_name_, entries_.back().name, at);
    }
    at += kCentralSize + variable;
  }
  if (at != end) {
    return absl::InvalidArgumentError(
        absl::StrCat(source_name_, ": the directory has ", end - at, " bytes behind its last record, at byte ", at));
  }
  return CheckOverlaps(header_offsets);
}

absl::Status ZipReader::CheckOverlaps(absl::Span<const uint64_t> header_offsets) const {
  std::vector<uint32_t> order(entries_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return header_offsets[a] < header_offsets[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const ZipEntry& before = entries_[order[i - 1]];
    if (before.data_offset + before.compressed_size > header_offsets[order[i]]) {
      return Annotate(absl::InvalidArgumentError(absl::StrCat("it overlaps member ", Quoted(before.name))),
                      source_name_, entries_[order[i]].name, header_offsets[order[i]]);
    }
  }
  return absl::OkStatus();
}

const ZipEntry* ZipReader::Find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

absl::StatusOr<FileRange> ZipReader::Raw(const ZipEntry& entry) const {
  const FileRange* range = archive_.file_range();
  if (entry.method != ZipMethod::kStored || range == nullptr) {
    return Annotate(absl::FailedPreconditionError("its bytes do not lie in the file as they are"), source_name_,
                    entry.name, entry.data_offset);
  }
  return FileRange{range->file, range->offset + entry.data_offset, entry.size};
}

absl::StatusOr<Bytes> ZipReader::Read(const ZipEntry& entry, uint64_t limit) const {
  if (entry.size > limit) {
    return Annotate(absl::OutOfRangeError(absl::StrCat("its ", entry.size, " bytes exceed the limit of ", limit)),
                    source_name_, entry.name, entry.data_offset);
  }
  if (entry.method == ZipMethod::kStored) return archive_.Part(entry.data_offset, entry.size);
  absl::StatusOr<std::string> text = ReadAll(entry, limit);
  if (!text.ok()) return text.status();
  return Bytes::Of(*std::move(text));
}

absl::StatusOr<std::string> ZipReader::ReadAll(const ZipEntry& entry, uint64_t limit) const {
  if (entry.size > limit) {
    return Annotate(absl::OutOfRangeError(absl::StrCat("its ", entry.size, " bytes exceed the limit of ", limit)),
                    source_name_, entry.name, entry.data_offset);
  }
  const absl::Span<const uint8_t> packed = archive_.data().subspan(entry.data_offset, entry.compressed_size);
  std::string text;
  if (entry.method == ZipMethod::kStored) {
    text.assign(reinterpret_cast<const char*>(packed.data()), packed.size());
  } else {
    text.resize(entry.size);
    std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(libdeflate_alloc_decompressor());
    if (decompressor == nullptr) return absl::ResourceExhaustedError("out of memory for a decompressor");
    size_t used = 0;
    const libdeflate_result result = libdeflate_deflate_decompress_ex(
        decompressor.get(), packed.data(), packed.size(), text.data(), text.size(), &used, /*actual_out=*/nullptr);
    if (result != LIBDEFLATE_SUCCESS || used != packed.size()) {
      return Annotate(absl::InvalidArgumentError(absl::StrCat("its deflated data is corrupt, or does not give the ",
                                                              entry.size, " bytes stated")),
                      source_name_, entry.name, entry.data_offset);
    }
  }
  if (libdeflate_crc32(0, text.data(), text.size()) != entry.crc32) {
    return Annotate(absl::InvalidArgumentError("its data does not match its CRC"), source_name_, entry.name,
                    entry.data_offset);
  }
  return text;
}

}  // namespace slipway::io
