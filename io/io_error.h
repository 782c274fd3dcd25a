// What the system said of a file: a status that keeps the errno, so that nobody has to guess from a code whether a disk
// or an input is at fault.
#ifndef SLIPWAY_IO_IO_ERROR_H_
#define SLIPWAY_IO_IO_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace slipway::io {

// "WHAT: the system's text". NotFound, PermissionDenied (also for a read-only file system), ResourceExhausted (no room,
// quota or
// memory), else Unavailable: never a code that other errors have.
absl::Status IoError(int error, absl::string_view what);
// "WHAT PATH: the system's text", which keeps the path, too.
absl::Status IoError(int error, absl::string_view what, absl::string_view path);

// The errno of a status that IoError() made; 0 for any other.
int ErrnoOf(const absl::Status& s);
// The path of a status that IoError() made with one; "" for any other.
std::string PathOf(const absl::Status& s);

// The status with `prefix` before its text. Unlike a new status of its code and text it keeps the errno.
absl::Status Prefixed(absl::string_view prefix, const absl::Status& s);

}  // namespace slipway::io

#endif  // SLIPWAY_IO_IO_ERROR_H_
