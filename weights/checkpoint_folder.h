// Which files of a folder make up a checkpoint of safetensors, by their names and by its index. A folder shows no more
// than
// that: what an earlier conversion left looks like a part of the next one unless reader and writer know what belongs
// together.
#ifndef SLIPWAY_WEIGHTS_CHECKPOINT_FOLDER_H_
#define SLIPWAY_WEIGHTS_CHECKPOINT_FOLDER_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace slipway::weights {

// In the header of a file that one of several processes wrote: what stands for their run. Without an index such files
// are unfinished. No key has a dot: transformers takes those of torchao's files that do for weights' names, and their
// values for JSON objects.
inline constexpr char kRunKey[] = "slipway_run";

// The files that an index (*.index.json) names, each with the tensors it must hold. InvalidArgument where it is
// malformed or names files outside its folder.
absl::StatusOr<std::map<std::string, std::vector<std::string>>> ReadIndex(const std::string& path);

// InvalidArgument, naming both, where `files`, the names of a folder's .safetensors files, belong to two checkpoints of
// one
// name: NAME.safetensors, NAME-XXXXX-of-YYYYY.safetensors for one YYYYY, NAME.safetensors.index.json with what it
// names, and for the name "model" also the ranks rank-XXXXX-of-YYYYY.safetensors. `index` is the name of the folder's
// index and `indexed` what it names; "" for none. Files of other names, beside an index or not, are no contradiction.
absl::Status CheckOneCheckpoint(const std::string& folder, const std::set<std::string>& files, const std::string& index,
                                const std::set<std::string>& indexed);

// InvalidArgument, naming what is missing, where the names of some of `files` (NAME-XXXXX-of-YYYYY.SUFFIX) tell of more
// of them than there are.
absl::Status CheckComplete(const std::string& folder, const std::set<std::string>& files);

// The names of the files in `folder` that a checkpoint "model" takes the place of: those above, every
// *.safetensors.index.json and the .safetensors files that it names. Sorted; nothing else that is in the folder, and
// nothing of a folder that is not there.
std::set<std::string> FilesReplaced(const std::string& folder);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_CHECKPOINT_FOLDER_H_
