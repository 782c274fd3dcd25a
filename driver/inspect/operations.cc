// A row for each operator that is made of products: its count from the sizes of operands and results.
#include "driver/inspect/operations.h"

#include <string_view>

#include "base/text.h"
#include "onnx_model/onnx_graph.h"

namespace slipway::driver {
namespace {

using OperationCount = std::optional<double>;

// The sizes of a node's tensors as numbers.
class Sizes {
 public:
  Sizes(const ir::Node& n, bool onnx, const text::Map<int64_t>& symbols) : n_(n), onnx_(onnx), symbols_(symbols) {}

  // Operand `i`, as the node has them; result 0.
  const ir::Value* in(size_t i) const {
    if (const ir::Values* list = onnx_ ? onnx_model::InputsOf(n_) : nullptr)
      return i < list->size() ? (*list)[i] : nullptr;
    return i < n_.args().size() ? n_.args()[i].arg.value() : nullptr;
  }
  const ir::Node& node() const { return n_; }
  const ir::Value* out() const { return n_.output(); }

  OperationCount Size(const ir::Value* v, int axis) const {
    if (!v || !v->type().is_tensor()) return std::nullopt;
    if (axis < 0) axis += v->rank();
    if (axis < 0 || axis >= v->rank()) return std::nullopt;
    const auto size = ir::Evaluate(v->sizes()[axis], [&](std::string_view name) -> std::optional<int64_t> {
      const auto it = symbols_.find(name);
      return it == symbols_.end() ? std::nullopt : std::optional<int64_t>(it->second);
    });
    return size ? OperationCount(static_cast<double>(*size)) : std::nullopt;
  }
  OperationCount Elements(const ir::Value* v) const {
    if (!v || !v->type().is_tensor()) return std::nullopt;
    double n = 1;
    for (int d = 0; d < v->rank(); ++d) {
      const OperationCount size = Size(v, d);
      if (!size) return size;
      n *= *size;
    }
    return n;
  }

 private:
  const ir::Node& n_;
  bool onnx_;
  const text::Map<int64_t>& symbols_;
};

OperationCount Times(OperationCount a, OperationCount b) { return a && b ? OperationCount(*a * *b) : std::nullopt; }

// out = in(kLeft) x …, whose last size is summed over.
template <int kLeft>
OperationCount Product(const Sizes& s) {
  return Times(2, Times(s.Elements(s.out()), s.Size(s.in(kLeft), -1)));
}
// Of ONNX; the left matrix may be transposed.
OperationCount Gemm(const Sizes& s) {
  const OperationCount left = s.Elements(s.in(0)), rows = s.Size(s.out(), 0);
  if (!left || !rows || *rows == 0) return left && rows ? OperationCount(0) : std::nullopt;
  return Times(2, Times(s.Elements(s.out()), *left / *rows));
}
// Each result takes the weights of one output channel.
OperationCount Conv(const Sizes& s) {
  const OperationCount weights = s.Elements(s.in(1)), channels = s.Size(s.in(1), 0);
  if (!weights || !channels || *channels == 0) return std::nullopt;
  return Times(2, Times(s.Elements(s.out()), *weights / *channels));
}
// Each element of the input takes the weights of one input channel.
OperationCount ConvTranspose(const Sizes& s) {
  const OperationCount weights = s.Elements(s.in(1)), channels = s.Size(s.in(1), 0);
  if (!weights || !channels || *channels == 0) return std::nullopt;
  return Times(2, Times(s.Elements(s.in(0)), *weights / *channels));
}
// Scores of each query with each key, and the values that they weigh. Grouped queries count as they are: each head of
// queries reads all keys.
OperationCount Attention(const Sizes& s) {
  const OperationCount query = s.Elements(s.in(0)), depth = s.Size(s.in(0), -1);
  const OperationCount keys = s.Size(s.in(1), -2), width = s.Size(s.in(2), -1);
  if (!query || !depth || !keys || !width || *depth == 0) return std::nullopt;
  return 2 * *query / *depth * *keys * (*depth + *width);
}
// One operator for both directions.
OperationCount Convolution(const Sizes& s) {
  const bool* transposed = s.node().Get("transposed").get<bool>();
  return transposed && *transposed ? ConvTranspose(s) : Conv(s);
}

constexpr struct OperationRow {
  std::string_view op;  // without the overload
  OperationCount (*count)(const Sizes&);
} kRows[] = {
    {"aten.linear", Product<0>},
    {"aten.mm", Product<0>},
    {"aten.bmm", Product<0>},
    {"aten.matmul", Product<0>},
    {"aten.mv", Product<0>},
    {"aten.dot", Product<0>},
    {"aten.addmm", Product<1>},
    {"aten.addmv", Product<1>},
    {"aten.baddbmm", Product<1>},
    {"aten.conv1d", Conv},
    {"aten.conv2d", Conv},
    {"aten.conv3d", Conv},
    {"aten.convolution", Convolution},
    {"aten.conv_transpose1d", ConvTranspose},
    {"aten.conv_transpose2d", ConvTranspose},
    {"aten.conv_transpose3d", ConvTranspose},
    {"aten.scaled_dot_product_attention", Attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu", Attention},
    {"onnx.MatMul", Product<0>},
    {"onnx.Gemm", Gemm},
    {"onnx.Conv", Conv},
    {"onnx.ConvTranspose", ConvTranspose},
};

}  // namespace

OperationCounter::OperationCounter(const ir::Program& p) : onnx_(onnx_model::IsOnnx(p)) {
  for (const ir::SymbolInfo& s : p.syms->symbols())
    if (s.hint) sizes_[s.name] = *s.hint;
}

std::optional<double> OperationCounter::Of(const ir::Node& n) const {
  const std::string_view name = n.op_name();
  const std::string_view op = name.starts_with("aten.") ? name.substr(0, name.find('.', 5)) : name;
  for (const OperationRow& row : kRows)
    if (row.op == op) return row.count(Sizes(n, onnx_, sizes_));
  return 0;
}

}  // namespace slipway::driver
