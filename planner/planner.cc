// From the graph to the plan: inputs and weights become buffers, nodes steps by their rows, results the caller's
// memory. Nodes that a row refuses are collected, decomposed and planned again, so that a program is refused with all
// that is missing at once.
#include "planner/planner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "ir/clone.h"
#include "ir/guards.h"
#include "ir/ops/op_table.h"
#include "ir/ops/rule.h"
#include "ir/specialize.h"
#include "ir/zeros.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "planner/bind.h"
#include "planner/choose_layouts.h"
#include "planner/fuse.h"
#include "planner/lowering/rules.h"
#include "planner/runner.h"

namespace slipway::planner {
namespace {

using kernels::Buffer;

// A weight as an operand: read where it lies; a copy where it lies badly for its dtype or is made by a rule.
absl::StatusOr<Operand> BindWeight(const std::string& name, const ir::TensorRef& t, PlanBuilder& b) {
  if (absl::Status s = ir::Validate(t); !s.ok()) return s;
  if (!NativeType(t.dtype)) return absl::UnimplementedError(text::StrCat("kernels have no ", ir::Name(t.dtype)));
  if (t.sizes.size() > kernels::kMaxRank) return absl::UnimplementedError("a tensor of too many dims");
  ir::TensorRef source = t;
  auto address = [](const ir::TensorRef& r) { return ir::MappedBytes(*r.storage).data() + r.offset; };
  const bool rule = ir::MappedBytes(*t.storage).empty();
  if (rule || reinterpret_cast<uintptr_t>(address(t)) % ir::ByteSize(t.dtype) != 0) {
    auto dense = ir::ReadDense(t, b.limit());
    if (!dense.ok()) return dense.status();
    source = ir::OwnedTensor(t.dtype, t.sizes, *std::move(dense));
  }
  Operand x{0, 0, t.dtype, Dims(source.sizes.begin(), source.sizes.end()),
            Dims(source.strides.begin(), source.strides.end())};
  int64_t last = 0;  // element; ir::Validate has seen that it is in the storage
  for (size_t d = 0; d < source.sizes.size(); ++d) last += (source.sizes[d] - 1) * source.strides[d];
  x.buffer = b.AddBuffer(Buffer::kConstant, source.numel() == 0 ? 0 : (last + 1) * ir::ByteSize(source.dtype), 0,
                         source.numel() == 0 ? nullptr : address(source));
  b.out().storages.push_back(source.storage);
  b.out().weights.push_back({x.buffer, name, source});
  return x;
}

absl::Status At(const ir::Value& v, const absl::Status& s) {
  return absl::Status(s.code(), text::StrCat("%", v.name(), ": ", text::FromAbsl(s.message())));
}

// Symbols that the inputs' sizes and values state, alone (the first pass) or in a linear expression of nothing else.
class InputBinder {
 public:
  explicit InputBinder(PlanBuilder& b) : b_(b) {}
  // Dim -1: the number that the input is.
  void Add(int input, int dim, Dim e) { sizes_.push_back({input, dim, e}); }
  void Bind() {
    for (const auto& s : sizes_)
      if (s.e.kind() == ir::SymKind::kSymbol && !b_.IsGiven(s.e)) Give(s.e, s.input, s.dim, 1, 0);
    for (const auto& s : sizes_) {
      const std::vector<Dim> symbols = s.e.Symbols();
      if (b_.IsGiven(s.e) || symbols.size() != 1) continue;
      auto at = [&](int64_t v) { return ir::Evaluate(s.e, [&](std::string_view) { return v; }); };
      const auto zero = at(0), one = at(1), two = at(2);
      int64_t scale, again;
      if (!zero || !one || !two || __builtin_sub_overflow(*one, *zero, &scale) ||
          __builtin_sub_overflow(*two, *one, &again) || scale != again || scale == 0)
        continue;
      // Linear where it counts; the check that sizes come out as given finds where it is not.
      Give(symbols[0], s.input, s.dim, scale, *zero);
    }
  }

