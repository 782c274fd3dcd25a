// Integers of activations, in programs that quantize them. torchao spells a layer of int8 activations and weights as
// ten nodes: integers of the rows and their scales, a product of integers (of unsigned ones where the processor wants
// them, less what that adds), two scales. A target with one kernel for all of it must find them, and be sure of each:
// everything between the product and its last scale is used once, and a correction is the one that the unsigned
// integers ask for. pt2e quantizes whole tensors, to unsigned integers.
#include <algorithm>
#include <cstring>

#include "ir/ops/args.h"
#include "ir/storage_check.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Node;
using ir::Value;

// ---- quantize_rows

bool ByRows(const ir::Ints& block) {
  return !block.empty() && block.back() == -1 &&
         std::all_of(block.begin(), block.end() - 1, [](int64_t b) { return b == 1; });
}
bool IsWhole(const ir::Ints& block) {
  return std::all_of(block.begin(), block.end(), [](int64_t b) { return b == -1; });
}
// The blocks of choose_qparams_affine, which says sizes, from dim `first` on: all of each dim, or one of each before.
bool AreWhole(const ir::SymInts& block, const Value* x, size_t first) {
  if (block.size() != static_cast<size_t>(x->rank())) return false;
  for (size_t i = 0; i < block.size(); ++i) {
    const ir::Sym size = ir::ExprOf(block[i]);
    const bool all = size.constant() == -1 || ir::ProvablyEqual(size, x->sizes()[i]);
    if (i < first ? size.constant() != 1 : !all) return false;
  }
  return true;
}

bool IsByteType(ir::DType t) { return t == ir::DType::kInt8 || t == ir::DType::kUInt8; }

// quantize(x, choose_qparams(x)) -> quantize_rows(x), of a whole tensor as of one row. Where roundings need not stay,
// integers are made of x and its scale in f32, as of activations of f32.
absl::Status FormRows(Node* quantize, bool exact) {
  ir::ArgReader a(*quantize);
  Value *x = a.tensor("input"), *scale = a.tensor("scale"), *zero = a.opt_tensor("zero_point");
  const ir::Ints block = a.ints("block_size");
  const auto arithmetic = a.dtype("arithmetic"), to = a.dtype("dtype");
  const int64_t low = a.i("quant_min"), high = a.i("quant_max");
  const auto in_f32 = [&](std::optional<ir::DType> t) {
    return t == ir::DType::kFloat32 || (!exact && t == x->dtype() && ir::IsLowPrecision(*t));
  };
  const bool by_rows = ByRows(block);
  if (!a.ok() || (!by_rows && !IsWhole(block)) || !in_f32(arithmetic) || !to || !IsByteType(*to) ||
      !in_f32(scale->dtype()))
    return absl::OkStatus();
  Node* made = scale->producer();
  if (!Producer(scale, "torchao.choose_qparams_affine.default") || made->output(0) != scale) return absl::OkStatus();
  ir::ArgReader q(*made);
  const std::string mapping = q.str("mapping_type");
  const ir::Scalar least = q.scalar("quant_min"), most = q.scalar("quant_max");
  const bool asymmetric = mapping == "ASYMMETRIC";
  const std::optional<double> eps = q.opt_f("eps");
  // The zero point that is chosen, or none where it is 0.
  const bool zeros = zero ? zero == made->output(1) && zero->dtype() == to : !asymmetric && low == -high - 1;
  const bool is_unsigned = to == ir::DType::kUInt8;
  if (q.tensor("input") != x || q.dtype("target_dtype") != to || low < (is_unsigned ? 0 : -128) ||
      high > (is_unsigned ? 255 : 127) || (!asymmetric && mapping != "SYMMETRIC") || !zeros || !least.is_constant() ||
      !most.is_constant() || least.d != static_cast<double>(low) || most.d != static_cast<double>(high) ||
      !AreWhole(q.sym_ints("block_size"), x, by_rows ? block.size() - 1 : 0) || !q.ok())
    return absl::OkStatus();
  const ir::DType own = x->dtype();
  if (own != ir::DType::kFloat32 && own != ir::DType::kBFloat16 && own != ir::DType::kFloat16) return absl::OkStatus();

  ir::Builder b(*quantize->graph(), made, quantize->source());
  const double smallest = own == ir::DType::kFloat16 ? 0x1p-14 : 0x1p-126;
  Value* from = by_rows ? x : b.Call("aten.reshape.default", {x, ir::SymInts{1, b.Numel(x)}});
  std::vector<std::pair<std::string_view, ir::Arg>> named;
  if (is_unsigned) named.emplace_back("dtype", *to);
  const ir::Values rows = b.CallMulti("slipway.quantize_rows.default",
                                      {from, asymmetric, low, high, eps.value_or(smallest)}, std::move(named));
  if (!b.ok()) return b.status();
  ir::Values params = {rows[1], rows[2]};
  for (int i = 0; i < 2; ++i) {  // as choose_qparams_affine gives them
    Value* old = made->output(i);
    if (!old) continue;
    if (!by_rows)
      params[i] = b.Call("aten.reshape.default", {params[i], b.SizesOf(old)});
    else if (old->rank() != x->rank())
      params[i] = b.Call("aten.squeeze.dim", {params[i], -1});
    params[i] = b.Cast(params[i], old->dtype());
  }
  Value* integers = by_rows ? rows[0] : b.Call("aten.reshape.default", {rows[0], b.SizesOf(x)});
  if (!b.ok()) return b.status();
  ReplaceNode(quantize, {integers});
  ReplaceNode(made, params);
  return absl::OkStatus();
}

