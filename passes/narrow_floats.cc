// Each f32 value is computed in one type and cast to the other where a reader wants that, at most once. Computed in f32
// are
//
//   sums        norms, softmax, reductions, losses, and exp, log, pow and the like. Their results go on in f32 through
//               elementwise
//               operators until they meet a half, so that `rsqrt(mean(x²) + 1e-6)` is not rounded in between; those of
//               norms and
//               softmax do not, since they are as large as what they are made of;
//   derived     what is made of no f32 (positions, masks of truth values, `arange`, casts of halves): f16 has no odd
//               number above 2048.
//               What may be large (integers, sums of them, but no cosine of them) meets halves in f32, too;
//   extremes    what is made with a finite number that the half type has not, as masks are that hold finfo.min, through
//               all but
//               products: the sum of scores and mask and its softmax are the f32 program's. As -inf a row that is all
//               masked
//               would be NaN, as finfo(f16).min a score below -16 makes it -inf. In front of a product they saturate;
//   states      what is made of state that the program computes with, through all but products: a counter or a running
//               mean in halves would stand still;
//   strangers   operators that are not torch's own, quantized weights and activations above all.
//
// Attention is written out first, which shows its softmax and mask to these rules; its scale goes to the query, since
// products of queries and keys overflow f16 before they are scaled. Weights that only f32 operators read (of norms)
// stay f32.
//
// A target that computes an operator in f32 of halves by itself, rounding once, needs no casts for it: attention stays
// whole (its mask may be f32), casts in front of and behind norms, softmax and sums are left out where nothing else
// reads what they give, and those in front of a sum whose result stays f32 become its argument `dtype`.
#include "passes/narrow_floats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/floats.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "ir/sharded.h"
#include "passes/decompose.h"
#include "passes/keep_state.h"

namespace slipway::passes {
namespace {

using ir::Graph;
using ir::InputSpec;
using ir::Node;
using ir::OutputSpec;

bool IsProduct(const ir::OpDef& op) { return op.traits.autocast == ir::AutocastClass::kLower || op.traits.product; }
bool IsSum(const ir::OpDef& op) { return op.traits.narrow == ir::NarrowClass::kSum; }
// grid_sampler is among autocast(float32): positions in an image, which halves cannot tell apart.
bool IsRounded(const ir::OpDef& op) {
  return !IsSum(op) &&
         (op.traits.autocast == ir::AutocastClass::kFloat32 || op.traits.narrow == ir::NarrowClass::kRounded);
}
bool IsView(const ir::OpDef& op) { return op.traits.inverse != ir::ViewInverse::kNone || op.is_view(); }
bool IsTorch(const ir::OpDef& op) { return op.known && (op.ns == "aten" || op.ns == "prims"); }

// Which rule computes a value, beside the type that it has.
enum class Place : uint8_t { kWeight, kHalf, kDerived, kInteger, kSum, kExtreme, kState };

struct Float {
  Place place = Place::kHalf;
  Value *half = nullptr, *wide = nullptr;  // the value itself is one of them
  bool parameter = false;
  const std::string* overflows = nullptr;  // of a weight: its name
};

class Narrowing {
 public:
  Narrowing(ir::Program& p, const NarrowOptions& o)
      : p_(p), o_(o), to_(o.to),
        most_(o.to == DType::kFloat16 ? 65504.0 : static_cast<double>(std::bit_cast<float>(0x7f7f0000u))) {}

  absl::StatusOr<NarrowReport> Run() {
    WriteOutAttention();
    RETURN_IF_ERROR(TakeInputs());
    RETURN_IF_ERROR(Nodes(*p_.graph));
    RETURN_IF_ERROR(GiveOutputs());
    RETURN_IF_ERROR(Overflows());
    DropCasts();
    RETURN_IF_ERROR(NarrowWeights());
    report_.changed = !floats_.empty();
    return report_;
  }

