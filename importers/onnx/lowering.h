// How an ONNX operator becomes ATen's: one row per operator in the tables of lowerings/*.cc. A row's function reads
// inputs and attributes through a Call, writes nodes through its builder and gives each result; it is the mirror of
// exporters/onnx/lowering.h.
//
// Models compute shapes with tensors (Shape, Gather, Concat, Reshape), ATen with integers. So a small integer tensor is
// known by its elements as long as these are constants or sizes, and becomes a tensor where something reads
// it as one.
#ifndef SLIPWAY_IMPORTERS_ONNX_LOWERING_H_
#define SLIPWAY_IMPORTERS_ONNX_LOWERING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "onnx/onnx_pb.h"

namespace slipway::importers::onnx_in {

using ir::Arg;
using ir::DType;
using ir::IntOrValue;
using ir::Ints;
using ir::SymInts;
using ir::Value;
using ir::Values;

class GraphLowering;

// The elements of an integer tensor of a rank up to 2.
struct Elements {
  SymInts values;
  DType dtype = DType::kInt64;
  bool scalar = false;  // rank 0, one element
  int64_t columns = 0;  // of a matrix, which lists may be on their way; else 0
};

// What a value of the model has become: a tensor, elements that no tensor has been made of yet, or a sequence, which
// programs of ATen do not have: members that are known one by one, or the rows of a tensor, as many as the program
// computes.
struct Appended;
struct Operand {
  Value* tensor = nullptr;
  std::optional<Elements> elements;
  std::shared_ptr<const std::vector<Operand>> sequence;
  Value* rows = nullptr;
  std::shared_ptr<const Appended> appended;
};
using Sequence = std::vector<Operand>;
// The sequence that a loop carries, in its body: what it was when the turn began, and behind it what the turn appends.
struct Appended {
  const ir::Node* loop = nullptr;
  size_t input = 0;  // of the loop
  Sequence members;
};
inline bool IsSequence(const Operand& o) { return o.sequence || o.rows || o.appended; }

// One node while it is lowered. Errors are kept: after the first one, results are harmless and status() tells.
class Call {
 public:
  Call(const ir::Node& n, GraphLowering& graph, ir::Builder& builder, int opset)
      : b(builder), opset(opset), node_(n), graph_(graph) {}

  ir::Builder& b;
  const int opset;     // of the operator's domain
  bool whole = false;  // the node stays as it is (Row::whole): what is written for it gives the types of its results

  // ---- Inputs
  size_t input_count() const;
  bool has(size_t i) const;     // given, not left out
  Value* in(size_t i);          // as a tensor; null and an error where it is left out
  Value* opt_in(size_t i);      // null where it is left out
  Values ins(size_t from = 0);  // all from there on
  // The element type that the model has for it, which ATen may not know (narrow_types.h).
  DType onnx_type(size_t i);
  // The elements of an integer tensor of rank 0 or 1, where they are known; and of one of rank 2, too.
  std::optional<Elements> elements(size_t i);
  std::optional<Elements> any_elements(size_t i);
  // The members of a sequence whose number is known; else null and an error.
  std::shared_ptr<const Sequence> sequence(size_t i);
  // An input as it is; null and an error where it is left out.
  Operand operand(size_t i);
  // The elements of an input that must have them: sizes, axes. `what` names it in the refusal.
  SymInts ints(size_t i, std::string_view what);
  // The same of a tensor that was made of an input.
  SymInts ints_of(Value* v, std::string_view what);
  // The same as constants.
  Ints constants(size_t i, std::string_view what);
  // The elements of a constant input, and of one of one element.
  std::optional<std::vector<double>> numbers(size_t i);
  std::optional<double> number(size_t i);
  // The same of a tensor: whether the program stores it, and its one element.
  bool IsStored(const Value* v) const;
  std::optional<double> NumberOf(const Value* v) const;
  static std::optional<double> NumberOf(const ir::TensorRef& t);

