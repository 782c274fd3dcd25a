// `slipway run`: a program on inputs from a file, by the native plan; or a native library.
#ifndef SLIPWAY_DRIVER_RUN_RUN_H_
#define SLIPWAY_DRIVER_RUN_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "driver/edge/diagnostic.h"
#include "ir/graph.h"

namespace slipway::driver {

struct RunOptions {
  // an exported program, its text form, a native library (.so), whose code is run, or an ONNX model
  std::string model;
  std::string inputs;   // .safetensors: input.0, input.1, …
  std::string outputs;  // .safetensors: output.0, …
  // As `inputs`: those of a token. A library that keeps state runs `inputs` as a prompt, then these `repeat` times.
  std::string decode;
  std::vector<std::string> plugins;  // shared libraries with kernels, whose code is run
  int repeat = 1;                    // runs; the outputs are those of the last
  bool profile = false;
  std::string html;          // where the profile is drawn, too; "": nowhere
  int threads = 0;           // at once; 0: kernels::DefaultThreads()
  bool onnxruntime = false;  // runs an ONNX model, not the native plan
  std::string python;        // the interpreter for that, and asks for it, as OnnxRuntimeOptions has it
  std::string emulator;      // for libraries of another machine, as EmulatorOptions has it
  uint64_t memory_limit = uint64_t{1} << 36;
};

struct RunReport {
  double load_seconds = 0, plan_seconds = 0;
  std::vector<double> run_seconds;  // one a run: checking inputs, sizes, memory, steps
  struct Memory {
    uint64_t temporaries = 0;  // bytes at once
    uint64_t working = 0;      // what kernels need to work takes beside that
  };
  std::optional<Memory> memory;  // null: an older library does not say
  // What `decode` was asked for; `run_seconds` are the token's. Tokens are those of one run: the first input's elements
  // along its first two dims.
  struct Generation {
    int64_t prompt_tokens = 0, tokens = 0;
    double prefill_seconds = 0;
  };
  std::optional<Generation> generation;
  int steps = 0;
  struct Row {
    std::string op;
    std::string shapes;  // of operands and results; "" where a row is an operator's whole
    int64_t steps = 0;
    double seconds = 0;  // of all runs
    // Of its products of matrices: multiplications and additions, bytes of right matrices, the most rows of a left one.
    double operations = 0, bytes = 0;
    int64_t most_rows = 0;
    double per_second() const { return seconds > 0 ? operations / seconds : 0; }
    double bytes_per_second() const { return seconds > 0 ? bytes / seconds : 0; }
  };
  // Slowest first; empty without `profile`. By operator, and by operator and shapes (where an older library says none,
  // the same).
  std::vector<Row> profile, by_shapes;
  // A step of the plan, or what a library tells of steps alike. With `profile`, in the plan's order.
  struct Step {
    std::string op, shapes;
    std::string place;  // "layers.3.mlp (model.py:7)"; "" where it is not known
    double seconds = 0, operations = 0;
    double bytes = 0;  // of operands and results; 0 where they are not known
  };
  std::vector<Step> all_steps;
};

// The tensors of a .safetensors file, which are named input.0, input.1, … or as the inputs of the file `model`; in the
// inputs' order.
absl::StatusOr<std::vector<ir::TensorRef>> ReadInputs(const std::string& path, const std::string& model);

// Inputs and outputs are numbered in flattened order, tensors and symbolic numbers (0-d i64, f64, bool) only. Errors:
// InvalidArgument for inputs that the program does not take and data that an operator refuses; Unimplemented naming
// what cannot be run; those of reading and writing the files.
absl::StatusOr<RunReport> Run(const RunOptions& options);

std::string ToTable(const RunReport& report);
// One object of schemas/run.schema.json.
std::string ToJson(const RunReport& report);
// Writes the page that options.html asks for.
absl::Status WriteRunPage(const RunReport& report, const RunOptions& options);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_RUN_RUN_H_
