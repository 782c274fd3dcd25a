// See plan_file.h.
#include "kernels/plan_file.h"

#include <algorithm>

#include "plan_generated.h"

namespace slipway::kernels {
namespace {

namespace file = plan_file;

std::string Text(const flatbuffers::String* s) { return s ? s->str() : std::string(); }

template <typename T>
std::vector<T> List(const flatbuffers::Vector<T>* v) {
  return v ? std::vector<T>(v->begin(), v->end()) : std::vector<T>();
}

template <typename V, typename F>
void Each(const V* v, F f) {
  if (!v) return;
  for (const auto* x : *v) f(*x);
}

std::vector<std::string> Texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* v) {
  std::vector<std::string> out;
  Each(v, [&](const flatbuffers::String& s) { out.push_back(s.str()); });
  return out;
}

// The bytes that a tensor reaches over; -1 where they do not fit.
int64_t Reach(const Constant& c) {
  int64_t last = 0;
  for (size_t d = 0; d < c.sizes.size(); ++d) {
    if (c.sizes[d] < 0 || c.strides[d] < 0) return -1;
    if (c.sizes[d] == 0) return 0;
    int64_t step;
    if (__builtin_mul_overflow(c.sizes[d] - 1, c.strides[d], &step) || __builtin_add_overflow(last, step, &last)) return -1;
  }
  int64_t bytes;
  return __builtin_mul_overflow(last + 1, int64_t{ByteSize(c.dtype)}, &bytes) ? -1 : bytes;
}

}  // namespace

