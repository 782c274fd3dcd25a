// Bytes by reference: a part of a mapped file, or of memory that somebody keeps alive. What importers hand on in place
// of copies, and what writers copy from.
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

// The bytes [offset, offset + size) of memory shared by all who refer to it: a string, or what another library lends.
struct MemoryRange {
  std::shared_ptr<const uint8_t> base;  // the first byte; holds whatever keeps the memory alive
  uint64_t offset = 0;
  uint64_t size = 0;

  // The bytes; valid as long as `base`.
  absl::Span<const uint8_t> data() const {
    if (base == nullptr) return {};
    return {base.get() + offset, static_cast<size_t>(size)};
  }
};

// Either of the two. A FileRange is preferred wherever the bytes lie in a file as they are, since writers then copy
// them inside the kernel; a MemoryRange holds what had to be made (inflated, converted) or came from memory.
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
    auto owner = std::make_shared<const std::string>(std::move(text));
    const auto* base = reinterpret_cast<const uint8_t*>(owner->data());
    return MemoryRange{std::shared_ptr<const uint8_t>(std::move(owner), base), 0, size};
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
