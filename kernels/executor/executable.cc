// From a plan of unknown origin to an Executable. Validate checks the range of every index, so that nothing after it
// has to; then comes
// what follows from the tables: in which stage each number is known, how long buffers live, which results may take over
// the memory of an operand, which results may overlap something and are checked at each run.
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "kernels/conv/conv_half.h"
#include "kernels/conv/filters.h"
#include "kernels/executor/execute.h"
#include "kernels/executor/step_call.h"
#include "kernels/gemm/packing.h"

namespace slipway::kernels {
namespace {

template <typename T>
bool In(int64_t i, const std::vector<T>& table) {
  return i >= 0 && i < static_cast<int64_t>(table.size());
}
template <typename T>
bool RangeIn(int64_t first, int64_t count, const std::vector<T>& table) {
  return first >= 0 && count >= 0 && first <= static_cast<int64_t>(table.size()) &&
         count <= static_cast<int64_t>(table.size()) - first;
}
// Of views with memory in common.
bool SameElements(const Plan& p, const View& a, const View& b) {
  return ByteSize(a.dtype) == ByteSize(b.dtype) && a.rank == b.rank && a.offset == b.offset &&
         std::equal(p.dims.begin() + a.first_dim, p.dims.begin() + a.first_dim + 2 * a.rank,
                    p.dims.begin() + b.first_dim);
}
bool IsDType(DType t) { return static_cast<int>(t) < kDTypes; }

}  // namespace

// Every number of a plan that the executor uses as an index or a count, table by table; empty where all are valid.
std::string Executable::Validate() {
  const Plan& p = plan_;
  constexpr size_t kLimit = size_t{1} << 28;
  for (size_t n :
       {p.symbols.size(), p.exprs.size(), p.inputs.size(), p.outputs.size(), p.bindings.size(), p.checks.size(),
        p.buffers.size(), p.dims.size(), p.views.size(), p.numbers.size(), p.steps.size(), p.ops.size()})
    if (n > kLimit) return "a table is too long";
  auto exprs = [&](const std::vector<int32_t>& list) {
    return std::all_of(list.begin(), list.end(), [&](int32_t e) { return In(e, p.exprs); });
  };
  for (size_t i = 0; i < p.exprs.size(); ++i) {
    const Expr& e = p.exprs[i];
    if (static_cast<int>(e.op) >= Expr::kOps) return "an unknown operation";
    const int32_t operands[] = {e.a, e.b, e.c};
    for (int k = 0; k < Operands(e.op); ++k)
      if (operands[k] < 0 || operands[k] >= static_cast<int64_t>(i)) return "an expression's operand is not before it";
    if (e.op == Expr::kSymbol && !In(e.value, p.symbols)) return "no such symbol";
  }
  for (const Input& in : p.inputs) {
    if (!IsDType(in.dtype) || in.sizes.size() > kMaxRank || !exprs(in.sizes)) return "an input is malformed";
    if (in.kind > Input::kUnused || (in.value != -1 && !In(in.value, p.exprs))) return "an input is malformed";
  }
  for (const Output& out : p.outputs)
    if (!IsDType(out.dtype) || out.sizes.size() > kMaxRank || !exprs(out.sizes)) return "an output is malformed";
  for (const Binding& b : p.bindings) {
    if (!In(b.symbol, p.symbols) || !In(b.input, p.inputs) || b.scale == 0) return "a binding is malformed";
    const Input& in = p.inputs[b.input];
    if (in.kind == Input::kTensor ? !In(b.dim, in.sizes) : in.kind != Input::kNumber || b.dim != -1)
      return "a binding is malformed";
  }
  for (const Check& c : p.checks)
    if (!In(c.expr, p.exprs)) return "a check is malformed";
  std::vector<uint8_t> is_state(p.inputs.size(), 0);  // 1: without a buffer yet
  for (const State& s : p.states) {
    if (!In(s.input, p.inputs)) return "a state is malformed";
    is_state[s.input] = 1;
  }
  std::vector<uint8_t> has_memory(p.outputs.size(), 0);
  for (const Buffer& b : p.buffers) {
    if (b.kind > Buffer::kState || !In(b.bytes, p.exprs)) return "a buffer is malformed";
    if ((b.kind == Buffer::kInput || b.kind == Buffer::kState) && !In(b.slot, p.inputs))
      return "a buffer is of no input";
    if (b.kind == Buffer::kState && (is_state[b.slot]++ != 1)) return "a buffer is of no state";
    if (b.kind == Buffer::kOutput && (!In(b.slot, p.outputs) || has_memory[b.slot]++))
      return "a buffer is of no output";
    if (b.packed && b.kind != Buffer::kConstant) return "a buffer is packed";
    if (b.kind == Buffer::kConstant && p.exprs[b.bytes].op != Expr::kInt) return "a constant's size is not known";
  }
  if (std::find(has_memory.begin(), has_memory.end(), 0) != has_memory.end()) return "an output without a buffer";
  if (std::string what = ValidateStates(); !what.empty()) return what;
  if (!exprs(p.dims) || !exprs(p.numbers)) return "no such expression";
  for (const View& v : p.views) {
    if (!In(v.buffer, p.buffers) || !IsDType(v.dtype) || v.rank < 0 || v.rank > kMaxRank || !In(v.offset, p.exprs) ||
        !RangeIn(v.first_dim, int64_t{2} * v.rank, p.dims))
      return "a view is malformed";
  }
  for (const ChainOp& o : p.ops) {
    bool fits = o.kernel != nullptr && IsDType(o.compute) && !IsStoredOnly(o.compute) && IsDType(o.result) &&
                o.inputs >= o.kernel->inputs && o.inputs >= 1 && o.inputs <= ChainOp::kMaxInputs && o.slot >= 0 &&
                o.slot < kMaxChainOps && o.ints >= 0 && o.floats >= 0;
    // A copy is the one that needs no row function, and takes all types.
    fits = fits && (o.kernel->row ? !IsStoredOnly(o.result) : o.kernel->name == "copy");
    if (!fits) return "an operation of a chain is malformed";
  }
  int64_t all_views = 0, backward = 0;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    const int64_t views = int64_t{s.inputs} + s.outputs, numbers = int64_t{s.ints} + s.floats;
    bool fits = s.kind <= Step::kCheck && s.inputs >= 0 && s.outputs >= 0 && s.ints >= 0 && s.floats >= 0 &&
                RangeIn(s.first_view, views, p.views) && RangeIn(s.first_number, numbers, p.numbers) &&
                IsDType(s.compute);
    switch (s.kind) {
      case Step::kKernel:
        fits = fits && s.kernel != nullptr && s.inputs >= s.kernel->inputs && s.outputs >= s.kernel->outputs &&
               !IsStoredOnly(s.compute);
        if (fits && (s.ops != 0 || s.kernel->name == "chain")) fits = s.kernel->name == "chain" && ValidateChain(s);
        for (int64_t k = 0; fits && !s.kernel->any_type && k < views; ++k)
          fits = !IsStoredOnly(p.views[s.first_view + k].dtype);
        for (int64_t k = 0; fits && k < s.outputs; ++k) {
          const Buffer& b = p.buffers[p.views[s.first_view + s.inputs + k].buffer];
          fits = b.kind == Buffer::kTemporary || b.kind == Buffer::kOutput || b.kind == Buffer::kState;
        }
        break;
      case Step::kPublish: fits = fits && In(s.symbol, p.symbols) && s.inputs == 1 && s.outputs == 0; break;
      case Step::kSet: fits = fits && In(s.symbol, p.symbols) && In(s.expr, p.exprs) && views == 0; break;
      case Step::kJump:
      case Step::kUnless:
        fits = fits && s.target >= 0 && s.target <= static_cast<int64_t>(p.steps.size()) && In(s.expr, p.exprs) &&
               views == 0;
        break;
      case Step::kCheck: fits = fits && In(s.expr, p.exprs) && In(s.target, p.texts) && views == 0; break;
    }
    for (int64_t k = 0; fits && k < views; ++k) {
      const View& v = p.views[s.first_view + k];
      WeightMatrix matrix;
      const auto& packed = p.buffers[v.buffer].packed;
      fits = !packed || (CanUsePacked(p, s, static_cast<int>(k), packed->packing, &matrix) && matrix == *packed);
    }
    if (!fits) return "a step is malformed";
    all_views += views;
    backward += (s.kind == Step::kJump || s.kind == Step::kUnless) && s.target <= static_cast<int64_t>(i);
    // Work: a view is visited once for each step that has it, a buffer once for each loop.
    if (all_views > static_cast<int64_t>(kLimit) || backward * static_cast<int64_t>(p.buffers.size()) > int64_t{1}
                                                                                                            << 32)
      return "a table is too long";
  }
  return "";
}

