// Sizes are found by local search: from a starting point, a symbol of a condition that does not hold is given another
// size as long as no more conditions fail than before. Relations among a handful of symbols need no more.
#include "driver/verify/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <optional>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/floats.h"
#include "base/status_macros.h"
#include "importers/checkpoint/state_dict.h"
#include "ir/clone.h"
#include "ir/guards.h"
#include "ir/ops/infer.h"
#include "ir/specialize.h"

namespace slipway::driver {
namespace {

constexpr int64_t kMostInteger = 3;  // of those that index nothing

using ir::DType;
using Assignment = text::Map<int64_t>;

// SplitMix64 (Steele et al. 2014).
class Bits {
 public:
  explicit Bits(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // [0, 1)
  // From least to most, both included.
  int64_t Between(int64_t least, int64_t most) {
    const uint64_t span = static_cast<uint64_t>(most) - static_cast<uint64_t>(least) + 1;
    return static_cast<int64_t>(static_cast<uint64_t>(least) + (span == 0 ? Next() : Next() % span));
  }
  double Normal() {
    const double r = std::sqrt(-2 * std::log(1 - Unit()));
    return r * std::cos(2 * std::numbers::pi * Unit());
  }

 private:
  uint64_t state_;
};

// What an index into a value's users must be below, for the values of the root graph; found by following values
// backwards through nodes that keep their elements.
class IndexBounds {
 public:
  explicit IndexBounds(const ir::Graph& g) {
    for (const ir::Node* n = g.last(); n; n = n->prev())
      for (const ir::Value* v : n->outputs())
        if (v) Settle(v);
    for (const ir::Value* v : g.inputs()) Settle(v);
  }
  std::optional<ir::Sym> Of(const ir::Value* v) const {
    const auto known = known_.find(v);
    return known == known_.end() ? std::nullopt : std::optional<ir::Sym>(known->second);
  }

 private:
  absl::flat_hash_map<const ir::Value*, ir::Sym> known_;

  // After all that comes behind it: the least of what its users ask.
  void Settle(const ir::Value* v) {
    if (!v->type().is_tensor() || !ir::IsIntegral(v->dtype())) return;
    std::optional<ir::Sym> least;
    const absl::flat_hash_set<const ir::Node*> users(v->users().begin(), v->users().end());
    for (const ir::Node* n : users)
      if (auto bound = Through(*n, v)) least = least ? ir::Min(*least, *bound) : *bound;
    if (least) known_.emplace(v, *least);
  }

  static std::optional<ir::Sym> SizeOf(const ir::Value* v, int64_t dim) {
    if (!v || !v->type().is_tensor()) return std::nullopt;
    if (dim < 0) dim += v->rank();
    if (dim < 0 || dim >= v->rank()) return std::nullopt;
    return v->sizes()[dim];
  }
  static std::optional<int64_t> IntOf(const ir::Arg& a) {
    if (auto i = a.get<int64_t>()) return *i;
    return std::nullopt;
  }

  // What one user asks of it.
  std::optional<ir::Sym> Through(const ir::Node& n, const ir::Value* v) const {
    std::string_view op = n.op_name();
    if (!text::ConsumePrefix(&op, "aten.")) return std::nullopt;
    op = op.substr(0, op.find('.'));
    if (op.ends_with('_') && !op.ends_with("__")) op.remove_suffix(1);
    const auto is = [&](std::string_view argument) { return n.Get(argument).value() == v; };
    if (op == "embedding" || op == "embedding_bag" || op == "_embedding_bag")
      return is("indices") ? SizeOf(n.Get("weight").value(), 0) : std::nullopt;
    static constexpr std::string_view kAlongDim[] = {"index_select", "gather",      "index_add",
                                                     "index_copy",   "index_fill",  "index_reduce",
                                                     "scatter",      "scatter_add", "scatter_reduce"};
    if (std::find(std::begin(kAlongDim), std::end(kAlongDim), op) != std::end(kAlongDim)) {
      const auto dim = IntOf(n.Get("dim"));
      return is("index") && dim ? SizeOf(n.Get("self").value(), *dim) : std::nullopt;
    }
    if (op == "take" || op == "put") return is("index") ? NumelOf(n.Get("self").value()) : std::nullopt;
    if (op == "one_hot") {
      const auto classes = IntOf(n.Get("num_classes"));
      return classes && *classes > 0 ? std::optional<ir::Sym>(*classes) : std::nullopt;
    }
    if (op == "cross_entropy_loss" || op.starts_with("nll_loss")) {
      const ir::Value* self = n.Get("self").value();
      return is("target") && self ? SizeOf(self, self->rank() > 1 ? 1 : 0) : std::nullopt;
    }
    if (op == "index" || op == "index_put" || op == "_unsafe_index") return OfList(n, v);
    if (op == "add" || op == "sub") {
      const auto by = IntOf(n.Get("other"));
      const auto bound = by && is("self") ? Of(n.output()) : std::nullopt;
      return !bound ? std::nullopt : std::optional<ir::Sym>(op == "add" ? *bound - *by : *bound + *by);
    }
    static constexpr std::string_view kKeep[] = {
        "view",    "reshape", "unsqueeze", "squeeze", "expand",     "permute",         "transpose",    "t",
        "flatten", "clone",   "to",        "slice",   "unflatten",  "_to_copy",        "_unsafe_view", "select",
        "alias",   "detach",  "roll",      "flip",    "contiguous", "lift_fresh_copy", "repeat",       "cat",
        "stack",   "long",    "int",       "view_as", "expand_as"};
    if (std::find(std::begin(kKeep), std::end(kKeep), op) != std::end(kKeep))
      return n.output() ? Of(n.output()) : std::nullopt;
    return std::nullopt;
  }

