// Which tensor of the files given each weight of a program takes. Names of one model differ by what is wrapped around
// it
// ("model.", "module._orig_mod."), and checkpoints leave out weights whose values another one has.
#ifndef SLIPWAY_WEIGHTS_SOURCES_H_
#define SLIPWAY_WEIGHTS_SOURCES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "ir/sharded.h"

namespace slipway::weights {

using GivenTensors = std::map<std::string, ir::ShardedTensor>;

struct SourceOptions {
  bool allow_missing = false;    // weights that have values in the program keep them where none are given
  bool tied_embeddings = false;  // the checkpoint states that the last layer has the values of the embedding
};

struct Sources {
  std::map<std::string, std::string> given;  // the program's name -> the name of the tensor given
  std::vector<std::string> missing;          // the program's names that need values and get none; sorted
  std::vector<std::string> notes;            // what is not the same name, for people
};

// Names that are the same; else those that are after one beginning is exchanged for another, in all names alike, and
// the wrappers of torch.compile and FSDP are left out. Then weights that are missing and tied to one that is not: that
// share its values in the program; that an exported program reads in several places, beside a weight of the same type
// that it never reads, which is what torch.export makes of a tied weight without values; or that SourceOptions tells
// of. What a program neither reads nor has values for is not missing. InvalidArgument where several beginnings fit,
// naming them.
absl::StatusOr<Sources> FindSources(const ir::Program& p, const GivenTensors& given, const SourceOptions& options);

// An expression for names (names.h), "^model\.=>", that gives `missing` values of tensors that nothing else takes,
// where only one does; else "".
std::string RenameThatFits(const ir::Program& p, const GivenTensors& given, const std::vector<std::string>& missing);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_SOURCES_H_
