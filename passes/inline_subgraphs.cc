// Inlines the higher-order operators that only set a mode around their body: gradients on or off, autocast, activation
// checkpointing, and calls of a named body. It runs before functionalization, because such a body works on the very
// tensors it is given: what it mutates or aliases belongs to the graph around it.
//
// Autocast is the one mode that changes numbers. Exported bodies name the operators as written and leave the casts to
// the dispatcher, so they are put in here by torch's lists for the CPU (aten/src/ATen/autocast_mode.cpp): an operator is
// in one of three classes, and the class says what its floating arguments become.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "ir/builder.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::DType;
using ir::Graph;
using ir::Node;
using ir::NamedArg;
using ir::SubGraph;
using ir::Value;
using ir::Values;

// ---- Autocast

enum class CastPolicy : uint8_t { kLower, kFloat32, kWidest };

// In the low precision of the region. The composites at the end have no rule of their own: they are made of these.
constexpr std::string_view kLower[] = {
    "_addmm_activation", "_convolution", "_native_multi_head_attention", "addbmm", "addmm", "baddbmm", "bmm", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linalg_vecdot", "linear",
    "matmul", "mkldnn_rnn_layer", "mm", "prelu", "scaled_dot_product_attention",
    "chain_matmul", "einsum", "inner", "linalg_matmul", "linalg_multi_dot", "tensordot",
};
constexpr std::string_view kFloat32[] = {
    "_grid_sampler_2d_cpu_fallback", "_lu_with_info", "adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cdist", "cholesky", "cholesky_inverse",
    "cholesky_solve", "cosine_embedding_loss", "cross_entropy_loss", "ctc_loss", "fake_quantize_per_tensor_affine",
    "fft_fft", "fft_fft2", "fft_fftn", "fft_hfft", "fft_ifft", "fft_ifft2", "fft_ifftn", "fft_ihfft", "fft_irfft",
    "fft_irfft2", "fft_irfftn", "fft_rfft", "fft_rfft2", "fft_rfftn", "fractional_max_pool2d", "fractional_max_pool3d",
    "geqrf", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "hinge_embedding_loss", "huber_loss", "inverse",
    "kl_div", "l1_loss", "linalg_cholesky", "linalg_cholesky_ex", "linalg_cond", "linalg_eig", "linalg_eigh",
    "linalg_eigvals", "linalg_eigvalsh", "linalg_householder_product", "linalg_inv", "linalg_inv_ex", "linalg_lstsq",
    "linalg_matrix_rank", "linalg_qr", "linalg_solve", "linalg_svd", "linalg_svdvals", "linalg_tensorinv",
    "linalg_tensorsolve", "lu_solve", "margin_ranking_loss", "max_pool3d", "max_unpool2d", "max_unpool3d", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_margin_loss_forward", "nanquantile", "nll_loss",
    "nll_loss2d", "orgqr", "ormqr", "pinverse", "poisson_nll_loss", "polar", "prod", "qr", "quantile",
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    "smooth_l1_loss", "soft_margin_loss", "stft", "svd", "trace", "triangular_solve", "triplet_margin_loss",
    "view_as_complex",
};
constexpr std::string_view kWidest[] = {"cat", "index_copy", "stack"};

std::optional<CastPolicy> PolicyOf(const ir::OpDef& op) {
  if (op.ns != "aten") return std::nullopt;
  auto in = [&](const auto& list) { return std::find(std::begin(list), std::end(list), op.base) != std::end(list); };
  if (in(kLower)) return CastPolicy::kLower;
  if (in(kFloat32)) return CastPolicy::kFloat32;
  if (in(kWidest)) return CastPolicy::kWidest;
  return std::nullopt;
}

// Autocast leaves doubles and what is not floating alone.
bool Eligible(const Value* v) {
  return v && v->type().is_tensor() && (v->dtype() == DType::kFloat32 || ir::IsLowPrecision(v->dtype()));
}

absl::Status CastInputs(Graph& g, DType low) {
  for (Node* n : g) {
    // A nested autocast region has its own mode; other bodies run under this one.
    if (n->op_name() != "higher_order.wrap_with_autocast")
      for (const NamedArg& a : n->args())
        if (auto sub = a.arg.get<SubGraph>())
          if (absl::Status s = CastInputs(**sub, low); !s.ok()) return s;
    if (n->op().variadic) continue;
    if (std::optional<CastPolicy> policy = PolicyOf(n->op())) {
      DType to = *policy == CastPolicy::kFloat32 ? DType::kFloat32 : low;
      if (*policy == CastPolicy::kWidest)
        for (const NamedArg& a : n->args())
          a.arg.ForEachValue([&](Value* v) { if (Eligible(v) && v->dtype() == DType::kFloat32) to = DType::kFloat32; });
      // The file's types know better where a double among the arguments rules the result.
      bool lowers = *policy != CastPolicy::kLower || (n->output() && n->output()->dtype() == low);
      if (lowers) {
        ir::Builder b(g, n, n->source());
        for (size_t i = 0; i < n->args().size(); ++i) {
          Arg a = n->At(i);
          a.ReplaceValues([&](Value* v) -> Value* {
            if (!Eligible(v) || v->dtype() == to) return v;
            return b.CallTyped("aten._to_copy.default", {v}, {{"dtype", to}}, {ir::Type::Tensor(to, v->sizes())})[0];
          });
          n->SetArgAt(i, std::move(a));
        }
        if (!b.ok()) return b.status();
      }
    }
    auto types = ir::InferTypes(*n);
    if (!types.ok()) continue;  // no shape function; what is wrong with the node is reported where it is lowered
    for (size_t i = 0; i < types->size() && i < n->outputs().size(); ++i) {
      const Value* v = n->output(i);
      if (v && v->type().is_tensor() && (*types)[i].is_tensor() && (*types)[i].dtype != v->dtype())
        return absl::UnimplementedError(text::StrCat(n->op_name(), " under autocast: gives ", ir::Name((*types)[i].dtype),
                                                     ", the program says ", ir::Name(v->dtype())));
    }
  }
  return absl::OkStatus();
}

