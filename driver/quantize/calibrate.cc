// Which values to observe, and batches of them. What is hard here is memory: GPTQ's statistics of one layer may take a
// gigabyte, so they are collected, used and dropped batch by batch, and each batch's run computes nothing that comes
// after its layers.
#include "driver/quantize/calibrate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/missing_weights.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/diagnostic.h"
#include "driver/quantize/samples.h"
#include "ir/clone.h"
#include "kernels/parallel.h"
#include "passes/quantization/quantize_linears.h"
#include "planner/evaluator.h"

namespace slipway::driver {
namespace {

using ir::DType;
using quantizer::Config;
using quantizer::LayerStatistics;

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
    ASSIGN_OR_RETURN(const std::vector<ir::TensorRef> sample, samples.Read(i));
    auto values = (*prepared)->Run(sample);
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
                                                   const ConvertOptions& given, const CalibrationOptions& o,
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
  ASSIGN_OR_RETURN(const Samples samples, Samples::Open(*p, given));
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
