// Files of candidates and of the result: text that stands alone, archives with sample inputs, and a program of torch
// that makes the same graph again.
#ifndef SLIPWAY_DRIVER_MINIFY_FILES_H_
#define SLIPWAY_DRIVER_MINIFY_FILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace slipway::driver {

// `folder`/`stem`.ir. Weights of up to 64 KiB are in the text, others in `stem`.bin beside it or, where they lie in
// files already and `link` is set, in those, through symbolic links in the folder.
absl::Status WriteMinifiedText(const ir::Program& p, const std::string& folder, const std::string& stem, bool link);
// With `inputs` as sample inputs, where torch has a name for their types.
absl::Status WriteMinifiedPt2(const ir::Program& p, const std::vector<ir::TensorRef>& inputs, const std::string& path);
// Of an ONNX model.
absl::Status WriteMinifiedOnnx(const ir::Program& p, const std::string& path);
// input.0, input.1, …
absl::Status WriteMinifiedInputs(const std::vector<ir::TensorRef>& inputs, const std::string& path);

struct ReproOptions {
  bool onnx = false;    // of an ONNX model: {} and {onnx} are min.onnx
  std::string runtime;  // of an ONNX model: what onnxruntime is asked (Check::runtime()); "" for the steps
  // what fails: shell commands with {}, {pt2}, {ir}, {inputs}, {other}, {onnx}, {folder}
  std::vector<std::string> steps;
  std::string from;     // the folder that commands start from, relative to that of the result
  std::string result;   // the folder of the result, as seen from there
  std::string failure;  // for people
};

// What repro.py has in common for torch and for ONNX: the constants CHECK and FROM, `what` being that which the steps
// are about, the body of `for step in CHECK` with what a function gives after it, and the end.
std::string ReproConstants(const ReproOptions& options, std::string_view what);
inline constexpr std::string_view kReproStep = R"PY(        for name, path in files.items():
            step = step.replace(name, shlex.quote(path))
        if step.startswith("slipway "):
            step = shlex.quote(slipway) + step[len("slipway"):]
        code = subprocess.run(step, shell=True, cwd=os.path.join(HERE, FROM)).returncode
        if code != 0:
            break
    shutil.rmtree(files["{folder}"])
    return code if code >= 0 else 128 - code
)PY";
inline constexpr std::string_view kReproMain = R"PY(

if __name__ == "__main__":
    sys.exit(main())
)PY";

// repro.py, and repro.bin for numbers that do not fit in it; Unimplemented for what torch cannot be told in Python.
absl::Status WriteReproPython(const ir::Program& p, const std::vector<ir::TensorRef>& inputs,
                              const ReproOptions& options, const std::string& folder);
// The same of an ONNX model: runs min.onnx, beside it, with onnxruntime and numpy alone.
absl::Status WriteReproOnnx(const ReproOptions& options, const std::string& folder);
absl::Status WriteReproShell(const ReproOptions& options, const std::string& folder);

void RemoveFolder(const std::string& path);
absl::Status MakeFolder(const std::string& path);
// Removes symbolic links of the names that a run writes from the folder of the result: the files are made there, not
// where links lead. Those that an earlier run left to weights are made again.
absl::Status RemoveLinks(const std::string& folder);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_MINIFY_FILES_H_