 private:
  struct Size {
    int input, dim;
    Dim e;
  };
  void Give(Dim symbol, int input, int dim, int64_t scale, int64_t shift) {
    const int index = b_.Symbol(symbol);
    b_.out().plan.bindings.push_back({index, input, dim, scale, shift});
    kernels::Symbol& s = b_.out().plan.symbols[index];
    const ir::SymRange range = ir::RuntimeRange({s.min, s.max});
    s.min = range.min, s.max = range.max;
    b_.Give(symbol);
  }
  PlanBuilder& b_;
  std::vector<Size> sizes_;
};

// The tensors that the plan keeps between runs, in the order of its inputs.
struct Kept {
  const ir::Value* value;
  std::string name;
  const passes::GrowingState* growing = nullptr;  // null: a weight that the program updates
  Dims room;                                      // the sizes of its memory
};
std::vector<Kept> FindKept(const ir::Program& p, const PlanOptions& options) {
  if (!options.keep_state) return {};
  const text::Set updated = ir::UpdatedWeights(p);
  std::vector<Kept> out;
  for (size_t i = 0; i < p.graph->inputs().size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    const ir::InputSpec& spec = p.input_specs[i];
    if (spec.kind == ir::InputSpec::kUser) {
      for (const passes::GrowingState& s : options.growing)
        if (s.input == v->name()) out.push_back({v, s.input, &s, {}});
    } else if (updated.contains(spec.target) && p.weights.contains(spec.target)) {
      out.push_back({v, spec.target, nullptr, {}});
    }
  }
  return out;
}

// Inputs behind the caller's, for the memory of states and how much of it is there.
absl::Status AddStates(const ir::Program& p, std::vector<Kept>& kept, InputBinder& binder, PlanBuilder& b) {
  kernels::Plan& plan = b.out().plan;
  for (Kept& k : kept) {
    const ir::Type& t = k.value->type();
    if (!t.is_tensor() || !NativeType(t.dtype) || t.rank() > kernels::kMaxRank)
      return absl::UnimplementedError(text::StrCat("a state that is ", t.ToString()));
    kernels::State state;
    state.input = static_cast<int>(plan.inputs.size());
    plan.inputs.push_back({k.name, kernels::Input::kTensor, *NativeType(t.dtype), {}, -1});
    b.out().inputs.push_back({t, k.name});
    k.room.assign(t.sizes.begin(), t.sizes.end());
    if (k.growing) {
      constexpr int64_t kMaxRoom = int64_t{1} << 40;
      k.room[k.growing->dim] = b.NewSymbol({0, kMaxRoom});
      binder.Add(state.input, k.growing->dim, k.room[k.growing->dim]);
      state.dim = k.growing->dim;
      state.length = static_cast<int>(plan.inputs.size());
      plan.inputs.push_back({text::StrCat(k.name, ".length"), kernels::Input::kNumber, kernels::DType::kI64, {}, -1});
      b.out().inputs.push_back({ir::Type::SymInt(t.sizes[k.growing->dim]), text::StrCat(k.name, ".length")});
      binder.Add(state.length, -1, t.sizes[k.growing->dim]);
    } else {
      ir::TensorRef weight = p.weights.at(k.name);
      if (weight.sizes != t.StaticSizes())
        return absl::UnimplementedError(text::StrCat("the state '", k.name, "' is of another size than its weight"));
      if (ir::IsZeros(weight)) {  // which need no bytes in the file
        plan.states.push_back(state);
        continue;
      }
      if (!weight.is_contiguous()) {
        auto dense = ir::ReadDense(weight, b.limit());
        if (!dense.ok()) return dense.status();
        weight = ir::OwnedTensor(weight.dtype, weight.sizes, *std::move(dense));
      }
      auto initial = BindWeight(k.name, weight, b);
      if (!initial.ok()) return initial.status();
      state.initial = initial->buffer;
    }
    plan.states.push_back(state);
  }
  return absl::OkStatus();
}
// Once symbols are given: sizes, and the memory that the program's values are views of.
void BindStates(const std::vector<Kept>& kept, PlanBuilder& b) {
  kernels::Plan& plan = b.out().plan;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Kept& k = kept[i];
    kernels::State& state = plan.states[i];
    for (Dim s : k.room) {
      const int e = b.Expr(s);
      plan.inputs[state.input].sizes.push_back(e);
    }
    const ir::Type& t = k.value->type();
    if (k.growing) {
      const int length = b.Expr(t.sizes[state.dim]);
      plan.inputs[state.length].value = length;
      plan.states[i].after = b.Expr(k.growing->after);
    }
    Operand x{0, 0, t.dtype, Dims(t.sizes.begin(), t.sizes.end()), ContiguousStrides(k.room)};
    x.buffer = b.AddBuffer(Buffer::kState, Product(k.room) * ir::ByteSize(t.dtype), state.input);
    b.values[k.value] = std::move(x);
  }
}

absl::Status BindInputs(const ir::Program& p, const PlanOptions& options, PlanBuilder& b) {
  kernels::Plan& plan = b.out().plan;
  InputBinder binder(b);
  std::vector<Kept> kept = FindKept(p, options);
  auto is_kept = [&](const ir::Value* v) {
    return std::any_of(kept.begin(), kept.end(), [&](const Kept& k) { return k.value == v; });
  };
  for (size_t i = 0; i < p.graph->inputs().size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    const ir::InputSpec& spec = p.input_specs[i];
    if (is_kept(v)) continue;
    if (spec.kind == ir::InputSpec::kUser) {
      const ir::Type& t = v->type();
      if (t.kind == ir::Type::kConstant || t.kind == ir::Type::kNone) continue;
      const int slot = static_cast<int>(plan.inputs.size());
      kernels::Input in{v->name(), kernels::Input::kTensor, kernels::DType::kF32, {}, -1};
      if (t.is_sym()) {
        in.kind = kernels::Input::kNumber;
        in.dtype = t.kind == ir::Type::kSymInt     ? kernels::DType::kI64
                   : t.kind == ir::Type::kSymFloat ? kernels::DType::kF64
                                                   : kernels::DType::kBool;
        if (t.kind == ir::Type::kSymFloat)
          for (Dim s : t.expr.Symbols()) b.Symbol(s, true);
        binder.Add(slot, -1, t.expr);
      } else {
        if (!t.is_tensor() || !NativeType(v->dtype()) || t.rank() > kernels::kMaxRank) {
          b.Refuse(*v, absl::UnimplementedError(text::StrCat("input %", v->name(), " is ", t.ToString())));
          continue;
        }
        in.dtype = *NativeType(v->dtype());
        for (int d = 0; d < t.rank(); ++d) binder.Add(slot, d, t.sizes[d]);
      }
      plan.inputs.push_back(std::move(in));
      b.out().inputs.push_back({t, v->name()});
      continue;
    }
    auto weight = p.weights.find(spec.target);
    if (weight == p.weights.end() || (v->users().empty() && !p.graph->IsOutput(v))) continue;  // what needs it says so
    auto x = BindWeight(spec.target, weight->second, b);
    if (absl::IsUnimplemented(x.status())) {
      b.Refuse(*v, At(*v, x.status()));
      continue;
    }
    if (!x.ok()) return At(*v, x.status());
    b.values[v] = *std::move(x);
  }
  if (absl::Status s = AddStates(p, kept, binder, b); !s.ok()) return s;
  binder.Bind();
  int slot = 0;
  for (size_t i = 0; i < p.graph->inputs().size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    const ir::Type& t = v->type();
    if (p.input_specs[i].kind != ir::InputSpec::kUser || t.kind == ir::Type::kConstant || t.kind == ir::Type::kNone ||
        b.unknown.contains(v) || is_kept(v))
      continue;
    kernels::Input& in = plan.inputs[slot];
    if (t.is_sym()) {
      in.value = t.kind == ir::Type::kSymFloat ? b.Expr(Real(t.expr)) : b.Expr(t.expr);
    } else {
      Dims sizes(t.sizes.begin(), t.sizes.end());
      Operand x{0, 0, v->dtype(), sizes, ContiguousStrides(sizes)};
      for (Dim s : sizes) in.sizes.push_back(b.Expr(s));
      x.buffer = b.AddBuffer(Buffer::kInput, x.numel() * ir::ByteSize(x.dtype), slot);
      b.values[v] = std::move(x);
    }
    ++slot;
  }
  BindStates(kept, b);
  for (const ir::Guard& guard : ir::GuardsOf(p))
    if (guard.condition && b.IsGiven(*guard.condition))
      b.Require(*guard.condition,
                text::StrCat("the program was exported for sizes where ", guard.text, " (a guard of torch.export)"));
  return b.status();
}

// Whether the node reads what is not there because an input or another node was refused: that is not its fault.
bool ReadsUnknown(const ir::Node& n, const PlanBuilder& b) {
  bool unknown = false;
  for (const ir::NamedArg& a : n.args())
    a.arg.ForEachValue([&](const ir::Value* v) { unknown = unknown || b.unknown.contains(v); });
  return unknown;
}

absl::Status PlanNode(const ir::Node& n, PlanBuilder& b) {
  if (n.output() != nullptr && b.paddings.contains(n.output())) return absl::OkStatus();
  // Numbers that are known, or made of numbers that are, need no step: their types say them.
  bool known = !n.outputs().empty();
  for (const ir::Value* v : n.outputs()) known = known && v && v->type().is_sym() && b.IsGiven(v->type().expr);
  if (known) return absl::OkStatus();
  const PlanRow* row = FindPlanRow(n.op_name());
  const kernels::Kernel* plugin = b.PluginKernel(n);
  if (!row && !plugin) return absl::UnimplementedError(text::StrCat(n.op_name(), ": no kernel"));
  b.origin = static_cast<int>(b.out().origins.size());
  b.out().origins.emplace_back(n.op_name());
  b.out().places.push_back(n.source() ? n.source()->Describe() : "");
  PlanContext c(n, b, plugin ? "" : row->kernel);
  if (absl::Status s = ir::RunRule(n, [&] { plugin ? PlanPlugin(c, *plugin) : row->fn(c); }); !s.ok()) return s;
  if (!c.ok()) return c.status();
  for (size_t i = 0; i < n.outputs().size(); ++i) {
    const ir::Value* v = n.output(i);
    if (!v) continue;
    if (v->type().is_sym()) {
      if (c.used(i) && !b.IsGiven(v->type().expr))
        return absl::UnimplementedError(text::StrCat(n.op_name(), ": %", v->name(), " is ", v->type().ToString()));
      continue;
    }
    if (i >= c.results().size() || !c.results()[i]) {
      if (!c.used(i)) continue;
      return absl::UnimplementedError(text::StrCat(n.op_name(), ": result ", i, " is used"));
    }
    Operand& x = c.results()[i];
    // A rule that gives another type than the program states is a mistake that must not become a wrong number.
    const Dims declared = c.out_sizes(i);
    if (!c.ok()) return c.status();
    if (x.dtype != v->dtype() || x.sizes.size() != declared.size())
      return absl::InternalError(text::StrCat(n.op_name(), ": planned as ", ir::Name(x.dtype), " of ", x.sizes.size(),
                                              " dims, declared as ", v->type().ToString()));
    for (size_t d = 0; d < declared.size(); ++d) {
      if (!b.IsGiven(declared[d])) {
        // A size that only the declaration names is what the rule found.
        if (declared[d].kind() != ir::SymKind::kSymbol || !b.IsGiven(x.sizes[d]))
          return absl::UnimplementedError(text::StrCat(n.op_name(), ": a result of ", v->type().ToString()));
        b.Set(declared[d], x.sizes[d]);
      }
      if (ir::ProvablyDifferent(x.sizes[d], declared[d]))
        return absl::InternalError(text::StrCat(n.op_name(), ": planned with size ", x.sizes[d].ToString(),
                                                ", declared as ", v->type().ToString()));
      c.RequireEqual(x.sizes[d], declared[d], "the result has another size");
      x.sizes[d] = declared[d];
    }
    b.values[v] = std::move(x);
  }
  return b.status().ok() ? c.status() : b.status();
}

// New values of weights that the plan keeps, behind all that reads the old ones.
absl::Status BindUpdates(const ir::Program& p, PlanBuilder& b) {
  struct Update {
    Operand from, to;
  };
  std::vector<Update> updates;
  PlannedProgram& out = b.out();
  auto copy = [&](const Operand& from, const Operand& to) {
    kernels::Step step;
    step.kernel = kernels::FindKernel("copy");
    step.compute = kernels::DType::kU8;  // which a copy does not ask
    step.first_view = static_cast<int>(out.plan.views.size());
    step.inputs = step.outputs = 1;
    b.AddView(from);
    b.AddView(to);
    b.AddStep(step);
  };
  for (size_t i = 0; i < p.graph->outputs.size() && i < p.output_specs.size(); ++i) {
    if (!p.output_specs[i].updates_weight()) continue;
    const ir::Value *v = p.graph->outputs[i].value(), *old = nullptr;
    for (size_t k = 0; k < p.graph->inputs().size(); ++k)
      if (p.input_specs[k].kind != ir::InputSpec::kUser && p.input_specs[k].target == p.output_specs[i].target)
        old = p.graph->inputs()[k];
    const auto from = b.values.find(v), to = b.values.find(old);
    if (!v || from == b.values.end() || to == b.values.end() ||
        out.plan.buffers[to->second.buffer].kind != Buffer::kState)
      return absl::UnimplementedError(
          text::StrCat("the update of '", p.output_specs[i].target, "' is of nothing that kernels know"));
    if (from->second.dtype != to->second.dtype || from->second.sizes != to->second.sizes)
      return absl::UnimplementedError(
          text::StrCat("the update of '", p.output_specs[i].target, "' is of another type"));
    // as it was
    if (from->second.buffer == to->second.buffer && from->second.offset.is(0) && from->second.is_contiguous()) continue;
    updates.push_back({from->second, to->second});
  }
  // What is itself in the memory of a state is read before anything is written.
  for (Update& u : updates) {
    if (out.plan.buffers[u.from.buffer].kind != Buffer::kState) continue;
    Operand held{0, 0, u.from.dtype, u.from.sizes, ContiguousStrides(u.from.sizes)};
    held.buffer = b.AddBuffer(Buffer::kTemporary, held.numel() * ir::ByteSize(held.dtype));
    copy(u.from, held);
    u.from = held;
  }
  for (const Update& u : updates) copy(u.from, u.to);
  return b.status();
}

// Results into the caller's memory: what a temporary holds densely is made there in the first place.
absl::Status BindOutputs(const ir::Program& p, const PlanOptions& options, PlanBuilder& b) {
  PlannedProgram& out = b.out();
  b.origin = static_cast<int>(out.origins.size());
  out.origins.emplace_back("return");
  out.places.emplace_back();
  for (size_t i = 0; i < p.graph->outputs.size(); ++i) {
    const ir::Value* v = p.graph->outputs[i].value();
    if (!v) continue;  // a constant of the signature
    // Of inputs that are kept, too: what was written to them is no result.
    if (options.keep_state && i < p.output_specs.size() && p.output_specs[i].updates_state()) continue;
    const ir::Type& t = v->type();
    const int slot = static_cast<int>(out.plan.outputs.size());
    Operand x;
    kernels::Step step;
    step.first_number = static_cast<int>(out.plan.numbers.size());
    if (t.is_sym()) {
      x.dtype = t.kind == ir::Type::kSymInt     ? DType::kInt64
                : t.kind == ir::Type::kSymFloat ? DType::kFloat64
                                                : DType::kBool;
      step.kernel = kernels::FindKernel("fill");
      if (t.kind == ir::Type::kSymFloat) {
        out.plan.numbers.push_back(b.Expr(Real(t.expr)));
        step.floats = 1;
      } else {
        out.plan.numbers.push_back(b.Expr(t.expr));
        step.ints = 1;
      }
    } else {
      auto found = b.values.find(v);
      if (found == b.values.end())
        return absl::UnimplementedError(text::StrCat("output ", i, " is not a tensor that kernels know"));
      x = found->second;
      step.kernel = kernels::FindKernel("copy");
    }
    out.outputs.push_back({t, v->name()});
    kernels::Output o{*NativeType(x.dtype), t.is_sym(), {}};
    for (Dim s : x.sizes) o.sizes.push_back(b.Expr(s));
    out.plan.outputs.push_back(std::move(o));
    if (!t.is_sym()) {
      Buffer& buffer = out.plan.buffers[x.buffer];
      const int bytes = b.Expr(x.numel() * ir::ByteSize(x.dtype));
      if (buffer.kind == Buffer::kTemporary && x.offset.is(0) && x.is_contiguous() &&
          out.plan.buffers[x.buffer].bytes == bytes) {
        out.plan.buffers[x.buffer].kind = Buffer::kOutput;
        out.plan.buffers[x.buffer].slot = slot;
        continue;
      }
    }
    Operand to{0, 0, x.dtype, x.sizes, ContiguousStrides(x.sizes)};
    to.buffer = b.AddBuffer(Buffer::kOutput, to.numel() * ir::ByteSize(to.dtype), slot);
    step.first_view = static_cast<int>(out.plan.views.size());
    step.inputs = t.is_sym() ? 0 : 1;
    step.outputs = 1;
    step.compute = t.is_sym() ? *NativeType(to.dtype) : kernels::DType::kU8;  // which a copy does not ask
    if (!t.is_sym()) b.AddView(x);
    b.AddView(to);
    b.AddStep(step);
  }
  return options.keep_state ? BindUpdates(p, b) : b.status();
}

}  // namespace

