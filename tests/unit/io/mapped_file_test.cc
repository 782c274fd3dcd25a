// Mapped input files: what is opened, what is refused, and that released pages come back.
#include "io/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "io/byte_source.h"
#include "zip_builder.h"

namespace slipway::io {
namespace {

using ::slipway::testing::TempPath;
using ::slipway::testing::WriteTemp;

TEST(MappedFile, GivesTheBytes) {
  const std::string path = WriteTemp("a", "hello");
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->size(), 5u);
  EXPECT_EQ((*file)->path(), path);
  EXPECT_EQ(std::string((*file)->data().begin(), (*file)->data().end()), "hello");
  char byte;
  EXPECT_EQ(pread((*file)->fd(), &byte, 1, 4), 1);
  EXPECT_EQ(byte, 'o');
}

TEST(MappedFile, EmptyFile) {
  auto file = MappedFile::Open(WriteTemp("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->data().empty());
  (*file)->Release(0, 10);
}

TEST(MappedFile, ReleasedPagesComeBack) {
  const std::string text(100'000, 'x');
  auto file = MappedFile::Open(WriteTemp("big", text));
  ASSERT_TRUE(file.ok());
  (*file)->Release(5000, 50'000);
  (*file)->Release(99'999, ~uint64_t{0});
  (*file)->Release(~uint64_t{0}, ~uint64_t{0});
  EXPECT_EQ(std::string((*file)->data().begin(), (*file)->data().end()), text);
}

TEST(MappedFile, Refusals) {
  EXPECT_EQ(MappedFile::Open(TempPath("missing")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(::testing::TempDir()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::Open("/dev/null").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string fifo = TempPath("fifo");
  unlink(fifo.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(fifo).status().code(), absl::StatusCode::kInvalidArgument);
  unlink(fifo.c_str());
  if (geteuid() != 0) {  // root may read everything
    const std::string locked = WriteTemp("locked", "x");
    chmod(locked.c_str(), 0);
    EXPECT_EQ(MappedFile::Open(locked).status().code(), absl::StatusCode::kPermissionDenied);
    unlink(locked.c_str());
  }
}

TEST(Bytes, PartsOfFilesAndStrings) {
  const Bytes text = Bytes::Of(std::string("0123456789"));
  const Bytes part = text.Part(2, 6).Part(1, 2);
  EXPECT_EQ(part.size(), 2u);
  EXPECT_EQ(part.data()[0], '3');
  EXPECT_EQ(part.file_range(), nullptr);
  auto file = MappedFile::Open(WriteTemp("p", "0123456789"));
  ASSERT_TRUE(file.ok());
  const Bytes in_file = Bytes::Of(*file).Part(4, 3);
  ASSERT_NE(in_file.file_range(), nullptr);
  EXPECT_EQ(in_file.file_range()->offset, 4u);
  EXPECT_EQ(in_file.data()[2], '6');
  EXPECT_TRUE(Bytes().data().empty());
}

}  // namespace
}  // namespace slipway::io
