// Attention, ONNX's own and com.microsoft's: aten.scaled_dot_product_attention.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "importers/onnx/lowering.h"

namespace slipway::importers::onnx_in {
namespace {

// [batch, length, heads * size] as [batch, heads, length, size], and back.
Value* Heads(Call& c, Value* x, int64_t heads) {
  const SymInts shape = {c.b.Size(x, 0), c.b.Size(x, 1), IntOrValue(heads), IntOrValue(-1)};
  return c.b.Call("aten.transpose.int", {c.b.Call("aten.reshape.default", {x, Arg(shape)}), 1, 2});
}
Value* Joined(Call& c, Value* x) {
  x = c.b.Call("aten.transpose.int", {x, 1, 2});
  const SymInts shape = {c.b.Size(x, 0), c.b.Size(x, 1), IntOrValue(-1)};
  return c.b.Call("aten.reshape.default", {x, Arg(shape)});
}

Value* Attend(Call& c, Value* q, Value* k, Value* v, Value* mask, bool causal, double scale, bool shared = false) {
  using Named = std::vector<std::pair<std::string_view, Arg>>;
  Named named = scale > 0 ? Named{{"scale", Arg(scale)}} : Named{};
  if (shared)
    named = scale > 0 ? Named{{"scale", Arg(scale)}, {"enable_gqa", Arg(true)}} : Named{{"enable_gqa", Arg(true)}};
  return c.b.Call("aten.scaled_dot_product_attention.default", {q, k, v, mask ? Arg(mask) : Arg(), 0.0, causal}, named);
}

// ---- ONNX's own

// What aten.scaled_dot_product_attention says. The rest (scores as a result, limited scores, windows, lengths of keys,
// a causal mask beside another or behind earlier keys) is what ONNX defines the operator by.
bool IsPlainAttention(const onnx::NodeProto& n) {
  const auto given = [&](int i) { return i < n.input_size() && !n.input(i).empty(); };
  bool causal = false;
  for (const onnx::AttributeProto& a : n.attribute()) {
    if (a.name() == "is_causal") causal = a.i() != 0;
    if (a.name() == "softcap" && a.f() != 0) return false;
    if ((a.name() == "left_window_size" || a.name() == "right_window_size") && a.i() != -1) return false;
    if (a.name() == "softmax_precision" && a.i() != onnx::TensorProto::FLOAT) return false;
  }
  if (causal && (given(3) || given(4))) return false;
  return !given(6) && (n.output_size() < 4 || n.output(3).empty());
}

void Attention(Call& c) {
  for (const char* name :
       {"softcap", "left_window_size", "right_window_size", "softmax_precision", "qk_matmul_output_mode"})
    c.Ignore(name);
  Value *q = c.in(0), *k = c.in(1), *v = c.in(2), *mask = c.opt_in(3);
  int64_t heads = c.integer("q_num_heads", 0), kept = c.integer("kv_num_heads", 0);
  const bool joined = q->rank() == 3;
  if (joined) {
    if (heads < 1 || kept < 1 || k->rank() != 3 || v->rank() != 3) return c.Wrong("no q_num_heads or kv_num_heads");
    q = Heads(c, q, heads), k = Heads(c, k, kept), v = Heads(c, v, kept);
  } else {
    if (q->rank() != 4 || k->rank() != 4 || v->rank() != 4) return c.Wrong("operands of other ranks");
    const auto all = q->sizes()[1].constant(), shared = k->sizes()[1].constant();
    if (!all || !shared) return c.Refuse("of dynamic numbers of heads");
    heads = *all, kept = *shared;
  }
  if (!c.ok()) return;
  if (c.has(4) != c.has(5)) return c.Wrong("earlier keys without values");
  if (c.has(4)) {
    k = c.b.Call("aten.cat.default", {Arg(Values{c.in(4), k}), 2});
    v = c.b.Call("aten.cat.default", {Arg(Values{c.in(5), v}), 2});
  }
  if (mask && mask->dtype() != DType::kBool) mask = c.b.Cast(mask, q->dtype());
  Value* y = Attend(c, q, k, v, mask, c.integer("is_causal", 0) != 0, c.real("scale", 0), heads != kept);
  c.Give(0, joined ? Joined(c, y) : y);
  if (c.wants(1)) c.Give(1, k);
  if (c.wants(2)) c.Give(2, v);
}

// ---- com.microsoft's

// A mask of ones and zeros, [batch, keys] or with queries before them, as what is added to scores.
Value* AddedMask(Call& c, Value* mask, DType dtype) {
  if (mask->rank() == 1) {
    c.Refuse("with a mask of lengths");
    return mask;
  }
  if (mask->rank() > 3) {
    c.Refuse("with a mask of a rank over 3");
    return mask;
  }
  Value* off = c.b.Call("aten.eq.Scalar", {mask, 0});
  const double least = c.real("mask_filter_value", -10000.0);
  Value* added = c.b.Call("aten.where.self", {off, c.Constant(least, dtype), c.Constant(0, dtype)});
  added = c.b.Call("aten.unsqueeze.default", {added, 1});
  return mask->rank() == 2 ? c.b.Call("aten.unsqueeze.default", {added, 1}) : added;
}

// Of one tensor: its products with weights for queries, keys and values at once.
void PackedAttention(Call& c) {
  c.Ignore("mask_filter_value"), c.Ignore("past_present_share_buffer");
  Value *x = c.in(0), *w = c.in(1);
  const int64_t heads = c.integer("num_heads", 0);
  if (c.has(4) || c.wants(1)) return c.Refuse("with a state of earlier keys");
  if (c.integer("do_rotary", 0) != 0) return c.Refuse("with do_rotary");
  if (heads < 1 || x->rank() != 3 || w->rank() != 2) return c.Wrong("no num_heads, or operands of other ranks");
  const auto all = w->sizes()[1].constant();
  if (!all) return c.Refuse("of dynamic weights");
  Ints sizes = c.integers("qkv_hidden_sizes").value_or(Ints{*all / 3, *all / 3, *all / 3});
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != *all) return c.Wrong("qkv_hidden_sizes of other weights");
  Value* y = c.b.Call("aten.matmul.default", {x, w});
  if (Value* bias = c.opt_in(2)) y = c.b.Call("aten.add.Tensor", {y, bias});
  const Values parts = c.b.CallMulti("aten.split_with_sizes.default", {y, Arg(sizes), -1});
  if (!c.ok()) return;
  Value* mask = c.has(3) ? AddedMask(c, c.in(3), x->dtype()) : nullptr;
  if (Value* bias = c.opt_in(5)) mask = mask ? c.b.Call("aten.add.Tensor", {mask, bias}) : bias;
  const bool causal = c.integer("unidirectional", 0) != 0;
  if (causal && mask) return c.Refuse("unidirectional and with a mask");
  Value *q = Heads(c, parts[0], heads), *k = Heads(c, parts[1], heads), *v = Heads(c, parts[2], heads);
  c.Give(Joined(c, Attend(c, q, k, v, mask, causal, c.real("scale", 0))));
}

// Of queries, keys and values, each [batch, length, heads * size].
void MultiHeadAttention(Call& c) {
  c.Ignore("mask_filter_value");
  const int64_t heads = c.integer("num_heads", 0);
  Value *q = c.in(0), *k = c.opt_in(1), *v = c.opt_in(2);
  if (!k || !v || q->rank() != 3 || k->rank() != 3 || v->rank() != 3)
    return c.Refuse("of packed or cached keys and values");
  if (heads < 1) return c.Wrong("no num_heads");
  if (c.has(6) || c.has(7) || c.wants(1) || c.wants(2)) return c.Refuse("with a state of earlier keys");
  if (Value* bias = c.opt_in(3)) {  // of all three, one after the other
    const auto width = q->sizes()[2].constant(), last = v->sizes()[2].constant();
    if (!width || !last) return c.Refuse("with a bias of dynamic sizes");
    const Values parts = c.b.CallMulti("aten.split_with_sizes.default", {bias, Arg(Ints{*width, *width, *last}), 0});
    if (!c.ok()) return;
    q = c.b.Call("aten.add.Tensor", {q, parts[0]}), k = c.b.Call("aten.add.Tensor", {k, parts[1]}),
    v = c.b.Call("aten.add.Tensor", {v, parts[2]});
  }
  Value* mask = c.has(4) ? AddedMask(c, c.in(4), q->dtype()) : nullptr;
  if (Value* bias = c.opt_in(5)) mask = mask ? c.b.Call("aten.add.Tensor", {mask, bias}) : bias;
  const bool causal = c.integer("unidirectional", 0) != 0;
  if (causal && mask) return c.Refuse("unidirectional and with a mask");
  if (!c.ok()) return;
  q = Heads(c, q, heads), k = Heads(c, k, heads), v = Heads(c, v, heads);
  c.Give(Joined(c, Attend(c, q, k, v, mask, causal, c.real("scale", 0))));
}

constexpr Row kAttentionRows[] = {
    {"Attention", Attention, 23, IsPlainAttention},
};
constexpr Row kMicrosoftRows[] = {
    {"Attention", PackedAttention},
    {"MultiHeadAttention", MultiHeadAttention},
};

}  // namespace

absl::Span<const Row> AttentionRows() { return kAttentionRows; }
absl::Span<const Row> MicrosoftAttentionRows() { return kMicrosoftRows; }

}  // namespace slipway::importers::onnx_in
