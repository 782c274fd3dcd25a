// Traits of operators: properties that passes ask for and that declarations do not state. The data is
// schemas/op_traits.txt, which explains each trait; OpDef::traits holds them parsed. A pass asks for a trait, never for
// a name, so that adding an operator is adding its rows.
#ifndef SLIPWAY_IR_OPS_OP_TRAITS_H_
#define SLIPWAY_IR_OPS_OP_TRAITS_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace slipway::ir {

class Node;

enum class AutocastClass : uint8_t { kNone, kLower, kFloat32, kWidest };
// How a result of 16-bit floats is computed: passes/narrow_floats.cc.
enum class NarrowClass : uint8_t { kNone, kRounded, kSum };
// How complex operands become real ones: passes/complex.
enum class ComplexClass : uint8_t { kNone, kParts, kDecomposition };
enum class ViewCondition : uint8_t {
  kNone,
  kAlways,
  kIfViewable,
  kIfContiguous,
  kIfSameSizes,
  kIfUnchanged,
  kIfIdle,
  kIfSingle,
};
enum class ViewInverse : uint8_t {
  kNone,
  kSame,
  kReshape,
  kReinterpret,
  kUnexpand,
  kItself,
  kPermute,
  kMovedim,
  kSlice,
  kSelect,
  kNarrow,
  kDiagonal,
  kStrided,
  kStack,
  kConcatenate,
  kHsplit,
  kVsplit,
  kDsplit,
};

// Argument names and operator names are empty where the trait is absent. Texts live as long as the process.
struct OpTraits {
  std::string_view words;  // as the data has them
  bool elementwise = false;
  bool assertion = false;
  bool misdeclared = false;
  bool random = false;  // without a Generator argument
  bool in_place_view = false;
  bool propagates_layout = false;
  bool chooses_elements = false;
  bool product = false, fill = false, bounded = false, clamp = false;
  std::string_view random_probability, random_training;
  std::string_view identity, identity_when_idle, cast;
  std::string_view in_place_view_op;  // "" with in_place_view: the overload of the same name
  std::string_view updates_statistics;
  std::string_view view_of;
  ViewCondition view = ViewCondition::kNone;
  ViewInverse inverse = ViewInverse::kNone;
  AutocastClass autocast = AutocastClass::kNone;
  NarrowClass narrow = NarrowClass::kNone;
  ComplexClass complex = ComplexClass::kNone;
  int body = -1;  // the position of the graph that only has a mode set around it
};

// The traits that a line of the data gives after the operator's name; nullopt for a malformed one.
std::optional<OpTraits> ParseOpTraits(std::string_view words);

// Whether a node draws random numbers as it stands: dropout outside training, or with probability 0, does not.
bool IsRandom(const Node& n);

// Whether the same arguments always give the same results and nothing else happens: a known operator that neither draws
// random numbers nor writes its arguments, has results, and owns no subgraph. Such a node may be computed early, once
// instead of twice, or not at all.
bool IsPure(const Node& n);

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_OPS_OP_TRAITS_H_
