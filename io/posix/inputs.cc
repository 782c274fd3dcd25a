// Two registries: one behind a mutex, with what each file was when it was opened, and one that signal handlers can
// read.
#include "io/inputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "io/io_error.h"
#include "io/mapped_file.h"
#include "io/signal_slots.h"

namespace slipway::io {
namespace {

// A file as it was opened. Free of pointers into the MappedFile: a handler may read it while that one is destroyed.
struct Input {
  int place = -1;  // in the slots
  const uint8_t* data = nullptr;
  uint64_t size = 0;
  timespec written = {};
  int fd = -1;
  std::string path;
};

constinit SignalSlots<Input> slots;

struct Registry {
  std::mutex mutex;
  absl::flat_hash_map<const MappedFile*, Input*> inputs;
};

// Never destroyed: files may be closed by destructors of other static objects.
Registry& TheRegistry() {
  static auto& registry = *new Registry;
  return registry;
}

bool Unchanged(const Input& input, const struct stat& now) {
  return static_cast<uint64_t>(now.st_size) == input.size && now.st_mtim.tv_sec == input.written.tv_sec &&
         now.st_mtim.tv_nsec == input.written.tv_nsec;
}

}  // namespace

void AddInput(const MappedFile& file) {
  struct stat info;
  if (fstat(file.fd(), &info) != 0) return;
  auto* input = new Input{-1, file.data().data(), file.size(), info.st_mtim, file.fd(), file.path()};
  input->place = slots.Add(input);
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.inputs.emplace(&file, input);
}

void RemoveInput(const MappedFile& file) {
  Registry& registry = TheRegistry();
  Input* input = nullptr;
  {
    const std::lock_guard lock(registry.mutex);
    const auto found = registry.inputs.find(&file);
    if (found == registry.inputs.end()) return;
    input = found->second;
    registry.inputs.erase(found);
  }
  // Where a handler has taken it, that one goes on reading it until the process ends.
  if (slots.Take(input->place) != nullptr) delete input;
}

absl::Status InputsUnchanged() {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  for (const auto& [file, input] : registry.inputs) {
    struct stat info;
    if (fstat(input->fd, &info) != 0) return IoError(errno, "cannot stat", input->path);
    if (!Unchanged(*input, info)) return absl::DataLossError(absl::StrCat(input->path, " changed while it was read"));
  }
  return absl::OkStatus();
}

bool FindLostInput(const void* address, LostInput* lost) {
  bool found = false, shorter = false;
  const auto* at = static_cast<const uint8_t*>(address);
  slots.TakeAll([&](const Input& input) {
    if (found) return;
    struct stat info;
    const bool known = fstat(input.fd, &info) == 0;
    // A mapping ends with a page, whose bytes behind the file's last are zeros: no address there can be at fault.
    if (at >= input.data && static_cast<uint64_t>(at - input.data) < input.size) {
      *lost = {input.path.c_str(), known && !Unchanged(input, info)};
      found = true;
    } else if (known && static_cast<uint64_t>(info.st_size) < input.size) {
      *lost = {input.path.c_str(), true};
      shorter = true;
    }
  });
  return found || shorter;
}

}  // namespace slipway::io
