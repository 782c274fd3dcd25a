// Operators that join, repeat, shift or pad: copies into views of their result.
#include <algorithm>
#include <limits>
#include <vector>

#include "ir/ops/args.h"
#include "ir/ops/op_table.h"
#include "planner/choose_layouts.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

// Copies of the operands, one after another.
void Join(PlanContext& c, const std::vector<Operand>& parts, int dim) {
  Operand out;
  for (const Operand& x : parts)
    if (!out && c.ok() && x.rank() >= 3 && c.out_sizes().size() == x.sizes.size() && c.builder().IsChannelsLast(x))
      out = c.ResultChannelsLast();
  if (!out) out = c.Result();
  Dim at = 0;
  for (const Operand& x : parts) {
    if (!c.ok()) return;
    if (x.rank() != out.rank()) return c.Fail("the tensors do not fit together");
    Dims sizes = x.sizes;
    sizes[dim] = out.sizes[dim];
    for (int d = 0; d < out.rank(); ++d) c.RequireEqual(sizes[d], out.sizes[d], "the tensors do not fit together");
    c.CopyPart(x, Narrow(out, dim, at, x.sizes[dim]));
    at = at + x.sizes[dim];
  }
  c.RequireEqual(at, out.sizes[dim], "the tensors do not fit together");
  c.Return(out);
}
std::vector<Operand> Tensors(PlanContext& c) {
  std::vector<Operand> out;
  for (ir::Value* v : c.tensors("tensors")) {
    if (!v)
      c.Fail("a tensor is missing");
    else
      out.push_back(c.of(v));
  }
  return out;
}
// The longest concatenation that begins with all parts of `n`, in their order: `n` where there is none longer. Blocks
// that join what all their layers gave, again for each layer, are many that begin alike.
const ir::Node& LongestOf(const ir::Node& n) {
  constexpr size_t kMaxUsers = 256;
  const ir::Node* longest = &n;
  auto parts_of = [](const ir::Node& m) {
    std::vector<const ir::Value*> parts;
    m.Get("tensors").ForEachValue([&](const ir::Value* v) { parts.push_back(v); });
    return parts;
  };
  const std::vector<const ir::Value*> own = parts_of(n);
  if (own.empty() || own[0]->users().size() > kMaxUsers) return n;
  size_t most = own.size();
  auto dim_of = [](const ir::Node& m) { return ir::ArgReader(m).i("dim"); };
  const int64_t dim = dim_of(n);
  for (const ir::Node* m : own[0]->users()) {
    if (m == &n || &m->op() != &n.op() || m->output()->dtype() != n.output()->dtype() || dim_of(*m) != dim) continue;
    if (m->output()->graph() != n.output()->graph() || m->output()->graph()->IsOutput(m->output()) ||
        !m->output()->type().StaticSizes())
      continue;
    const std::vector<const ir::Value*> others = parts_of(*m);
    if (others.size() > most && std::equal(own.begin(), own.end(), others.begin())) longest = m, most = others.size();
  }
  return *longest;
}
// Writes the parts that the shared memory does not have yet; the result is its beginning. False where it is not to be
// shared: only images with channels last and what has nothing but dims of size 1 in front stay what kernels read as
// fast as if they were dense.
bool JoinShared(PlanContext& c, const std::vector<Operand>& parts, int dim) {
  const ir::Node& n = c.node();
  if (n.output()->graph()->IsOutput(n.output()) || !n.output()->type().StaticSizes()) return false;
  for (const Operand& x : parts)
    if (x.rank() != static_cast<int>(c.out_sizes().size())) return false;
  const ir::Node& longest = LongestOf(n);
  auto& joined = c.builder().joined;
  auto at = joined.find(&longest);
  if (at == joined.end()) {
    if (&longest == &n) return false;
    const Dims sizes(longest.output()->sizes().begin(), longest.output()->sizes().end());
    bool last = false, in_front = true;
    for (const Operand& x : parts) last = last || (sizes.size() >= 3 && dim == 1 && c.builder().IsChannelsLast(x));
    for (int d = 0; d < dim; ++d) in_front = in_front && sizes[d].is(1);
    if (!last && !in_front) return false;
    at = joined
             .emplace(&longest, PlanBuilder::Joined{last ? c.TempChannelsLast(c.out_dtype(), sizes)
                                                         : c.Temp(c.out_dtype(), sizes)})
             .first;
  }
  PlanBuilder::Joined& j = at->second;
  Dim end = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Operand& x = parts[i];
    Dims sizes = x.sizes;
    sizes[dim] = j.out.sizes[dim];
    for (int d = 0; d < j.out.rank(); ++d) c.RequireEqual(sizes[d], j.out.sizes[d], "the tensors do not fit together");
    if (i >= j.parts) {
      c.Copy(x, Narrow(j.out, dim, j.end, x.sizes[dim]));
      j.end = j.end + x.sizes[dim], j.parts = i + 1;
    }
    end = end + x.sizes[dim];
  }
  c.RequireEqual(end, c.out_sizes()[dim], "the tensors do not fit together");
  c.Return(Narrow(j.out, dim, 0, end));
  return true;
}
void Concatenated(PlanContext& c) {
  std::vector<Operand> parts = Tensors(c);
  const int rank = static_cast<int>(c.out_sizes().size());
  if (rank == 0) return c.Fail("of 0-d tensors");
  if (c.ok() && JoinShared(c, parts, c.dim("dim", rank))) return;
  // Vectors of nothing join with everything.
  std::erase_if(parts, [&](const Operand& x) { return x.rank() == 1 && x.sizes[0].is(0) && rank > 1; });
  Join(c, parts, c.dim("dim", rank));
}
// Behind a part of a state, where there is room; what lies before it is as it was.
void Appended(PlanContext& c) {
  Operand past = c.in("past");
  std::vector<Operand> parts = Tensors(c);
  if (!c.ok()) return;
  if (c.builder().out().plan.buffers[past.buffer].kind != kernels::Buffer::kState)
    return c.Unsupported("behind what is no state");
  const int dim = c.dim("dim", past.rank());
  Operand out = past;
  Dim at = past.sizes[dim];
  out.sizes[dim] = c.out_sizes()[dim];
  for (Operand& x : parts) {
    if (!c.ok()) return;
    if (x.rank() != out.rank()) return c.Fail("the tensors do not fit together");
    if (x.buffer == past.buffer) {  // no step reads and writes the same memory
      Operand held = c.Temp(x.dtype, x.sizes);
      c.Copy(x, held);
      x = held;
    }
    Dims sizes = out.sizes;
    sizes[dim] = x.sizes[dim];
    for (int d = 0; d < out.rank(); ++d) c.RequireEqual(x.sizes[d], sizes[d], "the tensors do not fit together");
    c.Copy(x, Narrow(out, dim, at, x.sizes[dim]));
    at = at + x.sizes[dim];
  }
  c.RequireEqual(at, out.sizes[dim], "the tensors do not fit together");
  c.Return(out);
}
void Stacked(PlanContext& c) {
  std::vector<Operand> parts = Tensors(c);
  const int dim = c.dim("dim", static_cast<int>(c.out_sizes().size()));
  for (Operand& x : parts) {
    if (dim > x.rank()) return c.Fail("the tensors do not fit together");
    x = Unsqueeze(x, dim);
  }
  Join(c, parts, dim);
}
void Repeated(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result();
  if (!c.ok()) return;
  if (x.rank() > out.rank()) return c.Fail("fewer dims than the tensor has");
  while (x.rank() < out.rank()) x = Unsqueeze(std::move(x), 0);
  // Each dim of the result as (times, size): the times are expanded.
  const Dims repeats = c.ns(c.node().op().ArgIndex("repeats") >= 0 ? "repeats" : "dims");
  Operand from = x, to = out;
  from.sizes.clear(), from.strides.clear(), to.sizes.clear(), to.strides.clear();
  for (int d = 0; d < out.rank(); ++d) {
    const int at = d + static_cast<int>(repeats.size()) - out.rank();
    const Dim times = at < 0 ? Dim(1) : repeats[at];
    c.RequireEqual(times * x.sizes[d], out.sizes[d], "the sizes do not agree");
    if (!times.is(1)) {
      from.sizes.push_back(times), from.strides.push_back(0);
      to.sizes.push_back(times), to.strides.push_back(out.strides[d] * x.sizes[d]);
    }
    from.sizes.push_back(x.sizes[d]), from.strides.push_back(x.strides[d]);
    to.sizes.push_back(x.sizes[d]), to.strides.push_back(out.strides[d]);
  }
  if (from.rank() > kernels::kMaxRank) return c.Unsupported("of so many dims");
  if (!KnownZero(out.sizes)) c.Copy(from, to);
  c.Return(out);
}
void Rolled(PlanContext& c) {
  Operand x = c.in("self");
  const Dims shifts = c.ns("shifts");
  std::vector<int> dims = c.dims("dims", x.rank(), false);
  const Dims sizes = x.sizes;
  if (c.ints("dims").empty()) {
    x = c.Reshape(x, {x.numel()});
    dims = {0};
  }
  if (shifts.size() != dims.size() || x.rank() == 0) return c.Unsupported("of these dims");
  for (size_t i = 0; i < dims.size() && c.ok(); ++i) {
    const int d = dims[i];
    const Dim n = x.sizes[d];
    if (n.is(0)) continue;
    const Dim shift = ir::Mod(shifts[i], KnownLessEqual(1, n) ? n : ir::Max(n, 1));
    Operand y = c.Temp(x.dtype, x.sizes);
    c.Copy(Narrow(x, d, 0, n - shift), Narrow(y, d, shift, n - shift));
    c.Copy(Narrow(x, d, n - shift, shift), Narrow(y, d, 0, shift));
    x = y;
  }
  c.Return(c.Reshape(x, sizes));
}
// A dim at a time.
void PadEdges(PlanContext& c, Operand x, const Dims& pad, kernels::EdgeMode mode) {
  if (pad.size() % 2 != 0 || static_cast<int>(pad.size()) > 2 * x.rank()) return c.Fail("pad does not fit the tensor");
  for (size_t k = 0; k < pad.size() / 2 && c.ok(); ++k) {
    const int d = x.rank() - 1 - static_cast<int>(k);
    if (pad[2 * k].is(0) && pad[2 * k + 1].is(0)) continue;
    Dims sizes = x.sizes;
    sizes[d] = sizes[d] + pad[2 * k] + pad[2 * k + 1];
    Operand y = c.Temp(x.dtype, sizes);
    c.Emit("edges", {MoveToLast(x, {d})}, {MoveToLast(y, {d})}, x.dtype, EdgesAttributes{mode, pad[2 * k]});
    x = y;
  }
  c.Return(x);
}
void Reflected(PlanContext& c) { PadEdges(c, c.in("self"), c.ns("padding"), kernels::EdgeMode::kReflect); }
void Replicated(PlanContext& c) { PadEdges(c, c.in("self"), c.ns("padding"), kernels::EdgeMode::kReplicate); }
void Wrapped(PlanContext& c) { PadEdges(c, c.in("self"), c.ns("pad"), kernels::EdgeMode::kWrap); }
void Padded(PlanContext& c) {
  Operand x = c.in("self");
  const Dims pad = c.ns("pad");
  for (Dim v : pad) c.Shift(v.constant().value_or(0));
  if (!PadsByConstant(c.node())) {
    const std::string mode = c.str("mode");
    if (mode != "reflect" && mode != "replicate" && mode != "circular")
      return c.Fail(text::StrCat("mode=\"", mode, "\""));
    using enum kernels::EdgeMode;
    return PadEdges(c, x, pad, mode == "reflect" ? kReflect : mode == "replicate" ? kReplicate : kWrap);
  }
  if (pad.size() % 2 != 0 || static_cast<int>(pad.size()) > 2 * x.rank()) return c.Fail("pad does not fit the tensor");
  ir::Scalar value;
  if (auto given = c.opt_scalar("value")) value = *given;
  Operand out = c.ResultLike(x);
  if (!c.ok()) return;
  Operand from = x, to = out;
  const auto fill = [&](int d, Dim begin, Dim length) {
    if (!length.is(0)) c.Fill(Narrow(to, d, begin, length), value);
  };
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    const int d = x.rank() - 1 - static_cast<int>(k);
    const Dim cut = ir::Max(0, -pad[2 * k]), cut_end = ir::Max(0, -pad[2 * k + 1]);
    const Dim length = x.sizes[d] - cut - cut_end;
    c.RequireLessEqual(0, length, "pad does not fit the tensor");
    from = Narrow(from, d, cut, length);
    const Dim before = ir::Max(0, pad[2 * k]), after = ir::Max(0, pad[2 * k + 1]);
    fill(d, 0, before);
    fill(d, before + length, after);
    to = Narrow(to, d, before, length);
  }
  c.Copy(from, to);
  c.Return(out);
}

constexpr PlanFamily kConcatFamilies[] = {
    {Concatenated, "", "cat concat concatenate"},
    {Appended, "", "/slipway.append.default"},
    {Stacked, "", "stack"},
    {Repeated, "", "repeat tile"},
    {Rolled, "", "roll"},
    {Padded, "", "constant_pad_nd pad"},
    {Reflected, "edges", "reflection_pad1d reflection_pad2d reflection_pad3d"},
    {Replicated, "edges", "replication_pad1d replication_pad2d replication_pad3d"},
    {Wrapped, "edges", "_pad_circular"},
};

}  // namespace

absl::Span<const PlanFamily> ConcatPlans() { return kConcatFamilies; }

}  // namespace slipway::planner
