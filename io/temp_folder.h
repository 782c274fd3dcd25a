// A folder for files on the way that need a path, gone with the object.
#ifndef SLIPWAY_IO_TEMP_FOLDER_H_
#define SLIPWAY_IO_TEMP_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace slipway::io {

class TempFolder {
 public:
  // In TMPDIR, else /tmp; readable for this user alone. Errors are IoError()s.
  static absl::StatusOr<std::unique_ptr<TempFolder>> Make();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit TempFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace slipway::io

#endif  // SLIPWAY_IO_TEMP_FOLDER_H_