absl::Status PlanGraph(const ir::Graph& g, PlanBuilder& b) {
  if (b.options().layouts) ChooseLayouts(g, &b.channels_last_nodes);
  if (b.options().fuse) ChoosePaddings(g, b);
  for (const ir::Node* n : g) {
    const int outer = b.origin;
    const size_t before = b.refusals.size();
    const bool innocent = ReadsUnknown(*n, b);
    absl::Status s = innocent ? b.refusals[0].status : PlanNode(*n, b);
    b.origin = outer;
    const bool inside = b.refusals.size() > before;
    if (s.ok() && !inside) continue;
    if (!s.ok() && !absl::IsUnimplemented(s)) return s;
    // What is wrong inside a nested graph counts there; another form of the node around it may still do.
    if (!innocent && (!inside || passes::FindDecomposition(n->op_name())))
      b.refusals.push_back({n, s.ok() ? b.refusals[before].status : s});
    // To find what else cannot be planned, the results are taken as made.
    for (const ir::Value* v : n->outputs()) {
      if (v)
        for (Dim size : v->sizes())
          for (Dim symbol : size.Symbols()) b.Give(symbol);
      if (v && v->type().is_sym())
        for (Dim symbol : v->type().expr.Symbols()) b.Give(symbol);
      if (!v || !v->type().is_tensor()) continue;
      b.unknown.insert(v);
      if (!NativeType(v->dtype()) || v->rank() > kernels::kMaxRank) continue;
      PlanContext c(*n, b, "");
      Dims sizes(v->sizes().begin(), v->sizes().end());
      Operand x = c.Temp(v->dtype(), sizes);
      if (!c.ok()) continue;
      b.values[v] = std::move(x);
      b.unknown.erase(v);
    }
  }
  return absl::OkStatus();
}

