// A decoder's cache of keys and values is read as a whole for each token: in 8 bits it takes a quarter of the memory
// and of the reading that f32 takes. Each state that attention reads as keys or values becomes two, codes and scales:
//
//   %new = index_copy(%cache, 2, %at, %k)        %codes, %scale = quantize_rows(%k)
//   scaled_dot_product_attention(%q, %new, …)    %new       = index_copy(%cache, 2, %at, %codes)
//                                                %new_scale = index_copy(%cache_scale, 2, %at, %scale)
//                                                quantized_attention(%q, %new, %new_scale, …)
//
// A row, the last dim, has one scale: its greatest magnitude over 127 (int8), over 448 (float8_e4m3fn). What moves rows
// moves codes and scales alike: operators that write some rows of a state, and views that leave rows whole. A product
// that reads them, attention that is written out, reads them dequantized.
//
// A state stays as it is where anything else reads or returns it, or where it begins with other numbers than zeros.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/args.h"
#include "ir/ops/op_table.h"
#include "ir/zeros.h"
#include "passes/decompose.h"
#include "passes/keep_state.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::DType;
using ir::Node;
using ir::Value;
using ir::Values;

constexpr double kLeastCacheScale = 0x1p-126;  // of rows of zeros
constexpr double kGreatestE4M3 = 448;

// How rows of a cache are written, or joined behind it.
const StateUpdate* FindUpdate(const Node& n) {
  static constexpr StateUpdate kJoin = {"", "tensors", "tensors"};
  return IsCat(n) ? &kJoin : FindStateUpdate(n);
}

bool HasSameRows(const Value* a, const Value* b) {
  return a->rank() > 0 && b->rank() > 0 && ir::ProvablyEqual(a->sizes().back(), b->sizes().back());
}

// Whether the update writes whole rows of v's length.
bool WritesRows(const Node& n, const StateUpdate& u, const Value* v) {
  bool whole = true;
  for (const std::string_view name : {u.self, u.written})
    n.Get(name).ForEachValue([&](const Value* t) { whole = whole && t->dtype() == v->dtype() && HasSameRows(t, v); });
  ir::ArgReader a(n);
  if (n.op().ArgIndex("dim") >= 0) return whole && a.dim("dim", n.output()->rank()) + 1 < n.output()->rank() && a.ok();
  const auto* indices = n.Get("indices").get<Values>();
  return whole && indices && !a.b("accumulate") && a.ok() &&
         (indices->size() < static_cast<size_t>(v->rank()) || indices->back() == nullptr);
}

// Whether n is a view of v whose rows are v's, and which argument states its sizes, if one does.
bool IsViewOfRows(const Node& n, const Value* v, std::string_view* sizes) {
  *sizes = "";
  if (n.outputs().size() != 1 || n.op().args.empty() || FirstArgument(n) != v || v->rank() < 2) return false;
  const std::string_view op = n.op_name();
  const Value* out = n.output();
  const int last = v->rank() - 1;
  ir::ArgReader a(n);
  if (op == "aten.unsqueeze.default") return a.dim("dim", out->rank()) != last + 1 && a.ok();
  if (op == "aten.squeeze.dim" || op == "aten.select.int" || op == "aten.slice.Tensor")
    return a.dim("dim", v->rank()) != last && a.ok();
  if (const Permuted turned = ReadPermutation(out); turned.source) return turned.order.back() == last;
  if (op == "aten.expand.default" || op == "aten.view.default" || op == "aten._unsafe_view.default") *sizes = "size";
  if (op == "aten.reshape.default") *sizes = "shape";
  return !sizes->empty() && HasSameRows(out, v);
}

