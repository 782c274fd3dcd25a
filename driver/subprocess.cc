// One loop over the two pipes and the child's pidfd, with the time that is left.
#include "driver/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/text.h"
#include "io/io_error.h"

namespace slipway::driver {
namespace {

using Clock = std::chrono::steady_clock;

// The beginning and the end of a stream.
class Kept {
 public:
  void Add(const char* data, size_t n) {
    const size_t first = std::min(n, kMost - std::min(kMost, head_.size()));
    head_.append(data, first);
    tail_.append(data + first, n - first);
    if (tail_.size() > 2 * kMost) {
      tail_.erase(0, tail_.size() - kMost);
      cut_ = true;
    }
  }
  std::string Take() {
    if (tail_.size() > kMost) {
      tail_.erase(0, tail_.size() - kMost);
      cut_ = true;
    }
    return head_ + (cut_ ? "\n...\n" : "") + tail_;
  }

 private:
  static constexpr size_t kMost = 256 << 10;
  std::string head_, tail_;
  bool cut_ = false;
};

struct Pipe {
  int read = -1, write = -1;
  ~Pipe() {
    CloseWrite();
    if (read >= 0) close(read);
  }
  absl::Status Open() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return io::IoError(errno, "a pipe");
    read = fds[0];
    write = fds[1];
    fcntl(read, F_SETFL, O_NONBLOCK);
    return absl::OkStatus();
  }
  void CloseWrite() {
    if (write >= 0) close(write);
    write = -1;
  }
};

// In the child: async-signal-safe calls only.
[[noreturn]] void Start(char* const* argv, const ProcessLimits& limits, int out, int err, int failure, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it was killed before that
  for (int s : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGBUS, SIGXCPU}) signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (limits.memory > 0) {
    const rlimit memory{limits.memory, limits.memory};
    setrlimit(RLIMIT_DATA, &memory);
  }
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(out, 1);
  dup2(err, 2);
  const int kept = dup3(failure, 3, O_CLOEXEC) == 3 || failure == 3 ? 3 : failure;
  syscall(SYS_close_range, static_cast<unsigned>(kept + 1), ~0U, 0U);
  execvp(argv[0], argv);
  const int error = errno;
  if (write(kept, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

// Reads what is there; false at the end of the stream.
bool Read(int fd, Kept& into) {
  char buffer[65536];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0) {
      into.Add(buffer, static_cast<size_t>(n));
      continue;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
  }
}

}  // namespace

absl::StatusOr<ProcessResult> RunProcess(const std::vector<std::string>& argv, const ProcessLimits& limits) {
  std::vector<char*> arguments;
  for (const std::string& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  Pipe out, err, failure;
  for (Pipe* p : {&out, &err, &failure})
    if (absl::Status s = p->Open(); !s.ok()) return s;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return io::IoError(errno, "a process");
  if (child == 0) Start(arguments.data(), limits, out.write, err.write, failure.write, parent);
  setpgid(child, child);  // whoever comes first
  for (Pipe* p : {&out, &err, &failure}) p->CloseWrite();
  const int ended = static_cast<int>(syscall(SYS_pidfd_open, child, 0));

  ProcessResult result;
  Kept kept_out, kept_err;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.seconds));
  pollfd fds[3] = {{out.read, POLLIN, 0}, {err.read, POLLIN, 0}, {ended, POLLIN, 0}};
  int status = 0;
  for (;;) {
    int wait = ended < 0 ? 20 : -1;
    if (limits.seconds > 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) {
        result.how = ProcessResult::kTimedOut;
        kill(-child, SIGKILL);
        waitpid(child, &status, 0);
        break;
      }
      wait = static_cast<int>(std::min<int64_t>(wait < 0 ? 1 << 30 : wait, left + 1));
    }
    poll(fds, 3, wait);
    if (fds[0].fd >= 0 && fds[0].revents != 0 && !Read(fds[0].fd, kept_out)) fds[0].fd = -1;
    if (fds[1].fd >= 0 && fds[1].revents != 0 && !Read(fds[1].fd, kept_err)) fds[1].fd = -1;
    if (waitpid(child, &status, WNOHANG) == child) break;
  }
  kill(-child, SIGKILL);  // what it left running
  if (ended >= 0) close(ended);
  Read(out.read, kept_out);
  Read(err.read, kept_err);
  int error = 0;
  if (read(failure.read, &error, sizeof error) == sizeof error)
    return absl::UnavailableError(text::StrCat(argv[0], " cannot be run: ", text::FromAbsl(io::IoError(error, "").message())));
  result.out = kept_out.Take();
  result.err = kept_err.Take();
  if (result.how == ProcessResult::kTimedOut) return result;
  result.how = WIFSIGNALED(status) ? ProcessResult::kSignalled : ProcessResult::kExited;
  result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace slipway::driver
