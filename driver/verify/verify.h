// `slipway verify A B`: runs two models on the same inputs and compares what they give.
#ifndef SLIPWAY_DRIVER_VERIFY_VERIFY_H_
#define SLIPWAY_DRIVER_VERIFY_VERIFY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "driver/edge/diagnostic.h"
#include "weights/compare.h"

namespace slipway::driver {

struct VerifyOptions {
  // an exported program, its text form, a native library or package (whose code is run), an ONNX model; b "": the
  // library that convert makes of a
  std::string a, b;
  // What it runs on: files of `slipway run`'s form; else, unless one of seed, adversarial and sweep is set, the
  // archive's samples; else what is made.
  std::vector<std::string> inputs;
  std::optional<uint64_t> seed;
  bool adversarial = false;
  int sweep = 0;                     // sets of sizes; 0: one set of inputs
  std::optional<double> rtol, atol;  // of floating-point outputs; else by dtype (DefaultTolerance)
  bool reference = true;             // the distances of both from the program in f64
  bool layers = false;               // the first node whose value differs
  bool all_layers = false;           // how far the values of all nodes differ, beyond the first, too
  std::string python;                // for ONNX: the interpreter; "": of PATH
  bool unoptimized = false;          // A, an ONNX model, is run without onnxruntime's optimizations
  double timeout = 600;              // seconds of onnxruntime
  std::vector<std::string> plugins;
  int threads = 0;
  std::string emulator;                        // for libraries of another machine, as EmulatorOptions has it
  std::string junit;                           // a file to write ToJunit() to; "": none
  uint64_t memory_limit = uint64_t{1} << 36;   // of the temporaries of a run
  uint64_t observe_limit = uint64_t{1} << 30;  // bytes of values that `layers` looks at in one run
};

struct VerifyOutput {
  std::string name;            // the program's, where there is one
  std::string a_type, b_type;  // "f32[2,3]"
  bool agree = true;
  std::optional<weights::Difference> difference;  // null where the types differ
  weights::Tolerance tolerance;                   // that was asked for
  std::vector<int64_t> first;                     // the place of the first unequal element
  // The largest distance of an element from the program in f64, elements that are NaN or infinite in it left out; null
  // where there is no reference.
  std::optional<double> a_error, b_error;
};

// What came of one set of inputs.
struct VerifySet {
  std::string source;                                  // "samples", "seed 0", a file
  std::vector<std::pair<std::string, int64_t>> sizes;  // of symbols, where the inputs were made
  std::vector<std::string> inputs;                     // "f32[2,3]"
  bool agree = true;
  std::string reason;  // why not, where it is not an output's values: an error of one side, another number of outputs
  std::vector<VerifyOutput> outputs;
};

// Where values begin to differ.
struct VerifyLayers {
  struct Node {
    std::string value, op, b_op, place;  // b_op: where it is another in B; place: module and line of the model's source
    std::string a_type, b_type;
    std::optional<weights::Difference> difference;
    double rms = 0;       // the root of A's mean square, where it is floating-point
    bool differs = true;  // beyond the tolerance
  };
  std::string how;        // what was compared with what
  int64_t compared = 0;   // values
  int64_t unmatched = 0;  // that B has not, or not by this name
  std::optional<Node> first;
  std::vector<Node> all;  // what was compared, in order; with all_layers only
  std::string note;       // why none was found, or what else is to be known
};

struct VerifyReport {
  bool agree = true;
  std::vector<VerifySet> sets;
  std::string reference_note;  // why there is no reference
  std::vector<std::string> notes;
  std::optional<VerifyLayers> layers;
};

// What elements of a type may differ by if nothing is said: rtol of the element, and atol times the root mean square of
// A's output, since sums of many terms are off by parts of the terms and not of the sum. Zero for integers.
weights::Tolerance DefaultTolerance(ir::DType dtype);

// Errors: those of opening both, Unimplemented for what one of them is made of, InvalidArgument where A and B both
// refuse the inputs.
absl::StatusOr<VerifyReport> Verify(const VerifyOptions& options);

// What reports call B.
std::string NameOfB(const VerifyOptions& options);
std::string ToTable(const VerifyReport& report, const VerifyOptions& options);
// One object of schemas/verify.schema.json.
std::string ToJson(const VerifyReport& report, const VerifyOptions& options);
// Writes the page that --html asks for; a usage error where that would take an input's place.
absl::Status WriteVerifyPage(const VerifyReport& report, const VerifyOptions& options, const std::string& html);
// JUnit XML: a test case an output and set of inputs, and with `layers` one of all values. `report` may be null, where
// there was an error.
std::string ToJunit(const VerifyReport* report, const Outcome& outcome);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_VERIFY_VERIFY_H_
