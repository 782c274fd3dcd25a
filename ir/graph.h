// The one graph IR, in SSA form and in the ATen vocabulary.
//
// Ownership: a Graph owns its nodes and values in pools; they are freed with the graph. Erasing a node unlinks it and
// leaves its memory in the pool, so a stale pointer never dangles, but it must not be used: `Node::erased()` tells.
// A Program owns its root graph, its symbols and its weights; an Archive owns programs. Subgraphs are owned by the
// argument that holds them (shared only between copies of one invoke_subgraph body).
//
// Values know their producer and users; users are kept by Node's setters, so arguments are changed only through them.
#ifndef SLIPWAY_IR_GRAPH_H_
#define SLIPWAY_IR_GRAPH_H_

#include <complex>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "base/text.h"
#include "ir/dtype.h"
#include "ir/sym.h"
#include "ir/tensor.h"

namespace slipway::ir {

class Graph;
class Node;
class Value;
struct Program;
struct OpDef;  // ops/op_table.h

// Numbers as the PT2 schema gives them.
enum class Layout : int8_t {
  kUnknown = 0,
  kSparseCoo,
  kSparseCsr,
  kSparseCsc,
  kSparseBsr,
  kSparseBsc,
  kMkldnn,
  kStrided
};
enum class MemoryFormat : int8_t { kUnknown = 0, kContiguous, kChannelsLast, kChannelsLast3d, kPreserve };

struct Device {
  std::string type = "cpu";
  std::optional<int64_t> index;
  bool operator==(const Device&) const = default;
};

using Sizes = absl::InlinedVector<Sym, 4>;

// What a value is.
struct Type {
  enum Kind : uint8_t { kNone, kTensor, kSymInt, kSymFloat, kSymBool, kToken, kObject, kConstant };
  Kind kind = kNone;

  // kTensor
  DType dtype = DType::kUnknown;
  bool strides_known = false;
  bool requires_grad = false;
  Layout layout = Layout::kStrided;
  Sizes sizes;
  Sizes strides;                         // elements; meaningful in the as-exported form only, advisory afterwards
  Sym storage_offset;                    // elements, as exported
  std::shared_ptr<const Device> device;  // null is cpu

  Sym expr;                // kSymInt/kSymFloat/kSymBool: the value as an expression
  std::string class_name;  // kObject

  static Type Tensor(DType dtype, Sizes sizes);
  static Type SymInt(Sym expr);
  static Type SymFloat(Sym expr);
  static Type SymBool(Sym expr);
  bool is_tensor() const { return kind == kTensor; }
  bool is_sym() const { return kind == kSymInt || kind == kSymFloat || kind == kSymBool; }
  int rank() const { return static_cast<int>(sizes.size()); }
  // All sizes as integers, or nullopt if one is symbolic.
  std::optional<std::vector<int64_t>> StaticSizes() const;
  std::optional<int64_t> StaticNumel() const;
  std::string ToString() const;  // for people: "f32[s77,8]", "i64(s77 + 1)", "none"
};

// An integer (or float, bool) argument that may come from a value.
struct IntOrValue {
  Value* value = nullptr;  // set: the symbolic value; else `constant`
  int64_t constant = 0;
  IntOrValue(int64_t c = 0) : constant(c) {}  // NOLINT
  IntOrValue(int c) : constant(c) {}          // NOLINT
  IntOrValue(Value* v) : value(v) {}          // NOLINT
  bool operator==(const IntOrValue&) const = default;
};
// The expression an IntOrValue stands for.
Sym ExprOf(const IntOrValue& v);

struct None {
  bool operator==(const None&) const = default;
};
struct OperatorName {
  std::string name;
  bool operator==(const OperatorName&) const = default;
};
using Values = std::vector<Value*>;  // nullptr stands for None inside an optional-tensor list
using Ints = std::vector<int64_t>;
using SymInts = std::vector<IntOrValue>;
using SubGraph = std::shared_ptr<Graph>;

// One argument of a node: a value, values, a constant or a graph.
class Arg {
 public:
  using Variant = std::variant<None, Value*, Values, int64_t, double, bool, std::string, std::complex<double>, Ints,
                               SymInts, std::vector<double>, std::vector<bool>, std::vector<std::string>, DType,
                               MemoryFormat, Layout, Device, SubGraph, OperatorName, std::vector<Values>,
                               std::vector<Ints>, std::vector<std::vector<double>>>;
  Variant v;

