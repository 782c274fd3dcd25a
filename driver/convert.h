// `slipway convert`: from a model file to another format.
#ifndef SLIPWAY_DRIVER_CONVERT_H_
#define SLIPWAY_DRIVER_CONVERT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "driver/diagnostic.h"
#include "driver/reader.h"
#include "ir/graph.h"

namespace slipway::driver {

struct ConvertOptions {
  std::vector<std::string> inputs;   // FILE or NAME=FILE
  std::string output;
  std::string to;                    // "" = from the output's suffix; "onnx", "pt2", "safetensors"
  int opset = 20;
  std::string external_data = "auto";  // auto | always | never
  std::vector<std::string> weights;  // files or folders whose tensors replace the program's by name
  std::string key;                   // of checkpoints: the dict of tensors within, "model.state_dict"
  bool allow_missing = false;        // names of the program that --weights lacks keep what the archive has
  bool strict_types = false;
  bool dry_run = false;
  bool verify_each = false;          // run the verifier between passes
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::string> plugins;  // native: shared libraries with kernels, which ride inside
  bool with_program = false;         // native-pt2: the exported program as well
  bool functions = false;            // repeated blocks become local functions
  bool state_io = false;             // updated buffers and inputs are inputs and outputs state_in.FQN, state_out.FQN
  std::vector<std::string> custom_ops;  // "mylib::foo=com.acme:Foo"
  std::vector<std::string> input_names, output_names;  // all or none
  // PT2
  std::string torch = "2.9";         // the oldest torch that shall read it: "2.9" or "2.6"
  bool no_weights = false;           // the programs only
  bool check_crc = false;            // verify the payloads' CRC-32 on the way
  // safetensors
  std::string dtype;                 // floating tensors become "bf16", "f16" or "f32"
  std::vector<std::string> include, exclude;  // regular expressions: names that are kept, names that are not
  std::vector<std::string> rename;   // "re=>replacement", in order
  std::string max_shard_size;        // "5GB", "500MB", "123456"
  int shards = 0;                    // exactly so many files; 0: by size
  int tp = 0;                        // a file for each of so many ranks; 0: not split
  std::string tp_rules;              // the file that says how each tensor is split: see SplitTensors()
  std::function<void(uint64_t done, uint64_t total)> progress;  // called as weights are written, in bytes; may be empty
};

// The closing summary.
struct ConvertSummary {
  int nodes_before = 0, nodes_after = 0;
  std::vector<std::string> dims;
  int tensors = 0;  // of conversions of weights; 0 for programs
  uint64_t weight_bytes = 0, bytes_written = 0;
  double seconds = 0;
  uint64_t peak_rss = 0;  // bytes
  std::vector<std::string> lines;  // further remarks
};

Outcome Convert(const ConvertOptions& options, ConvertSummary* summary, const Reader& reader = Reader());

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_H_
