// What reading and writing share: operators' names, attributes, shapes of initializers. Names are kept wherever the IR
// allows it: a value is called what the model calls it, so that reports, recorded values and the model that is written
// again speak of the same things.
#include <cmath>

#include "base/status_macros.h"
#include "base/text.h"
#include "onnx_model/onnx_graph.h"
#include "onnx_model/onnx_graph_internal.h"
#include "onnx_model/types.h"

namespace slipway::onnx_model {

using ir::Arg;
using ir::DType;
using ir::Node;
using ir::Program;

std::string OpName(const Operator& o) {
  if (!o.overload.empty()) return text::StrCat(kPrefix, o.domain, kBetween, o.type, kBetween, o.overload);
  const bool plain = o.domain.empty() && !text::Contains(o.type, kBetween);
  return plain ? text::StrCat(kPrefix, o.type) : text::StrCat(kPrefix, o.domain, kBetween, o.type);
}

absl::Status Invalid(std::string_view what) { return absl::InvalidArgumentError(text::ToAbsl(what)); }

std::string Shown(std::string_view name) { return text::StrCat("'", name.substr(0, 200), "'"); }

namespace {

std::optional<Arg> PlainArg(const onnx::AttributeProto& a) {
  using A = onnx::AttributeProto;
  switch (a.type()) {
    case A::INT: return Arg(static_cast<int64_t>(a.i()));
    case A::FLOAT: return std::isnan(a.f()) ? std::nullopt : std::optional<Arg>(static_cast<double>(a.f()));
    case A::STRING: return Arg(a.s());
    case A::INTS: return Arg(ir::Ints(a.ints().begin(), a.ints().end()));
    case A::FLOATS:
      for (float f : a.floats())
        if (std::isnan(f)) return std::nullopt;
      return Arg(std::vector<double>(a.floats().begin(), a.floats().end()));
    case A::STRINGS: return Arg(std::vector<std::string>(a.strings().begin(), a.strings().end()));
    default: return std::nullopt;
  }
}

}  // namespace

onnx::AttributeProto PlainAttribute(std::string_view name, const Arg& arg) {
  onnx::AttributeProto a;
  a.set_name(std::string(name));
  if (auto i = arg.get<int64_t>()) {
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(*i);
  } else if (auto f = arg.get<double>()) {
    a.set_type(onnx::AttributeProto::FLOAT);
    a.set_f(static_cast<float>(*f));
  } else if (auto s = arg.get<std::string>()) {
    a.set_type(onnx::AttributeProto::STRING);
    a.set_s(*s);
  } else if (auto is = arg.get<ir::Ints>()) {
    a.set_type(onnx::AttributeProto::INTS);
    for (int64_t x : *is) a.add_ints(x);
  } else if (auto fs = arg.get<std::vector<double>>()) {
    a.set_type(onnx::AttributeProto::FLOATS);
    for (double x : *fs) a.add_floats(static_cast<float>(x));
  } else if (auto ss = arg.get<std::vector<std::string>>()) {
    a.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& x : *ss) a.add_strings(x);
  }
  return a;
}

ir::NamedArg ArgOf(const onnx::AttributeProto& a) {
  if (!a.name().empty() && a.name()[0] != '#')
    if (std::optional<Arg> plain = PlainArg(a);
        plain && PlainAttribute(a.name(), *plain).SerializeAsString() == a.SerializeAsString())
      return {a.name(), *std::move(plain)};
  return {text::StrCat("#", a.name()), Arg(a.SerializeAsString())};
}

// One number an element, which raw data has as four in three bytes, the first one lowest.
std::string SixBits(const google::protobuf::RepeatedField<int32_t>& elements) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (int32_t x : elements) {
    bits |= (static_cast<uint32_t>(x) & 63) << count;
    for (count += 6; count >= 8; count -= 8, bits >>= 8) out.push_back(static_cast<char>(bits & 255));
  }
  if (count > 0) out.push_back(static_cast<char>(bits));
  return out;
}