 private:
  bool IsTooLarge(double v) const { return std::isfinite(v) && std::isinf(Rounded(static_cast<float>(v))); }
  float Rounded(float v) const {
    return to_ == DType::kFloat16 ? static_cast<float>(F16(v)) : static_cast<float>(BF16(v));
  }
  static bool IsF32(const Value* v) { return v && v->type().is_tensor() && v->dtype() == DType::kFloat32; }

  // ---- Attention

  void WriteOutAttention() {
    for (const std::string_view wanted : {"_scaled_dot_product", "scaled_dot_product_attention"}) {
      std::vector<Node*> nodes;
      for (Node* n : *p_.graph)
        if (n->op().base.starts_with(wanted) && IsF32(n->output()) && !RoundsOnce(*n)) nodes.push_back(n);
      for (Node* n : nodes) WriteOut(n);
    }
  }

  // Those that no decomposition takes stay.
  void WriteOut(Node* n) {
    const DecomposeRow* row = FindDecomposition(n->op_name());
    if (!row) return;
    Node* before = n->prev();
    Value* query = n->Get("query").value();
    const double* given = n->Get("scale").get<double>();
    const auto width = query && query->rank() > 0 ? query->sizes()[query->rank() - 1].constant() : std::nullopt;
    const bool scaled = n->op().base == "scaled_dot_product_attention" && (given || (width && *width > 0));
    const Arg old = n->Get("scale");
    const bool masked = n->op().ArgIndex("attn_mask") < 0 || !n->Get("attn_mask").is_none();
    if (scaled) {
      const double scale = given ? *given : 1 / std::sqrt(static_cast<double>(*width));
      ir::Builder b(*n->graph(), n, n->source());
      Value* smaller = b.Call("aten.mul.Tensor", {query, scale});
      if (!b.ok()) return;
      n->SetArg("query", smaller);
      n->SetArg("scale", 1.0);
    }
    Node* after = n->next();
    if (!ApplyDecomposition(n, *row).ok()) {
      if (!scaled) return;
      Node* product = n->Get("query").value()->producer();
      n->SetArg("query", query);
      n->SetArg("scale", old);
      n->graph()->Erase(product);
      return;
    }
    // A scale of one, and care for rows that are all masked where none is: a causal row sees the first key.
    for (Node* m = before ? before->next() : p_.graph->first(); m && m != after;) {
      Node* next = m->next();
      const double* one = m->op_name() == "aten.mul.Tensor" || m->op_name() == "aten.mul.Scalar"
                              ? m->Get("other").get<double>()
                              : nullptr;
      if (scaled && one && *one == 1.0 && m->Get("self").value()) {
        ReplaceNode(m, {m->Get("self").value()});
      } else if (!masked && m->op_name() == "aten._safe_softmax.default") {
        ir::Builder b(*m->graph(), m, m->source());
        Value* plain = b.Call("aten.softmax.int", {m->Get("self"), m->Get("dim")});
        if (b.ok()) ReplaceNode(m, {plain});
      }
      m = next;
    }
  }

  // ---- Inputs and outputs

