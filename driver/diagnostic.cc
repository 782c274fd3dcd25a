// See diagnostic.h.
#include "driver/diagnostic.h"

#include <cstdio>

#include "base/json.h"
#include "base/utf8.h"

namespace slipway::driver {

ExitCode ExitCodeOf(const absl::Status& s) {
  switch (s.code()) {
    case absl::StatusCode::kOk: return kDone;
    case absl::StatusCode::kInvalidArgument: case absl::StatusCode::kOutOfRange: case absl::StatusCode::kDataLoss: return kBad;
    case absl::StatusCode::kUnimplemented: case absl::StatusCode::kFailedPrecondition: return kNotSupported;
    case absl::StatusCode::kNotFound: case absl::StatusCode::kPermissionDenied: case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted: case absl::StatusCode::kAborted: case absl::StatusCode::kAlreadyExists:
      return kIo;
    default: return kBug;
  }
}

Diagnostic DroppedState(const std::string& name) {
  return {Severity::kWarning, id::kDroppedState, "the program updates '" + name + "'; the updated state is not an output", "", ""};
}

Diagnostic FromStatus(const absl::Status& s, std::string place, std::string help) {
  Diagnostic d;
  switch (ExitCodeOf(s)) {
    case kBad: d.id = id::kBadInput; break;
    case kNotSupported: d.id = id::kUnsupported; break;
    case kIo: d.id = id::kWrite; break;
    default: d.id = id::kInternal;
  }
  d.cause = std::string(s.message());
  d.place = std::move(place);
  d.help = std::move(help);
  return d;
}

namespace {

const char* Word(Severity s) { return s == Severity::kError ? "error" : s == Severity::kWarning ? "warning" : "note"; }

}  // namespace

std::string Printable(std::string_view s) {
  std::string out;
  while (!s.empty()) {
    const size_t n = text::Utf8Length(s);
    const unsigned char c = s[0];
    const bool control = n == 0 || c < 0x20 || c == 0x7F || (n == 2 && c == 0xC2 && static_cast<unsigned char>(s[1]) < 0xA0);
    if (!control) {
      out += s.substr(0, n);
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else {
      for (unsigned char x : s.substr(0, n == 0 ? 1 : n)) {
        char buffer[8];
        std::snprintf(buffer, sizeof buffer, "\\x%02x", x);
        out += buffer;
      }
    }
    s.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

std::string ToText(const Diagnostic& d, bool colour) {
  const char* on = !colour ? "" : d.severity == Severity::kError ? "\033[31;1m" : d.severity == Severity::kWarning ? "\033[33;1m" : "\033[36;1m";
  // Place and help come first, so that the last line of stderr says what went wrong.
  std::string out;
  if (!d.place.empty()) out += "  --> " + Printable(d.place) + "\n";
  if (!d.help.empty()) out += "  help: " + Printable(d.help) + "\n";
  out += std::string(on) + Word(d.severity) + "[" + d.id + "]" + (colour ? "\033[0m" : "") + ": " + Printable(d.cause) + "\n";
  return out;
}

std::string ToJson(const Diagnostic& d) {
  json::Writer out;
  out.BeginObject().Key("severity").String(Word(d.severity)).Key("id").String(d.id).Key("cause").String(d.cause);
  out.Key("place").String(d.place).Key("help").String(d.help).EndObject();
  return out.Take() + "\n";
}

}  // namespace slipway::driver