  static std::optional<ir::Sym> NumelOf(const ir::Value* v) {
    if (!v || !v->type().is_tensor()) return std::nullopt;
    ir::Sym n = 1;
    for (ir::Sym s : v->sizes()) n = n * s;
    return n;
  }

  // x[i, None, j]: an index takes a dimension, a mask as many as it has.
  static std::optional<ir::Sym> OfList(const ir::Node& n, const ir::Value* v) {
    const auto* indices = n.Get("indices").get<ir::Values>();
    const ir::Value* self = n.Get("self").value();
    if (!indices || !self) return std::nullopt;
    std::optional<ir::Sym> least;
    int64_t dim = 0;
    for (const ir::Value* index : *indices) {
      if (index && ir::IsBool(index->dtype())) {
        dim += index->rank();
        continue;
      }
      if (index == v)
        if (auto size = SizeOf(self, dim)) least = least ? ir::Min(*least, *size) : *size;
      ++dim;
    }
    return least;
  }
};

template <typename T>
void Put(std::string* bytes, T value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PutFloat(DType dtype, double v, std::string* bytes) {
  switch (dtype) {
    case DType::kFloat64: return Put(bytes, v);
    case DType::kFloat16: return Put(bytes, F16(static_cast<float>(v)));
    case DType::kBFloat16: return Put(bytes, BF16(static_cast<float>(v)));
    default: return Put(bytes, static_cast<float>(v));
  }
}

// Values that go wrong easily, as f64: of the narrower types some round to zero or infinity, which are as good.
double EdgeFloat(DType dtype, Bits& bits) {
  const double least = dtype == DType::kFloat64 ? 0x1p-1040 : dtype == DType::kFloat16 ? 0x1p-20 : 0x1p-130;
  const double most = dtype == DType::kFloat64   ? std::numeric_limits<double>::max()
                      : dtype == DType::kFloat16 ? 65504
                                                 : 0x1.fep127;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double values[] = {0.0,  -0.0,  kInf, -kInf, std::numeric_limits<double>::quiet_NaN(), least, -least,
                           most, -most, 1.0,  -1.0};
  return values[bits.Next() % std::size(values)];
}

int64_t LeastOf(DType t) { return !ir::Info(t).is_signed ? 0 : -(int64_t{1} << (ir::BitSize(t) - 1)); }
int64_t MostOf(DType t) {
  const int64_t bits = ir::BitSize(t) - (ir::Info(t).is_signed ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
}

void PutInteger(DType dtype, int64_t v, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&v), static_cast<size_t>(ir::ByteSize(dtype)));  // little-endian
}

// A symbolic number is a tensor of no dims.
DType NumberType(const ir::Type& t) {
  return t.kind == ir::Type::kSymInt ? DType::kInt64 : t.kind == ir::Type::kSymFloat ? DType::kFloat64 : DType::kBool;
}

}  // namespace

std::vector<const ir::Value*> TakenInputs(const ir::Program& p) {
  std::vector<const ir::Value*> inputs;
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    if (p.input_specs[i].kind == ir::InputSpec::kUser && v->type().kind != ir::Type::kConstant &&
        v->type().kind != ir::Type::kNone)
      inputs.push_back(v);
  }
  return inputs;
}

absl::StatusOr<Tensors> SampleInputs(const ir::Program& p) {
  const auto* bytes = p.sample_inputs ? std::get_if<io::Bytes>(&p.sample_inputs->bytes) : nullptr;
  if (!bytes || bytes->size() == 0) return absl::InvalidArgumentError("there are none");
  ASSIGN_OR_RETURN(const std::vector<importers::PickleLeaf> leaves, importers::ReadLeaves(*bytes));
  // None and Python's constants are leaves too: the program says which.
  std::vector<const ir::Value*> users;
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    if (p.input_specs[i].kind == ir::InputSpec::kUser || p.input_specs[i].kind == ir::InputSpec::kConstant)
      users.push_back(p.graph->inputs()[i]);
  if (users.size() != leaves.size())
    return absl::InvalidArgumentError(text::StrCat("there are ", leaves.size(), ", the program takes ", users.size()));
  const std::vector<const ir::Value*> taken = TakenInputs(p);
  const absl::flat_hash_set<const ir::Value*> is_taken(taken.begin(), taken.end());
  Tensors out;
  for (size_t i = 0; i < users.size(); ++i) {
    if (!is_taken.contains(users[i])) continue;
    const ir::Type& t = users[i]->type();
    const auto* tensor = std::get_if<ir::TensorRef>(&leaves[i]);
    std::string number;
    if (t.kind == ir::Type::kSymInt && std::holds_alternative<int64_t>(leaves[i]))
      Put(&number, std::get<int64_t>(leaves[i]));
    if (t.kind == ir::Type::kSymFloat && std::holds_alternative<double>(leaves[i]))
      Put(&number, std::get<double>(leaves[i]));
    if (t.kind == ir::Type::kSymBool && std::holds_alternative<bool>(leaves[i]))
      Put(&number, std::get<bool>(leaves[i]));
    const bool fits =
        tensor && t.is_tensor() && tensor->dtype == t.dtype && static_cast<int>(tensor->sizes.size()) == t.rank();
    if (!fits && number.empty())
      return absl::InvalidArgumentError(
          text::StrCat("one is not of the type of %", users[i]->name(), ", ", t.ToString()));
    if (fits)
      out.push_back(*tensor);
    else
      out.push_back(ir::OwnedTensor(NumberType(t), {}, std::move(number)));
  }
  return out;
}

struct InputGenerator::Impl {
  // A condition of symbols; holds where it cannot be told.
  struct Condition {
    ir::Sym expr;  // bool-valued, or an integer within [least, most]
    std::optional<int64_t> least, most;
    std::vector<std::string> symbols;
  };
  struct Symbol {
    std::string name;
    int64_t least, most;  // that are tried
    std::optional<int64_t> hint;
  };

