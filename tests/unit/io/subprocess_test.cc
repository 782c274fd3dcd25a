// Other programs (io/subprocess.h): their output, how they end, limits.
#include "io/subprocess.h"

#include <fcntl.h>
#include <unistd.h>
#include <csignal>

#include <chrono>

#include "gtest/gtest.h"
#include "io/io_error.h"

namespace slipway::io {
namespace {

SubprocessResult Shell(const std::string& script, SubprocessOptions options = {}) {
  auto r = RunSubprocess({"sh", "-c", script}, options);
  EXPECT_TRUE(r.ok()) << r.status();
  return *r;
}

TEST(Subprocess, GivesWhatItSays) {
  const SubprocessResult r = Shell("cat; echo wrong >&2; exit 7", {.input = "hello"});
  EXPECT_EQ(r.exit_code, 7);
  EXPECT_EQ(r.output, "hello");
  EXPECT_EQ(r.error, "wrong\n");
  EXPECT_FALSE(r.timed_out);
}

TEST(Subprocess, LargeInputAndOutput) {
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(Shell("cat", {.input = large}).output, large);
  // One that does not read.
  EXPECT_EQ(Shell("exit 0", {.input = large}).exit_code, 0);
  const SubprocessResult cut = Shell("head -c 1000000 /dev/zero", {.max_output = 1000});
  EXPECT_EQ(cut.output.size(), 1000u);
  EXPECT_TRUE(cut.output_cut);
}

TEST(Subprocess, EndsBySignal) {
  const SubprocessResult r = Shell("kill -SEGV $$");
  EXPECT_EQ(r.signal, SIGSEGV);
  EXPECT_EQ(r.exit_code, -1);
}

TEST(Subprocess, IsKilledWithItsChildren) {
  const auto begin = std::chrono::steady_clock::now();
  const SubprocessResult r = Shell("sleep 100 & sleep 100", {.timeout_seconds = 0.2});
  EXPECT_TRUE(r.timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Subprocess, IsHeldToItsMemory) {
  const SubprocessResult r =
      Shell("exec head -c 300000000 /dev/zero | tail -c 300000000 | wc -c", {.memory_limit = uint64_t{100} << 20});
  EXPECT_NE(r.output, "300000000\n");
}

TEST(Subprocess, InheritsWhatIsNamed) {
  auto file = MemoryFile::Make("test");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Append("before ").ok());
  Shell("echo after >&" + std::to_string(file->fd()), {.inherit = {file->fd()}});
  EXPECT_EQ(*file->Read(0, 13), "before after\n");
  EXPECT_FALSE(file->Read(7, 7).ok());
  // Others are closed.
  EXPECT_NE(Shell("echo after >&" + std::to_string(file->fd())).exit_code, 0);
}

TEST(Subprocess, MissingProgram) {
  EXPECT_EQ(ErrnoOf(RunSubprocess({"no-such-program-anywhere"}, {}).status()), ENOENT);
  EXPECT_EQ(ErrnoOf(RunSubprocess({"/no/such"}, {}).status()), ENOENT);
}

}  // namespace
}  // namespace slipway::io
