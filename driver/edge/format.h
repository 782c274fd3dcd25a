// The formats that slipway reads: one table of how each is recognised and what it gives. Everything that opens a file
// goes through it.
#ifndef SLIPWAY_DRIVER_EDGE_FORMAT_H_
#define SLIPWAY_DRIVER_EDGE_FORMAT_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/mapped_file.h"
#include "ir/graph.h"
#include "ir/tensor_set.h"

namespace slipway::driver {

struct FileReport;

// What is read from.
struct Source {
  std::string path;                      // of a file or a folder; or "dlpack:LIBRARY"
  std::shared_ptr<io::MappedFile> file;  // null for what is not one file
};

struct Format {
  std::string_view name;    // in reports: "pt2"
  std::string_view title;   // for people: "PT2 archive"
  std::string_view suffix;  // a file so named that no format recognises is read as this one, for its error; "" for none
  bool (*matches)(const Source& source);  // by structure
  // What it gives; null where it gives none. A format of programs without a function of its own for tensors gives
  // weights.
  absl::StatusOr<ir::Archive> (*programs)(const Source& source);
  absl::StatusOr<ir::TensorSet> (*tensors)(const Source& source, const std::string& key);
  // The program of nodes that are not understood, to be reduced and compared only (onnx_model/onnx_graph.h); null for
  // other formats.
  absl::StatusOr<std::unique_ptr<ir::Program>> (*onnx_graph)(const Source& source);
  // Fills in what `inspect` shows, where that is more than its programs or tensors; may be null.
  absl::Status (*describe)(const Source& source, FileReport* report);
};

absl::Span<const Format> Formats();

// Opens a file, or names what is none: a folder, "dlpack:LIBRARY". Errors as of io::MappedFile::Open().
absl::StatusOr<Source> OpenSource(const std::string& path);
// The first format of the table that matches. InvalidArgument for none.
absl::StatusOr<const Format*> FormatOf(const Source& source);

// The programs of a file, verified. Unimplemented for formats that hold none, or that are not read; else as of the
// importers.
//
// `written`: the opset at which an ONNX model is written again (importers/onnx/to_aten.h); 0: another target, or passes
// that have to see all of it.
absl::StatusOr<ir::Archive> OpenArchive(const Source& source, int written = 0);
absl::StatusOr<ir::Archive> OpenArchive(const std::string& path, int written = 0);

// The program of an ONNX model whose inputs have these tensors for good, by name. InvalidArgument for a file that is no
// ONNX model, for names that are no inputs', and for other types and sizes.
absl::StatusOr<ir::Archive> OpenOnnxArchive(const Source& source, const ir::TensorSet& constants, int written);

// Whether an archive's programs were ONNX models.
bool IsFromOnnx(const ir::Archive& archive);
// The extra file of such a program, whose others are the model's metadata, that lists its inputs and results of
// elements of 4 and 2 bits.
inline constexpr std::string_view kNarrowTypes = "slipway.narrow_types";

// The program of generic nodes of a file whose format has one, verified; else null.
absl::StatusOr<std::unique_ptr<ir::Program>> OpenOnnxGraph(const Source& source);

// The tensors of a file or folder, by reference. `key` names the dict of a nested checkpoint: "model.state_dict"; of a
// distributed one it is the beginning of names, which they lose; other formats ignore it. A folder is read by its
// .metadata (a distributed checkpoint), by its index (*.index.json), or, without either, as all its .safetensors files,
// which may be shards of the same tensors. "dlpack:LIBRARY" loads a shared library, running its code
// (slipway/dlpack_producer.h).
//
// Errors as of the importers; InvalidArgument where a folder holds two checkpoints (weights/checkpoint_folder.h), where
// shards lack tensors of the index, or two hold the same name, and for a checkpoint without tensors at `key`, naming
// the dicts that have some; Unimplemented for formats without tensors.
absl::StatusOr<ir::TensorSet> OpenTensors(const Source& source, const std::string& key);
absl::StatusOr<ir::TensorSet> OpenTensors(const std::string& path, const std::string& key);
// The same for callers that need each tensor in one piece: Unimplemented where one is not.
absl::StatusOr<ir::TensorSet> OpenWholeTensors(const std::string& path, const std::string& key);

// Unimplemented, naming them, where a set has tensors that are not read (TensorSet::unreadable).
absl::Status CheckReadable(const ir::TensorSet& set);

// The weights of programs; of several, each name with its program's before it, and those without values beside them.
// InvalidArgument where two come out alike.
absl::StatusOr<ir::TensorSet> WeightsOf(absl::Span<const ir::Program* const> programs);

// Tells whether two source files hold the same, at no cost per weight byte: "sha256:…" of the names, sizes and CRC-32s
// of an archive's members in order, or of the bytes of any other file.
std::string SourceDigest(const std::shared_ptr<io::MappedFile>& file);

// "dir" of "dir/file", "." of "file".
std::string FolderOf(const std::string& path);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_EDGE_FORMAT_H_
