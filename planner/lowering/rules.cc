// The vocabulary of the planner's tables: views, buffers, calls.
#include "planner/lowering/rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "base/dtypes.h"
#include "base/text.h"
#include "ir/ops/op_table.h"
#include "ir/tensor.h"

namespace slipway::planner {

std::optional<kernels::DType> NativeType(DType t) {
  const int kernel = kElementTypes[static_cast<size_t>(t)].kernel;
  return kernel >= 0 ? std::optional(static_cast<kernels::DType>(kernel)) : std::nullopt;
}
DType FromNative(kernels::DType t) {
  return static_cast<DType>(FindElementType(&ElementType::kernel, static_cast<int>(t)));
}

Dim Product(absl::Span<const Dim> sizes) {
  Dim n = 1;
  for (Dim s : sizes) n = n * s;
  return n;
}
Dims ContiguousStrides(absl::Span<const Dim> sizes) {
  Dims strides(sizes.size());
  Dim step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step = step * sizes[d];
  }
  return strides;
}
bool Operand::is_contiguous() const {
  if (KnownZero(sizes)) return true;
  Dim step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (!sizes[d].is(1) && !KnownEqual(strides[d], step)) return false;
    step = step * sizes[d];
  }
  return true;
}

Operand Permute(const Operand& x, const std::vector<int>& order) {
  Operand y = x;
  for (size_t d = 0; d < order.size(); ++d) y.sizes[d] = x.sizes[order[d]], y.strides[d] = x.strides[order[d]];
  return y;
}
Operand Swap(Operand x, int a, int b) {
  std::swap(x.sizes[a], x.sizes[b]);
  std::swap(x.strides[a], x.strides[b]);
  return x;
}
Operand MoveToLast(const Operand& x, const std::vector<int>& dims) {
  std::vector<int> order;
  for (int d = 0; d < x.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  order.insert(order.end(), dims.begin(), dims.end());
  return Permute(x, order);
}
Operand MoveToFront(const Operand& x, const std::vector<int>& dims) {
  std::vector<int> order = dims;
  for (int d = 0; d < x.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  return Permute(x, order);
}
Operand Unsqueeze(Operand x, int dim) {
  x.sizes.insert(x.sizes.begin() + dim, 1);
  x.strides.insert(x.strides.begin() + dim, 0);
  return x;
}
Operand Drop(Operand x, int dim) {
  x.sizes.erase(x.sizes.begin() + dim);
  x.strides.erase(x.strides.begin() + dim);
  return x;
}
Operand Narrow(Operand x, int dim, Dim start, Dim length, Dim step) {
  x.offset = x.offset + start * x.strides[dim] * ir::ByteSize(x.dtype);
  x.sizes[dim] = length;
  x.strides[dim] = x.strides[dim] * step;
  return x;
}
Operand Select(Operand x, int dim, Dim index) { return Drop(Narrow(std::move(x), dim, index, 1), dim); }
Operand Diagonal(Operand x, Dim offset, int a, int b) {
  const Dim right = ir::Max(offset, 0), down = ir::Max(-offset, 0);
  const Dim length = ir::Max(0, ir::Min(x.sizes[a] - down, x.sizes[b] - right));
  x.offset = x.offset + (right * x.strides[b] + down * x.strides[a]) * ir::ByteSize(x.dtype);
  const Dim stride = x.strides[a] + x.strides[b];
  x = Drop(Drop(std::move(x), std::max(a, b)), std::min(a, b));
  x.sizes.push_back(length);
  x.strides.push_back(stride);
  return x;
}
bool ChannelsLast(const Operand& x) {
  return x.rank() >= 3 && x.strides[1].is(1) &&
         (x.rank() == 3 || KnownEqual(x.strides[x.rank() - 2], x.sizes[x.rank() - 1] * x.strides[x.rank() - 1])) &&
         KnownLessEqual(x.sizes[1], x.strides[x.rank() - 1]);
}
Operand AtLeast1d(Operand x) { return x.rank() == 0 ? Unsqueeze(std::move(x), 0) : x; }

Operand PlanContext::of(const ir::Value* v) {
  auto it = b_.values.find(v);
  if (it != b_.values.end()) return it->second;
  if (v->producer() && v->type().is_tensor()) Bug(text::StrCat("%", v->name(), " is read and no step before gives it"));
  Unsupported(text::StrCat("%", v->name(), " (", v->type().ToString(), ") is no tensor that kernels know"));
  return {0, 0, DType::kFloat32, {}, {}};
}
Operand PlanContext::in(std::string_view name) {
  const ir::Arg& a = node_.Get(name);
  if (ir::Value* v = a.value(); v && v->type().is_tensor()) return of(v);
  if (auto s = opt_scalar(name); s && ok()) return number(*s);
  Fail(text::StrCat("argument '", name, "' is missing"));
  return {0, 0, DType::kFloat32, {}, {}};
}
Operand PlanContext::in(size_t i) { return in(node_.op().args[i].name); }
Operand PlanContext::opt_in(std::string_view name) { return has(name) ? in(name) : Operand{}; }
std::optional<Dim> PlanContext::expr(const ir::Scalar& s) {
  if (s.kind == ir::Scalar::kInt || s.kind == ir::Scalar::kBool) return s.i;
  if (s.kind == ir::Scalar::kFloat) return syms().Float(s.d);
  if (s.kind == ir::Scalar::kValue && s.value->type().is_sym()) return s.value->type().expr;
  return std::nullopt;
}
Operand PlanContext::number(const ir::Scalar& s) {
  Operand x{-1, 0, DType::kInt64, {}, {}};
  std::array<char, 8> bytes;
  switch (s.kind) {
    case ir::Scalar::kInt:
    case ir::Scalar::kBool: std::memcpy(bytes.data(), &s.i, 8); break;
    case ir::Scalar::kFloat:
      std::memcpy(bytes.data(), &s.d, 8);
      x.dtype = DType::kFloat64;
      break;
    case ir::Scalar::kComplex: Unsupported("complex numbers"); return {0, 0, DType::kFloat32, {}, {}};
    case ir::Scalar::kValue: {
      const ir::Type& t = s.value->type();
      if (!t.is_sym()) return of(s.value);
      const bool real = t.kind == ir::Type::kSymFloat;
      x = Temp(real ? DType::kFloat64 : DType::kInt64, {});
      if (real)
        Emit("fill", {}, {x}, x.dtype, FillAttributes{Real(t.expr)});
      else
        Emit("fill", {}, {x}, x.dtype, FillAttributes{t.expr});
      return x;
    }
  }
  b_.out().scalars.push_back(bytes);
  x.buffer = b_.AddBuffer(kernels::Buffer::kConstant, 8, 0, b_.out().scalars.back().data());
  return x;
}
std::optional<Dim> PlanContext::opt_n(std::string_view name) {
  auto v = opt_sym(name);
  return v ? std::optional<Dim>(ir::ExprOf(*v)) : std::nullopt;
}
Dims PlanContext::ns(std::string_view name) {
  Dims out;
  for (const ir::IntOrValue& v : sym_ints(name)) out.push_back(ir::ExprOf(v));
  return out;
}

DType PlanContext::out_dtype(size_t i) { return node_.output(i) ? node_.output(i)->dtype() : DType::kUnknown; }
Dims PlanContext::out_sizes(size_t i) {
  ir::Value* v = node_.output(i);
  if (!v || !v->type().is_tensor()) {
    Unsupported(text::StrCat("result ", i, v ? text::StrCat(" is ", v->type().ToString()) : " is None"));
    return {};
  }
  int64_t bytes = 16;
  for (Dim d : v->sizes()) {
    const auto s = d.constant();
    if (s && (*s < 0 || (*s > 0 && __builtin_mul_overflow(bytes, *s, &bytes)))) Fail("a result's size is out of range");
  }
  return ok() ? Dims(v->sizes().begin(), v->sizes().end()) : Dims{};
}
void PlanContext::Account(Dim a, Dim b) {
  const auto x = a.constant(), y = b.constant();
  int64_t bytes;
  if (!x || !y) return;
  if (!__builtin_mul_overflow(*x, *y, &bytes) && !__builtin_mul_overflow(bytes, 8, &bytes) &&
      static_cast<uint64_t>(bytes) <= b_.limit())
    return;
  SetStatus(absl::ResourceExhaustedError(text::StrCat(node_.op_name(), ": takes more than ", b_.limit(), " bytes")));
}
bool PlanContext::used(size_t i) {
  ir::Value* v = node_.output(i);
  return v && (!v->users().empty() || v->graph()->IsOutput(v));
}

Operand PlanContext::Temp(DType dtype, Dims sizes) {
  Operand x{0, 0, dtype, std::move(sizes), {}};
  x.strides = ContiguousStrides(x.sizes);
  if (!NativeType(dtype)) Unsupported(text::StrCat("kernels have no ", ir::Name(dtype)));
  if (x.rank() > kernels::kMaxRank) Unsupported(text::StrCat("a tensor of ", x.rank(), " dims"));
  for (Dim s : x.sizes)
    if (ir::RangeOf(s).max < 0) Fail("a size is out of range");
  if (!ok()) return x;
  const Dim bytes = x.numel() * ir::ByteSize(dtype);
  if (bytes.is_too_large()) Unsupported("sizes are out of range");
  if (const auto known = bytes.constant(); known && static_cast<uint64_t>(*known) > b_.limit())
    SetStatus(absl::ResourceExhaustedError(
        text::StrCat(node_.op_name(), ": intermediate results take more than ", b_.limit(), " bytes")));
  if (ok()) x.buffer = b_.AddBuffer(kernels::Buffer::kTemporary, bytes);
  return x;
}

Operand PlanContext::Result(size_t i) {
  bool last = false;
  if (node_.op().traits.elementwise && !b_.channels_last_buffers.empty() && node_.output(i) != nullptr)
    for (const ir::NamedArg& a : node_.args())
      a.arg.ForEachValue([&](const ir::Value* v) {
        const auto x = b_.values.find(v);
        if (last || x == b_.values.end() || !b_.IsChannelsLast(x->second) ||
            x->second.rank() != node_.output(i)->rank())
          return;
        last = true;
        for (int d = 0; d < x->second.rank(); ++d)
          last = last && KnownEqual(x->second.sizes[d], node_.output(i)->sizes()[d]);
      });
  return last ? ResultChannelsLast(i) : Temp(out_dtype(i), out_sizes(i));
}
Operand PlanContext::ResultChannelsLast(size_t i) { return TempChannelsLast(out_dtype(i), out_sizes(i)); }
Operand PlanContext::TempChannelsLast(DType dtype, Dims sizes) {
  Operand x = Temp(dtype, std::move(sizes));
  if (!ok() || x.rank() < 3) return x;
  Dim step = x.sizes[1];
  for (int d = x.rank() - 1; d > 1; --d) x.strides[d] = step, step = step * x.sizes[d];
  x.strides[0] = step, x.strides[1] = 1;
  b_.channels_last_buffers.insert(x.buffer);
  return x;
}
Operand PlanContext::ResultLike(const Operand& x, size_t i) {
  return b_.IsChannelsLast(x) ? ResultChannelsLast(i) : Temp(out_dtype(i), out_sizes(i));
}

void PlanContext::RequireEqual(Dim a, Dim b, std::string_view otherwise) {
  if (KnownEqual(a, b)) return;
  if (ir::ProvablyDifferent(a, b)) return Fail(otherwise);
  if (ok())
    b_.Require(ir::Relation(ir::SymKind::kEq, a, b),
               text::StrCat(node_.op_name(), ": ", otherwise, " (", a.ToString(), " and ", b.ToString(), ")"));
}
void PlanContext::RequireLessEqual(Dim a, Dim b, std::string_view otherwise) {
  if (KnownLessEqual(a, b)) return;
  if (ir::ProvablyLess(b, a)) return Fail(otherwise);
  if (ok())
    b_.Require(ir::Relation(ir::SymKind::kLe, a, b),
               text::StrCat(node_.op_name(), ": ", otherwise, " (", a.ToString(), " and ", b.ToString(), ")"));
}
Dim PlanContext::Choose(Dim condition, Dim a, Dim b) {
  if (a == b) return a;
  auto made = syms().Make(ir::SymKind::kWhere, {condition, a, b});
  if (made.ok()) return *made;
  SetStatus(made.status());
  return 0;
}
Dim PlanContext::FromEnd(Dim index, Dim size) {
  const ir::SymRange r = ir::RangeOf(index);
  if (r.min >= 0) return index;
  if (r.max < 0) return index + size;
  return Choose(ir::Relation(ir::SymKind::kLt, index, 0), index + size, index);
}
Dim PlanContext::Clamp(Dim v, Dim size) { return ir::Max(0, ir::Min(v, size)); }

void PlanContext::EmitNumbers(std::string_view kernel, std::vector<Operand> in, std::vector<Operand> out, DType compute,
                              Dims ints, Reals reals) {
  if (const kernels::Kernel* k = kernels::FindKernel(kernel))
    EmitNumbers(*k, std::move(in), std::move(out), compute, std::move(ints), std::move(reals));
  else
    SetStatus(absl::InternalError(text::StrCat(node_.op_name(), ": no kernel ", kernel)));
}

void PlanContext::EmitNumbers(const kernels::Kernel& kernel, std::vector<Operand> in, std::vector<Operand> out,
                              DType compute, Dims ints, Reals reals) {
  const kernels::Kernel* k = &kernel;
  const auto native = NativeType(compute);
  if (!native) Unsupported(text::StrCat("kernels have no ", ir::Name(compute)));
  for (const auto* list : {&in, &out})
    for (const Operand& x : *list) {
      if (x.rank() > kernels::kMaxRank) Unsupported(text::StrCat("a tensor of ", x.rank(), " dims"));
      if (const auto t = NativeType(x.dtype); !k->any_type && t && kernels::IsStoredOnly(*t))
        Unsupported(text::StrCat("of ", ir::Name(x.dtype)));
    }
  if (NeedsOtherOrder(*k, in, out, compute)) {
    std::vector<Operand> results = out;
    for (Operand& x : in) x = WithHighestBitFlipped(x, Temp(DType::kInt64, x.sizes));
    for (Operand& x : results)
      if (x.dtype == DType::kUInt64) x = Temp(DType::kInt64, x.sizes);
    EmitNumbers(*k, std::move(in), results, DType::kInt64, std::move(ints), std::move(reals));
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].dtype == DType::kUInt64) WithHighestBitFlipped(results[i], out[i]);
    return;
  }
  // which such kernels do not ask
  if (k->any_type && native && kernels::IsStoredOnly(*native)) compute = DType::kUInt8;
  if (!ok()) return;
  kernels::Plan& plan = b_.out().plan;
  kernels::Step step;
  step.kernel = k;
  step.compute = *NativeType(compute);
  step.first_view = static_cast<int>(plan.views.size());
  step.inputs = static_cast<int>(in.size());
  step.outputs = static_cast<int>(out.size());
  for (const auto* list : {&in, &out})
    for (const Operand& x : *list) b_.AddView(x);
  step.first_number = static_cast<int>(plan.numbers.size());
  step.ints = static_cast<int>(ints.size());
  step.floats = static_cast<int>(reals.size());
  for (Dim d : ints) plan.numbers.push_back(b_.Expr(d));
  for (const Real& r : reals) plan.numbers.push_back(b_.Expr(r));
  b_.AddStep(step);
}