bool NativeLegal(const ir::Node& n) { return FindPlanRow(n.op_name()) != nullptr; }

absl::StatusOr<PlannedProgram> MakePlan(const ir::Program& p, const PlanOptions& options,
                                        std::vector<Refusal>* refusals) {
  if (p.form != ir::Form::kFunctional) return absl::InvalidArgumentError("a plan is made of a functional program");
  PlannedProgram out;
  PlanBuilder b(p, out, options);
  if (absl::Status s = BindInputs(p, options, b); !s.ok()) return s;
  absl::Status s = PlanGraph(*p.graph, b);
  if (refusals) *refusals = b.refusals;
  if (!s.ok()) return s;
  if (!b.refusals.empty()) return b.refusals[0].status;
  if (s = BindOutputs(p, options, b); !s.ok()) return s;
  // A symbol that neither an input nor a step gives a number.
  for (Dim symbol : b.UsedSymbols())
    if (!b.IsGiven(symbol))
      return absl::UnimplementedError(
          text::StrCat("the size ", symbol.ToString(), ": no input and no operator gives it"));
  if (options.fuse) {
    InplaceUpdates(out);
    FuseConvs(out);
    FuseChains(out);
    ConcatInPlace(out);
    FuseDepthwiseBlocks(out);
  }
  return out;
}