// Inputs of states lie behind the caller's; the sizes of their memory are numbers, but for the one that grows, which is
// a symbol.
std::string Executable::ValidateStates() const {
  const Plan& p = plan_;
  constexpr int64_t kMaxBytes = int64_t{1} << 46;
  int64_t next = static_cast<int64_t>(p.inputs.size());
  for (const State& s : p.states) next -= s.length >= 0 ? 2 : 1;
  if (next < 0) return "a state is malformed";
  for (const State& s : p.states) {
    if (s.input != next++ || p.inputs[s.input].kind != Input::kTensor) return "a state is malformed";
    const bool grows = s.length >= 0;
    const Input& in = p.inputs[s.input];
    if (grows &&
        (s.length != next++ || p.inputs[s.length].kind != Input::kNumber || p.inputs[s.length].dtype != DType::kI64 ||
         !In(s.dim, in.sizes) || !In(s.after, p.exprs) || s.initial != -1))
      return "a state is malformed";
    const bool zeros = s.initial == -1;
    if (!grows && (s.dim != -1 || s.after != -1 ||
                   (!zeros && (!In(s.initial, p.buffers) || p.buffers[s.initial].kind != Buffer::kConstant ||
                               p.buffers[s.initial].packed))))
      return "a state is malformed";
    int64_t bytes = ByteSize(in.dtype);
    for (size_t d = 0; d < in.sizes.size(); ++d) {
      const Expr& e = p.exprs[in.sizes[d]];
      if (grows && static_cast<int32_t>(d) == s.dim) {
        if (e.op != Expr::kSymbol) return "a state is malformed";
        continue;
      }
      if (e.op != Expr::kInt || e.value < 0 || __builtin_mul_overflow(bytes, e.value, &bytes) || bytes > kMaxBytes)
        return "a state is malformed";
    }
    if (!grows && !zeros && p.exprs[p.buffers[s.initial].bytes].value != bytes) return "a state is malformed";
  }
  return "";
}

