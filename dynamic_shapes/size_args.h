// The integers among a node's arguments that a program may have computed from sizes before it was exported: the sizes
// of a view, the end of a slice, the length of an arange. A static export keeps only their values; this says which
// arguments they are, and what kind of number stands there.
#ifndef SLIPWAY_DYNAMIC_SHAPES_SIZE_ARGS_H_
#define SLIPWAY_DYNAMIC_SHAPES_SIZE_ARGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/ops/op_numbers.h"

namespace slipway::dynamic_shapes {

// One integer: node.Get(arg), or its element.
struct SizeArg {
  ir::Node* node = nullptr;
  std::string arg;
  int element = -1;  // -1: the argument is one integer
  ir::NumberRole role = ir::NumberRole::kSetting;
  int64_t value = 0;
  bool frozen = false;  // torch takes no symbolic size there: it stays a number, or the node becomes others
};

// Those of `n` that are constants now, in the order of the declaration; arguments whose role is fixed are not among
// them.
std::vector<SizeArg> SizeArgsOf(ir::Node& n);

// Writes the integer.
void SetSizeArg(const SizeArg& a, ir::IntOrValue to);

// Where an argument states the sizes that a tensor, or one dimension of it, is viewed with: the argument's name, and
// the sizes that are viewed. An empty name for other operators.
struct Viewed {
  std::string_view arg;
  ir::Sizes from;
};
Viewed ViewedSizes(const ir::Node& n);
// The argument that states the sizes of an expand; "" for other operators.
std::string_view ExpandSizesArg(const ir::Node& n);
// The first argument that is a tensor; null without.
ir::Value* FirstTensor(const ir::Node& n);

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_SIZE_ARGS_H_
