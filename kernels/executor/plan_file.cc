// Reading a plan file. FlatBuffers' verifier checks offsets, but not how often tables are shared, how elements are
// aligned, nor what
// the numbers mean: that is here, with work and memory bounded by the file's size.
#include "kernels/executor/plan_file.h"

#include <algorithm>
#include <type_traits>

#include "plan_generated.h"

namespace slipway::kernels {
namespace {

namespace file = plan_file;

// What is copied out of a file. Many offsets may lead to the same text or table, so that what a small file asks for has
// no
// bound of its own: this is one. Where it is reached, or elements lie askew, what follows is empty.
class Copier {
 public:
  explicit Copier(size_t file_bytes) : left_(file_bytes * 32) {}
  bool bad() const { return bad_; }

  std::string Text(const flatbuffers::String* s) { return s && Take(s->size()) ? s->str() : std::string(); }
  template <typename T>
  std::vector<T> List(const flatbuffers::Vector<T>* v) {
    return v && Take(v->size() * sizeof(T)) && Aligned<T>(*v) ? std::vector<T>(v->begin(), v->end()) : std::vector<T>();
  }
  std::vector<std::string> Texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* v) {
    std::vector<std::string> out;
    Each<std::string>(v, [&](const flatbuffers::String& s) { out.push_back(Text(&s)); });
    return out;
  }
  // f(x) for each of them, which makes a To.
  template <typename To, typename V, typename F>
  void Each(const V* v, F f) {
    if (!v || !Take(v->size() * sizeof(To)) || !Aligned<std::remove_pointer_t<typename V::return_type>>(*v)) return;
    for (const auto* x : *v) f(*x);
  }

 private:
  // Of elements the verifier checks only that they are inside.
  template <typename T, typename V>
  bool Aligned(const V& v) {
    bad_ = bad_ || (v.size() > 0 && reinterpret_cast<uintptr_t>(v.Data()) % alignof(T) != 0);
    return !bad_;
  }
  bool Take(size_t bytes) {
    bad_ = bad_ || bytes > left_;
    if (!bad_) left_ -= bytes;
    return !bad_;
  }

  size_t left_;
  bool bad_ = false;
};

// Whether no table of the list names more dims than tensors have. Before the file is verified, which takes a step for
// each of them as often as tables lead there.
template <typename T>
bool FewDims(flatbuffers::Verifier& v, const flatbuffers::Table* root, flatbuffers::voffset_t field) {
  if (!root->VerifyOffset(v, field)) return false;
  const auto* list = root->GetPointer<const flatbuffers::Vector<flatbuffers::Offset<T>>*>(field);
  if (!v.VerifyVector(list)) return false;
  for (flatbuffers::uoffset_t i = 0; list && i < list->size(); ++i) {
    const auto* table = reinterpret_cast<const flatbuffers::Table*>(list->Get(i));
    if (!table->VerifyTableStart(v) || !table->VerifyOffset(v, T::VT_DIMS) || !v.EndTable()) return false;
    const auto* dims =
        table->GetPointer<const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>*>(T::VT_DIMS);
    if (!v.VerifyVector(dims) || (dims && dims->size() > kMaxRank)) return false;
  }
  return true;
}

bool IsWhole(std::span<const uint8_t> bytes) {
  constexpr int kDepth = 16;
  constexpr flatbuffers::uoffset_t kTables = 50'000'000;
  if (bytes.size() < 8 || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE || !file::PlanBufferHasIdentifier(bytes.data()))
    return false;
  flatbuffers::Verifier first(bytes.data(), bytes.size(), kDepth, kTables);
  const flatbuffers::uoffset_t at = first.VerifyOffset(size_t{0});
  const auto* root = reinterpret_cast<const flatbuffers::Table*>(bytes.data() + at);
  if (at == 0 || !root->VerifyTableStart(first) || !FewDims<file::Input>(first, root, file::Plan::VT_INPUTS) ||
      !FewDims<file::Output>(first, root, file::Plan::VT_OUTPUTS))
    return false;
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), kDepth, kTables);
  return file::VerifyPlanBuffer(verifier);
}

