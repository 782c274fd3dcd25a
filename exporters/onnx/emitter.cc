// Casts around operators are decided here, per input and output, from the kernels that ONNX Runtime has.
#include "exporters/onnx/emitter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/floats.h"
#include "base/text.h"
#include "exporters/onnx/fold.h"
#include "exporters/onnx/ort_kernels.h"
#include "exporters/onnx/types.h"
#include "onnx/defs/schema.h"

namespace slipway::exporters::onnx_out {
namespace {

void Fill(onnx::AttributeProto* a, const std::string& name, Attr value) {
  using A = onnx::AttributeProto;
  a->set_name(name);
  if (auto p = std::get_if<int64_t>(&value)) {
    a->set_type(A::INT);
    a->set_i(*p);
  } else if (auto p = std::get_if<double>(&value)) {
    a->set_type(A::FLOAT);
    a->set_f(static_cast<float>(*p));
  } else if (auto p = std::get_if<std::string>(&value)) {
    a->set_type(A::STRING);
    a->set_s(*p);
  } else if (auto p = std::get_if<Ints>(&value)) {
    a->set_type(A::INTS);
    for (int64_t i : *p) a->add_ints(i);
  } else if (auto p = std::get_if<std::vector<double>>(&value)) {
    a->set_type(A::FLOATS);
    for (double d : *p) a->add_floats(static_cast<float>(d));
  } else if (auto p = std::get_if<std::vector<std::string>>(&value)) {
    a->set_type(A::STRINGS);
    for (std::string& s : *p) a->add_strings(std::move(s));
  } else if (auto p = std::get_if<onnx::GraphProto>(&value)) {
    a->set_type(A::GRAPH);
    *a->mutable_g() = std::move(*p);
  } else if (auto p = std::get_if<onnx::TensorProto>(&value)) {
    a->set_type(A::TENSOR);
    *a->mutable_t() = std::move(*p);
  }
}

// Types to try, in order, when there is no kernel for `t`. Only types that hold every value of `t` exactly, except
// that 64-bit integers may go through f64 where nothing else runs and f64 has no substitute.
std::vector<DType> Substitutes(DType t) {
  using enum DType;
  switch (t) {
    case kFloat16:
    case kBFloat16: return {kFloat32, kFloat64};
    case kFloat8E4M3FN:
    case kFloat8E5M2:
    case kFloat8E4M3FNUZ:
    case kFloat8E5M2FNUZ: return {kFloat32, kFloat16};
    case kBool: return {kUInt8, kInt32, kInt64, kFloat32};
    case kInt8:
    case kUInt8: return {kInt32, kInt64, kFloat32, kFloat64};
    case kInt16:
    case kUInt16: return {kInt32, kInt64, kFloat32, kFloat64};
    case kInt32: return {kInt64, kFloat64};
    case kUInt32: return {kInt64, kFloat64};
    case kFloat32: return {kFloat64};
    default: return {};
  }
}

// Operators that are no functions of their operands, and Identity, which is there to be a node of its own.
bool IsUnique(std::string_view type) {
  return type == "Identity" || type.starts_with("Random") || type == "Bernoulli" || type == "Multinomial" ||
         type == "Dropout";
}

}  // namespace

std::string NameNode(const std::string& stem, std::string_view type, text::Set& taken) {
  if (taken.insert(stem).second) return stem;
  const std::string longer = text::StrCat(stem, ".", type);
  std::string name = longer;
  for (int k = 1; !taken.insert(name).second; ++k) name = text::StrCat(longer, ".", k);
  return name;
}

std::string Emitter::UniqueName(std::string_view base) {
  std::string name(base);
  for (int k = 1; !shared_->names.insert(name).second; ++k) name = text::StrCat(base, ".", k);
  return name;
}

std::string Emitter::NameResult(std::string_view stem) {
  std::string name = UniqueName(stem);
  shared_->stem_of[name] = std::string(stem);
  shared_->names_of[stem].push_back(name);
  return name;
}

std::vector<V> Emitter::Raw(std::string_view type, const std::vector<V>& in, Attrs attrs,
                            const std::vector<DType>& outs, bool unique) {
  unique = unique || IsUnique(type);
  if (!unique && outs.size() == 1) {
    std::vector<const Known*> known;
    for (const V& v : in) known.push_back(v ? Find(v) : nullptr);
    if (auto folded = FoldNode(type, known, attrs, outs[0]))
      return {Const(folded->dtype, std::move(folded->dims), std::move(folded->bytes))};
  }
  onnx::NodeProto fresh;
  fresh.set_op_type(std::string(type));
  size_t last = in.size();
  while (last > 0 && !in[last - 1]) --last;
  for (size_t i = 0; i < last; ++i) fresh.add_input(in[i].name);
  for (auto& [name, value] : attrs) Fill(fresh.add_attribute(), name, std::move(value));
  std::string key;
  if (!unique) {
    key = fresh.SerializeAsString();
    for (DType d : outs) text::StrAppend(&key, ",", static_cast<int>(d));
    if (auto it = written_.find(key); it != written_.end()) return it->second;
  }
  onnx::NodeProto* n = graph_->add_node();
  *n = std::move(fresh);
  FindSchema(n->op_type(), opset());  // the checker will look for it
  std::string stem = scope_.empty() ? base_ : text::StrCat(scope_, "/", base_);
  n->set_name(NameNode(stem, type, shared_->node_names));
  shared_->node_origins[n->name()] = {shared_->rule, std::move(stem)};
  std::vector<V> results;
  for (DType d : outs) {
    V v;
    if (d != DType::kUnknown) v.name = NameResult(base_);
    v.dtype = d;
    n->add_output(v.name);
    if (v) results_[v.name] = false;
    results.push_back(std::move(v));
  }
  for (const auto& [name, value] : metadata_) {
    auto* entry = n->add_metadata_props();
    entry->set_key(name);
    entry->set_value(value);
  }
  while (n->output_size() > 1 && n->output(n->output_size() - 1).empty()) n->mutable_output()->RemoveLast();
  if (!unique) written_[key] = results;
  return results;
}

void Emitter::State(const V& v, const ir::Type& type) {
  const auto it = results_.find(v.name);
  if (it == results_.end() || it->second || v.dtype != ElementType(type)) return;
  it->second = true;
  Describe(graph_->add_value_info(), v.name, type);
}

const Known* Emitter::Find(const V& v) const {
  const auto it = shared_->known.find(v.name);
  return it == shared_->known.end() ? nullptr : &it->second;
}

std::vector<V> Emitter::Custom(const std::string& domain, std::string_view type, const std::vector<V>& in, Attrs attrs,
                               const std::vector<const ir::Type*>& outs) {
  std::vector<DType> dtypes;
  for (const ir::Type* t : outs) dtypes.push_back(ElementType(*t));
  std::vector<V> results = Raw(type, in, std::move(attrs), dtypes, /*unique=*/true);
  graph_->mutable_node(graph_->node_size() - 1)->set_domain(domain);
  shared_->custom_domains.insert(domain);
  for (size_t i = 0; i < outs.size(); ++i) {
    if (!results[i]) continue;
    results[i].rank = outs[i]->is_tensor() ? outs[i]->rank() : 0;
    State(results[i], *outs[i]);
  }
  return results;
}

std::vector<V> Emitter::OpN(std::string_view type, std::vector<V> in, Attrs attrs, std::vector<DType> outs) {
  const onnx::OpSchema* schema = FindSchema(std::string(type), opset());
  if (!schema) {
    SetStatus(absl::UnimplementedError(text::StrCat("ONNX operator ", type, " does not exist at opset ", opset())));
    return std::vector<V>(outs.size(), V{"?", DType::kFloat32, 0});
  }

  // Which dtype each of the operator's type parameters has here.
  auto param_of = [&](const auto& formals, size_t i) -> std::string {
    if (formals.empty()) return "";
    size_t k = std::min(i, formals.size() - 1);
    return formals[k].GetTypeStr();
  };
  TypeAssignment types;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i]) continue;
    std::string p = param_of(schema->inputs(), i);
    if (std::none_of(types.begin(), types.end(), [&](auto& t) { return t.first == p; }))
      types.emplace_back(p, in[i].dtype);
  }
  // The first dtype that the specification does not allow; kUnknown where it allows all.
  auto forbidden = [&](const TypeAssignment& t) {
    for (const auto& [param, dtype] : t) {
      const auto& constraints = schema->typeConstraintMap();
      auto it = constraints.find(param);
      if (it == constraints.end()) continue;
      const std::string want = SchemaTypeName(dtype);
      bool found = false;
      for (const auto* s : it->second.first) found |= *s == want;
      if (!found) return dtype;
    }
    return DType::kUnknown;
  };
  bool listed = false;
  auto runs = [&](const TypeAssignment& t) {
    return forbidden(t) == DType::kUnknown && HasKernel(type, schema->SinceVersion(), t, &listed);
  };
  if (!shared_->strict_types && runs(types)) return Raw(type, in, std::move(attrs), outs);
  if (shared_->keep_halves && forbidden(types) == DType::kUnknown &&
      std::any_of(types.begin(), types.end(), [](const auto& t) { return ir::IsLowPrecision(t.second); }))
    return Raw(type, in, std::move(attrs), outs);

  // Find one substitute per distinct dtype that makes the operator runnable; the first that works wins.
  for (size_t p = 0; p < types.size() && !shared_->strict_types; ++p) {
    for (DType s : Substitutes(types[p].second)) {
      TypeAssignment changed = types;
      DType from = types[p].second;
      for (auto& t : changed)
        if (t.second == from && (t.first == types[p].first || ir::IsLowPrecision(from))) t.second = s;
      if (!runs(changed)) continue;
      auto now = [&](const std::string& param) -> std::pair<DType, DType> {
        for (size_t k = 0; k < types.size(); ++k)
          if (types[k].first == param) return {types[k].second, changed[k].second};
        return {DType::kUnknown, DType::kUnknown};
      };
      std::vector<V> inner = in;
      for (size_t i = 0; i < in.size(); ++i) {
        auto [before, after] = now(param_of(schema->inputs(), i));
        if (in[i] && before != after) inner[i] = Cast(in[i], after);
      }
      std::vector<DType> inner_outs = outs;
      for (size_t i = 0; i < outs.size(); ++i) {
        auto [before, after] = now(param_of(schema->outputs(), i));
        if (outs[i] == before && before != after) inner_outs[i] = after;
      }
      std::vector<V> results = Raw(type, inner, std::move(attrs), inner_outs);
      for (size_t i = 0; i < outs.size(); ++i)
        if (results[i] && results[i].dtype != outs[i]) results[i] = Cast(results[i], outs[i]);
      return results;
    }
  }
  if (DType t = forbidden(types); t != DType::kUnknown)
    SetStatus(absl::UnimplementedError(text::StrCat("ONNX ", type, " takes no ", ir::Name(t), " at opset ", opset())));
  return Raw(type, in, std::move(attrs), outs);
}

