// What becomes of a weight: torchao's configurations as values, read from the JSON that torchao and transformers write
// or from short names, and the map from modules to them.
//
// Sources: torchao 0.18 (torchao.core.config.config_to_dict, quantization/quant_api.py, prototype/mx_formats,
// prototype/awq, prototype/smoothquant, prototype/gptq); transformers 4.57 (TorchAoConfig in config.json).
// docs/quantize.md lists what is taken.
//
// Tables hold the facts: the JSON classes and their fields in config/json_classes.cc, short names and their keys in
// short_names.cc.
#ifndef SLIPWAY_QUANTIZER_CONFIG_H_
#define SLIPWAY_QUANTIZER_CONFIG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "quantizer/loops/loops.h"

namespace slipway::quantizer {

// How many weights share a scale: a row (all input features of one output), the tensor, or `group` neighbours of a row.
struct Granularity {
  enum Kind : uint8_t { kRow, kTensor, kGroup } kind = kRow;
  int64_t group = 0;  // for kGroup; > 0
  bool operator==(const Granularity&) const = default;
};

// How the power of two of an MX block is chosen: torchao's ScaleCalculationMode.
enum class MxScaling : uint8_t { kFloor, kRceil, kCeil, kEven };

// A Config says one thing in one way, so that equal configurations compare equal: fields that its scheme or method has
// no use for are those of DefaultConfig(scheme).
struct Config {
  // The kinds of quantized weights; names are those of torchao's config classes.
  enum class Scheme : uint8_t {
    kInt8WeightOnly,    // Int8WeightOnlyConfig
    kInt8Dynamic,       // Int8DynamicActivationInt8WeightConfig
    kInt8Static,        // Int8StaticActivationInt8WeightConfig; scales of activations come from calibration
    kIntxWeightOnly,    // IntxWeightOnlyConfig
    kInt8DynamicIntx,   // Int8DynamicActivationIntxWeightConfig ("8da4w")
    kInt4WeightOnly,    // Int4WeightOnlyConfig (asymmetric, float zero points)
    kFloat8WeightOnly,  // Float8WeightOnlyConfig
    kFloat8Dynamic,     // Float8DynamicActivationFloat8WeightConfig
    kMx,                // MXDynamicActivationMXWeightConfig
    kNvfp4WeightOnly,   // NVFP4WeightOnlyConfig
    kNvfp4Dynamic,      // NVFP4DynamicActivationNVFP4WeightConfig
  };
  // What is done with calibration data before: AWQConfig, SmoothQuantConfig, GPTQConfig around the scheme.
  enum class Method : uint8_t { kRoundToNearest, kAwq, kSmoothQuant, kGptq };

  Scheme scheme = Scheme::kInt8WeightOnly;
  Granularity granularity;                    // of the weight
  int bits = 8;                               // of integers: 1 ... 8
  Mapping mapping = Mapping::kSymmetric;      // of the weight
  Mapping act_mapping = Mapping::kSymmetric;  // of integer activations
  Granularity act_granularity;                // of activations: kRow is a token
  bool reduce_range = false;                  // int8 as -64 ... 63
  std::optional<ir::DType> scale_dtype;       // of Intx schemes; nullopt: the weight's
  bool hqq = false;                           // Intx: HQQ_SCALE_ONLY; int4: HQQ
  // int4: PrototypeInt4WeightOnlyConfig, torchao's form for CPUs, whose every step rounds to the weight's dtype
  bool int4_cpu = false;
  ir::DType element = ir::DType::kFloat8E4M3FN;  // float8 and MX: kFloat8E4M3FN, kFloat8E5M2; MX and NVFP4: kFloat4E2M1
  std::optional<double> activation_value_lb, activation_value_ub;  // float8 dynamic: bounds of activations' maxima
  MxScaling mx_scaling = MxScaling::kRceil;
  int64_t mx_block = 32;
  bool per_tensor_scale = true;  // NVFP4: use_dynamic_per_tensor_scale

  Method method = Method::kRoundToNearest;
  int awq_search_space = 20;  // scale_search_space_size
  double smooth_alpha = 0.5;  // null in torchao's JSON, which turns SmoothQuant off, is not taken
  double gptq_percdamp = 0.01;
  int gptq_block = 256;

