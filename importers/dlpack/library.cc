// Tensors are asked for one by one; those whose memory overlaps are put on one storage, so that tied weights stay tied.
#include "importers/dlpack/library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "base/text.h"
#include "importers/dlpack/dlpack.h"
#include "io/io_error.h"
#include "slipway/dlpack_producer.h"

namespace slipway::importers {
namespace {

using Next = decltype(&slipway_dlpack_next);

absl::Status TakeAll(Next next, const std::string& path, void** state, ir::TensorSet* set) {
  for (;;) {
    const char* name = nullptr;
    DLManagedTensorVersioned* tensor = nullptr;
    if (const int code = next(state, &name, &tensor); code != 0)
      return absl::InvalidArgumentError(
          text::StrCat(path, ": slipway_dlpack_next failed with ", code, name ? ": " : "", name ? name : ""));
    if (!tensor) return absl::OkStatus();
    auto ref = FromDlpack(tensor);
    const auto bad = [&](absl::StatusCode code, std::string_view what) {
      return absl::Status(code, text::StrCat(path, ": ", name ? text::StrCat("'", name, "': ") : "", what));
    };
    if (!ref.ok()) return bad(ref.status().code(), text::FromAbsl(ref.status().message()));
    if (!name) return bad(absl::StatusCode::kInvalidArgument, "a tensor without a name");
    if (!set->tensors.emplace(name, *std::move(ref)).second)
      return bad(absl::StatusCode::kInvalidArgument, "two tensors have this name");
  }
}

}  // namespace

absl::StatusOr<ir::TensorSet> ReadDlpackLibrary(const std::string& path) {
  // A name without a folder is a file here, not one of the system's libraries.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  struct stat info;
  if (stat(file.c_str(), &info) != 0) return io::IoError(errno, path);
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return absl::InvalidArgumentError(text::StrCat("loading the library: ", dlerror()));
  const auto next = reinterpret_cast<Next>(dlsym(library, "slipway_dlpack_next"));
  if (!next) return absl::InvalidArgumentError(text::StrCat(path, ": the library has no function slipway_dlpack_next"));
  ir::TensorSet set;
  void* state = nullptr;
  absl::Status status = TakeAll(next, path, &state, &set);
  next(&state, nullptr, nullptr);
  if (!status.ok()) return status;
  std::vector<ir::TensorRef*> tensors;
  for (auto& [name, tensor] : set.tensors) tensors.push_back(&tensor);
  ShareStorages(tensors);
  return set;
}

}  // namespace slipway::importers
