// dlopen(), which takes a path: bytes in memory have one below /proc as long as their file is open.
#include "kernels/shared_library.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#endif

namespace slipway::kernels {
namespace {

std::string PathOf(int file) { return "/proc/self/fd/" + std::to_string(file); }

// A file in memory, -1 where the system makes none.
int MakeMemoryFile() {
#if defined(SYS_memfd_create)
  return static_cast<int>(syscall(SYS_memfd_create, "slipway-plugin", MFD_CLOEXEC));
#else
  return -1;
#endif
}

}  // namespace

void SharedLibrary::Load(const std::string& place, const std::string& name, std::string* why) {
  handle_ = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  const char* text = dlerror();
  *why = text ? text : name + ": cannot be loaded";
}

SharedLibrary SharedLibrary::Open(const std::string& path, std::string* why) {
  SharedLibrary library;
  // A name without a slash is looked for in the system's folders.
  library.Load(path.find('/') == std::string::npos ? "./" + path : path, path, why);
  return library;
}

SharedLibrary SharedLibrary::OpenBytes(std::span<const uint8_t> bytes, const std::string& name, std::string* why) {
  SharedLibrary library;
  library.file_ = MakeMemoryFile();
  bool written = library.file_ >= 0;
  while (written && !bytes.empty()) {
    const ssize_t n = write(library.file_, bytes.data(), bytes.size());
    written = n > 0;
    if (written) bytes = bytes.subspan(static_cast<size_t>(n));
  }
  if (written)
    library.Load(PathOf(library.file_), name, why);
  else
    *why = name + ": no memory for the plugin inside the library";
  return library;
}

SharedLibrary::~SharedLibrary() {
  if (handle_) dlclose(handle_);
  if (file_ < 0) return;
  // A library that stays in the process keeps its name.
  if (void* still = handle_ ? dlopen(PathOf(file_).c_str(), RTLD_NOLOAD | RTLD_LAZY) : nullptr)
    dlclose(still);
  else
    close(file_);
}

void* SharedLibrary::Find(const char* symbol) const { return dlsym(handle_, symbol); }

}  // namespace slipway::kernels
