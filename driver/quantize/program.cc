// A program, quantized before its passes run: which of its parameters are weights of linear layers the graph says.
// Codes, scales and zero points go to a scratch file.
#include <algorithm>
#include <set>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/missing_weights.h"
#include "driver/edge/diagnostic.h"
#include "driver/quantize/calibrate.h"
#include "driver/quantize/quantize.h"
#include "driver/quantize/samples.h"
#include "driver/quantize/scratch_tensors.h"
#include "io/crc32.h"
#include "io/io_error.h"
#include "io/mapped_file.h"
#include "io/scratch_file.h"
#include "passes/quantization/quantize_linears.h"
#include "quantizer/calibrate.h"
#include "quantizer/quantize.h"

namespace slipway::driver {
namespace {

using ir::DType;
using passes::LinearLayer;
using passes::QuantizedLayer;
using quantizer::Config;
using quantizer::Mapping;
using S = Config::Scheme;

bool IsFourBitFloat(const Config& c) {
  return (c.scheme == S::kMx && c.element == DType::kFloat4E2M1) || c.scheme == S::kNvfp4WeightOnly;
}

// What programs have no operators for.
absl::Status CheckForPrograms(const Config& c) {
  switch (c.scheme) {
    case S::kMx:
    case S::kNvfp4Dynamic:
      return WithHelp(absl::UnimplementedError(text::StrCat(
                          quantizer::ShortName(c), " in programs: activations in blocks of float8 and float4")),
                      "float8-dynamic rounds them to float8 by row or tensor, float8-weight-only and nvfp4 quantize "
                      "weights alone; checkpoints take all configurations");
    default: return absl::OkStatus();
  }
}

// Twice the number that a code of e2m1 stands for, an integer.
int8_t TwiceFloat4(uint8_t code) {
  static constexpr int8_t kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12};
  return static_cast<int8_t>((code & 8) != 0 ? -kTwice[code & 7] : kTwice[code & 7]);
}

// CRC-32 of codes that are written from the first to the last.
class CodeChecksum {
 public:
  void Add(uint64_t at, absl::Span<const uint8_t> bytes) {
    in_order_ = in_order_ && at == end_;
    end_ = at + bytes.size();
    crc_ = io::Crc32(crc_, bytes);
  }
  // Nothing where they were written in another order.
  void Give(ir::Storage* to) const {
    if (in_order_ && end_ == to->size) to->crc32 = crc_;
  }

 private:
  bool in_order_ = true;
  uint64_t end_ = 0;
  uint32_t crc_ = 0;
};

// What scales are stored as. torchao's are f32 although they were rounded to the weight's dtype: those of groups are
// many, and where torch's operators do not ask for f32 (`aten`) they take the width that loses nothing.
DType ScaleType(const Config& c, const quantizer::Scheme& scheme, const std::vector<float>& scales, bool aten) {
  const quantizer::Shape& s = scheme.shape();
  if (aten || c.scheme != S::kInt8WeightOnly || s.group == s.k) return scheme.scale_dtype();
  const bool exact = std::all_of(scales.begin(), scales.end(),
                                 [&](float x) { return quantizer::RoundTo(quantizer::RoundingOf(s.dtype), x) == x; });
  return exact ? s.dtype : scheme.scale_dtype();
}

// What is known of a layer besides its codes.
absl::StatusOr<QuantizedLayer> FormOf(const Config& c, const quantizer::Scheme& scheme, bool aten,
                                      ScratchTensors& tensors) {
  const quantizer::Shape& s = scheme.shape();
  QuantizedLayer q;
  const std::vector<int64_t> blocks = s.whole ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{s.n, s.groups()};
  const auto add = [&](const std::vector<float>& numbers, DType dtype) {
    return tensors.Add(dtype, blocks, quantizer::Encode(numbers, dtype));
  };
  const std::vector<float>& zeros = scheme.zeros();
  if (IsFourBitFloat(c)) {
    std::vector<float> halves = scheme.scales();
    for (float& scale : halves) scale /= 2;  // TwiceFloat4()
    ASSIGN_OR_RETURN(q.scale, add(halves, ScaleType(c, scheme, halves, aten)));
  } else {
    ASSIGN_OR_RETURN(q.scale, add(scheme.scales(), ScaleType(c, scheme, scheme.scales(), aten)));
  }
  q.float_zero_point = scheme.float_zero();
  if (q.float_zero_point) {
    ASSIGN_OR_RETURN(q.zero_point, add(zeros, scheme.scale_dtype()));
  } else if (std::any_of(zeros.begin(), zeros.end(), [](float z) { return z != 0; })) {
    ASSIGN_OR_RETURN(q.zero_point, add(zeros, DType::kInt8));
  }
  q.block_size = {s.whole ? -1 : 1, s.group == s.k ? -1 : s.group};
  switch (c.scheme) {
    case S::kInt8WeightOnly:
      q.range = {-128, 127};
      q.scale_behind = s.group == s.k;
      break;
    case S::kInt8Dynamic:
    case S::kInt8Static:
      q.range = {-128, 127};
      q.activations = QuantizedLayer::Activations::kInteger;
      q.asymmetric = c.act_mapping == Mapping::kAsymmetric;
      if (c.reduce_range) q.act_range = {-64, 63};
      q.per_tensor = c.act_granularity.kind == quantizer::Granularity::kTensor;
      break;
    case S::kInt8DynamicIntx:
      q.activations = QuantizedLayer::Activations::kFakeQuantized;
      q.asymmetric = true;
      [[fallthrough]];
    case S::kIntxWeightOnly: q.range = {-(1 << (c.bits - 1)), (1 << (c.bits - 1)) - 1}; break;
    case S::kInt4WeightOnly: q.range = {0, 15}; break;
    case S::kFloat8Dynamic:
      q.activations = QuantizedLayer::Activations::kFloat8;
      q.per_tensor = c.act_granularity.kind == quantizer::Granularity::kTensor;
      q.act_low = c.activation_value_lb, q.act_high = c.activation_value_ub;
      break;
    default:
      if (IsFourBitFloat(c)) q.range = {-12, 12};
      break;
  }
  return q;
}

}  // namespace

