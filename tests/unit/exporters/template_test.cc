// The libraries that models are put into: for every machine that this slipway carries one for, segments that systems
// with pages of up to 64 KiB can map.
#include "exporters/native/template.h"

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace slipway::exporters {
namespace {

constexpr uint64_t kLargestPage = uint64_t{64} << 10;

struct Library {
  Elf64_Ehdr header;
  std::vector<Elf64_Phdr> loads;
};

Library Parse(const std::string& head) {
  Library out;
  std::memcpy(&out.header, head.data(), sizeof out.header);
  for (int i = 0; i < out.header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, head.data() + out.header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == PT_LOAD) out.loads.push_back(segment);
  }
  return out;
}

TEST(Template, OfThisMachineIsAlwaysThere) {
  EXPECT_TRUE(HasTemplate(kThisMachine));
  EXPECT_TRUE(RunnerFor(kThisMachine).empty());
}

TEST(Template, MachinesHaveOneNameAndNumberEach) {
  for (const Machine* m : kMachines) {
    EXPECT_EQ(FindMachine(m->name), m);
    EXPECT_EQ(FindMachine(m->elf), m);
  }
  EXPECT_EQ(FindMachine("riscv64-linux"), nullptr);
  EXPECT_EQ(FindMachine(uint16_t{EM_386}), nullptr);
  EXPECT_EQ(kX86_64.elf, EM_X86_64);
  EXPECT_EQ(kAarch64.elf, EM_AARCH64);
}

TEST(Template, SegmentsFitPagesOfAllSizes) {
  for (const Machine* m : kMachines) {
    if (!HasTemplate(*m)) continue;
    for (const uint64_t size : {uint64_t{4096}, uint64_t{4} << 20}) {
      auto frame = FrameFor(*m, size, std::string(20, 'i'), "name.so");
      ASSERT_TRUE(frame.ok()) << m->name << ": " << frame.status();
      const Library library = Parse(frame->head);
      EXPECT_EQ(library.header.e_machine, m->elf);
      ASSERT_GE(library.loads.size(), 3u);
      uint64_t end = 0;
      for (const Elf64_Phdr& s : library.loads) {
        EXPECT_GE(s.p_align, kLargestPage) << m->name;
        EXPECT_EQ(s.p_vaddr % kLargestPage, s.p_offset % kLargestPage) << m->name;
        // No page is of two segments, which may be mapped with other rights.
        EXPECT_GE(s.p_vaddr / kLargestPage * kLargestPage, end) << m->name;
        end = s.p_vaddr + s.p_memsz;
      }
      EXPECT_EQ(library.loads.back().p_offset, frame->payload_offset);
      EXPECT_EQ(library.loads.back().p_filesz, size);
    }
  }
}

TEST(Template, RunnersAreProgramsOfTheirMachine) {
  for (const Machine* m : kMachines) {
    const std::string_view runner = RunnerFor(*m);
    if (runner.empty()) continue;
    EXPECT_TRUE(HasTemplate(*m));
    Elf64_Ehdr header;
    ASSERT_GT(runner.size(), sizeof header);
    std::memcpy(&header, runner.data(), sizeof header);
    EXPECT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
    EXPECT_EQ(header.e_machine, m->elf);
  }
}

TEST(Template, AnotherMachineHasAnotherId) {
  if (!HasTemplate(kAarch64) || !HasTemplate(kX86_64)) GTEST_SKIP() << "one machine alone";
  EXPECT_NE(*TemplateId(kAarch64), *TemplateId(kX86_64));
}

}  // namespace
}  // namespace slipway::exporters