// The bytes that a tensor reaches over; -1 where they do not fit.
int64_t Reach(const Constant& c) {
  int64_t last = 0;
  for (size_t d = 0; d < c.sizes.size(); ++d) {
    if (c.sizes[d] < 0 || c.strides[d] < 0) return -1;
    if (c.sizes[d] == 0) return 0;
    int64_t step;
    if (__builtin_mul_overflow(c.sizes[d] - 1, c.strides[d], &step) || __builtin_add_overflow(last, step, &last))
      return -1;
  }
  int64_t bytes;
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, int64_t{ByteSize(c.dtype)}, &bytes))
    return -1;
  return bytes;
}

}  // namespace

bool ReadPlanFile(std::span<const uint8_t> bytes, std::span<const uint8_t> weights, NativeModel* m, std::string* why,
                  const FindOther& find_other) {
  auto no = [&](std::string text) {
    *why = std::move(text);
    return false;
  };
  if (!IsWhole(bytes)) return no("the plan is damaged");
  const file::Plan& f = *file::GetPlan(bytes.data());
  Copier copy(bytes.size());
  if (f.version() != kPlanFileVersion)
    return no("a plan of version " + std::to_string(f.version()) + ", this is " + std::to_string(kPlanFileVersion));
  m->name = copy.Text(f.name());
  m->in_spec = copy.Text(f.in_spec());
  m->out_spec = copy.Text(f.out_spec());
  copy.Each<std::pair<std::string, std::string>>(
      f.metadata(), [&](const file::Pair& p) { m->metadata.emplace_back(copy.Text(p.key()), copy.Text(p.value())); });
  copy.Each<Origin>(f.origins(),
                    [&](const file::Origin& o) { m->origins.push_back({copy.Text(o.op()), copy.Text(o.place())}); });

  bool fits = true;
  copy.Each<EmbeddedPlugin>(f.plugins(), [&](const file::Plugin& p) {
    fits = fits && p.offset() <= weights.size() && p.bytes() <= weights.size() - p.offset();
    if (fits) m->plugins.push_back({copy.Text(p.name()), weights.subspan(p.offset(), p.bytes())});
  });
  if (!fits) return no("a plugin lies outside the weights");
  std::vector<const Kernel*> kernels;
  for (const std::string& name : copy.Texts(f.kernels())) {
    std::string reason;
    const Kernel* k = FindKernel(name);
    if (!k && find_other) k = find_other(name, *m, &reason);
    if (!k) return no("this library has no kernel '" + name + "'" + (reason.empty() ? "" : ": " + reason));
    kernels.push_back(k);
  }

  copy.Each<Constant>(f.constants(), [&](const file::Constant& c) {
    Constant& to = m->constants.emplace_back();
    to.name = copy.Text(c.name());
    to.dtype = static_cast<DType>(c.dtype());
    to.sizes = copy.List(c.sizes());
    to.strides = copy.List(c.strides());
    fits = fits && c.dtype() < kDTypes && to.sizes.size() == to.strides.size() && to.sizes.size() <= kMaxRank &&
           c.offset() <= weights.size() && c.offset() % kConstantAlignment == 0 &&
           Reach(to) == static_cast<int64_t>(c.bytes());
    if (!fits) return;
    int64_t stored = static_cast<int64_t>(c.bytes());
    if (const std::vector<int64_t> packed = copy.List(c.packed()); !packed.empty()) {
      if (fits = packed.size() >= 5; !fits) return;
      const bool byte = to.dtype == DType::kI8 || to.dtype == DType::kU8;
      // Filters say groups and taps, too.
      const bool taps = packed[4] == static_cast<int64_t>(Packing::kTransposedConvFilters);
      const bool filters = packed.size() == 7 && (taps || packed[4] == static_cast<int64_t>(Packing::kConvFilters)) &&
                           (to.dtype == DType::kF32 || (IsHalf(to.dtype) && !taps));
      fits = (packed.size() == 5 || filters) && packed[0] > 0 && packed[1] > 0 &&
             packed[4] >= static_cast<int64_t>(Packing::kNr16) &&
             (filters || packed[4] <= static_cast<int64_t>(byte                 ? Packing::kNr16UInt4
                                                           : IsFloat8(to.dtype) ? Packing::kNr16K4
                                                                                : Packing::kNr16));
      if (!fits) return;
      to.packed = {to.dtype, packed[0], packed[1], packed[2], packed[3], static_cast<Packing>(packed[4])};
      if (filters) {
        to.packed->groups = packed[5], to.packed->taps = packed[6];
        fits = packed[5] > 0 && packed[6] > 0 && packed[taps ? 1 : 0] % packed[6] == 0 && packed[1] % packed[5] == 0 &&
               (!taps || (packed[5] == 1 && packed[3] == 1));
        if (!fits) return;
      }
      stored = PackedBytes(*to.packed);
      // Unpacking then writes all of the tensor and nothing else.
      int64_t elements;
      fits = stored >= 0 && !__builtin_mul_overflow(packed[0], packed[1], &elements) &&
             elements == static_cast<int64_t>(c.bytes()) / ByteSize(to.dtype) &&
             ((packed[2] == 1 && packed[3] == packed[0]) || (packed[2] == packed[1] && packed[3] == 1)) &&
             (byte || IsFloat8(to.dtype) || to.dtype == DType::kF32 || to.dtype == DType::kBF16 ||
              to.dtype == DType::kF16);
    }
    fits = fits && static_cast<uint64_t>(stored) <= weights.size() - c.offset();
    if (!fits) return;
    to.data = weights.data() + c.offset();
    to.bytes = c.bytes();
  });
  if (!fits) return no("a constant lies outside the weights");

  Plan& p = m->plan;
  copy.Each<Symbol>(f.symbols(), [&](const file::Symbol& s) {
    p.symbols.push_back({copy.Text(s.name()), s.min(), s.max(), s.real()});
  });
  copy.Each<Expr>(f.exprs(), [&](const file::Expr& e) {
    p.exprs.push_back({static_cast<Expr::Op>(e.op()), e.a(), e.b(), e.c(), e.value()});
  });
  copy.Each<Input>(f.inputs(), [&](const file::Input& i) {
    p.inputs.push_back({copy.Text(i.name()), static_cast<Input::Kind>(i.kind()), static_cast<DType>(i.dtype()),
                        copy.List(i.sizes()), i.value()});
    m->input_dims.push_back(copy.Texts(i.dims()));
  });
  copy.Each<Output>(f.outputs(), [&](const file::Output& o) {
    p.outputs.push_back({static_cast<DType>(o.dtype()), o.number(), copy.List(o.sizes())});
    m->output_names.push_back(copy.Text(o.name()));
    m->output_dims.push_back(copy.Texts(o.dims()));
  });
  copy.Each<Binding>(f.bindings(), [&](const file::Binding& b) {
    p.bindings.push_back({b.symbol(), b.input(), b.dim(), b.scale(), b.shift()});
  });
  copy.Each<Check>(f.checks(), [&](const file::Check& c) { p.checks.push_back({c.expr(), copy.Text(c.text())}); });
  copy.Each<Buffer>(f.buffers(), [&](const file::Buffer& b) {
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
  p.dims = copy.List(f.dims());
  copy.Each<View>(f.views(), [&](const file::View& v) {
    p.views.push_back({v.buffer(), static_cast<DType>(v.dtype()), v.rank(), v.offset(), v.first_dim()});
  });
  p.numbers = copy.List(f.numbers());
  copy.Each<Step>(f.steps(), [&](const file::Step& s) {
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
  copy.Each<ChainOp>(f.ops(), [&](const file::ChainOp& o) {
    ChainOp& to = p.ops.emplace_back();
    to.kernel = o.kernel() < kernels.size() ? kernels[o.kernel()] : nullptr;
    to.compute = static_cast<DType>(o.compute()), to.result = static_cast<DType>(o.result());
    to.inputs = o.inputs(), to.output = o.output(), to.slot = o.slot();
    to.in[0] = o.in0(), to.in[1] = o.in1(), to.in[2] = o.in2();
    to.ints = o.ints(), to.floats = o.floats();
  });
  p.texts = copy.Texts(f.texts());
  size_t of_states = 0;
  copy.Each<State>(f.states(), [&](const file::State& s) {
    p.states.push_back({s.input(), s.dim(), s.length(), s.after(), s.initial()});
    of_states += s.length() >= 0 ? 2 : 1;
    fits = fits && s.input() >= 0 && s.input() < static_cast<int64_t>(p.inputs.size());
  });
  fits = fits && of_states <= p.inputs.size();
  copy.Each<Leaf>(f.leaves(), [&](const file::Leaf& l) {
    m->leaves.push_back({l.output(), l.none(), static_cast<DType>(l.dtype()), l.bits()});
    fits = fits && l.output() >= -1 && l.output() < static_cast<int64_t>(p.outputs.size()) && l.dtype() < kDTypes;
  });
  return (fits && !copy.bad()) || no("the plan is malformed");
}

}  // namespace slipway::kernels
