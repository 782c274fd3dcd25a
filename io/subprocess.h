// Other programs, run with a limit of time: Python with onnxruntime, which slipway does without wherever it can.
#ifndef SLIPWAY_IO_SUBPROCESS_H_
#define SLIPWAY_IO_SUBPROCESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace slipway::io {

struct SubprocessOptions {
  std::string input;  // on its standard input
  // descriptors of this process that it finds under the same numbers; all others are closed
  std::vector<int> inherit;
  double timeout_seconds = 0;            // 0: none. After it the process and its children are killed
  uint64_t memory_limit = 0;             // bytes of writable memory (RLIMIT_DATA), 0: none
  size_t max_output = size_t{64} << 20;  // bytes kept of standard output; of standard error a 16th of it, the end
};

struct SubprocessResult {
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  bool timed_out = false;
  bool output_cut = false;  // it wrote more than max_output
  std::string output, error;
};

// Runs argv[0], looked for in PATH where it has no slash, and waits for it. It dies with this process, and what it
// started with it. Errors: NotFound and
// PermissionDenied (IoError()s) where there is no such program; those of the system.
absl::StatusOr<SubprocessResult> RunSubprocess(const std::vector<std::string>& argv, const SubprocessOptions& options);

// A file in memory, for what a subprocess reads or writes; owns its descriptor.
class MemoryFile {
 public:
  static absl::StatusOr<MemoryFile> Make(const char* name);
  MemoryFile(MemoryFile&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();
  int fd() const { return fd_; }
  absl::Status Append(const std::string& bytes);
  // InvalidArgument where the file ends before.
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t size) const;

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace slipway::io

#endif  // SLIPWAY_IO_SUBPROCESS_H_
