// Written zips, read back by ZipReader and by Python where there is one; digests against FIPS 180-4's examples.
#include "io/zip_writer.h"

#include <stdlib.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "io/digest.h"
#include "io/zip_reader.h"
#include "zip_builder.h"

namespace slipway::io {
namespace {

using ::slipway::testing::ReadWhole;
using ::slipway::testing::TempPath;
using ::slipway::testing::WriteTemp;

TEST(ZipWriter, IsReadBack) {
  const std::string big(10'000'000, 'w');
  auto source = MappedFile::Open(WriteTemp("source", "head" + big));
  ASSERT_TRUE(source.ok());
  const FileRange weights{*source, 4, big.size()};
  const uint32_t weights_crc = Crc32(0, weights.data());
  std::string first;
  for (const char* name : {"a.zip", "b.zip"}) {
    auto file = AtomicFile::Create(TempPath(name));
    ASSERT_TRUE(file.ok());
    ZipWriter zip(file->get());
    ASSERT_TRUE(zip.Add("m/empty", "").ok());
    ASSERT_TRUE(zip.Add("m/text", "some text").ok());
    ASSERT_TRUE(zip.Add("m/w", Bytes(weights)).ok());
    ASSERT_TRUE(zip.Add("m/w again", Bytes(weights), weights_crc).ok());
    ASSERT_TRUE(zip.Begin("m/parts", 7 + 2 * big.size()).ok());
    ASSERT_TRUE(zip.Append(Bytes::Of(std::string("1234567"))).ok());
    ASSERT_TRUE(zip.Append(weights, weights_crc).ok());
    ASSERT_TRUE(zip.Append(weights).ok());
    ASSERT_TRUE(zip.End().ok());
    ASSERT_TRUE(zip.Finish().ok());
    ASSERT_TRUE((*file)->Commit().ok());
    const std::string whole = ReadWhole(TempPath(name));
    if (first.empty()) first = whole;
    EXPECT_TRUE(whole == first) << "the same members gave other bytes";
  }
  auto file = MappedFile::Open(TempPath("a.zip"));
  ASSERT_TRUE(file.ok());
  auto reader = ZipReader::Open(*file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::vector<std::string> expected = {"", "some text", big, big, "1234567" + big + big};
  ASSERT_EQ((*reader)->entries().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const ZipEntry& entry = (*reader)->entries()[i];
    EXPECT_EQ(entry.data_offset % ZipWriter::kAlignment, 0u) << entry.name;
    EXPECT_TRUE((*reader)->ReadAll(entry, 1 << 30).value() == expected[i]) << entry.name;
  }
  if (system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 to read it, too";
  const std::string check =
      absl::StrCat("python3 -c 'import zipfile,sys; z=zipfile.ZipFile(\"", TempPath("a.zip"),
                   "\"); sys.exit(z.testzip() is not None or z.read(\"m/text\")!=b\"some text\" or "
                   "z.infolist()[0].date_time!=(1980,1,1,0,0,0))'");
  EXPECT_EQ(system(check.c_str()), 0);
}

TEST(ZipWriter, ManyMembersNeedZip64) {
  auto file = AtomicFile::Create(TempPath("many.zip"));
  ASSERT_TRUE(file.ok());
  ZipWriter zip(file->get());
  for (int i = 0; i < 70'000; ++i) ASSERT_TRUE(zip.Add(absl::StrCat("m/", i), "x").ok());
  ASSERT_TRUE(zip.Finish().ok());
  ASSERT_TRUE((*file)->Commit().ok());
  auto mapped = MappedFile::Open(TempPath("many.zip"));
  auto reader = ZipReader::Open(*mapped);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->entries().size(), 70'000u);
  EXPECT_EQ((*reader)->ReadAll(*(*reader)->Find("m/69999"), 9).value(), "x");
  unlink(TempPath("many.zip").c_str());
}

// More than 4 GiB, in a file with a hole that stands for the weights.
TEST(ZipWriter, LargeMembersNeedZip64) {
  if (getenv("SLIPWAY_LARGE_TESTS") == nullptr) GTEST_SKIP() << "set SLIPWAY_LARGE_TESTS to write 9 GB";
  const std::string hole = WriteTemp("hole", "");
  const uint64_t size = (uint64_t{1} << 32) + 5;
  ASSERT_EQ(truncate(hole.c_str(), size), 0);
  auto source = MappedFile::Open(hole);
  ASSERT_TRUE(source.ok());
  auto file = AtomicFile::Create(TempPath("large.zip"));
  ASSERT_TRUE(file.ok());
  ZipWriter zip(file->get());
  ASSERT_TRUE(zip.Add("m/w", Bytes::Of(*source)).ok());
  ASSERT_TRUE(zip.Add("m/v", Bytes::Of(*source)).ok());
  ASSERT_TRUE(zip.Add("m/text", "some text").ok());
  ASSERT_TRUE(zip.Finish().ok());
  ASSERT_TRUE((*file)->Commit().ok());
  auto mapped = MappedFile::Open(TempPath("large.zip"));
  auto reader = ZipReader::Open(*mapped);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->entries()[0].size, size);
  EXPECT_EQ((*reader)->ReadAll((*reader)->entries()[2], 100).value(), "some text");
  const std::string check =
      absl::StrCat("python3 -c 'import zipfile,sys; z=zipfile.ZipFile(\"", TempPath("large.zip"),
                   "\"); sys.exit(z.testzip() is not None or z.read(\"m/text\")!=b\"some text\")'");
  EXPECT_EQ(system(check.c_str()), 0);
  unlink(TempPath("large.zip").c_str());
  unlink(hole.c_str());
}

TEST(ZipWriter, Refusals) {
  auto file = AtomicFile::Create(TempPath("refused"));
  ASSERT_TRUE(file.ok());
  ZipWriter zip(file->get());
  EXPECT_EQ(zip.Add("", "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(zip.Add(std::string(65'536, 'n'), "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(zip.Add("a", "x").ok());
  EXPECT_EQ(zip.Add("a", "x").code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(zip.Begin("b", 2).ok());
  EXPECT_FALSE(zip.End().ok());
  EXPECT_FALSE(zip.Append(Bytes::Of(std::string("123"))).ok());
  EXPECT_FALSE(zip.Begin("c", 2).ok());
  EXPECT_FALSE(zip.Finish().ok());
}

TEST(Crc32, Combines) {
  const std::string text = "123456789";
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  EXPECT_EQ(Crc32(0, bytes), 0xcbf43926u);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = Crc32(0, bytes.first(cut)), second = Crc32(0, bytes.subspan(cut));
    EXPECT_EQ(Crc32Combine(first, second, text.size() - cut), 0xcbf43926u);
    EXPECT_EQ(Crc32(first, bytes.subspan(cut)), 0xcbf43926u);
  }
  EXPECT_EQ(Crc32(5, {}), 5u);
}

TEST(Digest, Sha256) {
  const auto hex = [](std::string_view text) {
    Sha256 sha;
    sha.Update(text);
    return ToHex(sha.Finish());
  };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // Every way of cutting a text gives the same digest.
  const std::string text(200, 'q');
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 sha;
    sha.Update(text.substr(0, cut));
    sha.Update(text.substr(cut));
    EXPECT_EQ(ToHex(sha.Finish()), hex(text));
  }
}

}  // namespace
}  // namespace slipway::io