V Emitter::Op(std::string_view type, std::vector<V> in, Attrs attrs, DType out, int rank) {
  if (out == DType::kUnknown && !in.empty()) out = in[0].dtype;
  int r = rank == kSameRank ? (in.empty() ? -1 : in[0].rank) : rank;
  V v = OpN(type, std::move(in), std::move(attrs), {out})[0];
  v.rank = r;
  return v;
}

V Emitter::Const(DType dtype, Ints dims, std::string bytes, std::string_view name) {
  std::string key = text::StrCat(static_cast<int>(dtype), ":");
  for (int64_t d : dims) text::StrAppend(&key, d, ",");
  key += ':';
  key += bytes;
  auto [it, fresh] = shared_->constants.try_emplace(key);
  if (fresh) {
    onnx::TensorProto& t = it->second.second;
    for (int64_t d : dims) t.add_dims(d);
    t.set_data_type(OnnxType(dtype));
    it->second.first = name.empty() ? NameResult(text::StrCat("const.", ir::Name(dtype))) : UniqueName(name);
    t.set_name(it->second.first);
    shared_->known[it->second.first] = {dtype, dims, bytes};
    t.set_raw_data(std::move(bytes));
    shared_->constant_order.push_back(key);
  }
  return {it->second.first, dtype, static_cast<int>(dims.size())};
}

