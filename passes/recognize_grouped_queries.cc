// Attention of several query heads to each head of keys and values, as decoders spell it, becomes one node that says
// so:
//
//   scaled_dot_product_attention(q, repeat(k), repeat(v))  →  scaled_dot_product_attention(q, k, v, enable_gqa=True)
//   where repeat(x) = x.unsqueeze(2).expand(batch, heads, times, length, width).reshape(batch, heads * times, …)
//
// Kernels that share heads then read a cache where it lies, and once, instead of a copy of all of it for each token.
// The numbers are the same.
#include <optional>

#include "ir/builder.h"
#include "ir/ops/args.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"
#include "passes/replace_recognized.h"

namespace slipway::passes {
namespace {

using ir::Node;
using ir::Value;

// Heads that are repeated, and how often each.
struct Repeated {
  Value* heads = nullptr;
  int64_t times = 0;
};

std::optional<Repeated> ReadRepeated(const Value* v) {
  const Node* joined = v->producer();
  if (!joined || v->rank() < 3 || !IsReshape(*joined)) return std::nullopt;
  const Value* wide = joined->Get("self").value();
  const Node* expand = wide ? wide->producer() : nullptr;
  if (!expand || expand->op_name() != "aten.expand.default" || wide->rank() != v->rank() + 1) return std::nullopt;
  const Value* single = expand->Get("self").value();
  const Node* unsqueeze = single ? single->producer() : nullptr;
  const int times_at = v->rank() - 2;  // of `wide`: behind the heads
  if (!unsqueeze || unsqueeze->op_name() != "aten.unsqueeze.default" || single->rank() != wide->rank())
    return std::nullopt;
  ir::ArgReader args(*unsqueeze);
  Value* const heads = unsqueeze->Get("self").value();
  if (!heads || args.dim("dim", single->rank()) != times_at || !args.ok()) return std::nullopt;
  const auto kept = heads->sizes()[times_at - 1].constant(), times = wide->sizes()[times_at].constant();
  if (!kept || !times || *kept < 1 || *times < 1) return std::nullopt;
  for (int d = 0; d < v->rank(); ++d) {  // nothing else is expanded or joined
    if (!ir::ProvablyEqual(heads->sizes()[d], wide->sizes()[d < times_at ? d : d + 1])) return std::nullopt;
    if (d == times_at - 1 ? !v->sizes()[d].is(*kept * *times) : !ir::ProvablyEqual(heads->sizes()[d], v->sizes()[d]))
      return std::nullopt;
  }
  return Repeated{heads, *times};
}

Value* RecognizeGroupedQuery(Node* n, ir::Builder& b) {
  if (n->op_name() != "aten.scaled_dot_product_attention.default") return nullptr;
  ir::ArgReader args(*n);
  const Value *query = args.tensor("query"), *key = args.tensor("key"), *value = args.tensor("value");
  if (!args.ok() || args.b("enable_gqa") || query->rank() != key->rank() || key->rank() != value->rank())
    return nullptr;
  const auto keys = ReadRepeated(key), values = ReadRepeated(value);
  if (!keys || !values || keys->times != values->times ||
      !ir::ProvablyEqual(query->sizes()[query->rank() - 3], key->sizes()[key->rank() - 3]))
    return nullptr;
  return b.Call("aten.scaled_dot_product_attention.default",
                {n->Get("query"), keys->heads, values->heads, n->Get("attn_mask"), n->Get("dropout_p"),
                 n->Get("is_causal"), n->Get("scale"), true});
}

}  // namespace

absl::Status RecognizeGroupedQueries(ir::Program& p) { return ReplaceRecognized(p, RecognizeGroupedQuery); }

}  // namespace slipway::passes