bool PlanContext::NeedsOtherOrder(const kernels::Kernel& k, absl::Span<const Operand> in, absl::Span<const Operand> out,
                                  DType compute) {
  const auto unsigned64 = [](const Operand& x) { return x.dtype == DType::kUInt64; };
  if (k.any_type ||
      (!std::any_of(in.begin(), in.end(), unsigned64) && !std::any_of(out.begin(), out.end(), unsigned64)))
    return false;
  if (k.unsigned64 == kernels::Unsigned64::kSame) return false;
  if (k.row != nullptr && ir::IsFloating(compute)) return false;  // converted while they are read
  if (k.unsigned64 == kernels::Unsigned64::kNever || compute != DType::kUInt64)
    Unsupported(text::StrCat("of ", ir::Name(DType::kUInt64)));
  return ok() && k.unsigned64 == kernels::Unsigned64::kOrder;
}

Operand PlanContext::WithHighestBitFlipped(const Operand& x, const Operand& to) {
  ir::Scalar bit;
  bit.i = std::numeric_limits<int64_t>::min();
  return ok() ? Map("bitwise_xor", {x, number(bit)}, to, DType::kUInt64) : to;
}

Operand PlanContext::Expand(Operand x, const Dims& sizes) {
  if (x.sizes.size() > sizes.size()) {
    Fail("the sizes of operands and result do not agree");
    return x;
  }
  const size_t more = sizes.size() - x.sizes.size();
  x.sizes.insert(x.sizes.begin(), more, 1);
  x.strides.insert(x.strides.begin(), more, 0);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (x.sizes[d] == sizes[d]) continue;
    if (x.sizes[d].is(1))
      x.strides[d] = 0;
    else
      RequireEqual(x.sizes[d], sizes[d], "the sizes of operands and result do not agree");
    x.sizes[d] = sizes[d];
  }
  return x;
}
void PlanContext::Copy(const Operand& from, const Operand& to) { Map("copy", {from}, to, to.dtype); }
void PlanContext::CopyPart(const Operand& from, const Operand& to) {
  Copy(from, to);
  const kernels::Buffer& buffer = b_.out().plan.buffers[from.buffer];
  if (!ok() || from.dtype != to.dtype || buffer.kind != kernels::Buffer::kTemporary || !from.offset.is(0) ||
      buffer.bytes != b_.Expr(from.numel() * ir::ByteSize(from.dtype)))
    return;
  PlannedProgram::Part part{from.buffer, to.buffer, b_.Expr(to.offset), b_.origin};
  if (!from.is_contiguous() || !to.is_contiguous()) {
    // Channels of images with channels last: a row for each place.
    if (!b_.IsChannelsLast(from) || !b_.IsChannelsLast(to) || from.rank() != to.rank()) return;
    const int last = from.rank() - 1;
    const auto row = from.sizes[1].constant(), pitch = to.strides[last].constant();
    if (!row || !pitch || *row < 1 || *pitch < *row) return;
    Dim step = *row;
    for (int k = last; k > 0; --k) {  // the channels are innermost, the batch is outermost
      const int d = k > 1 ? k : 0;
      if (!from.sizes[d].constant()) return;
      if (!from.sizes[d].is(1) &&
          (!KnownEqual(from.strides[d], step) || !KnownEqual(to.strides[d] * *row, step * *pitch)))
        return;
      step = step * from.sizes[d];
    }
    part.row = *row * ir::ByteSize(from.dtype), part.pitch = *pitch * ir::ByteSize(from.dtype);
  }
  b_.out().parts.push_back(part);
}
Operand PlanContext::Cast(Operand x, DType dtype) {
  if (x.dtype == dtype) return x;
  Operand y = Temp(dtype, x.sizes);
  Copy(x, y);
  return y;
}
Operand PlanContext::Dense(Operand x) {
  if (x.is_contiguous()) {
    x.strides = ContiguousStrides(x.sizes);
    return x;
  }
  Operand y = Temp(x.dtype, x.sizes);
  Copy(x, y);
  return y;
}
Operand PlanContext::Reshape(Operand x, Dims sizes) {
  RequireEqual(x.numel(), Product(sizes), "the number of elements changes");
  Operand y = x;
  y.sizes = sizes;
  if (x.is_contiguous()) {
    y.strides = ContiguousStrides(sizes);
    return y;
  }
  y.strides.assign(sizes.size(), 0);
  // Runs of old dims that memory holds as one are cut into new dims.
  Dims old_sizes, old_strides;
  for (int d = 0; d < x.rank(); ++d) {
    if (x.sizes[d].is(1)) continue;
    if (!old_sizes.empty() && old_strides.back() == x.strides[d] * x.sizes[d]) {
      old_sizes.back() = old_sizes.back() * x.sizes[d];
      old_strides.back() = x.strides[d];
    } else {
      old_sizes.push_back(x.sizes[d]);
      old_strides.push_back(x.strides[d]);
    }
  }
  size_t d = sizes.size();
  bool fits = true;
  for (size_t run = old_sizes.size(); run-- > 0 && fits;) {
    Dim done = 1;
    while (fits && !KnownEqual(done, old_sizes[run])) {
      fits = d > 0 && !ir::ProvablyLess(old_sizes[run], done);
      if (!fits) break;
      --d;
      y.strides[d] = old_strides[run] * done;
      done = done * sizes[d];
    }
  }
  while (fits && d > 0) fits = sizes[--d].is(1);
  if (fits) return y;
  y = Dense(std::move(x));
  y.sizes = std::move(sizes);
  y.strides = ContiguousStrides(y.sizes);
  return y;
}
Operand PlanContext::Full(Dims sizes, const ir::Scalar& value, DType dtype) {
  const Operand x = Temp(dtype, std::move(sizes));
  Fill(x, value);
  return x;
}
void PlanContext::Fill(const Operand& x, const ir::Scalar& value) {
  if (value.kind == ir::Scalar::kComplex) Unsupported("complex numbers");
  if (value.kind == ir::Scalar::kValue && value.value->type().is_tensor()) return Copy(of(value.value), x);
  const auto number = expr(value);
  if (!ok() || !number) return;
  const bool real = value.kind == ir::Scalar::kFloat ||
                    (value.kind == ir::Scalar::kValue && value.value->type().kind == ir::Type::kSymFloat);
  const Operand to = b_.HasUnitChannelStride(x) ? MoveToLast(x, {1}) : x;  // in the order in which it lies
  if (real)
    Emit("fill", {}, {to}, x.dtype, FillAttributes{value.is_constant() ? Real(value.d) : Real(*number)});
  else
    Emit("fill", {}, {to}, x.dtype, FillAttributes{*number});
}

