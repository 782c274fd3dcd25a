// Reading the representation of quantized tensors. What is hard in it: a fact about integers (their range) must hold of
// the bytes in the file, so it is looked up there, through the views and conversions between a weight and its use.
#include "passes/quantization/quantization.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <variant>

#include "base/text.h"
#include "ir/ops/args.h"
#include "ir/ops/op_table.h"

namespace slipway::passes {
namespace {

using ir::DType;
using ir::Value;

constexpr std::string_view kCasts[] = {"aten._to_copy.default",
                                       "aten.to.dtype",
                                       "aten.to.dtype_layout",
                                       "aten.to.device",
                                       "aten.to.other",
                                       "aten.type_as.default",
                                       "prims.convert_element_type.default"};

// The source of what only moves or repeats elements.
Value* SourceOfView(const Value* v) {
  static const auto& views =
      *new text::Set{"aten.expand.default",  "aten.t.default",    "aten.numpy_T.default", "aten.transpose.int",
                     "aten.permute.default", "aten.slice.Tensor", "aten.select.int"};
  const ir::Node* n = v->producer();
  return n && (views.contains(n->op_name()) || IsReshape(*n)) ? FirstArgument(*n) : nullptr;
}

bool AreBlocks(const ir::Ints& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == -1 || size > 0; });
}

// What both operators have.
std::optional<Dequantized> Read(ir::ArgReader& a, std::string_view input) {
  Dequantized d;
  d.input = a.tensor(input), d.scale = a.tensor("scale"), d.zero_point = a.opt_tensor("zero_point");
  d.arithmetic = a.dtype("arithmetic").value_or(d.arithmetic);
  d.dtype = a.dtype("dtype").value_or(d.dtype);
  d.scale_dtype = a.dtype("scale_dtype");
  const auto low = a.opt_i("quant_min"), high = a.opt_i("quant_max");
  if (low && high) d.range = {*low, *high};
  d.float_zero_point = a.str("zero_point_domain") == "float";
  return a.ok() ? std::optional(std::move(d)) : std::nullopt;
}

}  // namespace

std::optional<Dequantized> ReadDequantized(const Value* v) {
  const ir::Node* n = v ? v->producer() : nullptr;
  if (!n || n->op_name() != "slipway.dequantize.default") return std::nullopt;
  ir::ArgReader a(*n);
  auto d = Read(a, "input");
  if (!d) return std::nullopt;
  d->block_size = a.ints("block_size");
  return a.ok() && d->block_size.size() == static_cast<size_t>(d->input->rank()) && AreBlocks(d->block_size)
             ? d
             : std::nullopt;
}

std::optional<Dequantized> ReadMatrix(const ir::Node& n) {
  ir::ArgReader a(n);
  auto d = Read(a, "weight");
  if (!d || d->input->rank() != 2 || d->scale->rank() != 2) return std::nullopt;
  const bool shared = d->scale->sizes()[0].is(1) && !d->input->sizes()[0].is(1);
  d->block_size = {shared ? -1 : 1, a.i("block_size")};
  return a.ok() && AreBlocks(d->block_size) ? d : std::nullopt;
}

// What all operators of a dequantized tensor have behind their arguments.
static std::vector<std::pair<std::string_view, ir::Arg>> NamedArguments(const Dequantized& d) {
  std::vector<std::pair<std::string_view, ir::Arg>> named;
  if (d.scale_dtype) named.emplace_back("scale_dtype", *d.scale_dtype);
  if (d.range) named.insert(named.end(), {{"quant_min", d.range->first}, {"quant_max", d.range->second}});
  if (d.float_zero_point) named.emplace_back("zero_point_domain", "float");
  return named;
}

Value* Emit(ir::Builder& b, const Dequantized& d) {
  return b.Call("slipway.dequantize.default", {d.input, d.scale, d.zero_point, d.block_size, d.arithmetic, d.dtype},
                NamedArguments(d));
}

Value* EmitLinear(ir::Builder& b, const Dequantized& d, Value* input, Value* bias) {
  return b.Call("slipway.quantized_linear.default",
                {input, d.input, d.scale, d.zero_point, bias, d.block_size[1], d.arithmetic, d.dtype},
                NamedArguments(d));
}

