// The template has its payload in a section and a segment of their own, the last of each that occupy memory
// (runtime/template.ld); what a longer payload pushes back in the file are only parts that are not loaded.
#include "exporters/native/template.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/text.h"

extern "C" {
// template.S.
#define SLIPWAY_EMBEDDED(name)                                    \
  extern const char name[] __attribute__((visibility("hidden"))); \
  extern const char name##_end[] __attribute__((visibility("hidden")))
SLIPWAY_EMBEDDED(slipway_template);
SLIPWAY_EMBEDDED(slipway_template_aarch64);
SLIPWAY_EMBEDDED(slipway_runner_aarch64);
#undef SLIPWAY_EMBEDDED
}

namespace slipway::exporters {
namespace {

// Payloads above this begin at multiples of it in the file, so that large pages can map them.
constexpr uint64_t kPayloadAlignment = uint64_t{2} << 20;
constexpr uint64_t kLargestPage = uint64_t{64} << 10;  // the largest page of the architectures we build for

// Empty where there is none.
std::string_view TemplateFor(const Machine& machine) {
  if (&machine == &kThisMachine)
    return {slipway_template, static_cast<size_t>(slipway_template_end - slipway_template)};
  if (&machine == &kAarch64)
    return {slipway_template_aarch64, static_cast<size_t>(slipway_template_aarch64_end - slipway_template_aarch64)};
  return {};
}

absl::Status Bad(std::string_view what) { return absl::InternalError(text::StrCat("the library template: ", what)); }

// The template's tables.
struct Elf {
  std::string_view file;
  Elf64_Ehdr header;
  std::vector<Elf64_Phdr> segments;
  std::vector<Elf64_Shdr> sections;
  size_t payload = 0;        // section
  size_t load = 0;           // segment
  uint64_t soname = 0;       // offset in the file of DT_SONAME's text
  uint64_t soname_room = 0;  // bytes it may have, without its NUL
  uint64_t id = 0;           // offset in the file of the build id's 20 bytes

