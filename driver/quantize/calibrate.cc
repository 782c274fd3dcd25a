// Which values to observe, and batches of them. What is hard here is memory: GPTQ's statistics of one layer may take a
// gigabyte, so they are collected, used and dropped batch by batch, and each batch's run computes nothing that comes
// after its layers.
#include "driver/quantize/calibrate.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/missing_weights.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/diagnostic.h"
#include "importers/safetensors/safetensors.h"
#include "io/mapped_file.h"
#include "ir/clone.h"
#include "kernels/parallel.h"
#include "passes/quantization/quantize_linears.h"
#include "planner/evaluator.h"

namespace slipway::driver {
namespace {

using ir::DType;
using quantizer::Config;
using quantizer::LayerStatistics;

// The types of the inputs that a run takes.
std::vector<const ir::Type*> InputTypes(const ir::Program& p) {
  std::vector<const ir::Type*> types;
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    if (p.input_specs[i].kind == ir::InputSpec::kUser && p.graph->inputs()[i]->type().kind != ir::Type::kConstant)
      types.push_back(&p.graph->inputs()[i]->type());
  return types;
}

// Digits without a sign or leading zeros, as an index below a million.
std::optional<size_t> ReadIndex(std::string_view text) {
  if (text.empty() || text.size() > 6 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  size_t n = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    n = n * 10 + static_cast<size_t>(c - '0');
  }
  return n;
}

// The samples of a file of calibration data.
class Samples {
 public:
  static absl::StatusOr<Samples> Open(const ir::Program& p, const std::string& path) {
    const std::vector<const ir::Type*> types = InputTypes(p);
    ASSIGN_OR_RETURN(const std::shared_ptr<io::MappedFile> file, io::MappedFile::Open(path));
    auto set = importers::ReadSafetensors(file);
    if (!set.ok()) return WithPlace(set.status(), path);
    auto samples = Read(set->tensors, types);
    if (samples.ok()) return samples;
    std::vector<std::string> wants;
    for (size_t i = 0; i < types.size(); ++i) wants.push_back(text::StrCat("input.", i, " of ", types[i]->ToString()));
    return WithHelp(
        WithPlace(samples.status(), path),
        text::StrCat("the program takes ", wants.empty() ? "no inputs" : text::Join(wants, ", "),
                     "; calibration data has them with one dimension more in front, which counts samples, or as "
                     "sample0.input.0, sample1.input.0, ..."));
  }

  size_t size() const { return samples_.size(); }
  const std::vector<ir::TensorRef>& operator[](size_t i) const { return samples_[i]; }

 private:
  static absl::StatusOr<Samples> Read(const std::map<std::string, ir::TensorRef>& tensors,
                                      const std::vector<const ir::Type*>& types) {
    Samples out;
    std::map<size_t, std::vector<std::optional<ir::TensorRef>>> separate;
    std::vector<const ir::TensorRef*> stacked(types.size());
    std::vector<std::string> unknown;
    for (const auto& [name, t] : tensors) {
      const size_t dot = name.starts_with("sample") ? name.find('.') : std::string::npos;
      const std::string_view rest =
          dot == std::string::npos ? std::string_view(name) : std::string_view(name).substr(dot + 1);
      const auto sample =
          dot == std::string::npos ? std::nullopt : ReadIndex(std::string_view(name).substr(6, dot - 6));
      const auto input = rest.starts_with("input.") ? ReadIndex(rest.substr(6)) : std::nullopt;
      if (!input || *input >= types.size() || (dot != std::string::npos && !sample)) {
        unknown.push_back(text::StrCat("'", name, "'"));
      } else if (sample) {
        auto& of = separate[*sample];
        of.resize(types.size());
        of[*input] = t;
      } else {
        stacked[*input] = &t;
      }
    }
    if (!unknown.empty()) {
      if (unknown.size() > 5) unknown.resize(5), unknown.push_back("...");
      return absl::InvalidArgumentError(
          text::StrCat("calibration data with tensors that are no inputs of the program: ", text::Join(unknown, ", ")));
    }
    const bool any_stacked =
        std::any_of(stacked.begin(), stacked.end(), [](const ir::TensorRef* t) { return t != nullptr; });
    if (any_stacked && !separate.empty())
      return absl::InvalidArgumentError("calibration data of both forms, input.N and sampleM.input.N");
    if (!any_stacked && separate.empty()) return absl::InvalidArgumentError("calibration data without a sample");
    RETURN_IF_ERROR(any_stacked ? out.Unstack(stacked, types) : out.Collect(separate, types));
    for (size_t i = 0; i < out.size(); ++i)
      for (size_t j = 0; j < types.size(); ++j) RETURN_IF_ERROR(Check(out[i][j], *types[j], i, j));
    return out;
  }