// Puts the casts of wrap_with_autocast(device type, dtype, enabled, cache_enabled, body, ...) into its body.
absl::Status ApplyAutocast(const Node& n, Graph& body) {
  if (n.args().size() < 3) return absl::InvalidArgumentError("higher_order.wrap_with_autocast: too few arguments");
  auto device = n.At(0).get<std::string>();
  auto enabled = n.At(2).get<bool>();
  if (!device || !enabled) return absl::InvalidArgumentError("higher_order.wrap_with_autocast: malformed arguments");
  if (!*enabled) return absl::OkStatus();
  auto dtype = n.At(1).get<DType>();
  DType low = dtype ? *dtype : *device == "cuda" ? DType::kFloat16 : DType::kBFloat16;
  if (*device != "cpu") {
    // Only tensors of that device are cast.
    bool touches = false;
    auto look = [&](const Value* v) {
      touches |= v && v->type().is_tensor() && v->type().device && v->type().device->type == *device;
    };
    for (const Value* v : body.inputs()) look(v);
    for (const Node* m : body)
      for (const Value* v : m->outputs()) look(v);
    if (!touches) return absl::OkStatus();
    return absl::UnimplementedError(text::StrCat("autocast regions of device '", *device, "'"));
  }
  if (!ir::IsLowPrecision(low))
    return absl::UnimplementedError(text::StrCat("autocast to ", ir::Name(low)));
  return CastInputs(body, low);
}

// ---- Inlining

// Where the body stands among the arguments; its operands follow it.
struct Wrapper { std::string_view op; size_t body; };
constexpr Wrapper kWrappers[] = {
    {"higher_order.wrap_with_set_grad_enabled", 1}, {"higher_order.wrap_with_autocast", 4},
    {"higher_order.wrap", 0},                       {"higher_order.tag_activation_checkpoint", 0},
    {"higher_order.wrap_activation_checkpoint", 0}, {"higher_order.checkpoint", 0},
    {"higher_order.invoke_subgraph", 0},            {"higher_order.strict_mode", 0},
    {"higher_order.hints_wrapper", 0},              {"higher_order.run_const_graph", 0},
};
// Operands after the body that are no operands: invoke_subgraph's name of the body.
bool IsOperand(const Node& n, size_t i, size_t body) {
  if (!n.args()[i].name.empty()) return false;  // a keyword: how, not what
  return !(n.op_name() == "higher_order.invoke_subgraph" && i == body + 1 && n.At(i).is<std::string>());
}

void Flatten(const Arg& a, std::vector<Arg>& out) {
  if (auto values = a.get<Values>()) {
    for (Value* v : *values) out.emplace_back(v);
  } else if (auto ints = a.get<ir::Ints>()) {
    for (int64_t i : *ints) out.emplace_back(i);
  } else if (auto syms = a.get<ir::SymInts>()) {
    for (const ir::IntOrValue& i : *syms) out.emplace_back(i);
  } else {
    out.push_back(a);
  }
}

// Every use of the symbolic number `v` becomes the constant.
absl::Status ReplaceByConstant(Graph& g, Value* v, const Arg& constant) {
  auto refuse = [&] {
    return absl::UnimplementedError(text::StrCat("a constant operand of a nested graph used as '", v->name(), "'"));
  };
  while (!v->users().empty()) {
    Node* n = v->users().back();
    for (size_t i = 0; i < n->args().size(); ++i) {
      bool mentions = false;
      n->At(i).ForEachValue([&](Value* x) { mentions |= x == v; });
      if (!mentions) continue;
      if (n->At(i).value() == v) {
        n->SetArgAt(i, constant);
      } else if (auto list = n->At(i).get<ir::SymInts>(); list && constant.is<int64_t>()) {
        ir::SymInts now = *list;
        for (ir::IntOrValue& x : now)
          if (x.value == v) x = *constant.get<int64_t>();
        n->SetArgAt(i, Arg(std::move(now)));
      } else {
        return refuse();
      }
    }
  }
  for (Arg& a : g.outputs)
    if (a.value() == v) a = constant;
  return absl::OkStatus();
}