// The lengths of states after a run, and the expressions that they are made of, in order.
void Executable::FindLengths() {
  const Plan& p = plan_;
  std::vector<uint8_t> needed(p.exprs.size(), 0);
  for (const State& s : p.states)
    if (s.after >= 0) needed[s.after] = 1;
  for (size_t i = p.exprs.size(); i-- > 0;) {
    const Expr& e = p.exprs[i];
    const int32_t operands[] = {e.a, e.b, e.c};
    for (int k = 0; needed[i] && k < Operands(e.op); ++k) needed[operands[k]] = 1;
  }
  for (size_t i = 0; i < needed.size(); ++i)
    if (needed[i]) lengths_.push_back(static_cast<int32_t>(i));
}

bool Executable::ValidateChain(const Step& s) const {
  const Plan& p = plan_;
  if (s.ops < 1 || s.ops > kMaxChainOps || !RangeIn(s.first_op, s.ops, p.ops) || s.outputs < 1 ||
      int64_t{s.inputs} + s.outputs > kMaxChainTensors)
    return false;
  const ChainOp* ops = p.ops.data() + s.first_op;
  auto type = [&](int in) { return in >= 0 ? p.views[s.first_view + in].dtype : ops[~in].result; };
  int64_t ints = 0, floats = 0;
  std::vector<uint8_t> given(static_cast<size_t>(s.outputs), 0);
  for (int32_t k = 0; k < s.ops; ++k) {
    const ChainOp& o = ops[k];
    for (int i = 0; i < o.inputs; ++i) {
      if (o.in[i] >= s.inputs || ~o.in[i] >= k) return false;
      if (o.kernel->row && IsStoredOnly(type(o.in[i]))) return false;
    }
    if (o.output >= s.outputs) return false;
    if (o.output >= 0 && (given[o.output]++ || p.views[s.first_view + s.inputs + o.output].dtype != o.result))
      return false;
    ints += o.ints, floats += o.floats;
  }
  return ints == s.ints && floats == s.floats && std::find(given.begin(), given.end(), 0) == given.end();
}

