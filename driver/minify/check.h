// What a minifier asks of a candidate: commands on its files, run as processes with limits, and the class of failure
// that comes of
// them. A candidate counts only where it fails in the class of the original: another bug that is met on the way is not
// followed.
#ifndef SLIPWAY_DRIVER_MINIFY_CHECK_H_
#define SLIPWAY_DRIVER_MINIFY_CHECK_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/subprocess.h"

namespace slipway::driver {

struct CheckOptions {
  std::string check;             // --check
  std::optional<int> fail_code;  // the only exit code that counts
  std::string fail_regex;        // what output must contain
  std::string python;            // for slipway verify; "": as it finds one
  std::string slipway;           // the binary for checks that are slipway's own
  bool onnx = false;             // candidates are ONNX models
  double timeout = 0;            // seconds; 0: none
  uint64_t memory = 0;           // bytes; 0: none
};

// Files of a candidate. Those that are not asked for are empty.
struct CandidateFiles {
  std::string folder;  // theirs alone; checks may write there
  std::string pt2, onnx, ir, inputs, other;
};

// What became of a candidate.
struct Verdict {
  enum Kind : uint8_t {
    kPasses,
    kFails,
    kUnusable,  // one of the steps before the one that tells did not work
  };
  Kind kind = kPasses;
  std::string failure;  // the class: "exit 1", "signal 11", "timeout", "SW2001"
  std::string message;  // what was said, without what differs from candidate to candidate: numbers, addresses, paths
};

class Check {
 public:
  // Usage errors for a check that has no meaning.
  static absl::StatusOr<Check> Parse(const CheckOptions& options);

  bool wants_pt2() const { return pt2_; }
  bool wants_onnx() const { return onnx_; }  // of ONNX models
  bool wants_ir() const { return ir_; }
  bool wants_inputs() const { return inputs_; }
  // The program that candidates are compared with (accuracy:OTHER.pt2); "" for none.
  const std::string& other() const { return other_; }
  // What repro.py does by itself of an ONNX model: "run", "unoptimized", "other"; "" for the steps.
  const std::string& runtime() const { return runtime_; }
  // Whether results depend on the numbers that the program is given.
  bool numeric() const { return numeric_; }

  // Errors only where nothing could be asked.
  absl::StatusOr<Verdict> Run(const CandidateFiles& files) const;

  // The steps as shell commands with {pt2}, {ir}, {inputs}, {other} and {folder} for the files; slipway is "slipway".
  std::vector<std::string> ShellSteps() const;
  // All that verdicts depend on, for telling whether they may be used again.
  std::string Key() const;

 private:
  struct Step {
    std::vector<std::string> argv;  // with placeholders; {slipway}
    bool tells = false;             // whether its failure is the one that is looked for
    int code = 0;                   // the exit code that is a failure; 0: any but 0
    bool diagnostics = false;       // whether it says JSON lines of diagnostics
  };
  CheckOptions options_;
  std::vector<Step> steps_;
  std::string id_;  // diagnostic:ID
  bool pt2_ = false, onnx_ = false, ir_ = false, inputs_ = false, numeric_ = false, command_ = false;
  std::string other_, runtime_;

  absl::Status ParseProgramCheck();
  absl::Status ParseModelCheck();
  // `tells`: what the conversion says is the failure; else a candidate that is refused is of no use.
  absl::Status AddConvert(const std::string& target, const std::string& opset, bool tells);
  absl::Status ParseConversion(std::string_view target);
  absl::Status ParseDiagnostic(std::string_view id);
  void AddRun(const char* model);
  void AddVerify(const std::vector<std::string>& models);
  void AddCommand();
  std::string Replaced(std::string_view text, const CandidateFiles& files, bool quote) const;
  Verdict Judge(const Step& step, const io::SubprocessResult& result, const CandidateFiles& files) const;
};

// A word for the shell, in quotes where it needs them: a command may have its own around a placeholder.
std::string ShellQuoted(std::string_view word);

// A message without what differs between runs and candidates: numbers and sizes become #, paths below `folder` {}.
std::string Normalized(std::string_view message, std::string_view folder);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_MINIFY_CHECK_H_