Value* EmitRows(ir::Builder& b, const Dequantized& d, Value* indices) {
  return b.Call("slipway.quantized_embedding.default",
                {d.input, d.scale, d.zero_point, indices, d.block_size[1], d.arithmetic, d.dtype}, NamedArguments(d));
}

std::optional<double> StoredNumber(const Value* v) {
  while (const Value* source = CastSource(v)) v = source;
  if (const ir::Node* n = Producer(v, "aten.full.default"); n && v->type().StaticNumel() == 1) {
    const ir::Scalar number = ir::ArgReader(*n).scalar("fill_value");
    return number.is_constant() ? std::optional(number.d) : std::nullopt;
  }
  const ir::TensorRef* t = StoredTensor(v);
  if (!t || t->numel() != 1) return std::nullopt;
  const auto bytes = ir::ReadDense(*t);
  if (!bytes.ok()) return std::nullopt;
  const auto as = [&]<typename T>() -> std::optional<double> {
    T x;
    if (bytes->size() != sizeof x) return std::nullopt;
    std::memcpy(&x, bytes->data(), sizeof x);
    return static_cast<double>(x);
  };
  switch (t->dtype) {
    case ir::DType::kFloat32: return as.template operator()<float>();
    case ir::DType::kFloat64: return as.template operator()<double>();
    case ir::DType::kInt64: return as.template operator()<int64_t>();
    case ir::DType::kInt32: return as.template operator()<int32_t>();
    case ir::DType::kInt8: return as.template operator()<int8_t>();
    case ir::DType::kUInt8: return as.template operator()<uint8_t>();
    default: return std::nullopt;
  }
}

bool IsOneBlock(const ir::Ints& block_size) {
  return std::all_of(block_size.begin(), block_size.end(), [](int64_t b) { return b == -1; });
}

std::optional<double> FilledNumber(const Value* v) {
  while (v->producer() && (IsReshape(*v->producer()) || v->producer()->op_name() == "aten.expand.default"))
    v = FirstArgument(*v->producer());
  const ir::Node* n = Producer(v, "aten.full.default");
  if (!n) return std::nullopt;
  const ir::Arg& fill = n->Get("fill_value");
  if (const double* number = fill.get<double>()) return *number;
  if (const int64_t* number = fill.get<int64_t>()) return static_cast<double>(*number);
  return std::nullopt;
}

std::optional<NumberedQuantize> ReadNumberedQuantize(const Value* v) {
  const ir::Node* n = Producer(v, "slipway.quantize.default");
  if (!n) return std::nullopt;
  ir::ArgReader a(*n);
  NumberedQuantize q;
  q.input = a.tensor("input"), q.scale = a.tensor("scale"), q.zero_point = a.opt_tensor("zero_point");
  q.low = a.i("quant_min"), q.high = a.i("quant_max");
  const ir::Ints block = a.ints("block_size");
  const auto to = a.dtype("dtype");
  if (!a.ok() || q.input->dtype() != DType::kFloat32 || a.dtype("arithmetic") != DType::kFloat32 ||
      (to != DType::kInt8 && to != DType::kUInt8) || !IsOneBlock(block))
    return std::nullopt;
  q.dtype = *to;
  const auto scale = FilledNumber(q.scale), zero = q.zero_point ? FilledNumber(q.zero_point) : std::optional(0.0);
  if (!scale || !zero || !(std::abs(*zero) <= 255) ||
      (q.scale->dtype() != DType::kFloat32 && q.scale->dtype() != DType::kFloat64))
    return std::nullopt;
  // The reciprocal in the scale's own dtype, then in f32.
  q.scale_f32 = static_cast<float>(*scale);
  q.inverse = q.scale->dtype() == DType::kFloat32 ? 1 / q.scale_f32 : static_cast<float>(1 / *scale);
  q.zero = static_cast<int64_t>(*zero);
  constexpr float kLeast = 0x1p-100f, kMost = 0x1p100f;  // so that neither overflows nor is denormal
  return q.scale_f32 > kLeast && q.scale_f32 < kMost && q.low <= q.high ? std::optional(q) : std::nullopt;
}