bool ReadPlanFile(std::span<const uint8_t> bytes, std::span<const uint8_t> weights, NativeModel* m, std::string* why,
                  const FindOther& find_other) {
  auto no = [&](std::string text) {
    *why = std::move(text);
    return false;
  };
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), /*max_depth=*/16, /*max_tables=*/50'000'000);
  if (bytes.size() < 8 || !file::PlanBufferHasIdentifier(bytes.data()) || !file::VerifyPlanBuffer(verifier))
    return no("the plan is damaged");
  const file::Plan& f = *file::GetPlan(bytes.data());
  if (f.version() != kPlanFileVersion)
    return no("a plan of version " + std::to_string(f.version()) + ", this is " + std::to_string(kPlanFileVersion));
  m->name = Text(f.name());
  m->in_spec = Text(f.in_spec());
  m->out_spec = Text(f.out_spec());
  Each(f.metadata(), [&](const file::Pair& p) { m->metadata.emplace_back(Text(p.key()), Text(p.value())); });
  Each(f.origins(), [&](const file::Origin& o) { m->origins.push_back({Text(o.op()), Text(o.place())}); });

  bool fits = true;
  Each(f.plugins(), [&](const file::Plugin& p) {
    fits = fits && p.offset() <= weights.size() && p.bytes() <= weights.size() - p.offset();
    if (fits) m->plugins.push_back({Text(p.name()), weights.subspan(p.offset(), p.bytes())});
  });
  if (!fits) return no("a plugin lies outside the weights");
  std::vector<const Kernel*> kernels;
  for (const std::string& name : Texts(f.kernels())) {
    std::string reason;
    const Kernel* k = FindKernel(name);
    if (!k && find_other) k = find_other(name, *m, &reason);
    if (!k) return no("this library has no kernel '" + name + "'" + (reason.empty() ? "" : ": " + reason));
    kernels.push_back(k);
  }

  Each(f.constants(), [&](const file::Constant& c) {
    Constant& to = m->constants.emplace_back();
    to.name = Text(c.name());
    to.dtype = static_cast<DType>(c.dtype());
    to.sizes = List(c.sizes());
    to.strides = List(c.strides());
    fits = fits && c.dtype() < kDTypes && to.sizes.size() == to.strides.size() && to.sizes.size() <= kMaxRank &&
           c.offset() <= weights.size() && c.offset() % kConstantAlignment == 0 && Reach(to) == static_cast<int64_t>(c.bytes());
    if (!fits) return;
    int64_t stored = static_cast<int64_t>(c.bytes());
    if (const std::vector<int64_t> packed = List(c.packed()); !packed.empty()) {
      fits = packed.size() == 4 && packed[0] > 0 && packed[1] > 0;
      if (!fits) return;
      to.packed = {to.dtype, packed[0], packed[1], packed[2], packed[3]};
      stored = PanelBytes(packed[0], packed[1], to.dtype);
      // Whoever unpacks it writes all of the tensor and nothing else.
      int64_t elements;
      fits = stored >= 0 && !__builtin_mul_overflow(packed[0], packed[1], &elements) &&
             elements == static_cast<int64_t>(c.bytes()) / ByteSize(to.dtype) &&
             ((packed[2] == 1 && packed[3] == packed[0]) || (packed[2] == packed[1] && packed[3] == 1)) &&
             (to.dtype == DType::kF32 || to.dtype == DType::kBF16 || to.dtype == DType::kF16);
    }
    fits = fits && static_cast<uint64_t>(stored) <= weights.size() - c.offset();
    if (!fits) return;
    to.data = weights.data() + c.offset();
    to.bytes = c.bytes();
  });
  if (!fits) return no("a constant lies outside the weights");

  Plan& p = m->plan;
  Each(f.symbols(), [&](const file::Symbol& s) { p.symbols.push_back({Text(s.name()), s.min(), s.max(), s.real()}); });
  Each(f.exprs(), [&](const file::Expr& e) {
    p.exprs.push_back({static_cast<Expr::Op>(e.op()), e.a(), e.b(), e.c(), e.value()});
  });
  Each(f.inputs(), [&](const file::Input& i) {
    p.inputs.push_back({Text(i.name()), static_cast<Input::Kind>(i.kind()), static_cast<DType>(i.dtype()), List(i.sizes()), i.value()});
    m->input_dims.push_back(Texts(i.dims()));
  });
  Each(f.outputs(), [&](const file::Output& o) {
    p.outputs.push_back({static_cast<DType>(o.dtype()), o.number(), List(o.sizes())});
    m->output_names.push_back(Text(o.name()));
    m->output_dims.push_back(Texts(o.dims()));
  });
  Each(f.bindings(), [&](const file::Binding& b) { p.bindings.push_back({b.symbol(), b.input(), b.dim(), b.scale(), b.shift()}); });
  Each(f.checks(), [&](const file::Check& c) { p.checks.push_back({c.expr(), Text(c.text())}); });
  Each(f.buffers(), [&](const file::Buffer& b) {
    Buffer& to = p.buffers.emplace_back();
    to.kind = static_cast<Buffer::Kind>(b.kind());
    to.bytes = b.bytes();
    to.slot = b.slot();
    if (to.kind != Buffer::kConstant) return;
    fits = fits && b.constant() >= 0 && b.constant() < static_cast<int64_t>(m->constants.size()) && b.bytes() >= 0 &&
           b.bytes() < static_cast<int64_t>(p.exprs.size()) && p.exprs[b.bytes()].op == Expr::kInt &&
           p.exprs[b.bytes()].value >= 0;
    if (!fits) return;
    Constant& c = m->constants[b.constant()];
    fits = static_cast<uint64_t>(p.exprs[b.bytes()].value) <= c.bytes;
    to.constant = c.data;
    to.packed = c.packed;
    c.buffers.push_back(static_cast<int32_t>(p.buffers.size() - 1));
  });
  if (!fits) return no("a constant is malformed");
  p.dims = List(f.dims());
  Each(f.views(), [&](const file::View& v) {
    p.views.push_back({v.buffer(), static_cast<DType>(v.dtype()), v.rank(), v.offset(), v.first_dim()});
  });
  p.numbers = List(f.numbers());
  Each(f.steps(), [&](const file::Step& s) {
    Step& to = p.steps.emplace_back();
    to.kind = static_cast<Step::Kind>(s.kind());
    to.kernel = to.kind == Step::kKernel && s.kernel() < kernels.size() ? kernels[s.kernel()] : nullptr;
    to.compute = static_cast<DType>(s.compute());
    to.first_view = s.first_view(), to.inputs = s.inputs(), to.outputs = s.outputs();
    to.first_number = s.first_number(), to.ints = s.ints(), to.floats = s.floats();
    to.symbol = s.symbol(), to.expr = s.expr(), to.target = s.target(), to.origin = s.origin();
    to.first_op = s.first_op(), to.ops = s.ops();
    fits = fits && to.origin >= 0 && to.origin < static_cast<int64_t>(m->origins.size());
  });
  Each(f.ops(), [&](const file::ChainOp& o) {
    ChainOp& to = p.ops.emplace_back();
    to.kernel = o.kernel() < kernels.size() ? kernels[o.kernel()] : nullptr;
    to.compute = static_cast<DType>(o.compute()), to.result = static_cast<DType>(o.result());
    to.inputs = o.inputs(), to.output = o.output(), to.slot = o.slot();
    to.in[0] = o.in0(), to.in[1] = o.in1(), to.in[2] = o.in2();
    to.ints = o.ints(), to.floats = o.floats();
  });
  p.texts = Texts(f.texts());
  Each(f.leaves(), [&](const file::Leaf& l) {
    m->leaves.push_back({l.output(), l.none(), static_cast<DType>(l.dtype()), l.bits()});
    fits = fits && l.output() >= -1 && l.output() < static_cast<int64_t>(p.outputs.size()) && l.dtype() < kDTypes;
  });
  return fits || no("the plan is malformed");
}

}  // namespace slipway::kernels