absl::Status Inline(Node* n, const SubGraph& body, const std::vector<Arg>& operands) {
  auto bad = [&](auto... what) { return absl::InvalidArgumentError(text::StrCat(n->op_name(), ": ", what...)); };
  if (operands.size() != body->inputs().size())
    return bad(operands.size(), " operands for a body of ", body->inputs().size(), " inputs");
  if (body->outputs.size() != n->outputs().size())
    return bad(n->outputs().size(), " results of a body with ", body->outputs.size(), " outputs");
  Values inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    Value *want = body->inputs()[i], *given = operands[i].value();
    inputs.push_back(given);
    if (given) {
      bool same = given->type().kind == want->type().kind;
      if (same && given->type().is_tensor()) same = given->dtype() == want->dtype() && given->rank() == want->rank();
      if (!same) return bad("operand ", i, " is ", given->type().ToString(), ", the body takes ", want->type().ToString());
    } else if (want->type().kind != ir::Type::kConstant) {
      if (want->type().is_tensor() && !operands[i].is_none()) return bad("operand ", i, " is no tensor");
      if (absl::Status s = ReplaceByConstant(*body, want, operands[i]); !s.ok()) return s;
    }
  }
  Graph& g = *n->graph();
  std::vector<Arg> results = ir::CloneInto(*body, inputs, g, n);
  for (size_t i = 0; i < results.size(); ++i) {
    Value *old = n->output(i), *now = results[i].value();
    if (!old) continue;
    if (!now || now->type().kind != old->type().kind) return bad("result ", i, " is not what the body returns");
    std::string name = old->name();
    g.ReplaceAllUses(old, now);
  }
  g.Erase(n);
  return absl::OkStatus();
}

// Whether a node's graphs only compute: a call of such a body can stay one.
bool OnlyComputes(const Graph& g) {
  for (const Node* n : g) {
    if (n->op().mutates()) return false;
    for (const NamedArg& a : n->args())
      if (auto sub = a.arg.get<SubGraph>(); sub && !OnlyComputes(**sub)) return false;
  }
  for (const Arg& a : g.outputs)
    if (!a.value()) return false;
  return true;
}
// invoke_subgraph(body, name, operands…) that stays a call: of a body that only computes, on tensors and symbolic numbers.
bool Callable(const Node& n) {
  if (n.args().empty() || !n.At(0).is<SubGraph>() || !OnlyComputes(**n.At(0).get<SubGraph>())) return false;
  std::vector<Arg> operands;
  for (size_t i = 1; i < n.args().size(); ++i)
    if (IsOperand(n, i, 0)) Flatten(n.At(i), operands);
  for (const Arg& a : operands)
    if (!a.value()) return false;
  for (const Value* v : n.outputs())
    if (!v) return false;
  return true;
}

absl::Status InlineIn(Graph& g) {
  for (Node* n = g.first(); n;) {
    Node* before = n->prev();
    const Wrapper* wrapper = nullptr;
    for (const Wrapper& w : kWrappers)
      if (w.op == n->op_name()) wrapper = &w;
    SubGraph body;
    std::vector<Arg> operands;
    if (wrapper && n->op_name() == "higher_order.invoke_subgraph" && Callable(*n)) wrapper = nullptr;
    if (wrapper) {
      if (wrapper->body >= n->args().size() || !n->At(wrapper->body).is<SubGraph>())
        return absl::InvalidArgumentError(text::StrCat(n->op_name(), ": no body"));
      body = *n->At(wrapper->body).get<SubGraph>();
      for (size_t i = wrapper->body + 1; i < n->args().size(); ++i)
        if (IsOperand(*n, i, wrapper->body)) Flatten(n->At(i), operands);
      if (n->op_name() == "higher_order.wrap_with_autocast")
        if (absl::Status s = ApplyAutocast(*n, *body); !s.ok()) return s;
    } else if (n->op_name() == "higher_order.cond" && n->args().size() >= 3) {
      // A predicate known now leaves one branch.
      std::optional<bool> known;
      if (auto p = n->At(0).get<bool>()) known = *p;
      if (Value* v = n->At(0).value(); v && v->type().kind == ir::Type::kSymBool && v->type().expr.kind() == ir::SymKind::kBool)
        known = v->type().expr.bool_value();
      const Arg* branch = known ? &n->At(*known ? 1 : 2) : nullptr;
      if (branch && branch->is<SubGraph>()) {
        body = *branch->get<SubGraph>();
        for (size_t i = 3; i < n->args().size(); ++i) Flatten(n->At(i), operands);
      }
    }
    if (body) {
      if (absl::Status s = Inline(n, body, operands); !s.ok()) return s;
      n = before ? before->next() : g.first();  // what was inlined may hold more of the kind
      continue;
    }
    for (const NamedArg& a : n->args())
      if (auto sub = a.arg.get<SubGraph>())
        if (absl::Status s = InlineIn(**sub); !s.ok()) return s;
    n = n->next();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InlineSubgraphs(ir::Program& p) { return InlineIn(*p.graph); }

}  // namespace slipway::passes
