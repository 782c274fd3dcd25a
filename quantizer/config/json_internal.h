// What the files that read and write configurations in JSON share: the walk through a document (json_values.cc),
// torchao's classes (json_classes.cc), whole documents (json.cc).
#ifndef SLIPWAY_QUANTIZER_CONFIG_JSON_INTERNAL_H_
#define SLIPWAY_QUANTIZER_CONFIG_JSON_INTERNAL_H_

#include <cstdint>
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
#include "base/text.h"
#include "importers/json.h"
#include "quantizer/config.h"

namespace slipway::quantizer {

using importers::json::Member;
using importers::json::Value;
using json::Writer;

inline constexpr int kMaxDepth = 64;
inline constexpr size_t kMaxProblems = 20;  // shown
// What a document calls something, fit to show.
std::string ShownName(std::string_view name);
// Walks a document and collects what is wrong with it.
class JsonReader {
 public:
  // Of MX and float8, whose classes write the type of activations and that of weights.
  std::optional<ir::DType> activation_element;

  // Names the place of what is read while it lives: "quant_type.Int8WeightOnlyConfig.granularity".
  class At {
   public:
    At(JsonReader* r, std::string_view name) : reader_(r), size_(r->where_.size()) {
      text::StrAppend(&r->where_, size_ > 0 ? "." : "", name);
    }
    ~At() { reader_->where_.resize(size_); }
    At(const At&) = delete;
    At& operator=(const At&) = delete;

   private:
    JsonReader* reader_;
    size_t size_;
  };

  void Wrong(std::string_view what) { Add(what, &wrong_); }
  void NotTaken(std::string_view what) { Add(what, &not_taken_); }
  void Unknown(std::string_view what, std::string_view name, absl::Span<const std::string_view> existing) {
    if (wrong_ >= kMaxProblems) return Wrong("");  // counted only
    Wrong(text::StrCat("unknown ", what, " ", ShownName(name), text::Suggestion(name, existing)));
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
bool IsTagged(const Value& v);
std::optional<Tagged> ReadTagged(JsonReader& r, const Value& v);
void WriteTagged(Writer& w, std::string_view type, std::string_view data);
// One of torchao's enumerations. Those that are text as well may stand as their value, the name in lower case.
struct Enumeration {
  std::string_view type;
  absl::Span<const std::string_view> members;
  bool is_text;
};
inline constexpr std::string_view kMappingNames[] = {"SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR",
                                                     "ASYMMETRIC"};  // by Mapping
inline constexpr Enumeration kMappingType{"MappingType", kMappingNames, false};
inline constexpr std::string_view kScalingNames[] = {"FLOOR", "RCEIL", "CEIL", "EVEN"};  // by MxScaling
inline constexpr Enumeration kScaleCalculationMode{"ScaleCalculationMode", kScalingNames, false};
inline constexpr std::string_view kIntxAlgorithmNames[] = {"AFFINE", "HQQ_SCALE_ONLY"};  // by `hqq`
inline constexpr Enumeration kIntxAlgorithm{"IntxChooseQParamsAlgorithm", kIntxAlgorithmNames, true};
inline constexpr std::string_view kInt4AlgorithmNames[] = {"TINYGEMM", "HQQ"};  // by `hqq`
inline constexpr Enumeration kInt4Algorithm{"Int4ChooseQParamsAlgorithm", kInt4AlgorithmNames, true};
inline constexpr std::string_view kKernelNames[] = {"AUTO", "TORCH", "MSLK", "EMULATED", "TRITON"};
inline constexpr Enumeration kKernelPreference{"KernelPreference", kKernelNames, true};
inline constexpr std::string_view kInt4PackingNames[] = {"PLAIN", "PRESHUFFLED", "PLAIN_INT32", "TILE_PACKED_TO_4D"};
inline constexpr Enumeration kInt4Packing{"Int4PackingFormat", kInt4PackingNames, true};
inline constexpr std::string_view kIntxPackingNames[] = {"UNPACKED_TO_INT8", "OPAQUE_ATEN_KLEIDIAI",
                                                         "OPAQUE_TORCHAO_AUTO", "OPAQUE_TORCHAO_KLEIDIAI",
                                                         "OPAQUE_TORCHAO_LOWBIT"};
inline constexpr Enumeration kIntxPacking{"IntxPackingFormat", kIntxPackingNames, true};
inline constexpr std::string_view kFloat8PackingNames[] = {"PLAIN", "SPARSE_2D_DATA_2D_METADATA",
                                                           "SPARSE_1D_DATA_1D_METADATA"};
inline constexpr Enumeration kFloat8Packing{"Float8PackingFormat", kFloat8PackingNames, true};
// The member's place in the enumeration; -1 where it is none, which is noted.
int ReadEnumeration(JsonReader& r, const Value& v, const Enumeration& e);
// "int4" of {"_type": "torch.dtype", "_data": "int4"}; empty where it is none.
std::string_view ReadDType(JsonReader& r, const Value& v);
inline constexpr std::string_view kIntegerNames[] = {"int1", "int2", "int3", "int4", "int5", "int6", "int7", "int8"};
struct NamedElement {
  std::string_view name;
  ir::DType dtype;
};
inline constexpr NamedElement kElements[] = {
    {"float8_e4m3fn", ir::DType::kFloat8E4M3FN},
    {"float8_e5m2", ir::DType::kFloat8E5M2},
    {"float4_e2m1fn_x2", ir::DType::kFloat4E2M1},
};
// `count` of kElements are possible here.
std::optional<ir::DType> ReadElement(JsonReader& r, const Value& v, size_t count);
// Granularities that a field takes, as the classes that write them.
enum GranularityClass : unsigned {
  kPerRow = 1,
  kPerAxis = 2,
  kPerTensor = 4,
  kPerGroup = 8,
  kPerToken = 16,
  kPerBlock = 32
};
std::optional<Granularity> ReadGranularity(JsonReader& r, const Value& v, unsigned taken);
void WriteGranularity(Writer& w, const Granularity& g, bool axis);
// A field of a class: how it is read into a configuration and written from one. Reading notes what is wrong.
struct ConfigField {
  std::string_view name;
  void (*read)(JsonReader& r, const Value& v, Config* c);
  void (*write)(Writer& w, const Config& c);
};
// Read and written by ReadVersionAndFields() and WriteClass().
inline constexpr ConfigField kBaseConfig{"base_config", nullptr, nullptr};
void ReadGroupSize(JsonReader& r, const Value& v, Config* c);
// The method of the classes that are schemes.
inline constexpr Config::Method kPlainMethod = Config::Method::kRoundToNearest;
// torchao's classes. A method's has a base_config, which has the scheme.
struct ConfigClass {
  std::string_view name;
  int version;
  Config::Method method;
  Config::Scheme scheme;  // of kRoundToNearest
  bool int4_cpu;
  absl::Span<const ConfigField> fields;
};
// Classes of torchao's, of this release or an older one, that are not taken, and what to write instead.
struct OtherClass {
  std::string_view name, instead;
};
const ConfigClass& ClassOf(Config::Method method, const Config& c);
const ConfigClass* FindClass(std::string_view name);
std::vector<std::string_view> NamesOf(absl::Span<const ConfigField> fields);
void WriteClass(Writer& w, const ConfigClass& cls, const Config& c);

// torchao's classes that are taken, and those that are not, with what to write instead.
absl::Span<const ConfigClass> Classes();
absl::Span<const OtherClass> OtherClasses();

}  // namespace slipway::quantizer

#endif  // SLIPWAY_QUANTIZER_CONFIG_JSON_INTERNAL_H_
