// Which values of a program become integers: the rules of torchao's X86InductorQuantizer (x86.cc) and XNNPACKQuantizer
// (xnnpack.cc). Both say it for each operator: which of its inputs and whether its result is quantized, and which of
// these share a scale. What torchao knows a layer by is the module or function of Python that the program names as a
// node's origin; so do we, for the same nodes to be quantized.
#ifndef SLIPWAY_QUANTIZER_PT2E_ANNOTATE_H_
#define SLIPWAY_QUANTIZER_PT2E_ANNOTATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ir/graph.h"
#include "quantizer/pt2e/recipe.h"

namespace slipway::quantizer::pt2e {

struct Annotations {
  // A value that a node reads as integers that were dequantized.
  struct Edge {
    ir::Node* user;
    ir::Value* value;
    bool weight;
  };
  std::vector<Edge> edges;
  std::vector<ir::Value*> results;                         // values that all their readers read so
  std::vector<std::pair<ir::Value*, ir::Value*>> sharing;  // activations that share scale and zero point
};

// What users say about nodes, beside the recipe.
struct Selection {
  std::function<bool(const ir::Node&)> excluded;  // stays as it is
  std::function<bool(const ir::Node&)> included;  // known by its operator, and quantized where that is possible at all
  // Sources of the nodes that wrote to their first argument before the program was made functional: torchao knows
  // mul_ and relu_ as other operators than mul and relu.
  absl::flat_hash_set<const ir::Source*> in_place;
};

// Of the root graph of a functional program without dead code. Only values of f32 are chosen.
Annotations Annotate(const ir::Program& p, const Recipe& recipe, const Selection& selection);

// Numbers that the program adds to and multiplies with f32 tensors become constants, as XNNPACKQuantizer makes them, so
// that they can be quantized.
absl::Status NumbersBecomeConstants(ir::Program& p);

// The function or class of Python that a node comes from, "torch.nn.modules.conv.Conv2d"; "" where the program does not
// say.
std::string_view OriginOf(const ir::Node& n);

// The rest is for the two sets of rules.

// What patterns are made of.
enum class Layer : uint8_t {
  kConv1d,
  kConv2d,
  kLinear,      // nn.Linear
  kLinearCall,  // and F.linear
  kRelu,
  kHardtanh,
  kHardswish,
  kRelu6,
  kSilu,
  kLeakyRelu,
  kTanh,
  kGelu,
  kAdaptiveAvgPool,
  kCat,
};

class Annotator {
 public:
  Annotator(const ir::Program& p, const Recipe& recipe, const Selection& selection);
  virtual ~Annotator() = default;
  virtual void Run() = 0;
  Annotations Take() { return std::move(out_); }

 protected:
  // Whether the node is such a layer: by its operator, and by where it says it comes from.
  bool Is(const ir::Node& n, Layer layer) const;
  // The nodes that read a value, in the order of the graph, each once.
  std::vector<ir::Node*> Readers(const ir::Value* v) const;
  // How many there are, the program's result counting as one.
  size_t CountReaders(const ir::Value* v) const;
  bool excluded(const ir::Node& n) const { return selection_.excluded && selection_.excluded(n); }
  bool included(const ir::Node& n) const { return selection_.included && selection_.included(n); }
  bool in_place(const ir::Node& n) const { return n.source() && selection_.in_place.contains(n.source().get()); }

  void Quantize(ir::Node* user, ir::Value* value, bool weight = false);
  void QuantizeResult(ir::Value* v) { out_.results.push_back(v); }
  void Share(ir::Value* a, ir::Value* b) { out_.sharing.emplace_back(a, b); }

  const ir::Graph& graph_;
  Annotations out_;

 private:
  const Selection& selection_;
  bool by_operator_;
  absl::flat_hash_map<const ir::Node*, size_t> order_;
};

// The value of an argument if it is a tensor of f32.
ir::Value* FloatArgument(const ir::Node& n, std::string_view name);

std::unique_ptr<Annotator> MakeX86Annotator(const ir::Program& p, const Recipe& r, const Selection& s);
std::unique_ptr<Annotator> MakeXnnpackAnnotator(const ir::Program& p, const Recipe& r, const Selection& s);

}  // namespace slipway::quantizer::pt2e

#endif  // SLIPWAY_QUANTIZER_PT2E_ANNOTATE_H_