static bool HasIntegerConvs(const ir::Graph& g) {
  for (const ir::Node* n : g)
    if (n->op_name() == "slipway.integer_conv.default") return true;
  return false;
}

absl::StatusOr<PlannedProgram> LegalizeAndPlan(ir::Program& p, const PlanOptions& options,
                                               std::vector<passes::Unsupported>* unsupported) {
  absl::flat_hash_set<const ir::Node*> refused;
  passes::PassContext forming;
  forming.verify_each = options.verify_each;
  forming.exact_casts = options.exact_casts;
  for (const passes::Pipeline& forms : {passes::kIntegerProducts, passes::kAttention})
    if (absl::Status s = passes::RunPasses(forms, p, forming); !s.ok()) return s;
  // Weights in the kernel's order. A program that only folds has none of these convolutions, so that this ends.
  if (HasIntegerConvs(*p.graph)) {
    PlanEvaluator folding({.memory_limit = options.memory_limit});
    if (absl::Status s = passes::FoldConstants(p, folding, passes::kFoldForSpeed); !s.ok()) return s;
  }
  for (;;) {
    passes::PassContext context;
    context.verify_each = options.verify_each;
    context.legal = [&](const ir::Node& n) {
      return (NativeLegal(n) || (options.plugins && options.plugins(PluginKernelName(n)))) && !refused.contains(&n);
    };
    if (absl::Status s = passes::RunPasses(passes::kLegalization, p, context); !s.ok()) return s;
    std::vector<Refusal> refusals;
    auto planned = MakePlan(p, options, &refusals);
    if (planned.ok() || !absl::IsUnimplemented(planned.status())) return planned;
    bool more = false;
    for (const Refusal& r : refusals)
      more |= r.node && passes::FindDecomposition(r.node->op_name()) && refused.insert(r.node).second;
    if (more) continue;
    for (Refusal& r : refusals)  // an operator without a row is what its decomposition refused
      if (auto why = context.refusals.find(r.node); why != context.refusals.end() && !NativeLegal(*r.node))
        r.status = why->second;
    if (unsupported) *unsupported = passes::Group(refusals);
    return refusals.empty() ? planned.status() : refusals[0].status;
  }
}

