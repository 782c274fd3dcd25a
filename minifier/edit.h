// Changes that make a program smaller. Each leaves a program that the verifier takes, or says why it cannot; whether
// what is left is still of interest is for the caller to find out. Nothing here computes: types are inferred again
// where sizes change.
//
// Nodes and graphs are named by their places, so that one edit can be applied to copies of a program.
#ifndef SLIPWAY_MINIFIER_EDIT_H_
#define SLIPWAY_MINIFIER_EDIT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/text.h"
#include "ir/graph.h"

namespace slipway::minifier {

// A graph of a program: from the root, the place of a node and of the argument of it that is the next graph.
using GraphPath = std::vector<std::pair<int, int>>;
// Places of nodes in their graph, ascending.
using Places = std::vector<int>;

// A change to a program. Errors: InvalidArgument where it does not fit the program.
using Edit = std::function<absl::Status(ir::Program& p)>;

// What inputs that stand for values are called: "in_7" for the seventh value of the original program, whichever
// candidate cuts there, so that recorded values are found by it and no name of what was removed stays.
class StandIns {
 public:
  explicit StandIns(const ir::Program& original);
  std::string NameFor(std::string_view value) const;
  // The value of the original that an input of this name stands for; "" for none.
  std::string ValueOf(std::string_view input) const;
  // The same program with such inputs under names that mean the same: another text for a check that gives out on this
  // one. False where there are none.
  bool Respell(ir::Program& p) const;

 private:
  text::Map<int> ordinals_;
  std::vector<std::string> values_;
  std::string prefix_ = "in_";  // of no name in the original
};

ir::Graph* FindGraph(ir::Program& p, const GraphPath& path);  // null where there is none
std::vector<ir::Node*> NodesOf(const ir::Graph& g);
// All graphs below the root, outermost first.
std::vector<GraphPath> NestedGraphs(const ir::Program& p);

// How the nodes that stay get what those that go have made.
enum class Joint : uint8_t {
  kCut,     // a new input
  kBypass,  // an operand of the same type of what made it, else a new input
  kApart,   // a new input, also for what nodes that stay have made: no two nodes are connected
};
// Only the nodes at `keep` stay in the root graph. Outputs are those of the program that stay, and what nothing uses.
// Inputs and
// weights that nothing uses go, and what the program says of its signature.
Edit KeepNodes(Places keep, Joint joint, const StandIns* names);
// The node at `place` goes, its results being operand `operand` of the same type, counted over its values; all others
// stay.
Edit BypassNode(int place, int operand, const StandIns* names);
// Nodes of a nested graph go; their results become an operand or an input of the graph of the same type.
Edit RemoveNested(GraphPath path, Places remove);
// A nested graph becomes the program.
Edit Hoist(GraphPath path);

// Outputs at `keep` stay.
Edit KeepOutputs(Places keep);
// Inputs of the same type become one.
Edit MergeInputs();
// Where nodes come from, devices, gradients, symbols that nothing uses, and what the file said of its signature.
Edit StripMetadata();
// What the file says of expressions over symbols (8*s0 = 8..512).
Edit DropRanges();
// How tensors lie in memory.
Edit DropStrides();
// Arguments with a default that may be left out are left out: all, or the one of the node.
Edit DropArguments();
Edit DropArgument(GraphPath path, int place, std::string name);
// Symbols become numbers, and what is computed with them only goes: all those named.
Edit PinSymbols(text::Map<int64_t> values);
// Weights are made by a rule: 0.5 (0 for integers), or at random.
Edit ReplaceWeights(std::vector<std::string> names, bool random);
// `size` becomes `to`, wherever it is the size of an input or a weight or an argument that is a size; with `multiples`
// these change alike. Types are inferred again.
Edit ReplaceSize(int64_t size, int64_t to, bool multiples);
// Floats of other widths become f32.
Edit WidenFloats();

// Sizes above 2 of inputs and weights, the largest first.
std::vector<int64_t> SizesOf(const ir::Program& p);

}  // namespace slipway::minifier

#endif  // SLIPWAY_MINIFIER_EDIT_H_
