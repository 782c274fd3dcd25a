// The log is a text: "slipway-minify 1 KEY", then a line of digest, verdict, failure and message for each candidate.
#include "driver/minify/log.h"

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <mutex>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/minify/check.h"
#include "io/atomic_writer.h"
#include "io/io_error.h"
#include "io/mapped_file.h"

namespace slipway::driver {

// Goes on with a log that has the same key; else it begins anew.
absl::Status VerdictLog::Open(const std::string& path, const std::string& key) {
  const std::string head = text::StrCat("slipway-minify 1 ", key, "\n");
  std::string kept = head;
  if (auto file = io::MappedFile::Open(path); file.ok()) {
    const auto data = (*file)->data();
    const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
    if (text.starts_with(head)) kept = std::string(text.substr(0, text.rfind('\n') + 1));
  }
  for (std::string_view line : text::Split(std::string_view(kept).substr(head.size()), '\n')) {
    const std::vector<std::string_view> parts = text::Split(line, '\t');
    if (parts.size() != 4) continue;
    Verdict v;
    v.kind = parts[1] == "fails" ? Verdict::kFails : parts[1] == "passes" ? Verdict::kPasses : Verdict::kUnusable;
    v.failure = std::string(parts[2]);
    v.message = std::string(parts[3]);
    verdicts_.emplace(std::string(parts[0]), std::move(v));
  }
  RETURN_IF_ERROR(io::WriteFile(path, kept));
  fd_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  return fd_ < 0 ? io::IoError(errno, path) : absl::OkStatus();
}

const Verdict* VerdictLog::Find(const std::string& digest) const {
  std::lock_guard lock(mutex_);
  auto it = verdicts_.find(digest);
  return it == verdicts_.end() ? nullptr : &it->second;
}

absl::Status VerdictLog::Add(const std::string& digest, const Verdict& v) {
  const std::string line = text::StrCat(digest, "\t",
                                        v.kind == Verdict::kFails    ? "fails"
                                        : v.kind == Verdict::kPasses ? "passes"
                                                                     : "unusable",
                                        "\t", Field(v.failure), "\t", Field(v.message), "\n");
  std::lock_guard lock(mutex_);
  if (write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size()) || fdatasync(fd_) != 0)
    return io::IoError(errno, "probes.log");
  verdicts_.insert_or_assign(digest, Verdict{v.kind, Field(v.failure), Field(v.message)});
  return absl::OkStatus();
}

std::string VerdictLog::Field(std::string s) {
  for (char& c : s)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return s;
}

}  // namespace slipway::driver
