// Whether the bytes of weights are those that the checksums of their container were made of. What is read on the way to
// an output is compared, at a few per cent of what reading it costs.
#ifndef SLIPWAY_IR_STORAGE_CHECK_H_
#define SLIPWAY_IR_STORAGE_CHECK_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "io/atomic_writer.h"
#include "ir/tensor.h"

namespace slipway::ir {

// Compares all bytes of a storage with the CRC-32 that its container states. InvalidArgument where they have another.
// Storages without one, and those in memory, which was checked when it was made, are right.
absl::Status CheckStorage(const Storage& s);

// For one output or several.
class StorageCheck {
 public:
  // For bytes that the caller is about to read, at least half of the storage: as CheckStorage(), once for each storage.
  // A storage of which only little is read is not gone through.
  absl::Status Read(const TensorRef& t);
  // Appends the bytes [offset, offset + size) of the storage, which has bytes. Where they are all of them, and are not
  // copied inside the kernel, they are compared on the way.
  absl::Status Copy(const Storage& s, uint64_t offset, uint64_t size, io::AtomicFile& out);

 private:
  absl::flat_hash_set<const Storage*> checked_;
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_STORAGE_CHECK_H_
