// The names of ONNX's schemas for element types; their numbers are in base/dtypes.h.
#include "onnx_model/types.h"

#include <exception>
#include <limits>

#include "base/dtypes.h"
#include "base/text.h"
#include "ir/verify.h"
#include "onnx/defs/data_type_utils.h"

namespace slipway::onnx_model {
using ir::DType;
using Utils = onnx::Utils::DataTypeUtils;

std::string SchemaTypeName(DType t) {
  std::string_view name = ir::Info(t).torch_name;
  switch (t) {
    case DType::kFloat32: name = "float"; break;
    case DType::kFloat64: name = "double"; break;
    case DType::kFloat8E4M3FN: name = "float8e4m3fn"; break;
    case DType::kFloat8E5M2: name = "float8e5m2"; break;
    case DType::kFloat8E4M3FNUZ: name = "float8e4m3fnuz"; break;
    case DType::kFloat8E5M2FNUZ: name = "float8e5m2fnuz"; break;
    case DType::kInt4: name = "int4"; break;
    case DType::kUInt4: name = "uint4"; break;
    case DType::kInt2: name = "int2"; break;
    case DType::kUInt2: name = "uint2"; break;
    case DType::kFloat6E2M3: name = "float6e2m3"; break;
    case DType::kFloat6E3M2: name = "float6e3m2"; break;
    default: break;
  }
  return text::StrCat("tensor(", name, ")");
}

DType ElementType(const ir::Type& t) {
  return t.is_tensor()                   ? t.dtype
         : t.kind == ir::Type::kSymInt   ? DType::kInt64
         : t.kind == ir::Type::kSymFloat ? DType::kFloat64
                                         : DType::kBool;
}

void Describe(onnx::ValueInfoProto* info, const std::string& name, const ir::Type& t) {
  info->set_name(name);
  if (t.kind == ir::Type::kObject) {
    if (!t.class_name.empty()) *info->mutable_type() = Utils::ToTypeProto(Utils::ToType(t.class_name));
    return;
  }
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(OnnxType(ElementType(t)));
  auto* shape = tensor->mutable_shape();
  for (const ir::Sym& s : t.sizes) {
    auto* dim = shape->add_dim();
    if (auto c = s.constant())
      dim->set_dim_value(*c);
    else
      dim->set_dim_param(s.kind() == ir::SymKind::kSymbol ? std::string(s.name()) : s.ToString());
  }
}

namespace {

ir::Sym NewSymbol(std::string_view name, ir::SymTable& symbols) {
  if (auto known = symbols.FindSymbol(name)) return *known;
  const ir::Sym s = symbols.Symbol(name, /*positive=*/false);
  (void)symbols.DeclareRange(name, {0, std::numeric_limits<int64_t>::max()});  // a range that is not empty is taken
  return s;
}

ir::Sym DimOf(const onnx::TensorShapeProto_Dimension& d, ir::SymTable& symbols) {
  if (d.has_dim_value() && d.dim_value() >= 0) return d.dim_value();
  if (d.dim_param().empty()) {
    size_t n = symbols.symbols().size();
    std::string name;
    do name = text::StrCat("unk__", n++);
    while (symbols.FindSymbol(name));
    return NewSymbol(name, symbols);
  }
  const std::string& text = d.dim_param();
  if (symbols.FindSymbol(text) || text.find_first_of("+*/(") == std::string::npos) return NewSymbol(text, symbols);
  // Parsing makes symbols: it is tried in a table that is thrown away.
  ir::SymTable scratch;
  auto tried = scratch.ParseExpr(text);
  bool known = tried.ok() && tried->is_integer_valued();
  if (known)
    for (ir::Sym s : tried->Symbols()) known = known && symbols.FindSymbol(s.name());
  if (known)
    if (auto parsed = symbols.ParseExpr(text); parsed.ok()) return *parsed;
  return NewSymbol(text, symbols);
}

}  // namespace

ir::Type TypeOf(const onnx::TypeProto& t, ir::SymTable& symbols) {
  ir::Type type;
  if (t.has_tensor_type() && t.tensor_type().has_shape()) {
    const DType dtype = FromOnnxType(t.tensor_type().elem_type());
    if (dtype != DType::kUnknown) {
      ir::Sizes sizes;
      for (const auto& d : t.tensor_type().shape().dim()) sizes.push_back(DimOf(d, symbols));
      type = ir::Type::Tensor(dtype, std::move(sizes));
      if (ir::HasElementCount(type)) return type;
    }
  }
  type = {};
  type.kind = ir::Type::kObject;
  if (t.value_case() == onnx::TypeProto::VALUE_NOT_SET) return type;
  try {
    type.class_name = *Utils::ToType(t);
  } catch (const std::exception&) {  // a type that ONNX's library does not know
  }
  return type;
}

int OnnxType(DType t) { return kElementTypes[static_cast<size_t>(t)].onnx; }
DType FromOnnxType(int onnx_type) {
  return static_cast<DType>(FindElementType(&slipway::ElementType::onnx, onnx_type));
}

}  // namespace slipway::onnx_model