Operand PlanContext::Constant(DType dtype, std::vector<int64_t> sizes, std::string bytes) {
  Operand x{0, 0, dtype, Dims(sizes.begin(), sizes.end()), {}};
  x.strides = ContiguousStrides(x.sizes);
  const int64_t size = static_cast<int64_t>(bytes.size());
  ir::TensorRef t = ir::OwnedTensor(dtype, std::move(sizes), std::move(bytes));
  x.buffer =
      b_.AddBuffer(kernels::Buffer::kConstant, size, 0, size == 0 ? nullptr : ir::MappedBytes(*t.storage).data());
  b_.out().storages.push_back(t.storage);
  return x;
}

void PlanContext::PublishNumber(size_t i, const Operand& x) {
  const ir::Value* v = node_.output(i);
  if (!ok() || !v) return;
  if (b_.IsGiven(v->type().expr)) return b_.Require(v->type().expr, text::StrCat(node_.op_name(), ": another number"));
  // u0, ToFloat(u0), and Eq(u0, 1) of a bool.
  Dim e = v->type().expr;
  if (e.kind() == ir::SymKind::kToFloat || e.kind() == ir::SymKind::kEq) {
    const bool condition = e.kind() == ir::SymKind::kEq;
    for (Dim o : e.operands())
      if (!o.is_constant() && (!condition || e.operands()[0].is(1) || e.operands()[1].is(1))) e = o;
  }
  if (e.kind() != ir::SymKind::kSymbol || x.rank() != 0)
    return Unsupported(text::StrCat("%", v->name(), " is ", v->type().ToString()));
  b_.Symbol(e, ir::IsFloating(x.dtype));
  b_.Publish(e, x);
}
void PlanContext::PublishSize(size_t i, int dim, const Operand& x) {
  const Dims sizes = out_sizes(i);
  if (!ok()) return;
  if (sizes[dim].kind() == ir::SymKind::kSymbol && !b_.IsGiven(sizes[dim])) return b_.Publish(sizes[dim], x);
  // The program knows the size already: it must be that.
  const Dim found = b_.NewSymbol({0, std::numeric_limits<int64_t>::max()});
  b_.Publish(found, x);
  if (!b_.IsGiven(sizes[dim])) return Unsupported(text::StrCat("a result of ", sizes[dim].ToString(), " elements"));
  RequireEqual(found, sizes[dim], "the result has another size");
}

