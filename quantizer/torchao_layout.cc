// The attributes of each of torchao's classes, in the words and the order of its encoder.
#include "quantizer/torchao_layout.h"

#include "base/text.h"

namespace slipway::quantizer {
namespace {

using ir::DType;
using S = Config::Scheme;

std::string_view TorchName(DType t) {
  switch (t) {
    case DType::kBFloat16: return "bfloat16";
    case DType::kFloat16: return "float16";
    case DType::kFloat8E4M3FN: return "float8_e4m3fn";
    case DType::kFloat8E5M2: return "float8_e5m2";
    case DType::kFloat4E2M1: return "float4_e2m1fn_x2";
    default: return "float32";
  }
}
std::string Typed(std::string_view type, std::string_view data) {
  return text::StrCat(R"({"_type": ")", type, R"(", "_data": )", data, "}");
}
std::string Named(std::string_view type, std::string_view name) { return Typed(type, text::StrCat("\"", name, "\"")); }
std::string Dtype(std::string_view name) { return Named("torch.dtype", name); }
std::string_view Bool(bool b) { return b ? "true" : "false"; }
std::string PerOf(const Granularity& g) {
  return g.kind == Granularity::kTensor ? Typed("PerTensor", "{}") : Typed("PerRow", R"({"dim": -1})");
}
std::string OrNull(const std::optional<double>& v) { return v ? text::StrCat(*v) : "null"; }

std::string BlockSize(const Shape& s) { return text::StrCat("[", s.whole ? s.n : 1, ", ", s.group, "]"); }

constexpr std::string_view kAuto = R"({"_type": "KernelPreference", "_data": "AUTO"})";
constexpr std::string_view kMmConfig =
    R"({"_type": "Float8MMConfig", "_data": {"emulate": false, "use_fast_accum": true, "pad_inner_dim": false}})";

std::string ScalingName(MxScaling s) {
  switch (s) {
    case MxScaling::kFloor: return "FLOOR";
    case MxScaling::kRceil: return "RCEIL";
    case MxScaling::kCeil: return "CEIL";
    case MxScaling::kEven: return "EVEN";
  }
  return "";
}

std::string Int8(const Config& c, const Shape& s, std::string_view dtype) {
  const bool dynamic = c.scheme == S::kInt8Dynamic, is_static = c.scheme == S::kInt8Static;
  std::string act = "null";
  if (dynamic || is_static)
    act = Typed("QuantizeTensorToInt8Kwargs",
                text::StrCat(R"({"granularity": )", PerOf(c.act_granularity), R"(, "mapping_type": )",
                             Named("MappingType", c.act_mapping == Mapping::kAsymmetric ? "ASYMMETRIC" : "SYMMETRIC"),
                             R"(, "reduce_range": )", Bool(c.reduce_range), "}"));
  return text::StrCat(R"({"act_quant_kwargs": )", act, R"(, "reduce_range": )", Bool(c.reduce_range),
                      R"(, "block_size": )", BlockSize(s), R"(, "dtype": )", dtype, "}");
}

std::string Float8Layout(const Config& c, const Shape& s, std::string_view dtype) {
  const bool dynamic = c.scheme == S::kFloat8Dynamic;
  std::string act = "null";
  if (dynamic)
    act = Typed("QuantizeTensorToFloat8Kwargs",
                text::StrCat(R"({"float8_dtype": )", Dtype(TorchName(c.element)), R"(, "granularity": )",
                             PerOf(c.act_granularity), R"(, "mm_config": )", kMmConfig, R"(, "hp_value_lb": )",
                             OrNull(c.activation_value_lb), R"(, "hp_value_ub": )", OrNull(c.activation_value_ub),
                             R"(, "kernel_preference": )", kAuto, "}"));
  return text::StrCat(R"({"block_size": )", BlockSize(s), R"(, "mm_config": )", dynamic ? kMmConfig : "null",
                      R"(, "act_quant_kwargs": )", act, R"(, "kernel_preference": )", kAuto, R"(, "dtype": )", dtype,
                      "}");
}

std::string MxOf(const Config& c, std::string_view dtype) {
  const std::string element = Dtype(TorchName(c.element));
  const std::string act =
      Typed("QuantizeTensorToMXKwargs",
            text::StrCat(R"({"elem_dtype": )", element, R"(, "block_size": )", c.mx_block, R"(, "scaling_mode": )",
                         Named("ScaleCalculationMode", ScalingName(c.mx_scaling)), R"(, "kernel_preference": )", kAuto,
                         R"(, "is_swizzled_scales": true})"));
  return text::StrCat(R"({"elem_dtype": )", element, R"(, "block_size": )", c.mx_block, R"(, "orig_dtype": )", dtype,
                      R"(, "kernel_preference": )", kAuto, R"(, "act_quant_kwargs": )", act,
                      R"(, "is_swizzled_scales": true})");
}

std::string Nvfp4Layout(const Config& c, std::string_view dtype) {
  std::string act = "null";
  if (c.scheme == S::kNvfp4Dynamic)
    act = Typed("QuantizeTensorToNVFP4Kwargs",
                text::StrCat(R"({"block_size": 16, "is_swizzled_scales": true, "use_triton_kernel": false, )"
                             R"("use_dynamic_per_tensor_scale": )",
                             Bool(c.per_tensor_scale), "}"));
  return text::StrCat(R"({"is_swizzled_scales": true, "use_triton_kernel": false, "act_quant_kwargs": )", act,
                      R"(, "block_size": 16, "orig_dtype": )", dtype, "}");
}

}  // namespace

std::string PartName(std::string_view weight, std::string_view part) {
  const size_t dot = weight.rfind('.');
  const size_t at = dot == std::string_view::npos ? 0 : dot + 1;
  return text::StrCat(weight.substr(0, at), "_", weight.substr(at), "_", part);
}

std::string TensorMetadata(const Config& c, const Scheme& scheme, bool act_pre_scale) {
  const Shape& s = scheme.shape();
  const std::string dtype = Dtype(TorchName(s.dtype));
  // Optional tensors come first.
  const std::string pre = act_pre_scale ? R"(, "act_pre_scale")" : "";
  std::string type, data, names;
  switch (c.scheme) {
    case S::kInt8WeightOnly:
    case S::kInt8Dynamic:
    case S::kInt8Static:
      type = "Int8Tensor", data = Int8(c, s, dtype);
      names = text::StrCat(R"("zero_point")", c.scheme == S::kInt8Static ? R"(, "act_quant_scale")" : "", pre,
                           R"(, "qdata", "scale")");
      break;
    case S::kIntxWeightOnly:
    case S::kInt8DynamicIntx:
      type = "IntxUnpackedToInt8Tensor";
      data = text::StrCat(R"({"target_dtype": )", Dtype(text::StrCat("int", c.bits)), R"(, "block_size": )",
                          BlockSize(s), R"(, "dtype": )", dtype, R"(, "activation_quantization": )",
                          c.scheme == S::kInt8DynamicIntx ? R"("int8_asym_per_token")" : "null", "}");
      names = R"("qdata", "scale", "zero_point")";
      break;
    case S::kInt4WeightOnly:
      type = "Int4Tensor";
      data = text::StrCat(R"({"activation_dtype": )", Dtype("bfloat16"), R"(, "block_size": )", BlockSize(s),
                          R"(, "shape": [)", s.n, ", ", s.k, "]}");
      names = text::StrCat(act_pre_scale ? R"("act_pre_scale", )" : "", R"("qdata", "scale", "zero_point")");
      break;
    case S::kFloat8WeightOnly:
    case S::kFloat8Dynamic:
      type = "Float8Tensor", data = Float8Layout(c, s, dtype), names = R"("qdata", "scale")";
      break;
    case S::kMx: type = "MXTensor", data = MxOf(c, dtype), names = R"("qdata", "scale")"; break;
    case S::kNvfp4WeightOnly:
    case S::kNvfp4Dynamic:
      type = "NVFP4Tensor", data = Nvfp4Layout(c, dtype);
      names = text::StrCat(c.per_tensor_scale ? R"("per_tensor_scale", )" : "", R"("qdata", "scale")");
      break;
  }
  return text::StrCat(R"({"_type": ")", type, R"(", "_data": )", data, R"(, "_tensor_data_names": [)", names, "]}");
}

}  // namespace slipway::quantizer
