// Tensors that are made while a program is quantized and written after it: they lie in a scratch file, not in memory.
#ifndef SLIPWAY_DRIVER_QUANTIZE_SCRATCH_TENSORS_H_
#define SLIPWAY_DRIVER_QUANTIZE_SCRATCH_TENSORS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "io/mapped_file.h"
#include "io/scratch_file.h"
#include "ir/tensor.h"

namespace slipway::driver {

// Tensors whose bytes lie in the scratch file behind `begin`, put there by several threads. They can be read once the
// file has been mapped.
class ScratchTensors {
 public:
  ScratchTensors(io::ScratchFile& file, uint64_t begin) : file_(file), end_(begin) {}

  absl::StatusOr<ir::TensorRef> Add(ir::DType dtype, const std::vector<int64_t>& sizes, const std::string& bytes) {
    constexpr uint64_t kAlignment = 64;
    auto storage = std::make_shared<ir::Storage>();
    storage->size = bytes.size();
    uint64_t at;
    {
      const std::lock_guard lock(mutex_);
      at = (end_ + kAlignment - 1) / kAlignment * kAlignment;
      end_ = at + bytes.size();
      added_.emplace_back(storage, at);
    }
    RETURN_IF_ERROR(file_.WriteAt(at, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
    return ir::TensorRef{std::move(storage), dtype, sizes, ir::ContiguousStrides(sizes), 0};
  }

  // All so far, which may be read from now on.
  absl::Status Map() {
    ASSIGN_OR_RETURN(const std::shared_ptr<io::MappedFile> file, file_.Map());
    Map(file);
    return absl::OkStatus();
  }
  void Map(const std::shared_ptr<io::MappedFile>& file) {
    for (const auto& [storage, at] : added_) storage->bytes = io::Bytes(io::FileRange{file, at, storage->size});
  }

 private:
  io::ScratchFile& file_;
  std::mutex mutex_;
  uint64_t end_;
  std::vector<std::pair<std::shared_ptr<ir::Storage>, uint64_t>> added_;  // and where they lie
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_SCRATCH_TENSORS_H_