V Emitter::I64(Ints values) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * 8);
  return Const(DType::kInt64, {static_cast<int64_t>(values.size())}, std::move(bytes));
}
V Emitter::I64Scalar(int64_t value) { return Integer(value, DType::kInt64); }

namespace {
template <typename T>
void Append(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}
bool AppendNumber(std::string& out, DType dtype, double v) {
  using enum DType;
  switch (dtype) {
    case kFloat32: Append(out, static_cast<float>(v)); return true;
    case kFloat64: Append(out, v); return true;
    case kFloat16: Append(out, F16(static_cast<float>(v))); return true;
    case kBFloat16: Append(out, BF16(static_cast<float>(v))); return true;
    case kInt64: Append(out, static_cast<int64_t>(v)); return true;
    case kInt32: Append(out, static_cast<int32_t>(static_cast<int64_t>(v))); return true;
    case kInt16: Append(out, static_cast<int16_t>(static_cast<int64_t>(v))); return true;
    case kInt8: Append(out, static_cast<int8_t>(static_cast<int64_t>(v))); return true;
    case kUInt8: Append(out, static_cast<uint8_t>(static_cast<int64_t>(v))); return true;
    case kUInt16: Append(out, static_cast<uint16_t>(static_cast<int64_t>(v))); return true;
    case kUInt32: Append(out, static_cast<uint32_t>(static_cast<int64_t>(v))); return true;
    case kUInt64: Append(out, static_cast<uint64_t>(v)); return true;
    case kBool: Append(out, static_cast<uint8_t>(v != 0)); return true;
    default: return false;
  }
}
}  // namespace

