// Local headers padded to alignment, payloads, and the directory behind them.
#include "io/zip_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace slipway::io {
namespace {

constexpr uint64_t kMax32 = 0xffffffff;
constexpr uint64_t kMax16 = 0xffff;
constexpr uint64_t kLocalHeaderSize = 30;
constexpr uint64_t kCrcOffset = 14;      // in the local header
constexpr uint16_t kFlagUtf8 = 1 << 11;  // names are UTF-8
constexpr uint16_t kDate = 1 << 5 | 1;   // 1980-01-01
constexpr uint16_t kZip64ExtraId = 1;
constexpr uint16_t kPaddingExtra = 0x4246;  // "FB", the field that torch pads with
constexpr uint64_t kExtraHeader = 4;
// Bytes of a mapped file that are summed and copied before their pages are given back.
constexpr uint64_t kZipChunk = uint64_t{8} << 20;

// Appends a little-endian integer of `width` bytes.
void Put(std::string* out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// A size or offset as a 32-bit field: saturated where the zip64 extra field has the true value.
uint64_t Field32(uint64_t value) { return std::min(value, kMax32); }

// The fields that local header and directory record share, from "version needed" to the sizes.
void PutCommon(std::string* out, bool zip64, uint32_t crc, uint64_t size) {
  Put(out, zip64 ? 45 : 20, 2);
  Put(out, kFlagUtf8, 2);
  Put(out, 0, 2);  // stored
  Put(out, 0, 2);  // midnight
  Put(out, kDate, 2);
  Put(out, crc, 4);
  Put(out, Field32(size), 4);
  Put(out, Field32(size), 4);
}

// The header in front of a member's bytes, padded so that those begin aligned.
std::string LocalHeader(const ZipMember& member) {
  const bool zip64 = member.size >= kMax32;
  std::string extra;
  if (zip64) {
    Put(&extra, kZip64ExtraId, 2);
    Put(&extra, 16, 2);
    Put(&extra, member.size, 8);
    Put(&extra, member.size, 8);
  }
  const uint64_t end = member.header_offset + kLocalHeaderSize + member.name.size() + extra.size() + kExtraHeader;
  const uint64_t padding = (ZipWriter::kAlignment - end % ZipWriter::kAlignment) % ZipWriter::kAlignment;
  Put(&extra, kPaddingExtra, 2);
  Put(&extra, padding, 2);
  extra.append(padding, '\0');

  std::string header;
  Put(&header, 0x04034b50, 4);
  PutCommon(&header, zip64, member.crc, member.size);
  Put(&header, member.name.size(), 2);
  Put(&header, extra.size(), 2);
  header += member.name;
  header += extra;
  return header;
}

// The central directory and the records that end the archive.
std::string DirectoryRecords(const std::vector<ZipMember>& members, uint64_t directory_offset) {
  std::string records;
  for (const ZipMember& member : members) {
    std::string values;  // of the zip64 extra field: the saturated ones, in this order
    if (member.size >= kMax32) {
      Put(&values, member.size, 8);
      Put(&values, member.size, 8);
    }
    if (member.header_offset >= kMax32) Put(&values, member.header_offset, 8);
    Put(&records, 0x02014b50, 4);
    Put(&records, values.empty() ? 20 : 45, 2);
    PutCommon(&records, !values.empty(), member.crc, member.size);
    Put(&records, member.name.size(), 2);
    Put(&records, values.empty() ? 0 : kExtraHeader + values.size(), 2);
    records.append(10, '\0');  // comment, disk, attributes
    Put(&records, Field32(member.header_offset), 4);
    records += member.name;
    if (!values.empty()) {
      Put(&records, kZip64ExtraId, 2);
      Put(&records, values.size(), 2);
      records += values;
    }
  }
  const uint64_t directory_size = records.size(), end = directory_offset + directory_size, count = members.size();
  if (count >= kMax16 || directory_size >= kMax32 || directory_offset >= kMax32) {
    Put(&records, 0x06064b50, 4);
    Put(&records, 44, 8);
    Put(&records, 45, 2);
    Put(&records, 45, 2);
    Put(&records, 0, 8);
    Put(&records, count, 8);
    Put(&records, count, 8);
    Put(&records, directory_size, 8);
    Put(&records, directory_offset, 8);
    Put(&records, 0x07064b50, 4);
    Put(&records, 0, 4);
    Put(&records, end, 8);
    Put(&records, 1, 4);
  }
  Put(&records, 0x06054b50, 4);
  Put(&records, 0, 4);
  Put(&records, std::min(count, kMax16), 2);
  Put(&records, std::min(count, kMax16), 2);
  Put(&records, Field32(directory_size), 4);
  Put(&records, Field32(directory_offset), 4);
  Put(&records, 0, 2);
  return records;
}

absl::Status CheckNewName(std::string_view name, absl::flat_hash_set<std::string>* names) {
  if (name.empty() || name.size() > kMax16) {
    return absl::InvalidArgumentError(absl::StrCat("a zip member's name has ", name.size(), " bytes"));
  }
  if (!names->insert(std::string(name)).second) {
    return absl::InvalidArgumentError(absl::StrCat("two zip members are named ", std::string(name)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ZipWriter::Begin(std::string_view name, uint64_t size) {
  if (open_) return absl::InternalError("a zip member begins within another one");
  if (absl::Status status = CheckNewName(name, &names_); !status.ok()) return status;
  if (members_.empty() && file_->position() != 0) return absl::InternalError("the zip does not begin its file");
  members_.push_back({.name = std::string(name), .size = size, .header_offset = file_->position()});
  open_ = true;
  remaining_ = size;
  return file_->Write(LocalHeader(members_.back()));  // End() fills in the CRC
}

absl::Status ZipWriter::Append(absl::Span<const uint8_t> bytes) {
  if (!open_ || bytes.size() > remaining_) return absl::InternalError("more bytes than the zip member has");
  remaining_ -= bytes.size();
  members_.back().crc = Crc32(members_.back().crc, bytes);
  return file_->Write(bytes);
}

absl::Status ZipWriter::Append(const Bytes& bytes, std::optional<uint32_t> crc) {
  const FileRange* range = bytes.file_range();
  if (range == nullptr) return Append(bytes.data());
  if (!open_ || range->size > remaining_) return absl::InternalError("more bytes than the zip member has");
  remaining_ -= range->size;
  uint32_t& sum = members_.back().crc;
  if (crc.has_value()) {
    sum = Crc32Combine(sum, *crc, range->size);
    return file_->CopyFrom(*range, crc);
  }
  for (uint64_t done = 0; done < range->size; done += kZipChunk) {
    const FileRange chunk{range->file, range->offset + done, std::min(kZipChunk, range->size - done)};
    sum = Crc32(sum, chunk.data());
    if (absl::Status status = file_->CopyFrom(chunk); !status.ok()) return status;
    chunk.Release();
  }
  return absl::OkStatus();
}

absl::Status ZipWriter::End() {
  if (!open_ || remaining_ != 0) {
    return absl::InternalError(absl::StrCat("a zip member lacks ", remaining_, " bytes"));
  }
  open_ = false;
  std::string crc;
  Put(&crc, members_.back().crc, 4);
  return file_->WriteAt(members_.back().header_offset + kCrcOffset,
                        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(crc.data()), crc.size()));
}

absl::Status ZipWriter::Add(std::string_view name, absl::Span<const uint8_t> bytes) {
  if (absl::Status status = Begin(name, bytes.size()); !status.ok()) return status;
  if (absl::Status status = Append(bytes); !status.ok()) return status;
  return End();
}

absl::Status ZipWriter::Add(std::string_view name, const Bytes& bytes, std::optional<uint32_t> crc) {
  if (absl::Status status = Begin(name, bytes.size()); !status.ok()) return status;
  if (absl::Status status = Append(bytes, crc); !status.ok()) return status;
  return End();
}

absl::Status ZipWriter::Finish() {
  if (open_) return absl::InternalError("the zip ends within a member");
  return file_->Write(DirectoryRecords(members_, file_->position()));
}

void ZipLayout::Put(std::string text) {
  size_ += text.size();
  pieces_.push_back({Bytes::Of(std::move(text)), std::nullopt});
}

absl::Status ZipLayout::Add(std::string_view name, const Bytes& bytes, std::optional<uint32_t> crc) {
  if (absl::Status status = CheckNewName(name, &names_); !status.ok()) return status;
  members_.push_back(
      {.name = std::string(name), .size = bytes.size(), .header_offset = size_, .crc = crc ? *crc : Crc32Of(bytes)});
  Put(LocalHeader(members_.back()));
  size_ += bytes.size();
  pieces_.push_back({bytes, members_.back().crc});
  return absl::OkStatus();
}

std::vector<ZipLayout::Piece> ZipLayout::Finish() {
  Put(DirectoryRecords(members_, size_));
  return std::move(pieces_);
}

}  // namespace slipway::io
