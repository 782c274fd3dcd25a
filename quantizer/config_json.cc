// Configurations in JSON: torchao's classes as tables of fields, read with all problems of a document named at once,
// and written as config_to_dict() gives them; around them FqnToConfig and transformers' quantization_config.
//
// torchao writes an object as {"_type": class, "_version": n, "_data": {field: value}}, members of enumerations and
// dtypes as {"_type": type, "_data": name}. Fields that are absent have the class's default; a `_version` that is
// absent is 1.
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "importers/json.h"
#include "quantizer/config.h"

namespace slipway::quantizer {
namespace {

using importers::json::Document;
using importers::json::Member;
using importers::json::Value;
using json::Writer;
using Scheme = Config::Scheme;
using Method = Config::Method;

constexpr int kMaxDepth = 64;
constexpr size_t kMaxProblems = 20;  // shown

// What a document calls something, fit to show.
std::string Shown(std::string_view name) {
  constexpr size_t kLongest = 100;
  return text::StrCat("'", text::Printable(name.substr(0, kLongest)), name.size() > kLongest ? "…" : "", "'");
}

// Walks a document and collects what is wrong with it.
class Reader {
 public:
  // Of MX and float8, whose classes write the type of activations and that of weights.
  std::optional<ir::DType> activation_element;

  // Names the place of what is read while it lives: "quant_type.Int8WeightOnlyConfig.granularity".
  class At {
   public:
    At(Reader* r, std::string_view name) : reader_(r), size_(r->where_.size()) {
      text::StrAppend(&r->where_, size_ > 0 ? "." : "", name);
    }
    ~At() { reader_->where_.resize(size_); }
    At(const At&) = delete;
    At& operator=(const At&) = delete;

   private:
    Reader* reader_;
    size_t size_;
  };

  void Wrong(std::string_view what) { Add(what, &wrong_); }
  void NotTaken(std::string_view what) { Add(what, &not_taken_); }
  void Unknown(std::string_view what, std::string_view name, absl::Span<const std::string_view> existing) {
    if (wrong_ >= kMaxProblems) return Wrong("");  // counted only
    Wrong(text::StrCat("unknown ", what, " ", Shown(name), text::Suggestion(name, existing)));
  }
  size_t count() const { return wrong_ + not_taken_; }

  absl::Status ToStatus() const {
    if (count() == 0) return absl::OkStatus();
    std::string message = text::Join(messages_, "; ");
    if (count() > messages_.size()) text::StrAppend(&message, "; and ", count() - messages_.size(), " more");
    return wrong_ > 0 ? absl::InvalidArgumentError(message) : absl::UnimplementedError(message);
  }

  // Each notes what the value is where it is not of that type.
  std::optional<bool> Bool(const Value& v) { return Take(v.AsBool()); }
  std::optional<int64_t> Int(const Value& v) { return Take(v.AsInt()); }
  std::optional<double> Double(const Value& v) { return Take(v.AsDouble()); }
  std::optional<std::string_view> String(const Value& v) { return Take(v.AsString()); }
  std::optional<absl::Span<const Member>> Object(const Value& v) { return Take(v.AsObject()); }
  std::optional<absl::Span<const Value>> Array(const Value& v) { return Take(v.AsArray()); }

 private:
  std::string where_;
  std::vector<std::string> messages_;
  size_t wrong_ = 0, not_taken_ = 0;

