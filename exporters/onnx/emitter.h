// Writes ONNX nodes. Every lowering goes through here, so these things hold for the whole exporter: names are unique
// and readable, equal small constants are stored once, equal nodes are written once, what depends on small constants
// only is computed where it moves elements (fold.h), and an operator whose element type ONNX Runtime has no CPU kernel
// for is wrapped in casts (unless `strict_types` asks for the pure graph).
#ifndef SLIPWAY_EXPORTERS_ONNX_EMITTER_H_
#define SLIPWAY_EXPORTERS_ONNX_EMITTER_H_

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "base/text.h"
#include "exporters/onnx/export.h"
#include "ir/graph.h"
#include "onnx/onnx_pb.h"

namespace slipway::exporters::onnx_out {

using ir::DType;
using ir::Ints;

// A value of the ONNX graph: its name and what we know of its type. An empty name is an absent optional input.
struct V {
  std::string name;
  DType dtype = DType::kUnknown;
  int rank = -1;  // -1: not known
  explicit operator bool() const { return !name.empty(); }
};

using Attr = std::variant<int64_t, double, std::string, Ints, std::vector<double>, std::vector<std::string>,
                          onnx::GraphProto, onnx::TensorProto>;
using Attrs = std::vector<std::pair<std::string, Attr>>;

class FunctionLibrary;

// A small tensor whose elements are known.
struct Known {
  DType dtype;
  Ints dims;
  std::string bytes;
};

// What nested graphs share with the graph around them.
struct EmitterShared {
  int opset = 20;
  OnnxForm form = OnnxForm::kExact;
  bool strict_types = false;
  bool from_onnx = false, keep_halves = false;  // as in OnnxOptions
  NodeMetadata metadata = NodeMetadata::kNone;
  text::Set names;  // all value names ever used: ONNX forbids reuse across scopes
  text::Set node_names;
  text::Map<std::pair<std::string, onnx::TensorProto>> constants;  // by content
  std::vector<std::string> constant_order;
  text::Map<Known> known;                // constants, and small weights, by name
  text::Map<Ints> sizes;                 // of the program's values, by name; -1: not known
  std::set<std::string> custom_domains;  // that nodes use
  FunctionLibrary* functions = nullptr;  // the model's; never null while lowering
  absl::Status status;                   // the first error of the node being lowered

  // What graph_order.h asks for.
  size_t rule = 0;                                            // the call of a lowering that emits now; 0: none
  std::vector<std::vector<std::string>> rule_results = {{}};  // names of its results, by that number
  text::Map<std::pair<size_t, std::string>> node_origins;     // by a node's name: the call, and the name's stem
  text::Map<std::string> stem_of;                             // by a result's or a constant's name
  text::Map<std::vector<std::string>> names_of;               // by stem: the names that were given
};

// The name of a node, which becomes one of `taken`: "STEM", "STEM.TYPE", "STEM.TYPE.1", …
std::string NameNode(const std::string& stem, std::string_view type, text::Set& taken);

class Emitter {
 public:
  explicit Emitter(onnx::GraphProto* graph, EmitterShared* shared) : graph_(graph), shared_(shared) {}

  int opset() const { return shared_->opset; }
  OnnxForm form() const { return shared_->form; }
  EmitterShared* shared() { return shared_; }
  onnx::GraphProto* graph() { return graph_; }

  // Names for what is emitted next: nodes are "<scope>/<base>", values "<base>", "<base>.1", …
  void SetScope(std::string scope, std::string base) { scope_ = std::move(scope), base_ = std::move(base); }
  // What those nodes say of where they come from, by key.
  void SetMetadata(std::vector<std::pair<std::string, std::string>> metadata) { metadata_ = std::move(metadata); }
  // Has the sizes of a value: Shape() and Dim() are numbers where these are.
  void HasSizes(const V& v, const ir::Type& type);
  // States the type of a value in the graph, once; of what is the result of no node, nothing.
  void State(const V& v, const ir::Type& type);
  std::string UniqueName(std::string_view base);

  // One node with one result. The result has `out` (default: the first input's dtype) and `rank` (default: the first
  // input's rank; kUnknownRank for none).
  static constexpr int kSameRank = -2, kUnknownRank = -1;
  V Op(std::string_view type, std::vector<V> in, Attrs attrs = {}, DType out = DType::kUnknown, int rank = kSameRank);
  // Several results with their dtypes; an entry of kUnknown omits that result.
  std::vector<V> OpN(std::string_view type, std::vector<V> in, Attrs attrs, std::vector<DType> outs);

  // If, Loop, Scan: types are what the bodies say, so nothing is cast.
  std::vector<V> Control(std::string_view type, const std::vector<V>& in, Attrs attrs, const std::vector<DType>& outs) {
    return Raw(type, in, std::move(attrs), outs, /*unique=*/true);
  }

  // A node of a custom domain, whose results have these types.
  std::vector<V> Custom(const std::string& domain, std::string_view type, const std::vector<V>& in, Attrs attrs,
                        const std::vector<const ir::Type*>& outs);