  absl::Status Unstack(const std::vector<const ir::TensorRef*>& stacked, const std::vector<const ir::Type*>& types) {
    std::optional<int64_t> count;
    bool single = true;
    for (size_t j = 0; j < types.size(); ++j) {
      if (!stacked[j]) return absl::InvalidArgumentError(text::StrCat("calibration data without input.", j));
      single = single && static_cast<int>(stacked[j]->sizes.size()) == types[j]->rank();
    }
    if (single) {
      samples_.emplace_back();
      for (const ir::TensorRef* t : stacked) samples_.back().push_back(*t);
      return absl::OkStatus();
    }
    for (size_t j = 0; j < types.size(); ++j) {
      const ir::TensorRef& t = *stacked[j];
      if (static_cast<int>(t.sizes.size()) != types[j]->rank() + 1)
        return absl::InvalidArgumentError(text::StrCat("input.", j, " of calibration data has ", t.sizes.size(),
                                                       " dimensions, not ", types[j]->rank() + 1));
      if (count.value_or(t.sizes[0]) != t.sizes[0])
        return absl::InvalidArgumentError(
            text::StrCat("input.", j, " of calibration data has ", t.sizes[0], " samples where another has ", *count));
      if (ir::BitSize(t.dtype) % 8 != 0)
        return absl::InvalidArgumentError(
            text::StrCat("input.", j, " of calibration data has elements of less than a byte"));
      count = t.sizes[0];
    }
    if (*count == 0) return absl::InvalidArgumentError("calibration data without a sample");
    samples_.resize(static_cast<size_t>(*count));
    for (size_t i = 0; i < samples_.size(); ++i)
      for (const ir::TensorRef* t : stacked) {
        ir::TensorRef one = *t;
        one.offset += static_cast<int64_t>(i) * one.strides[0] * ir::ByteSize(one.dtype);
        one.sizes.erase(one.sizes.begin());
        one.strides.erase(one.strides.begin());
        samples_[i].push_back(std::move(one));
      }
    return absl::OkStatus();
  }

  absl::Status Collect(const std::map<size_t, std::vector<std::optional<ir::TensorRef>>>& separate,
                       const std::vector<const ir::Type*>& types) {
    for (const auto& [i, inputs] : separate) {
      samples_.emplace_back();
      for (size_t j = 0; j < types.size(); ++j) {
        if (!inputs[j])
          return absl::InvalidArgumentError(text::StrCat("calibration data has no sample", i, ".input.", j));
        samples_.back().push_back(*inputs[j]);
      }
    }
    return absl::OkStatus();
  }

  static absl::Status Check(const ir::TensorRef& t, const ir::Type& type, size_t sample, size_t input) {
    bool fits = static_cast<int>(t.sizes.size()) == type.rank() && (!type.is_tensor() || t.dtype == type.dtype);
    for (size_t d = 0; fits && d < t.sizes.size(); ++d)
      fits = !type.sizes[d].constant() || *type.sizes[d].constant() == t.sizes[d];
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(text::StrCat("sample ", sample, " of calibration data has ", ir::Name(t.dtype),
                                                   "[", text::Join(t.sizes, ","), "] as input.", input,
                                                   ", where the program takes ", type.ToString()));
  }