std::string DenseText(const onnx::TensorProto& t, DType dtype) {
  std::string out;
  const auto put = [&](auto x) { out.append(reinterpret_cast<const char*>(&x), sizeof x); };
  if (t.has_raw_data()) return t.raw_data();
  switch (dtype) {
      // clang-format off
    case DType::kFloat32: case DType::kComplex64: for (float x : t.float_data()) put(x); break;
    case DType::kFloat64: case DType::kComplex128: for (double x : t.double_data()) put(x); break;
    case DType::kInt64: for (int64_t x : t.int64_data()) put(x); break;
    case DType::kUInt64: for (uint64_t x : t.uint64_data()) put(x); break;
    case DType::kUInt32: for (uint64_t x : t.uint64_data()) put(static_cast<uint32_t>(x)); break;
    case DType::kInt32: for (int32_t x : t.int32_data()) put(x); break;
    case DType::kInt16: case DType::kUInt16: case DType::kFloat16: case DType::kBFloat16:
      for (int32_t x : t.int32_data()) put(static_cast<uint16_t>(x));
      break;
    case DType::kFloat6E2M3: case DType::kFloat6E3M2: return SixBits(t.int32_data());
    default: for (int32_t x : t.int32_data()) put(static_cast<uint8_t>(x)); break;  // 8 bits, or what a byte holds
      // clang-format on
  }
  return out;
}

bool IsOnnx(const Program& p) { return p.verifier_dialect == kDialect; }

Operator OperatorOf(std::string_view name) {
  Operator o;
  if (!text::ConsumePrefix(&name, kPrefix)) return o;
  const size_t first = name.find(kBetween);
  if (first == std::string_view::npos) {
    o.type = name;
    return o;
  }
  o.domain = name.substr(0, first);
  name.remove_prefix(first + kBetween.size());
  const size_t second = o.domain.empty() ? std::string_view::npos : name.find(kBetween);
  o.type = name.substr(0, second);
  if (second != std::string_view::npos) o.overload = name.substr(second + kBetween.size());
  return o;
}

const ir::Values* InputsOf(const Node& n) {
  return n.args().empty() || !n.args().front().name.empty() ? nullptr : n.args().front().arg.get<ir::Values>();
}

const ir::Values* CapturedBy(const Node& n) {
  return n.args().size() < 2 || !n.args().back().name.empty() ? nullptr : n.args().back().arg.get<ir::Values>();
}

absl::StatusOr<std::optional<ir::TensorRef>> ShapeOf(const onnx::TensorProto& t) {
  ir::TensorRef ref;
  ref.dtype = FromOnnxType(t.data_type());
  if (ref.dtype == DType::kUnknown) return std::nullopt;
  ref.sizes.assign(t.dims().begin(), t.dims().end());
  int64_t bits = ir::BitSize(ref.dtype), known = bits;
  for (int64_t d : ref.sizes)
    if (d < 0 || __builtin_mul_overflow(known, d > 0 ? d : 1, &known) || known > int64_t{1} << 60)
      return Invalid(text::StrCat("initializer ", Shown(t.name()), " is of a shape that no tensor has"));
  ref.strides = ir::ContiguousStrides(ref.sizes);
  return ref;
}

absl::Status SizeMismatch(const onnx::TensorProto& t, uint64_t bytes, uint64_t wanted) {
  return Invalid(
      text::StrCat("initializer ", Shown(t.name()), " has ", bytes, " bytes of data, its shape takes ", wanted));
}

ir::Type Dense(ir::Type t) {
  if (!t.is_tensor()) return t;
  t.strides_known = true;
  t.strides = ir::Sizes(t.sizes.size());
  ir::Sym step = 1;
  for (size_t i = t.sizes.size(); i-- > 0;) {
    t.strides[i] = step;
    if (!t.sizes[i].is(0)) step = step * t.sizes[i];
  }
  return t;
}

absl::StatusOr<onnx::TensorProto> Inline(const Weight& w) {
  onnx::TensorProto t;
  for (int64_t d : w.tensor.sizes) t.add_dims(d);
  t.set_data_type(OnnxType(w.tensor.dtype));
  t.set_name(w.name);
  ASSIGN_OR_RETURN(*t.mutable_raw_data(), ir::ReadDense(w.tensor));
  return t;
}

absl::StatusOr<onnx::ModelProto> FrameOf(const Program& p) {
  auto it = p.objects.find(kFrame);
  onnx::ModelProto frame;
  const auto* bytes = it == p.objects.end() ? nullptr : std::get_if<io::Bytes>(&it->second.first->bytes);
  if (!bytes || bytes->size() > INT32_MAX ||
      !frame.ParseFromArray(bytes->data().data(), static_cast<int>(bytes->size())))
    return Invalid("a program that is no ONNX model");
  return frame;
}

}  // namespace slipway::onnx_model
