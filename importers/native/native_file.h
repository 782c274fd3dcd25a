// What is in a native library, read without running it: the plan file in the payload of a .so, or of the one in a
// package for torch's AOT loader.
#ifndef SLIPWAY_IMPORTERS_NATIVE_NATIVE_FILE_H_
#define SLIPWAY_IMPORTERS_NATIVE_NATIVE_FILE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "io/mapped_file.h"
#include "kernels/executor/plan_file.h"

namespace slipway::importers {

// Constants and plugins are views of `file`. The plan is for looking at, not for running: kernels that this slipway has
// not are taken as if it had them.
struct NativeFile {
  std::shared_ptr<io::MappedFile> file;
  kernels::NativeModel model;
  uint16_t machine = 0;        // as NativeMachine()
  uint64_t runtime_bytes = 0;  // of the library: all but the model, the same in every library of one slipway
};

// Whether the file is an ELF library, or a zip archive with one for torch's AOT loader in it.
bool LooksNative(const std::shared_ptr<io::MappedFile>& file);

// The machine that the library is for (base/machine.h), as its header says; 0 for what is no library.
uint16_t NativeMachine(const std::shared_ptr<io::MappedFile>& file);

// InvalidArgument for what holds no model, or a damaged one.
absl::StatusOr<NativeFile> ReadNative(const std::shared_ptr<io::MappedFile>& file);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_NATIVE_NATIVE_FILE_H_
