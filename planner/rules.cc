// The vocabulary of the planner's tables: views, buffers, calls.
#include "planner/rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "ir/tensor.h"

namespace slipway::planner {

namespace {

constexpr std::pair<DType, kernels::DType> kTypes[] = {
    {DType::kBool, kernels::DType::kBool},   {DType::kUInt8, kernels::DType::kU8},
    {DType::kInt8, kernels::DType::kI8},     {DType::kInt16, kernels::DType::kI16},
    {DType::kInt32, kernels::DType::kI32},   {DType::kInt64, kernels::DType::kI64},
    {DType::kFloat16, kernels::DType::kF16}, {DType::kBFloat16, kernels::DType::kBF16},
    {DType::kFloat32, kernels::DType::kF32}, {DType::kFloat64, kernels::DType::kF64},
};

}  // namespace

std::optional<kernels::DType> NativeType(DType t) {
  for (const auto& [a, b] : kTypes)
    if (a == t) return b;
  return std::nullopt;
}

int64_t Operand::numel() const {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}
bool Operand::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != step) return false;
    step *= sizes[d];
  }
  return true;
}

Operand Expand(Operand x, const Ints& sizes) {
  const size_t more = sizes.size() - x.sizes.size();
  x.sizes.insert(x.sizes.begin(), more, 1);
  x.strides.insert(x.strides.begin(), more, 0);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (x.sizes[d] != sizes[d]) x.sizes[d] = sizes[d], x.strides[d] = 0;
  return x;
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
Operand Narrow(Operand x, int dim, int64_t start, int64_t length, int64_t step) {
  if (length > 0) x.offset += start * x.strides[dim] * ir::ByteSize(x.dtype);
  x.sizes[dim] = length;
  x.strides[dim] *= step;
  return x;
}
Operand Select(Operand x, int dim, int64_t index) { return Drop(Narrow(std::move(x), dim, index, 1), dim); }
Operand Diagonal(Operand x, int64_t offset, int a, int b) {
  const int64_t rows = x.sizes[a], columns = x.sizes[b];
  const int64_t length =
      std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  if (length > 0) x.offset += (offset >= 0 ? offset * x.strides[b] : -offset * x.strides[a]) * ir::ByteSize(x.dtype);
  const int64_t stride = x.strides[a] + x.strides[b];
  x = Drop(Drop(std::move(x), std::max(a, b)), std::min(a, b));
  x.sizes.push_back(length);
  x.strides.push_back(stride);
  return x;
}

int PlanBuilder::AddBuffer(kernels::Buffer b) {
  out_.plan.buffers.push_back(b);
  return static_cast<int>(out_.plan.buffers.size()) - 1;
}
int PlanBuilder::AddView(const Operand& x) {
  kernels::View v{x.buffer, x.offset, {}};
  v.shape.dtype = *NativeType(x.dtype);
  v.shape.rank = x.rank();
  std::copy(x.sizes.begin(), x.sizes.end(), v.shape.sizes);
  std::copy(x.strides.begin(), x.strides.end(), v.shape.strides);
  out_.plan.views.push_back(v);
  return static_cast<int>(out_.plan.views.size()) - 1;
}

Operand PlanContext::of(const ir::Value* v) {
  auto it = b_.values.find(v);
  if (it != b_.values.end()) return it->second;
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
Operand PlanContext::number(const ir::Scalar& s) {
  Operand x{-1, 0, DType::kInt64, {}, {}};
  std::array<char, 8> bytes;
  switch (s.kind) {
    case ir::Scalar::kInt:
    case ir::Scalar::kBool:
      std::memcpy(bytes.data(), &s.i, 8);
      break;
    case ir::Scalar::kFloat:
      std::memcpy(bytes.data(), &s.d, 8);
      x.dtype = DType::kFloat64;
      break;
    case ir::Scalar::kComplex:
      Unsupported("complex numbers");
      return {0, 0, DType::kFloat32, {}, {}};
    case ir::Scalar::kValue:
      return of(s.value);
  }
  b_.out().scalars.push_back(bytes);
  x.buffer = b_.AddBuffer({.kind = kernels::Buffer::kConstant, .bytes = 8, .constant = b_.out().scalars.back().data()});
  return x;
}

DType PlanContext::out_dtype(size_t i) { return node_.output(i) ? node_.output(i)->dtype() : DType::kUnknown; }
Ints PlanContext::out_sizes(size_t i) {
  ir::Value* v = node_.output(i);
  auto sizes = v && v->type().is_tensor() ? v->type().StaticSizes() : std::nullopt;
  if (!sizes) {
    Unsupported(text::StrCat("result ", i, v ? text::StrCat(" is ", v->type().ToString()) : " is None"));
    return {};
  }
  int64_t bytes = 16;
  for (int64_t s : *sizes)
    if (s < 0 || (s > 0 && __builtin_mul_overflow(bytes, s, &bytes))) Fail("a result's size is out of range");
  return ok() ? *sizes : Ints{};
}
void PlanContext::Account(int64_t a, int64_t b) {
  int64_t bytes;
  if (!__builtin_mul_overflow(a, b, &bytes) && !__builtin_mul_overflow(bytes, 8, &bytes) &&
      static_cast<uint64_t>(bytes) <= b_.limit())
    return;
  SetStatus(absl::ResourceExhaustedError(text::StrCat(node_.op_name(), ": takes more than ", b_.limit(), " bytes")));
}
bool PlanContext::used(size_t i) {
  ir::Value* v = node_.output(i);
  return v && (!v->users().empty() || v->graph()->IsOutput(v));
}

Operand PlanContext::Temp(DType dtype, Ints sizes) {
  Operand x{0, 0, dtype, std::move(sizes), {}};
  x.strides = ir::ContiguousStrides(x.sizes);
  if (!NativeType(dtype)) Unsupported(text::StrCat("kernels have no ", ir::Name(dtype)));
  if (x.rank() > kernels::kMaxRank) Unsupported(text::StrCat("a tensor of ", x.rank(), " dims"));
  int64_t bytes = ir::ByteSize(dtype);
  for (int64_t s : x.sizes)
    if (s < 0 || __builtin_mul_overflow(bytes, s, &bytes)) Fail("a size is out of range");
  if (!ok()) return x;
  if (static_cast<uint64_t>(bytes) > b_.limit() || (b_.temporaries += bytes) > b_.limit()) {
    SetStatus(absl::ResourceExhaustedError(
        text::StrCat(node_.op_name(), ": intermediate results take more than ", b_.limit(), " bytes")));
    return x;
  }
  x.buffer = b_.AddBuffer({.kind = kernels::Buffer::kTemporary, .bytes = bytes});
  return x;
}

void PlanContext::Emit(std::string_view kernel, std::vector<Operand> in, std::vector<Operand> out, DType compute,
                       Ints ints, std::vector<double> floats) {
  const kernels::Kernel* k = kernels::FindKernel(kernel);
  const auto native = NativeType(compute);
  if (!k) SetStatus(absl::InternalError(text::StrCat(node_.op_name(), ": no kernel ", kernel)));
  if (!native) Unsupported(text::StrCat("kernels have no ", ir::Name(compute)));
  for (const auto* list : {&in, &out})
    for (const Operand& x : *list)
      if (x.rank() > kernels::kMaxRank) Unsupported(text::StrCat("a tensor of ", x.rank(), " dims"));
  if (!ok()) return;
  kernels::Step step;
  step.kernel = k;
  for (const Operand& x : in) step.in.push_back(b_.AddView(x));
  for (const Operand& x : out) step.out.push_back(b_.AddView(x));
  step.compute = *native;
  step.ints = std::move(ints);
  step.floats = std::move(floats);
  step.origin = static_cast<int>(b_.out().origins.size()) - 1;
  b_.out().plan.steps.push_back(std::move(step));
}

Operand PlanContext::Map(std::string_view kernel, std::vector<Operand> in, Operand out, DType compute, Ints ints,
                         std::vector<double> floats) {
  for (Operand& x : in) {
    bool fits = x.rank() <= out.rank();
    for (int d = 0; fits && d < x.rank(); ++d) {
      const int64_t size = x.sizes[d], want = out.sizes[out.rank() - x.rank() + d];
      fits = size == want || size == 1;
    }
    if (!fits) {
      Fail("the sizes of operands and result do not agree");
      return out;
    }
    x = Expand(std::move(x), out.sizes);
  }
  Emit(kernel, std::move(in), {out}, compute, std::move(ints), std::move(floats));
  return out;
}
void PlanContext::Copy(const Operand& from, const Operand& to) { Map("copy", {from}, to, to.dtype); }
Operand PlanContext::Cast(Operand x, DType dtype) {
  if (x.dtype == dtype) return x;
  Operand y = Temp(dtype, x.sizes);
  Copy(x, y);
  return y;
}
Operand PlanContext::Dense(Operand x) {
  if (x.is_contiguous()) {
    x.strides = ir::ContiguousStrides(x.sizes);
    return x;
  }
  Operand y = Temp(x.dtype, x.sizes);
  Copy(x, y);
  return y;
}
Operand PlanContext::Reshape(Operand x, Ints sizes) {
  Operand y = x;
  y.sizes = sizes;
  if (y.numel() != x.numel()) {
    Fail("the number of elements changes");
    return y;
  }
  y.strides.assign(sizes.size(), 0);
  if (x.numel() != 0) {
    // Runs of old dims that memory holds as one are cut into new dims.
    Ints old_sizes, old_strides;
    for (int d = 0; d < x.rank(); ++d) {
      if (x.sizes[d] == 1) continue;
      if (!old_sizes.empty() && old_strides.back() == x.strides[d] * x.sizes[d]) {
        old_sizes.back() *= x.sizes[d];
        old_strides.back() = x.strides[d];
      } else {
        old_sizes.push_back(x.sizes[d]);
        old_strides.push_back(x.strides[d]);
      }
    }
    size_t d = sizes.size();
    for (size_t run = old_sizes.size(); run-- > 0;) {
      int64_t left = old_sizes[run], stride = old_strides[run];
      while (left > 1) {
        if (d == 0 || left % sizes[d - 1] != 0) {
          y = Dense(std::move(x));
          y.sizes = std::move(sizes);
          y.strides = ir::ContiguousStrides(y.sizes);
          return y;
        }
        --d;
        y.strides[d] = stride;
        stride *= sizes[d];
        left /= sizes[d];
      }
    }
  }
  return y;
}
Operand PlanContext::Full(Ints sizes, const ir::Scalar& value, DType dtype) {
  if (!value.is_constant() || value.kind == ir::Scalar::kComplex) {
    if (value.kind == ir::Scalar::kValue && value.value->type().is_tensor()) {
      Operand x = Temp(dtype, std::move(sizes));
      Copy(of(value.value), x);
      return x;
    }
    Unsupported("the number is not known or complex");
  }
  Operand x = Temp(dtype, std::move(sizes));
  if (!ok()) return x;
  if (value.kind == ir::Scalar::kFloat)
    Emit("fill", {}, {x}, dtype, {}, {value.d});
  else
    Emit("fill", {}, {x}, dtype, {value.i});
  return x;
}

const PlanRow* FindPlanRow(std::string_view op) {
  static const auto& rows = *[] {
    auto* m = new text::Map<PlanRow>();
    for (auto table :
         {ElementwisePlans(), ViewPlans(), CreationPlans(), DataPlans(), ReductionPlans(), ProductPlans()}) {
      for (const PlanFamily& f : table) {
        std::string ops(f.ops);
        for (std::string_view name : text::Split(f.ops, ' ', true)) {
          const size_t dot = name.find('.');
          std::string full = text::StrCat("aten.", name, dot == std::string_view::npos ? ".default" : "");
          m->emplace(full, PlanRow{"", f.fn, f.kernel.empty() ? name.substr(0, dot) : f.kernel});
        }
      }
    }
    for (auto& [name, row] : *m) row.op = name;
    return m;
  }();
  auto it = rows.find(op);
  return it == rows.end() ? nullptr : &it->second;
}

}  // namespace slipway::planner
