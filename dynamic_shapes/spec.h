// What a user asks of the dimensions of a program's inputs: the text of --dynamic and --dim-names.
//
//   auto                                      every dimension of every input
//   ids:[batch,seq=1..512],mask:[batch,seq]   by input: a name, a range, a number (pins), _ (as it is), auto
//   batch=1   seq=1..512                      by the symbol's name: a number pins it, a range bounds it
//   b.0=a.0                                   by place: the same size
//
// Parts are separated by commas. The same name at several places means one size.
#ifndef SLIPWAY_DYNAMIC_SHAPES_SPEC_H_
#define SLIPWAY_DYNAMIC_SHAPES_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dynamic_shapes/ledger.h"
#include "ir/graph.h"

namespace slipway::dynamic_shapes {

struct DimSpec {
  enum Kind : uint8_t { kKeep, kFree, kPin } kind = kKeep;
  std::string name;                   // "": one of our own
  int64_t number = 0;                 // kPin
  std::optional<ir::SymRange> range;  // kFree
  std::string text;                   // as written
};

struct Spec {
  bool all = false;  // auto
  struct Input {
    std::string name;
    std::vector<DimSpec> dims;
    std::string text;
  };
  std::vector<Input> inputs;
  std::vector<DimSpec> symbols;  // by name: pins and ranges
  struct Relation {
    std::string a, b;  // inputs
    int a_axis = 0, b_axis = 0;
    std::string text;
  };
  std::vector<Relation> relations;
};

// InvalidArgument quotes the part that has no meaning.
absl::StatusOr<Spec> ParseSpec(std::string_view text);

// Does what is asked: frees dimensions of static inputs (generalize_dims.h), relates, pins, bounds and names. What
// cannot be freed stays static, with the reason in the ledger. InvalidArgument, quoting the part, for inputs and
// symbols that there are not, ranks and numbers that do not fit, ranges that exclude the example or leave nothing, and
// sizes asked to be equal that are not.
absl::StatusOr<Ledger> ApplySpec(ir::Program& p, const Spec& spec);

// New names of symbols, {"s77", "batch"}. InvalidArgument for a symbol that there is not and for a name that is no
// identifier or taken.
absl::Status NameSymbols(ir::Program& p, absl::Span<const std::pair<std::string, std::string>> names);

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_SPEC_H_