void Executable::FindStages() {
  const Plan& p = plan_;
  symbol_stage_.assign(p.symbols.size(), -1);
  for (const Binding& b : p.bindings) symbol_stage_[b.symbol] = 0;
  int32_t stages = 1;
  for (const Step& s : p.steps)
    if ((s.kind == Step::kPublish || s.kind == Step::kSet) && symbol_stage_[s.symbol] <= 0)
      symbol_stage_[s.symbol] = stages++;
  stages_.resize(stages);
  expr_stage_.assign(p.exprs.size(), 0);
  for (size_t i = 0; i < p.exprs.size(); ++i) {
    const Expr& e = p.exprs[i];
    int32_t& stage = expr_stage_[i];
    // A symbol without a source never has a value.
    if (e.op == Expr::kSymbol) stage = std::max(0, symbol_stage_[e.value]);
    const int32_t operands[] = {e.a, e.b, e.c};
    for (int k = 0; k < Operands(e.op); ++k) stage = std::max(stage, expr_stage_[operands[k]]);
    stages_[stage].exprs.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < p.checks.size(); ++i)
    stages_[expr_stage_[p.checks[i].expr]].checks.push_back(static_cast<int32_t>(i));
  for (const Buffer& b : p.buffers) buffer_stage_.push_back(expr_stage_[b.bytes]);
  output_buffer_.resize(p.outputs.size());
  for (size_t b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].kind == Buffer::kOutput) output_buffer_[p.buffers[b].slot] = static_cast<int32_t>(b);
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    int32_t stage = 0;
    for (int32_t e : p.outputs[i].sizes) stage = std::max(stage, expr_stage_[e]);
    stages_[stage].outputs.push_back(static_cast<int32_t>(i));
    buffer_stage_[output_buffer_[i]] = stage;
  }
}

void Executable::FindLifetimes() {
  const Plan& p = plan_;
  const int32_t none = static_cast<int32_t>(p.steps.size());
  life_.assign(p.buffers.size(), {none, -1});
  for (int32_t i = 0; i < none; ++i) {
    const Step& s = p.steps[i];
    for (int32_t k = 0; k < s.inputs + s.outputs; ++k) {
      Lifetime& l = life_[p.views[s.first_view + k].buffer];
      l.first = std::min(l.first, i);
      l.last = i;
    }
  }
  // What a loop uses of before it lives to its end, and what it leaves behind is alive from its beginning: a step
  // writes a part of it in each round. Inner loops end first.
  for (int32_t i = 0; i < none; ++i) {
    const Step& s = p.steps[i];
    if ((s.kind != Step::kJump && s.kind != Step::kUnless) || s.target > i) continue;
    for (Lifetime& l : life_) {
      if (l.first < s.target && l.last >= s.target) l.last = std::max(l.last, i);
      if (l.first > s.target && l.first <= i && l.last > i) l.first = s.target;
    }
  }
}