  Arg() : v(None{}) {}
  Arg(None) : v(None{}) {}            // NOLINT
  Arg(std::nullptr_t) : v(None{}) {}  // NOLINT
  Arg(Value* x) {
    if (x)
      v = x;
    else
      v = None{};
  }  // NOLINT: a null value is None
  Arg(int x) : v(static_cast<int64_t>(x)) {}  // NOLINT
  Arg(int64_t x) : v(x) {}                    // NOLINT
  Arg(double x) : v(x) {}                     // NOLINT
  Arg(bool x) : v(x) {}                       // NOLINT
  Arg(const char* x) : v(std::string(x)) {}   // NOLINT
  Arg(std::string x) : v(std::move(x)) {}     // NOLINT
  Arg(IntOrValue x) {                         // NOLINT
    if (x.value)
      v = x.value;
    else
      v = x.constant;
  }
  Arg(SymInts x);  // NOLINT: becomes Ints when nothing in it is symbolic
  template <typename T>
    requires(!std::is_same_v<T, Arg> && std::is_constructible_v<Variant, std::in_place_type_t<T>, T> &&
             !std::is_arithmetic_v<T>)
  Arg(T x) : v(std::in_place_type<T>, std::move(x)) {}  // NOLINT

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&v);
  }
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(v);
  }
  bool is_none() const { return is<None>(); }
  Value* value() const {
    auto p = get<Value*>();
    return p ? *p : nullptr;
  }

  // Calls f on each value mentioned, subgraph contents excluded (subgraphs capture nothing).
  void ForEachValue(const std::function<void(Value*)>& f) const;
  void ReplaceValues(const std::function<Value*(Value*)>& f);
};

struct NamedArg {
  std::string name;  // the schema's argument name; "" for positional arguments of higher-order ops
  Arg arg;
  int8_t kind = 0;  // 1 positional, 2 keyword; 0 not stated, or as the declaration suggests
};

// A value: a graph input or one result of a node.
class Value {
 public:
  const std::string& name() const { return name_; }
  const Type& type() const { return type_; }
  Type& mutable_type() { return type_; }
  Node* producer() const { return producer_; }  // null for graph inputs
  int index() const { return index_; }          // position among the producer's outputs, or the graph's inputs
  Graph* graph() const { return graph_; }
  // The nodes that use this value, one entry per use, in no particular order. Graph outputs are not among them.
  absl::Span<Node* const> users() const { return users_; }
  // Short-cuts for tensors.
  DType dtype() const { return type_.dtype; }
  int rank() const { return type_.rank(); }
  const Sizes& sizes() const { return type_.sizes; }

 private:
  friend class Graph;
  friend class Node;
  std::string name_;
  Type type_;
  Node* producer_ = nullptr;
  Graph* graph_ = nullptr;
  int index_ = 0;
  std::vector<Node*> users_;
};

// Where a node came from. Strings are shared between nodes made from one another.
struct Source {
  std::string stack_trace;      // as exported: "File \"…\", line N, in f\n  code\n…", innermost last
  std::string nn_module_stack;  // "key,path,type;…", innermost last
  std::string torch_fn;
  std::vector<std::pair<std::string, std::string>> other;  // further metadata, in file order
  std::string ModulePath() const;                          // "layers.3.mlp", or ""
  std::string CodeLine() const;                            // "modeling_llama.py:180", or ""
  std::string Describe() const;                            // "layers.3.mlp (modeling_llama.py:180)", or ""
};

// An operation. Arguments are kept by name, those equal to the schema's default may be absent; Find() looks among the
// present ones, Get() falls back to the default.
class Node {
 public:
  const OpDef& op() const { return *op_; }
  std::string_view op_name() const;
  Graph* graph() const { return graph_; }
  Node* next() const { return next_; }
  Node* prev() const { return prev_; }
  bool erased() const { return erased_; }

