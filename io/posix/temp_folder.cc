// What a signal leaves behind is for the system to clear away, as with any program's files in TMPDIR.
#include "io/temp_folder.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "io/io_error.h"

namespace slipway::io {

absl::StatusOr<std::unique_ptr<TempFolder>> TempFolder::Make() {
  const char* base = std::getenv("TMPDIR");
  std::string path = std::string(base && *base ? base : "/tmp") + "/slipway-XXXXXX";
  if (!mkdtemp(path.data())) return IoError(errno, path);
  return std::unique_ptr<TempFolder>(new TempFolder(std::move(path)));
}

TempFolder::~TempFolder() {
  std::error_code ignored;  // there is nothing to be done about a file that stays
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace slipway::io