absl::StatusOr<std::shared_ptr<QuantizeReport>> QuantizeProgram(ir::Program& p, const ConvertOptions& o, bool aten,
                                                                const std::string& folder) {
  // One without values would stay as it is without a word.
  const std::vector<std::string> missing = WeightsWithoutValues(p);
  bool matrices = p.weights.empty() && !missing.empty();
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    matrices |= p.input_specs[i].is_weight() && p.graph->inputs()[i]->type().sizes.size() >= 2 &&
                std::binary_search(missing.begin(), missing.end(), p.input_specs[i].target);
  if (matrices) return MissingWeights(p, missing, kGiveWeights);
  std::vector<LinearLayer> layers = passes::FindLinears(p);
  std::map<std::string, size_t> indices;
  std::map<std::pair<const ir::Storage*, int64_t>, std::string> twins;  // of other names for them
  for (size_t i = 0; i < layers.size(); ++i) {
    indices[layers[i].weight] = i;
    const ir::TensorRef& t = p.weights.at(layers[i].weight);
    twins[{t.storage.get(), t.offset}] = layers[i].weight;
  }
  const auto has = [&](const std::string& name) { return p.weights.contains(name); };
  const auto consider = [&](Chooser& c) {
    for (const auto& [name, t] : p.weights) {
      if (t.sizes.size() < 2) {
        c.Pass(static_cast<uint64_t>(t.nbytes()));
        continue;
      }
      const auto it = indices.find(name);
      quantizer::Candidate candidate{name, t.dtype, t.sizes, false};
      if (it == indices.end()) {
        const auto twin = twins.find({t.storage.get(), t.offset});
        c.Leave(candidate,
                twin == twins.end() ? "no weight of a linear layer" : text::StrCat("tied to '", twin->second, "'"));
        continue;
      }
      const LinearLayer& layer = layers[it->second];
      candidate.embedding = !layer.lookups.empty() && ir::IsFloating(t.dtype);
      c.Consider(it->second, candidate,
                 layer.uses.empty()                        ? "an embedding"
                 : quantizer::IsAttentionOutput(name, has) ? "of nn.MultiheadAttention"
                 : quantizer::IsRouter(candidate)          ? "a router"
                                                           : "");
    }
  };
  std::vector<ChosenWeight> chosen;
  const auto weight = [&](size_t i) {
    return BudgetWeight{layers[i].weight, ir::ShardedTensor(p.weights.at(layers[i].weight))};
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<Chooser> chooser, Choose(o, true, consider, weight, &chosen));
  auto report = std::make_shared<QuantizeReport>(std::move(chooser->report()));
  for (const ChosenWeight& w : chosen) RETURN_IF_ERROR(CheckForPrograms(*w.config));

  // Codes lie one after the other in the scratch file.
  std::vector<uint64_t> places;
  uint64_t end = 0;
  for (const ChosenWeight& w : chosen) {
    places.push_back(end);
    end += static_cast<uint64_t>(w.scheme->shape().n * w.scheme->shape().k);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<io::ScratchFile> scratch, io::ScratchFile::Make(folder));
  ScratchTensors tensors(*scratch, end);
  std::vector<QuantizedLayer> forms(chosen.size());
  std::vector<size_t> plain;
  std::map<std::string, size_t> calibrated;
  std::map<std::string, const Config*> asked;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::string& name = layers[chosen[i].index].weight;
    if (!quantizer::LayerStatistics::Needed(*chosen[i].config)) {
      plain.push_back(i);
    } else {
      calibrated[name] = i;
      asked[name] = chosen[i].config;
    }
  }
  RETURN_IF_ERROR(Samples::CheckOptions(o));
  if (asked.empty() == Samples::Given(o))
    return asked.empty()
               ? UsageError("calibration is for methods that look at activations",
                            "awq(…), gptq(…), smoothquant(…), int8-static")
               : UsageError(
                     text::StrCat(quantizer::ShortName(*asked.begin()->second), " looks at activations"),
                     "--calibration FILE.safetensors, or --calibration-images, gives inputs to run the program on");

  // Puts codes in their place and keeps the rest.
  std::vector<CodeChecksum> checksums(chosen.size());
  const auto sink_of = [&](size_t i) {
    return [&, i, known = false, changed = std::vector<uint8_t>()](
               size_t part, uint64_t at, absl::Span<const uint8_t> bytes) mutable -> absl::Status {
      const ChosenWeight& w = chosen[i];
      if (part > 0) {
        if (!known) {
          ASSIGN_OR_RETURN(forms[i], FormOf(*w.config, *w.scheme, aten, tensors));
        }
        known = true;
        return absl::OkStatus();
      }
      if (IsFourBitFloat(*w.config)) {
        changed.assign(bytes.begin(), bytes.end());
        for (uint8_t& b : changed) b = static_cast<uint8_t>(TwiceFloat4(b));
        bytes = changed;
      }
      checksums[i].Add(at, bytes);
      return scratch->WriteAt(places[i] + at, bytes);
    };
  };
  const auto note = [&](size_t i, const quantizer::Error& error) {
    report->rows[chosen[i].row].relative_error = error.relative;
    report->rows[chosen[i].row].max_error = error.max;
    report->rows[chosen[i].row].squares = error.reference;
    report->rows[chosen[i].row].measured = true;
  };
  RETURN_IF_ERROR(quantizer::InParallel(Threads(o), plain.size(), [&](size_t at) -> absl::Status {
    const size_t i = plain[at];
    const std::string& name = layers[chosen[i].index].weight;
    auto error = quantizer::QuantizeWeight(ir::ShardedTensor(p.weights.at(name)), *chosen[i].scheme, true, sink_of(i));
    if (!error.ok()) return io::Prefixed(text::StrCat("'", name, "': "), error.status());
    note(i, *error);
    return absl::OkStatus();
  }));
  std::vector<std::string> unread;
  if (!asked.empty()) {
    CalibrationOptions options;
    options.threads = Threads(o);
    ASSIGN_OR_RETURN(
        unread, Calibrate(p, asked, o, options,
                          [&](const std::string& name, const quantizer::LayerStatistics& statistics) -> absl::Status {
                            const size_t i = calibrated.at(name);
                            auto done =
                                quantizer::QuantizeCalibrated(ir::ShardedTensor(p.weights.at(name)), *chosen[i].scheme,
                                                              statistics, Threads(o), true, sink_of(i));
                            if (!done.ok()) return io::Prefixed(text::StrCat("'", name, "': "), done.status());
                            note(i, done->error);
                            const int64_t k = chosen[i].scheme->shape().k;
                            const DType dtype = chosen[i].scheme->shape().dtype;
                            if (!done->act_pre_scale.empty())
                              forms[i].act_pre_scale =
                                  ir::OwnedTensor(dtype, {k}, quantizer::Encode(done->act_pre_scale, dtype));
                            if (done->act_scale) {
                              const float zero = static_cast<float>(done->act_zero_point);
                              forms[i].act_scale = ir::OwnedTensor(
                                  DType::kFloat32, {1, 1}, quantizer::Encode({&*done->act_scale, 1}, DType::kFloat32));
                              if (zero != 0)
                                forms[i].act_zero_point =
                                    ir::OwnedTensor(DType::kInt8, {1, 1}, quantizer::Encode({&zero, 1}, DType::kInt8));
                            }
                            return absl::OkStatus();
                          }));
  }
  if (unread.size() == chosen.size())
    return absl::InvalidArgumentError("no weight is quantized: the program computes none of the linear layers");
  for (const std::string& name : unread) {
    QuantizedRow& row = report->rows[chosen[calibrated.at(name)].row];
    row.config.clear(), row.why = "not computed by the program: no inputs to calibrate with";
    row.bytes_after = row.bytes_before;
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<io::MappedFile> file, scratch->Map());
  tensors.Map(file);
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (std::find(unread.begin(), unread.end(), layers[chosen[i].index].weight) != unread.end()) continue;
    const quantizer::Scheme& scheme = *chosen[i].scheme;
    const quantizer::Shape& s = scheme.shape();
    const DType dtype = scheme.parts()[0].dtype == DType::kUInt8 ? DType::kInt8 : scheme.parts()[0].dtype;
    auto storage = std::make_shared<ir::Storage>();
    storage->size = static_cast<uint64_t>(s.n * s.k);
    storage->bytes = io::Bytes(io::FileRange{file, places[i], storage->size});
    checksums[i].Give(storage.get());
    if (dtype == DType::kInt8) storage->bounds = forms[i].range;
    forms[i].codes = {std::move(storage), dtype, {s.n, s.k}, ir::ContiguousStrides({s.n, s.k}), 0};
    LinearLayer& layer = layers[chosen[i].index];
    // An embedding that the head is tied to and that was not asked for stays in float.
    if (!chosen[i].lookups && !layer.uses.empty()) layer.lookups.clear();
    RETURN_IF_ERROR(passes::QuantizeLinear(p, layer, forms[i]));
  }
  if (aten) RETURN_IF_ERROR(passes::SpellQuantizationInAten(p));
  return report;
}

}  // namespace slipway::driver