  std::string_view NameOf(const Elf64_Shdr& s) const {
    return file.data() + sections[header.e_shstrndx].sh_offset + s.sh_name;
  }
};

template <typename T>
bool Get(std::string_view file, uint64_t at, T* to) {
  if (at > file.size() || file.size() - at < sizeof(T)) return false;
  std::memcpy(to, file.data() + at, sizeof(T));
  return true;
}

absl::StatusOr<Elf> Read(const Machine& machine) {
  Elf e;
  e.file = TemplateFor(machine);
  if (!Get(e.file, 0, &e.header) || std::memcmp(e.header.e_ident, ELFMAG, SELFMAG) != 0 ||
      e.header.e_ident[EI_CLASS] != ELFCLASS64 || e.header.e_ident[EI_DATA] != ELFDATA2LSB ||
      e.header.e_machine != machine.elf)
    return Bad(text::StrCat("is no 64-bit ELF file for ", machine.name));
  e.segments.resize(e.header.e_phnum);
  e.sections.resize(e.header.e_shnum);
  for (size_t i = 0; i < e.segments.size(); ++i)
    if (!Get(e.file, e.header.e_phoff + i * sizeof(Elf64_Phdr), &e.segments[i])) return Bad("has no segments");
  for (size_t i = 0; i < e.sections.size(); ++i)
    if (!Get(e.file, e.header.e_shoff + i * sizeof(Elf64_Shdr), &e.sections[i])) return Bad("has no sections");
  if (e.header.e_shstrndx >= e.sections.size()) return Bad("has no names");
  for (size_t i = 0; i < e.segments.size(); ++i)
    if (e.segments[i].p_type == PT_LOAD && e.segments[i].p_vaddr >= e.segments[e.load].p_vaddr) e.load = i;
  for (size_t i = 0; i < e.sections.size(); ++i) {
    const Elf64_Shdr& s = e.sections[i];
    if (e.NameOf(s) == ".slipway_payload") e.payload = i;
    if (e.NameOf(s) == ".note.gnu.build-id") e.id = s.sh_offset + s.sh_size - 20;
    if (s.sh_type != SHT_DYNAMIC || s.sh_link >= e.sections.size()) continue;
    for (uint64_t at = s.sh_offset; at < s.sh_offset + s.sh_size; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn d;
      if (!Get(e.file, at, &d)) return Bad("has no dynamic section");
      if (d.d_tag != DT_SONAME) continue;
      e.soname = e.sections[s.sh_link].sh_offset + d.d_un.d_val;
      e.soname_room = std::strlen(e.file.data() + e.soname);
    }
  }
  const Elf64_Shdr& payload = e.sections[e.payload];
  const Elf64_Phdr& load = e.segments[e.load];
  if (e.payload == 0 || payload.sh_addr != load.p_vaddr || load.p_vaddr % kPayloadAlignment != 0 ||
      load.p_flags != PF_R)
    return Bad("its payload is not a segment of its own");
  if (e.id == 0) return Bad("has no build id");
  if (e.soname == 0 || e.soname_room < 64) return Bad("has no room for a soname");
  return e;
}

}  // namespace

bool HasTemplate(const Machine& machine) { return !TemplateFor(machine).empty(); }

std::string_view RunnerFor(const Machine& machine) {
  if (&machine == &kThisMachine || &machine != &kAarch64) return {};
  return {slipway_runner_aarch64, static_cast<size_t>(slipway_runner_aarch64_end - slipway_runner_aarch64)};
}

absl::StatusOr<std::string> TemplateId(const Machine& machine) {
  auto e = Read(machine);
  if (!e.ok()) return e.status();
  return std::string(e->file.substr(e->id, 20));
}

absl::StatusOr<LibraryFrame> FrameFor(const Machine& machine, uint64_t payload_size, std::string_view id,
                                      std::string_view soname) {
  auto elf = Read(machine);
  if (!elf.ok()) return elf.status();
  Elf& e = *elf;
  if (id.size() != 20 || soname.size() > 64) return Bad("is asked for an id or a soname that does not fit");
  Elf64_Shdr& payload = e.sections[e.payload];
  Elf64_Phdr& load = e.segments[e.load];
  const uint64_t stub = payload.sh_offset, stub_end = stub + payload.sh_size;
  const uint64_t align = payload_size >= kPayloadAlignment ? kPayloadAlignment : kLargestPage;
  LibraryFrame out;
  out.payload_offset = (stub + align - 1) / align * align;
  const uint64_t tail = out.payload_offset + payload_size;
  const uint64_t moved = (tail - stub_end + 7) / 8 * 8;  // what lies behind the stub goes so far back

  load.p_offset = out.payload_offset;
  load.p_filesz = load.p_memsz = payload_size;
  load.p_align = align;
  payload.sh_offset = out.payload_offset;
  payload.sh_size = payload_size;
  payload.sh_addralign = align;
  for (size_t i = 0; i < e.sections.size(); ++i)
    if (i != e.payload && e.sections[i].sh_type != SHT_NOBITS && e.sections[i].sh_offset >= stub_end)
      e.sections[i].sh_offset += moved;
  if (e.header.e_shoff < stub_end) return Bad("its section headers are not at its end");
  const uint64_t old_sections = e.header.e_shoff;
  e.header.e_shoff += moved;

  out.head = std::string(e.file.substr(0, stub));
  std::memcpy(out.head.data(), &e.header, sizeof e.header);
  std::memcpy(out.head.data() + e.header.e_phoff, e.segments.data(), e.segments.size() * sizeof(Elf64_Phdr));
  std::memset(out.head.data() + e.soname, 0, e.soname_room);
  std::memcpy(out.head.data() + e.soname, soname.data(), soname.size());
  std::memcpy(out.head.data() + e.id, id.data(), id.size());
  out.tail = std::string(stub_end + moved - tail, '\0') + std::string(e.file.substr(stub_end));
  std::memcpy(out.tail.data() + (e.header.e_shoff - tail), e.sections.data(), e.sections.size() * sizeof(Elf64_Shdr));
  if (old_sections + e.sections.size() * sizeof(Elf64_Shdr) > e.file.size()) return Bad("is cut off");
  return out;
}

}  // namespace slipway::exporters
