// Bytes by reference: a part of a mapped file, or of a string in memory. What importers hand on in place of copies,
// and what writers copy from.
#ifndef SLIPWAY_IO_BYTE_SOURCE_H_
#define SLIPWAY_IO_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/types/span.h"
#include "io/mapped_file.h"

namespace slipway::io {

// The bytes [offset, offset + size) of a file. Whoever makes one has checked that they lie inside the file.
struct FileRange {
  std::shared_ptr<MappedFile> file;
  uint64_t offset = 0;
  uint64_t size = 0;

  // The bytes in the mapping; valid as long as `file`.
  absl::Span<const uint8_t> data() const {
    return file == nullptr ? absl::Span<const uint8_t>() : file->data().subspan(offset, size);
  }
  // See MappedFile::Release().
  void Release() const {
    if (file != nullptr) file->Release(offset, size);
  }
};

// The bytes [offset, offset + size) of a string shared by all who refer to it.
struct MemoryRange {
  std::shared_ptr<const std::string> owner;
  uint64_t offset = 0;
  uint64_t size = 0;

  // The bytes; valid as long as `owner`.
  absl::Span<const uint8_t> data() const {
    if (owner == nullptr) return {};
    return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(owner->data()), owner->size()).subspan(offset, size);
  }
};

// Either of the two. A FileRange is preferred wherever the bytes lie in a file as they are, since writers then copy
// them inside the kernel; a MemoryRange holds what had to be made (inflated, converted).
struct Bytes {
  std::variant<FileRange, MemoryRange> source;

  Bytes() = default;
  Bytes(FileRange range) : source(std::move(range)) {}    // NOLINT: one kind of bytes stands for bytes
  Bytes(MemoryRange range) : source(std::move(range)) {}  // NOLINT
  // The whole of `file`.
  static Bytes Of(std::shared_ptr<MappedFile> file) {
    const uint64_t size = file->size();
    return FileRange{std::move(file), 0, size};
  }
  // The whole of `text`.
  static Bytes Of(std::string text) {
    const uint64_t size = text.size();
    return MemoryRange{std::make_shared<const std::string>(std::move(text)), 0, size};
  }

  // The bytes; valid as long as this object or a copy of it.
  absl::Span<const uint8_t> data() const {
    return std::visit([](const auto& range) { return range.data(); }, source);
  }
  uint64_t size() const {
    return std::visit([](const auto& range) { return range.size; }, source);
  }
  // The file range, or nullptr where the bytes are in memory.
  const FileRange* file_range() const { return std::get_if<FileRange>(&source); }
  // The part [offset, offset + size), which the caller has checked to lie inside.
  Bytes Part(uint64_t offset, uint64_t size) const {
    Bytes part = *this;
    std::visit(
        [&](auto& range) {
          range.offset += offset;
          range.size = size;
        },
        part.source);
    return part;
  }
};

}  // namespace slipway::io

#endif  // SLIPWAY_IO_BYTE_SOURCE_H_
