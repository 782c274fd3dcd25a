// Attention: softmax(q k^T * scale + bias) v over any leading dims. The nodes are those that runtimes run fastest: what
// says where a query may look is added (computed once for all layers that share it), groups of query heads are rows of
// one product with their key head instead of copies of it, and of a batch of one the heads are the batch, so that the
// transposes around the products become part of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "exporters/onnx/lowerings/data.h"
#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {
namespace {

// Whether the Attention operator of opset 23 computes it: (batch, heads, length, features), nothing empty, and a mask
// that has the lengths themselves (the operator broadcasts a mask's batch and heads only).
bool FitsAttentionOp(LoweringContext& c) {
  ir::Value *q = c.tensor("query"), *k = c.tensor("key"), *v = c.tensor("value"), *mask = c.opt_tensor("attn_mask");
  if (c.e.opset() < 23 || q->rank() != 4 || k->rank() != 4 || v->rank() != 4 || q->dtype() == DType::kFloat64)
    return false;
  for (ir::Value* x : {q, k, v})
    for (ir::Sym size : x->sizes())
      if (ir::RangeOf(size).min < 1) return false;
  const bool grouped = c.b("enable_gqa");
  auto hq = q->sizes()[1].constant(), hk = k->sizes()[1].constant();
  if (grouped ? !hq || !hk || *hq % *hk : !ir::ProvablyEqual(q->sizes()[1], k->sizes()[1])) return false;
  if (!ir::ProvablyEqual(k->sizes()[1], v->sizes()[1])) return false;
  for (ir::Value* x : {k, v})
    if (!ir::ProvablyEqual(q->sizes()[0], x->sizes()[0])) return false;
  if (!mask) return true;
  const auto& m = mask->sizes();
  if (c.b("is_causal") || m.size() < 2) return false;
  if (!ir::ProvablyEqual(m[m.size() - 2], q->sizes()[2]) || !ir::ProvablyEqual(m[m.size() - 1], k->sizes()[2]))
    return false;
  for (size_t i = 0; i + 2 < m.size(); ++i)
    if (!m[i].constant() && !ir::ProvablyEqual(m[i], q->sizes()[i + 4 - m.size()])) return false;
  return true;
}

// Whether the dims in front of heads are those of another value.
bool SameBatch(const ir::Value* a, const ir::Value* b) {
  if (a->rank() != b->rank()) return false;
  for (int d = 0; d < a->rank() - 3; ++d)
    if (!ir::ProvablyEqual(a->sizes()[d], b->sizes()[d])) return false;
  return true;
}

// Groups of heads whose numbers are known, of one batch; others are decomposed.
bool HeadsAreKnown(const ir::Node& n) {
  const bool* grouped = n.Get("enable_gqa").get<bool>();
  if (!grouped || !*grouped) return true;
  const ir::Value* q = n.Get("query").value();
  for (const char* name : {"query", "key", "value"}) {
    const ir::Value* v = n.Get(name).value();
    if (!v || !v->type().is_tensor() || (v->rank() >= 3 && !v->sizes()[v->rank() - 3].constant()) || !SameBatch(q, v))
      return false;
  }
  return true;
}

// A size of a shape: `times` a dim of a value.
struct Size {
  ir::Value* of;
  int dim;
  int64_t times = 1;
  std::optional<int64_t> known() const {
    auto size = of->sizes()[dim].constant();
    return size ? std::optional(*size * times) : std::nullopt;
  }
};

// x in that shape; one size that is not known is what the others leave.
V Shaped(LoweringContext& c, V x, const std::vector<Size>& sizes) {
  const auto unknown = std::count_if(sizes.begin(), sizes.end(), [](const Size& s) { return !s.known(); });
  const bool zero = std::any_of(sizes.begin(), sizes.end(), [](const Size& s) { return s.known() == 0; });
  std::vector<V> parts;
  Ints run;
  for (const Size& s : sizes) {
    if (s.known() || (unknown == 1 && !zero)) {
      run.push_back(s.known().value_or(-1));
      continue;
    }
    if (!run.empty()) parts.push_back(c.e.I64(std::exchange(run, {})));
    V size = c.e.Dim(c.raw(s.of), s.dim);
    parts.push_back(s.times == 1 ? size : c.e.Mul(size, c.e.I64({s.times})));
  }
  if (parts.empty()) return c.e.Reshape(x, run);
  if (!run.empty()) parts.push_back(c.e.I64(run));
  return c.e.Reshape(x, c.e.Concat(parts, 0), static_cast<int>(sizes.size()), zero);
}

// What a tensor of heads repeats, each `times` in a row: (…, heads, length, features) as a view of (…, heads, times,
// length, features) that is spread from size 1. Null for others.
ir::Value* Repeated(ir::Value* v, int64_t times) {
  const auto made_by = [](const ir::Value* x, std::initializer_list<std::string_view> bases) {
    return x->producer() && x->producer()->op().ns == "aten" &&
           std::find(bases.begin(), bases.end(), x->producer()->op().base) != bases.end();
  };
  const int n = v->rank();
  if (n < 3 || !made_by(v, {"view", "reshape", "_unsafe_view", "flatten"})) return nullptr;
  ir::Value* spread = v->producer()->Get("self").value();
  if (!spread || spread->rank() != n + 1 || !made_by(spread, {"expand"})) return nullptr;
  ir::Value* one = spread->producer()->Get("self").value();
  if (!one || one->rank() != n + 1 || !made_by(one, {"unsqueeze"})) return nullptr;
  ir::Value* base = one->producer()->Get("self").value();
  if (!base || base->rank() != n || !one->sizes()[n - 2].is(1) || !spread->sizes()[n - 2].is(times)) return nullptr;
  for (int d = 0; d < n; ++d) {
    const int wide = d < n - 2 ? d : d + 1;
    if (!ir::ProvablyEqual(one->sizes()[wide], spread->sizes()[wide]) ||
        !ir::ProvablyEqual(base->sizes()[d], one->sizes()[wide]))
      return nullptr;
    const ir::Sym size = base->sizes()[d];
    if (!ir::ProvablyEqual(v->sizes()[d], d == n - 3 ? size * times : size)) return nullptr;
  }
  return base;
}

// How many query heads share a key head; key and value become what they repeat. 0 where the numbers do not fit.
int64_t GroupSize(LoweringContext& c, ir::Value* q, ir::Value** k, ir::Value** v) {
  const auto heads = [](const ir::Value* x) { return x->sizes()[x->rank() - 3].constant(); };
  if (q->rank() < 3 || !SameBatch(q, *k) || !SameBatch(q, *v)) return 1;
  if (c.b("enable_gqa")) {
    auto hq = heads(q), hk = heads(*k), hv = heads(*v);
    return !hq || !hk || *hk == 0 || *hq % *hk || hv != hk ? 0 : *hq / *hk;
  }
  const ir::Node* view = (*k)->producer();
  const ir::Value* spread = view && view->op().ns == "aten" ? view->Get("self").value() : nullptr;
  if (!spread || !spread->type().is_tensor() || spread->rank() != q->rank() + 1) return 1;
  const auto times = spread->sizes()[q->rank() - 2].constant();
  if (!times || *times < 2 || !ir::ProvablyEqual(q->sizes()[q->rank() - 3], (*k)->sizes()[q->rank() - 3])) return 1;
  ir::Value *one_k = Repeated(*k, *times), *one_v = Repeated(*v, *times);
  if (!one_k || !one_v) return 1;
  *k = one_k, *v = one_v;
  return *times;
}

// onnxruntime 1.31 takes as long for it as for the nodes below (one thread, a Llama of 4 layers, 128 tokens: 0.99 and
// 1.01 of their time). Heads that keys and values share are left to it: what repeats them in the program is not
// written, which is 2 % of such a run.
V AttentionOp(LoweringContext& c) {
  ir::Value *q = c.tensor("query"), *k = c.tensor("key"), *v = c.tensor("value");
  if (GroupSize(c, q, &k, &v) == 0) return c.Fail("the numbers of heads are no multiples"), V{};
  std::vector<V> in = {c.value(q), c.value(k), c.value(v)};
  if (V mask = c.opt_in("attn_mask")) in.push_back(ir::IsBool(mask.dtype) ? mask : c.e.Cast(mask, in[0].dtype));
  Attrs attrs;
  if (c.b("is_causal")) attrs.push_back({"is_causal", int64_t{1}});
  if (auto scale = c.opt_f("scale")) attrs.push_back({"scale", *scale});
  return c.e.Op("Attention", in, std::move(attrs));
}

struct Mask {
  V bias;  // what is added to scores; empty for nothing
  // true for queries that may look nowhere, of which softmax gives NaN and torch 0; empty where there are none
  V nowhere;
};

// Masks of truth values and causal ones, as what is added: nothing or minus infinity, as torch has it.
Mask ReadMask(LoweringContext& c, ir::Value* q, ir::Value* k, DType t) {
  V mask = c.opt_in("attn_mask");
  const V open = c.e.Number(0, t), shut = c.e.Number(-kInfinity, t);
  if (c.b("is_causal")) {
    if (mask) return c.Unsupported("is_causal together with attn_mask"), Mask{};
    const auto length = [&](ir::Value* x) {
      const auto known = x->sizes()[x->rank() - 2].constant();
      return known ? c.e.I64({*known}) : c.e.Dim(c.raw(x), x->rank() - 2);
    };
    constexpr int64_t kMostStored = 1 << 14;  // numbers in the file
    const auto rows = q->sizes()[q->rank() - 2].constant(), columns = k->sizes()[k->rank() - 2].constant();
    if (rows && columns && *rows > 0 && *columns > 0 && *rows <= kMostStored / *columns) {
      std::vector<double> bias;
      for (int64_t i = 0; i < *rows; ++i)
        for (int64_t j = 0; j < *columns; ++j) bias.push_back(j > i ? -kInfinity : 0);
      return {c.e.Numbers(std::move(bias), t, {*rows, *columns}), {}};
    }
    V ones = c.e.Expand(c.e.Integer(1, DType::kInt64), c.e.Concat({length(q), length(k)}, 0), 2);
    V blocked = c.e.Equal(c.e.Op("Trilu", {ones}, {{"upper", int64_t{0}}}), c.e.Integer(0, DType::kInt64));
    return {c.e.Where(blocked, shut, open), {}};
  }
  if (!mask) return {};
  if (mask.rank == 0) mask = c.e.Unsqueeze(mask, {0});
  // No ReduceMax where a sum does: onnxruntime's symbolic shape inference, which its transformers optimizer asks, knows
  // no shapes of those, and there may be no keys.
  const bool truth = ir::IsBool(mask.dtype);
  if (!truth) mask = c.e.Cast(mask, t);
  V looks = truth ? mask : c.e.Not(c.e.Op("IsInf", {mask}, {{"detect_positive", int64_t{0}}}, DType::kBool));
  V places = c.e.Reduce("ReduceSum", c.e.Cast(looks, DType::kInt32), {mask.rank - 1}, true);
  return {truth ? c.e.Where(mask, open, shut) : mask, c.e.Not(c.e.Cast(places, DType::kBool))};
}

// The heads of a batch of one as the batch. A transpose that made them moves behind the squeeze, where products take it
// in.
V WithoutBatch(Emitter& e, V x) {
  if (const auto* made = e.TransposeOf(x); made && made->second[0] == 0) {
    Ints perm;
    for (size_t d = 1; d < made->second.size(); ++d) perm.push_back(made->second[d] - 1);
    return e.Transpose(e.Squeeze(made->first, {0}), perm);
  }
  return e.Squeeze(x, {0});
}

void Attention(LoweringContext& c) {
  ir::Value *q = c.tensor("query"), *k = c.tensor("key"), *v = c.tensor("value");
  if (c.f("dropout_p") != 0) return c.Unsupported("dropout inside attention (dropout_p is not 0)");
  if (!c.ok()) return;
  if (q->rank() < 2 || k->rank() < 2 || v->rank() < 2) return c.Fail("query, key and value need two dims");
  if (FitsAttentionOp(c)) return c.Return(AttentionOp(c));
  const int64_t group = GroupSize(c, q, &k, &v);
  if (group == 0) return c.Fail("the numbers of heads are no multiples");
  V x = c.value(q), keys = c.value(k), values = c.value(v);
  const DType t = x.dtype;
  auto [bias, nowhere] = ReadMask(c, q, k, t);
  if (!c.ok()) return;

  // Of a batch of one, the heads are the batch, where a transpose is gained by it.
  const int n = q->rank();
  bool single = n == 4 && k->rank() == 4 && v->rank() == 4 && bias.rank <= 4;
  for (const ir::Value* part : {q, k, v}) single = single && part->sizes()[0].is(1);
  if (const ir::Value* mask = c.opt_tensor("attn_mask"))
    single = single && (mask->rank() < 4 || mask->sizes()[0].is(1));
  single = single && (c.e.TransposeOf(x) || c.e.TransposeOf(keys) || c.e.TransposeOf(values));
  const int first = single ? 1 : 0;
  if (single) {
    keys = WithoutBatch(c.e, keys), values = WithoutBatch(c.e, values);
    if (group == 1) x = WithoutBatch(c.e, x);
    if (bias.rank == 4) bias = c.e.Squeeze(bias, {0});
    if (nowhere.rank == 4) nowhere = c.e.Squeeze(nowhere, {0});
  }
  // (…, heads, length, `last`) of the query, and the same with the heads of a group as rows.
  const auto sizes = [&](bool grouped, Size last) {
    std::vector<Size> out;
    for (int d = first; d < n - 3; ++d) out.push_back({q, d});
    if (n >= 3) out.push_back({grouped ? k : q, n - 3});
    out.push_back({q, n - 2, grouped ? group : 1});
    out.push_back(last);
    return out;
  };
  if (group > 1) x = Shaped(c, x, sizes(true, {q, n - 1}));

  Ints perm(keys.rank);
  for (int d = 0; d < keys.rank; ++d) perm[d] = d;
  std::swap(perm[keys.rank - 1], perm[keys.rank - 2]);
  V scores = c.e.MatMul(x, c.e.Transpose(keys, perm));
  if (const auto scale = c.opt_f("scale")) {
    if (*scale != 1) scores = c.e.Mul(scores, c.e.Number(*scale, t));
  } else if (auto d = q->sizes()[n - 1].constant()) {
    scores = c.e.Mul(scores, c.e.Number(1 / std::sqrt(static_cast<double>(*d)), t));
  } else {
    scores = c.e.Mul(scores, c.e.Op("Reciprocal", {c.e.Op("Sqrt", {c.e.Cast(c.e.DimScalar(c.raw(q), n - 1), t)})}));
  }
  if (bias) {
    if (group > 1) scores = Shaped(c, scores, sizes(false, {k, k->rank() - 2}));
    scores = c.e.Add(scores, bias);
  }
  V p = c.e.Op("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (bias && group > 1) p = Shaped(c, p, sizes(true, {k, k->rank() - 2}));
  V y = c.e.MatMul(p, values);
  if (group > 1) y = Shaped(c, y, sizes(false, {v, v->rank() - 1}));
  if (nowhere) y = c.e.Where(nowhere, c.e.Number(0, t), y);
  c.Return(single ? c.e.Unsqueeze(y, {0}) : y);
}

constexpr Row kAttentionRows[] = {
    {"aten.scaled_dot_product_attention.default", Attention, true, 0, HeadsAreKnown},
};

}  // namespace

absl::Span<const Row> AttentionRows() { return kAttentionRows; }

}  // namespace slipway::exporters::onnx_out
