// libzip as an independent judge of every kind of archive that slipway writes: it finds each consistent, and reads the
// same members with the same bytes as slipway's own reader.
#include <zip.h>

#include <functional>
#include <memory>
#include <string>

#include "exporters/native/native.h"
#include "exporters/pt2/pt2.h"
#include "gtest/gtest.h"
#include "io/mapped_file.h"
#include "io/zip_reader.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "planner/planner.h"
#include "zip_builder.h"

namespace slipway {
namespace {

using testing::TempPath;
using Zip = std::unique_ptr<zip_t, decltype(&zip_discard)>;

constexpr char kProgram[] = R"(slipway.ir 1
weights {
  $w: f32[64,8] @ random(seed=8)
  $n: i64[3] @ splat(7)
}
graph main(%w: f32[64,8]{grad} = parameter $w, %n: i64[3] = buffer $n, %x: f32[4,8]) {
  %linear: f32[4,64] = aten.linear.default(input=%x, weight=%w)
  %sum: i64[] = aten.sum.default(self=%n)
  %out: f32[4,64] = aten.mul.Tensor(self=%linear, other=%sum)
  return %out
}
)";

ir::Archive Parsed() {
  auto archive = ir::Parse(kProgram, {});
  EXPECT_TRUE(archive.ok()) << archive.status();
  return *std::move(archive);
}

// An archive in memory, checked as strictly as libzip can.
Zip OpenChecked(std::string_view bytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* zip = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  EXPECT_NE(zip, nullptr) << zip_error_strerror(&error);
  zip_error_fini(&error);
  return Zip(zip, zip_discard);
}

std::string ReadMember(zip_t* zip, zip_uint64_t index, zip_uint64_t size) {
  std::string bytes(size, '\0');
  std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(zip_fopen_index(zip, index, 0), zip_fclose);
  EXPECT_NE(file, nullptr) << zip_strerror(zip);
  // One byte more than there is: at the end libzip compares the CRC-32.
  char more;
  EXPECT_EQ(zip_fread(file.get(), bytes.data(), size), static_cast<zip_int64_t>(size));
  EXPECT_EQ(zip_fread(file.get(), &more, 1), 0) << zip_file_strerror(file.get());
  return bytes;
}

// Calls `member` for each, and goes into archives within the archive.
void Judge(const std::string& bytes,
           const std::function<void(const std::string& name, const std::string& bytes)>& member) {
  const Zip zip = OpenChecked(bytes);
  ASSERT_NE(zip, nullptr);
  auto own = io::ZipReader::Open(io::Bytes::Of(bytes));
  ASSERT_TRUE(own.ok()) << own.status();
  ASSERT_EQ(zip_get_num_entries(zip.get(), 0), static_cast<zip_int64_t>((*own)->entries().size()));
  for (const io::ZipEntry& e : (*own)->entries()) {
    const zip_int64_t index = zip_name_locate(zip.get(), e.name.c_str(), 0);
    ASSERT_GE(index, 0) << e.name;
    zip_stat_t stat;
    ASSERT_EQ(zip_stat_index(zip.get(), index, 0, &stat), 0);
    ASSERT_EQ(stat.size, e.size) << e.name;
    EXPECT_EQ(stat.crc, e.crc32) << e.name;
    const std::string theirs = ReadMember(zip.get(), index, stat.size);
    auto ours = (*own)->ReadAll(e, uint64_t{1} << 30);
    ASSERT_TRUE(ours.ok()) << ours.status();
    EXPECT_TRUE(theirs == *ours) << e.name;
    member(e.name, theirs);
    if (theirs.starts_with("PK\3\4")) Judge(theirs, member);
  }
}

// What the weight's elements are, and how often members are just them.
struct Weights {
  explicit Weights(const ir::Archive& archive) : w(*ir::ReadDense(archive.programs[0]->weights.at("w"))) {}
  const std::string w;
  int found = 0;
  void operator()(const std::string&, const std::string& bytes) { found += bytes == w; }
};

void JudgeFile(const std::string& path, const std::function<void(const std::string&, const std::string&)>& member) {
  auto file = io::MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  Judge(std::string(reinterpret_cast<const char*>((*file)->data().data()), (*file)->size()), member);
}

TEST(ArchiveJudge, Pt2OfBothLayoutsAndTorchSave) {
  for (auto target : {exporters::TorchTarget::k29, exporters::TorchTarget::k26}) {
    const ir::Archive archive = Parsed();
    exporters::Pt2Options options;
    options.target = target;
    const std::string path = TempPath("judged.pt2");
    auto written = exporters::ExportPt2({{&archive, path}}, options, /*dry_run=*/false);
    ASSERT_TRUE(written.ok()) << written.status();
    Weights weights(archive);
    bool pickled = false;  // the older layout keeps weights as torch.save does, an archive within the archive
    JudgeFile(path, [&](const std::string& name, const std::string& bytes) {
      weights(name, bytes);
      pickled |= name.ends_with("/data.pkl");
    });
    EXPECT_EQ(weights.found, 1);
    EXPECT_EQ(pickled, target == exporters::TorchTarget::k26);
  }
}

TEST(ArchiveJudge, PackagesOfLibraries) {
  ir::Archive archive = Parsed();
  const ir::Archive original = Parsed();
  ir::Program& p = *archive.programs[0];
  passes::PassContext context;
  ASSERT_TRUE(passes::RunPasses(passes::kPreparation, p, context).ok());
  auto planned = planner::LegalizeAndPlan(p);
  ASSERT_TRUE(planned.ok()) << planned.status();
  for (bool with_program : {false, true}) {
    exporters::NativeOptions options;
    options.package = true;
    if (with_program) options.with_program = &original;
    const std::string path = TempPath("judged.native.pt2");
    auto written = exporters::ExportNative(p, *planned, path, options, /*dry_run=*/false);
    ASSERT_TRUE(written.ok()) << written.status();
    bool library = false;
    Weights weights(original);
    JudgeFile(path, [&](const std::string& name, const std::string& bytes) {
      weights(name, bytes);
      library |= name.ends_with(".so") && bytes.starts_with("\177ELF");
    });
    EXPECT_TRUE(library);
    EXPECT_EQ(weights.found, with_program ? 1 : 0);
  }
}

}  // namespace
}  // namespace slipway
