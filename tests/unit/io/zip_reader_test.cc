// Zip reading: every form a PT2 archive takes, zips inside zips, and hostile archives with the message each one gets.
#include "io/zip_reader.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "zip_builder.h"

namespace slipway::io {
namespace {

using ::slipway::testing::BuildZip;
using ::slipway::testing::WriteTemp;
using ::slipway::testing::ZipMember;

constexpr uint64_t kLimit = 1 << 20;

std::string Text(absl::Span<const uint8_t> bytes) { return std::string(bytes.begin(), bytes.end()); }

absl::StatusOr<std::shared_ptr<const ZipReader>> OpenText(std::string zip) {
  return ZipReader::Open(Bytes::Of(std::move(zip)));
}

void ExpectRefused(std::string zip, absl::StatusCode code, const std::string& message) {
  const absl::Status status = OpenText(std::move(zip)).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), message)) << status;
}

TEST(ZipReader, EveryForm) {
  const std::string big(5000, 'q');
  for (bool zip64_end : {false, true}) {
    const std::string zip = BuildZip({{.name = "m/a", .data = "alpha"},
                                      {.name = "m/b", .data = big, .deflated = true},
                                      {.name = "m/c", .data = "gamma", .descriptor = true},
                                      {.name = "m/d", .data = big, .zip64 = true},
                                      {.name = "m/e", .data = big, .deflated = true, .descriptor = true, .zip64 = true},
                                      {.name = "m/f", .data = ""}},
                                     {.zip64_end = zip64_end});
    auto file = MappedFile::Open(WriteTemp("z", zip));
    ASSERT_TRUE(file.ok());
    auto reader = ZipReader::Open(*file);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ASSERT_EQ((*reader)->entries().size(), 6u);
    const std::vector<std::string> expected = {"alpha", big, "gamma", big, big, ""};
    for (size_t i = 0; i < 6; ++i) {
      const ZipEntry& entry = (*reader)->entries()[i];
      EXPECT_EQ(entry.name, std::string("m/") + static_cast<char>('a' + i));
      EXPECT_EQ((*reader)->Find(entry.name), &entry);
      EXPECT_EQ((*reader)->ReadAll(entry, kLimit).value(), expected[i]);
      EXPECT_EQ(Text((*reader)->Read(entry, kLimit).value().data()), expected[i]);
      if (entry.method == ZipMethod::kStored) {
        const FileRange range = (*reader)->Raw(entry).value();
        EXPECT_EQ(range.offset, entry.data_offset);
        EXPECT_EQ(Text(range.data()), expected[i]);
      } else {
        EXPECT_EQ((*reader)->Raw(entry).status().code(), absl::StatusCode::kFailedPrecondition);
      }
    }
    EXPECT_EQ((*reader)->Find("m/z"), nullptr);
  }
}

TEST(ZipReader, CommentsAndEmptyArchives) {
  EXPECT_TRUE(OpenText(BuildZip({})).ok());
  EXPECT_TRUE(OpenText(BuildZip({{.name = "a", .data = "x"}}, {.comment = std::string(65535, 'c')})).ok());
  // A comment that looks like an end record must not be taken for one that reaches the end.
  EXPECT_TRUE(
      OpenText(BuildZip({{.name = "a", .data = "x"}}, {.comment = std::string("PK\5\6") + std::string(30, '\0')}))
          .ok());
}

TEST(ZipReader, ZipInsideZipIsReadInPlace) {
  const std::string inner = BuildZip({{.name = "i/x", .data = "payload"}});
  for (bool deflated : {false, true}) {
    const std::string outer =
        BuildZip({{.name = "pad", .data = "1234567"}, {.name = "w.pt", .data = inner, .deflated = deflated}});
    auto file = MappedFile::Open(WriteTemp("z", outer));
    ASSERT_TRUE(file.ok());
    auto reader = ZipReader::Open(*file);
    ASSERT_TRUE(reader.ok()) << reader.status();
    auto nested_bytes = (*reader)->Read(*(*reader)->Find("w.pt"), kLimit);
    ASSERT_TRUE(nested_bytes.ok());
    auto nested = ZipReader::Open(*nested_bytes);
    ASSERT_TRUE(nested.ok()) << nested.status();
    const ZipEntry* entry = (*nested)->Find("i/x");
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ((*nested)->ReadAll(*entry, kLimit).value(), "payload");
    if (deflated) {
      EXPECT_FALSE((*nested)->Raw(*entry).ok());
      EXPECT_EQ(Text((*nested)->Read(*entry, kLimit).value().data()), "payload");
    } else {
      EXPECT_EQ((*nested)->Raw(*entry).value().offset, outer.find("payload"));
    }
  }
}

TEST(ZipReader, RefusesWhatIsNoZip) {
  const auto kBad = absl::StatusCode::kInvalidArgument;
  ExpectRefused("", kBad, "not a zip");
  ExpectRefused("PK\3\4", kBad, "not a zip");
  ExpectRefused(std::string(100, 'x'), kBad, "not a zip");
  ExpectRefused(BuildZip({{.name = "a", .data = "x"}}) + "tail", kBad, "not a zip");
}

