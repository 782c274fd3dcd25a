// Between fork and exec only system calls are made: other threads of this process may hold locks of the C library.
#include "io/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "io/io_error.h"

namespace slipway::io {
namespace {

// The program's path, as execvp() finds it.
absl::StatusOr<std::string> Find(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  const std::string all = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find(':', at), all.size());
    const std::string candidate = absl::StrCat(end == at ? "." : all.substr(at, end - at), "/", name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return IoError(ENOENT, name);
}

struct Pipe {
  int read = -1, write = -1;
  ~Pipe() {
    Close(read);
    Close(write);
  }
  static void Close(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  absl::Status Open() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return IoError(errno, "pipe");
    read = fds[0], write = fds[1];
    return absl::OkStatus();
  }
};

// In the child. Never returns.
[[noreturn]] void Become(const char* program, char* const* argv, int in, int out, int error, const SubprocessOptions& o,
                         pid_t parent) {
  setpgid(0, 0);  // so that its children can be killed with it
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  // Out of the way of 0, 1 and 2, in whatever order these were.
  in = fcntl(in, F_DUPFD, 100), out = fcntl(out, F_DUPFD, 100), error = fcntl(error, F_DUPFD, 100);
  if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(error, 2) < 0) _exit(127);
  close(in), close(out), close(error);
  for (int fd : o.inherit) fcntl(fd, F_SETFD, 0);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (o.memory_limit > 0) {
    const rlimit limit{o.memory_limit, o.memory_limit};
    setrlimit(RLIMIT_DATA, &limit);
  }
  execv(program, argv);
  _exit(127);
}

void Keep(const char* data, size_t size, size_t most, bool end, std::string* out, bool* cut) {
  out->append(data, size);
  if (out->size() <= most) return;
  if (end)
    out->erase(0, out->size() - most);
  else
    out->resize(most), *cut = true;
}

}  // namespace

// One loop over poll(): input is fed, outputs are taken and the end is noticed at once, or a full pipe would stop both.
absl::StatusOr<SubprocessResult> RunSubprocess(const std::vector<std::string>& argv, const SubprocessOptions& o) {
  auto program = Find(argv.at(0));
  if (!program.ok()) return program.status();
  if (access(program->c_str(), X_OK) != 0) return IoError(errno, *program);
  std::vector<char*> arguments;
  for (const std::string& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  Pipe in, out, error;
  for (Pipe* p : {&in, &out, &error})
    if (absl::Status s = p->Open(); !s.ok()) return s;
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return IoError(errno, "fork");
  if (child == 0) Become(program->c_str(), arguments.data(), in.read, out.write, error.write, o, parent);
  Pipe::Close(in.read), Pipe::Close(out.write), Pipe::Close(error.write);
  for (int fd : {in.write, out.read, error.read}) fcntl(fd, F_SETFL, O_NONBLOCK);
  const int ended = static_cast<int>(syscall(SYS_pidfd_open, child, 0));  // readable once it has; -1 on old kernels

  SubprocessResult result;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(o.timeout_seconds);
  size_t written = 0;
  struct sigaction ignore = {}, old;
  ignore.sa_handler = SIG_IGN;
  if (!o.input.empty()) sigaction(SIGPIPE, &ignore, &old);  // a program that does not read its input
  // What is there of its outputs.
  const auto drain = [&](int i) {
    Pipe& p = i == 0 ? out : error;
    char buffer[65536];
    while (p.read >= 0) {
      const ssize_t n = read(p.read, buffer, sizeof buffer);
      if (n > 0)
        Keep(buffer, static_cast<size_t>(n), i == 0 ? o.max_output : o.max_output / 16, i == 1,
             i == 0 ? &result.output : &result.error, &result.output_cut);
      else if (n < 0 && errno == EINTR)
        continue;
      else if (n < 0 && errno == EAGAIN)
        return;
      else
        Pipe::Close(p.read);
    }
  };
  int status = 0;
  // Until it ends: its children may hold its outputs for longer.
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (written == o.input.size()) Pipe::Close(in.write);
    pollfd fds[] = {{out.read, POLLIN, 0}, {error.read, POLLIN, 0}, {in.write, POLLOUT, 0}, {ended, POLLIN, 0}};
    int wait = ended < 0 ? 10 : 1000;
    if (o.timeout_seconds > 0) {
      const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
      if (left <= 0) {
        result.timed_out = true;
        break;
      }
      wait = static_cast<int>(std::min(static_cast<double>(wait), left * 1e3)) + 1;
    }
    if (poll(fds, 4, wait) < 0 && errno != EINTR) break;
    for (int i = 0; i < 2; ++i)
      if (fds[i].revents != 0) drain(i);
    if (fds[2].revents != 0) {
      const ssize_t n = write(in.write, o.input.data() + written, o.input.size() - written);
      if (n > 0)
        written += static_cast<size_t>(n);
      else if (n < 0 && errno != EAGAIN && errno != EINTR)
        Pipe::Close(in.write), written = o.input.size();
    }
  }
  if (!o.input.empty()) sigaction(SIGPIPE, &old, nullptr);
  if (ended >= 0) close(ended);
  kill(-child, SIGKILL);
  if (result.timed_out) {
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  drain(0);
  drain(1);
  if (WIFEXITED(status))
    result.exit_code = WEXITSTATUS(status);
  else if (WIFSIGNALED(status))
    result.signal = WTERMSIG(status);
  return result;
}

absl::StatusOr<MemoryFile> MemoryFile::Make(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return IoError(errno, "memfd_create");
  return MemoryFile(fd);
}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status MemoryFile::Append(const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR) return IoError(errno, "a file in memory");
    if (n > 0) done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryFile::Read(uint64_t offset, uint64_t size) const {
  const off_t length = lseek(fd_, 0, SEEK_END);
  if (length < 0) return IoError(errno, "a file in memory");
  if (offset > static_cast<uint64_t>(length) || size > static_cast<uint64_t>(length) - offset)
    return absl::InvalidArgumentError("a file in memory is shorter than said");
  std::string out(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t n = pread(fd_, out.data() + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno != EINTR) return IoError(errno, "a file in memory");
    if (n == 0) return absl::InvalidArgumentError("a file in memory is shorter than said");
    if (n > 0) done += static_cast<size_t>(n);
  }
  return out;
}

}  // namespace slipway::io
