// The payload is a loaded segment of the ELF file, told by its magic; all offsets in it are checked against its size.
#include "importers/native/native_file.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "io/zip_reader.h"

namespace slipway::importers {
namespace {

using Span = absl::Span<const uint8_t>;

bool IsElf(Span bytes) {
  return bytes.size() >= sizeof(Elf64_Ehdr) && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0 &&
         bytes[EI_CLASS] == ELFCLASS64 && bytes[EI_DATA] == ELFDATA2LSB;
}

// Of a library's bytes.
uint16_t MachineOf(Span elf) {
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof header);
  return header.e_machine;
}

// The library's bytes: the file, or the stored member of a package.
absl::StatusOr<Span> LibraryIn(const std::shared_ptr<io::MappedFile>& file) {
  const Span bytes = file->data();
  if (IsElf(bytes)) return bytes;
  auto zip = io::ZipReader::Open(file);
  if (!zip.ok()) return zip.status();
  for (const io::ZipEntry& e : (*zip)->entries())
    if (text::Contains(e.name, "data/aotinductor/") && e.name.ends_with(".so") && e.method == io::ZipMethod::kStored &&
        IsElf(bytes.subspan(e.data_offset, e.size)))
      return bytes.subspan(e.data_offset, e.size);
  return absl::InvalidArgumentError(text::StrCat(file->path(), ": no native library is inside"));
}

// The payload: the loaded segment that begins as one.
Span PayloadOf(Span elf) {
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof header);
  const auto inside = [&](uint64_t offset, uint64_t size) {
    return offset <= elf.size() && size <= elf.size() - offset;
  };
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      !inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)))
    return {};
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, elf.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_LOAD || !inside(segment.p_offset, segment.p_filesz) ||
        segment.p_filesz < sizeof(kernels::PayloadHeader))
      continue;
    const Span payload = elf.subspan(segment.p_offset, segment.p_filesz);
    if (std::memcmp(payload.data(), kernels::kPayloadMagic, sizeof kernels::kPayloadMagic) == 0) return payload;
  }
  return {};
}

}  // namespace

bool LooksNative(const std::shared_ptr<io::MappedFile>& file) {
  if (IsElf(file->data())) return true;
  const std::string_view bytes(reinterpret_cast<const char*>(file->data().data()), file->data().size());
  return bytes.starts_with("PK") && LibraryIn(file).ok();
}

uint16_t NativeMachine(const std::shared_ptr<io::MappedFile>& file) {
  auto elf = LibraryIn(file);
  return elf.ok() ? MachineOf(*elf) : 0;
}

absl::StatusOr<NativeFile> ReadNative(const std::shared_ptr<io::MappedFile>& file) {
  auto elf = LibraryIn(file);
  if (!elf.ok()) return elf.status();
  const Span payload = PayloadOf(*elf);
  auto no = [&](std::string_view what) { return absl::InvalidArgumentError(text::StrCat(file->path(), ": ", what)); };
  if (payload.empty()) return no("a library, but not a model of slipway, or one that is cut off");
  kernels::PayloadHeader header;
  std::memcpy(&header, payload.data(), sizeof header);
  const auto inside = [&](uint64_t offset, uint64_t size) {
    return offset <= payload.size() && size <= payload.size() - offset;
  };
  if (!inside(header.plan_offset, header.plan_size) || !inside(header.weights_offset, header.weights_size))
    return no("the library is damaged");
  static constexpr kernels::Kernel kUnknown{.name = "?", .run = nullptr};
  NativeFile out{file, {}, MachineOf(*elf), elf->size() - payload.size()};
  std::string why;
  if (!kernels::ReadPlanFile({payload.data() + header.plan_offset, header.plan_size},
                             {payload.data() + header.weights_offset, header.weights_size}, &out.model, &why,
                             [](std::string_view, const kernels::NativeModel&, std::string*) { return &kUnknown; }))
    return no(why);
  const auto known = [](const auto& list) {
    return std::all_of(list.begin(), list.end(),
                       [](const auto& t) { return static_cast<int>(t.dtype) < kernels::kDTypes; });
  };
  if (!known(out.model.plan.inputs) || !known(out.model.plan.outputs)) return no("the plan is malformed");
  return out;
}

}  // namespace slipway::importers
