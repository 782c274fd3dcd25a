// A checkpoint, quantized as it is written: each weight gives way to its parts, whose values the exporter asks for once
// everything else is in the file.
#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/quantized_input.h"
#include "driver/edge/target.h"
#include "driver/quantize/quantize.h"
#include "io/io_error.h"
#include "quantizer/calibrate.h"
#include "quantizer/quantize.h"
#include "quantizer/torchao_layout.h"
#include "weights/quantized/model_config.h"

namespace slipway::driver {
namespace {

using weights::NamedTensor;

// What another tensor's values are, too: the same bytes of the same storage.
using Place = std::pair<const ir::Storage*, int64_t>;
Place PlaceOf(const NamedTensor& t) {
  const ir::TensorRef* whole = t.tensor.whole();
  return whole ? Place(whole->storage.get(), whole->offset) : Place(nullptr, 0);
}

// The model's configuration with what transformers reads of how its weights are quantized (TorchAoConfig).
absl::StatusOr<std::string> WithQuantizationConfig(std::string_view config, quantizer::ConfigMap configs,
                                                   const QuantizeReport& report) {
  configs.keep_head = false;
  for (const QuantizedRow& row : report.rows) {
    const std::string module(quantizer::ModuleOf(row.name));
    // transformers looks for quantized embeddings only where it is told to.
    configs.embeddings |= !row.config.empty() && quantizer::IsEmbeddingName(module);
    if (row.config.empty() && row.sizes.size() == 2 && !module.empty() &&
        std::find(configs.skip.begin(), configs.skip.end(), module) == configs.skip.end())
      configs.skip.push_back(module);
  }
  return weights::quantized::WithQuantization(config, quantizer::ToQuantizationConfigJson(configs));
}

// Files of the output for files of the input: where a folder of several is read and nothing else is asked for.
void KeepShards(const ConvertOptions& o, std::vector<NamedTensor>& tensors) {
  if (!IsFolder(o.output) || o.shards > 0 || o.max_shard_size > 0) return;
  // Of what is dequantized: the file of its first part.
  const auto file_of = [](const NamedTensor& t) -> const io::MappedFile* {
    const ir::TensorRef* from = t.tensor.derived ? &t.tensor.derived->sources()[0] : t.tensor.whole();
    const auto* bytes = from ? std::get_if<io::Bytes>(&from->storage->bytes) : nullptr;
    return bytes && bytes->file_range() ? bytes->file_range()->file.get() : nullptr;
  };
  std::map<std::string, int> files;
  for (const NamedTensor& t : tensors) {
    const io::MappedFile* file = file_of(t);
    if (!file) return;
    files[file->path()] = 0;
  }
  int next = 0;
  for (auto& [path, shard] : files) shard = next++;
  for (NamedTensor& t : tensors) t.shard = files[file_of(t)->path()];
}

}  // namespace

absl::StatusOr<QuantizedCheckpoint> QuantizeCheckpoint(const ConvertOptions& o, std::vector<NamedTensor> tensors,
                                                       std::vector<std::string>* lines) {
  const std::string model_config = ConfigBeside(o.inputs);
  quantizer::ModelFacts facts;
  if (!model_config.empty()) {
    auto read = quantizer::ModelFacts::Read(model_config);
    if (!read.ok()) return WithPlace(read.status(), "config.json");
    facts = *std::move(read);
  }
  KeepShards(o, tensors);

  std::set<std::string> names;
  std::set<Place> embeddings;
  for (const NamedTensor& t : tensors) {
    names.insert(t.name);
    if (quantizer::IsEmbeddingName(quantizer::ModuleOf(t.name))) embeddings.insert(PlaceOf(t));
  }
  const auto has = [&](const std::string& name) { return names.contains(name); };
  const auto consider = [&](Chooser& c) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const NamedTensor& t = tensors[i];
      quantizer::Candidate it{t.name, t.tensor.dtype, t.tensor.sizes,
                              t.tensor.whole() && embeddings.contains(PlaceOf(t))};
      it.embedding = quantizer::IsEmbedding(it, facts);
      if (it.sizes.size() < 2) {
        c.Pass(static_cast<uint64_t>(t.tensor.nbytes()));
        continue;
      }
      c.Consider(i, it, quantizer::WhyNotLinear(it, facts, has));
    }
  };
  std::vector<ChosenWeight> chosen;
  const auto weight = [&](size_t i) { return BudgetWeight{tensors[i].name, tensors[i].tensor}; };
  ASSIGN_OR_RETURN(const std::unique_ptr<Chooser> chooser, Choose(o, false, consider, weight, &chosen));
  for (const ChosenWeight& w : chosen)
    if (quantizer::LayerStatistics::Needed(*w.config))
      return UsageError(
          text::StrCat(quantizer::ShortName(*w.config), " looks at activations, which a checkpoint cannot compute"),
          "quantize the exported program (.pt2), with --calibration");

  QuantizedCheckpoint out;
  out.report = std::make_shared<QuantizeReport>(std::move(chooser->report()));
  if (!model_config.empty()) {
    ASSIGN_OR_RETURN(std::string text, WithQuantizationConfig(model_config, chooser->configs(), *out.report));
    out.extra_files.emplace_back("config.json", std::move(text));
  }

  // What compute() keeps: weights, where their parts are, and the report.
  struct Weight {
    NamedTensor source;
    std::unique_ptr<quantizer::Scheme> scheme;
    size_t row;
  };
  struct Part {
    size_t weight, part;
  };
  struct State {
    std::vector<Weight> weights;
    absl::flat_hash_map<std::string, Part> parts;  // by the name that is written
  };
  auto state = std::make_shared<State>();
  std::string all_names = "[";
  std::vector<std::string> dotless;
  size_t next = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    NamedTensor& t = tensors[i];
    all_names += all_names.size() > 1 ? ", " : "";
    json::AppendString(&all_names, t.name);
    if (t.name.find('.') == std::string::npos) dotless.push_back(t.name);
    if (next == chosen.size() || chosen[next].index != i) {
      out.metadata[t.name] = quantizer::kPlainTensorMetadata;
      out.tensors.push_back(std::move(t));
      continue;
    }
    ChosenWeight& w = chosen[next++];
    out.metadata[t.name] = quantizer::TensorMetadata(*w.config, *w.scheme, false);
    for (size_t p = 0; p < w.scheme->parts().size(); ++p) {
      const quantizer::Part& part = w.scheme->parts()[p];
      NamedTensor made;
      made.name = quantizer::PartName(t.name, part.name);
      made.tensor.dtype = made.dtype = part.dtype;
      made.tensor.sizes = part.sizes;
      made.computed = true;
      made.shard = t.shard;
      if (names.contains(made.name))
        return absl::InvalidArgumentError(text::StrCat("'", made.name, "' is in the checkpoint already"));
      state->parts[made.name] = {state->weights.size(), p};
      out.tensors.push_back(std::move(made));
    }
    state->weights.push_back({std::move(t), std::move(w.scheme), w.row});
  }
  out.metadata["tensor_names"] = all_names + "]";
  std::sort(out.tensors.begin(), out.tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (!dotless.empty())
    lines->push_back(text::StrCat("torchao's loader takes no names without a dot: ", text::Join(dotless, ", ")));

  out.compute = [state, report = out.report, threads = Threads(o)](const std::vector<const NamedTensor*>& wanted,
                                                                   const auto& write) {
    // By weight: which of its parts are wanted.
    std::map<size_t, std::vector<const NamedTensor*>> work;
    for (const NamedTensor* t : wanted) {
      const Part& p = state->parts.at(t->name);
      std::vector<const NamedTensor*>& parts = work[p.weight];
      parts.resize(state->weights[p.weight].scheme->parts().size());
      parts[p.part] = t;
    }
    // The largest first, so that threads end together.
    std::vector<std::pair<size_t, const std::vector<const NamedTensor*>*>> order;
    for (const auto& [weight, parts] : work) order.emplace_back(weight, &parts);
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return state->weights[a.first].source.tensor.numel() > state->weights[b.first].source.tensor.numel();
    });
    return quantizer::InParallel(threads, order.size(), [&](size_t i) -> absl::Status {
      Weight& w = state->weights[order[i].first];
      const std::vector<const NamedTensor*>& parts = *order[i].second;
      auto error = quantizer::QuantizeWeight(w.source.tensor, *w.scheme, false,
                                             [&](size_t part, uint64_t at, absl::Span<const uint8_t> bytes) {
                                               return parts[part] ? write(*parts[part], at, bytes) : absl::OkStatus();
                                             });
      if (!error.ok()) return io::Prefixed(text::StrCat("'", w.source.name, "': "), error.status());
      QuantizedRow& row = report->rows[w.row];
      row.relative_error = error->relative;
      row.max_error = error->max;
      row.squares = error->reference;
      row.measured = true;
      return absl::OkStatus();
    });
  };
  return out;
}

}  // namespace slipway::driver
