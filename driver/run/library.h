// A native library, run through its C interface as any C program would.
#ifndef SLIPWAY_DRIVER_RUN_LIBRARY_H_
#define SLIPWAY_DRIVER_RUN_LIBRARY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/mapped_file.h"
#include "ir/tensor.h"
#include "slipway/slipway_model.h"

namespace slipway::driver {

// The file, where all segments of the library are inside and it holds a model; else InvalidArgument. The dynamic linker
// does not notice a file that was cut off: the process dies when a missing page is touched. And a library believes what
// its payload says of its own size: it lies in the same file. While the file that this returns is open, one that is cut
// off later is known by its size (io/inputs.h).
absl::StatusOr<std::shared_ptr<io::MappedFile>> OpenWholeLibrary(const std::string& path);

// The functions of include/slipway/slipway_model.h in a library that was loaded at run time, and the model it holds.
// The
// code in the file is run: only for libraries that the user names to be run.
class NativeLibrary {
 public:
  // InvalidArgument for a file that cannot be loaded or holds no model.
  static absl::StatusOr<std::unique_ptr<NativeLibrary>> Open(const std::string& path,
                                                             const std::vector<std::string>& plugins = {});
  ~NativeLibrary();
  NativeLibrary(const NativeLibrary&) = delete;
  NativeLibrary& operator=(const NativeLibrary&) = delete;

  // The three steps of a run, so that the middle one can be repeated and timed: copies of the inputs, the model's work
  // alone, and copies of its latest results. InvalidArgument, Unimplemented, ResourceExhausted or Internal with the
  // library's text.
  absl::Status SetInputs(absl::Span<const ir::TensorRef> inputs);
  absl::Status Execute();
  std::vector<ir::TensorRef> Outputs() const;
  absl::StatusOr<std::vector<ir::TensorRef>> Run(absl::Span<const ir::TensorRef> inputs);

  // States of the library as they are in the beginning; nothing where it has none.
  absl::Status ResetState();
  bool HasState() const;
  // The names of states that grow: of inputs that the program takes and the library does not.
  std::vector<std::string> GrowingStates() const;

  absl::Status SetThreads(int threads);
  void Profile(bool on);
  // Of libraries that are older the work is 0.
  void ProfileRows(const std::function<void(const slipway_model_work& row)>& row) const;
  // A row a step; none of libraries that are older.
  void StepRows(const std::function<void(const slipway_model_work& row)>& row) const;
  // False where the library is older and does not say; as slipway_model_memory().
  bool Memory(uint64_t* temporaries, uint64_t* working) const;

 private:
  struct Functions;
  NativeLibrary() = default;
  void FreeResults();

  std::shared_ptr<io::MappedFile> file_;
  void* library_ = nullptr;
  std::unique_ptr<Functions> f_;
  slipway_model* model_ = nullptr;
  std::vector<ir::TensorRef> inputs_;  // whose sizes `tensors_` points to
  std::vector<std::string> bytes_;
  std::vector<DLTensor> tensors_;
  std::vector<DLManagedTensorVersioned*> results_;  // null: there are none
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_RUN_LIBRARY_H_
