// Atomic output: what a reader finds at each moment, and what is left behind after failures and signals.
#include "io/atomic_writer.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "io/crc32.h"
#include "zip_builder.h"

namespace slipway::io {
namespace {

using ::slipway::testing::ReadWhole;
using ::slipway::testing::TempPath;
using ::slipway::testing::WriteTemp;

// A fresh folder for one test; the names in it, sorted.
class AtomicFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "slipway_atomic_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override {
    for (const std::string& name : Names()) unlink((folder_ + "/" + name).c_str());
    rmdir(folder_.c_str());
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    DIR* folder = opendir(folder_.c_str());
    while (dirent* entry = readdir(folder)) {
      if (std::string(entry->d_name) != "." && std::string(entry->d_name) != "..") names.push_back(entry->d_name);
    }
    closedir(folder);
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(AtomicFileTest, AppearsOnCommitOnly) {
  {
    auto file = AtomicFile::Create(Path("out"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write("hello ").ok());
    ASSERT_TRUE((*file)->Write("world").ok());
    ASSERT_TRUE((*file)->WriteZeros(5000).ok());
    EXPECT_EQ((*file)->position(), 5011u);
    ASSERT_EQ(Names().size(), 1u);
    EXPECT_EQ(Names()[0].rfind(".out.slipway-", 0), 0u);
    ASSERT_TRUE((*file)->Commit().ok());
    EXPECT_FALSE((*file)->Commit().ok());
  }
  EXPECT_EQ(Names(), std::vector<std::string>{"out"});
  EXPECT_EQ(ReadWhole(Path("out")), "hello world" + std::string(5000, '\0'));
}

TEST_F(AtomicFileTest, DroppedFilesLeaveTheOldOne) {
  std::ofstream(Path("out")) << "old";
  {
    auto file = AtomicFile::Create(Path("out"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Write(std::string(1 << 20, 'x')).ok());
    EXPECT_EQ(Names().size(), 2u);
  }
  EXPECT_EQ(Names(), std::vector<std::string>{"out"});
  EXPECT_EQ(ReadWhole(Path("out")), "old");
}

TEST_F(AtomicFileTest, KeepsPermissionsAndLinks) {
  std::ofstream(Path("real")) << "old";
  chmod(Path("real").c_str(), 0640);
  ASSERT_EQ(symlink("real", Path("link").c_str()), 0);
  auto file = AtomicFile::Create(Path("link"), {.durable = true});
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Write("new").ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(ReadWhole(Path("real")), "new");
  struct stat info;
  ASSERT_EQ(lstat(Path("link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  ASSERT_EQ(stat(Path("real").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(AtomicFileTest, Refusals) {
  EXPECT_EQ(AtomicFile::Create(Path("missing/out")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(AtomicFile::Create(folder_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AtomicFile::Create(folder_ + "/").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AtomicFile::Create("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AtomicFile::Create("/dev/null").status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(symlink("loop", Path("loop").c_str()), 0);
  EXPECT_FALSE(AtomicFile::Create(Path("loop")).ok());
  if (geteuid() != 0) {  // root may write everywhere
    chmod(folder_.c_str(), 0500);
    EXPECT_EQ(AtomicFile::Create(Path("out")).status().code(), absl::StatusCode::kPermissionDenied);
    chmod(folder_.c_str(), 0700);
  }
}

TEST_F(AtomicFileTest, CopiesParts) {
  std::string text;
  for (int i = 0; i < 20'000'000; ++i) text.push_back(static_cast<char>(i * 2654435761u >> 24));
  std::ofstream(Path("in"), std::ios::binary) << text;
  auto source = MappedFile::Open(Path("in"));
  ASSERT_TRUE(source.ok());
  auto file = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Write("head").ok());
  ASSERT_TRUE((*file)->CopyFrom({*source, 17, 19'000'001}).ok());
  ASSERT_TRUE((*file)->Append(Bytes::Of(std::string("middle"))).ok());
  ASSERT_TRUE((*file)->Append(Bytes::Of(*source).Part(3, 5)).ok());
  ASSERT_TRUE((*file)->CopyFrom({}).ok());
  ASSERT_TRUE((*file)->Write("end").ok());
  const std::string patch = "PATCH";
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(patch.data()), patch.size());
  ASSERT_TRUE((*file)->WriteAt(1, bytes).ok());
  EXPECT_FALSE((*file)->WriteAt((*file)->position() - 4, bytes).ok());
  ASSERT_TRUE((*file)->WriteAt((*file)->position() - 5, bytes).ok());
  ASSERT_TRUE((*file)->Commit().ok());
  std::string expected = "head" + text.substr(17, 19'000'001) + "middle" + text.substr(3, 5) + "end";
  expected.replace(1, 5, patch);
  expected.replace(expected.size() - 5, 5, patch);
  EXPECT_TRUE(ReadWhole(Path("out")) == expected);
}

// From another file system where there is one: the second way of copying.
TEST_F(AtomicFileTest, CopiesAcrossFileSystems) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no second file system";
  const std::string text(3'000'000, 'z');
  const std::string path = "/dev/shm/slipway_atomic_test_" + std::to_string(getpid());
  std::ofstream(path, std::ios::binary) << text;
  auto source = MappedFile::Open(path);
  unlink(path.c_str());
  ASSERT_TRUE(source.ok());
  auto file = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->CopyFrom({*source, 1, text.size() - 1}).ok());
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_TRUE(ReadWhole(Path("out")) == text.substr(1));
}

TEST_F(AtomicFileTest, ShortenedSourcesAreReported) {
  std::ofstream(Path("in")) << std::string(100'000, 'x');
  auto source = MappedFile::Open(Path("in"));
  ASSERT_TRUE(source.ok());
  ASSERT_EQ(truncate(Path("in").c_str(), 5000), 0);
  auto file = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->CopyFrom({*source, 0, 100'000}).code(), absl::StatusCode::kDataLoss);
}

// What comes through memory is compared with the checksum that is given: small parts, and large ones whose pages
// straddle.
TEST_F(AtomicFileTest, ComparesChecksums) {
  const std::string text(3'000'000, 'y');
  std::ofstream(Path("in"), std::ios::binary) << text;
  auto source = MappedFile::Open(Path("in"));
  ASSERT_TRUE(source.ok());
  auto file = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(file.ok());
  for (const uint64_t size : {uint64_t{1000}, uint64_t{300'000}, uint64_t{2'999'983}}) {
    const FileRange range{*source, 17, size};
    const uint32_t crc = Crc32(0, range.data());
    EXPECT_TRUE((*file)->CopyFrom(range, crc).ok());
    EXPECT_EQ((*file)->CopyFrom(range, crc ^ 1).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(AtomicFileTest, ReservedRoomIsGivenBack) {
  auto file = AtomicFile::Create(Path("out"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Reserve(uint64_t{64} << 20).ok());
  ASSERT_TRUE((*file)->Write("few").ok());
  ASSERT_TRUE((*file)->Commit().ok());
  struct stat info;
  ASSERT_EQ(stat(Path("out").c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 3);
  EXPECT_LE(info.st_blocks, 64);
}

// Another file, even one that this output is not made of: weights are used until the end.
TEST_F(AtomicFileTest, ChangedInputsStopTheCommit) {
  std::ofstream(Path("in")) << "before";
  auto source = MappedFile::Open(Path("in"));
  ASSERT_TRUE(source.ok());
  EXPECT_TRUE(InputsUnchanged().ok());
  usleep(20'000);  // the system's clock of files is coarse
  std::ofstream(Path("in")) << "behind";
  EXPECT_EQ(InputsUnchanged().code(), absl::StatusCode::kDataLoss);
  {
    auto file = AtomicFile::Create(Path("out"));
    ASSERT_TRUE(file.ok());
    EXPECT_EQ((*file)->Commit().code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(Names(), std::vector<std::string>{"in"});
  *source = nullptr;
  EXPECT_TRUE(InputsUnchanged().ok());
}

// What a killed process left of the files that are written goes once these are in place; anything else stays.
TEST_F(AtomicFileTest, RemovesLeftovers) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const std::string number = std::to_string(gone), alive = std::to_string(getppid());
  const std::vector<std::string> stay = {".b.x.slipway-" + alive + "-0.tmp", ".b.slipway-" + number + "-3.tmp",
                                         "b." + number + ".before.tmp", "b.x." + alive + ".before.tmp",
                                         "b.x.before.tmp"};
  const std::vector<std::string> go = {".b.x.slipway-" + number + "-0.tmp", "b.x." + number + ".before.tmp"};
  for (const auto* names : {&stay, &go})
    for (const std::string& name : *names) std::ofstream(Path(name)) << "old";
  {
    auto file = AtomicFile::Create(Path("b.x"));
    ASSERT_TRUE(file.ok());
  }
  EXPECT_EQ(Names().size(), stay.size() + go.size());  // not before
  auto file = AtomicFile::Create(Path("b.x"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Commit().ok());
  std::vector<std::string> expected = stay;
  expected.push_back("b.x");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(Names(), expected);
}

TEST_F(AtomicFileTest, TwoFilesTogether) {
  std::ofstream(Path("a")) << "old a";
  for (bool fails : {true, false}) {
    auto a = AtomicFile::Create(Path("a"));
    auto b = AtomicFile::Create(Path("b"));
    ASSERT_TRUE(a.ok() && b.ok());
    ASSERT_TRUE((*a)->Write("new a").ok());
    ASSERT_TRUE((*b)->Write("new b").ok());
    if (fails) {
      // A folder that appears in the meantime cannot be renamed over.
      ASSERT_EQ(mkdir(Path("b").c_str(), 0700), 0);
      ASSERT_EQ(mkdir(Path("b/x").c_str(), 0700), 0);
    }
    AtomicFile* files[] = {a->get(), b->get()};
    const absl::Status status = CommitAll(files);
    if (fails) {
      EXPECT_FALSE(status.ok());
      EXPECT_EQ(ReadWhole(Path("a")), "old a");
      rmdir(Path("b/x").c_str());
      rmdir(Path("b").c_str());
    } else {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  EXPECT_EQ(ReadWhole(Path("a")), "new a");
  EXPECT_EQ(ReadWhole(Path("b")), "new b");
  EXPECT_EQ(Names(), (std::vector<std::string>{"a", "b"}));
}

// A limit on file sizes stands for a full disk.
TEST_F(AtomicFileTest, NoRoomIsResourceExhausted) {
  std::ofstream(Path("in")) << std::string(1 << 20, 'x');
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    int failures = 0;
    {
      auto file = AtomicFile::Create(Path("out"));
      absl::Status status = (*file)->Write(std::string(300'000, 'x'));
      failures += status.code() != absl::StatusCode::kResourceExhausted;
    }
    {
      auto file = AtomicFile::Create(Path("out"));
      absl::Status status = (*file)->Write(std::string(200'000, 'x'));  // gathered: shows on commit
      failures += !status.ok();
      failures += (*file)->Commit().code() != absl::StatusCode::kResourceExhausted;
    }
    {
      auto file = AtomicFile::Create(Path("out"));
      auto source = MappedFile::Open(Path("in"));
      absl::Status status = (*file)->CopyFrom({*source, 0, 1 << 20});
      failures += status.code() != absl::StatusCode::kResourceExhausted;
    }
    _exit(failures);
  }
  int result = 0;
  waitpid(child, &result, 0);
  EXPECT_TRUE(WIFEXITED(result));
  EXPECT_EQ(WEXITSTATUS(result), 0);
  EXPECT_EQ(Names(), std::vector<std::string>{"in"});
}

TEST_F(AtomicFileTest, SignalsRemoveTemporaries) {
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      signal(number, SIG_DFL);  // where this process was started with it ignored, as by nohup
      // A fresh process: this one's handlers were installed for the parent.
      execl("/proc/self/exe", "unit_tests", "--gtest_also_run_disabled_tests",
            "--gtest_filter=AtomicFileChild.DISABLED_WaitsForSignal", nullptr);
      _exit(1);
    }
    close(ready[0]);
    close(ready[1]);
    const std::string folder = ::testing::TempDir() + "slipway_child_" + std::to_string(child);
    for (int i = 0; i < 1000 && access((folder + "/ready").c_str(), F_OK) != 0; ++i) usleep(10'000);
    kill(child, number);
    int result = 0;
    waitpid(child, &result, 0);
    EXPECT_TRUE(WIFSIGNALED(result));
    EXPECT_EQ(WTERMSIG(result), number);
    unlink((folder + "/ready").c_str());
    EXPECT_EQ(rmdir(folder.c_str()), 0) << "a temporary was left in " << folder;
  }
}

// The process that the test above stops.
TEST(AtomicFileChild, DISABLED_WaitsForSignal) {
  io::RemoveTemporariesOnSignals([](const LostInput&) { _exit(1); });
  const std::string folder = ::testing::TempDir() + "slipway_child_" + std::to_string(getpid());
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (int i = 0; i < 200; ++i) files.push_back(AtomicFile::Create(folder + "/out").value());
  for (int i = 0; i < 200; i += 3) files[i] = nullptr;
  std::ofstream(folder + "/ready") << "ready";
  for (;;) pause();
}

}  // namespace
}  // namespace slipway::io
