// What is known of the candidates of a search, kept over kills of the process.
#ifndef SLIPWAY_DRIVER_MINIFY_LOG_H_
#define SLIPWAY_DRIVER_MINIFY_LOG_H_

#include <unistd.h>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "driver/minify/check.h"

namespace slipway::driver {

// Verdicts by digest, one line each, on the disk before they are used. A line that was cut off by a kill is not there.
class VerdictLog {
 public:
  ~VerdictLog() {
    if (fd_ >= 0) close(fd_);
  }

  absl::Status Open(const std::string& path, const std::string& key);
  const Verdict* Find(const std::string& digest) const;
  absl::Status Add(const std::string& digest, const Verdict& v);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Verdict> verdicts_;  // whose elements stay where they are
  int fd_ = -1;

  static std::string Field(std::string s);
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_MINIFY_LOG_H_