  std::unique_ptr<ir::Program> p;
  Options options;
  std::vector<const ir::Value*> inputs;
  std::vector<Symbol> symbols;  // of the inputs
  std::vector<Condition> conditions;
  bool impossible = false;                     // a condition that never holds
  std::vector<std::optional<ir::Sym>> bounds;  // of integer inputs

  Impl(const ir::Program& program, const Options& o) : p(ir::Clone(program)), options(o), inputs(TakenInputs(*p)) {
    FindSymbols();
    FindConditions();
    const IndexBounds index(*p->graph);
    for (const ir::Value* v : inputs)
      bounds.push_back(v->type().is_tensor() && ir::IsIntegral(v->dtype()) ? index.Of(v) : std::nullopt);
  }

  void FindSymbols() {
    absl::flat_hash_map<std::string, std::optional<int64_t>> hints;
    for (const ir::SymbolInfo& s : p->syms->symbols()) hints[s.name] = s.hint;
    absl::flat_hash_set<std::string> seen;
    const auto add = [&](ir::Sym expr) {
      for (ir::Sym s : expr.Symbols()) {
        const std::string name(s.name());
        if (!seen.insert(name).second) continue;
        const ir::SymRange range = p->syms->range(name);
        const std::optional<int64_t> hint = hints[name];
        // Of a range without an end, or with one that is out of reach, some sizes.
        constexpr int64_t kMost = 4096;
        const int64_t least = range.min < -kMost ? -2 : range.min;
        int64_t most = range.max;
        if (most > kMost) most = std::max<int64_t>({least + 13, hint ? *hint + 13 : 0, 17});
        symbols.push_back({name, least, std::max(least, std::min(most, range.max)), hint});
      }
    };
    for (const ir::Value* v : inputs) {
      for (ir::Sym s : v->sizes()) add(s);
      if (v->type().is_sym()) add(v->type().expr);
    }
  }

  void AddCondition(ir::Sym expr, std::optional<int64_t> least = {}, std::optional<int64_t> most = {}) {
    Condition c{expr, least, most, {}};
    for (ir::Sym s : expr.Symbols()) c.symbols.emplace_back(s.name());
    if (!c.symbols.empty())
      conditions.push_back(std::move(c));
    else if (!Holds(c, {}))
      impossible = true;
  }

