// A shared library in this process: a file's, or one whose bytes are in memory. The bodies for POSIX systems are in
// posix/shared_library.cc.
#ifndef SLIPWAY_KERNELS_SHARED_LIBRARY_H_
#define SLIPWAY_KERNELS_SHARED_LIBRARY_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace slipway::kernels {

// Its code is run when it is loaded; it is unloaded with this object.
class SharedLibrary {
 public:
  // Not loaded(), with the reason, where there is no such library. A path without a slash is one in this folder.
  static SharedLibrary Open(const std::string& path, std::string* why);
  // The same of a file's content; `name` is for messages.
  static SharedLibrary OpenBytes(std::span<const uint8_t> bytes, const std::string& name, std::string* why);

  SharedLibrary() = default;
  SharedLibrary(SharedLibrary&& o) noexcept
      : handle_(std::exchange(o.handle_, nullptr)), file_(std::exchange(o.file_, -1)) {}
  SharedLibrary& operator=(SharedLibrary&& o) noexcept {
    std::swap(handle_, o.handle_);
    std::swap(file_, o.file_);
    return *this;
  }
  ~SharedLibrary();

  bool loaded() const { return handle_ != nullptr; }
  // Null where it has no symbol of this name.
  void* Find(const char* symbol) const;

 private:
  void Load(const std::string& place, const std::string& name, std::string* why);

  void* handle_ = nullptr;
  int file_ = -1;  // of bytes; stays open: another library under the same name would be taken for this one
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_SHARED_LIBRARY_H_