// ---- integer_linear

// A weight as [n, k], of what stores it or its transpose.
Value* AsRows(ir::Builder& b, Value* columns) {
  Value* rows = TransposedSource(columns);
  return rows ? rows : b.Call("aten.permute.default", {columns, ir::Ints{1, 0}});
}

// Whether v is `times` the sums of the columns of a stored matrix, as a constant that was folded says.
bool IsFoldedSums(const Value* v, const Value* matrix, int64_t times) {
  const Value* source = TransposedSource(matrix);
  const bool transposed = source != nullptr;
  const ir::TensorRef *sums = StoredTensor(v), *w = StoredTensor(transposed ? source : matrix);
  if (!sums || !w || w->sizes.size() != 2 || sums->dtype != ir::DType::kInt32 || w->dtype != ir::DType::kInt8)
    return false;
  const int64_t rows = w->sizes[0], columns = w->sizes[1], n = transposed ? rows : columns;
  auto given = ir::ReadDense(*sums), integers = ir::ReadDense(*w);
  if (!given.ok() || !integers.ok() || static_cast<int64_t>(given->size()) != 4 * n) return false;
  std::vector<int64_t> sum(static_cast<size_t>(n));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      sum[static_cast<size_t>(transposed ? i : j)] +=
          static_cast<int8_t>((*integers)[static_cast<size_t>(i * columns + j)]);
  for (int64_t j = 0; j < n; ++j) {
    int32_t value;
    std::memcpy(&value, given->data() + 4 * j, 4);
    if (value != times * sum[static_cast<size_t>(j)]) return false;
  }
  return true;
}
bool IsSums(const Value* v, const Value* matrix, int64_t times) {
  const Node* mul = Producer(v, "aten.mul.Tensor");
  if (!mul) return IsFoldedSums(v, matrix, times);
  ir::ArgReader a(*mul);
  const ir::Scalar by = a.scalar("other");
  const Node* sum = Producer(a.tensor("self"), "aten.sum.dim_IntList");
  if (!sum || !by.is_constant() || by.d != static_cast<double>(times) || v->dtype() != ir::DType::kInt32) return false;
  ir::ArgReader s(*sum);
  return s.tensor("self") == matrix && s.ints("dim") == ir::Ints{0} && s.b("keepdim") &&
         s.dtype("dtype") == ir::DType::kInt32 && s.ok();
}