  // ---- Attributes, by name
  bool has_attribute(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise);
  double real(std::string_view name, double otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  std::optional<Ints> integers(std::string_view name);
  std::optional<std::vector<double>> reals(std::string_view name);
  std::optional<onnx::TensorProto> tensor(std::string_view name);
  DType dtype(std::string_view name, DType otherwise);
  ir::SubGraph graph_of(std::string_view name);  // null and an error where there is none
  // An attribute that says nothing that the row does not know: one of training, or of a shape that an input has.
  void Ignore(std::string_view name) { (void)Find(name); }
  // The first attribute that nobody has asked for, or null: one of a later opset, or a form that the row forgot.
  const std::string* Unread() const;
  // An axis of a rank, as an index from the front.
  int64_t axis(int64_t given, int rank);

  // ---- Results
  size_t output_count() const;
  bool wants(size_t i) const;  // has a name
  void Give(Value* v) { Give(0, v); }
  void Give(size_t i, Value* v);
  void Give(Elements e);
  void Give(size_t i, Operand o);
  void Give(Sequence s) { Give(0, {.sequence = std::make_shared<const Sequence>(std::move(s))}); }
  void GiveRows(Value* rows) { Give(0, {.rows = rows}); }

  // Values that ATen's operators take in other forms.
  Value* Constant(double number, DType dtype);                // 0-d
  Value* ConstantOf(std::string_view name, ir::TensorRef t);  // a tensor that the program stores
  Value* TensorOf(const Elements& e);
  Value* TensorOf(const Operand& o) { return o.elements ? TensorOf(*o.elements) : o.tensor; }  // of no sequence
  Value* TensorOf(const SymInts& sizes) { return TensorOf(Elements{sizes}); }

  // A form of the operator that there is no lowering for: `what` follows the operator's name.
  void Refuse(std::string_view what);
  // The model contradicts its operator's rules.
  void Wrong(std::string_view what);
  bool ok() const { return status_.ok() && b.ok(); }
  absl::Status status() const { return status_.ok() ? b.status() : status_; }

  void Fail(const absl::Status& s) {
    if (status_.ok()) status_ = s;
  }

  const ir::Node& node() const { return node_; }
  GraphLowering& graph() { return graph_; }
  std::vector<Operand>& results() { return results_; }

 private:
  const ir::NamedArg* Find(std::string_view name) const;
  std::optional<std::vector<double>> NumbersOf(const Value* v) const;
  const ir::Node& node_;
  GraphLowering& graph_;
  mutable std::vector<const ir::NamedArg*> read_;  // attributes that were asked for
  absl::Status status_;
  std::vector<Operand> results_;
};

using LowerFn = void (*)(Call& c);

struct Row {
  std::string_view type;  // of the domain that the table is of
  LowerFn fn;
  int since = 1;  // the opset from which on this row is right
  // The nodes that the function lowers, where it does not lower all: others are what ONNX defines the operator by.
  bool (*takes)(const onnx::NodeProto& n) = nullptr;
  // The nodes that would become several operators: where the program is an ONNX model again they stay as they are
  // (GraphLowering). Null: none.
  bool (*whole)(Call& c) = nullptr;
  // Puts such a node in the words of the opset that is written, where these are others. Null: they never are.
  void (*renew)(Call& c, int written, Values& inputs, std::vector<ir::NamedArg>& attributes) = nullptr;
};
inline bool Always(Call& /*c*/) { return true; }

// The row of an operator at an opset, or null.
const Row* FindRow(std::string_view domain, std::string_view type, int opset);

// The tables (lowerings/*.cc), of ONNX's own operators.
absl::Span<const Row> ArithmeticRows();
absl::Span<const Row> ConversionRows();
absl::Span<const Row> ActivationRows();
absl::Span<const Row> ShapeRows();
absl::Span<const Row> PaddingRows();
absl::Span<const Row> NnRows();
absl::Span<const Row> AttentionRows();
absl::Span<const Row> ReductionRows();
absl::Span<const Row> ResampleRows();
absl::Span<const Row> SamplingRows();
absl::Span<const Row> IndexingRows();
absl::Span<const Row> DetectionRows();
absl::Span<const Row> QuantizationRows();
absl::Span<const Row> ControlRows();
absl::Span<const Row> RecurrentRows();
absl::Span<const Row> SpectrumRows();
absl::Span<const Row> SequenceRows();
// Of com.microsoft's.
absl::Span<const Row> MicrosoftQuantizationRows();
absl::Span<const Row> MicrosoftRows();
absl::Span<const Row> MicrosoftRecurrentRows();
absl::Span<const Row> MicrosoftAttentionRows();

}  // namespace slipway::importers::onnx_in

#endif  // SLIPWAY_IMPORTERS_ONNX_LOWERING_H_