  void Add(std::string_view what, size_t* count) {
    ++*count;
    if (messages_.size() < kMaxProblems) messages_.push_back(text::StrCat(where_, where_.empty() ? "" : ": ", what));
  }
  template <typename T>
  std::optional<T> Take(absl::StatusOr<T> x) {
    if (x.ok()) return *std::move(x);
    Wrong(text::FromAbsl(x.status().message()));
    return std::nullopt;
  }
};

// The parts of {"_type": …, "_version": …, "_data": …}.
struct Tagged {
  std::string_view type;
  int64_t version = 1;
  bool versioned = false;
  const Value* data = nullptr;
};

bool IsTagged(const Value& v) { return v.Find("_type") != nullptr && v.Find("_data") != nullptr; }

std::optional<Tagged> ReadTagged(Reader& r, const Value& v) {
  const auto members = r.Object(v);
  if (!members) return std::nullopt;
  constexpr std::string_view kKeys[] = {"_type", "_version", "_data"};
  Tagged out;
  bool typed = false;
  for (const Member& m : *members) {
    if (m.key == "_type") {
      const auto type = r.String(m.value);
      if (!type) return std::nullopt;
      out.type = *type;
      typed = true;
    } else if (m.key == "_version") {
      const auto version = r.Int(m.value);
      if (!version) return std::nullopt;
      out.version = *version;
      out.versioned = true;
    } else if (m.key == "_data") {
      out.data = &m.value;
    } else {
      r.Unknown("key", m.key, kKeys);
    }
  }
  if (typed && out.data != nullptr) return out;
  r.Wrong(typed ? "_data is missing" : "_type is missing");
  return std::nullopt;
}

void WriteTagged(Writer& w, std::string_view type, std::string_view data) {
  w.BeginObject().Key("_type").String(type).Key("_data").String(data).EndObject();
}

// One of torchao's enumerations. Those that are text as well may stand as their value, the name in lower case.
struct Enumeration {
  std::string_view type;
  absl::Span<const std::string_view> members;
  bool is_text;
};

constexpr std::string_view kMappingNames[] = {"SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"};  // by Mapping
constexpr Enumeration kMappingType{"MappingType", kMappingNames, false};
constexpr std::string_view kScalingNames[] = {"FLOOR", "RCEIL", "CEIL", "EVEN"};  // by MxScaling
constexpr Enumeration kScaleCalculationMode{"ScaleCalculationMode", kScalingNames, false};
constexpr std::string_view kIntxAlgorithmNames[] = {"AFFINE", "HQQ_SCALE_ONLY"};  // by `hqq`
constexpr Enumeration kIntxAlgorithm{"IntxChooseQParamsAlgorithm", kIntxAlgorithmNames, true};
constexpr std::string_view kInt4AlgorithmNames[] = {"TINYGEMM", "HQQ"};  // by `hqq`
constexpr Enumeration kInt4Algorithm{"Int4ChooseQParamsAlgorithm", kInt4AlgorithmNames, true};
constexpr std::string_view kKernelNames[] = {"AUTO", "TORCH", "MSLK", "EMULATED", "TRITON"};
constexpr Enumeration kKernelPreference{"KernelPreference", kKernelNames, true};
constexpr std::string_view kInt4PackingNames[] = {"PLAIN", "PRESHUFFLED", "PLAIN_INT32", "TILE_PACKED_TO_4D"};
constexpr Enumeration kInt4Packing{"Int4PackingFormat", kInt4PackingNames, true};
constexpr std::string_view kIntxPackingNames[] = {"UNPACKED_TO_INT8", "OPAQUE_ATEN_KLEIDIAI", "OPAQUE_TORCHAO_AUTO",
                                                  "OPAQUE_TORCHAO_KLEIDIAI", "OPAQUE_TORCHAO_LOWBIT"};
constexpr Enumeration kIntxPacking{"IntxPackingFormat", kIntxPackingNames, true};
constexpr std::string_view kFloat8PackingNames[] = {"PLAIN", "SPARSE_2D_DATA_2D_METADATA",
                                                    "SPARSE_1D_DATA_1D_METADATA"};
constexpr Enumeration kFloat8Packing{"Float8PackingFormat", kFloat8PackingNames, true};

bool SameLetters(std::string_view lower, std::string_view upper) {
  if (lower.size() != upper.size()) return false;
  for (size_t i = 0; i < lower.size(); ++i)
    if (lower[i] != (upper[i] >= 'A' && upper[i] <= 'Z' ? static_cast<char>(upper[i] - 'A' + 'a') : upper[i]))
      return false;
  return true;
}

// The member's place in the enumeration; -1 where it is none, which is noted.
int ReadEnumeration(Reader& r, const Value& v, const Enumeration& e) {
  std::string_view name;
  const bool text = e.is_text && v.is_string();
  if (text) {
    name = *v.AsString();
  } else {
    const auto tagged = ReadTagged(r, v);
    if (!tagged) return -1;
    if (tagged->type != e.type) {
      r.Wrong(text::StrCat("is a ", Shown(tagged->type), ", not a ", e.type));
      return -1;
    }
    const auto member = r.String(*tagged->data);
    if (!member) return -1;
    name = *member;
  }
  for (size_t i = 0; i < e.members.size(); ++i)
    if (text ? SameLetters(name, e.members[i]) : name == e.members[i]) return static_cast<int>(i);
  r.Unknown(e.type, name, e.members);
  return -1;
}

// "int4" of {"_type": "torch.dtype", "_data": "int4"}; empty where it is none.
std::string_view ReadDType(Reader& r, const Value& v) {
  const auto tagged = ReadTagged(r, v);
  if (!tagged) return {};
  if (tagged->type != "torch.dtype") {
    r.Wrong(text::StrCat("is a ", Shown(tagged->type), ", not a torch.dtype"));
    return {};
  }
  return r.String(*tagged->data).value_or(std::string_view());
}

constexpr std::string_view kIntegerNames[] = {"int1", "int2", "int3", "int4", "int5", "int6", "int7", "int8"};
struct NamedElement {
  std::string_view name;
  ir::DType dtype;
};
constexpr NamedElement kElements[] = {
    {"float8_e4m3fn", ir::DType::kFloat8E4M3FN},
    {"float8_e5m2", ir::DType::kFloat8E5M2},
    {"float4_e2m1fn_x2", ir::DType::kFloat4E2M1},
};
constexpr std::string_view kElementNames[] = {kElements[0].name, kElements[1].name, kElements[2].name};
constexpr std::string_view kElementsNotTaken[] = {"float8_e4m3fnuz", "float8_e5m2fnuz", "fp6_e2m3", "fp6_e3m2"};

// `count` of kElements are possible here.
std::optional<ir::DType> ReadElement(Reader& r, const Value& v, size_t count) {
  // torchao has no dtype of 6 bits: text
  const std::string_view name = v.is_string() ? *v.AsString() : ReadDType(r, v);
  if (name.empty()) return std::nullopt;
  for (const NamedElement& e : absl::MakeConstSpan(kElements).first(count))
    if (name == e.name && !v.is_string()) return e.dtype;
  for (const std::string_view other : kElementsNotTaken) {
    if (name != other) continue;
    r.NotTaken(text::StrCat("elements of type ", name, " are not supported"));
    return std::nullopt;
  }
  r.Unknown("element type", name, absl::MakeConstSpan(kElementNames).first(count));
  return std::nullopt;
}

// Granularities that a field takes, as the classes that write them.
enum GranularityClass : unsigned {
  kPerRow = 1,
  kPerAxis = 2,
  kPerTensor = 4,
  kPerGroup = 8,
  kPerToken = 16,
  kPerBlock = 32
};
struct GranularityRow {
  GranularityClass cls;
  std::string_view type;
  std::string_view field;  // its only one; empty where there is none
};
constexpr GranularityRow kGranularities[] = {
    {kPerRow, "PerRow", "dim"},    {kPerAxis, "PerAxis", "axis"},
    {kPerTensor, "PerTensor", ""}, {kPerGroup, "PerGroup", "group_size"},
    {kPerToken, "PerToken", ""},   {kPerBlock, "PerBlock", "block_size"},
};
constexpr std::string_view kGranularityNames[] = {"PerRow", "PerAxis", "PerTensor", "PerGroup", "PerToken", "PerBlock"};

std::optional<Granularity> ReadGranularity(Reader& r, const Value& v, unsigned taken) {
  const auto tagged = ReadTagged(r, v);
  if (!tagged) return std::nullopt;
  const GranularityRow* row = nullptr;
  for (const GranularityRow& g : kGranularities)
    if (g.type == tagged->type) row = &g;
  if (row == nullptr) {
    r.Unknown("granularity", tagged->type, kGranularityNames);
    return std::nullopt;
  }
  const size_t problems = r.count();
  if (tagged->version != 1) r.Wrong(text::StrCat(row->type, " has version 1, not ", tagged->version));
  const auto members = r.Object(*tagged->data);
  if (!members) return std::nullopt;
  const Value* argument = nullptr;
  for (const Member& m : *members) {
    if (!row->field.empty() && m.key == row->field)
      argument = &m.value;
    else
      r.Unknown(text::StrCat("field of ", row->type), m.key,
                absl::MakeConstSpan(&row->field, row->field.empty() ? 0 : 1));
  }
  if (!(taken & row->cls)) {
    std::vector<std::string_view> names;
    for (const GranularityRow& g : kGranularities)
      if (taken & g.cls) names.push_back(g.type);
    const std::string what = text::StrCat("is ", row->type, "; there are ", text::Join(names, ", "));
    if (row->cls == kPerBlock)
      r.NotTaken(what);
    else
      r.Wrong(what);
    return std::nullopt;
  }
  if (argument == nullptr && (row->cls == kPerAxis || row->cls == kPerGroup))
    r.Wrong(text::StrCat(row->type, " needs its field ", row->field));
  Granularity out;
  if (row->cls == kPerTensor) out.kind = Granularity::kTensor;
  if (argument != nullptr) {
    const auto n = r.Int(*argument);
    if (!n) return std::nullopt;
    if (row->cls == kPerGroup) {
      out = {Granularity::kGroup, *n};
    } else if (row->cls == kPerAxis && *n != 0) {
      r.Wrong(text::StrCat("axis is 0, the output features, not ", *n));
    } else if (row->cls == kPerRow && *n != -1) {
      r.NotTaken(text::StrCat("dim is -1, the input features; ", *n, " is not supported"));
    }
  }
  if (r.count() > problems) return std::nullopt;
  return out;
}

void WriteGranularity(Writer& w, const Granularity& g, bool axis) {
  const GranularityClass cls = g.kind == Granularity::kTensor  ? kPerTensor
                               : g.kind == Granularity::kGroup ? kPerGroup
                               : axis                          ? kPerAxis
                                                               : kPerRow;
  for (const GranularityRow& row : kGranularities) {
    if (row.cls != cls) continue;
    w.BeginObject().Key("_type").String(row.type).Key("_version").Int(1).Key("_data").BeginObject();
    if (!row.field.empty()) w.Key(row.field).Int(cls == kPerGroup ? g.group : cls == kPerAxis ? 0 : -1);
    w.EndObject().EndObject();
  }
}

// A field of a class: how it is read into a configuration and written from one. Reading notes what is wrong.
struct Field {
  std::string_view name;
  void (*read)(Reader& r, const Value& v, Config* c);
  void (*write)(Writer& w, const Config& c);
};

// Fields that are a member of Config.
template <bool Config::*kMember>
constexpr Field Flag(std::string_view name) {
  return {name, [](Reader& r, const Value& v, Config* c) { c->*kMember = r.Bool(v).value_or(c->*kMember); },
          [](Writer& w, const Config& c) { w.Bool(c.*kMember); }};
}
template <auto kMember, const Enumeration& kEnum>
constexpr Field Choice(std::string_view name) {
  return {
      name,
      [](Reader& r, const Value& v, Config* c) {
        using T = std::remove_reference_t<decltype(c->*kMember)>;
        if (const int i = ReadEnumeration(r, v, kEnum); i >= 0) c->*kMember = static_cast<T>(i);
      },
      [](Writer& w, const Config& c) { WriteTagged(w, kEnum.type, kEnum.members[static_cast<size_t>(c.*kMember)]); }};
}
template <auto kMember>
constexpr Field Integer(std::string_view name) {
  return {name,
          [](Reader& r, const Value& v, Config* c) {
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
constexpr Field Real(std::string_view name) {
  return {name, [](Reader& r, const Value& v, Config* c) { c->*kMember = r.Double(v).value_or(c->*kMember); },
          [](Writer& w, const Config& c) { w.Double(c.*kMember); }};
}
template <std::optional<double> Config::*kMember>
constexpr Field OptionalReal(std::string_view name) {
  return {name, [](Reader& r, const Value& v, Config* c) { c->*kMember = v.is_null() ? std::nullopt : r.Double(v); },
          [](Writer& w, const Config& c) { (c.*kMember) ? w.Double(*(c.*kMember)) : w.Null(); }};
}

// Granularity of the weights alone. Where torchao takes null, it means rows.
template <unsigned kTaken, bool kNullable>
constexpr Field WeightGranularity(std::string_view name) {
  return {name,
          [](Reader& r, const Value& v, Config* c) {
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
constexpr Field BothGranularities(std::string_view name) {
  return {name,
          [](Reader& r, const Value& v, Config* c) {
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
constexpr Field IntegerType(std::string_view name) {
  return {name,
          [](Reader& r, const Value& v, Config* c) {
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
constexpr Field ScaleType(std::string_view name) {
  return {name,
          [](Reader& r, const Value& v, Config* c) {
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
constexpr Field Element(std::string_view name) {
  return {name,
          [](Reader& r, const Value& v, Config* c) { c->element = ReadElement(r, v, kCount).value_or(c->element); },
          WriteElement};
}
// Compared with the weights' when the class has been read.
template <size_t kCount>
constexpr Field ActivationElement(std::string_view name) {
  return {name,
          [](Reader& r, const Value& v, Config*) {
            if (const auto e = ReadElement(r, v, kCount)) r.activation_element = *e;
          },
          WriteElement};
}

// Fields that change no number, or that must say what slipway does.
template <bool kDefault>
constexpr Field IgnoredFlag(std::string_view name) {
  return {name, [](Reader& r, const Value& v, Config*) { (void)r.Bool(v); },
          [](Writer& w, const Config&) { w.Bool(kDefault); }};
}
// The first format is the only one that is taken: the others are layouts of other devices' kernels.
template <const Enumeration& kEnum>
constexpr Field FirstOf(std::string_view name) {
  return {name,
          [](Reader& r, const Value& v, Config*) {
            if (const int i = ReadEnumeration(r, v, kEnum); i > 0)
              r.NotTaken(
                  text::StrCat(kEnum.members[i], " is the layout of one kernel: write ", kEnum.members[0], " instead"));
          },
          [](Writer& w, const Config&) { WriteTagged(w, kEnum.type, kEnum.members[0]); }};
}
template <bool kMx>
constexpr Field Kernel(std::string_view name) {
  return {name, [](Reader& r, const Value& v, Config*) { ReadEnumeration(r, v, kKernelPreference); },
          [](Writer& w, const Config& c) {  // torchao's AUTO refuses other blocks and elements
            const bool emulated = kMx && (c.mx_block != 32 || c.element == ir::DType::kFloat8E5M2);
            WriteTagged(w, kKernelPreference.type, emulated ? "EMULATED" : "AUTO");
          }};
}
constexpr Field CalibratedTensor(std::string_view name) {
  return {name,
          [](Reader& r, const Value& v, Config*) {
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
constexpr Field Step() {
  return {"step",
          [](Reader& r, const Value& v, Config*) {
            const auto step = r.String(v);
            if (!step) return;
            for (const std::string_view known : kSteps)
              if (*step == known) return;
            r.Unknown("step", *step, kSteps);
          },
          [](Writer& w, const Config&) { w.String("convert"); }};
}
constexpr Field kBaseConfig{"base_config", nullptr, nullptr};  // read and written by ReadClass() and WriteClass()

// Version 2 of Int8WeightOnlyConfig keeps the field of version 1, which must be null.
void ReadInt8GroupSize(Reader& r, const Value& v, Config*) {
  if (v.is_null()) return;
  const auto n = r.Int(v);
  if (n) r.Wrong(text::StrCat("is null since version 2: write granularity PerGroup with group_size ", *n, " instead"));
}
void WriteNull(Writer& w, const Config&) { w.Null(); }

void ReadInt4Group(Reader& r, const Value& v, Config* c) {
  if (const auto n = r.Int(v)) c->granularity = {Granularity::kGroup, *n};
}
void WriteInt4Group(Writer& w, const Config& c) { w.Int(c.granularity.group); }

void ReadTileWidth(Reader& r, const Value& v, Config*) {
  const auto n = r.Int(v);
  if (n && *n != 8 && *n != 16) r.Wrong("is 8 or 16");
}
void WriteTileWidth(Writer& w, const Config&) { w.Int(8); }

void ReadReduceRange(Reader& r, const Value& v, Config* c) {
  c->reduce_range = !v.is_null() && r.Bool(v).value_or(false);
}
void WriteReduceRange(Writer& w, const Config& c) { w.Bool(c.reduce_range); }

constexpr std::string_view kMmFields[] = {"emulate", "use_fast_accum", "pad_inner_dim"};
void ReadMmConfig(Reader& r, const Value& v, Config*) {
  if (v.is_null()) return;
  const auto tagged = ReadTagged(r, v);
  if (!tagged) return;
  if (tagged->type != "Float8MMConfig")
    return r.Wrong(text::StrCat("is a ", Shown(tagged->type), ", not a Float8MMConfig"));
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
void ReadIgnoredInt(Reader& r, const Value& v, Config*) { (void)r.Int(v); }
void WriteZero(Writer& w, const Config&) { w.Int(0); }

void ReadNoStep(Reader& r, const Value& v, Config*) {
  if (!v.is_null()) r.NotTaken("is null: activations' scales of NVFP4 are not calibrated");
}

void ReadAlpha(Reader& r, const Value& v, Config* c) {
  if (v.is_null()) return r.NotTaken("null turns SmoothQuant off: write the base_config alone");
  c->smooth_alpha = r.Double(v).value_or(c->smooth_alpha);
}
void WriteAlpha(Writer& w, const Config& c) { w.Double(c.smooth_alpha); }

constexpr Field kInt8WeightOnly[] = {
    {"group_size", ReadInt8GroupSize, WriteNull},
    WeightGranularity<kPerRow | kPerTensor | kPerGroup, false>("granularity"),
    IgnoredFlag<true>("set_inductor_config"),
};
constexpr Field kInt8Dynamic[] = {
    Choice<&Config::act_mapping, kMappingType>("act_mapping_type"),
    IgnoredFlag<false>("weight_only_decode"),
    BothGranularities<false>("granularity"),
    IgnoredFlag<true>("set_inductor_config"),
    {"reduce_range", ReadReduceRange, WriteReduceRange},
};
constexpr Field kInt8Static[] = {
    CalibratedTensor("act_quant_scale"),      CalibratedTensor("act_quant_zero_point"),
    BothGranularities<false>("granularity"),  Choice<&Config::act_mapping, kMappingType>("act_mapping_type"),
    IgnoredFlag<true>("set_inductor_config"), {"reduce_range", ReadReduceRange, WriteReduceRange},
};
constexpr Field kIntxWeightOnly[] = {
    IntegerType("weight_dtype"),
    WeightGranularity<kPerAxis | kPerGroup, false>("granularity"),
    Choice<&Config::mapping, kMappingType>("mapping_type"),
    ScaleType("scale_dtype"),
    FirstOf<kIntxPacking>("intx_packing_format"),
    Choice<&Config::hqq, kIntxAlgorithm>("intx_choose_qparams_algorithm"),
};
constexpr Field kInt8DynamicIntx[] = {
    IntegerType("weight_dtype"),
    WeightGranularity<kPerAxis | kPerGroup, false>("weight_granularity"),
    Choice<&Config::mapping, kMappingType>("weight_mapping_type"),
    ScaleType("weight_scale_dtype"),
    Choice<&Config::act_mapping, kMappingType>("act_mapping_type"),
    FirstOf<kIntxPacking>("intx_packing_format"),
    Choice<&Config::hqq, kIntxAlgorithm>("intx_choose_qparams_algorithm"),
};
constexpr Field kInt4WeightOnly[] = {
    {"group_size", ReadInt4Group, WriteInt4Group},
    IgnoredFlag<true>("set_inductor_config"),
    FirstOf<kInt4Packing>("int4_packing_format"),
    Choice<&Config::hqq, kInt4Algorithm>("int4_choose_qparams_algorithm"),
    {"int4_tile_packed_ntile", ReadTileWidth, WriteTileWidth},
};
constexpr Field kInt4Cpu[] = {
    {"group_size", ReadInt4Group, WriteInt4Group},
    Choice<&Config::hqq, kInt4Algorithm>("int4_choose_qparams_algorithm"),
    IgnoredFlag<true>("set_inductor_config"),
};
constexpr Field kFloat8WeightOnly[] = {
    Element<2>("weight_dtype"),
    IgnoredFlag<true>("set_inductor_config"),
    WeightGranularity<kPerRow | kPerTensor | kPerGroup, true>("granularity"),
};
constexpr Field kFloat8Dynamic[] = {
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
constexpr Field kMx[] = {
    Integer<&Config::mx_block>("block_size"),
    ActivationElement<3>("activation_dtype"),
    Element<3>("weight_dtype"),
    Kernel<true>("kernel_preference"),
    Choice<&Config::mx_scaling, kScaleCalculationMode>("scaling_mode"),
};
constexpr Field kNvfp4WeightOnly[] = {
    Flag<&Config::per_tensor_scale>("use_dynamic_per_tensor_scale"),
};
constexpr Field kNvfp4Dynamic[] = {
    IgnoredFlag<true>("use_triton_kernel"),
    Flag<&Config::per_tensor_scale>("use_dynamic_per_tensor_scale"),
    {"step", ReadNoStep, WriteNull},
};
constexpr Field kAwq[] = {
    kBaseConfig,
    Step<kAwqSteps>(),
    Integer<&Config::awq_search_space>("scale_search_space_size"),
};
constexpr Field kSmoothQuant[] = {
    kBaseConfig,
    Step<kSmoothQuantSteps>(),
    {"alpha", ReadAlpha, WriteAlpha},
    IgnoredFlag<false>("use_running_absmax"),
};
constexpr Field kGptq[] = {
    Step<kGptqSteps>(),
    kBaseConfig,
    Real<&Config::gptq_percdamp>("percdamp"),
    Integer<&Config::gptq_block>("gptq_quantize_block_size"),
};

// torchao's classes. A method's has a base_config, which has the scheme.
struct Class {
  std::string_view name;
  int version;
  Method method;
  Scheme scheme;  // of kRoundToNearest
  bool int4_cpu;
  absl::Span<const Field> fields;
};
constexpr Method kPlain = Method::kRoundToNearest;
constexpr Class kClasses[] = {
    {"Int8WeightOnlyConfig", 2, kPlain, Scheme::kInt8WeightOnly, false, kInt8WeightOnly},
    {"Int8DynamicActivationInt8WeightConfig", 2, kPlain, Scheme::kInt8Dynamic, false, kInt8Dynamic},
    {"Int8StaticActivationInt8WeightConfig", 1, kPlain, Scheme::kInt8Static, false, kInt8Static},
    {"IntxWeightOnlyConfig", 2, kPlain, Scheme::kIntxWeightOnly, false, kIntxWeightOnly},
    {"Int8DynamicActivationIntxWeightConfig", 2, kPlain, Scheme::kInt8DynamicIntx, false, kInt8DynamicIntx},
    {"Int4WeightOnlyConfig", 2, kPlain, Scheme::kInt4WeightOnly, false, kInt4WeightOnly},
    {"PrototypeInt4WeightOnlyConfig", 1, kPlain, Scheme::kInt4WeightOnly, true, kInt4Cpu},
    {"Float8WeightOnlyConfig", 2, kPlain, Scheme::kFloat8WeightOnly, false, kFloat8WeightOnly},
    {"Float8DynamicActivationFloat8WeightConfig", 2, kPlain, Scheme::kFloat8Dynamic, false, kFloat8Dynamic},
    {"MXDynamicActivationMXWeightConfig", 1, kPlain, Scheme::kMx, false, kMx},
    {"NVFP4WeightOnlyConfig", 1, kPlain, Scheme::kNvfp4WeightOnly, false, kNvfp4WeightOnly},
    {"NVFP4DynamicActivationNVFP4WeightConfig", 1, kPlain, Scheme::kNvfp4Dynamic, false, kNvfp4Dynamic},
    {"AWQConfig", 1, Method::kAwq, Scheme(), false, kAwq},
    {"SmoothQuantConfig", 1, Method::kSmoothQuant, Scheme(), false, kSmoothQuant},
    {"GPTQConfig", 1, Method::kGptq, Scheme(), false, kGptq},
};
// the second is the first's older name
constexpr std::string_view kMapClasses[] = {"FqnToConfig", "ModuleFqnToConfig"};

// Classes of torchao's, of this release or an older one, that are not taken, and what to write instead.
struct Other {
  std::string_view name, instead;
};
constexpr Other kOthers[] = {
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

const Class& ClassOf(Method method, const Config& c) {
  for (const Class& row : kClasses)
    if (row.method == method && (method != kPlain || (row.scheme == c.scheme && row.int4_cpu == c.int4_cpu)))
      return row;
  return kClasses[0];  // the table has all
}
const Class* FindClass(std::string_view name) {
  for (const Class& row : kClasses)
    if (row.name == name) return &row;
  return nullptr;
}
bool IsMapClass(std::string_view name) { return name == kMapClasses[0] || name == kMapClasses[1]; }

std::vector<std::string_view> NamesOf(absl::Span<const Field> fields) {
  std::vector<std::string_view> out;
  for (const Field& f : fields) out.push_back(f.name);
  return out;
}

std::optional<Config> ReadConfig(Reader& r, const Value& v);

// Reads the members of _data into `c`, which has the class's defaults.
void ReadVersionAndFields(Reader& r, const Class& cls, const Tagged& tagged, Config* c) {
  const Reader::At at_class(&r, cls.name);
  if (tagged.version != cls.version)
    r.Wrong(tagged.versioned
                ? text::StrCat("_version ", tagged.version, " is not one that torchao 0.18 takes: write ", cls.version)
                : text::StrCat("_version is missing, which means 1: write ", cls.version));
  const auto members = r.Object(*tagged.data);
  if (!members) return;
  if (cls.method != kPlain) {
    const Value* base = tagged.data->Find(kBaseConfig.name);
    if (base == nullptr) return r.Wrong("base_config is missing");
    const Reader::At at(&r, kBaseConfig.name);
    const auto config = ReadConfig(r, *base);
    if (!config) return;
    if (config->method != kPlain) return r.Wrong("methods go around a scheme, not around one another");
    *c = *config;
    c->method = cls.method;
  }
  r.activation_element.reset();
  for (const Member& m : *members) {
    const Field* field = nullptr;
    for (const Field& f : cls.fields)
      if (f.name == m.key) field = &f;
    if (field == nullptr) {
      r.Unknown("field", m.key, NamesOf(cls.fields));
    } else if (field->read != nullptr) {
      const Reader::At at(&r, field->name);
      field->read(r, m.value, c);
    }
  }
}

// What a class's fields say together.
void CheckFields(Reader& r, const Class& cls, const Config& c) {
  bool has_activations = false;
  for (const Field& f : cls.fields) has_activations |= f.name == "activation_dtype";
  const ir::DType activations = r.activation_element.value_or(DefaultConfig(c.scheme).element);
  if (has_activations && activations != c.element) {
    const std::string what = text::StrCat(cls.name, ": activation_dtype and weight_dtype differ, ",
                                          ir::Name(activations), " and ", ir::Name(c.element));
    if (c.scheme == Scheme::kMx)
      r.Wrong(what);
    else
      r.NotTaken(what);
  }
  if (const absl::Status status = CheckConfig(c); !status.ok()) r.Wrong(text::FromAbsl(status.message()));
}

std::optional<Config> ReadConfig(Reader& r, const Value& v) {
  const size_t problems = r.count();
  const auto tagged = ReadTagged(r, v);
  if (!tagged) return std::nullopt;
  const Class* cls = FindClass(tagged->type);
  if (cls == nullptr) {
    if (IsMapClass(tagged->type)) {
      r.Wrong(text::StrCat(tagged->type, " stands outermost only"));
      return std::nullopt;
    }
    for (const Other& other : kOthers) {
      if (other.name != tagged->type) continue;
      r.NotTaken(text::StrCat(other.name, " is not supported", other.instead.empty() ? "" : "; near to it is ",
                              other.instead));
      return std::nullopt;
    }
    std::vector<std::string_view> names;
    for (const Class& row : kClasses) names.push_back(row.name);
    names.insert(names.end(), std::begin(kMapClasses), std::end(kMapClasses));
    r.Unknown("configuration", tagged->type, names);
    return std::nullopt;
  }
  Config c = DefaultConfig(cls->scheme);
  c.int4_cpu = cls->int4_cpu;
  ReadVersionAndFields(r, *cls, *tagged, &c);
  if (r.count() == problems) CheckFields(r, *cls, c);
  if (r.count() > problems) return std::nullopt;
  return c;
}

// The members of fqn_to_config, which are in the order of the document.
std::vector<ConfigMap::Entry> ReadEntries(Reader& r, const Value& v) {
  std::vector<ConfigMap::Entry> out;
  const auto members = r.Object(v);
  if (!members) return out;
  out.reserve(members->size());
  for (const Member& m : *members) {
    const Reader::At at(&r, Shown(m.key));
    out.push_back({std::string(m.key), m.value.is_null() ? std::nullopt : ReadConfig(r, m.value)});
  }
  return out;
}

// torchao compares dicts, whose order does not count.
bool SameEntries(const std::vector<ConfigMap::Entry>& a, const std::vector<ConfigMap::Entry>& b) {
  if (a.size() != b.size()) return false;
  text::ViewMap<const ConfigMap::Entry*> by_key;
  for (const ConfigMap::Entry& e : a) by_key[e.key] = &e;
  for (const ConfigMap::Entry& e : b) {
    const auto it = by_key.find(e.key);
    if (it == by_key.end() || it->second->config != e.config) return false;
  }
  return true;
}

// torchao writes the map twice, under the field's name and its older one.
constexpr std::string_view kMapFields[] = {"fqn_to_config", "module_fqn_to_config"};

void ReadMap(Reader& r, const Tagged& tagged, ConfigMap* out) {
  const Reader::At at(&r, tagged.type);
  if (tagged.version != 1)
    r.Wrong(text::StrCat("_version ", tagged.version, " is not one that torchao 0.18 takes: write 1"));
  const auto members = r.Object(*tagged.data);
  if (!members) return;
  std::vector<ConfigMap::Entry> entries[2];
  for (size_t i = 0; i < 2; ++i) {
    const Value* field = tagged.data->Find(kMapFields[i]);
    // the second would only repeat what is wrong with the first
    if (field == nullptr || (i == 1 && r.count() > 0)) continue;
    const Reader::At at_field(&r, kMapFields[i]);
    entries[i] = ReadEntries(r, *field);
  }
  for (const Member& m : *members)
    if (m.key != kMapFields[0] && m.key != kMapFields[1]) r.Unknown("field", m.key, kMapFields);
  if (r.count() == 0 && !entries[0].empty() && !entries[1].empty() && !SameEntries(entries[0], entries[1]))
    r.Wrong("fqn_to_config and module_fqn_to_config differ");
  out->entries = std::move(entries[entries[0].empty() ? 1 : 0]);
}

// A configuration or a map of them.
void ReadTorchao(Reader& r, const Value& v, ConfigMap* out) {
  if (v.is_object() && IsTagged(v)) {
    const Value& type = *v.Find("_type");
    if (type.is_string() && IsMapClass(*type.AsString())) {
      if (const auto tagged = ReadTagged(r, v)) ReadMap(r, *tagged, out);
      return;
    }
  }
  if (const auto c = ReadConfig(r, v)) out->entries = ConfigMap::Of(*c).entries;
}

// quant_type as a name, with the fields of its class in quant_type_kwargs: how transformers wrote before it took
// torchao's configurations.
struct LegacyType {
  std::string_view name, class_name;
};
constexpr LegacyType kLegacyTypes[] = {
    {"int8_weight_only", "Int8WeightOnlyConfig"},
    {"int4_weight_only", "Int4WeightOnlyConfig"},
    {"int8_dynamic_activation_int8_weight", "Int8DynamicActivationInt8WeightConfig"},
};

void ReadLegacy(Reader& r, std::string_view name, const Value* arguments, ConfigMap* out) {
  const Class* cls = nullptr;
  std::vector<std::string_view> names;
  for (const LegacyType& t : kLegacyTypes) {
    names.push_back(t.name);
    if (t.name == name) cls = FindClass(t.class_name);
  }
  if (name == "autoquant") return r.NotTaken("autoquant, which measures on the device, is not supported");
  if (cls == nullptr) return r.Unknown("quant_type", name, names);
  Config c = DefaultConfig(cls->scheme);
  const size_t problems = r.count();
  if (arguments != nullptr) {
    const Reader::At at(&r, "quant_type_kwargs");
    const auto members = r.Object(*arguments);
    if (!members) return;
    std::vector<std::string_view> known = NamesOf(cls->fields);
    known.push_back("layout");
    if (cls->scheme == Scheme::kInt4WeightOnly) known.push_back("use_hqq");
    for (const Member& m : *members) {
      const Reader::At at_member(&r, Shown(m.key));
      const Field* field = nullptr;
      for (const Field& f : cls->fields)
        if (f.name == m.key) field = &f;
      if (m.key == "layout") continue;  // how a kernel wants the integers to lie
      if (m.key == "use_hqq" && cls->scheme == Scheme::kInt4WeightOnly) c.hqq = r.Bool(m.value).value_or(false);
      // int8 too, then
      else if (m.key == "group_size" && field != nullptr && m.value.is_int())
        ReadInt4Group(r, m.value, &c);
      else if (field != nullptr)
        field->read(r, m.value, &c);
      else
        r.Unknown("argument", m.key, known);
    }
  }
  if (const absl::Status status = CheckConfig(c); !status.ok()) r.Wrong(text::FromAbsl(status.message()));
  if (r.count() == problems) out->entries = ConfigMap::Of(c).entries;
}

// The fields of transformers' quantization_config.
constexpr std::string_view kTransformersKeys[] = {
    "include_input_output_embeddings", "modules_to_not_convert", "quant_method", "quant_type", "quant_type_kwargs",
    "untie_embedding_weights"};

void ReadTransformers(Reader& r, const Value& v, ConfigMap* out) {
  const auto members = r.Object(v);
  if (!members) return;
  if (const Value* method = v.Find("quant_method"); method != nullptr) {
    const Reader::At at(&r, "quant_method");
    const auto name = r.String(*method);
    if (!name) return;
    if (*name != "torchao")
      return r.NotTaken(text::StrCat("is ", Shown(*name), "; slipway reads configurations of torchao"));
  }
  out->keep_head = true;
  const Value* arguments = v.Find("quant_type_kwargs");
  if (v.Find("quant_type") == nullptr) r.Wrong("quant_type is missing");
  for (const Member& m : *members) {
    const Reader::At at(&r, Shown(m.key));
    if (m.key == "modules_to_not_convert") {
      if (m.value.is_null()) continue;
      const auto names = r.Array(m.value);
      if (!names) continue;
      out->keep_head = false;
      for (const Value& name : *names)
        if (const auto s = r.String(name)) out->skip.emplace_back(*s);
    } else if (m.key == "include_input_output_embeddings") {
      out->embeddings = r.Bool(m.value).value_or(false);
    } else if (m.key == "untie_embedding_weights") {
      out->untie = r.Bool(m.value).value_or(false);
    } else if (m.key == "quant_type" && m.value.is_string()) {
      ReadLegacy(r, *m.value.AsString(), arguments, out);
    } else if (m.key == "quant_type") {
      const auto types = r.Object(m.value);
      if (!types) continue;
      const Value* only = m.value.Find("default");
      if (only == nullptr || types->size() != 1)
        r.Wrong("has one key, default");
      else
        ReadTorchao(r, *only, out);
      if (arguments != nullptr && arguments->is_object() && !arguments->AsObject()->empty())
        r.Wrong("quant_type_kwargs go with a quant_type that is a name");
    } else if (m.key != "quant_method" && m.key != "quant_type_kwargs") {
      r.Unknown("key", m.key, kTransformersKeys);
    }
  }
}

void WriteClass(Writer& w, const Class& cls, const Config& c) {
  w.BeginObject().Key("_type").String(cls.name).Key("_version").Int(cls.version).Key("_data").BeginObject();
  for (const Field& f : cls.fields) {
    w.Key(f.name);
    if (f.write != nullptr)
      f.write(w, c);
    else
      WriteClass(w, ClassOf(kPlain, c), c);
  }
  w.EndObject().EndObject();
}

void WriteTorchao(Writer& w, const ConfigMap& map) {
  const std::vector<ConfigMap::Entry>& entries = map.entries;
  if (entries.size() == 1 && entries[0].key == "_default" && entries[0].config)
    return WriteClass(w, ClassOf(entries[0].config->method, *entries[0].config), *entries[0].config);
  w.BeginObject().Key("_type").String(kMapClasses[0]).Key("_version").Int(1).Key("_data").BeginObject();
  for (const std::string_view field : kMapFields) {
    w.Key(field).BeginObject();
    for (const ConfigMap::Entry& e : entries) {
      w.Key(e.key);
      if (e.config)
        WriteClass(w, ClassOf(e.config->method, *e.config), *e.config);
      else
        w.Null();
    }
    w.EndObject();
  }
  w.EndObject().EndObject();
}

}  // namespace

std::string_view ClassName(const Config& c) { return ClassOf(c.method, c).name; }

std::string ToJson(const Config& c) {
  Writer w;
  WriteClass(w, ClassOf(c.method, c), c);
  return w.Take();
}

std::string ToJson(const ConfigMap& map) {
  if (!map.skip.empty() || map.keep_head || map.embeddings || map.untie) return ToQuantizationConfigJson(map);
  Writer w;
  WriteTorchao(w, map);
  return w.Take();
}

std::string ToQuantizationConfigJson(const ConfigMap& map) {
  Writer w;
  w.BeginObject();
  w.Key("include_input_output_embeddings").Bool(map.embeddings);
  w.Key("modules_to_not_convert");
  if (map.keep_head) {
    w.Null();
  } else {
    w.BeginArray();
    for (const std::string& name : map.skip) w.String(name);
    w.EndArray();
  }
  w.Key("quant_method").String("torchao");
  w.Key("quant_type").BeginObject().Key("default");
  WriteTorchao(w, map);
  w.EndObject();
  w.Key("quant_type_kwargs").BeginObject().EndObject();
  w.Key("untie_embedding_weights").Bool(map.untie);
  w.EndObject();
  return w.Take();
}

absl::StatusOr<ConfigMap> ParseConfigJson(std::string_view json) {
  ASSIGN_OR_RETURN(const Document document, Document::Parse(json, {.max_depth = kMaxDepth}));
  const Value& root = document.root();
  Reader r;
  ConfigMap out;
  if (root.Find("_type") != nullptr) {
    ReadTorchao(r, root, &out);
  } else if (root.Find("quant_method") != nullptr || root.Find("quant_type") != nullptr) {
    ReadTransformers(r, root, &out);
  } else if (const Value* inner = root.Find("quantization_config")) {
    const Reader::At at(&r, "quantization_config");
    ReadTransformers(r, *inner, &out);
  } else {
    r.Wrong("has no configuration: neither torchao's _type nor transformers' quantization_config or quant_type");
  }
  RETURN_IF_ERROR(r.ToStatus());
  return out;
}

}  // namespace slipway::quantizer