  absl::Status TakeInputs() {
    const text::Set updated = ir::UpdatedWeights(p_);
    for (size_t i = 0; i < p_.input_specs.size(); ++i) {
      Value* v = p_.graph->inputs()[i];
      const InputSpec& s = p_.input_specs[i];
      if (!IsF32(v)) continue;
      Float f;
      if (s.kind == InputSpec::kUser && (!o_.keep_io_types || o_.state_inputs.contains(std::string(v->name()))))
        v->mutable_type().dtype = to_;
      if (s.is_weight() && !updated.contains(s.target)) {
        f.place = Place::kWeight;
        f.parameter = s.kind == InputSpec::kParameter;
        weights_.emplace_back(v, s.target);
        ASSIGN_OR_RETURN(const double greatest, Greatest(s.target));
        if (IsTooLarge(greatest)) {
          f.overflows = &s.target;
          if (!f.parameter) f.place = Place::kExtreme;
        }
      } else if (s.is_weight()) {
        ASSIGN_OR_RETURN(const bool held, IsHeld(v, s.target));
        if (held) {
          held_.insert(s.target);
          v->mutable_type().dtype = to_;
        } else {
          f.place = Place::kState;
        }
      }
      Note(v, f);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> IsHeld(const Value* state, const std::string& name) {
    if (!o_.narrow_state || !HoldsElements(state, name)) return false;
    ASSIGN_OR_RETURN(const double greatest, Greatest(name));
    return !IsTooLarge(greatest);
  }
  // Whether the state's new value is the old one with some elements replaced, once or several times.
  bool HoldsElements(const Value* state, const std::string& name) const {
    for (size_t i = 0; i < p_.graph->outputs.size(); ++i) {
      if (!p_.output_specs[i].updates_weight() || p_.output_specs[i].target != name) continue;
      const Value* v = p_.graph->outputs[i].value();
      while (v && v != state) {
        const Node* n = v->producer();
        const StateUpdate* update = n ? FindStateUpdate(*n) : nullptr;
        const bool* adds = update ? n->Get("accumulate").get<bool>() : nullptr;
        if (!update || (adds && *adds)) return false;
        v = n->Get(update->self).value();
      }
      return v == state;
    }
    return false;
  }

  void Note(Value* v, Float f) {
    (v->dtype() == to_ ? f.half : f.wide) = v;
    floats_[v] = f;
  }

  // The greatest finite magnitude of a weight's values; 0 where it has none.
  absl::StatusOr<double> Greatest(const std::string& name) {
    if (const auto known = greatest_.find(name); known != greatest_.end()) return known->second;
    float most = 0;
    if (const auto w = p_.weights.find(name); w != p_.weights.end() && w->second.dtype == DType::kFloat32) {
      auto reader = ir::ElementReader::Open(ir::ShardedTensor(w->second));
      if (!reader.ok()) return reader.status();
      std::vector<float> block;
      while (reader->left() > 0) {
        const absl::Span<const uint8_t> bytes = reader->NextDense(std::min<int64_t>(reader->step(), int64_t{1} << 16));
        block.resize(bytes.size() / sizeof(float));
        std::memcpy(block.data(), bytes.data(), bytes.size());
        for (float v : block) {
          const float magnitude = std::fabs(v);
          most = magnitude > most && magnitude <= std::numeric_limits<float>::max() ? magnitude : most;
        }
      }
    }
    return greatest_[name] = most;
  }

  absl::Status GiveOutputs() {
    for (size_t i = 0; i < p_.graph->outputs.size(); ++i) {
      Value* v = p_.graph->outputs[i].value();
      if (!v || !floats_.contains(v)) continue;
      const OutputSpec& s = p_.output_specs[i];
      const bool half =
          s.updates_weight() ? held_.contains(s.target) : !o_.keep_io_types || o_.state_outputs.contains(i);
      ASSIGN_OR_RETURN(Value * given, half ? Half(v, /*saturate=*/false) : Wide(v));
      p_.graph->outputs[i] = given;
    }
    return absl::OkStatus();
  }

  // ---- Values in either type

  absl::StatusOr<Value*> Cast(Value* v, DType to, bool saturate) {
    Graph& g = *v->graph();
    ir::Builder b(g, v->producer() ? v->producer()->next() : g.first(),
                  v->producer() ? v->producer()->source() : nullptr);
    if (saturate) v = b.Call("aten.clamp.default", {v, -most_, most_});
    Value* cast = b.Cast(v, to);
    if (!b.ok()) return b.status();
    return cast;
  }
  absl::StatusOr<Value*> Half(Value* v, bool saturate = true) {
    Float& f = floats_.at(v);
    if (f.overflows) overflowing_.insert(*f.overflows);
    if (f.half) return f.half;
    ASSIGN_OR_RETURN(Value * half, Cast(v, to_, saturate && f.place == Place::kExtreme));
    return floats_.at(v).half = half;
  }
  absl::StatusOr<Value*> Wide(Value* v) {
    if (Value* wide = floats_.at(v).wide) return wide;
    ASSIGN_OR_RETURN(Value * wide, Cast(v, DType::kFloat32, false));
    widened_[wide] = v;
    return floats_.at(v).wide = wide;
  }

  // ---- Nodes

  absl::Status Nodes(Graph& g) {
    std::vector<Node*> nodes;
    for (Node* n : g) nodes.push_back(n);
    for (Node* n : nodes) {
      absl::Status s = OneNode(*n);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // Bodies take and give halves.
  absl::Status Body(Graph& g) {
    if (!done_.insert(&g).second) return absl::OkStatus();
    for (Value* v : g.inputs()) {
      if (!IsF32(v)) continue;
      v->mutable_type().dtype = to_;
      Note(v, {});
    }
    RETURN_IF_ERROR(Nodes(g));
    for (Arg& out : g.outputs) {
      if (!out.value() || !floats_.contains(out.value())) continue;
      ASSIGN_OR_RETURN(Value * half, Half(out.value()));
      out = half;
    }
    return absl::OkStatus();
  }

  // How a node computes; nullopt: in halves. Else where its results belong.
  std::optional<Place> WideAs(const Node& n, const std::vector<Value*>& operands) const {
    const ir::OpDef& op = n.op();
    if (!IsTorch(op)) return Place::kHalf;
    if (operands.empty()) return HasExtreme(n) ? Place::kExtreme : MayBeLarge(n) ? Place::kInteger : Place::kDerived;
    bool extreme = false, state = false, parameter = false, integer = false, derived = true, sums = true;
    int values = 0;
    for (const Value* v : operands) {
      const Float& f = floats_.at(v);
      parameter |= f.parameter;
      extreme |= f.place == Place::kExtreme;
      state |= f.place == Place::kState;
      if (f.place == Place::kWeight) continue;
      ++values;
      const bool is_integer = f.place == Place::kInteger, is_derived = is_integer || f.place == Place::kDerived;
      integer |= is_integer;
      derived &= is_derived;
      sums &= is_derived || f.place == Place::kSum;
    }
    const bool only_derived = values > 0 && derived && !parameter, sum = IsSum(op);
    const Place same = integer && !op.traits.bounded ? Place::kInteger : Place::kDerived;
    if (IsProduct(op)) return only_derived ? std::optional(same) : std::nullopt;
    if (IsRounded(op)) return only_derived ? same : Place::kHalf;
    if (sum) return only_derived ? same : Place::kSum;
    if (extreme || (HasExtreme(n) && !op.traits.clamp)) return Place::kExtreme;
    if (state) return Place::kState;
    if (only_derived) return same;
    if (IsReinterpreted(n)) return Place::kHalf;
    if (integer && !sums) return Place::kHalf;
    if (values > 0 && sums && (op.traits.elementwise || IsView(op))) return Place::kSum;
    return std::nullopt;
  }

  // Whether a float made of other types may be beyond halves: of wider integers and floats, and of sizes.
  static bool MayBeLarge(const Node& n) {
    bool large = n.op().base == "arange" || n.op().base == "linspace";
    for (const ir::NamedArg& a : n.args())
      a.arg.ForEachValue([&](const Value* v) {
        large |= v->type().is_tensor() ? ir::ByteSize(v->dtype()) > 1
                                       : v->type().is_sym() && !n.op().args.empty() && !IsSizes(n, a.name);
      });
    return large;
  }
  static bool IsSizes(const Node& n, std::string_view argument) {
    const int at = n.op().ArgIndex(argument);
    return at >= 0 && n.op().args[at].is_list;
  }

  // Whether the bits of floats are looked at, which have to be those of the program.
  static bool IsReinterpreted(const Node& n) {
    return n.op().traits.inverse == ir::ViewInverse::kReinterpret && n.op().ArgIndex("dtype") >= 0;
  }

  // Whether an element may become a finite number that the half type has not.
  bool HasExtreme(const Node& n) const {
    if (!n.op().traits.elementwise && !n.op().traits.fill) return false;
    return std::any_of(n.args().begin(), n.args().end(), [&](const ir::NamedArg& a) {
      const int at = n.op().ArgIndex(a.name);
      if (at < 0 || n.op().args[at].is_list) return false;
      const double* number = a.arg.get<double>();
      const int64_t* integer = a.arg.get<int64_t>();
      return IsTooLarge(number ? *number : integer ? static_cast<double>(*integer) : 0);
    });
  }

  absl::Status OneNode(Node& n) {
    std::vector<Value*> operands;
    bool bodies = false;
    for (const ir::NamedArg& a : n.args()) {
      bodies |= a.arg.is<ir::SubGraph>();
      a.arg.ForEachValue([&](Value* v) {
        if (floats_.contains(v) && std::find(operands.begin(), operands.end(), v) == operands.end())
          operands.push_back(v);
      });
    }
    std::vector<Value*> results;
    for (Value* v : n.outputs())
      if (IsF32(v)) results.push_back(v);
    if (operands.empty() && results.empty() && !bodies) return absl::OkStatus();
    std::optional<Place> wide = bodies ? std::nullopt : WideAs(n, operands);
    for (Value* v : operands) {
      ASSIGN_OR_RETURN(Value * now, wide || IsWideMask(n, v) ? Wide(v) : Half(v));
      if (now != v) n.ReplaceUses(v, now);
    }
    if (wide && !operands.empty()) wide_.push_back(&n);
    if (!wide) RETURN_IF_ERROR(MakeHalf(n, results, bodies));
    for (Value* v : results) Note(v, {wide ? *wide : v->dtype() == to_ ? Place::kHalf : Place::kSum});
    return absl::OkStatus();
  }

  // Types and numbers of a node whose operands are halves now. What it gives as f32 all the same is f32.
  absl::Status MakeHalf(Node& n, const std::vector<Value*>& results, bool bodies) {
    for (size_t i = 0; i < n.args().size(); ++i) {
      if (const auto* sub = n.At(i).get<ir::SubGraph>(); sub && *sub) {
        const ir::SubGraph body = *sub;
        RETURN_IF_ERROR(Body(*body));
      }
      if (const auto* dtype = n.At(i).get<DType>(); dtype && *dtype == DType::kFloat32) n.SetArgAt(i, to_);
      // Saturated, a bound does what it did.
      if (const auto* bound = n.At(i).get<double>(); bound && n.op().traits.clamp && IsTooLarge(*bound))
        n.SetArgAt(i, std::copysign(most_, *bound));
    }
    for (Value* v : results) v->mutable_type().dtype = to_;
    if (bodies) return absl::OkStatus();
    auto types = ir::InferTypes(n, ir::FreshSymbols::kNone);
    // the verifier knows no more either
    if (!types.ok() || types->size() != n.outputs().size()) return absl::OkStatus();
    for (size_t i = 0; i < types->size(); ++i)
      if (n.output(i) && (*types)[i].is_tensor() && (*types)[i].dtype == DType::kFloat32 &&
          std::find(results.begin(), results.end(), n.output(i)) != results.end())
        n.output(i)->mutable_type().dtype = DType::kFloat32;
    return absl::OkStatus();
  }

  // ---- Targets that need no casts

  bool RoundsOnce(const Node& n) const { return o_.rounds_once && o_.rounds_once(n); }

  // A mask of finite numbers that halves have not, of attention that adds it in f32.
  bool IsWideMask(const Node& n, const Value* v) const {
    return n.op().ArgIndex("attn_mask") >= 0 && n.Get("attn_mask").value() == v &&
           floats_.at(v).place == Place::kExtreme && RoundsOnce(n);
  }

  void DropCasts() {
    for (Node* n : wide_) {
      const bool whole = n->op().traits.narrow != ir::NarrowClass::kNone && RoundsOnce(*n);
      if (whole && !MakeWholeHalf(*n)) ReadHalves(*n);
    }
    for (const auto& [cast, from] : widened_)
      if (cast->users().empty() && !cast->graph()->IsOutput(cast)) cast->graph()->Erase(cast->producer());
    for (const Node* n : wide_) {
      if (IsHalves(*n)) continue;
      ++report_.wide;
      ++report_.wide_operators[std::string(n->op().base)];
    }
  }
  bool IsHalves(const Node& n) const {
    return std::any_of(n.outputs().begin(), n.outputs().end(),
                       [&](const Value* v) { return v && v->type().is_tensor() && v->dtype() == to_; });
  }

  // The results of a node that computes in f32, where each is read as a half alone; empty where one is not.
  std::vector<Value*> ReadAsHalves(const Node& n) const {
    std::vector<Value*> results;
    for (Value* v : n.outputs()) {
      if (!IsF32(v)) continue;
      const Value* half = floats_.at(v).half;
      const bool unread = v->users().empty() && !v->graph()->IsOutput(v);
      if (!unread && (!half || v->users().size() != 1 || v->users()[0] != half->producer() || v->graph()->IsOutput(v)))
        return {};
      results.push_back(v);
    }
    return results;
  }

  // cast(f(cast(x), weights)) = f(x, weights), where f takes such weights; of norms they may be made of some.
  bool MakeWholeHalf(Node& n) {
    const std::vector<Value*> results = ReadAsHalves(n);
    std::vector<Value*> casts;
    bool others = false;
    for (const ir::NamedArg& a : n.args())
      a.arg.ForEachValue([&](Value* v) {
        if (!IsF32(v)) return;
        if (widened_.contains(v))
          casts.push_back(v);
        else
          others |= !IsRounded(n.op()) && (!floats_.contains(v) || floats_.at(v).place != Place::kWeight);
      });
    if (results.empty() || casts.empty() || others) return false;
    if (!Retype(n, casts, results, to_)) return false;
    for (Value* v : results) {
      Value* half = std::exchange(floats_.at(v).half, v);
      if (!half || half == v) continue;
      v->graph()->ReplaceAllUses(half, v);
      v->graph()->Erase(half->producer());
    }
    return true;
  }

  // f(cast(x)) = f(x, dtype=f32)
  bool ReadHalves(Node& n) {
    Value* cast = n.Get("self").value();
    if (!IsTorch(n.op()) || n.op().ArgIndex("dtype") < 0 || !cast || !widened_.contains(cast)) return false;
    std::vector<Value*> results;
    for (Value* v : n.outputs())
      if (IsF32(v)) results.push_back(v);
    return Retype(n, {cast}, results, DType::kFloat32);
  }

  // Reads what is behind the casts and gives results of `to`; false, with nothing changed, where the operator does not.
  bool Retype(Node& n, const std::vector<Value*>& casts, const std::vector<Value*>& results, DType to) {
    const bool has_dtype = IsTorch(n.op()) && n.op().ArgIndex("dtype") >= 0;  // slipway's: of a weight
    const Arg dtype = has_dtype ? n.Get("dtype") : Arg();
    for (Value* v : casts) n.ReplaceUses(v, widened_.at(v));
    if (has_dtype && (to == DType::kFloat32 || dtype.get<DType>())) n.SetArg("dtype", to);
    const auto types = ir::InferTypes(n, ir::FreshSymbols::kNone);
    bool fits = types.ok() && types->size() == n.outputs().size();
    for (size_t i = 0; fits && i < types->size(); ++i)
      if (std::find(results.begin(), results.end(), n.output(i)) != results.end())
        fits = (*types)[i].is_tensor() && (*types)[i].dtype == to;
    if (fits) {
      for (Value* v : results) v->mutable_type().dtype = to;
      return true;
    }
    for (Value* v : casts) n.ReplaceUses(widened_.at(v), v);
    if (has_dtype) n.SetArg("dtype", dtype);
    return false;
  }

  // ---- Weights

  absl::Status Overflows() const {
    if (overflowing_.empty()) return absl::OkStatus();
    std::vector<std::string> lines;
    for (const std::string& name : overflowing_)
      lines.push_back(text::StrCat("'", name, "' (", greatest_.at(name), ")"));
    return absl::InvalidArgumentError(text::StrCat(lines.size() == 1 ? "a weight has" : "weights have",
                                                   " values beyond those of ", ir::Name(to_), ": ",
                                                   text::Join(lines, ", "), "; the greatest is ", most_));
  }

  absl::Status NarrowWeights() {
    std::set<std::string> names;
    for (const auto& [v, name] : weights_)
      if (floats_.at(v).half) names.insert(name);
    for (const auto& [v, name] : weights_) {
      if (!names.contains(name)) continue;
      Graph& g = *p_.graph;
      Value* half = floats_.at(v).half;
      Node* cast = half ? half->producer() : nullptr;
      if (std::any_of(v->users().begin(), v->users().end(), [&](const Node* n) { return n != cast; }) ||
          g.IsOutput(v)) {
        ir::Builder b(g, g.first(), nullptr);
        Value* wide = b.Call("aten._to_copy.default", {v}, {{"dtype", DType::kFloat32}});
        if (!b.ok()) return b.status();
        g.ReplaceAllUses(v, wide);
        wide->producer()->ReplaceUses(wide, v);
      }
      if (cast) {
        g.ReplaceAllUses(half, v);
        g.Erase(cast);
      }
      v->mutable_type().dtype = to_;
    }
    for (const auto& [v, name] : weights_) report_.kept += !names.contains(name) && !v->users().empty();
    names.insert(held_.begin(), held_.end());
    report_.weights = static_cast<int>(names.size());
    const double least = to_ == DType::kFloat16 ? 0x1p-14 : 0x1p-126;  // of the normal numbers
    for (const std::string& name : names)
      if (const auto most = greatest_.find(name); most != greatest_.end() && most->second > 0 && most->second < least)
        report_.small.push_back(name);
    const std::vector<std::string> list(names.begin(), names.end());
    return o_.cast ? o_.cast(list) : ChangeRules(list);
  }

  absl::Status ChangeRules(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const auto w = p_.weights.find(name);
      if (w == p_.weights.end()) continue;
      if (std::holds_alternative<io::Bytes>(w->second.storage->bytes))
        return absl::UnimplementedError("casting weights here");
      auto storage = std::make_shared<ir::Storage>(*w->second.storage);
      storage->size /= 2;
      w->second.storage = std::move(storage);
      w->second.dtype = to_;
    }
    return absl::OkStatus();
  }

  ir::Program& p_;
  const NarrowOptions& o_;
  const DType to_;
  const double most_;  // the greatest finite number of to_
  absl::flat_hash_map<const Value*, Float> floats_;
  absl::flat_hash_map<Value*, Value*> widened_;  // casts to f32, of what
  std::vector<Node*> wide_;                      // nodes that read floats and compute in f32
  std::vector<std::pair<Value*, std::string>> weights_;
  std::map<std::string, double> greatest_;
  std::set<std::string> overflowing_;
  std::set<std::string> held_;              // states that are `to`
  absl::flat_hash_set<const Graph*> done_;  // bodies that several calls share
  NarrowReport report_;
};

}  // namespace

absl::StatusOr<NarrowReport> NarrowFloats(ir::Program& p, const NarrowOptions& options) {
  return Narrowing(p, options).Run();
}

}  // namespace slipway::passes