// The signed integers that u is, larger by 128; null for other values.
Value* Signed(const Value* u) {
  const Value* add = CastSource(u);
  const Node* n = add && add->dtype() == ir::DType::kInt32 ? Producer(add, "aten.add.Tensor") : nullptr;
  if (u->dtype() != ir::DType::kUInt8 || !n) return nullptr;
  ir::ArgReader a(*n);
  const ir::Scalar by = a.scalar("other"), alpha = a.scalar("alpha");
  Value* wide = a.tensor("self");
  Value* x =
      a.ok() && by.is_constant() && by.d == 128 && alpha.is_constant() && alpha.d == 1 ? CastSource(wide) : nullptr;
  return x && x->dtype() == ir::DType::kInt8 ? x : nullptr;
}

// v · factor by its only user, v of f32 on either side.
Node* OnlyProduct(const Value* v, Value** factor) {
  Node* user = OnlyUser(v);
  if (!user || user->op_name() != "aten.mul.Tensor" || user->output()->dtype() != ir::DType::kFloat32) return nullptr;
  Value *a = user->Get("self").value(), *b = user->Get("other").value();
  *factor = a == v ? b : a;
  return a && b && a != b ? user : nullptr;
}

// (x · qᵀ) · scale of x · scale of q, with the first product rounded or not.
absl::Status JoinProduct(Node* mm) {
  Value *rows = mm->Get("self").value(), *columns = mm->Get("mat2").value(), *sums = mm->output();
  if (!IsStored(columns) || columns->dtype() != ir::DType::kInt8 || !columns->type().StaticSizes())
    return absl::OkStatus();
  Value* x = rows;
  if (rows->dtype() == ir::DType::kUInt8) {
    x = Signed(rows);
    Node* sub = OnlyUser(sums);
    if (!x || !sub || sub->op_name() != "aten.sub.Tensor" || sub->Get("self").value() != sums) return absl::OkStatus();
    ir::ArgReader a(*sub);
    const ir::Scalar alpha = a.scalar("alpha");
    const Value* less = sub->Get("other").value();
    if (!less || !alpha.is_constant() || alpha.d != 1 || !IsSums(less, columns, 128)) return absl::OkStatus();
    sums = sub->output();
  }
  if (x->dtype() != ir::DType::kInt8) return absl::OkStatus();
  Node* wide = OnlyUser(sums);
  if (!wide || !wide->output() || CastSource(wide->output()) != sums || wide->output()->dtype() != ir::DType::kFloat32)
    return absl::OkStatus();
  Value *x_scale, *scale;
  Node* first = OnlyProduct(wide->output(), &x_scale);
  if (!first || x_scale->dtype() != ir::DType::kFloat32 || x_scale->rank() != 2 || !x_scale->sizes()[1].is(1))
    return absl::OkStatus();
  Value* y = first->output();
  std::optional<ir::DType> rounded;
  if (Node* cast = OnlyUser(y); cast && cast->output() && CastSource(cast->output()) == y) {
    rounded = cast->output()->dtype();
    y = cast->output();
    if (rounded != ir::DType::kBFloat16) return absl::OkStatus();
  }
  Node* last = OnlyProduct(y, &scale);
  const int64_t n = *columns->sizes()[1].constant();
  if (!last || !IsStored(scale) || scale->dtype() != ir::DType::kFloat32) return absl::OkStatus();
  // One scale a column, or one for all.
  const auto scales = scale->type().StaticNumel();
  if (scales != 1 && (scales != n || scale->rank() == 0 || scale->sizes().back().constant() != n))
    return absl::OkStatus();

  ir::Builder b(*mm->graph(), last, last->source());
  Value* weight = AsRows(b, columns);
  scale = b.Call("aten.reshape.default", {scale, ir::Ints{-1, 1}});
  std::vector<std::pair<std::string_view, ir::Arg>> named;
  if (rounded) named.emplace_back("rounded", *rounded);
  Value* joined = b.Call("slipway.integer_linear.default", {x, x_scale, nullptr, weight, scale, nullptr, nullptr, -1},
                         std::move(named));
  if (!b.ok()) return b.status();
  ReplaceNode(last, {joined});
  return absl::OkStatus();
}