bool IsAttention(const Node& n) { return n.op_name() == "aten.scaled_dot_product_attention.default"; }
bool IsProductOutsideAttention(const Node& n) {
  const ir::OpTraits& traits = n.op().traits;
  return !IsAttention(n) && (traits.product || traits.autocast == ir::AutocastClass::kLower);
}
// Whether n is a product of v, or of v transposed, and of what is no weight.
bool IsProductOfActivations(const Node& n, const Value* v) {
  if (IsProductOutsideAttention(n)) {
    bool stored = false;
    for (const ir::NamedArg& a : n.args())
      a.arg.ForEachValue([&](const Value* other) { stored = stored || (other != v && IsStored(other)); });
    return !stored;
  }
  const Value* turned = n.output();
  if (!turned || ReadPermutation(turned).source != v || turned->graph()->IsOutput(turned)) return false;
  const auto users = turned->users();
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](const Node* user) {
    return IsProductOutsideAttention(*user) && IsProductOfActivations(*user, turned);
  });
}

// Whether attention reads v, as nothing but keys and values.
bool IsKeyOrValue(const Node& n, const Value* v) {
  if (!IsAttention(n) || n.Get("query").value() == v || n.Get("attn_mask").value() == v) return false;
  ir::ArgReader a(n);
  return a.f("dropout_p") == 0 && a.ok();
}

// A state: an input, and the outputs that are its new content.
struct State {
  Value* input;
  size_t at;  // of the input among all
  std::string name;
};

// Finds out whether all that comes of a state is what codes and scales can come of.
class Search {
 public:
  Search(const ir::Program& p, const State& state) : p_(p), state_(state) {}

  // "" or why not.
  std::string Run() {
    if (const ir::InputSpec& spec = p_.input_specs[state_.at]; spec.is_weight()) {
      const auto weight = p_.weights.find(spec.target);
      if (weight == p_.weights.end() || !state_.input->type().StaticSizes()) return "it has no values";
      if (!ir::IsZeros(weight->second)) return "it begins with other numbers than zeros";
    }
    if (std::string why = Follow(state_.input); !why.empty()) return why;
    return !updated_ ? "nothing is written to it" : !read_ ? "no attention reads it" : "";
  }

 private:
  std::string Follow(const Value* v) {
    if (!seen_.insert(v).second) return "";
    for (size_t i = 0; i < p_.graph->outputs.size() && i < p_.output_specs.size(); ++i) {
      const ir::OutputSpec& spec = p_.output_specs[i];
      if (p_.graph->outputs[i].value() == v && (!spec.updates_state() || spec.target != state_.name))
        return text::StrCat("%", v->name(), " is an output");
    }
    for (const Node* n : v->users()) {
      std::string_view sizes;
      if (n->op_name() == "aten.sym_size.int") continue;
      if (IsKeyOrValue(*n, v) || IsProductOfActivations(*n, v)) {
        read_ = true;
        continue;
      }
      const StateUpdate* update = FindUpdate(*n);
      if (update && WritesRows(*n, *update, v))
        updated_ = true;
      else if (!IsViewOfRows(*n, v, &sizes))
        return text::StrCat(n->op_name(), " reads %", v->name());
      if (std::string why = Follow(n->output()); !why.empty()) return why;
    }
    return "";
  }

  const ir::Program& p_;
  const State& state_;
  absl::flat_hash_set<const Value*> seen_;
  bool updated_ = false, read_ = false;
};

// Codes, and a scale for each row of them.
struct CacheRows {
  Value *codes = nullptr, *scales = nullptr;
};

class CacheRewriter {
 public:
  CacheRewriter(ir::Program& p, DType codes) : p_(p), codes_(codes) {}

  // The input becomes one of codes, and there is one more, of scales; gives its name.
  std::string Split(const State& state) {
    ir::Type& type = state.input->mutable_type();
    dtypes_[state.input] = type.dtype;
    ir::Type scales = ir::Type::Tensor(DType::kFloat32, type.sizes);
    type.dtype = codes_;
    scales.sizes.back() = 1;
    const std::string suffix = "_scale";
    ir::InputSpec spec = p_.input_specs[state.at];
    Value* added = p_.graph->AddInput(p_.graph->UniqueName(state.input->name() + suffix), std::move(scales));
    std::string name = added->name();
    if (spec.is_weight()) {
      name = state.name + suffix;
      while (p_.weights.contains(name)) name += "_";
      spec.target = name;
      p_.weights[state.name] = ir::ZeroTensor(codes_, *type.StaticSizes());
      p_.weights[name] = ir::ZeroTensor(DType::kFloat32, *added->type().StaticSizes());
    }
    p_.input_specs.push_back(std::move(spec));
    rows_[state.input] = {state.input, added};
    scales_[state.name] = name;
    return name;
  }