const PlanRow* FindPlanRow(std::string_view op) {
  static const auto& rows = *[] {
    auto* m = new text::Map<PlanRow>();
    for (auto table : {ElementwisePlans(), ViewPlans(), ConcatPlans(), CreationPlans(), DataPlans(), ReductionPlans(),
                       ProductPlans(), ControlPlans(), NnPlans(), RecurrentPlans(), OrderPlans(), QuantPlans(),
                       RandomPlans(), DetectionPlans()}) {
      for (const PlanFamily& f : table) {
        std::string ops(f.ops);
        for (std::string_view name : text::Split(f.ops, ' ', true)) {
          const size_t dot = name.find('.');
          std::string full = name[0] == '/'
                                 ? std::string(name.substr(1))
                                 : text::StrCat("aten.", name, dot == std::string_view::npos ? ".default" : "");
          m->emplace(full, PlanRow{"", f.fn, f.kernel.empty() ? name.substr(0, dot) : f.kernel, f.rounds_on_the_way});
        }
      }
    }
    for (auto& [name, row] : *m) row.op = name;
    return m;
  }();
  auto it = rows.find(op);
  return it == rows.end() ? nullptr : &it->second;
}

bool RoundsOnce(const ir::Node& n) {
  const PlanRow* row = FindPlanRow(n.op_name());
  return row != nullptr && !row->rounds_on_the_way;
}

}  // namespace slipway::planner