  bool operator==(const Config&) const = default;
};

// The scheme at the defaults of its class in torchao. (Short names may begin elsewhere: 8da4w has 4 bits, the class 8.)
const Config& DefaultConfig(Config::Scheme scheme);
// Of torchao's class: "Int8WeightOnlyConfig".
std::string_view ClassName(const Config& c);
// OK, or InvalidArgument with all that torchao would refuse, at construction or when it is applied whatever the weight:
// bits that there are not, granularities that a scheme has not, AWQ around a scheme whose activations cannot be scaled
// before. All that the functions below give has passed.
absl::Status CheckConfig(const Config& c);

// Fields that torchao has and that change no number (set_inductor_config, kernel_preference, mm_config, step) are
// checked when read, and written back at their defaults.
//
// The configuration as torchao's config_to_dict() gives it, a JSON object.
std::string ToJson(const Config& c);
// Whether it quantizes weights and nothing else, without calibration, in a form that torchao looks embeddings up in.
bool TakesEmbeddings(const Config& c);
// As short as people write it: "int4-weight-only:group=32". ParseShortName() reads it back.
std::string ShortName(const Config& c);

// Which weights get which configuration. Order of precedence for the parameter `FQN.weight` of module `FQN`, as
// torchao's
// FqnToConfig: the parameter's name, the module's name, the first `re:` expression (full match, in the order of the
// map) that matches the parameter's, then the module's; then `_default`. A null configuration leaves a module alone.
struct ConfigMap {
  struct Entry {
    std::string key;               // "a.b", "a.b.weight", "re:...", "_default"
    std::optional<Config> config;  // nullopt: leave alone
  };
  std::vector<Entry> entries;  // in the order of the document

  // What transformers' quantization_config says beside it; all at these values for torchao's own JSON and short names.
  //
  // modules_to_not_convert: a parameter is left alone where its name holds one of these followed by a dot, or is one:
  // "head" leaves "head.weight", "head.0.weight" and, as in transformers, "lm_head.weight" alone. Goes before
  // `entries`.
  std::vector<std::string> skip;
  bool keep_head = false;   // no modules_to_not_convert at all: the output head is left alone
  bool embeddings = false;  // include_input_output_embeddings: embeddings are quantized too, and the head is
  // untie_embedding_weights: an embedding that is quantized no longer shares the head's weight
  bool untie = false;

  // The one configuration for everything.
  static ConfigMap Of(const Config& c) { return {{{"_default", c}}, {}}; }
};

// Reads NAME[:key=value,...] (`int8-weight-only`, `int8-dynamic`, `int4-weight-only:group=32`, `8da4w`,
// `float8-weight-only`, `float8-dynamic`, `mxfp8`, `mxfp4`, `nvfp4`, `intx:bits=3,group=64`) or a method around one,
// METHOD(NAME[:...])[:key=value,...] (`awq(int8-weight-only)`, `gptq(int4-weight-only:group=128):percdamp=0.05`).
// Underscores do for hyphens. InvalidArgument names all unknown names, keys and values, each with the nearest that
// exists.
absl::StatusOr<Config> ParseShortName(std::string_view text);

// Reads what embeddings are quantized with: such a short name, or intN[:key=value,...], which is intx with N bits.
absl::StatusOr<Config> ParseEmbeddingName(std::string_view text);

// One row a short name: the name, the keys that it takes as people write them, each with the default that it has, and
// the class it stands for. For help texts and docs/quantize.md.
struct ShortNameRow {
  std::string_view name;
  std::string keys;  // "per=row|tensor (row), group=N"
  std::string_view class_name;
};
std::vector<ShortNameRow> ShortNames();

// Reads JSON: a torchao configuration, FqnToConfig, or a config.json / quantization_config of transformers.
// InvalidArgument names each unknown class, field and value with the nearest that exists, all at once, and with what to
// write instead where torchao has dropped a form; Unimplemented what is known and not taken (a packing format of
// another device).
absl::StatusOr<ConfigMap> ParseConfigJson(std::string_view json);

// The map as JSON that ParseConfigJson() reads back: for torchao's config_from_dict() a plain configuration where it is
// only `_default` and FqnToConfig otherwise; ToQuantizationConfigJson() where the map says what only transformers can.
std::string ToJson(const ConfigMap& map);
// The map as the `quantization_config` of transformers' config.json.
std::string ToQuantizationConfigJson(const ConfigMap& map);

// How the map applies to a module.
struct Match {
  const Config* config = nullptr;           // null: left alone
  const ConfigMap::Entry* entry = nullptr;  // that decided; null where none matched or `skip` did
  bool skipped = false;                     // by `skip`
};

// A ConfigMap made ready to ask: expressions are compiled. torchao's are those of Python's `re`; RE2 takes the same but
// for look-around, backreferences and atomic groups.
//
// One difference from torchao's quantize_(), which goes on after the first expression that matches a parameter: a null
// is overruled there by a later one that matches too. Here the first one counts, as torchao's documentation says.
class Matcher {
 public:
  // InvalidArgument, quoting all of them, for keys that are no expressions; Unimplemented for expressions of Python's
  // that RE2 lacks.
  static absl::StatusOr<Matcher> Make(const ConfigMap& map);  // `map` must outlive the matcher
  ~Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  // For the parameter `module.parameter`; the outermost module is "". Asked about Linears: `_default` knows no types.
  Match Find(const std::string& module, std::string_view parameter = "weight");
  // The keys that have matched nothing in any Find() yet, not even behind one that goes before them: configurations for
  // modules that do not exist. Not `_default`.
  std::vector<std::string> Unmatched() const;

 private:
  struct State;
  Matcher();
  std::unique_ptr<State> state_;
};

}  // namespace slipway::quantizer

#endif  // SLIPWAY_QUANTIZER_CONFIG_H_