  absl::Span<const NamedArg> args() const { return args_; }
  const Arg* Find(std::string_view name) const;           // null when absent
  const Arg& Get(std::string_view name) const;            // present, else the schema's default, else None
  const Arg& At(size_t i) const { return args_[i].arg; }  // by position as stored (higher-order ops)
  void SetArg(std::string_view name, Arg a);              // replaces or appends
  void SetArgAt(size_t i, Arg a);
  void AppendArg(NamedArg a);
  void RemoveArg(std::string_view name);
  void ReplaceUses(Value* from, Value* to);  // in this node's arguments only

  absl::Span<Value* const> outputs() const { return outputs_; }  // nullptr where the result is None
  Value* output(size_t i = 0) const { return i < outputs_.size() ? outputs_[i] : nullptr; }
  // How results group into the operator's returns: empty when each output is one return; else one entry per return,
  // -1 for a single value, n >= 0 for a list of n consecutive outputs.
  const std::vector<int>& groups() const { return groups_; }
  void set_groups(std::vector<int> g) { groups_ = std::move(g); }
  std::optional<bool> hop_single_return;  // is_hop_single_tensor_return, where the file states it

  const std::shared_ptr<const Source>& source() const { return source_; }
  void set_source(std::shared_ptr<const Source> s) { source_ = std::move(s); }

 private:
  friend class Graph;
  const OpDef* op_ = nullptr;
  Graph* graph_ = nullptr;
  Node *next_ = nullptr, *prev_ = nullptr;
  bool erased_ = false;
  std::vector<NamedArg> args_;
  std::vector<Value*> outputs_;
  std::vector<int> groups_;
  std::shared_ptr<const Source> source_;
  void Use(const Arg& a);
  void Unuse(const Arg& a);
};

struct InputSpec {
  enum Kind : uint8_t { kUser, kParameter, kBuffer, kTensorConstant, kCustomObj, kToken, kConstant };
  Kind kind = kUser;
  std::string target;      // FQN for parameters, buffers, constants
  bool persistent = true;  // buffers
  Arg constant;            // kConstant: the value baked in
  bool is_weight() const { return kind == kParameter || kind == kBuffer || kind == kTensorConstant; }
};

struct OutputSpec {
  enum Kind : uint8_t {
    kUser,
    kLoss,
    kBufferMutation,
    kParameterMutation,
    kGradToParameter,
    kGradToUserInput,
    kUserInputMutation,
    kToken
  };
  Kind kind = kUser;
  std::string target;  // FQN, or user input name
  bool updates_weight() const { return kind == kBufferMutation || kind == kParameterMutation; }
  bool updates_state() const { return updates_weight() || kind == kUserInputMutation; }  // or an input of the caller's
};

class Graph {
 public:
  explicit Graph(Program* program) : program_(program) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Program* program() const { return program_; }
  Node* first() const { return first_; }
  Node* last() const { return last_; }
  size_t node_count() const { return count_; }

  // Range over live nodes: `for (Node* n : graph)`. The current node may be erased while iterating.
  class iterator {
   public:
    explicit iterator(Node* n) : n_(n), next_(n ? n->next() : nullptr) {}
    Node* operator*() const { return n_; }
    iterator& operator++() {
      n_ = n_ && !n_->erased() ? n_->next() : next_;
      next_ = n_ ? n_->next() : nullptr;
      return *this;
    }
    bool operator!=(const iterator& o) const { return n_ != o.n_; }

