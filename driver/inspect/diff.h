// `slipway diff A B`: the tensors of two files, and of two ONNX models their graphs too.
#ifndef SLIPWAY_DRIVER_INSPECT_DIFF_H_
#define SLIPWAY_DRIVER_INSPECT_DIFF_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weights/diff.h"

namespace slipway::driver {

// Something of a model that the other one has not, or not so.
struct GraphDifference {
  std::string what;  // opset, function, metadata, input, output, node
  std::string name;  // of a node: its first result
  std::string a, b;  // what it is in each; "" where there is none
};

struct FilesDiff {
  weights::DiffReport tensors;
  std::optional<std::vector<GraphDifference>> graph;  // of two ONNX models

  bool equal() const { return tensors.rows.empty() && (!graph || graph->empty()); }
};

// Nodes are found again by the names of what they make; what has another name is another node. Errors as of
// OpenTensors(), OpenOnnxGraph() and weights::Diff().
absl::StatusOr<FilesDiff> DiffFiles(const weights::DiffOptions& options, const std::string& key);

// The tables, and one object of schemas/diff.schema.json.
std::string ToTable(const FilesDiff& diff, const weights::DiffOptions& options);
std::string ToJson(const FilesDiff& diff, const weights::DiffOptions& options);
// Writes the page that --html asks for; a usage error where that would take the place of one of both.
absl::Status WriteDiffPage(const FilesDiff& diff, const weights::DiffOptions& options, const std::string& html);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_INSPECT_DIFF_H_
