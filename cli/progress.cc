// What commands that write say while they work, and at the end.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "base/byte_count.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "io/io_error.h"

namespace slipway::cli {
namespace {

std::string Shown(std::string_view text, size_t most) { return text::Printable(text::Shortened(text, most)); }

}  // namespace

void PrintSummary(const std::string& output, bool dry_run, const driver::ConvertSummary& s) {
  constexpr size_t kMostLines = 10, kMostLine = 1000;
  for (size_t i = 0; i < std::min(s.lines.size(), kMostLines); ++i)
    std::fprintf(stderr, "note: %s\n", Shown(s.lines[i], kMostLine).c_str());
  if (s.lines.size() > kMostLines) std::fprintf(stderr, "note: … and %zu more\n", s.lines.size() - kMostLines);
  const std::string name = Shown(output, kMostLine), weights = text::ByteCount(s.weight_bytes),
                    written = text::ByteCount(s.bytes_written);
  const std::string peak = text::ByteCount(s.peak_rss);
  if (s.tensors > 0) {
    std::fprintf(stderr, "%s%s: %d tensors of %s, %s written, %.0f ms, peak %s\n", dry_run ? "dry run, " : "",
                 name.c_str(), s.tensors, weights.c_str(), written.c_str(), s.seconds * 1e3, peak.c_str());
    return;
  }
  std::string dims = s.dims.empty() ? "static" : text::Join(s.dims, ", ");
  std::fprintf(stderr, "%s%s: %d nodes -> %d, dims %s, weights %s, %s written, %.0f ms, peak %s\n",
               dry_run ? "dry run, " : "", name.c_str(), s.nodes_before, s.nodes_after, Shown(dims, kMostLine).c_str(),
               weights.c_str(), written.c_str(), s.seconds * 1e3, peak.c_str());
}

absl::Status PrintJson(const driver::ConvertOptions& o, const driver::ConvertSummary& s) {
  return WriteOut(driver::ToJson(o, s));
}

absl::Status WriteOut(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written ? absl::OkStatus() : io::IoError(errno, "standard output");
}

std::function<void(uint64_t, uint64_t)> ProgressBar() {
  if (!isatty(2) || OnDumbTerminal()) return {};
  constexpr uint64_t kWorthShowing = 256 << 20;  // smaller files are there at once
  return [last = std::chrono::steady_clock::time_point()](uint64_t done, uint64_t total) mutable {
    if (total < kWorthShowing) return;
    const auto now = std::chrono::steady_clock::now();
    if (done < total && now - last < std::chrono::milliseconds(100)) return;
    last = now;
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(static_cast<double>(done) / total * kWidth);
    std::fprintf(stderr, "\r[%s%s] %s of %s\033[K", std::string(filled, '=').c_str(),
                 std::string(kWidth - filled, ' ').c_str(), text::ByteCount(done).c_str(),
                 text::ByteCount(total).c_str());
    if (done == total) std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
  };
}

}  // namespace slipway::cli
