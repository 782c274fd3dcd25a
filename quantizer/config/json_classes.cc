// torchao's classes as tables of fields: how each field is read into a configuration and written from one. torchao
// 0.18's names.
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"
#include "importers/json.h"
#include "quantizer/config.h"
#include "quantizer/config/json_internal.h"

namespace slipway::quantizer {

namespace {

using Method = Config::Method;
using SchemeKind = Config::Scheme;

// Fields that are a member of Config.
template <bool Config::*kMember>
constexpr ConfigField FlagField(std::string_view name) {
  return {name, [](JsonReader& r, const Value& v, Config* c) { c->*kMember = r.Bool(v).value_or(c->*kMember); },
          [](Writer& w, const Config& c) { w.Bool(c.*kMember); }};
}

template <auto kMember, const Enumeration& kEnum>
constexpr ConfigField Choice(std::string_view name) {
  return {
      name,
      [](JsonReader& r, const Value& v, Config* c) {
        using T = std::remove_reference_t<decltype(c->*kMember)>;
        if (const int i = ReadEnumeration(r, v, kEnum); i >= 0) c->*kMember = static_cast<T>(i);
      },
      [](Writer& w, const Config& c) { WriteTagged(w, kEnum.type, kEnum.members[static_cast<size_t>(c.*kMember)]); }};
}

template <auto kMember>
constexpr ConfigField Integer(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config* c) {
            using T = std::remove_reference_t<decltype(c->*kMember)>;
            const auto n = r.Int(v);
            if (!n) return;
            if (*n < 1 || *n > std::numeric_limits<int32_t>::max())
              return r.Wrong(text::StrCat(*n, " is out of range"));
            c->*kMember = static_cast<T>(*n);
          },
          [](Writer& w, const Config& c) { w.Int(c.*kMember); }};
}

template <double Config::*kMember>
constexpr ConfigField Real(std::string_view name) {
  return {name, [](JsonReader& r, const Value& v, Config* c) { c->*kMember = r.Double(v).value_or(c->*kMember); },
          [](Writer& w, const Config& c) { w.Double(c.*kMember); }};
}

template <std::optional<double> Config::*kMember>
constexpr ConfigField OptionalReal(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config* c) { c->*kMember = v.is_null() ? std::nullopt : r.Double(v); },
          [](Writer& w, const Config& c) { (c.*kMember) ? w.Double(*(c.*kMember)) : w.Null(); }};
}

// Granularity of the weights alone. Where torchao takes null, it means rows.
template <unsigned kTaken, bool kNullable>
constexpr ConfigField WeightGranularity(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config* c) {
            if (kNullable && v.is_null())
              c->granularity = {};
            else if (const auto g = ReadGranularity(r, v, kTaken))
              c->granularity = *g;
          },
          [](Writer& w, const Config& c) { WriteGranularity(w, c.granularity, kTaken & kPerAxis); }};
}

// One for activations and weights, or a list of the two; null is the class's default. Written as the list where torchao
// always does, or where the two differ.
template <bool kAlwaysList>
constexpr ConfigField BothGranularities(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config* c) {
            if (v.is_null()) return;
            std::optional<Granularity> activations, weights;
            if (v.is_array()) {
              const auto both = *v.AsArray();
              if (both.size() != 2) return r.Wrong("a list has two, of activations and of weights");
              activations = ReadGranularity(r, both[0], kPerRow | kPerTensor);
              weights = ReadGranularity(r, both[1], kPerRow | kPerTensor);
            } else {
              activations = weights = ReadGranularity(r, v, kPerRow | kPerTensor);
            }
            if (activations) c->act_granularity = *activations;
            if (weights) c->granularity = *weights;
          },
          [](Writer& w, const Config& c) {
            if (!kAlwaysList && c.act_granularity == c.granularity) return WriteGranularity(w, c.granularity, false);
            w.BeginArray();
            WriteGranularity(w, c.act_granularity, false);
            WriteGranularity(w, c.granularity, false);
            w.EndArray();
          }};
}

constexpr ConfigField IntegerType(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config* c) {
            const std::string_view dtype = ReadDType(r, v);
            if (dtype.empty()) return;
            for (size_t i = 0; i < std::size(kIntegerNames); ++i) {
              if (dtype != kIntegerNames[i]) continue;
              c->bits = static_cast<int>(i) + 1;
              return;
            }
            r.Unknown("type of weights", dtype, kIntegerNames);
          },
          [](Writer& w, const Config& c) { WriteTagged(w, "torch.dtype", kIntegerNames[c.bits - 1]); }};
}

