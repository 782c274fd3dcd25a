// `slipway minify`: the smallest program that still fails a check.
#ifndef SLIPWAY_DRIVER_MINIFY_MINIFY_H_
#define SLIPWAY_DRIVER_MINIFY_MINIFY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driver/edge/diagnostic.h"

namespace slipway::driver {

// How far a minification is.
struct MinifyProgress {
  int probes = 0;  // asked so far, those of an earlier run included
  int nodes_before = 0, nodes = 0, inputs = 0;
};

struct MinifyOptions {
  std::string input, folder, check;
  std::optional<int> fail_code;
  std::string fail_regex;
  std::string html;                                     // where a page is written, too; "": nowhere
  std::string inputs;                                   // .safetensors for the original; "": its samples, or made up
  std::string python;                                   // with onnxruntime, for accuracy:onnx
  double timeout = 120;                                 // seconds of a check; 0: none
  uint64_t memory = uint64_t{8} << 30;                  // bytes of a check's process; 0: none
  int jobs = 1;                                         // checks at once
  double max_time = 0;                                  // seconds; 0: none
  int max_probes = 0;                                   // 0: no limit
  std::string slipway;                                  // the binary that slipway's own checks run
  std::function<void(const MinifyProgress&)> progress;  // after each check; may be empty
};

struct MinifyReport {
  MinifyProgress reached;
  int asked = 0;         // checks that this run made
  std::string failure;   // the class
  bool stopped = false;  // by --max-time or --max-probes
  // What was taken away, one after the other.
  struct Step {
    std::string what;
    int nodes_before = 0, nodes = 0, probes = 0;  // probes: asked until then
  };
  std::vector<Step> steps;
  std::vector<std::string> notes;
};

// Writes the result to options.folder. Exit 1 where the program does not fail the check. docs/minify.md describes it.
Outcome Minify(const MinifyOptions& options, MinifyReport* report);

// One object of schemas/minify.schema.json.
std::string ToJson(const MinifyOptions& options, const MinifyReport& report);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_MINIFY_MINIFY_H_