  std::vector<std::vector<ir::TensorRef>> samples_;
};

// Values that are inputs of layers, and the layers that have the same statistics of them.
struct Observed {
  std::vector<std::string> values;
  const Config* config;
  int64_t k;
  std::vector<std::string> weights;
};

// Whether the program, whose dead code is eliminated, reads the weight.
bool IsRead(const ir::Program& p, const std::string& weight) {
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    if (p.input_specs[i].target == weight && !p.graph->inputs()[i]->users().empty()) return true;
  return false;
}

// The layers in the order of the graph; `unread` gets the weights of those that are not computed.
absl::StatusOr<std::vector<Observed>> FindLayers(const ir::Program& p,
                                                 const std::map<std::string, const Config*>& layers,
                                                 std::vector<std::string>* unread) {
  std::map<std::string, std::vector<const ir::Value*>> inputs;
  std::vector<std::string> order;
  for (const passes::LinearLayer& layer : passes::FindLinears(p)) {
    if (!layers.contains(layer.weight) || layer.uses.empty()) continue;
    auto& values = inputs[layer.weight];
    order.push_back(layer.weight);
    for (ir::Node* n : layer.uses) {
      ir::Value* x = passes::ReadLinear(n).input;
      if (std::find(values.begin(), values.end(), x) == values.end()) values.push_back(x);
    }
  }
  std::vector<std::string> missing;
  for (const auto& [weight, config] : layers) {
    if (inputs.contains(weight)) continue;
    if (IsRead(p, weight))
      missing.push_back(text::StrCat("'", weight, "'"));
    else
      unread->push_back(weight);
  }
  if (!missing.empty())
    return absl::UnimplementedError(text::StrCat("calibration of ", text::Join(missing, ", "),
                                                 ": no linear layer of the program's main graph has this weight"));

  std::vector<Observed> out;
  std::map<std::pair<std::vector<const ir::Value*>, std::string>, size_t> known;
  for (const std::string& weight : order) {
    const std::vector<const ir::Value*>& values = inputs[weight];
    const Config* config = layers.at(weight);
    const auto k = values[0]->rank() > 0 ? values[0]->sizes().back().constant() : std::nullopt;
    if (!k)
      return absl::UnimplementedError(
          text::StrCat("calibration of '", weight, "', whose number of input features is not known"));
    const auto [at, is_new] = known.try_emplace({values, quantizer::ToJson(*config)}, out.size());
    if (is_new) {
      out.push_back({{}, config, *k, {}});
      for (const ir::Value* v : values) out.back().values.push_back(v->name());
    }
    out[at->second].weights.push_back(weight);
  }
  return out;
}

// FNV-1a.
uint64_t Hash(const std::string& text) {
  uint64_t h = 0xcbf29ce484222325;
  for (char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return h;
}

// A dense tensor of [..., k].
absl::Status AddInputs(const ir::TensorRef& t, LayerStatistics& s, const kernels::Workers* workers) {
  const int64_t k = s.k(), n = t.numel();
  if (t.sizes.empty() || t.sizes.back() != k)
    return absl::InternalError("observed another tensor than a layer's input");
  const uint8_t* data = ir::MappedBytes(*t.storage).data() + t.offset;
  if (t.dtype == DType::kFloat32) return s.Add(reinterpret_cast<const float*>(data), n / k, workers);
  if (!ir::IsLowPrecision(t.dtype))
    return absl::UnimplementedError(text::StrCat("calibration with activations of ", ir::Name(t.dtype)));
  const quantizer::Loops& loops = quantizer::BestLoops();
  const auto widen = t.dtype == DType::kBFloat16 ? loops.widen_bf16 : loops.widen_f16;
  const int64_t step = std::max<int64_t>(1, quantizer::RowReader::kChunk / k) * k;
  std::vector<float> floats;
  for (int64_t at = 0; at < n; at += step) {
    const int64_t count = std::min(step, n - at);
    floats.resize(static_cast<size_t>(count));
    widen(reinterpret_cast<const uint16_t*>(data) + at, floats.data(), count);
    RETURN_IF_ERROR(s.Add(floats.data(), count / k, workers));
  }
  return absl::OkStatus();
}

// Runs the program up to the observed values on all samples.
absl::Status CollectStatistics(const ir::Program& p, const Samples& samples, absl::Span<const Observed> layers,
                               absl::Span<const std::unique_ptr<LayerStatistics>> statistics,
                               const CalibrationOptions& o, const kernels::Workers* workers) {
  std::vector<std::string> names;
  std::map<std::string, size_t> place;
  for (const Observed& l : layers)
    for (const std::string& v : l.values)
      if (place.try_emplace(v, names.size()).second) names.push_back(v);
  std::unique_ptr<ir::Program> copy = ir::Clone(p);
  copy->graph->outputs.clear();
  copy->output_specs.clear();
  planner::PlanEvaluator evaluator({.memory_limit = o.memory_limit, .threads = o.threads});
  const auto prepared = evaluator.Prepare(std::move(copy), names);
  if (!prepared.ok()) return OrMissingWeights(p, WeightsWithoutValues(p), prepared.status(), kGiveWeights);
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::string where = text::StrCat("sample ", i, " of calibration data");
    auto values = (*prepared)->Run(samples[i]);
    if (!values.ok())
      return WithPlace(OrMissingWeights(p, WeightsWithoutValues(p), values.status(), kGiveWeights), where);
    for (size_t l = 0; l < layers.size(); ++l)
      for (const std::string& v : layers[l].values)
        if (absl::Status s = AddInputs((*values)[place[v]], *statistics[l], workers); !s.ok())
          return WithPlace(s, text::StrCat("the layer of '", layers[l].weights[0], "', ", where));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> Calibrate(const ir::Program& original,
                                                   const std::map<std::string, const Config*>& layers,
                                                   const std::string& file, const CalibrationOptions& o,
                                                   const UseStatistics& use) {
  const ir::Program* p = &original;
  std::unique_ptr<ir::Program> functional;
  if (p->form != ir::Form::kFunctional) {
    functional = ir::Clone(original);
    ConversionContext context;
    context.skip = {"fold-constants"};  // a transposed weight stays the parameter that it is
    RETURN_IF_ERROR(passes::RunPasses(passes::kPreparation, *functional, context));
    p = functional.get();
  }
  ASSIGN_OR_RETURN(const Samples samples, Samples::Open(*p, file));
  std::vector<std::string> unread;
  ASSIGN_OR_RETURN(const std::vector<Observed> found, FindLayers(*p, layers, &unread));
  const std::unique_ptr<kernels::ThreadPool> pool = kernels::ThreadPool::Make(o.threads);
  const kernels::Workers* workers = pool ? &pool->workers() : nullptr;

  for (size_t first = 0, last; first < found.size(); first = last) {
    std::vector<std::unique_ptr<LayerStatistics>> statistics;
    uint64_t bytes = 0;
    for (last = first; last < found.size(); ++last) {
      const Observed& l = found[last];
      bytes += LayerStatistics::Bytes(*l.config, l.k, o.statistics);
      if (last > first && bytes > o.statistics_memory) break;
      LayerStatistics::Options own = o.statistics;
      own.seed = Hash(l.weights[0]);
      ASSIGN_OR_RETURN(statistics.emplace_back(), LayerStatistics::Make(*l.config, l.k, own));
    }
    const absl::Span<const Observed> batch(found.data() + first, last - first);
    RETURN_IF_ERROR(CollectStatistics(*p, samples, batch, statistics, o, workers));
    for (size_t i = 0; i < batch.size(); ++i) {
      if (absl::Status s = statistics[i]->Settle(workers); !s.ok())
        return WithPlace(s, text::StrCat("the layer of '", batch[i].weights[0], "'"));
      for (const std::string& weight : batch[i].weights) RETURN_IF_ERROR(use(weight, *statistics[i]));
      statistics[i] = nullptr;
    }
  }
  return unread;
}

}  // namespace slipway::driver