V Emitter::Numbers(std::vector<double> values, DType dtype, Ints dims) {
  std::string bytes;
  for (double d : values) {
    if (!AppendNumber(bytes, dtype, d)) {
      SetStatus(absl::UnimplementedError(text::StrCat("a constant of type ", ir::Name(dtype))));
      return {"?", dtype, static_cast<int>(dims.size())};
    }
  }
  return Const(dtype, std::move(dims), std::move(bytes));
}
V Emitter::Number(double value, DType dtype) { return Numbers({value}, dtype, {}); }
V Emitter::Integer(int64_t value, DType dtype) {
  std::string bytes;
  if (dtype == DType::kInt64 || dtype == DType::kUInt64)
    Append(bytes, value);
  else
    return Numbers({static_cast<double>(value)}, dtype, {});
  return Const(dtype, {}, std::move(bytes));
}

V Emitter::Cast(V x, DType to) {
  if (x.dtype == to) return x;
  int type = OnnxType(to);
  if (type == 0 || OnnxType(x.dtype) == 0) {
    SetStatus(
        absl::UnimplementedError(text::StrCat("ONNX has no cast from ", ir::Name(x.dtype), " to ", ir::Name(to))));
    return x;
  }
  const onnx::OpSchema* schema = FindSchema("Cast", opset());
  for (DType t : {x.dtype, to}) {
    const auto& types =
        t == to ? schema->typeConstraintMap().at("T2").first : schema->typeConstraintMap().at("T1").first;
    const std::string want = SchemaTypeName(t);
    if (std::none_of(types.begin(), types.end(), [&](const auto* s) { return *s == want; }))
      SetStatus(absl::UnimplementedError(text::StrCat("ONNX has no ", ir::Name(t), " at opset ", opset())));
  }
  V v = Raw("Cast", {x}, {{"to", int64_t{type}}}, {to})[0];
  v.rank = x.rank;
  return v;
}
V Emitter::BitCast(V x, DType to) {  // not by Op(), which would put casts around it for types without a kernel
  (void)FindSchema("BitCast", opset());
  V v = Raw("BitCast", {x}, {{"to", int64_t{OnnxType(to)}}}, {to})[0];
  v.rank = x.rank;
  return v;
}
void Emitter::HasSizes(const V& v, const ir::Type& type) {
  if (!v || !type.is_tensor()) return;
  Ints sizes;
  bool any = false;
  for (ir::Sym size : type.sizes) {
    sizes.push_back(size.constant().value_or(-1));
    any |= sizes.back() >= 0;
  }
  if (any) shared_->sizes.try_emplace(v.name, std::move(sizes));
}
V Emitter::Shape(V x) {
  const auto it = shared_->sizes.find(x.name);
  if (it != shared_->sizes.end() && std::find(it->second.begin(), it->second.end(), -1) == it->second.end())
    return I64(it->second);
  return Op("Shape", {x}, {}, DType::kInt64, 1);
}
V Emitter::Dim(V x, int d) {
  const auto it = shared_->sizes.find(x.name);
  if (it != shared_->sizes.end() && d < static_cast<int>(it->second.size()) && it->second[d] >= 0)
    return I64({it->second[d]});
  return Op("Shape", {x}, {{"start", int64_t{d}}, {"end", int64_t{d + 1}}}, DType::kInt64, 1);
}
V Emitter::DimScalar(V x, int d) { return Squeeze(Dim(x, d), {0}); }
V Emitter::Reshape(V x, V shape, int rank, bool allow_zero) {
  // The first of two says nothing where the second is known; sizes that are copied or left over are those of its
  // operand.
  std::optional<Ints> target;
  if (const Known* known = Find(shape)) {
    target.emplace(known->bytes.size() / sizeof(int64_t));
    if (!target->empty()) std::memcpy(target->data(), known->bytes.data(), known->bytes.size());
    if (std::any_of(target->begin(), target->end(), [&](int64_t s) { return s < 0 || (s == 0 && !allow_zero); }))
      target.reset();
  }
  if (target == Ints{1})
    if (const auto it = scalars_.find(x.name); it != scalars_.end()) return it->second;
  if (target) {
    if (const auto it = lifted_.find(x.name); it != lifted_.end()) x = it->second;
    if (const auto it = reshaped_.find(x.name); it != reshaped_.end()) x = it->second.first;
  }
  Attrs attrs;
  if (allow_zero) attrs.push_back({"allowzero", int64_t{1}});
  V y = Op("Reshape", {x, shape}, std::move(attrs), x.dtype, rank);
  if (target) reshaped_[y.name] = {x, *std::move(target)};
  return y;
}
V Emitter::Reshape(V x, Ints shape) {
  bool zero = std::find(shape.begin(), shape.end(), 0) != shape.end();
  int rank = static_cast<int>(shape.size());
  return Reshape(std::move(x), I64(std::move(shape)), rank, zero);
}
V Emitter::Transpose(V x, Ints perm) {
  if (const auto it = transposed_.find(x.name); it != transposed_.end() && it->second.second.size() == perm.size()) {
    for (int64_t& d : perm) d = it->second.second[d];
    x = it->second.first;
  }
  bool identity = true;
  for (size_t i = 0; i < perm.size(); ++i) identity &= perm[i] == static_cast<int64_t>(i);
  if (identity) return x;
  if (const auto it = lifted_.find(x.name); it != lifted_.end() && perm[0] == 0) {
    Ints rest;
    for (size_t d = 1; d < perm.size(); ++d) rest.push_back(perm[d] - 1);
    return Unsqueeze(Transpose(it->second, std::move(rest)), {0});
  }
  V y = Op("Transpose", {x}, {{"perm", perm}}, x.dtype, static_cast<int>(perm.size()));
  transposed_[y.name] = {x, std::move(perm)};
  return y;
}
V Emitter::ReshapedAs(const V& v, const ir::Sizes& sizes) const {
  const auto it = parts_.find(v.name);
  return it != parts_.end() && it->second.second.sizes == sizes ? it->second.first : V{};
}
const std::pair<V, Ints>* Emitter::TransposeOf(const V& x) const {
  const auto it = transposed_.find(x.name);
  return it == transposed_.end() ? nullptr : &it->second;
}
V Emitter::Unsqueeze(V x, Ints axes) {
  if (axes.empty()) return x;
  if (axes == Ints{0})
    if (const auto it = scalars_.find(x.name); it != scalars_.end()) return it->second;
  if (const auto it = squeezed_.find(x.name); it != squeezed_.end() && it->second.second == axes)
    return it->second.first;
  if (const auto it = reshaped_.find(x.name); it != reshaped_.end() && axes.size() == 1) {
    Ints shape = it->second.second;
    if (axes[0] >= 0 && axes[0] <= static_cast<int64_t>(shape.size())) {
      shape.insert(shape.begin() + axes[0], 1);
      return Reshape(it->second.first, std::move(shape));
    }
  }
  int rank = x.rank < 0 ? -1 : x.rank + static_cast<int>(axes.size());
  const bool front = axes.size() == 1 && axes[0] == 0;
  V y = Op("Unsqueeze", {x, I64(std::move(axes))}, {}, x.dtype, rank);
  if (front) lifted_[y.name] = x;
  return y;
}
V Emitter::Squeeze(V x, Ints axes) {
  if (axes.empty()) return x;
  if (const auto it = lifted_.find(x.name); it != lifted_.end() && axes.size() == 1 && axes[0] == 0) return it->second;
  if (const auto it = reshaped_.find(x.name); it != reshaped_.end()) {
    const Ints& sizes = it->second.second;
    Ints shape;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) == axes.end() || sizes[d] != 1)
        shape.push_back(sizes[d]);
    if (shape.size() + axes.size() == sizes.size()) return Reshape(it->second.first, std::move(shape));
  }
  int rank = x.rank < 0 ? -1 : x.rank - static_cast<int>(axes.size());
  const bool scalar = x.rank == 1 && axes == Ints{0};
  V y = Op("Squeeze", {x, I64(axes)}, {}, x.dtype, rank);
  if (scalar) scalars_[y.name] = x;
  squeezed_[y.name] = {std::move(x), std::move(axes)};
  return y;
}
V Emitter::Slice(V x, Ints starts, Ints ends, Ints axes, Ints steps) {
  return SliceV(std::move(x), I64(std::move(starts)), I64(std::move(ends)), std::move(axes), std::move(steps));
}
V Emitter::SliceV(V x, V starts, V ends, Ints axes, Ints steps) {
  std::vector<V> in = {x, std::move(starts), std::move(ends), I64(std::move(axes))};
  bool unit = std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; });
  if (!unit) in.push_back(I64(std::move(steps)));
  return Op("Slice", std::move(in), {}, x.dtype, x.rank);
}
V Emitter::Gather(V x, V index, int axis) {
  int rank = x.rank < 0 || index.rank < 0 ? -1 : x.rank - 1 + index.rank;
  return Op("Gather", {x, index}, {{"axis", int64_t{axis}}}, x.dtype, rank);
}
V Emitter::Concat(std::vector<V> xs, int axis) {
  if (xs.size() == 1) return xs[0];
  return Op("Concat", std::move(xs), {{"axis", int64_t{axis}}});
}
V Emitter::Expand(V x, V shape, int rank) { return Op("Expand", {x, shape}, {}, x.dtype, rank); }
V Emitter::Arith(std::string_view op, V a, V b) {
  int rank = a.rank < 0 || b.rank < 0 ? -1 : std::max(a.rank, b.rank);
  DType t = a.dtype;
  return Op(op, {std::move(a), std::move(b)}, {}, t, rank);
}
V Emitter::Compare(std::string_view op, V a, V b) {
  int rank = a.rank < 0 || b.rank < 0 ? -1 : std::max(a.rank, b.rank);
  return Op(op, {std::move(a), std::move(b)}, {}, DType::kBool, rank);
}
V Emitter::Where(V c, V a, V b) {
  int rank = a.rank < 0 || b.rank < 0 || c.rank < 0 ? -1 : std::max({a.rank, b.rank, c.rank});
  DType t = a.dtype;
  return Op("Where", {std::move(c), std::move(a), std::move(b)}, {}, t, rank);
}
V Emitter::MatMul(V a, V b) {
  int rank = -1;
  if (a.rank >= 2 && b.rank >= 2)
    rank = std::max(a.rank, b.rank);
  else if (a.rank == 1 && b.rank >= 1)
    rank = std::max(b.rank - 2, 0) + (b.rank >= 2 ? 1 : 0);
  else if (b.rank == 1 && a.rank >= 1)
    rank = a.rank - 1;
  DType t = a.dtype;
  return Op("MatMul", {std::move(a), std::move(b)}, {}, t, rank);
}
V Emitter::Reduce(std::string_view op, V x, Ints axes, bool keepdims) {
  int rank = x.rank < 0 ? -1 : keepdims ? x.rank : axes.empty() ? 0 : x.rank - static_cast<int>(axes.size());
  std::vector<V> in = {x};
  if (!axes.empty()) in.push_back(I64(std::move(axes)));
  return Op(op, std::move(in), {{"keepdims", int64_t{keepdims}}}, x.dtype, rank);
}

}  // namespace slipway::exporters::onnx_out
