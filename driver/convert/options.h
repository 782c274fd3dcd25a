// What `convert` can be asked for: its options and the table of flags that set them. The command line's parser and
// --help, the C API's options, the check of which target takes which flag and the tables of docs/cli.md all follow from
// that table.
#ifndef SLIPWAY_DRIVER_CONVERT_OPTIONS_H_
#define SLIPWAY_DRIVER_CONVERT_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace slipway::driver {

inline constexpr int kOldestOpset = 18, kNewestOpset = 28;  // of --opset

struct ConvertOptions {
  std::vector<std::string> inputs;  // FILE or NAME=FILE
  std::string output;
  std::string to;  // the target's name; "": from the output's suffix
  // Programs
  std::vector<std::string> weights;  // files or folders whose tensors replace the program's by name
  std::string key;
  bool allow_missing = false;
  // Shapes
  std::string dynamic;             // "auto" or what docs/shapes.md describes; "": as the program says
  std::vector<std::string> unify;  // files of the same model at other sizes
  std::vector<std::pair<std::string, std::string>> dim_names;
  std::vector<std::string> require_dynamic;  // "x:0"
  std::string constant_inputs;               // a file of tensors, by the names of an ONNX model's inputs
  // Passes
  bool verify_each = false;
  // ONNX
  int opset = 20;
  std::string onnx_form = "exact";
  bool allow_int8_activations = false;
  bool exact_casts = false;
  bool no_algebra = false;
  std::string external_data = "auto";
  bool strict_types = false;
  std::string node_metadata = "modules";
  bool functions = false;
  std::string state = "drop";
  std::string cache_dtype;  // "": as the program has them
  std::string complex = "refuse";
  std::vector<std::string> custom_ops;                 // "mylib::foo=com.acme:Foo"
  std::vector<std::string> input_names, output_names;  // all or none
  // Native libraries
  std::vector<std::string> plugins;
  bool with_program = false;
  std::string target;  // base/machine.h's name; "": this machine
  // PT2
  std::string torch = "2.9";
  bool no_weights = false;
  // ONNX, native libraries and safetensors
  std::string dtype;  // "": as they are
  bool keep_io_types = false;
  bool strict = false;
  // safetensors
  std::vector<std::string> include, exclude, rename;
  uint64_t max_shard_size = 0;  // bytes; 0: 5GB
  std::string tied = "copy";
  int shards = 0;  // 0: by size
  int tp = 0;      // 0: not split
  std::string tp_rules;
  // Quantizing
  std::string quantize;  // a configuration's short name or file; "": not
  bool requantize = false;
  std::string embeddings;  // a configuration's short name; "": embeddings stay as they are
  std::vector<std::string> quantize_include, quantize_exclude;
  std::string numerics = "0.18";
  std::string calibration;
  std::string calibration_images;     // a folder
  std::string mean, std, image_size;  // of them: "R,G,B", "R,G,B", "224", "256:224" or "HxW"
  int limit = 0;                      // how many of them; 0: all
  std::string error_budget;           // "1%"
  uint64_t size_budget = 0;           // bytes; 0: none
  std::string save_config;
  bool require_all = false;
  std::string names;  // "file", "transformers"; "": as the model's config.json says
  bool no_extra_files = false;
  std::string html;
  std::string junit;
  int threads = 0;     // 0: as many as there are processors
  int64_t rank = 0;    // from 0
  int world_size = 0;  // 0: not said
  // All
  std::vector<std::pair<std::string, std::string>> metadata;
  bool check_crc = false;
  uint64_t max_output = 0;  // bytes; 0: as MostMadeOf() (io/inflated.h)
  bool dry_run = false;

  std::function<void(uint64_t done, uint64_t total)> progress;  // called as weights are written, in bytes; may be empty
  std::set<std::string_view> given;  // the names of the flags that were set, for CheckFlags()
};

// The targets that a flag is for, as bits.
inline constexpr unsigned kOnnx = 1, kPt2 = 2, kSo = 4, kNativePt2 = 8, kSafetensors = 16, kTorch = 32;
inline constexpr unsigned kNative = kSo | kNativePt2, kPrograms = kOnnx | kPt2 | kNative,
                          kAll = kPrograms | kSafetensors;
inline constexpr unsigned kTensors = kSafetensors | kTorch, kEvery = kAll | kTorch;