// A result takes over the memory of an operand of the same layout that is not read afterwards: of elementwise steps
// that of any, of other kernels that which they say. Of a chain's results the last operation's may: all operands have
// been read by then.
void Executable::ShareMemory() {
  const Plan& p = plan_;
  root_.resize(p.buffers.size());
  std::iota(root_.begin(), root_.end(), 0);
  overwritten_.assign(p.steps.size(), -1);
  std::vector<Scalar> constants;  // of expressions; those over symbols are not known
  for (int32_t i = 0; i < static_cast<int32_t>(p.steps.size()); ++i) {
    const Step& s = p.steps[i];
    if (s.kind != Step::kKernel || s.outputs < 1 || !(s.kernel->elementwise || s.kernel->overwrites != nullptr))
      continue;
    const int32_t result = s.ops > 0 ? p.ops[s.first_op + s.ops - 1].output : s.outputs - 1;
    if (result < 0 || (s.ops == 0 && s.outputs != 1)) continue;
    const View& out = p.views[s.first_view + s.inputs + result];
    if (p.buffers[out.buffer].kind != Buffer::kTemporary || life_[out.buffer].first != i) continue;
    int32_t begin = 0, end = s.inputs;
    if (!s.kernel->elementwise) {
      if (constants.empty()) {
        const std::vector<Scalar> symbols(p.symbols.size());
        for (const Expr& e : p.exprs) constants.push_back(Evaluate(e, constants, symbols));
      }
      StepCall step;
      begin = step.Bind(p, s, constants) ? s.kernel->overwrites(step.call) : -1;
      if (begin < 0) continue;
      end = begin + 1;
    }
    for (int32_t k = begin; k < end; ++k) {
      const View& in = p.views[s.first_view + k];
      const int32_t root = root_[in.buffer];
      bool fits = p.buffers[in.buffer].kind == Buffer::kTemporary && in.buffer != out.buffer && life_[root].last == i &&
                  p.buffers[root].bytes == p.buffers[out.buffer].bytes && SameElements(p, in, out);
      for (int32_t j = 0; fits && j < s.inputs; ++j) {
        const View& other = p.views[s.first_view + j];
        fits = root_[other.buffer] != root || j == k || (s.kernel->elementwise && SameElements(p, other, out));
      }
      for (int32_t j = 0; fits && j < s.outputs; ++j)
        fits = j == result || root_[p.views[s.first_view + s.inputs + j].buffer] != root;
      if (!fits) continue;
      root_[out.buffer] = root, overwritten_[i] = k;
      life_[root].last = life_[out.buffer].last;
      break;
    }
  }
}

void Executable::FindOverlaps() {
  const Plan& p = plan_;
  written_.resize(p.views.size());
  may_overlap_.resize(p.steps.size());
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    if (s.kind != Step::kKernel) continue;
    std::fill_n(written_.begin() + s.first_view + s.inputs, s.outputs, 1);
    // Of a kernel of very many tensors overlap is only checked when it runs.
    may_overlap_[i] = int64_t{s.outputs} * (s.inputs + s.outputs) > 4096;
    for (int32_t k = s.inputs; k < s.inputs + s.outputs && !may_overlap_[i]; ++k)
      for (int32_t j = 0; j < k && !may_overlap_[i]; ++j) {
        const View &out = p.views[s.first_view + k], &other = p.views[s.first_view + j];
        may_overlap_[i] =
            root_[out.buffer] == root_[other.buffer] &&
            !((s.kernel->elementwise || j == overwritten_[i]) && j < s.inputs && SameElements(p, out, other));
      }
  }
}