   private:
    Node *n_, *next_;
  };
  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(nullptr); }

  // Makes a node before `before` (null: at the end). The names of outputs are made unique in this graph.
  Node* Insert(const OpDef& op, std::vector<NamedArg> args, Node* before = nullptr);
  Value* AddOutput(Node* n, std::string name, Type type);
  void AddNoneOutput(Node* n) { n->outputs_.push_back(nullptr); }
  void Erase(Node* n);  // its outputs must have no users (checked in debug builds)
  void MoveBefore(Node* n, Node* before);

  Value* AddInput(std::string name, Type type);
  void RemoveInput(size_t i);
  const std::vector<Value*>& inputs() const { return inputs_; }

  // Results: values or constants (None, numbers, strings), in order.
  std::vector<Arg> outputs;
  bool single_tensor_return = false;

  // Every use of `from` in nodes and outputs becomes `to`.
  void ReplaceAllUses(Value* from, Value* to);
  bool IsOutput(const Value* v) const;
  void Rename(Value* v, std::string name);
  // `to`, which stands for `from` now, is known as it was; `from` gets another name.
  void TakeName(Value* to, Value* from);
  std::string UniqueName(std::string_view base);
  Value* FindValue(std::string_view name) const;

 private:
  Program* program_;
  Node *first_ = nullptr, *last_ = nullptr;
  size_t count_ = 0;
  std::deque<Node> nodes_;
  std::deque<Value> values_;
  std::vector<Value*> inputs_;
  text::Map<Value*> by_name_;
  text::Map<int> next_suffix_;
  Value* NewValue(std::string name, Type type);
};

// As exported (in-place nodes mutate, views alias) or functional (pure SSA; mutations are outputs).
enum class Form : uint8_t { kAsExported, kFunctional };

struct RangeConstraint {
  std::optional<int64_t> min, max;
};

struct Program {
  std::string name = "model";
  Form form = Form::kAsExported;
  std::unique_ptr<SymTable> syms = std::make_unique<SymTable>();
  std::unique_ptr<Graph> graph = std::make_unique<Graph>(this);
  std::vector<InputSpec> input_specs;    // parallel to graph->inputs()
  std::vector<OutputSpec> output_specs;  // parallel to graph->outputs
  // Parameters, buffers and constants by FQN. Names may share a storage. A missing one (weightless archive) is absent.
  std::map<std::string, TensorRef> weights;
  // Pickles of the file by FQN, each with its member's name: custom objects, and tensor subclasses, whose inner tensors
  // are among `weights` as FQN.ATTRIBUTE.
  text::Map<std::pair<std::shared_ptr<const Storage>, std::string>> objects;

  // Kept from the file for inspection and for writing PT2 again.
  std::string in_spec, out_spec;  // pytree text of the root call signature
  std::vector<std::string> forward_arg_names;
  std::string module_call_graph_json;  // verbatim
  std::string namedtuple_fields_json;  // verbatim
  std::vector<std::string> guards;
  std::shared_ptr<const Storage> sample_inputs;  // a torch.save archive of (args, kwargs), unread; null without
  // Of expressions ("4*s18"), as in the file; ranges of symbols are in `syms`.
  std::vector<std::pair<std::string, RangeConstraint>> range_constraints;
  std::string torch_version, verifier_dialect;
  int schema_major = 8, schema_minor = 20;

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
};

// Adds `t` to the weights as `fqn`, or as `fqn`_1, _2 ... where that is taken, and as an input of the graph, which it
// returns.
Value* AddWeight(Program& p, InputSpec::Kind kind, std::string_view fqn, TensorRef t, std::string value_name);

// Removes the graph's i-th input, which nothing may read, and its spec; a weight's tensor stays.
void RemoveInput(Program& p, size_t i);

// Removes the inputs for weights that nothing reads, returns or updates, and the weights that no other input is for.
void RemoveUnreadWeights(Program& p);

// The names of the parameters and persistent buffers that the program has no values of, read or not; sorted.
std::vector<std::string> AbsentWeights(const Program& p);

// The names of weights that a run of the program writes: what is computed of their values holds for the first run only.
text::Set UpdatedWeights(const Program& p);

// Several programs by name over shared storages, plus extra files.
struct Archive {
  std::vector<std::unique_ptr<Program>> programs;
  std::map<std::string, std::string> extra_files;
  std::string producer;  // e.g. "torch 2.13.0 (PT2 schema 8.20)"
};

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_GRAPH_H_
