// Checkpoints as torch.save writes them since 1.6: a zip with a pickle (data.pkl) and one member of raw bytes for each
// storage. Also how PT2 archives up to torch 2.8 keep their weights, as a zip within the zip.
#ifndef SLIPWAY_IMPORTERS_CHECKPOINT_TORCH_ZIP_H_
#define SLIPWAY_IMPORTERS_CHECKPOINT_TORCH_ZIP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "importers/checkpoint/unpickler.h"
#include "io/byte_source.h"
#include "io/mapped_file.h"
#include "ir/tensor.h"

namespace slipway::importers {

struct TorchZipOptions {
  uint64_t max_pickle_bytes = uint64_t{1} << 30;  // of data.pkl
  // of all deflated storages together, held in memory; 0: io::MostMadeOf()
  uint64_t max_inflated_bytes = 0;
  UnpickleOptions unpickle;  // its storage_bytes is set here
};

// A read checkpoint: its object and the bytes of every storage that the object's tensors refer to.
struct TorchCheckpoint {
  Unpickled object;  // refers to `pickle`
  std::map<std::string, io::Bytes, std::less<>>
      storages;                                       // by PickleStorage::key; may be longer than the pickle claims
  std::map<std::string, uint32_t, std::less<>> crcs;  // of those, whole, where the file states them
  io::Bytes pickle;                                   // the bytes of the pickle

  // The bytes of that storage's elements, PickleStorage::bytes long. `storage` is one of `object`'s.
  io::Bytes BytesOf(const PickleStorage& storage) const {
    return storages.find(storage.key)->second.Part(storage.offset, storage.bytes);
  }
};

// Whether a file is a zip archive with the pickle of one.
bool LooksLikeTorchZip(const std::shared_ptr<io::MappedFile>& file);

// Opens the checkpoint that fills `archive`. Stored storages are given as ranges of the file without reading them;
// deflated ones are inflated.
//
// Errors as of io::ZipReader and Unpickle(), naming the archive and the member; Unimplemented for TorchScript archives
// and for storages in big-endian order.
absl::StatusOr<TorchCheckpoint> OpenTorchZip(io::Bytes archive, const TorchZipOptions& options = {});

// The tensor over `storage`, which holds all that lies under its key. torch's type of two packed f4 becomes one of
// single ones, with the last dimension doubled. Unimplemented for types without a DType, and for packed ones that are
// strided.
absl::StatusOr<ir::TensorRef> ReferTo(const PickleTensor& tensor, std::shared_ptr<const ir::Storage> storage);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_CHECKPOINT_TORCH_ZIP_H_