// linear(dequantize(x), dequantize(q)) in f32; in 16-bit floats, too, where their roundings need not stay
absl::Status JoinLinear(Node* linear, bool exact) {
  const auto x = ReadDequantized(linear->Get("input").value());
  const auto m = ReadMatrix(*linear);
  constexpr ir::DType kF32 = ir::DType::kFloat32;
  auto is_float = [&](ir::DType t) { return t == kF32 || (!exact && ir::IsLowPrecision(t)); };
  auto plain = [&](const Dequantized& d) {
    return is_float(d.arithmetic) && is_float(d.dtype) && is_float(d.scale->dtype()) && (!d.scale_dtype || !exact) &&
           !d.float_zero_point;
  };
  if (!x || !m || !plain(*x) || !plain(*m) || !IsByteType(x->input->dtype()) || !IsByteType(m->input->dtype()) ||
      x->input->rank() == 0)
    return absl::OkStatus();
  if (m->zero_point && m->zero_point->dtype() != m->input->dtype()) return absl::OkStatus();
  if (x->zero_point && x->zero_point->dtype() != x->input->dtype()) return absl::OkStatus();
  ir::ArgReader a(*linear);
  const int64_t block = a.i("block_size");
  Value* bias = a.opt_tensor("bias");
  const auto k = m->input->sizes().back().constant();
  if (!a.ok() || !k || (block != -1 && block != *k && (block % 8 != 0 || block < 1)) ||
      (bias && !is_float(bias->dtype())))
    return absl::OkStatus();
  const bool one = x->scale->type().StaticNumel() == 1 && (!x->zero_point || x->zero_point->type().StaticNumel() == 1);
  if (!one && !ByRows(x->block_size)) return absl::OkStatus();

  ir::Builder b(*linear->graph(), linear, linear->source());
  ir::SymInts rows(static_cast<size_t>(x->input->rank()), 1);
  if (!one)
    for (int d = 0; d + 1 < x->input->rank(); ++d) rows[static_cast<size_t>(d)] = b.Size(x->input, d);
  auto by_rows = [&](Value* v) -> Value* { return v ? b.Call("aten.reshape.default", {v, rows}) : nullptr; };
  Value* y = b.Call("slipway.integer_linear.default",
                    {x->input, b.Cast(by_rows(x->scale), kF32), by_rows(x->zero_point), m->input, m->scale,
                     m->zero_point, bias ? b.Cast(bias, kF32) : nullptr, block == *k ? -1 : block});
  if (!b.ok()) return b.status();
  ReplaceNode(linear, {b.Cast(y, linear->output()->dtype())});
  return absl::OkStatus();
}

}  // namespace

absl::Status FormIntegerLinears(ir::Program& p, bool exact_casts) {
  std::vector<Node*> quantizations, products, linears;
  for (Node* n : *p.graph) {
    const std::string_view op = n->op_name();
    if (op == "slipway.quantize.default") quantizations.push_back(n);
    if (op == "aten._int_mm.default") products.push_back(n);
    if (op == "slipway.quantized_linear.default") linears.push_back(n);
  }
  for (Node* n : linears)
    if (absl::Status s = JoinLinear(n, exact_casts); !s.ok()) return s;
  for (Node* n : products)
    if (absl::Status s = JoinProduct(n); !s.ok()) return s;
  for (Node* n : quantizations)
    if (absl::Status s = FormRows(n, exact_casts); !s.ok()) return s;
  return quantizations.empty() && products.empty() && linears.empty() ? absl::OkStatus() : EliminateDeadCode(p);
}

}  // namespace slipway::passes