bool PlanEvaluator::Supports(const ir::Node& n) const {
  return NativeLegal(n) || passes::FindDecomposition(n.op_name());
}

absl::StatusOr<PlannedProgram> PlanFor(ir::Program& p, absl::Span<const ir::TensorRef> inputs,
                                       const PlanOptions& options, std::vector<passes::Unsupported>* unsupported) {
  auto planned = LegalizeAndPlan(p, options, unsupported);
  if (planned.ok() || !absl::IsUnimplemented(planned.status())) return planned;
  if (absl::Status s = BindSymbols(p, inputs); !s.ok()) return s;
  auto bound = LegalizeAndPlan(p, options);
  return !bound.ok() && absl::IsUnimplemented(bound.status()) ? planned.status() : std::move(bound);
}

namespace {

// A plan for all sizes, or, where there is none, the program to plan anew for each combination of sizes.
class PreparedPlan : public ir::PreparedProgram {
 public:
  PreparedPlan(std::unique_ptr<ir::Program> p, const PlanOptions& options)
      : program_(std::move(p)), options_(options) {}

  absl::Status Plan() {
    auto planned = LegalizeAndPlan(*program_, options_);
    if (planned.ok()) runner_ = std::make_unique<Runner>(*std::move(planned), options_, false, options_.threads);
    // Only sizes can make a difference: without symbols the refusal stands.
    return planned.ok() || (absl::IsUnimplemented(planned.status()) && !program_->syms->symbols().empty())
               ? absl::OkStatus()
               : planned.status();
  }

  absl::StatusOr<std::vector<ir::TensorRef>> Run(absl::Span<const ir::TensorRef> inputs) override {
    if (runner_) return runner_->Run(inputs);
    const std::unique_ptr<ir::Program> bound = ir::Clone(*program_);
    auto planned = PlanFor(*bound, inputs, options_);
    if (!planned.ok()) return planned.status();
    return Runner(*std::move(planned), options_, false, options_.threads).Run(inputs);
  }

 private:
  std::unique_ptr<ir::Program> program_;
  PlanOptions options_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ir::PreparedProgram>> PlanEvaluator::Prepare(std::unique_ptr<ir::Program> p,
                                                                            absl::Span<const std::string> observe) {
  for (const std::string& name : observe) {
    ir::Value* v = p->graph->FindValue(name);
    if (!v) return absl::NotFoundError(text::StrCat("the program has no value %", name));
    p->graph->outputs.emplace_back(v);
    p->output_specs.push_back({});
  }
  auto prepared = std::make_unique<PreparedPlan>(std::move(p), options_);
  if (absl::Status s = prepared->Plan(); !s.ok()) return s;
  return prepared;
}

}  // namespace slipway::planner
