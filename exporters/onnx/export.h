// ir::Program -> ONNX file. The graph is lowered into a skeleton whose weights are references, the skeleton passes
// ONNX's own checker with full shape inference, and then the weights are streamed from their files behind it.
#ifndef SLIPWAY_EXPORTERS_ONNX_EXPORT_H_
#define SLIPWAY_EXPORTERS_ONNX_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exporters/onnx/custom_op.h"
#include "exporters/output_limit.h"
#include "ir/graph.h"
#include "passes/refusals.h"

namespace slipway::exporters {

enum class ExternalData { kAuto, kAlways, kNever };

// How products with quantized matrices are written, as bits for the rows of lowerings. kExact: what the program
// computes. The others let the runtime round activations to 8 bits: kPortable, standard operators; kOrt, what ONNX
// Runtime runs fast.
enum class OnnxForm : unsigned { kExact = 1, kPortable = 2, kOrt = 4 };

// What nodes say of their origin, as torch.onnx has it and Netron shows it: nothing; the modules around them
// (`namespace`); and the program's node, the modules as lists and the stack trace too.
enum class NodeMetadata { kNone, kModules, kAll };

struct OnnxOptions {
  int opset = 20;                                    // kMinOpset … kMaxOpset: the caller checks it
  ExternalData external_data = ExternalData::kAuto;  // auto: above 2 GB
  OnnxForm form = OnnxForm::kExact;
  bool strict_types = false;  // never cast around operators without an ONNX Runtime kernel for the type
  // The program was an ONNX model: its operators are written as they were, where torch's differ from ONNX Runtime's in
  // what NaN or no elements give.
  bool from_onnx = false;
  // Operators of one node take f16 and bf16 as they are, as the model did, though ONNX Runtime's CPU has no kernel.
  bool keep_halves = false;
  NodeMetadata node_metadata = NodeMetadata::kModules;
  bool state_io = false;                       // carry mutated buffers and inputs as state_in.* / state_out.*
  const passes::Refusals* refusals = nullptr;  // why nodes without a lowering were not decomposed; may be null
  std::vector<std::pair<std::string, std::string>> metadata;  // added to the model's metadata_props
  CustomOps custom_ops;
  std::vector<std::string> input_names, output_names;  // of the user's inputs and outputs, all or none
  // Without output_names: what the results of a call are to be named, one each, or none for the names of their values.
  // One that an input or another output has gets "_out".
  std::vector<std::string> result_names;
  // Called as weights are written, with bytes done and in all.
  std::function<void(uint64_t, uint64_t)> progress;
  uint64_t max_output = kAnyOutput;  // bytes of weights
};

constexpr int kMinOpset = 18, kMaxOpset = 28;
// The lowest ONNX IR version that may carry an opset (onnx/docs/Versioning.md).
int IrVersionFor(int opset);

struct OnnxReport {
  int nodes_in = 0, nodes_out = 0;
  uint64_t weight_bytes = 0, file_bytes = 0;
  std::vector<passes::Unsupported> unsupported;  // non-empty: nothing was written
  // how many of `unsupported` are types of inputs, weights or outputs that ONNX has not, and no operators
  size_t of_signature = 0;
  // sorted names of those without values; non-empty: nothing was written, but for a dry run
  std::vector<std::string> missing_weights;
};

// True when the ONNX target takes this node as it is: a row at the opset, or a custom operator of the user's.
bool OnnxLegal(const ir::Node& n, const OnnxOptions& options);

// InvalidArgument where the chosen names are not as many as the program's inputs or outputs, are empty or repeat.
absl::Status CheckNames(const ir::Program& program, const OnnxOptions& options);

// Writes `program` (functional, legalized) to `path`, atomically. With unsupported ops the report lists them all and
// the status is Unimplemented; nothing is written. `dry_run` stops before writing. Weights the program names but does
// not have are an error naming each.
absl::StatusOr<OnnxReport> ExportOnnx(const ir::Program& program, const std::string& path, const OnnxOptions& options,
                                      bool dry_run, OnnxReport* on_failure);

// The model that a program of generic nodes is (onnx_model/onnx_graph.h), written like any other. Returns the bytes
// written.
absl::StatusOr<uint64_t> ExportOnnxGraph(const ir::Program& program, const std::string& path);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_ONNX_EXPORT_H_