  absl::Status Run() {
    for (Node *n = p_.graph->first(), *next; n; n = next) {
      next = n->next();
      ir::Builder b(*p_.graph, n, n->source());
      Rewrite(n, b);
      RETURN_IF_ERROR(b.status());
    }
    const size_t count = p_.graph->outputs.size();
    for (size_t i = 0; i < count && i < p_.output_specs.size(); ++i) {
      const auto rows = rows_.find(p_.graph->outputs[i].value());
      if (rows == rows_.end()) continue;
      ir::OutputSpec spec = p_.output_specs[i];
      spec.target = scales_.at(spec.target);
      p_.graph->outputs[i] = rows->second.codes;
      p_.graph->outputs.emplace_back(rows->second.scales);
      p_.output_specs.push_back(std::move(spec));
    }
    return EliminateDeadCode(p_);
  }

 private:
  const CacheRows* RowsOf(const Value* v) const {
    const auto at = rows_.find(v);
    return at == rows_.end() ? nullptr : &at->second;
  }

  void Rewrite(Node* n, ir::Builder& b) {
    Value* v = nullptr;  // of a state
    for (const ir::NamedArg& a : n->args()) a.arg.ForEachValue([&](Value* x) { v = v ? v : RowsOf(x) ? x : nullptr; });
    if (!v) return;
    std::string_view sizes;
    if (n->op_name() == "aten.sym_size.int") {
      n->ReplaceUses(v, rows_.at(v).codes);
    } else if (IsAttention(*n)) {
      RewriteAttention(n, b);
    } else if (const StateUpdate* update = FindUpdate(*n)) {
      Add(n, With(*n, b, [&](const ir::NamedArg& a, bool scales) {
            Arg to = a.arg;
            if (a.name == update->self || a.name == update->written)
              to.ReplaceValues([&](Value* x) {
                const CacheRows rows = Written(x, b);
                return scales ? rows.scales : rows.codes;
              });
            return to;
          }));
    } else if (IsViewOfRows(*n, v, &sizes)) {
      const CacheRows rows = rows_.at(v);
      Add(n, With(*n, b, [&](const ir::NamedArg& a, bool scales) {
            Arg to = a.arg;
            if (a.name == sizes && scales) return WithOneColumn(a.arg);
            to.ReplaceValues([&](Value* x) { return x != v ? x : scales ? rows.scales : rows.codes; });
            return to;
          }));
    } else {
      n->ReplaceUses(v, Dequantize(v, b));
      Rewrite(n, b);  // another operand
    }
  }

  // The node twice, once for codes and once for scales.
  template <typename F>
  CacheRows With(const Node& n, ir::Builder& b, F argument) {
    CacheRows made;
    for (const bool scales : {false, true}) {
      std::vector<std::pair<std::string_view, Arg>> named;
      for (const ir::NamedArg& a : n.args()) named.emplace_back(a.name, argument(a, scales));
      (scales ? made.scales : made.codes) = b.Call(n.op_name(), {}, std::move(named));
    }
    return made;
  }
  void Add(const Node* n, const CacheRows& rows) {
    rows_[n->output()] = rows;
    dtypes_[n->output()] = n->output()->dtype();
  }
  static Arg WithOneColumn(const Arg& sizes) {
    ir::SymInts to;
    if (const auto* ints = sizes.get<ir::Ints>())
      to.assign(ints->begin(), ints->end());
    else if (const auto* symbolic = sizes.get<ir::SymInts>())
      to = *symbolic;
    if (!to.empty()) to.back() = 1;
    return to;
  }

