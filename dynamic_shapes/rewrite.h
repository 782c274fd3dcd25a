// What is done to a program once its sizes are known as expressions: the nodes that compute them, names for its
// symbols, strides.
#ifndef SLIPWAY_DYNAMIC_SHAPES_REWRITE_H_
#define SLIPWAY_DYNAMIC_SHAPES_REWRITE_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace slipway::dynamic_shapes {

// Writes nodes that compute expressions at the beginning of a graph, each expression once, from the sizes of the
// graph's inputs.
class SizeWriter {
 public:
  explicit SizeWriter(ir::Graph& g) : graph_(g) {}
  // nullopt for a symbol that is no size of an input, and for an operation that there is no node for. Types of the
  // inputs must have the symbols.
  std::optional<ir::IntOrValue> Write(ir::Sym e);
  // Whether there are nodes for all operations of an expression.
  static bool Writes(ir::Sym e);

 private:
  ir::Graph& graph_;
  ir::Node* before_ = nullptr;
  bool begun_ = false;
  absl::flat_hash_map<ir::Sym, ir::IntOrValue> written_;
};

// Strides of a tensor with new sizes whose old ones lay densely in some order of the dimensions, expanded dimensions
// (stride 0) aside; nullopt for another layout.
std::optional<ir::Sizes> StridesLike(const ir::Type& old, const ir::Sizes& sizes);

// Gives the program a symbol table of its own with only the symbols that occur: `named` are renamed and get ranges;
// others keep their names and ranges.
struct NamedSymbol {
  ir::Sym symbol;
  std::string name;
  ir::SymRange range;
  int64_t example;  // 0: not known
};
absl::Status RenameSymbols(ir::Program& p, const std::vector<NamedSymbol>& named);

// A name for a dimension of an input by its role: batch, seq, height, width, else INPUT_dAXIS. Distinct from those
// `taken`.
std::string NameForDim(const ir::Value& input, int axis, const std::function<bool(const std::string&)>& taken);
// Gives such names to the symbols of inputs that torch numbered (s77).
absl::Status CanonicalizeDimNames(ir::Program& p);

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_REWRITE_H_