void Executable::FillStages() {
  const Plan& p = plan_;
  auto constant = [&](int32_t e) { return p.exprs[e].op == Expr::kInt; };
  for (size_t i = 0; i < p.views.size(); ++i) {
    const View& v = p.views[i];
    int32_t stage = std::max(buffer_stage_[v.buffer], expr_stage_[v.offset]);
    bool fixed = constant(v.offset);
    for (int32_t k = 0; k < 2 * v.rank; ++k) {
      const int32_t e = p.dims[v.first_dim + k];
      stage = std::max(stage, expr_stage_[e]);
      fixed = fixed && constant(e);
    }
    view_stage_.push_back(stage);
    fixed_.push_back(fixed);
    stages_[stage].views.push_back(static_cast<int32_t>(i));
    const Buffer::Kind kind = p.buffers[v.buffer].kind;
    if (kind == Buffer::kInput || kind == Buffer::kOutput || kind == Buffer::kState)
      stages_[stage].callers_views.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    if (p.buffers[i].kind != Buffer::kTemporary || root_[i] != static_cast<int32_t>(i) || life_[i].last < 0) continue;
    stages_[buffer_stage_[i]].temporaries.push_back(static_cast<int32_t>(i));
  }
  // How much scratch a kernel takes is known when all its views and numbers are.
  for (int32_t i = 0; i < static_cast<int32_t>(p.steps.size()); ++i) {
    const Step& s = p.steps[i];
    if (s.kind != Step::kKernel || !s.kernel->queries_workspace) continue;
    int32_t stage = 0;
    for (int32_t k = 0; k < s.inputs + s.outputs; ++k) stage = std::max(stage, view_stage_[s.first_view + k]);
    for (int32_t k = 0; k < s.ints + s.floats; ++k) stage = std::max(stage, expr_stage_[p.numbers[s.first_number + k]]);
    stages_[stage].temporaries.push_back(~i);
  }
  for (Stage& s : stages_) {
    auto life = [&](int32_t t) { return t >= 0 ? life_[t] : Lifetime{~t, ~t}; };
    std::stable_sort(s.temporaries.begin(), s.temporaries.end(),
                     [&](int32_t a, int32_t b) { return life(a).first < life(b).first; });
    for (int32_t t : s.temporaries) s.lifetimes.push_back(life(t));
    s.deaths.resize(s.temporaries.size());
    std::iota(s.deaths.begin(), s.deaths.end(), 0);
    std::stable_sort(s.deaths.begin(), s.deaths.end(),
                     [&](int32_t a, int32_t b) { return s.lifetimes[a].last < s.lifetimes[b].last; });
  }
}

// Once, so that no run does it; the constants themselves may be a mapped file's, which others share. All lie in one
// piece, in large pages where there are such: a run reads most of it once.
bool Executable::WidenFilters() {
  constexpr size_t kLine = 64, kLargePage = size_t{2} << 20;
  const auto bytes_of = [](const Buffer& b) {
    FilterShape wide = FiltersOf(*b.packed);
    wide.pairs = false;
    return (static_cast<size_t>(wide.elements()) * sizeof(float) + kLine - 1) / kLine * kLine;
  };
  std::vector<Buffer*> filters;
  size_t bytes = 0;
  for (Buffer& b : plan_.buffers)
    if (b.packed && b.packed->packing == Packing::kConvFilters && ReadsFiltersAsF32(b.packed->dtype))
      filters.push_back(&b), bytes += bytes_of(b);
  if (filters.empty()) return true;
  const size_t alignment = bytes < kLargePage ? kLine : kLargePage;
  size_t room = bytes + alignment;
  widened_.reset(new (std::nothrow) float[room / sizeof(float)]);
  if (!widened_) return false;
  void* at = widened_.get();
  char* to = static_cast<char*>(std::align(alignment, bytes, at, room));
#if defined(__linux__)
  if (bytes >= kLargePage) madvise(to, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
  for (Buffer* b : filters) {
    kernels::WidenFilters(static_cast<const uint16_t*>(b->constant), b->packed->dtype, FiltersOf(*b->packed),
                          reinterpret_cast<float*>(to));
    b->constant = to, b->widened = true;
    to += bytes_of(*b);
  }
  return true;
}

std::shared_ptr<const Executable> Executable::Make(Plan plan, std::string* why) {
  auto e = std::make_shared<Executable>();
  e->plan_ = std::move(plan);
  if (std::string what = e->Validate(); !what.empty()) {
    *why = std::move(what);
    return nullptr;
  }
  if (!e->WidenFilters()) {
    *why = "out of memory";
    return nullptr;
  }
  e->FindLengths();
  e->FindStages();
  e->FindLifetimes();
  e->ShareMemory();
  e->FindOverlaps();
  e->FillStages();
  return e;
}

}  // namespace slipway::kernels
