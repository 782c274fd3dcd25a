// `slipway inspect`: what is in a file, as a record that is printed for people or as JSON.
#ifndef SLIPWAY_DRIVER_INSPECT_INSPECT_H_
#define SLIPWAY_DRIVER_INSPECT_INSPECT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "driver/verify/payloads.h"
#include "ir/graph.h"
#include "ir/tensor_set.h"
#include "ir/text.h"

namespace slipway::kernels {
struct NativeModel;
}

namespace slipway::importers {
struct OnnxModel;
}

namespace slipway::driver {

// A tensor as it is listed: sizes are numbers, or expressions in the dims of its program.
struct TensorRow {
  std::string name;
  std::string kind;   // input, output, parameter, buffer, tensor_constant, …; the kind of update for mutations
  std::string dtype;  // "f32"; "i64", "f64" and "bool" for symbolic numbers; "" for others
  std::vector<std::string> shape;
  bool is_tensor = true;
  std::string value;     // symbolic numbers: the expression; constants: the value
  uint64_t bytes = 0;    // weights: of the dense tensor
  bool stored = true;    // weights: whether the file holds the values
  uint64_t lacking = 0;  // weights without values: the bytes that they would have
  // Of a weight that comes quantized: how, "4 bits, group 128". Its dtype is what it is dequantized to, its bytes are
  // those of its parts.
  std::string form;
};

struct ProgramReport {
  std::string name, form, torch_version, dialect;
  int schema_major = 0, schema_minor = 0;
  int nodes = 0;  // subgraphs included
  int subgraphs = 0;
  std::vector<TensorRow> inputs, outputs, updates, weights;
  std::vector<ir::SymbolInfo> dims;
  std::vector<std::string> guards;
  std::map<std::string, int> ops;  // with their counts
};

// A product of matrices in a native library's plan. Sizes are numbers or expressions, `n` is "" where nothing is
// multiplied.
struct ProductRow {
  std::string op, place, kernel, batch, m, k, n;
  std::string left, right, result;  // dtypes; right "" where there is no right matrix
  std::string packing;              // how the right matrix lies: panels, quads, nibbles; "" as it is
  int64_t groups = 0;               // of rows of it with a scale each; 0: no scales
  uint64_t bytes = 0;               // of it with its scales, where it is a constant
  struct Rows {
    int64_t from = 1, to = 0;  // numbers of rows; to = 0: any number of them
    std::string isa, way;
  };
  std::vector<Rows> loops;  // empty where sizes cannot be told
};

// What the kernels of this slipway would do on this machine.
struct KernelsReport {
  std::string isa, integers, bf16;  // instruction sets; bf16 "" where there is none
  std::string cap;                  // SLIPWAY_ISA, where that caps them
  std::vector<ProductRow> products;
};

// What an ONNX model states beside its graph.
struct OnnxReport {
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;          // by domain, "" being ONNX's own
  std::vector<std::string> functions;             // "domain::name"
  std::map<std::string, uint64_t> external_data;  // files of weights: bytes that the model uses of them
};

struct FileReport {
  std::string file, format, producer;  // format: Format::name
  uint64_t bytes = 0;
  std::string target;          // of native libraries: the machine, as convert --target names it
  uint64_t runtime_bytes = 0;  // of native libraries: of those bytes, kernels and executor
  std::vector<ProgramReport> programs;
  std::vector<TensorRow> tensors;  // of files without programs
  std::map<std::string, std::string> metadata;
  std::map<std::string, uint64_t> extra_files;  // sizes in bytes
  std::optional<Verified> verified;             // with `verify` only
  std::optional<KernelsReport> kernels;         // with `kernels` only
  std::optional<OnnxReport> onnx;               // of ONNX models
  std::string quantization;                     // of checkpoints that come quantized: "GPTQ 4 bits, group 128"
};

// Errors as of the importers; Unimplemented for formats that slipway knows and does not read. `verify` reads the whole
// file and adds the errors of VerifyPayloads() and, for programs, of passes::InferShapes(). `kernels` is for native
// libraries and packages of one, Unimplemented for others.
absl::StatusOr<FileReport> Inspect(const std::string& path, bool verify = false, bool kernels = false);

ProgramReport ReportOf(const ir::Program& program);

// Fills in what is known of programs, tensors or a native library that are open already: all but the file and its
// format.
void Describe(const ir::Archive& archive, FileReport* report);
void Describe(const ir::TensorSet& set, FileReport* report);
// The same of the source at `path`, with quantized weights as what they stand for, where that is known.
void Describe(const ir::TensorSet& set, const std::string& path, FileReport* report);
void Describe(const kernels::NativeModel& model, FileReport* report);
absl::Status Describe(const importers::OnnxModel& model, FileReport* report);

// The table; `ops` adds the operators, `all_weights` lists weights beyond the first twenty.
std::string ToTable(const FileReport& report, bool ops, bool all_weights);
// One object of schemas/inspect.schema.json.
std::string ToJson(const FileReport& report);

// The text form of a file's programs; of an ONNX model its graph, for reading only. Weight files are named relative to
// the file's folder.
absl::StatusOr<std::string> InspectIr(const std::string& path, ir::PrintOptions::Sources sources);

// A C header over slipway_model.h (c_header.h): of a native library or a package of one, which is not run; or of a
// program, which is planned as `convert` would. Its names begin with the file's, without the suffix. Unimplemented for
// a program that no library can hold.
absl::StatusOr<std::string> InspectHeader(const std::string& path);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_INSPECT_INSPECT_H_
