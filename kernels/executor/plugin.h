// Kernels from shared libraries of the user's (include/slipway/slipway_kernel.h), as rows like those of the registry.
// Their arguments travel as numbers of a step, which the planner writes (planner/lowering/plugin.cc).
#ifndef SLIPWAY_KERNELS_EXECUTOR_PLUGIN_H_
#define SLIPWAY_KERNELS_EXECUTOR_PLUGIN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/registry.h"
#include "kernels/shared_library.h"

namespace slipway::kernels {

// The integers of a call of a plugin's kernel, in order: how many arguments there are, then for each its name, its kind
// (PluginArg) and what the kind says. A text is its length and its bytes, eight to an integer, the first the lowest.
enum class PluginArg : int64_t {
  kNone = 0,
  kTensor = 1,   // the next operand
  kInt = 2,      // the number
  kFloat = 3,    // the next of the step's reals
  kBool = 4,     // the number
  kString = 5,   // the text
  kInts = 6,     // how many, and they
  kFloats = 7,   // how many of the step's reals
  kTensors = 8,  // how many, and for each 1, the next operand, or 0, none
  kDType = 9,    // a DType
};
std::vector<int64_t> PackText(std::string_view text);

// A plugin in the process. Its code is run when it is opened.
class Plugin {
 public:
  // Null, with the reason, where the file cannot be loaded, is no plugin, or one of another version.
  static std::shared_ptr<const Plugin> Open(const std::string& path, std::string* why);
  // The same of a file's content; `name` is for messages.
  static std::shared_ptr<const Plugin> OpenBytes(std::span<const uint8_t> bytes, const std::string& name,
                                                 std::string* why);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  // Named "mylib::blend.default"; beside it, where there is a function for sizes, "mylib::blend.default/sizes", whose
  // result is one i64 tensor of the sizes of all results, one behind the other. Its integers go on with how many
  // results there are, and the DType and the number of dims of each.
  std::span<const Kernel> kernels() const { return kernels_; }
  const Kernel* Find(std::string_view name) const;

 private:
  struct Row;
  Plugin();
  static std::shared_ptr<const Plugin> Load(SharedLibrary library, const std::string& name, std::string* why);

  SharedLibrary library_;
  std::vector<std::unique_ptr<Row>> rows_;
  std::vector<Kernel> kernels_;
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_PLUGIN_H_
