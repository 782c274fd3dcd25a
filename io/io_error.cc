// absl::ErrnoToStatus() is not used: it makes InvalidArgument of a name that is too long and FailedPrecondition of a
// part of a path that is no folder, the codes of malformed and of unsupported inputs.
#include "io/io_error.h"

#include <string.h>

#include <cerrno>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace slipway::io {
namespace {

constexpr char kErrno[] = "slipway/errno", kPath[] = "slipway/path";

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT: return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS: return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
#ifdef EDQUOT  // which Windows has not
    case EDQUOT:
#endif
    case EFBIG:
    case ENOMEM: return absl::StatusCode::kResourceExhausted;
    default: return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::Status IoError(int error, absl::string_view what) {
  absl::Status s(CodeOf(error), absl::StrCat(what, ": ", strerror(error)));
  s.SetPayload(kErrno, absl::Cord(absl::StrCat(error)));
  return s;
}

absl::Status IoError(int error, absl::string_view what, absl::string_view path) {
  absl::Status s = IoError(error, absl::StrCat(what, " ", path));
  s.SetPayload(kPath, absl::Cord(path));
  return s;
}

std::string PathOf(const absl::Status& s) {
  const auto payload = s.GetPayload(kPath);
  return payload ? std::string(*payload) : std::string();
}

int ErrnoOf(const absl::Status& s) {
  const auto payload = s.GetPayload(kErrno);
  int error;
  return payload && absl::SimpleAtoi(std::string(*payload), &error) ? error : 0;
}

absl::Status Prefixed(absl::string_view prefix, const absl::Status& s) {
  absl::Status out(s.code(), absl::StrCat(prefix, s.message()));
  s.ForEachPayload([&](absl::string_view key, const absl::Cord& value) { out.SetPayload(key, value); });
  return out;
}

}  // namespace slipway::io
