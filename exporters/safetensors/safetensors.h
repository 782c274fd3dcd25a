// Named tensors -> a .safetensors file, or a folder of shards with an index. Bytes are copied file to file where the
// tensors or their pieces lie as the format wants them, and gathered or cast in small steps where not: memory does not
// grow with the file.
#ifndef SLIPWAY_EXPORTERS_SAFETENSORS_SAFETENSORS_H_
#define SLIPWAY_EXPORTERS_SAFETENSORS_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "exporters/output_limit.h"
#include "io/byte_source.h"
#include "weights/cast.h"
#include "weights/named_tensor.h"

namespace slipway::exporters {

// Puts bytes of a computed tensor in their place, `offset` bytes from its beginning. Thread-safe.
using WriteComputed =
    std::function<absl::Status(const weights::NamedTensor& tensor, uint64_t offset, absl::Span<const uint8_t> bytes)>;

// A tensor of which a cast has lost values.
struct LossyCast {
  std::string name;
  weights::CastLosses losses;
};

struct SafetensorsOptions {
  std::map<std::string, std::string> metadata;
  uint64_t max_shard_size = 0;       // bytes of tensors in one shard, where a shard has several; 0: no limit
  int shards = 0;                    // exactly so many files of about the same size; 0: as max_shard_size says
  uint64_t max_output = kAnyOutput;  // bytes in all files
  bool dry_run = false;              // stop before writing
  // What a folder gets besides: names, which may be in a folder of it ("1_Pooling/config.json"), and contents.
  std::vector<std::pair<std::string, io::Bytes>> extra_files;
  std::function<void(uint64_t done, uint64_t total)> progress;  // bytes of tensors; may be empty
  // Told of all tensors that casts have lost values of, once a set of files that is written together, before they
  // appear; an error keeps them from it. May be empty.
  std::function<absl::Status(const std::vector<LossyCast>& lossy)> check_casts;
  // Makes the values of computed tensors, of the list it is handed, in any order and from any thread; called once a set
  // of files that is written together, after all else is in them.
  std::function<absl::Status(const std::vector<const weights::NamedTensor*>& tensors, const WriteComputed& write)>
      compute;
};

struct SafetensorsReport {
  int files = 0;
  uint64_t tensor_bytes = 0, file_bytes = 0;
};

// Errors of all: Unimplemented for types the format has no name for and for headers over its limit of 100 MB;
// InvalidArgument for names that repeat or are reserved; those of io::AtomicFile.

// One file, byte for byte as the reference implementation lays it out.
absl::StatusOr<SafetensorsReport> ExportSafetensors(const std::vector<weights::NamedTensor>& tensors,
                                                    const std::string& path, const SafetensorsOptions& options);

// model-00001-of-0000N.safetensors … and model.safetensors.index.json in `folder`, which is made where it is missing; a
// single shard is model.safetensors. Tensors are dealt out in the order given. All files appear or none, and the
// checkpoint that was there, however many files it had (weights/checkpoint_folder.h), is gone with them; other files
// stay.
absl::StatusOr<SafetensorsReport> ExportShards(const std::vector<weights::NamedTensor>& tensors,
                                               const std::string& folder, const SafetensorsOptions& options);

// As ExportShards(), by `world_size` processes that share a folder, each with the same tensors and options: this one
// writes the files whose number modulo world_size is `rank`, each as soon as it is whole, and leaves alone those that
// are there already with the same header and with values that match the header's checksum (so that a run that was
// killed goes on where it was, and a file that was damaged is written anew). Who finishes last checks the files of the
// others, writes the index and calls `last`. `run` stands for inputs and configuration in the headers.
// FailedPrecondition where the folder holds files of another checkpoint or run; DataLoss where a file of another rank
// is damaged.
struct RankReport {
  SafetensorsReport report;  // of all files
  int written = 0, kept = 0;
  bool last = false;
};
absl::StatusOr<RankReport> ExportShardsOfRank(const std::vector<weights::NamedTensor>& tensors,
                                              const std::string& folder, SafetensorsOptions options, int rank,
                                              int world_size, const std::string& run);

// rank-00000-of-0000N.safetensors … in `folder`, one for each list of tensors; the same name may be in several. As
// above otherwise.
absl::StatusOr<SafetensorsReport> ExportRanks(const std::vector<std::vector<weights::NamedTensor>>& ranks,
                                              const std::string& folder, const SafetensorsOptions& options);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_SAFETENSORS_SAFETENSORS_H_
