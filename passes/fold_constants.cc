// Constant folding: what depends on constants only is computed now. Which results are worth it is a question of the
// file's size: a node that fills or expands is smaller than the numbers it makes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "base/floats.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/clone.h"
#include "ir/ops/op_table.h"
#include "ir/ops/op_traits.h"
#include "passes/alias.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Value;

std::optional<uint64_t> StaticBytes(const ir::Type& t) {
  if (!t.is_tensor() || ir::ByteSize(t.dtype) == 0) return std::nullopt;
  uint64_t bytes = static_cast<uint64_t>(ir::ByteSize(t.dtype));
  for (const ir::Sym& s : t.sizes) {
    auto size = s.constant();
    if (!size || *size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(*size), &bytes)) return std::nullopt;
  }
  return bytes;
}

double Elements(const Value* v) {
  const auto bytes = StaticBytes(v->type());
  return bytes ? static_cast<double>(*bytes) / ir::ByteSize(v->dtype()) : 0;
}

// Of a contiguous tensor that was computed.
std::string_view DenseBytes(const ir::TensorRef& t) {
  const absl::Span<const uint8_t> bytes =
      ir::MappedBytes(*t.storage).subspan(static_cast<size_t>(t.offset), static_cast<size_t>(t.nbytes()));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ConstantFolder {
 public:
  ConstantFolder(ir::Program& p, ir::Evaluator& evaluator, const FoldLimits& limits)
      : p_(p), g_(*p.graph), evaluator_(evaluator), limits_(limits) {}

  absl::Status Run() {
    FindLeaves();
    FindConstants();
    FindRoots();
    if (roots_.empty()) return absl::OkStatus();
    ComputeAll();
    ChooseRoots();
    for (Root& r : roots_) {
      if (!r.taken) continue;
      if (absl::Status s = Replace(r); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  // A constant result that something else uses.
  struct Root {
    Value* value;
    std::optional<ir::TensorRef> tensor;  // as computed, contiguous; none: it cannot be
    bool uniform = false;                 // all elements are the same bits
    bool taken = true;
    uint64_t cost() const { return uniform ? 0 : static_cast<uint64_t>(tensor->nbytes()); }
  };

  ir::Program& p_;
  ir::Graph& g_;
  ir::Evaluator& evaluator_;
  const FoldLimits& limits_;
  absl::flat_hash_map<const Value*, const std::string*> leaves_;  // inputs that are constants, with their names
  // by constant value: bytes of the largest leaf beneath it
  absl::flat_hash_map<const Value*, uint64_t> largest_;
  absl::flat_hash_set<const Value*> parameters_;  // parameters among them, and views of nothing else
  absl::flat_hash_set<const ir::Node*> constant_;
  std::vector<Root> roots_;
  uint64_t weight_bytes_ = 0;                                                             // of the program
  std::map<std::tuple<ir::DType, std::vector<int64_t>, std::string_view>, Value*> made_;  // by the bytes of roots

  // Weights that no output updates.
  void FindLeaves() {
    const text::Set updated = ir::UpdatedWeights(p_);
    for (size_t i = 0; i < p_.input_specs.size(); ++i) {
      const ir::InputSpec& s = p_.input_specs[i];
      if (!s.is_weight() || updated.contains(s.target)) continue;
      const Value* v = g_.inputs()[i];
      auto it = p_.weights.find(s.target);
      auto bytes = StaticBytes(v->type());
      weight_bytes_ += bytes.value_or(0);
      if (it == p_.weights.end() || !bytes || *bytes > limits_.leaf_bytes) continue;
      // Complex weights may be read as the reals they are stored as.
      if (it->second.dtype != v->dtype() || it->second.sizes != *v->type().StaticSizes()) continue;
      leaves_[v] = &it->first;
      largest_[v] = *bytes;
      if (s.kind == ir::InputSpec::kParameter) parameters_.insert(v);
    }
  }

  // A product of matrices or a convolution, which takes more than its operands' and result's elements.
  static bool IsProduct(const ir::Node& n) { return n.op().traits.autocast == ir::AutocastClass::kLower; }
  static double Multiplications(const ir::Node& n) {
    double elements = 1;
    const auto count = [&](const Value* v) {
      if (v->type().sizes.size() > 1) elements *= std::max(1.0, Elements(v));
    };
    for (const ir::NamedArg& a : n.args()) a.arg.ForEachValue(count);
    for (const Value* v : n.outputs())
      if (v != nullptr) count(v);
    return std::sqrt(elements);  // m k · k n · m n = (m k n)^2
  }
  bool IsQuick(const ir::Node& n) const { return !IsProduct(n) || Multiplications(n) <= limits_.product_operations; }
  bool IsConstant(const Value* v) const {
    return v->producer() ? constant_.contains(v->producer()) : leaves_.contains(v);
  }
  void FindConstants() {
    for (const ir::Node* n : g_) {
      bool fits = true;
      uint64_t largest = 0;
      for (const ir::NamedArg& a : n->args())
        a.arg.ForEachValue([&](Value* v) {
          fits = fits && IsConstant(v);
          if (auto it = largest_.find(v); it != largest_.end()) largest = std::max(largest, it->second);
        });
      for (const Value* v : n->outputs()) {
        auto bytes = v ? StaticBytes(v->type()) : std::nullopt;
        fits = fits && bytes && *bytes <= std::max(limits_.work_bytes, 2 * largest);
      }
      // Quantized weights stay what they are: only ATen's own operators are computed.
      if (!fits || n->op().ns != "aten" || !ir::IsPure(*n) || !IsQuick(*n) || !evaluator_.Supports(*n)) continue;
      constant_.insert(n);
      for (const Value* v : n->outputs()) largest_[v] = largest;
      for (size_t i = 0; i < n->outputs().size(); ++i) {
        const View view = ViewOf(*n, static_cast<int>(i));
        if (view.sharing != Sharing::kNone && parameters_.contains(view.parent)) parameters_.insert(n->output(i));
      }
    }
  }

  void FindRoots() {
    absl::flat_hash_set<const Value*> outputs;
    for (const ir::Arg& a : g_.outputs) a.ForEachValue([&](Value* v) { outputs.insert(v); });
    for (const ir::Node* n : g_) {
      if (!constant_.contains(n)) continue;
      for (Value* v : n->outputs()) {
        bool used = outputs.contains(v);
        for (const ir::Node* user : v->users()) used |= !constant_.contains(user);
        // A parameter seen otherwise stays a parameter, with its name and torch's layout.
        if (used && !parameters_.contains(v) && (!IsLarge(v) || CanReplace(v) || TakesLong(v))) roots_.push_back({v});
      }
    }
  }
  bool IsLarge(const Value* v) const { return std::max(largest_.at(v), *StaticBytes(v->type())) > limits_.small_bytes; }
  // Whether weights that nothing else reads are no smaller than what is made of them.
  bool CanReplace(Value* v) {
    uint64_t replaced = limits_.growth_bytes;
    absl::flat_hash_set<const Value*> seen;
    for (const ir::Node* n : ir::NodesThatCompute({&v, 1}))
      for (const ir::NamedArg& a : n->args())
        a.arg.ForEachValue([&](Value* leaf) {
          if (!leaves_.contains(leaf) || !seen.insert(leaf).second) return;
          const auto& users = leaf->users();
          if (std::all_of(users.begin(), users.end(), [&](const ir::Node* user) { return constant_.contains(user); }))
            replaced += *StaticBytes(leaf->type());
        });
    return *StaticBytes(v->type()) <= replaced;
  }
  // Whether it takes longer to compute than to read. A pass over elements is one operation for each: elementwise
  // operators, which run together, take part of one, others read and write, and vectors do several multiplications in
  // the time of one.
  bool TakesLong(Value* v) {
    constexpr double kElementwise = 0.5, kOther = 2, kMultiplications = 16;
    double work = 0;
    for (const ir::Node* n : ir::NodesThatCompute({&v, 1})) {
      if (IsProduct(*n)) {
        work += Multiplications(*n) / kMultiplications;
        continue;
      }
      for (size_t i = 0; i < n->outputs().size(); ++i)
        if (n->output(i) != nullptr && ViewOf(*n, static_cast<int>(i)).sharing == Sharing::kNone)
          work += Elements(n->output(i)) * (n->op().traits.elementwise ? kElementwise : kOther);
    }
    return work >= limits_.least_work * Elements(v);
  }

  // Small results together, large ones each for itself, as long as there is room for them.
  void ComputeAll() {
    std::stable_partition(roots_.begin(), roots_.end(), [&](const Root& r) { return !IsLarge(r.value); });
    const auto large = std::find_if(roots_.begin(), roots_.end(), [&](const Root& r) { return IsLarge(r.value); });
    if (large != roots_.begin()) Compute(absl::MakeSpan(roots_).first(static_cast<size_t>(large - roots_.begin())));
    uint64_t held = 0;
    for (auto it = large; it != roots_.end(); ++it) {
      held += *StaticBytes(it->value->type());
      if (held <= limits_.held_bytes) Compute({&*it, 1});
    }
  }

  // Computes the roots together; where that fails, by halves, so that one bad node spoils only what depends on it.
  // Results that cannot be computed, for whatever reason, stay nodes.
  void Compute(absl::Span<Root> roots) {
    ir::Values values;
    for (const Root& r : roots) values.push_back(r.value);
    auto tensors = evaluator_.Evaluate(ir::Extract(p_, ir::RegionThatComputes(g_, values), values), {});
    if (!tensors.ok() || tensors->size() != roots.size()) {
      if (roots.size() == 1) return;
      Compute(roots.subspan(0, roots.size() / 2));
      return Compute(roots.subspan(roots.size() / 2));
    }
    for (size_t i = 0; i < roots.size(); ++i) {
      ir::TensorRef& t = (*tensors)[i];
      if (!t.is_contiguous() || !std::holds_alternative<io::Bytes>(t.storage->bytes)) {
        auto bytes = ir::ReadDense(t, limits_.held_bytes);
        if (!bytes.ok()) continue;
        t = ir::OwnedTensor(t.dtype, t.sizes, *std::move(bytes));
      }
      roots[i].tensor = std::move(t);
      const std::string_view bytes = DenseBytes(*roots[i].tensor);
      const size_t size = static_cast<size_t>(ir::ByteSize(roots[i].value->dtype()));
      roots[i].uniform = !bytes.empty() && std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
    }
  }

  // Takes the roots that do not make the file grow by more than the limit each. Weights that are needed no longer pay
  // for results, each once; a root that is left needs what leads to it, so the choice is repeated until it stands.
  void ChooseRoots() {
    for (Root& r : roots_) {
      // A literal already: numbers alone make it.
      bool literal = r.uniform;
      for (const ir::NamedArg& a : r.value->producer()->args()) a.arg.ForEachValue([&](Value*) { literal = false; });
      r.taken = r.tensor.has_value() && !literal;
    }
    for (bool changed = true; changed;) {
      changed = false;
      absl::flat_hash_set<const Value*> taken;
      for (const Root& r : roots_)
        if (r.taken) taken.insert(r.value);
      // What stays: constant nodes with users that stay.
      absl::flat_hash_set<const ir::Node*> stays;
      std::vector<const ir::Node*> nodes;
      for (const ir::Node* n : g_) nodes.push_back(n);
      for (const ir::Node* n : nodes) {
        if (!constant_.contains(n)) stays.insert(n);
      }
      for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
        if (stays.contains(*it)) continue;
        for (const Value* v : (*it)->outputs()) {
          bool needed = g_.IsOutput(v);
          for (const ir::Node* user : v->users()) needed |= stays.contains(user);
          if (needed && !taken.contains(v)) stays.insert(*it);
        }
      }
      absl::flat_hash_map<const Value*, uint64_t> credit;
      for (const auto& [v, name] : leaves_) {
        bool freed = !g_.IsOutput(v);
        for (const ir::Node* user : v->users()) freed = freed && !stays.contains(user);
        if (freed) credit[v] = *StaticBytes(v->type());
      }
      uint64_t growth = weight_bytes_ / limits_.growth_part;
      for (Root& r : roots_) {
        if (!r.taken || r.cost() <= limits_.growth_bytes) continue;
        uint64_t open = r.cost() - limits_.growth_bytes;
        for (const ir::Node* n : ir::NodesThatCompute({&r.value, 1})) {
          for (const ir::NamedArg& a : n->args()) {
            a.arg.ForEachValue([&](Value* v) {
              auto it = credit.find(v);
              if (it == credit.end()) return;
              const uint64_t paid = std::min(open, it->second);
              open -= paid;
              it->second -= paid;
            });
          }
        }
        if (open > 0 && open <= growth && r.cost() <= limits_.work_bytes) {
          growth -= open;
        } else if (open > 0) {
          r.taken = false;
          changed = true;
          break;  // what this one keeps is no credit for the others
        }
      }
    }
  }

  // The number that fills a tensor.
  static ir::Arg Element(ir::DType dtype, std::string_view bytes) {
    auto as = [&]<typename T>() {
      T x;
      std::memcpy(&x, bytes.data(), sizeof x);
      return x;
    };
    switch (dtype) {
      case ir::DType::kBool: return ir::Arg(as.template operator()<uint8_t>() != 0);
      case ir::DType::kUInt8: return ir::Arg(static_cast<int64_t>(as.template operator()<uint8_t>()));
      case ir::DType::kInt8: return ir::Arg(static_cast<int64_t>(as.template operator()<int8_t>()));
      case ir::DType::kInt16: return ir::Arg(static_cast<int64_t>(as.template operator()<int16_t>()));
      case ir::DType::kInt32: return ir::Arg(static_cast<int64_t>(as.template operator()<int32_t>()));
      case ir::DType::kInt64: return ir::Arg(as.template operator()<int64_t>());
      case ir::DType::kFloat32: return ir::Arg(static_cast<double>(as.template operator()<float>()));
      case ir::DType::kFloat64: return ir::Arg(as.template operator()<double>());
      case ir::DType::kFloat16: return ir::Arg(static_cast<double>(as.template operator()<F16>()));
      case ir::DType::kBFloat16: return ir::Arg(static_cast<double>(as.template operator()<BF16>()));
      default: return ir::Arg();
    }
  }

  absl::Status Replace(const Root& r) {
    const std::string_view bytes = DenseBytes(*r.tensor);
    const ir::DType dtype = r.value->dtype();
    Value* now = nullptr;
    ir::Arg element = r.uniform ? Element(dtype, bytes) : ir::Arg();
    if (!element.is_none()) {
      ir::Node* before = r.value->producer();
      ir::Builder b(g_, before, before->source());
      now = b.Full(ir::SymInts(r.tensor->sizes.begin(), r.tensor->sizes.end()), std::move(element), dtype);
      if (!b.ok()) return b.status();
      g_.TakeName(now, r.value);
    } else {
      auto [it, fresh] = made_.try_emplace({dtype, r.tensor->sizes, bytes});
      if (fresh) {
        const std::string name = text::StrCat("folded_", r.value->name());
        it->second = ir::AddWeight(p_, ir::InputSpec::kTensorConstant, name, *r.tensor, text::StrCat("c_", name));
      }
      now = it->second;
    }
    g_.ReplaceAllUses(r.value, now);
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status FoldConstants(ir::Program& p, ir::Evaluator& evaluator, const FoldLimits& limits) {
  if (absl::Status s = ConstantFolder(p, evaluator, limits).Run(); !s.ok()) return s;
  return EliminateDeadCode(p);
}

}  // namespace slipway::passes
