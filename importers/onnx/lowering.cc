// What rows read their nodes with, and how a row is found.
#include "importers/onnx/lowering.h"

#include <algorithm>

#include "base/text.h"
#include "importers/onnx/graph_lowering.h"
#include "importers/onnx/narrow_types.h"
#include "onnx_model/onnx_graph.h"
#include "onnx_model/types.h"

namespace slipway::importers::onnx_in {
namespace {

// Numbers that are read of data one by one.
constexpr int64_t kMostListElements = 64;

}  // namespace

size_t Call::input_count() const {
  const Values* inputs = onnx_model::InputsOf(node_);
  return inputs ? inputs->size() : 0;
}

bool Call::has(size_t i) const { return i < input_count() && (*onnx_model::InputsOf(node_))[i] != nullptr; }

Value* Call::opt_in(size_t i) { return has(i) ? graph_.Tensor((*onnx_model::InputsOf(node_))[i], b) : nullptr; }

Value* Call::in(size_t i) {
  Value* v = opt_in(i);
  if (v && v->type().is_tensor()) return v;
  if (v && graph_.refused())
    Fail(absl::CancelledError("an input of a node that is refused"));
  else if (v || (has(i) && IsSequence(operand(i))))
    Refuse("of what is no tensor of numbers");
  else
    Wrong(text::StrCat("input ", i, " is missing"));
  return b.ScalarTensor(Arg(0.0), DType::kFloat32);
}

Operand Call::operand(size_t i) {
  if (has(i)) return graph_.OperandOf((*onnx_model::InputsOf(node_))[i]);
  Wrong(text::StrCat("input ", i, " is missing"));
  return {};
}

std::shared_ptr<const Sequence> Call::sequence(size_t i) {
  const Operand o = operand(i);
  if (!o.sequence && !IsSequence(o) && graph_.refused())
    Fail(absl::CancelledError("an input of a node that is refused"));
  else if (o.appended)
    Refuse("of a sequence that a loop carries");
  else if (!o.sequence)
    Refuse("of a sequence whose length the program computes");
  return o.sequence;
}

DType Call::onnx_type(size_t i) {
  const DType t = has(i) ? graph_.OnnxType((*onnx_model::InputsOf(node_))[i]) : DType::kUnknown;
  return t == DType::kUnknown ? in(i)->dtype() : t;  // what inference does not know is none that ATen does not know
}

Values Call::ins(size_t from) {
  Values out;
  for (size_t i = from; i < input_count(); ++i) out.push_back(in(i));
  return out;
}

std::optional<Elements> Call::any_elements(size_t i) {
  return has(i) ? graph_.ElementsOf((*onnx_model::InputsOf(node_))[i]) : std::nullopt;
}

std::optional<Elements> Call::elements(size_t i) {
  auto e = any_elements(i);
  return e && e->columns == 0 ? e : std::nullopt;
}

SymInts Call::ints(size_t i, std::string_view what) {
  if (auto e = elements(i)) return std::move(e->values);
  return ints_of(in(i), what);
}

// Numbers of the data, which a run reads.
SymInts Call::ints_of(Value* v, std::string_view what) {
  auto count = v->rank() == 0 ? 1 : v->rank() == 1 ? v->sizes()[0].constant() : std::nullopt;
  // A slice of one: that it is not empty is checked where its element is read.
  if (v->rank() == 1 && !count && RangeOf(v->sizes()[0]).max == 1) count = 1;
  if (!count || *count > kMostListElements || (v->dtype() != DType::kInt64 && v->dtype() != DType::kInt32)) {
    Refuse(text::StrCat("with ", what, " whose number the program computes"));
    return {};
  }
  SymInts out;
  for (int64_t k = 0; k < *count; ++k)
    out.emplace_back(b.Call("aten.item.default", {v->rank() == 0 ? v : b.Call("aten.select.int", {v, 0, k})}));
  return out;
}

Ints Call::constants(size_t i, std::string_view what) {
  const auto e = elements(i);
  Ints out;
  for (const IntOrValue& x : e ? e->values : SymInts()) out.push_back(x.constant);
  if (!e || std::any_of(e->values.begin(), e->values.end(), [](const IntOrValue& x) { return x.value != nullptr; }))
    Refuse(text::StrCat("with ", what, " that the program computes"));
  return out;
}

std::optional<std::vector<double>> Call::NumbersOf(const Value* v) const {
  const ir::TensorRef* t = graph_.Stored(v);
  if (!t || t->numel() > kMostListElements) return std::nullopt;
  auto numbers = ir::ReadNumbers(*t);
  return numbers.ok() ? std::optional(*std::move(numbers)) : std::nullopt;
}

std::optional<std::vector<double>> Call::numbers(size_t i) { return has(i) ? NumbersOf(in(i)) : std::nullopt; }

std::optional<double> Call::number(size_t i) { return has(i) ? NumberOf(in(i)) : std::nullopt; }

bool Call::IsStored(const Value* v) const { return graph_.Stored(v) != nullptr; }

std::optional<double> Call::NumberOf(const Value* v) const {
  const auto all = NumbersOf(v);
  return all && all->size() == 1 ? std::optional<double>((*all)[0]) : std::nullopt;
}

std::optional<double> Call::NumberOf(const ir::TensorRef& t) {
  if (t.numel() != 1) return std::nullopt;
  const auto numbers = ir::ReadNumbers(t);
  return numbers.ok() ? std::optional(numbers->front()) : std::nullopt;
}

const ir::NamedArg* Call::Find(std::string_view name) const {
  for (const ir::NamedArg& a : node_.args())
    if (a.name == name || (a.name.size() == name.size() + 1 && a.name[0] == '#' && a.name.substr(1) == name)) {
      read_.push_back(&a);
      return &a;
    }
  return nullptr;
}

const std::string* Call::Unread() const {
  for (const ir::NamedArg& a : node_.args())
    if (!a.name.empty() && std::find(read_.begin(), read_.end(), &a) == read_.end()) return &a.name;
  return nullptr;
}

bool Call::has_attribute(std::string_view name) const { return Find(name) != nullptr; }

int64_t Call::integer(std::string_view name, int64_t otherwise) {
  const ir::NamedArg* a = Find(name);
  const auto* i = a ? a->arg.get<int64_t>() : nullptr;
  if (a && !i) Wrong(text::StrCat("attribute ", name, " is no integer"));
  return i ? *i : otherwise;
}

double Call::real(std::string_view name, double otherwise) {
  const ir::NamedArg* a = Find(name);
  const auto* d = a ? a->arg.get<double>() : nullptr;
  if (a && !d) Wrong(text::StrCat("attribute ", name, " is no number"));
  return d ? *d : otherwise;
}

std::string Call::text(std::string_view name, std::string_view otherwise) {
  const ir::NamedArg* a = Find(name);
  const auto* s = a ? a->arg.get<std::string>() : nullptr;
  if (a && (!s || a->name[0] == '#')) Wrong(text::StrCat("attribute ", name, " is no string"));
  return s ? *s : std::string(otherwise);
}

std::optional<Ints> Call::integers(std::string_view name) {
  const ir::NamedArg* a = Find(name);
  if (!a) return std::nullopt;
  const auto* is = a->arg.get<Ints>();
  if (!is) Wrong(text::StrCat("attribute ", name, " is no list of integers"));
  return is ? *is : Ints();
}

std::optional<std::vector<double>> Call::reals(std::string_view name) {
  const ir::NamedArg* a = Find(name);
  if (!a) return std::nullopt;
  const auto* ds = a->arg.get<std::vector<double>>();
  if (!ds) Wrong(text::StrCat("attribute ", name, " is no list of numbers"));
  return ds ? *ds : std::vector<double>();
}

std::optional<onnx::TensorProto> Call::tensor(std::string_view name) {
  const ir::NamedArg* a = Find(name);
  if (!a) return std::nullopt;
  const auto* bytes = a->arg.get<std::string>();
  onnx::AttributeProto message;
  if (!bytes || a->name[0] != '#' || !message.ParseFromString(*bytes) || !message.has_t()) {
    Wrong(text::StrCat("attribute ", name, " is no tensor"));
    return std::nullopt;
  }
  return message.t();
}

DType Call::dtype(std::string_view name, DType otherwise) {
  if (!has_attribute(name)) return otherwise;
  const DType t = onnx_model::FromOnnxType(static_cast<int>(integer(name, 0)));
  if (t == DType::kUnknown) Refuse(text::StrCat("with ", name, " of a type that is none of tensors"));
  return t;
}

ir::SubGraph Call::graph_of(std::string_view name) {
  const ir::NamedArg* a = Find(name);
  const auto* g = a ? a->arg.get<ir::SubGraph>() : nullptr;
  if (g && *g) return *g;
  Wrong(text::StrCat("attribute ", name, " is no graph"));
  return nullptr;
}

int64_t Call::axis(int64_t given, int rank) {
  if (given < -rank || given >= rank) {
    Wrong(text::StrCat("axis ", given, " of a tensor of rank ", rank));
    return 0;
  }
  return given < 0 ? given + rank : given;
}

size_t Call::output_count() const { return node_.outputs().size(); }
bool Call::wants(size_t i) const { return i < output_count() && node_.outputs()[i] != nullptr; }

void Call::Give(size_t i, Operand o) {
  if (results_.size() <= i) results_.resize(i + 1);
  results_[i] = std::move(o);
}
void Call::Give(size_t i, Value* v) { Give(i, Operand{v, std::nullopt}); }
void Call::Give(Elements e) { Give(0, Operand{nullptr, std::move(e)}); }

Value* Call::Constant(double number, DType dtype) {
  return ir::IsFloating(dtype) ? b.ScalarTensor(Arg(number), dtype)
                               : b.ScalarTensor(Arg(static_cast<int64_t>(number)), dtype);
}
Value* Call::ConstantOf(std::string_view name, ir::TensorRef t) {
  auto made = ProgramTensor(std::move(t));
  if (made.ok()) return graph_.Store(name, *std::move(made));
  Fail(made.status());
  return b.ScalarTensor(Arg(0.0), DType::kFloat32);
}
Value* Call::TensorOf(const Elements& e) { return graph_.Tensor(e, b); }

void Call::Refuse(std::string_view what) {
  if (status_.ok()) status_ = absl::UnimplementedError(text::ToAbsl(what));
}
void Call::Wrong(std::string_view what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(text::ToAbsl(what));
}

const Row* FindRow(std::string_view domain, std::string_view type, int opset) {
  const Row* best = nullptr;
  const auto look = [&](absl::Span<const Row> rows) {
    for (const Row& row : rows)
      if (row.type == type && row.since <= opset && (!best || best->since < row.since)) best = &row;
  };
  if (domain.empty()) {
    for (const auto rows :
         {ArithmeticRows(), ConversionRows(), ActivationRows(), ShapeRows(), PaddingRows(), NnRows(), AttentionRows(),
          ReductionRows(), ResampleRows(), SamplingRows(), IndexingRows(), DetectionRows(), QuantizationRows(),
          ControlRows(), RecurrentRows(), SpectrumRows(), SequenceRows()})
      look(rows);
  } else if (domain == "com.microsoft") {
    look(MicrosoftQuantizationRows());
    look(MicrosoftRows());
    look(MicrosoftRecurrentRows());
    look(MicrosoftAttentionRows());
  }
  return best;
}

}  // namespace slipway::importers::onnx_in
