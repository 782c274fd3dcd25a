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

namespace {

// Bytes of the well-formed UTF-8 sequence that starts s (RFC 3629: no overlong forms, surrogates or more than U+10FFFF); 0 if
// there is none.
size_t Utf8Length(std::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned char a = byte(0), b = byte(1);
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return tail(1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF)
    return tail(1) && tail(2) && !(a == 0xE0 && b < 0xA0) && !(a == 0xED && b > 0x9F) ? 3 : 0;
  if (a >= 0xF0 && a <= 0xF4)
    return tail(1) && tail(2) && tail(3) && !(a == 0xF0 && b < 0x90) && !(a == 0xF4 && b > 0x8F) ? 4 : 0;
  return 0;
}

}  // namespace

std::string Printable(std::string_view s) {
  std::string out;
  while (!s.empty()) {
    const size_t n = Utf8Length(s);
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
  const char* word = d.severity == Severity::kError ? "error" : d.severity == Severity::kWarning ? "warning" : "note";
  const char* on = !colour ? "" : d.severity == Severity::kError ? "\033[31;1m" : d.severity == Severity::kWarning ? "\033[33;1m" : "\033[36;1m";
  // Place and help come first, so that the last line of stderr says what went wrong.
  std::string out;
  if (!d.place.empty()) out += "  --> " + Printable(d.place) + "\n";
  if (!d.help.empty()) out += "  help: " + Printable(d.help) + "\n";
  out += std::string(on) + word + "[" + d.id + "]" + (colour ? "\033[0m" : "") + ": " + Printable(d.cause) + "\n";
  return out;
}

std::string JsonString(const std::string& text) {
  std::string out = "\"";
  for (std::string_view s = text; !s.empty();) {
    const size_t n = Utf8Length(s);
    const unsigned char c = s[0];
    if (n == 0) {
      out += "\\ufffd";  // JSON has no form for bytes that are not text
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += s[0];
    } else if (c < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
      out += buffer;
    } else {
      out += s.substr(0, n);
    }
    s.remove_prefix(n == 0 ? 1 : n);
  }
  return out + "\"";
}

std::string ToJson(const Diagnostic& d) {
  const char* word = d.severity == Severity::kError ? "error" : d.severity == Severity::kWarning ? "warning" : "note";
  return "{\"severity\": \"" + std::string(word) + "\", \"id\": " + JsonString(d.id) + ", \"cause\": " + JsonString(d.cause) +
         ", \"place\": " + JsonString(d.place) + ", \"help\": " + JsonString(d.help) + "}\n";
}

}  // namespace slipway::driver