  // What is written to a state, quantized once for all that write it.
  CacheRows Written(Value* x, ir::Builder& b) {
    if (const CacheRows* rows = RowsOf(x)) return *rows;
    CacheRows& rows = written_[x];
    if (rows.codes) return rows;
    Value* wide = b.Cast(x, DType::kFloat32);
    if (codes_ == DType::kInt8) {
      const Values made = b.CallMulti("slipway.quantize_rows.default", {wide, false, -127, 127, kLeastCacheScale});
      return rows = {made[0], made[1]};
    }
    const ir::Ints block = OneBlockARow(x);
    rows.scales = b.Call("torchao.choose_scale_float8.default",
                         {wide, block, codes_, DType::kFloat32, kLeastCacheScale * kGreatestE4M3});
    rows.codes = b.Call("torchao.quantize_affine_float8_non_decomposed.default", {wide, rows.scales, codes_});
    return rows;
  }
  static ir::Ints OneBlockARow(const Value* x) {
    ir::Ints block(static_cast<size_t>(x->rank()), 1);
    block.back() = -1;
    return block;
  }
  Value* Dequantize(Value* v, ir::Builder& b) {
    const CacheRows& rows = rows_.at(v);
    Dequantized q;
    q.input = rows.codes, q.scale = rows.scales, q.dtype = dtypes_.at(v);
    q.block_size = OneBlockARow(v);
    return Emit(b, q);
  }

  void RewriteAttention(Node* n, ir::Builder& b) {
    Value *key = n->Get("key").value(), *value = n->Get("value").value();
    const CacheRows *keys = RowsOf(key), *values = RowsOf(value);
    if (keys && values) {
      Value* y = b.Call("slipway.quantized_attention.default",
                        {n->Get("query"), keys->codes, keys->scales, values->codes, values->scales, n->Get("attn_mask"),
                         n->Get("is_causal")},
                        {{"scale", n->Get("scale")}, {"enable_gqa", n->Get("enable_gqa")}});
      if (b.ok()) ReplaceNode(n, {y});
      return;
    }
    for (Value* v : {key, value})
      if (RowsOf(v)) n->ReplaceUses(v, Dequantize(v, b));
  }

  ir::Program& p_;
  const DType codes_;
  absl::flat_hash_map<const Value*, CacheRows> rows_;  // of states and of what comes of them
  absl::flat_hash_map<const Value*, DType> dtypes_;    // that these had
  absl::flat_hash_map<const Value*, CacheRows> written_;
  text::Map<std::string> scales_;  // by the name of the state
};

std::vector<State> StatesOf(const ir::Program& p) {
  std::vector<State> out;
  for (size_t i = 0; i < p.graph->inputs().size(); ++i) {
    Value* v = p.graph->inputs()[i];
    const ir::InputSpec& spec = p.input_specs[i];
    const std::string name = spec.kind == ir::InputSpec::kUser ? v->name() : spec.target;
    const bool updated = std::any_of(p.output_specs.begin(), p.output_specs.end(), [&](const ir::OutputSpec& s) {
      return s.target == name &&
             (spec.kind == ir::InputSpec::kUser ? s.kind == ir::OutputSpec::kUserInputMutation : s.updates_weight());
    });
    if (updated && v->type().is_tensor() && v->rank() >= 2 &&
        (v->dtype() == DType::kFloat32 || v->dtype() == DType::kBFloat16 || v->dtype() == DType::kFloat16))
      out.push_back({v, i, name});
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<CacheOutcome>> QuantizeCaches(ir::Program& p, DType codes) {
  if (codes != DType::kInt8 && codes != DType::kFloat8E4M3FN)
    return absl::InvalidArgumentError(text::StrCat("caches of ", ir::Name(codes)));
  const std::vector<State> states = StatesOf(p);
  std::vector<CacheOutcome> outcomes;
  for (const State& state : states) outcomes.push_back({state.name, "", Search(p, state).Run(), state.input->type()});
  CacheRewriter rewriter(p, codes);
  for (size_t i = 0; i < states.size(); ++i)
    if (outcomes[i].kept_because.empty()) outcomes[i].scales = rewriter.Split(states[i]);
  RETURN_IF_ERROR(rewriter.Run());
  return outcomes;
}

}  // namespace slipway::passes