int64_t NumberedQuantize::Of(double number) const {
  const float y = std::nearbyint(static_cast<float>(number) * inverse) + static_cast<float>(zero);
  return static_cast<int64_t>(std::clamp(y, static_cast<float>(low), static_cast<float>(high)));
}

bool Undoes(const Dequantized& v, const NumberedQuantize& q) {
  const auto scale = FilledNumber(v.scale), zero = v.zero_point ? FilledNumber(v.zero_point) : std::optional(0.0);
  return scale && zero && v.input->dtype() == q.dtype && v.arithmetic == DType::kFloat32 &&
         v.dtype == DType::kFloat32 && v.product_dtype() == DType::kFloat32 && !v.scale_dtype && !v.float_zero_point &&
         static_cast<float>(*scale) == q.scale_f32 && *zero == static_cast<double>(q.zero);
}

std::string_view MatrixOf(const ir::Node& n) {
  const std::string_view op = n.op_name(), name = op == "aten.linear.default"                             ? "weight"
                                                  : op == "aten.matmul.default"                           ? "other"
                                                  : op == "aten.mm.default" || op == "aten.addmm.default" ? "mat2"
                                                                                                          : "";
  const Value* matrix = name.empty() ? nullptr : n.Get(name).value();
  return matrix && matrix->rank() == 2 ? name : "";
}

const ir::TensorRef* StoredTensor(const Value* v) {
  const ir::Graph& g = *v->graph();
  if (v->producer() || !g.program() || g.program()->graph.get() != &g) return nullptr;
  const auto index = static_cast<size_t>(v->index());
  const auto& specs = g.program()->input_specs;
  if (index >= specs.size() || specs[index].kind == ir::InputSpec::kUser) return nullptr;
  auto it = g.program()->weights.find(specs[index].target);
  return it == g.program()->weights.end() || it->second.dtype != v->dtype() ? nullptr : &it->second;
}

bool IsStored(const Value* v) {
  for (;;) {
    const ir::Node* n = v->producer();
    if (n && n->op_name() == "aten.full.default") return v->type().StaticSizes().has_value();
    if (!n) {
      const ir::Graph& g = *v->graph();
      if (!g.program() || g.program()->graph.get() != &g) return false;
      const auto index = static_cast<size_t>(v->index());
      const auto& specs = g.program()->input_specs;
      return index < specs.size() && specs[index].is_weight();
    }
    const Value* source = CastSource(v);
    if (!source) source = SourceOfView(v);
    if (!source) return false;
    v = source;
  }
}

// Weights of 8 bits whose bounds are more than 15 apart have the range of their dtype.
static std::pair<int64_t, int64_t> KnownBy8Bits(std::pair<int64_t, int64_t> range, ir::DType dtype) {
  if (range.second - range.first <= 15) return range;
  if (dtype == ir::DType::kInt8) return {-128, 127};
  return dtype == ir::DType::kUInt8 ? std::pair<int64_t, int64_t>(0, 255) : range;
}