TEST(ZipReader, EveryTruncationIsRefused) {
  for (bool zip64 : {false, true}) {
    const std::string zip = BuildZip({{.name = "a", .data = "some data", .zip64 = zip64}}, {.zip64_end = zip64});
    for (size_t size = 0; size < zip.size(); ++size) EXPECT_FALSE(OpenText(zip.substr(0, size)).ok()) << size;
    for (size_t skip = 1; skip < zip.size(); ++skip) EXPECT_FALSE(OpenText(zip.substr(skip)).ok()) << skip;
  }
}

TEST(ZipReader, EveryFlippedByteIsReadOrRefused) {
  const std::string zip = BuildZip({{.name = "a", .data = "some data", .zip64 = true},
                                    {.name = "b", .data = std::string(300, 'b'), .deflated = true, .descriptor = true}},
                                   {.zip64_end = true});
  for (size_t at = 0; at < zip.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = zip;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      auto reader = OpenText(bad);
      if (!reader.ok()) continue;
      for (const ZipEntry& entry : (*reader)->entries()) (void)(*reader)->ReadAll(entry, kLimit);
    }
  }
}

TEST(ZipReader, RefusesLies) {
  const auto kBad = absl::StatusCode::kInvalidArgument;
  const auto kUnknown = absl::StatusCode::kUnimplemented;
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .size = 2}}), kBad, "\"a\" at byte 32: it is stored, yet");
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .size = 9000, .compressed_size = 9000}}), kBad,
                "does not end before the directory");
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .zip64 = true, .size = ~0ull, .compressed_size = ~0ull}}), kBad,
                "does not end before the directory");
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .deflated = true, .size = 1 << 30}}), kBad,
                "more than deflate can");
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .header_offset = 1 << 20}}), kBad, "lies outside");
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .zip64 = true, .header_offset = ~0ull}}), kBad, "lies outside");
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .header_offset = 1}}), kBad, "no local header");
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .local_name = "b"}}), kBad, "names it \"b\"");
  ExpectRefused(BuildZip({{.name = "a", .data = "x"}, {.name = "a", .data = "y"}}), kBad, "occurs twice");
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .flags = 1}}), kUnknown, "encrypted");
  ExpectRefused(BuildZip({{.name = "a", .data = "x", .method = 93}}), kUnknown, "method 93");
  ExpectRefused(BuildZip({{.name = "/etc/x", .data = "x"}}), kBad, "absolute");
  ExpectRefused(BuildZip({{.name = "a/../../x", .data = "x"}}), kBad, "leaves the archive");
  ExpectRefused(BuildZip({{.name = std::string("a\0b", 3), .data = "x"}}), kBad, "NUL");
  ExpectRefused(BuildZip({{.name = "", .data = "x"}}), kBad, "empty");
  ExpectRefused(BuildZip({{.name = "a", .data = "x"}}, {.count = 2}), kBad, "claims 2 members");
  ExpectRefused(BuildZip({{.name = "a", .data = "x"}}, {.count = 0}), kBad, "behind its last record");
  ExpectRefused(BuildZip({{.name = "a", .data = "x"}}, {.zip64_end = true, .count = 2'000'000}), kBad,
                "at most 1000000");
  ExpectRefused(BuildZip({{.name = "a", .data = "x"}}, {.directory_offset = 60}), kBad, "does not lie before");
  ExpectRefused(BuildZip({{.name = "a", .data = "x"}}, {.directory_offset = 3}), kBad, "no directory record");
  // Names that only look dangerous are names.
  EXPECT_TRUE(OpenText(BuildZip({{.name = "a/..b/...", .data = "x"}})).ok());
}

TEST(ZipReader, RefusesOverlaps) {
  // The second member's header lies within the first one's data.
  const std::string inner = BuildZip({{.name = "b", .data = "y"}}).substr(0, 32);
  ExpectRefused(BuildZip({{.name = "a", .data = inner}, {.name = "b", .data = "y", .header_offset = 31}}),
                absl::StatusCode::kInvalidArgument, "overlaps member \"a\"");
}

TEST(ZipReader, LimitsAndChecksums) {
  auto reader = OpenText(BuildZip({{.name = "a", .data = "x", .crc = 1},
                                   {.name = "b", .data = std::string(100'000, 'b'), .deflated = true},
                                   {.name = "c", .data = "cccc", .deflated = true, .size = 3}}));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto status_of = [&](std::string_view name, uint64_t limit) {
    return (*reader)->ReadAll(*(*reader)->Find(name), limit).status();
  };
  EXPECT_TRUE(absl::StrContains(status_of("a", 1).message(), "CRC"));
  EXPECT_EQ(status_of("b", 99'999).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(status_of("b", 100'000).ok());
  EXPECT_EQ(status_of("c", 10).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace slipway::io