  void FindConditions() {
    for (const ir::Value* v : inputs)
      for (ir::Sym s : v->sizes()) AddCondition(s, 0);
    for (const ir::ShapeConstraint& c : ir::ConstraintsOf(*p)) AddCondition(c.condition);
    for (const auto& [text, range] : p->range_constraints)
      if (auto expr = p->syms->ParseExpr(text); expr.ok() && expr->is_integer_valued())
        AddCondition(*expr, range.min, range.max);
    for (const ir::Guard& guard : ir::GuardsOf(*p))
      if (guard.condition) AddCondition(*guard.condition);
  }

  static std::function<std::optional<int64_t>(std::string_view)> In(const Assignment& sizes) {
    return [&sizes](std::string_view name) -> std::optional<int64_t> {
      const auto it = sizes.find(name);
      return it == sizes.end() ? std::nullopt : std::optional<int64_t>(it->second);
    };
  }

  bool Holds(const Condition& c, const Assignment& sizes) const {
    if (!c.expr.is_integer_valued()) return ir::EvaluateBool(c.expr, In(sizes)).value_or(true);
    const auto v = ir::Evaluate(c.expr, In(sizes));
    return !v || (*v >= c.least.value_or(*v) && *v <= c.most.value_or(*v));
  }

  std::vector<const Condition*> Violated(const Assignment& sizes) const {
    std::vector<const Condition*> out;
    for (const Condition& c : conditions)
      if (!Holds(c, sizes)) out.push_back(&c);
    return out;
  }

  int64_t Elements(const Assignment& sizes) const {
    int64_t sum = 0;
    for (const ir::Value* v : inputs) {
      int64_t n = 1;
      for (ir::Sym s : v->sizes())
        if (__builtin_mul_overflow(n, ir::Evaluate(s, In(sizes)).value_or(1), &n))
          return std::numeric_limits<int64_t>::max();
      if (__builtin_add_overflow(sum, n, &sum)) return std::numeric_limits<int64_t>::max();
    }
    return sum;
  }

  Assignment Least() const {
    Assignment sizes;
    for (const Symbol& s : symbols) sizes[s.name] = s.least;
    return sizes;
  }

  Assignment Start(int index, bool sweep, Bits& bits) const {
    Assignment sizes;
    for (const Symbol& s : symbols) {
      const auto any = [&] { return bits.Between(s.least, s.most); };
      if (sweep)
        sizes[s.name] = index == 0 ? s.least : index == 1 ? s.most : any();
      else if (index == 0)
        sizes[s.name] = std::clamp(s.hint.value_or(3), s.least, s.most);
      else
        sizes[s.name] = std::min(any(), std::max(s.least, int64_t{32}));
    }
    return sizes;
  }

