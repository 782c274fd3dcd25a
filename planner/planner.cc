// See planner.h.
#include "planner/planner.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "planner/bind.h"
#include "planner/rules.h"

namespace slipway::planner {
namespace {

using kernels::Buffer;

// A weight as an operand: read where it lies; a copy where it lies badly for its dtype or is made by a rule.
absl::StatusOr<Operand> BindWeight(const ir::TensorRef& t, PlanBuilder& b) {
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
  Operand x{0, 0, t.dtype, source.sizes, source.strides};
  x.buffer = b.AddBuffer({.kind = Buffer::kConstant,
                          .bytes = static_cast<int64_t>(source.storage->size) - source.offset,
                          .constant = source.numel() == 0 ? nullptr : address(source)});
  b.out().storages.push_back(source.storage);
  return x;
}

absl::Status At(const ir::Value& v, const absl::Status& s) {
  return absl::Status(s.code(), text::StrCat("%", v.name(), ": ", text::FromAbsl(s.message())));
}

bool IsKnownNumber(const ir::Value& v) {
  const ir::Type& t = v.type();
  return (t.kind == ir::Type::kSymInt && t.expr.is_constant()) ||
         (t.kind == ir::Type::kSymFloat && t.expr.kind() == ir::SymKind::kFloat) ||
         (t.kind == ir::Type::kSymBool && t.expr.kind() == ir::SymKind::kBool);
}

absl::Status BindInputs(const ir::Program& p, PlanBuilder& b) {
  int slot = 0;
  for (size_t i = 0; i < p.graph->inputs().size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    const ir::InputSpec& spec = p.input_specs[i];
    if (spec.kind == ir::InputSpec::kUser) {
      if (v->type().kind == ir::Type::kConstant) continue;
      if (IsKnownNumber(*v)) {
        b.out().inputs.push_back({DType::kInt64, {}});
        ++slot;
        continue;
      }
      auto sizes = v->type().is_tensor() ? v->type().StaticSizes() : std::nullopt;
      if (!sizes || !NativeType(v->dtype()))
        return absl::UnimplementedError(text::StrCat("input %", v->name(), " is ", v->type().ToString()));
      if (sizes->size() > kernels::kMaxRank) return absl::UnimplementedError("a tensor of too many dims");
      Operand x{0, 0, v->dtype(), *sizes, ir::ContiguousStrides(*sizes)};
      x.buffer = b.AddBuffer({.kind = Buffer::kInput, .bytes = x.numel() * ir::ByteSize(x.dtype), .slot = slot++});
      b.out().inputs.push_back({x.dtype, *sizes});
      b.values[v] = std::move(x);
      continue;
    }
    auto weight = p.weights.find(spec.target);
    if (weight == p.weights.end() || v->users().empty()) continue;  // what needs it says so
    auto x = BindWeight(weight->second, b);
    if (!x.ok()) return At(*v, x.status());
    b.values[v] = *std::move(x);
  }
  return absl::OkStatus();
}

absl::Status PlanNode(const ir::Node& n, PlanBuilder& b) {
  // Numbers that are known need nobody to compute them: their types say them.
  bool known = !n.outputs().empty();
  for (const ir::Value* v : n.outputs()) known = known && v && IsKnownNumber(*v);
  if (known) return absl::OkStatus();
  const PlanRow* row = FindPlanRow(n.op_name());
  if (!row) return absl::UnimplementedError(text::StrCat(n.op_name(), ": no kernel"));
  b.out().origins.emplace_back(n.op_name());
  PlanContext c(n, b, row->kernel);
  row->fn(c);
  if (!c.ok()) return c.status();
  for (size_t i = 0; i < n.outputs().size(); ++i) {
    const ir::Value* v = n.output(i);
    if (!v) continue;
    if (i >= c.results().size() || !c.results()[i]) {
      if (!c.used(i)) continue;
      return absl::UnimplementedError(text::StrCat(n.op_name(), ": result ", i, " is used"));
    }
    Operand& x = c.results()[i];
    // A rule that gives another type than the program states is a mistake that must not become a wrong number.
    const Ints declared = c.out_sizes(i);
    if (!c.ok()) return c.status();
    if (x.dtype != v->dtype() || x.sizes != declared)
      return absl::InternalError(text::StrCat(n.op_name(), ": planned as ", ir::Name(x.dtype), "[",
                                              text::Join(x.sizes, ","), "], declared as ", v->type().ToString()));
    b.values[v] = std::move(x);
  }
  return absl::OkStatus();
}

// Results into the caller's memory.
absl::Status BindOutputs(const ir::Program& p, PlanBuilder& b) {
  PlannedProgram& out = b.out();
  out.origins.emplace_back("return");
  for (size_t i = 0; i < p.graph->outputs.size(); ++i) {
    const ir::Value* v = p.graph->outputs[i].value();
    auto x = v ? b.values.find(v) : b.values.end();
    if (x == b.values.end())
      return absl::UnimplementedError(text::StrCat("output ", i, " is not a tensor that kernels know"));
    Operand to{0, 0, x->second.dtype, x->second.sizes, ir::ContiguousStrides(x->second.sizes)};
    to.buffer = b.AddBuffer(
        {.kind = Buffer::kOutput, .bytes = to.numel() * ir::ByteSize(to.dtype), .slot = static_cast<int>(i)});
    out.outputs.push_back({to.dtype, to.sizes});
    kernels::Step step;
    step.kernel = kernels::FindKernel("copy");
    step.in = {b.AddView(x->second)};
    step.out = {b.AddView(to)};
    step.compute = *NativeType(to.dtype);
    step.origin = static_cast<int>(out.origins.size()) - 1;
    out.plan.steps.push_back(std::move(step));
  }
  return absl::OkStatus();
}

void FindLastUses(kernels::Plan& plan) {
  std::vector<int> last(plan.buffers.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i)
    for (const auto* views : {&plan.steps[i].in, &plan.steps[i].out})
      for (int v : *views) last[plan.views[v].buffer] = static_cast<int>(i);
  for (size_t b = 0; b < last.size(); ++b)
    if (last[b] >= 0 && plan.buffers[b].kind == Buffer::kTemporary)
      plan.steps[last[b]].last_of.push_back(static_cast<int>(b));
}

}  // namespace

bool NativeLegal(const ir::Node& n) { return FindPlanRow(n.op_name()) != nullptr; }

absl::StatusOr<PlannedProgram> MakePlan(const ir::Program& p, const PlanOptions& options) {
  if (p.form != ir::Form::kFunctional) return absl::InvalidArgumentError("a plan is made of a functional program");
  PlannedProgram out;
  PlanBuilder b(out, options);
  if (absl::Status s = BindInputs(p, b); !s.ok()) return s;
  for (const ir::Node* n : *p.graph)
    if (absl::Status s = PlanNode(*n, b); !s.ok()) return s;
  if (absl::Status s = BindOutputs(p, b); !s.ok()) return s;
  FindLastUses(out.plan);
  return out;
}

bool PlanEvaluator::Supports(const ir::Node& n) const {
  return NativeLegal(n) || passes::FindDecomposition(n.op_name());
}

absl::StatusOr<std::vector<ir::TensorRef>> PlanEvaluator::Evaluate(ir::Program& p,
                                                                   absl::Span<const ir::TensorRef> inputs) {
  if (absl::Status s = BindSymbols(p, inputs); !s.ok()) return s;
  passes::Refusals refusals;
  if (absl::Status s = passes::Legalize(p, NativeLegal, &refusals); !s.ok()) return s;
  for (const ir::Node* n : *p.graph) {
    if (auto why = refusals.find(n); why != refusals.end()) return why->second;
  }
  auto planned = MakePlan(p, options_);
  if (!planned.ok()) return planned.status();
  std::vector<std::string> in(inputs.size()), out(planned->outputs.size());
  std::vector<const void*> in_data;
  std::vector<void*> out_data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto dense = ir::ReadDense(inputs[i], options_.memory_limit);
    if (!dense.ok()) return dense.status();
    in[i] = *std::move(dense);
    in_data.push_back(in[i].data());
  }
  for (size_t i = 0; i < out.size(); ++i) {
    uint64_t bytes = ir::ByteSize(planned->outputs[i].dtype);
    for (int64_t s : planned->outputs[i].sizes) bytes *= s;
    if (bytes > options_.memory_limit)
      return absl::ResourceExhaustedError(text::StrCat("a result of ", bytes, " bytes"));
    out[i].resize(bytes);
    out_data.push_back(out[i].data());
  }
  const kernels::RunResult result = kernels::Run(planned->plan, in_data, out_data);
  if (result.why)
    return absl::InvalidArgumentError(
        text::StrCat(planned->origins[planned->plan.steps[result.step].origin], ": ", result.why));
  std::vector<ir::TensorRef> tensors;
  for (size_t i = 0; i < out.size(); ++i)
    tensors.push_back(ir::OwnedTensor(planned->outputs[i].dtype, planned->outputs[i].sizes, std::move(out[i])));
  return tensors;
}

}  // namespace slipway::planner
