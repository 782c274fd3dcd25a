// A checkpoint, quantized as it is written: each weight gives way to its parts, whose values the exporter asks for once
// everything else is in the file.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/quantized_input.h"
#include "driver/edge/target.h"
#include "driver/quantize/loaded_names.h"
#include "driver/quantize/quantize.h"
#include "exporters/safetensors/safetensors.h"
#include "io/io_error.h"
#include "quantizer/calibrate.h"
#include "quantizer/quantize.h"
#include "quantizer/torchao_layout.h"
#include "weights/quantized/model_config.h"
#include "weights/quantized/quantized.h"

namespace slipway::driver {
namespace {

using weights::NamedTensor;

// What another tensor's values are, too: the same bytes of the same storage.
using StoragePlace = std::pair<const ir::Storage*, int64_t>;
StoragePlace PlaceOf(const NamedTensor& t) {
  const ir::TensorRef* whole = t.tensor.whole();
  return whole ? StoragePlace(whole->storage.get(), whole->offset) : StoragePlace(nullptr, 0);
}

// The model's configuration with what transformers reads of how its weights are quantized (TorchAoConfig).
absl::StatusOr<std::string> WithQuantizationConfig(std::string_view config, quantizer::ConfigMap configs,
                                                   const QuantizeReport& report, const LoadedNames& loaded) {
  configs.keep_head = false;
  for (const QuantizedRow& row : report.rows) {
    const std::string module(quantizer::ModuleOf(loaded.Of(row.name)));
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

std::string JsonList(const std::vector<std::string>& names) {
  std::string out = "[";
  for (const std::string& name : names) {
    out += out.size() > 1 ? ", " : "";
    json::AppendString(&out, name);
  }
  return out + "]";
}

std::string JsonObject(const std::map<std::string, std::string>& members) {
  json::Writer out;
  out.BeginObject();
  for (const auto& [key, value] : members) out.Key(key).String(value);
  out.EndObject();
  return out.Take();
}

bool SameFolder(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

// What compute() keeps: weights, where their parts are, and the report.
struct State {
  struct Weight {
    NamedTensor source;
    std::unique_ptr<quantizer::Scheme> scheme;
    size_t row;
  };
  struct Part {
    size_t weight, part;
  };
  std::vector<Weight> weights;
  absl::flat_hash_map<std::string, Part> parts;  // by the name that is written
  std::shared_ptr<QuantizeReport> report;
  int threads = 1;
};

// The values of the parts that are wanted.
absl::Status Compute(State& state, const std::vector<const NamedTensor*>& wanted,
                     const exporters::WriteComputed& write) {
  // By weight: which of its parts are wanted.
  std::map<size_t, std::vector<const NamedTensor*>> work;
  for (const NamedTensor* t : wanted) {
    const State::Part& p = state.parts.at(t->name);
    std::vector<const NamedTensor*>& parts = work[p.weight];
    parts.resize(state.weights[p.weight].scheme->parts().size());
    parts[p.part] = t;
  }
  // The largest first, so that threads end together.
  std::vector<std::pair<size_t, const std::vector<const NamedTensor*>*>> order;
  for (const auto& [weight, parts] : work) order.emplace_back(weight, &parts);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return state.weights[a.first].source.tensor.numel() > state.weights[b.first].source.tensor.numel();
  });
  return quantizer::InParallel(state.threads, order.size(), [&](size_t i) -> absl::Status {
    State::Weight& w = state.weights[order[i].first];
    const std::vector<const NamedTensor*>& parts = *order[i].second;
    auto error = quantizer::QuantizeWeight(w.source.tensor, *w.scheme, false,
                                           [&](size_t part, uint64_t at, absl::Span<const uint8_t> bytes) {
                                             return parts[part] ? write(*parts[part], at, bytes) : absl::OkStatus();
                                           });
    if (!error.ok()) return io::Prefixed(text::StrCat("'", w.source.name, "': "), error.status());
    QuantizedRow& row = state.report->rows[w.row];
    row.relative_error = error->relative;
    row.max_error = error->max;
    row.squares = error->reference;
    row.measured = true;
    return absl::OkStatus();
  });
}

// The tensors as they are written, with the metadata of torchao's layout, and what their values are computed from.
class Layout {
 public:
  Layout(const LoadedNames& loaded, const std::set<std::string>& names, State* state, QuantizedCheckpoint* out)
      : loaded_(loaded), names_(names), state_(*state), out_(*out) {}

  void AddPlain(NamedTensor t) {
    // torchao's loader fails on names without a dot, and leaves what is not listed as it is.
    if (t.name.find('.') == std::string::npos) {
      dotless_.push_back(t.name);
    } else {
      listed_.push_back(t.name);
      out_.metadata[t.name] = quantizer::kPlainTensorMetadata;
    }
    out_.tensors.push_back(std::move(t));
  }

  absl::Status AddQuantized(NamedTensor t, ChosenWeight w) {
    listed_.push_back(t.name);
    const std::string& metadata = out_.metadata[t.name] = quantizer::TensorMetadata(*w.config, *w.scheme, false);
    if (std::string name = loaded_.Of(t.name); name != t.name) {
      listed_.push_back(name);
      out_.metadata[name] = metadata;
      model_names_.emplace(std::move(name), t.name);
    }
    for (size_t p = 0; p < w.scheme->parts().size(); ++p) {
      const quantizer::Part& part = w.scheme->parts()[p];
      NamedTensor made;
      made.name = quantizer::PartName(t.name, part.name);
      made.tensor.dtype = made.dtype = part.dtype;
      made.tensor.sizes = part.sizes;
      made.computed = true;
      made.shard = t.shard;
      if (names_.contains(made.name))
        return absl::InvalidArgumentError(text::StrCat("'", made.name, "' is in the checkpoint already"));
      state_.parts[made.name] = {state_.weights.size(), p};
      out_.tensors.push_back(std::move(made));
    }
    state_.weights.push_back({std::move(t), std::move(w.scheme), w.row});
    return absl::OkStatus();
  }

  void Finish(std::vector<std::string>* lines) {
    out_.metadata["tensor_names"] = JsonList(listed_);
    if (!model_names_.empty()) {
      out_.metadata[weights::quantized::kModelNames] = JsonObject(model_names_);
      lines->push_back(text::StrCat(model_names_.size(), model_names_.size() == 1 ? " weight is" : " weights are",
                                    " also known by the names of ", weights::TransformersNames::Version()));
    }
    if (!dotless_.empty())
      lines->push_back(text::StrCat("without a dot in the name, which torchao's loader leaves as it is: ",
                                    text::Join(dotless_, ", ")));
    std::sort(out_.tensors.begin(), out_.tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  }

 private:
  const LoadedNames& loaded_;
  const std::set<std::string>& names_;
  State& state_;
  QuantizedCheckpoint& out_;
  std::vector<std::string> listed_, dotless_;
  std::map<std::string, std::string> model_names_;  // of weights whose name in the model is another
};

// What the folder gets besides weights.
absl::StatusOr<FolderFiles> FilesOf(const ConvertOptions& o, std::string config, std::vector<std::string>* lines) {
  FolderFiles out;
  if (!config.empty()) out.emplace_back("config.json", io::Bytes::Of(std::move(config)));
  if (!IsFolder(o.output) || o.no_extra_files || o.inputs.size() != 1 || !IsFolder(o.inputs[0]) ||
      SameFolder(o.inputs[0], o.output))
    return out;
  ASSIGN_OR_RETURN(FolderFiles files, FilesBesideWeights(o.inputs[0], lines));
  std::move(files.begin(), files.end(), std::back_inserter(out));
  return out;
}

// The weights that cannot be quantized here, though they were chosen.
absl::Status CheckChosen(const std::vector<ChosenWeight>& chosen, const std::vector<NamedTensor>& tensors,
                         const LoadedNames& loaded, const std::function<bool(const std::string&)>& has) {
  std::vector<std::string> names;
  for (const ChosenWeight& w : chosen) {
    if (quantizer::LayerStatistics::Needed(*w.config))
      return UsageError(
          text::StrCat(quantizer::ShortName(*w.config), " looks at activations, which a checkpoint cannot compute"),
          "quantize the exported program (.pt2), with --calibration");
    names.push_back(tensors[w.index].name);
  }
  return loaded.Check(names, has);
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
  ASSIGN_OR_RETURN(const LoadedNames loaded, LoadedNames::Make(o, model_config, lines));
  KeepShards(o, tensors);

  std::set<std::string> names;
  std::set<StoragePlace> embeddings;
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
      std::string why = quantizer::WhyNotLinear(it, facts, has);
      if (why.empty() && loaded.IsOther(t.name)) why = "no linear layer in transformers";
      const bool linear = why.empty();
      if (linear) why = loaded.WhyNotLoaded(t.name, has);
      c.Consider(i, it, why, linear);
    }
  };
  std::vector<ChosenWeight> chosen;
  const auto weight = [&](size_t i) { return BudgetWeight{tensors[i].name, tensors[i].tensor}; };
  ASSIGN_OR_RETURN(const std::unique_ptr<Chooser> chooser, Choose(o, false, consider, weight, &chosen));
  RETURN_IF_ERROR(CheckChosen(chosen, tensors, loaded, has));

  QuantizedCheckpoint out;
  out.report = std::make_shared<QuantizeReport>(std::move(chooser->report()));
  std::string config;
  if (!model_config.empty()) {
    ASSIGN_OR_RETURN(config, WithQuantizationConfig(model_config, chooser->configs(), *out.report, loaded));
  }
  ASSIGN_OR_RETURN(out.extra_files, FilesOf(o, std::move(config), lines));
  auto state = std::make_shared<State>();
  state->report = out.report;
  state->threads = Threads(o);
  Layout layout(loaded, names, state.get(), &out);
  size_t next = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (next == chosen.size() || chosen[next].index != i)
      layout.AddPlain(std::move(tensors[i]));
    else
      RETURN_IF_ERROR(layout.AddQuantized(std::move(tensors[i]), std::move(chosen[next++])));
  }
  layout.Finish(lines);
  out.compute = [state](const std::vector<const NamedTensor*>& wanted, const auto& write) {
    return Compute(*state, wanted, write);
  };
  return out;
}

}  // namespace slipway::driver