  // From `sizes` on to some that fit.
  bool Repair(Assignment& sizes, Bits& bits) const {
    std::vector<const Condition*> violated = Violated(sizes);
    // As often as is quick, whatever the number of conditions.
    const size_t most = std::min<size_t>(4000, 400'000 / (conditions.size() + 1));
    for (size_t step = 0; step < most && !violated.empty(); ++step) {
      const Condition& c = *violated[bits.Next() % violated.size()];
      const std::string& name = c.symbols[bits.Next() % c.symbols.size()];
      const auto s = std::find_if(symbols.begin(), symbols.end(), [&](const Symbol& s) { return s.name == name; });
      if (s == symbols.end()) continue;
      const int64_t before = sizes[name];
      // Often what a relation asks for is near, or another symbol's size.
      const uint64_t how = bits.Next() % 4;
      int64_t now = how == 0 ? before + 1 : how == 1 ? before - 1 : bits.Between(s->least, s->most);
      if (how == 2) now = sizes[symbols[bits.Next() % symbols.size()].name];
      sizes[name] = std::clamp(now, s->least, s->most);
      auto then = Violated(sizes);
      if (then.size() > violated.size())
        sizes[name] = before;
      else
        violated = std::move(then);
    }
    return violated.empty();
  }

  absl::StatusOr<ir::TensorRef> Value(size_t i, const Assignment& sizes, Bits& bits, int64_t most_integer) const {
    const ir::Type& t = inputs[i]->type();
    std::string bytes;
    if (t.is_sym()) {
      if (t.kind == ir::Type::kSymInt) {
        const auto v = ir::Evaluate(t.expr, In(sizes));
        Put(&bytes, v.value_or(1));
      } else if (t.kind == ir::Type::kSymFloat) {
        Put(&bytes, ir::EvaluateFloat(t.expr, In(sizes)).value_or(0.5 + bits.Unit()));
      } else {
        Put(&bytes, ir::EvaluateBool(t.expr, In(sizes)).value_or(bits.Next() % 2 == 0));
      }
      return ir::OwnedTensor(NumberType(t), {}, std::move(bytes));
    }
    std::vector<int64_t> shape;
    int64_t n = 1;
    for (ir::Sym s : t.sizes) {
      const auto size = ir::Evaluate(s, In(sizes));
      if (!size || *size < 0)
        return absl::UnimplementedError(text::StrCat("making %", inputs[i]->name(), ", which is ", t.ToString()));
      shape.push_back(*size);
      n *= *size;
    }
    if (ir::ByteSize(t.dtype) == 0)
      return absl::UnimplementedError(text::StrCat("making elements of ", ir::Name(t.dtype)));
    // Of an index, what it may be.
    std::optional<int64_t> below = bounds[i] ? ir::Evaluate(*bounds[i], In(sizes)) : std::nullopt;
    const int64_t most =
        std::min(MostOf(t.dtype), std::min(most_integer, below ? std::max<int64_t>(*below - 1, 0) : kMostInteger));
    for (int64_t k = 0; k < n; ++k) {
      const bool edge = options.adversarial && bits.Next() % 5 == 0;
      if (ir::IsBool(t.dtype)) {
        Put(&bytes, static_cast<uint8_t>(bits.Next() % 2));
      } else if (ir::IsIntegral(t.dtype)) {
        const int64_t least = edge && !below ? LeastOf(t.dtype) : 0, largest = edge && !below ? MostOf(t.dtype) : most;
        PutInteger(t.dtype, edge ? (bits.Next() % 2 ? least : largest) : bits.Between(0, most), &bytes);
      } else if (ir::ByteSize(t.dtype) == 1) {
        Put(&bytes, static_cast<uint8_t>(bits.Next() & 0xbb));  // a float8 that is neither infinite nor NaN
      } else if (ir::IsComplex(t.dtype)) {
        for (int part = 0; part < 2; ++part)
          PutFloat(ir::ToReal(t.dtype), edge ? EdgeFloat(ir::ToReal(t.dtype), bits) : bits.Normal(), &bytes);
      } else {
        PutFloat(t.dtype, edge ? EdgeFloat(t.dtype, bits) : bits.Normal(), &bytes);
      }
    }
    return ir::OwnedTensor(t.dtype, std::move(shape), std::move(bytes));
  }
};

InputGenerator::InputGenerator(const ir::Program& p, const Options& options)
    : impl_(std::make_unique<Impl>(p, options)) {}
InputGenerator::~InputGenerator() = default;

absl::StatusOr<text::Map<int64_t>> InputGenerator::Sizes(int index, bool sweep) {
  Bits bits(impl_->options.seed * 1000003 + static_cast<uint64_t>(index));
  const int64_t most_elements = impl_->options.most_elements;
  for (int attempt = 0; attempt < 20 && !impl_->impossible; ++attempt) {
    Assignment sizes = impl_->Start(attempt < 3 ? index : index + 2, sweep, bits);
    // Where the largest sizes together are too many elements, each is halved in turn.
    for (size_t k = 0;
         !impl_->symbols.empty() && k < 16 * impl_->symbols.size() && impl_->Elements(sizes) > most_elements; ++k) {
      const Impl::Symbol& s = impl_->symbols[k % impl_->symbols.size()];
      sizes[s.name] = std::max(s.least, sizes[s.name] / 2);
    }
    if (impl_->Repair(sizes, bits) && impl_->Elements(sizes) <= impl_->options.most_elements) return sizes;
  }
  if (impl_->Elements(impl_->Least()) > impl_->options.most_elements)
    return absl::ResourceExhaustedError(
        text::StrCat("inputs of more than ", impl_->options.most_elements, " elements"));
  return absl::InvalidArgumentError("no sizes were found that fit all ranges and relations of the inputs");
}

absl::StatusOr<Tensors> InputGenerator::Values(const text::Map<int64_t>& sizes, int index, int64_t most_integer) {
  Bits bits(impl_->options.seed * 7919 + static_cast<uint64_t>(index) * 104729 + 1);
  Tensors out;
  for (size_t i = 0; i < impl_->inputs.size(); ++i) {
    ASSIGN_OR_RETURN(out.emplace_back(), impl_->Value(i, sizes, bits, most_integer));
  }
  return out;
}

}  // namespace slipway::driver
