// See purity.h. Operators that take a generator draw by declaration; the others that draw are listed.
#include "passes/purity.h"

#include "ir/ops/args.h"
#include "ir/ops/op_table.h"

namespace slipway::passes {
namespace {

// Drawing operators without a generator argument. They draw only with the probability not 0 and, where they have such
// an argument, in training; "" stands for always.
struct Drawing {
  std::string_view base, probability, training;
};
constexpr Drawing kDrawing[] = {
    {"dropout", "p", "train"},
    {"alpha_dropout", "p", "train"},
    {"feature_dropout", "p", "train"},
    {"feature_alpha_dropout", "p", "train"},
    {"native_dropout", "p", "train"},
    {"_cudnn_rnn", "dropout", "train"},
    {"gru", "dropout", "train"},
    {"lstm", "dropout", "train"},
    {"rnn_relu", "dropout", "train"},
    {"rnn_tanh", "dropout", "train"},
    {"scaled_dot_product_attention", "dropout_p", ""},
    {"_scaled_dot_product_attention_math", "dropout_p", ""},
    {"_scaled_dot_product_cudnn_attention", "dropout_p", ""},
    {"_scaled_dot_product_efficient_attention", "dropout_p", ""},
    {"_scaled_dot_product_flash_attention", "dropout_p", ""},
    {"_scaled_dot_product_flash_attention_for_cpu", "dropout_p", ""},
    {"_scaled_dot_product_fused_attention_overrideable", "dropout_p", ""},
    {"_cudnn_init_dropout_state", "", ""},
    {"_efficient_attention_forward", "dropout_p", ""},
    {"_flash_attention_forward", "dropout_p", ""},
    {"rand", "", ""},
    {"rand_like", "", ""},
    {"randint", "", ""},
    {"randint_like", "", ""},
    {"randn", "", ""},
    {"randn_like", "", ""},
    {"randperm", "", ""},
};

// Whether an argument is surely 0 or false.
bool SurelyZero(const ir::Node& n, std::string_view name) {
  if (name.empty()) return false;
  const ir::Arg& a = n.Get(name);
  if (auto d = a.get<double>()) return *d == 0;
  if (auto i = a.get<int64_t>()) return *i == 0;
  if (auto b = a.get<bool>()) return !*b;
  return false;
}

}  // namespace

bool IsRandom(const ir::Node& n) {
  for (const ir::ArgDef& a : n.op().args)
    if (a.type == "Generator") return true;
  if (n.op().ns != "aten") return false;
  for (const Drawing& d : kDrawing)
    if (d.base == n.op().base) return !SurelyZero(n, d.probability) && !SurelyZero(n, d.training);
  return false;
}

bool IsPure(const ir::Node& n) {
  if (!n.op().known || n.op().variadic || n.op().mutates() || n.outputs().empty()) return false;
  for (const ir::NamedArg& a : n.args())
    if (a.arg.is<ir::SubGraph>()) return false;
  return !IsRandom(n);
}

}  // namespace slipway::passes
