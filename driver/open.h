// Files by their content: which format a file is of, and how it becomes an archive.
#ifndef SLIPWAY_DRIVER_OPEN_H_
#define SLIPWAY_DRIVER_OPEN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/mapped_file.h"
#include "ir/graph.h"

namespace slipway::driver {

// kPt2 is any zip: a PT2 archive or a checkpoint; kCheckpoint is one in the form before torch 1.6.
enum class FileFormat { kUnknown, kPt2, kSafetensors, kText, kOnnx, kCheckpoint };

// By the first bytes; ONNX, which has none of its own, by the name.
FileFormat FormatOf(const io::MappedFile& file);

// A program file (PT2 archive or text form), verified. Errors: InvalidArgument for malformed and unknown files,
// Unimplemented for formats that hold no program or are not read.
absl::StatusOr<ir::Archive> OpenArchive(const std::shared_ptr<io::MappedFile>& file);
absl::StatusOr<ir::Archive> OpenArchive(const std::string& path);

// Tells whether two source files hold the same, at no cost per weight byte: "sha256:…" of the names, sizes and CRC-32s of an
// archive's members in order, or of the bytes of a text.
std::string SourceDigest(const std::shared_ptr<io::MappedFile>& file);

// "dir" of "dir/file", "." of "file".
std::string FolderOf(const std::string& path);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_OPEN_H_
