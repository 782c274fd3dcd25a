// The storages behind what a conversion read, each once: how many bytes the input holds, and whether they are those
// that its checksums were made of.
#ifndef SLIPWAY_DRIVER_CONVERT_STORAGES_H_
#define SLIPWAY_DRIVER_CONVERT_STORAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "ir/graph.h"
#include "ir/tensor_set.h"

namespace slipway::driver {

class Storages {
 public:
  void Add(const ir::Archive& archive);
  void Add(const ir::TensorSet& set);

  // Of files and memory; rules ("all 0.5") hold nothing.
  uint64_t bytes() const { return bytes_; }

  // Compares storages with the CRC-32 that the file states: all of them, or those that cost nothing, below 64 KiB,
  // which passes may fold into others. InvalidArgument naming the tensors of all that differ.
  absl::Status Verify(bool all) const;

 private:
  struct Entry {
    std::shared_ptr<const ir::Storage> storage;
    std::string name;  // of a tensor in it
  };
  std::vector<Entry> entries_;
  absl::flat_hash_set<const ir::Storage*> seen_;
  uint64_t bytes_ = 0;

  void Add(const std::shared_ptr<const ir::Storage>& storage, std::string_view name);
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_STORAGES_H_
