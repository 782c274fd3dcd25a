// Checkpoints as torch.save wrote them before 1.6, and still does on request: one file of five pickles (a magic number,
// a protocol version, facts of the machine, the object, the keys of its storages) and the storages one behind the
// other.
#ifndef SLIPWAY_IMPORTERS_CHECKPOINT_TORCH_LEGACY_H_
#define SLIPWAY_IMPORTERS_CHECKPOINT_TORCH_LEGACY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "importers/checkpoint/torch_zip.h"
#include "io/byte_source.h"

namespace slipway::importers {

// Whether a file is a pickle of protocol 2 or later, or a tar (the form before torch 0.4, which OpenTorchLegacy()
// refuses by name), by its first bytes.
bool LooksLikeTorchLegacy(absl::Span<const uint8_t> file);

// Opens the checkpoint that fills `file`. The pickles are read where they lie, which must stay mapped; storages are
// given as ranges of the file without reading them. The file states no checksums.
//
// Errors as of Unpickle(), with offsets in the file; InvalidArgument where the file is another pickle, ends too early,
// goes on after the last storage, or where its storages are not those that the object mentions; Unimplemented for files
// of big-endian machines and for tars.
absl::StatusOr<TorchCheckpoint> OpenTorchLegacy(io::Bytes file, const UnpickleOptions& options = {});

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_CHECKPOINT_TORCH_LEGACY_H_