constexpr std::string_view kScaleNames[] = {"float32", "bfloat16", "float16"};
constexpr ConfigField ScaleType(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config* c) {
            c->scale_dtype = std::nullopt;
            if (v.is_null()) return;
            const std::string_view dtype = ReadDType(r, v);
            if (dtype.empty()) return;
            for (const std::string_view known : kScaleNames)
              if (dtype == known) c->scale_dtype = ir::DTypeFromTorchName(known);
            if (!c->scale_dtype) r.Unknown("type of scales", dtype, kScaleNames);
          },
          [](Writer& w, const Config& c) {
            c.scale_dtype ? WriteTagged(w, "torch.dtype", ir::Info(*c.scale_dtype).torch_name) : void(w.Null());
          }};
}

void WriteElement(Writer& w, const Config& c) {
  for (const NamedElement& e : kElements)
    if (e.dtype == c.element) WriteTagged(w, "torch.dtype", e.name);
}

template <size_t kCount>
constexpr ConfigField Element(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config* c) { c->element = ReadElement(r, v, kCount).value_or(c->element); },
          WriteElement};
}

// Compared with the weights' when the class has been read.
template <size_t kCount>
constexpr ConfigField ActivationElement(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config*) {
            if (const auto e = ReadElement(r, v, kCount)) r.activation_element = *e;
          },
          WriteElement};
}

// Fields that change no number, or that must say what slipway does.
template <bool kDefault>
constexpr ConfigField IgnoredFlag(std::string_view name) {
  return {name, [](JsonReader& r, const Value& v, Config*) { (void)r.Bool(v); },
          [](Writer& w, const Config&) { w.Bool(kDefault); }};
}

// The first format is the only one that is taken: the others are layouts of other devices' kernels.
template <const Enumeration& kEnum>
constexpr ConfigField FirstOf(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config*) {
            if (const int i = ReadEnumeration(r, v, kEnum); i > 0)
              r.NotTaken(
                  text::StrCat(kEnum.members[i], " is the layout of one kernel: write ", kEnum.members[0], " instead"));
          },
          [](Writer& w, const Config&) { WriteTagged(w, kEnum.type, kEnum.members[0]); }};
}

template <bool kMx>
constexpr ConfigField Kernel(std::string_view name) {
  return {name, [](JsonReader& r, const Value& v, Config*) { ReadEnumeration(r, v, kKernelPreference); },
          [](Writer& w, const Config& c) {  // torchao's AUTO refuses other blocks and elements
            const bool emulated = kMx && (c.mx_block != 32 || c.element == ir::DType::kFloat8E5M2);
            WriteTagged(w, kKernelPreference.type, emulated ? "EMULATED" : "AUTO");
          }};
}

constexpr ConfigField CalibratedTensor(std::string_view name) {
  return {name,
          [](JsonReader& r, const Value& v, Config*) {
            if (!v.is_null()) r.Wrong("is null in JSON: activations' scales come from calibration");
          },
          [](Writer& w, const Config&) { w.Null(); }};
}

constexpr std::string_view kAwqSteps[] = {"prepare", "convert", "prepare_for_loading"};
constexpr std::string_view kSmoothQuantSteps[] = {"prepare", "convert", "prepare_for_loading",
                                                  "prepare_for_smoothquant_smoothing_factor",
                                                  "prepare_for_smoothquant_activation_scales"};
constexpr std::string_view kGptqSteps[] = {"observe", "convert"};
// torchao applies a method in steps; a configuration file stands for the whole.
template <const auto& kSteps>
constexpr ConfigField Step() {
  return {"step",
          [](JsonReader& r, const Value& v, Config*) {
            const auto step = r.String(v);
            if (!step) return;
            for (const std::string_view known : kSteps)
              if (*step == known) return;
            r.Unknown("step", *step, kSteps);
          },
          [](Writer& w, const Config&) { w.String("convert"); }};
}

// Version 2 of Int8WeightOnlyConfig keeps the field of version 1, which must be null.
void ReadInt8GroupSize(JsonReader& r, const Value& v, Config*) {
  if (v.is_null()) return;
  const auto n = r.Int(v);
  if (n) r.Wrong(text::StrCat("is null since version 2: write granularity PerGroup with group_size ", *n, " instead"));
}