  // Small constants, stored as initializers of the outermost graph and shared. The first one may have a name of its
  // own.
  V Const(DType dtype, Ints dims, std::string bytes, std::string_view name = {});
  // The elements of a constant; null where they are not known.
  const Known* Find(const V& v) const;
  V I64(Ints values);                     // 1-D
  V I64Scalar(int64_t value);             // 0-d
  V Number(double value, DType dtype);    // 0-d; integers are exact up to 2^53
  V Integer(int64_t value, DType dtype);  // 0-d, exact
  V Numbers(std::vector<double> values, DType dtype, Ints dims);
  V BoolConst(bool value) { return Integer(value, DType::kBool); }

  // Shorthands. All keep dtype and work out the rank.
  V Cast(V x, DType to);
  V BitCast(V x, DType to);  // the same bits; from opset 26 on
  V Shape(V x);              // 1-D i64
  V Dim(V x, int d);         // 1-D i64 of one element; d >= 0
  V DimScalar(V x, int d);   // 0-d i64
  V Reshape(V x, V shape, int rank, bool allow_zero = false);
  V Reshape(V x, Ints shape);   // -1 infers; 0 means 0
  V Transpose(V x, Ints perm);  // of a transposed one: of what that is made of
  // of what was reshaped to a known shape: a Reshape of what that is made of
  V Unsqueeze(V x, Ints axes);
  V Squeeze(V x, Ints axes);  // the same
  // Says that a value has the elements of another in their order, whose sizes the type has: Reshape to these is that
  // one.
  void IsReshaped(const V& v, V of, const ir::Type& type) { parts_[v.name] = {std::move(of), type}; }
  V ReshapedAs(const V& v, const ir::Sizes& sizes) const;  // empty where there is none
  // What a Transpose is of, and in which order; null for other values.
  const std::pair<V, Ints>* TransposeOf(const V& x) const;
  V Slice(V x, Ints starts, Ints ends, Ints axes, Ints steps = {});
  V SliceV(V x, V starts, V ends, Ints axes, Ints steps = {});
  V Gather(V x, V index, int axis);
  V Concat(std::vector<V> xs, int axis);
  V Expand(V x, V shape, int rank);
  V Add(V a, V b) { return Arith("Add", std::move(a), std::move(b)); }
  V Sub(V a, V b) { return Arith("Sub", std::move(a), std::move(b)); }
  V Mul(V a, V b) { return Arith("Mul", std::move(a), std::move(b)); }
  V Div(V a, V b) { return Arith("Div", std::move(a), std::move(b)); }
  V Pow(V a, V b) { return Arith("Pow", std::move(a), std::move(b)); }
  V Max(V a, V b) { return Arith("Max", std::move(a), std::move(b)); }
  V Min(V a, V b) { return Arith("Min", std::move(a), std::move(b)); }
  V And(V a, V b) { return Arith("And", std::move(a), std::move(b)); }
  V Or(V a, V b) { return Arith("Or", std::move(a), std::move(b)); }
  V Less(V a, V b) { return Compare("Less", std::move(a), std::move(b)); }
  V Greater(V a, V b) { return Compare("Greater", std::move(a), std::move(b)); }
  V LessEqual(V a, V b) { return Compare("LessOrEqual", std::move(a), std::move(b)); }
  V GreaterEqual(V a, V b) { return Compare("GreaterOrEqual", std::move(a), std::move(b)); }
  V Equal(V a, V b) { return Compare("Equal", std::move(a), std::move(b)); }
  V Not(V a) { return Op("Not", {std::move(a)}); }
  V Where(V c, V a, V b);
  V MatMul(V a, V b);
  // ReduceX over axes (all when empty), axes as an input.
  V Reduce(std::string_view op, V x, Ints axes, bool keepdims);

  void SetStatus(absl::Status s) {
    if (shared_->status.ok()) shared_->status = std::move(s);
  }

 private:
  onnx::GraphProto* graph_;
  EmitterShared* shared_;
  std::string scope_, base_ = "v";
  std::vector<std::pair<std::string, std::string>> metadata_;
  absl::flat_hash_map<std::string, bool> results_;  // of this graph's nodes: whether its type is stated
  text::Map<std::pair<V, Ints>> transposed_;        // what results of Transpose are made of
  text::Map<std::pair<V, Ints>> reshaped_;   // what results of Reshape to a known shape are made of, and that shape
  text::Map<V> lifted_;                      // what results of Unsqueeze at the front are made of
  text::Map<V> scalars_;                     // what 0-d results of Squeeze are made of
  text::Map<std::pair<V, Ints>> squeezed_;   // what results of Squeeze are made of, and the axes
  text::Map<std::pair<V, ir::Type>> parts_;  // of values that are known as parts, too
  text::Map<std::vector<V>> written_;        // results of nodes of this graph, by operator, operands and attributes
  // A name for a result or a constant.
  std::string NameResult(std::string_view stem);
  V Arith(std::string_view op, V a, V b);
  V Compare(std::string_view op, V a, V b);
  // The node itself, types as they are; the results of an equal one where there is one already. `unique`: always a node
  // of its own.
  std::vector<V> Raw(std::string_view type, const std::vector<V>& in, Attrs attrs, const std::vector<DType>& outs,
                     bool unique = false);
};

}  // namespace slipway::exporters::onnx_out

#endif  // SLIPWAY_EXPORTERS_ONNX_EMITTER_H_
