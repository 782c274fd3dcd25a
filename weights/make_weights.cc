// The values go through a file that is unlinked as soon as it is open: the kernel frees it with the last mapping.
#include "weights/make_weights.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/text.h"
#include "io/io_error.h"
#include "io/mapped_file.h"
#include "weights/cast.h"

namespace slipway::weights {
namespace {

constexpr int64_t kStep = int64_t{1} << 16;  // elements: stays in the processor's cache

// A file descriptor of a file that goes with it.
class Scratch {
 public:
  static absl::StatusOr<std::unique_ptr<Scratch>> Make(const std::string& folder) {
    std::unique_ptr<Scratch> s(new Scratch);
    std::string path = text::StrCat(folder, "/.slipway-XXXXXX");
    s->fd_ = mkostemp(path.data(), O_CLOEXEC);
    if (s->fd_ < 0) return io::IoError(errno, folder);
    unlink(path.c_str());
    return s;
  }
  ~Scratch() {
    if (fd_ >= 0) close(fd_);
  }
  absl::Status Write(absl::Span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return io::IoError(errno, "a file for weights that are cast or joined");
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }
  // Its bytes, which outlive it.
  absl::StatusOr<std::shared_ptr<io::MappedFile>> Map() const { return io::MappedFile::Open(text::StrCat("/proc/self/fd/", fd_)); }

 private:
  Scratch() = default;
  int fd_ = -1;
};

absl::Status MakeOne(const WeightToMake& w, Scratch& out) {
  const CastFunction cast = FindCast(w.from.dtype, w.to);
  if (!cast && w.from.dtype != w.to) return absl::InternalError("no cast between these types");
  auto reader = ir::ElementReader::Open(w.from);
  if (!reader.ok()) return reader.status();
  std::vector<uint8_t> block;
  while (reader->left() > 0) {
    absl::Span<const uint8_t> elements = reader->NextDense(std::min(kStep, reader->step()));
    if (cast) {
      const uint64_t count = elements.size() / static_cast<uint64_t>(reader->item());
      block.resize(count * static_cast<uint64_t>(ir::ByteSize(w.to)));
      cast(elements.data(), block.data(), count);
      elements = block;
    }
    if (absl::Status s = out.Write(elements); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeWeights(std::vector<WeightToMake>& weights, const std::string& folder) {
  if (weights.empty()) return absl::OkStatus();
  auto scratch = Scratch::Make(folder);
  if (!scratch.ok()) return scratch.status();
  for (const WeightToMake& w : weights)
    if (absl::Status s = MakeOne(w, **scratch); !s.ok()) return s;
  auto file = (*scratch)->Map();
  if (!file.ok()) return file.status();
  uint64_t at = 0;
  for (WeightToMake& w : weights) {
    const uint64_t size = static_cast<uint64_t>((w.from.numel() * ir::BitSize(w.to) + 7) / 8);
    auto storage = std::make_shared<ir::Storage>();
    storage->bytes = io::Bytes(io::FileRange{*file, at, size});
    storage->size = size;
    w.made = {std::move(storage), w.to, w.from.sizes, ir::ContiguousStrides(w.from.sizes), 0};
    at += size;
  }
  return absl::OkStatus();
}

}  // namespace slipway::weights