std::optional<std::pair<int64_t, int64_t>> StoredRange(const Value* v) {
  while (v->producer()) {
    const ir::Node* n = v->producer();
    if (n->op_name() == "aten.full.default") {
      const int64_t* value = n->Get("fill_value").get<int64_t>();
      return value ? std::optional(std::pair(*value, *value)) : std::nullopt;
    }
    const Value* source = CastSource(v);
    if (!source) source = SourceOfView(v);
    if (!source || !ir::IsIntegral(source->dtype())) return std::nullopt;
    v = source;
  }
  const ir::TensorRef* t = StoredTensor(v);
  if (!t || t->numel() == 0 || !ir::Validate(*t).ok()) return std::nullopt;
  if (t->storage->bounds) return KnownBy8Bits(*t->storage->bounds, t->dtype);
  // Bytes are read where they lie; others are zero points, of which there are few.
  constexpr uint64_t kMost = uint64_t{1} << 26;
  const auto* bytes = std::get_if<io::Bytes>(&t->storage->bytes);
  std::string dense;
  const uint8_t* data;
  if (bytes && t->is_contiguous()) {
    data = bytes->data().data() + t->offset;
  } else {
    auto read = ir::ReadDense(*t, kMost);
    if (!read.ok()) return std::nullopt;
    dense = *std::move(read);
    data = reinterpret_cast<const uint8_t*>(dense.data());
  }
  std::pair<int64_t, int64_t> range;
  const int64_t n = t->numel();
  auto look = [&]<typename T>(T) {
    constexpr int64_t kBlock = 1024;  // of a fixed size, so that vectors are made of it
    T block[kBlock], low[kBlock], high[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const size_t count = static_cast<size_t>(std::min(kBlock, n - i));
      std::memcpy(block, data + i * static_cast<int64_t>(sizeof(T)), count * sizeof(T));
      std::fill(block + count, block + kBlock, block[0]);
      if (i == 0) std::copy_n(block, kBlock, low), std::copy_n(block, kBlock, high);
      for (int64_t k = 0; k < kBlock; ++k) low[k] = std::min(low[k], block[k]), high[k] = std::max(high[k], block[k]);
      // Weights of 8 bits are known by their first ones.
      if (sizeof(T) == 1 && *std::max_element(high, high + 16) - *std::min_element(low, low + 16) > 15) {
        range = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
        return;
      }
    }
    range = {*std::min_element(low, low + kBlock), *std::max_element(high, high + kBlock)};
  };
  switch (t->dtype) {
    case DType::kInt8: look(int8_t{}); break;
    case DType::kUInt8: look(uint8_t{}); break;
    case DType::kInt16: look(int16_t{}); break;
    case DType::kInt32: look(int32_t{}); break;
    case DType::kInt64: look(int64_t{}); break;
    default: return std::nullopt;
  }
  if (dense.empty()) {
    const io::Bytes read = bytes->Part(static_cast<uint64_t>(t->offset), static_cast<uint64_t>(t->nbytes()));
    if (const io::FileRange* file = read.file_range()) file->Release();
  }
  return range;
}

Value* CastSource(const Value* v) {
  const ir::Node* n = v->producer();
  if (!n || std::find(std::begin(kCasts), std::end(kCasts), n->op_name()) == std::end(kCasts)) return nullptr;
  return FirstArgument(*n);
}

bool IsReshape(const ir::Node& n) {
  static const auto& reshapes =
      *new text::Set{"aten.view.default",       "aten.reshape.default", "aten._unsafe_view.default",
                     "aten.flatten.using_ints", "aten.unflatten.int",   "aten.unsqueeze.default",
                     "aten.squeeze.dim",        "aten.squeeze.dims",    "aten.squeeze.default"};
  return reshapes.contains(n.op_name());
}

Permuted ReadPermutation(const Value* v) {
  const ir::Node* n = v->producer();
  if (!n) return {};
  ir::ArgReader a(*n);
  const int rank = v->rank();
  Permuted p;
  if (n->op_name() == "aten.permute.default") {
    p.order = a.dims("dims", rank);
  } else if (n->op_name() == "aten.transpose.int") {
    for (int d = 0; d < rank; ++d) p.order.push_back(d);
    const int x = a.dim("dim0", rank), y = a.dim("dim1", rank);
    if (a.ok() && rank > 1) std::swap(p.order[x], p.order[y]);
  } else if (n->op_name() == "aten.t.default" || n->op_name() == "aten.numpy_T.default") {
    for (int d = rank; d-- > 0;) p.order.push_back(d);
  } else {
    return {};
  }
  p.source = FirstArgument(*n);
  return a.ok() && p.source && p.order.size() == static_cast<size_t>(rank) ? p : Permuted{};
}

ir::Value* TransposedSource(const ir::Value* v) {
  const Permuted turned = ReadPermutation(v);
  return turned.source && turned.order == std::vector<int>{1, 0} ? turned.source : nullptr;
}

}  // namespace slipway::passes
