// What the fuzz targets share. A target is tests/fuzz/NAME.cc with LLVMFuzzerTestOneInput, which reads bytes as one of
// the project's readers would, goes through what it got, and fails only by a crash, a sanitizer's report or a broken
// promise. libFuzzer is the driver (scripts/fuzz.sh); the code is built with GCC.
#ifndef SLIPWAY_TESTS_FUZZ_TARGET_H_
#define SLIPWAY_TESTS_FUZZ_TARGET_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "io/mapped_file.h"

namespace slipway::fuzz {

// Counts an answer, so that inputs that are refused for another reason are interesting even where the code is not
// instrumented (feedback.cc). Numbers and quoted names in the text do not make it another answer.
void Answer(std::string_view text);
inline void Answer(const absl::Status& s) { Answer(std::string_view(s.message().data(), s.message().size())); }

// Ends the process where a promise is broken.
inline void Promise(bool kept, const std::string& what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what.c_str());
  std::abort();
}
// A status other than that of bad or unsupported input, or of a limit, is a bug.
inline void PromiseInputError(const absl::Status& s) {
  Answer(s);
  Promise(s.ok() || absl::IsInvalidArgument(s) || absl::IsUnimplemented(s) || absl::IsOutOfRange(s) ||
              absl::IsResourceExhausted(s) || absl::IsNotFound(s) || absl::IsFailedPrecondition(s),
          s.ToString());
}

// The bytes as a file, mapped.
class AsFile {
 public:
  explicit AsFile(absl::Span<const uint8_t> bytes) : fd_(memfd_create("fuzz", 0)) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = write(fd_, bytes.data() + at, bytes.size() - at);
      if (n <= 0) std::exit(1);
      at += static_cast<size_t>(n);
    }
  }
  ~AsFile() { close(fd_); }
  AsFile(const AsFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }
  std::shared_ptr<io::MappedFile> Open() const {
    auto file = io::MappedFile::Open(path());
    if (!file.ok()) std::exit(1);
    return *std::move(file);
  }

 private:
  const int fd_;
};

}  // namespace slipway::fuzz

#endif  // SLIPWAY_TESTS_FUZZ_TARGET_H_
