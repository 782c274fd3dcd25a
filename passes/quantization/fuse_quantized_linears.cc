// Products whose matrix is a stored, dequantized one become slipway.quantized_linear, with weights as [columns, rows],
// and embeddings of such a table slipway.quantized_embedding: the forms that targets with an operator for both lower;
// for others legalize takes them apart again. Where something else needs the floats of a matrix, too, its products stay
// as they are.
#include "ir/ops/args.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Node;
using ir::Value;

// A product with a matrix of quantized weights, or an embedding that reads rows of it.
struct QuantizedProduct {
  Node* node = nullptr;
  Value *x = nullptr, *bias = nullptr;  // of an embedding x are the indices
  Dequantized matrix;
  bool transposed = false;  // the matrix is [columns, rows] already
  bool embedding = false;
};

bool IsEmbedding(const Node& n) { return n.op_name() == "aten.embedding.default"; }
// The argument that is the matrix; "" for other operators.
std::string_view MatrixArgument(const Node& n) { return IsEmbedding(n) ? "weight" : MatrixOf(n); }

// Stored integers with stored scales, one or one for each column, or for groups of a column.
bool IsMatrix(const Dequantized& d, bool transposed) {
  if (!IsStored(d.input) || !IsStored(d.scale) || (d.zero_point && !IsStored(d.zero_point)) ||
      !d.input->type().StaticSizes())
    return false;
  const int64_t across = d.block_size[transposed ? 0 : 1];
  return across == -1 || across == 1;
}

std::optional<QuantizedProduct> ReadEmbedding(Node* n) {
  ir::ArgReader a(*n);
  QuantizedProduct p{.node = n, .transposed = true, .embedding = true};
  Value* w = a.tensor("weight");
  p.x = a.tensor("indices");
  auto d = a.ok() && w->rank() == 2 ? ReadDequantized(w) : std::nullopt;
  if (!d || !IsMatrix(*d, true)) return std::nullopt;
  p.matrix = *std::move(d);
  return p;
}

std::optional<QuantizedProduct> Read(Node* n) {
  if (IsEmbedding(*n)) return ReadEmbedding(n);
  const std::string_view name = MatrixOf(*n);
  if (name.empty()) return std::nullopt;
  Value* w = n->Get(name).value();
  ir::ArgReader a(*n);
  QuantizedProduct p;
  p.node = n;
  p.transposed = n->op_name() == "aten.linear.default";
  p.x = a.tensor(p.transposed ? "input" : n->op_name() == "aten.addmm.default" ? "mat1" : "self");
  if (p.transposed) p.bias = a.opt_tensor("bias");
  if (n->op_name() == "aten.addmm.default") {
    p.bias = a.tensor("self");
    const ir::Scalar alpha = a.scalar("alpha"), beta = a.scalar("beta");
    if (!alpha.is_constant() || !beta.is_constant() || alpha.d != 1 || beta.d != 1) return std::nullopt;
  }
  if (!a.ok() || p.x->rank() == 0 || !ir::IsFloating(p.x->dtype())) return std::nullopt;
  if (Value* source = TransposedSource(w)) {
    w = source;
    p.transposed = !p.transposed;
  }
  auto d = ReadDequantized(w);
  if (!d || !IsMatrix(*d, p.transposed) || d->dtype != p.x->dtype()) return std::nullopt;
  p.matrix = *std::move(d);
  // A bias of the columns: one row of it.
  const auto columns = w->sizes()[p.transposed ? 0 : 1].constant();
  if (p.bias && (p.bias->rank() != 1 || p.bias->sizes()[0].constant() != columns)) return std::nullopt;
  return p;
}

// Whether only such products use the value, at the place of their matrix.
bool IsOnlyMatrix(const Value* v) {
  if (v->graph()->IsOutput(v)) return false;
  for (Node* user : v->users()) {
    const bool turned = user->output() && ReadPermutation(user->output()).source == v;
    if (turned ? !IsOnlyMatrix(user->output()) : !Read(user) || user->Get(MatrixArgument(*user)).value() != v)
      return false;
  }
  return true;
}

absl::Status Form(const QuantizedProduct& p) {
  ir::Graph& g = *p.node->graph();
  ir::Builder b(g, p.node, p.node->source());
  const Dequantized& m = p.matrix;
  auto turned = [&](Value* v) { return p.transposed ? v : b.Call("aten.permute.default", {v, ir::Ints{1, 0}}); };
  // Sizes of a matrix with an element a block.
  ir::Ints counts;
  for (int d = 0; d < 2; ++d)
    counts.push_back(m.block_size[d] == -1 ? 1 : *m.input->sizes()[d].constant() / m.block_size[d]);
  auto of_blocks = [&](Value* v) -> Value* {
    if (!v) return nullptr;
    const ir::Ints sizes = v->type().StaticNumel() == 1 ? ir::Ints{1, 1} : counts;
    if (v->type().StaticSizes() != sizes) v = b.Call("aten.reshape.default", {v, sizes});
    if (sizes != counts) v = b.Call("aten.expand.default", {v, counts});
    return turned(v);
  };
  // A zero point that is stored and 0 everywhere subtracts nothing; torchao stores these for symmetric weights, too.
  const bool shifted =
      m.zero_point && (m.float_zero_point || StoredRange(m.zero_point) != std::pair<int64_t, int64_t>(0, 0));
  Dequantized d = m;  // [columns, rows]
  d.input = turned(m.input), d.scale = of_blocks(m.scale), d.zero_point = shifted ? of_blocks(m.zero_point) : nullptr;
  if (!p.transposed) std::swap(d.block_size[0], d.block_size[1]);
  Value* y = p.embedding ? EmitRows(b, d, p.x) : EmitLinear(b, d, p.x, p.bias);
  if (!b.ok()) return b.status();
  ReplaceNode(p.node, {y});
  return absl::OkStatus();
}

}  // namespace

absl::Status FormQuantizedLinears(ir::Program& p) {
  std::vector<Node*> products;
  for (Node* n : *p.graph) {
    if (!Read(n)) continue;
    const Value* w = n->Get(MatrixArgument(*n)).value();
    if (IsOnlyMatrix(ReadDequantized(w) ? w : ReadPermutation(w).source)) products.push_back(n);
  }
  for (Node* n : products)  // read again: its operands may have been replaced
    if (absl::Status s = Form(*Read(n)); !s.ok()) return s;
  return EliminateDeadCode(p);
}

}  // namespace slipway::passes
