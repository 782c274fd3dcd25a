// Diagnostics to stderr, and the version text.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "cli/commands.h"
#include "driver/edge/sarif.h"
#include "driver/edge/version.h"
#include "io/atomic_writer.h"

namespace slipway::cli {

namespace {

// What signal handlers need to know of the command line.
bool json_lines = false;

// The value of --color, before any flag is looked at: a command line that does not parse is an error in colour, too.
std::string_view color = "auto";

// The value of --sarif, for the same reason.
std::string sarif;

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// What --color says, then NO_COLOR and FORCE_COLOR, then whether standard error is a terminal that has colours.
bool InColour() {
  if (color != "auto") return color == "always";
  if (IsSet("NO_COLOR")) return false;
  if (IsSet("FORCE_COLOR")) return std::string_view(std::getenv("FORCE_COLOR")) != "0";
  return isatty(STDERR_FILENO) && !OnDumbTerminal();
}

// Async-signal-safe.
class ReportLine {
 public:
  void Put(std::string_view text) {
    for (; !text.empty() && size_ < sizeof(text_); text.remove_prefix(1)) text_[size_++] = text[0];
  }
  // A path as text that is neither a control character nor the end of a JSON string, cut where it is very long.
  void PutPath(std::string_view path) {
    constexpr size_t kMost = 1000;
    for (path = path.substr(0, kMost); !path.empty();) {
      const size_t n = text::Utf8Length(path);
      const bool shown = n > 1 || (n == 1 && static_cast<unsigned char>(path[0]) >= 0x20 && path[0] != 0x7f);
      const bool quoted = json_lines && shown && (path[0] == '"' || path[0] == '\\');
      Put(!shown || quoted ? "?" : path.substr(0, n));
      path.remove_prefix(n == 0 ? 1 : n);
    }
  }
  void Write() const {
    if (write(2, text_, size_) < 0) return;  // there is nobody left to tell
  }

 private:
  char text_[4096];
  size_t size_ = 0;
};

}  // namespace

bool OnDumbTerminal() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) == "dumb";
}

void SetColor(std::string_view when) {
  if (!when.empty()) color = when;
}

void AddDiagnostics(CLI::App* cmd, std::string* format) {
  cmd->add_option("--diagnostics", *format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str()
      ->each([](const std::string& value) { json_lines = value == "json"; });
  cmd->add_option_function<std::string>(
         "--sarif", [](const std::string&) {},
         "a file to write errors and warnings to as SARIF 2.1.0, for code scanning")
      ->type_name("FILE");
  cmd->add_option_function<std::string>(
         "--color", [](const std::string&) {},
         "errors and warnings in colour; auto: where standard error is a terminal")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->default_str("auto");
}

void EndOnLostInput(const io::LostInput& lost) {
  ReportLine line;
  line.Put(json_lines ? "{\"severity\":\"error\",\"id\":\"" : "error[");
  line.Put(lost.changed ? driver::id::kBadInput : driver::id::kWrite);
  line.Put(json_lines ? "\",\"cause\":\"" : "]: ");
  line.PutPath(lost.path);
  line.Put(lost.changed ? " changed while it was read" : " could not be read: the system has lost bytes of it");
  line.Put(json_lines ? "\",\"place\":\"\",\"help\":\"\"}\n" : "\n");
  line.Write();
  _Exit(lost.changed ? driver::kBad : driver::kIo);
}

std::string Self() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 && static_cast<size_t>(n) < sizeof path ? std::string(path, static_cast<size_t>(n)) : "slipway";
}

std::string VersionText() { return driver::VersionText(); }

void SetSarif(std::string_view path) { sarif = path; }

namespace {

void Print(const driver::Outcome& outcome, bool json) {
  const bool colour = !json && InColour();
  // Of problems with a line each, the last says what they come to.
  constexpr size_t kMostErrors = 10, kMostWarnings = 200;
  size_t warnings = 0, errors = 0;
  for (const driver::Diagnostic& d : outcome.diagnostics) {
    const bool error = d.severity == driver::Severity::kError, last = &d == &outcome.diagnostics.back();
    if (json)
      std::fputs(driver::ToJson(d).c_str(), stderr);
    else if (error ? ++errors <= kMostErrors || last : ++warnings <= kMostWarnings)
      std::fputs(driver::ToText(d, colour).c_str(), stderr);
    else if (error && &d == &outcome.diagnostics.back() - 1)
      std::fprintf(stderr, "… and %zu more\n", errors - kMostErrors);
  }
  if (!json && warnings > kMostWarnings) std::fprintf(stderr, "warning: … and %zu more\n", warnings - kMostWarnings);
}

}  // namespace

int Report(const driver::Outcome& outcome, bool json) {
  Print(outcome, json);
  if (sarif.empty()) return outcome.code;
  const absl::Status s = io::WriteFile(sarif, driver::ToSarif(outcome));
  if (s.ok()) return outcome.code;
  const driver::Outcome failed = driver::Fail(s);
  Print(failed, json);
  return outcome.code == driver::kDone ? failed.code : outcome.code;
}

}  // namespace slipway::cli