void WriteNull(Writer& w, const Config&) { w.Null(); }

}  // namespace

void ReadGroupSize(JsonReader& r, const Value& v, Config* c) {
  if (const auto n = r.Int(v)) c->granularity = {Granularity::kGroup, *n};
}

namespace {

void WriteGroupSize(Writer& w, const Config& c) { w.Int(c.granularity.group); }

void ReadTileWidth(JsonReader& r, const Value& v, Config*) {
  const auto n = r.Int(v);
  if (n && *n != 8 && *n != 16) r.Wrong("is 8 or 16");
}

void WriteTileWidth(Writer& w, const Config&) { w.Int(8); }

void ReadReduceRange(JsonReader& r, const Value& v, Config* c) {
  c->reduce_range = !v.is_null() && r.Bool(v).value_or(false);
}

void WriteReduceRange(Writer& w, const Config& c) { w.Bool(c.reduce_range); }

constexpr std::string_view kMmFields[] = {"emulate", "use_fast_accum", "pad_inner_dim"};
void ReadMmConfig(JsonReader& r, const Value& v, Config*) {
  if (v.is_null()) return;
  const auto tagged = ReadTagged(r, v);
  if (!tagged) return;
  if (tagged->type != "Float8MMConfig")
    return r.Wrong(text::StrCat("is a ", ShownName(tagged->type), ", not a Float8MMConfig"));
  const auto members = r.Object(*tagged->data);
  if (!members) return;
  for (const Member& m : *members) {
    bool known = false;
    for (const std::string_view f : kMmFields) known |= m.key == f;
    if (known)
      (void)r.Bool(m.value);
    else
      r.Unknown("field of Float8MMConfig", m.key, kMmFields);
  }
}

void WriteMmConfig(Writer& w, const Config&) {
  w.BeginObject().Key("_type").String("Float8MMConfig").Key("_version").Int(1).Key("_data").BeginObject();
  for (const std::string_view f : kMmFields) w.Key(f).Bool(f == "use_fast_accum");
  w.EndObject().EndObject();
}

void ReadIgnoredInt(JsonReader& r, const Value& v, Config*) { (void)r.Int(v); }
void WriteZero(Writer& w, const Config&) { w.Int(0); }

void ReadNoStep(JsonReader& r, const Value& v, Config*) {
  if (!v.is_null()) r.NotTaken("is null: activations' scales of NVFP4 are not calibrated");
}

void ReadAlpha(JsonReader& r, const Value& v, Config* c) {
  if (v.is_null()) return r.NotTaken("null turns SmoothQuant off: write the base_config alone");
  c->smooth_alpha = r.Double(v).value_or(c->smooth_alpha);
}

void WriteAlpha(Writer& w, const Config& c) { w.Double(c.smooth_alpha); }

constexpr ConfigField kInt8WeightOnly[] = {
    {"group_size", ReadInt8GroupSize, WriteNull},
    WeightGranularity<kPerRow | kPerTensor | kPerGroup, false>("granularity"),
    IgnoredFlag<true>("set_inductor_config"),
};

constexpr ConfigField kInt8Dynamic[] = {
    Choice<&Config::act_mapping, kMappingType>("act_mapping_type"),
    IgnoredFlag<false>("weight_only_decode"),
    BothGranularities<false>("granularity"),
    IgnoredFlag<true>("set_inductor_config"),
    {"reduce_range", ReadReduceRange, WriteReduceRange},
};

constexpr ConfigField kInt8Static[] = {
    CalibratedTensor("act_quant_scale"),      CalibratedTensor("act_quant_zero_point"),
    BothGranularities<false>("granularity"),  Choice<&Config::act_mapping, kMappingType>("act_mapping_type"),
    IgnoredFlag<true>("set_inductor_config"), {"reduce_range", ReadReduceRange, WriteReduceRange},
};

constexpr ConfigField kIntxWeightOnly[] = {
    IntegerType("weight_dtype"),
    WeightGranularity<kPerAxis | kPerGroup, false>("granularity"),
    Choice<&Config::mapping, kMappingType>("mapping_type"),
    ScaleType("scale_dtype"),
    FirstOf<kIntxPacking>("intx_packing_format"),
    Choice<&Config::hqq, kIntxAlgorithm>("intx_choose_qparams_algorithm"),
};

constexpr ConfigField kInt8DynamicIntx[] = {
    IntegerType("weight_dtype"),
    WeightGranularity<kPerAxis | kPerGroup, false>("weight_granularity"),
    Choice<&Config::mapping, kMappingType>("weight_mapping_type"),
    ScaleType("weight_scale_dtype"),
    Choice<&Config::act_mapping, kMappingType>("act_mapping_type"),
    FirstOf<kIntxPacking>("intx_packing_format"),
    Choice<&Config::hqq, kIntxAlgorithm>("intx_choose_qparams_algorithm"),
};

constexpr ConfigField kInt4WeightOnly[] = {
    {"group_size", ReadGroupSize, WriteGroupSize},
    IgnoredFlag<true>("set_inductor_config"),
    FirstOf<kInt4Packing>("int4_packing_format"),
    Choice<&Config::hqq, kInt4Algorithm>("int4_choose_qparams_algorithm"),
    {"int4_tile_packed_ntile", ReadTileWidth, WriteTileWidth},
};

constexpr ConfigField kInt4Cpu[] = {
    {"group_size", ReadGroupSize, WriteGroupSize},
    Choice<&Config::hqq, kInt4Algorithm>("int4_choose_qparams_algorithm"),
    IgnoredFlag<true>("set_inductor_config"),
};

constexpr ConfigField kFloat8WeightOnly[] = {
    Element<2>("weight_dtype"),
    IgnoredFlag<true>("set_inductor_config"),
    WeightGranularity<kPerRow | kPerTensor | kPerGroup, true>("granularity"),
};

constexpr ConfigField kFloat8Dynamic[] = {
    ActivationElement<2>("activation_dtype"),
    Element<2>("weight_dtype"),
    BothGranularities<true>("granularity"),
    FirstOf<kFloat8Packing>("packing_format"),
    {"mm_config", ReadMmConfig, WriteMmConfig},
    OptionalReal<&Config::activation_value_lb>("activation_value_lb"),
    OptionalReal<&Config::activation_value_ub>("activation_value_ub"),
    Kernel<false>("kernel_preference"),
    IgnoredFlag<true>("set_inductor_config"),
    {"alg_id", ReadIgnoredInt, WriteZero},
};

constexpr ConfigField kMx[] = {
    Integer<&Config::mx_block>("block_size"),
    ActivationElement<3>("activation_dtype"),
    Element<3>("weight_dtype"),
    Kernel<true>("kernel_preference"),
    Choice<&Config::mx_scaling, kScaleCalculationMode>("scaling_mode"),
};

constexpr ConfigField kNvfp4WeightOnly[] = {
    FlagField<&Config::per_tensor_scale>("use_dynamic_per_tensor_scale"),
};

constexpr ConfigField kNvfp4Dynamic[] = {
    IgnoredFlag<true>("use_triton_kernel"),
    FlagField<&Config::per_tensor_scale>("use_dynamic_per_tensor_scale"),
    {"step", ReadNoStep, WriteNull},
};

constexpr ConfigField kAwq[] = {
    kBaseConfig,
    Step<kAwqSteps>(),
    Integer<&Config::awq_search_space>("scale_search_space_size"),
};

constexpr ConfigField kSmoothQuant[] = {
    kBaseConfig,
    Step<kSmoothQuantSteps>(),
    {"alpha", ReadAlpha, WriteAlpha},
    IgnoredFlag<false>("use_running_absmax"),
};

constexpr ConfigField kGptq[] = {
    Step<kGptqSteps>(),
    kBaseConfig,
    Real<&Config::gptq_percdamp>("percdamp"),
    Integer<&Config::gptq_block>("gptq_quantize_block_size"),
};

constexpr ConfigClass kClasses[] = {
    {"Int8WeightOnlyConfig", 2, kPlainMethod, SchemeKind::kInt8WeightOnly, false, kInt8WeightOnly},
    {"Int8DynamicActivationInt8WeightConfig", 2, kPlainMethod, SchemeKind::kInt8Dynamic, false, kInt8Dynamic},
    {"Int8StaticActivationInt8WeightConfig", 1, kPlainMethod, SchemeKind::kInt8Static, false, kInt8Static},
    {"IntxWeightOnlyConfig", 2, kPlainMethod, SchemeKind::kIntxWeightOnly, false, kIntxWeightOnly},
    {"Int8DynamicActivationIntxWeightConfig", 2, kPlainMethod, SchemeKind::kInt8DynamicIntx, false, kInt8DynamicIntx},
    {"Int4WeightOnlyConfig", 2, kPlainMethod, SchemeKind::kInt4WeightOnly, false, kInt4WeightOnly},
    {"PrototypeInt4WeightOnlyConfig", 1, kPlainMethod, SchemeKind::kInt4WeightOnly, true, kInt4Cpu},
    {"Float8WeightOnlyConfig", 2, kPlainMethod, SchemeKind::kFloat8WeightOnly, false, kFloat8WeightOnly},
    {"Float8DynamicActivationFloat8WeightConfig", 2, kPlainMethod, SchemeKind::kFloat8Dynamic, false, kFloat8Dynamic},
    {"MXDynamicActivationMXWeightConfig", 1, kPlainMethod, SchemeKind::kMx, false, kMx},
    {"NVFP4WeightOnlyConfig", 1, kPlainMethod, SchemeKind::kNvfp4WeightOnly, false, kNvfp4WeightOnly},
    {"NVFP4DynamicActivationNVFP4WeightConfig", 1, kPlainMethod, SchemeKind::kNvfp4Dynamic, false, kNvfp4Dynamic},
    {"AWQConfig", 1, Method::kAwq, SchemeKind(), false, kAwq},
    {"SmoothQuantConfig", 1, Method::kSmoothQuant, SchemeKind(), false, kSmoothQuant},
    {"GPTQConfig", 1, Method::kGptq, SchemeKind(), false, kGptq},
};

constexpr OtherClass kOthers[] = {
    {"Int8DynamicActivationInt4WeightConfig", "Int8DynamicActivationIntxWeightConfig with weight_dtype int4"},
    {"Float8DynamicActivationInt4WeightConfig", "Int4WeightOnlyConfig"},
    {"Float8StaticActivationFloat8WeightConfig", "Float8DynamicActivationFloat8WeightConfig"},
    {"Float8DynamicActivationFloat8SemiSparseWeightConfig", "Float8DynamicActivationFloat8WeightConfig"},
    {"Int4DynamicActivationInt4WeightConfig", "Int8DynamicActivationIntxWeightConfig with weight_dtype int4"},
    {"UIntXWeightOnlyConfig", "IntxWeightOnlyConfig with mapping_type ASYMMETRIC"},
    {"UIntxWeightOnlyConfig", "IntxWeightOnlyConfig with mapping_type ASYMMETRIC"},
    {"Int8DynamicActivationUIntxWeightConfig", "Int8DynamicActivationIntxWeightConfig"},
    {"GemliteUIntXWeightOnlyConfig", "IntxWeightOnlyConfig"},
    {"StretchedIntxWeightConfig", "IntxWeightOnlyConfig"},
    {"FPXWeightOnlyConfig", "Float8WeightOnlyConfig"},
    {"MXFPInferenceConfig", "MXDynamicActivationMXWeightConfig"},
    {"NVFP4InferenceConfig", "NVFP4DynamicActivationNVFP4WeightConfig"},
    {"NF4WeightOnlyConfig", "Int4WeightOnlyConfig"},
    {"GGUFWeightOnlyConfig", "IntxWeightOnlyConfig"},
    {"CodebookWeightOnlyConfig", "IntxWeightOnlyConfig"},
    {"GroupwiseLutWeightConfig", "IntxWeightOnlyConfig"},
    {"SemiSparseWeightConfig", ""},
    {"BlockSparseWeightConfig", ""},
    {"QATConfig", "its base_config"},
};

}  // namespace

const ConfigClass& ClassOf(Method method, const Config& c) {
  for (const ConfigClass& row : kClasses)
    if (row.method == method && (method != kPlainMethod || (row.scheme == c.scheme && row.int4_cpu == c.int4_cpu)))
      return row;
  return kClasses[0];  // the table has all
}

const ConfigClass* FindClass(std::string_view name) {
  for (const ConfigClass& row : kClasses)
    if (row.name == name) return &row;
  return nullptr;
}

std::vector<std::string_view> NamesOf(absl::Span<const ConfigField> fields) {
  std::vector<std::string_view> out;
  for (const ConfigField& f : fields) out.push_back(f.name);
  return out;
}

absl::Span<const ConfigClass> Classes() { return kClasses; }
absl::Span<const OtherClass> OtherClasses() { return kOthers; }

}  // namespace slipway::quantizer