struct ConvertFlag {
  enum Kind : uint8_t {
    kSwitch,    // takes no value; as text "true" or "false"
    kOne,       // takes a value
    kRepeated,  // takes a value each time it is given
    kSeveral,   // takes one value or more each time
  };
  std::string_view name;  // "opset"
  unsigned targets;
  // what help calls the value; words with | between them are all that it may be. "" for switches
  std::string_view value;
  std::string_view help;  // with Markdown's `code` and **emphasis**
  Kind kind;
  bool (*set)(ConvertOptions& o, std::string_view value);  // false for a value that is malformed; `o` is then as it was
  std::string (*get)(const ConvertOptions& o);             // as text; "" where there is no default to show
};

// How the table below is written.
namespace convert_flags {

using Strings = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// A value of a field as text, and as it is shown; Parse() adds to what holds several. False for a value that is
// malformed.
bool Parse(std::string_view text, bool* out);
bool Parse(std::string_view text, int* out);         // from 1
bool Parse(std::string_view text, int64_t* out);     // from 0
bool Parse(std::string_view text, uint64_t* bytes);  // "5GB": powers of 1000, or of 1024 for "GiB"; not 0
bool Parse(std::string_view text, std::string* out);
bool Parse(std::string_view text, Strings* out);
bool Parse(std::string_view text, Pairs* out);
std::string Show(bool);
std::string Show(int number);
std::string Show(int64_t number);
std::string Show(uint64_t bytes);
std::string Show(const std::string& text);
std::string Show(const Strings&);
std::string Show(const Pairs&);

template <typename T>
inline constexpr ConvertFlag::Kind kKindOf = ConvertFlag::kOne;
template <>
inline constexpr ConvertFlag::Kind kKindOf<bool> = ConvertFlag::kSwitch;
template <>
inline constexpr ConvertFlag::Kind kKindOf<Strings> = ConvertFlag::kRepeated;
template <>
inline constexpr ConvertFlag::Kind kKindOf<Pairs> = ConvertFlag::kSeveral;

// A flag that sets one field.
template <auto field, typename T = std::remove_reference_t<decltype(std::declval<ConvertOptions&>().*field)>>
constexpr ConvertFlag Flag(std::string_view name, unsigned targets, std::string_view value, std::string_view help,
                           ConvertFlag::Kind kind = kKindOf<T>) {
  return {name,
          targets,
          value,
          help,
          kind,
          [](ConvertOptions& o, std::string_view text) {
            T parsed = o.*field;
            if (!Parse(text, &parsed)) return false;
            o.*field = std::move(parsed);
            return true;
          },
          [](const ConvertOptions& o) { return Show(o.*field); }};
}

using O = ConvertOptions;

// All flags that say how to convert; not those of where from and where to, or of how to report. A new one is a field
// above and a row here.
inline constexpr ConvertFlag kTable[] = {
    Flag<&O::to>("to", kEvery, "onnx|pt2|so|native-pt2|safetensors|torch",
                 "the format, where OUT's suffix does not say it"),
    Flag<&O::weights>(
        "weights", kEvery, "FILE",
        "safetensors files, checkpoints or folders of shards whose tensors replace the program's by name, or by what "
        "follows one beginning (`model.`) that all names have or lack, or by the names of transformers' model class "
        "(docs/quantize.md) that `config.json` beside them has; names they lack are an error, and so are other "
        "shapes and types, but floating-point types are cast to the program's, and tied weights share their values. "
        "`dlpack:LIBRARY.so` loads a shared library, **running its code**, and takes the tensors it gives",
        ConvertFlag::kSeveral),
    Flag<&O::dynamic>(
        "dynamic", kPrograms, "SPEC",
        "makes dimensions of inputs dynamic that the program was exported without: `auto`, all of them, or those of "
        "`'ids:[batch,seq=1..512],mask:[batch,seq]'`, where a number pins; docs/shapes.md"),
    Flag<&O::unify>("unify", kPrograms, "FILE",
                    "an export of the same model at other sizes: dimensions that differ become dynamic; may be "
                    "repeated. docs/shapes.md"),
    Flag<&O::dim_names>("dim-names", kPrograms, "OLD=NEW",
                        "new names of dynamic dimensions: `s77=batch`; may be repeated"),
    Flag<&O::require_dynamic>("require-dynamic", kPrograms, "INPUT:AXIS",
                              "exit code 4 with the reason where that dimension is static; may be repeated"),
    Flag<&O::constant_inputs>("constant-inputs", kPrograms, "FILE",
                              "tensors (.safetensors) that inputs of an ONNX model have for good, by name: sizes, axes "
                              "and switches that the model takes as inputs, so that what depends on them is decided"),
    Flag<&O::allow_missing>("allow-missing", kEvery, "",
                            "names that the files of `--weights` lack keep the archive's values"),
    Flag<&O::key>("key", kEvery, "PATH",
                  "the dict of a nested checkpoint that holds the tensors: `model.state_dict`; `.` is the outermost"),
    Flag<&O::opset>("opset", kOnnx, "N", "the opset to declare, exactly; 18 … 28"),
    Flag<&O::onnx_form>(
        "onnx-form", kOnnx, "exact|portable|ort",
        "how products with quantized weights are written: as the program computes them; in standard operators; in "
        "those that ONNX Runtime runs fast. **`portable` and `ort` let the runtime round activations to 8 bits, "
        "with errors of some per cent**; docs/quantize.md"),
    Flag<&O::allow_int8_activations>(
        "allow-int8-activations", kNative, "",
        "rounds the activations of linear layers with quantized weights to 8 bits while the library runs, each "
        "row by a scale of its own, and multiplies integers: **numbers change by some tenths of a per cent**"),
    Flag<&O::exact_casts>(
        "exact-casts", kNative, "",
        "rounds dequantized weights and their scales to bf16 or f16 one by one, as eager torch does; without it they "
        "are multiplied as they are, which is faster and nearer the exact result"),
    Flag<&O::no_algebra>("no-algebra", kOnnx | kNative, "",
                         "convolutions and batch norms of one image that are added up stay what they are, and so do "
                         "factors of channels behind "
                         "a layer (layer scale) and batch norms behind linear layers and (not native-pt2, whose "
                         "weights callers may set) convolutions; "
                         "without it they become one layer, whose weights have names of their own: "
                         "`conv.weight.merged`. Results differ by rounding. "
                         "Layers of whose results one index is read compute all; "
                         "without it that one. (ONNX) linear layers whose results are cut into parts "
                         "stay one; without it each part has its rows of the weight: `qkv.weight.0`. (Native) sums "
                         "over a few branches stay reductions"),
    Flag<&O::external_data>("external-data", kOnnx, "auto|always|never",
                            "weights in a file of their own; auto: above 2 GB"),
    Flag<&O::strict_types>("strict-types", kOnnx, "",
                           "never cast around operators for whose type ONNX Runtime's CPU has no kernel: for devices "
                           "that compute in halves"),
    Flag<&O::node_metadata>(
        "node-metadata", kOnnx, "none|modules|all",
        "what nodes say of their origin, under torch.onnx's keys: nothing; the modules that they are in, which Netron "
        "shows; also classes, scopes and the stack trace"),
    Flag<&O::state>(
        "state", kOnnx | kSo, "drop|io|auto|IN=OUT…",
        "what becomes of buffers and inputs that the program updates: dropped with a warning; ONNX, `io`: carried, "
        "`state_in.FQN` is an input (its default the value in the file), `state_out.FQN` an output; libraries, `auto`: "
        "kept "
        "by the library between runs, and so is each input that an output returns with something behind it (a "
        "decoder's past "
        "keys and values), which both leave the signature; or these pairs alone, `IN=OUT,IN=OUT`"),
    Flag<&O::cache_dtype>("cache-dtype", kOnnx | kSo, "int8|fp8",
                          "with `--state`: a decoder's keys and values are kept in 8 bits, each row (of a token in one "
                          "head) with a scale, in a quarter of the memory that f32 takes: **numbers change** by the "
                          "rounding; docs/native.md"),
    Flag<&O::complex>(
        "complex", kOnnx | kNative, "refuse|real",
        "what becomes of complex inputs and outputs, which these targets have not: `real` takes and gives them as "
        "torch.view_as_real does, real tensors with a last dim of two; ONNX's metadata `slipway.complex` names them"),
    Flag<&O::functions>(
        "functions", kOnnx, "",
        "repeated blocks, modules that compute the same on values of the same types, are kept as local functions"),
    Flag<&O::custom_ops>(
        "custom-op", kOnnx, "NAMESPACE::NAME=DOMAIN:OPTYPE",
        "writes an operator as a node of a custom domain: tensors and symbolic numbers are its inputs, constants "
        "its attributes by name; may be repeated"),
    Flag<&O::input_names>("input-names", kOnnx, "A,B", "names of the inputs, in order; all of them"),
    Flag<&O::output_names>("output-names", kOnnx, "A,B", "names of the outputs, in order; all of them"),
    Flag<&O::plugins>("plugin", kNative, "LIBRARY",
                      "a shared library with kernels for operators of your own (`slipway_kernel.h`), **whose code is "
                      "run**; it is put "
                      "into the output. May be repeated"),
    Flag<&O::target>("target", kNative, "aarch64-linux|x86_64-linux",
                     "the machine that the library is for, this one if not said; `run` and `verify` take one for "
                     "another machine where qemu-user is installed; docs/native.md"),
    Flag<&O::with_program>(
        "with-program", kNativePt2, "",
        "the exported program as well, so that `torch.export.load` opens the same file. Its weights are in the "
        "file twice"),
    Flag<&O::torch>(
        "torch", kPt2, "2.9|2.6",
        "the oldest torch that shall load it. 2.6: the flat layout with pickled weights, which 2.6 … 2.14 load"),
    Flag<&O::no_weights>(
        "no-weights", kPt2, "",
        "the programs only. torch wants the weights back before it loads them; slipway reads such archives"),
    Flag<&O::dtype>("dtype", kOnnx | kNative | kSafetensors, "bf16|f16|f32",
                    "safetensors: cast f64, f32, f16 and bf16 tensors on the way, rounded to nearest even; others "
                    "stay. Weights of a checkpoint that comes quantized (docs/dequantize.md) are dequantized; codes "
                    "that nothing describes stay, with their scales. ONNX and libraries, bf16 or f16: "
                    "weights, inputs, outputs and computations of f32 become this type, but for norms, softmax, sums "
                    "and what halves "
                    "cannot hold, which stay in f32; other types stay. Of ONNX for "
                    "other devices than the CPU add `--strict-types`"),
    Flag<&O::keep_io_types>("keep-io-types", kOnnx | kNative, "",
                            "with `--dtype`: inputs and outputs stay f32, cast behind and before them"),
    Flag<&O::strict>("strict", kSafetensors, "",
                     "with `--dtype`: exit code 1, and no output, where a value becomes infinite or zero that was not"),
    Flag<&O::include>("include", kTensors, "RE",
                      "only the tensors whose names the regular expression is found in; may be repeated"),
    Flag<&O::exclude>("exclude", kTensors, "RE",
                      "without the tensors whose names the expression is found in; may be repeated"),
    Flag<&O::rename>("rename", kEvery, "RE=>TEXT",
                     "on every name that is left, in order; `$1` is a group. Of programs, on the names of `--weights`. "
                     "May be repeated"),
    Flag<&O::tied>("tied", kSafetensors, "copy|drop",
                   "tensors that share all their values with another one, as tied weights do: written again, or only "
                   "the first by name"),
    Flag<&O::max_shard_size>(
        "max-shard-size", kSafetensors, "SIZE",
        "into a folder: the most bytes of a shard, `5GB` if not said (`KB MB GB TB`, `KiB MiB GiB TiB`)"),
    Flag<&O::shards>("shards", kSafetensors, "N", "into a folder: exactly N shards of about the same size"),
    Flag<&O::tp>(
        "tp", kSafetensors, "N",
        "into a folder, with `--tp-rules`: `rank-00000-of-0000N.safetensors` …, the parts of N tensor-parallel ranks"),
    Flag<&O::tp_rules>("tp-rules", kSafetensors, "FILE", "with `--tp`: how each tensor is split, by rules in JSON"),
    Flag<&O::quantize>("quantize", kAll, "CONFIG",
                       "quantizes weights: a short name (`int8-weight-only`, `8da4w`, `int4-weight-only:group=32`, …), "
                       "a file of torchao's JSON, `auto` with a budget, or a recipe for a whole program (`pt2e-x86`); "
                       "docs/quantize.md"),
    Flag<&O::embeddings>("embeddings", kAll, "CONFIG",
                         "with `--quantize`: embeddings and output heads tied to them are quantized, too: `int8`, "
                         "`int4:group=32`, … (`intx` of so many bits), `int8-weight-only` or `float8-weight-only`"),
    Flag<&O::requantize>("requantize", kSafetensors, "",
                         "with `--quantize`: a checkpoint that comes quantized (docs/dequantize.md) is dequantized "
                         "first, and the errors of both add up; without it such a checkpoint is refused"),
    Flag<&O::quantize_include>(
        "quantize-include", kAll, "RE",
        "with `--quantize`: also the weights whose names the expression is found in; may be repeated"),
    Flag<&O::quantize_exclude>("quantize-exclude", kAll, "RE",
                               "with `--quantize`: not the weights whose names …; may be repeated"),
    Flag<&O::numerics>("numerics", kAll, "0.18|0.14", "with `--quantize`: the torchao whose numbers are made"),
    Flag<&O::calibration>(
        "calibration", kPrograms, "FILE",
        "with `--quantize`: .safetensors of inputs, for the methods that look at activations; docs/quantize.md"),
    Flag<&O::calibration_images>(
        "calibration-images", kPrograms, "DIR",
        "in place of `--calibration`, for a program with one input, an image: a folder of PNG and JPEG, one sample "
        "each, by name, as (RGB / 255 - mean) / std; docs/quantize.md"),
    Flag<&O::mean>("mean", kPrograms, "R,G,B", "with `--calibration-images`: the mean of each channel"),
    Flag<&O::std>("std", kPrograms, "R,G,B", "with `--calibration-images`: the standard deviation of each channel"),
    Flag<&O::image_size>(
        "size", kPrograms, "SIZE",
        "with `--calibration-images`: `224`, the shorter side is resized and the center cut out; `256:224`, the center "
        "is smaller; or `HEIGHTxWIDTH`"),
    Flag<&O::limit>("limit", kPrograms, "N", "with `--calibration-images`: only the first N"),
    Flag<&O::error_budget>("error-budget", kAll, "SHARE",
                           "with `--quantize auto`: the smallest whose weights are off by at most this, `1%` or "
                           "`0.01`, all together; with "
                           "calibration data or a recipe: layers stay in float until the outputs are"),
    Flag<&O::size_budget>("size-budget", kAll, "SIZE",
                          "with `--quantize auto`: the most exact whose tensors take at most this"),
    Flag<&O::save_config>(
        "save-config", kAll, "FILE",
        "with `--quantize`: the configuration of each layer as JSON, which `--quantize FILE` reproduces the run with"),
    Flag<&O::require_all>(
        "require-all", kAll, "",
        "with `--quantize`: exit code 1, and no output, where a weight that was asked for stays in float"),
    Flag<&O::names>(
        "names", kSafetensors, "file|transformers",
        "with `--quantize`, into a folder: whose names of weights its metadata has, the file's alone or also those of "
        "transformers' model class, which `from_pretrained` looks for; what that class fuses while it loads stays in "
        "float then. If not said, transformers' where `config.json` names a model that it knows; docs/quantize.md"),
    Flag<&O::no_extra_files>(
        "no-extra-files", kSafetensors, "",
        "with `--quantize`, from folder to folder: without the tokenizer and the other small files of the source"),
    Flag<&O::html>("html", kAll, "FILE",
                   "with `--quantize`: a page, too: sizes, errors by layer, what a budget chose among; docs/pages.md"),
    Flag<&O::junit>("junit", kAll, "FILE", "with `--quantize`: JUnit XML, a test case a weight"),
    Flag<&O::threads>("threads", kAll, "N", "with `--quantize`: how many threads; as many as `run` takes if not said"),
    Flag<&O::rank>("rank", kSafetensors, "N",
                   "with `--quantize` and `--world-size`: of several processes that write one folder, which this is. "
                   "Taken from the "
                   "environment of Slurm, Open MPI and Kubernetes' indexed jobs where not said"),
    Flag<&O::world_size>("world-size", kSafetensors, "N",
                         "with `--rank`: how many processes there are; 1: the environment is not asked"),
    Flag<&O::metadata>("metadata", kAll, "KEY=VALUE",
                       "stored in the output, in a PT2 archive as an extra file of that name; may be repeated"),
    Flag<&O::check_crc>(
        "check-crc", kEvery, "",
        "compares all weights with the CRC-32 that the source states (archives and checkpoints) before anything is "
        "written; exit code 3 where one is wrong. Without it those are compared that are read or copied through "
        "memory"),
    Flag<&O::max_output>(
        "max-output", kEvery, "SIZE",
        "the most bytes to write (exit code 6); if not said, 1 GiB and four times what the input's weights take"),
    Flag<&O::dry_run>("dry-run", kEvery, "", "all but the writing"),
    Flag<&O::verify_each>("verify-each", kOnnx | kNative, "",
                          "checks the program's consistency after every pass; a failure is a bug (exit code 70)"),
};

}  // namespace convert_flags

inline constexpr auto& kConvertFlags = convert_flags::kTable;

// The names of the targets that take the flag, "onnx, pt2"; "" where all do.
std::string FlagTargets(const ConvertFlag& flag);

// Sets a flag or adds to one that holds several values. InvalidArgument for an unknown name and for a value that has no
// meaning.
absl::Status SetConvertFlag(ConvertOptions& o, std::string_view name, std::string_view value);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_OPTIONS_H_
