// See diagnostic.h.
#include "driver/diagnostic.h"

#include <cstdio>

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

std::string ToText(const Diagnostic& d, bool colour) {
  const char* word = d.severity == Severity::kError ? "error" : d.severity == Severity::kWarning ? "warning" : "note";
  const char* on = !colour ? "" : d.severity == Severity::kError ? "\033[31;1m" : d.severity == Severity::kWarning ? "\033[33;1m" : "\033[36;1m";
  // Place and help come first, so that the last line of stderr says what went wrong.
  std::string out;
  if (!d.place.empty()) out += "  --> " + d.place + "\n";
  if (!d.help.empty()) out += "  help: " + d.help + "\n";
  out += std::string(on) + word + "[" + d.id + "]" + (colour ? "\033[0m" : "") + ": " + d.cause + "\n";
  return out;
}

std::string JsonString(const std::string& s) {
  std::string out = "\"";
  for (unsigned char ch : s) {
    switch (ch) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default:
        if (ch < 0x20) {
          char buffer[8];
          std::snprintf(buffer, sizeof buffer, "\\u%04x", ch);
          out += buffer;
        } else {
          out += static_cast<char>(ch);
        }
    }
  }
  return out + "\"";
}

std::string ToJson(const Diagnostic& d) {
  const char* word = d.severity == Severity::kError ? "error" : d.severity == Severity::kWarning ? "warning" : "note";
  return "{\"severity\": \"" + std::string(word) + "\", \"id\": " + JsonString(d.id) + ", \"cause\": " + JsonString(d.cause) +
         ", \"place\": " + JsonString(d.place) + ", \"help\": " + JsonString(d.help) + "}\n";
}

}  // namespace slipway::driver
