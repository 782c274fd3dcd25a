// From named tensors, wherever they are kept, to safetensors: merge, choose, rename, cast, split. And to torch.save's
// checkpoints, where tensors that share values go on sharing them.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/list_error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/missing_weights.h"
#include "driver/convert/ranks.h"
#include "driver/edge/format.h"
#include "driver/edge/quantized_input.h"
#include "driver/edge/target.h"
#include "driver/quantize/quantize.h"
#include "exporters/pt2/torch_save.h"
#include "exporters/safetensors/safetensors.h"
#include "io/inflated.h"
#include "quantizer/pt2e/recipe.h"
#include "weights/cast.h"
#include "weights/names.h"
#include "weights/quantized/model_config.h"
#include "weights/tensor_parallel.h"

namespace slipway::driver {
namespace {

// What the flags ask for; a usage error where they contradict each other.
absl::StatusOr<exporters::SafetensorsOptions> SafetensorsOptionsOf(const ConvertOptions& o) {
  exporters::SafetensorsOptions options;
  const bool folder = IsFolder(o.output), sharded = o.shards > 0 || o.max_shard_size > 0;
  if (!folder && sharded) return UsageError("shards are written to a folder", "end the output's name in /");
  if ((o.tp > 0) != !o.tp_rules.empty()) return UsageError("--tp and --tp-rules go together");
  if (o.tp > 0 && !folder) return UsageError("--tp writes a folder", "end the output's name in /");
  if (o.tp > 0 && sharded) return UsageError("--tp writes one file a rank", "leave --shards and --max-shard-size out");
  options.shards = o.shards;
  if (o.strict && o.dtype.empty()) return UsageError("--strict goes with --dtype");
  if (folder && o.shards == 0) options.max_shard_size = o.max_shard_size > 0 ? o.max_shard_size : 5'000'000'000;
  options.dry_run = o.dry_run;
  options.progress = o.progress;
  return options;
}

// The tensors of all inputs that the flags keep, under the names and of the types that they are written as.
struct Chosen {
  std::vector<weights::NamedTensor> tensors;  // by name
  std::map<std::string, std::string> metadata;
  uint64_t bytes = 0;
  uint64_t dequantized = 0;  // of those bytes, the ones of weights that were quantized
  int left_out = 0, cast = 0;
  int scales = 0;                 // of quantized weights, which are not cast
  int copies = 0;                 // tensors whose values another one shares
  std::vector<std::string> tied;  // of those, what --tied drop leaves out, with what they are the same as
};

// Names of what quantized weights are scaled by, behind the layer's name and, in torchao's files, the parameter's.
bool IsScaleName(std::string_view last) {
  static constexpr std::string_view kScales[] = {
      "scale",     "scales",        "scale_inv",        "scale_2", "zero_point",    "zeros",       "absmax",
      "quant_map", "nested_absmax", "nested_quant_map", "SCB",     "act_pre_scale", "global_scale"};
  static constexpr std::string_view kOf[] = {"weight_", "input_", "output_", "k_", "v_", "q_"};
  for (std::string_view s : kScales) {
    if (!last.ends_with(s)) continue;
    std::string_view of = last.substr(0, last.size() - s.size());
    text::ConsumePrefix(&of, "_");
    // torchao's: _weight_scale, _gate_up_proj_scale.
    if (of.empty() || std::find(std::begin(kOf), std::end(kOf), of) != std::end(kOf) ||
        (last.starts_with('_') && of.ends_with('_')))
      return true;
  }
  return false;
}

// Whether elements are codes that scales belong to: integers, or floats of 8 bits and less.
bool IsCodes(const ir::ShardedTensor& t) {
  return !t.sizes.empty() && (ir::IsIntegral(t.dtype) || (ir::IsFloating(t.dtype) && ir::BitSize(t.dtype) <= 8));
}

std::string_view LayerOf(std::string_view name) { return name.substr(0, std::min(name.size(), name.rfind('.'))); }

// Lets the scales of quantized weights keep their types: what was computed with f32 scales is another model with
// rounded ones.
int KeepScales(std::vector<weights::NamedTensor>& tensors) {
  std::set<std::string_view> quantized;  // layers with codes, and the codes (bitsandbytes: w, w.absmax)
  for (const weights::NamedTensor& t : tensors)
    if (IsCodes(t.tensor)) quantized.insert({LayerOf(t.name), t.name});
  int kept = 0;
  for (weights::NamedTensor& t : tensors) {
    const std::string_view layer = LayerOf(t.name);
    if (t.dtype == t.tensor.dtype || !quantized.contains(layer) ||
        !IsScaleName(std::string_view(t.name).substr(layer.size() + (layer.size() < t.name.size()))))
      continue;
    t.dtype = t.tensor.dtype;
    ++kept;
  }
  return kept;
}

// The tensors of an input; of a program those that --weights gives it, under its names and of its types.
absl::StatusOr<ir::TensorSet> TensorsOf(Conversion& c, const std::string& path) {
  if (c.options.weights.empty()) return c.reader.Tensors(path, c.options.key);
  ASSIGN_OR_RETURN(ir::Archive archive, c.reader.Programs(path, /*written=*/0));
  if (c.options.inputs.size() != 1 || archive.programs.size() != 1)
    return UsageError("--weights goes with one program");
  RETURN_IF_ERROR(JoinWeightFiles(*archive.programs[0], c.options, c.summary));
  ASSIGN_OR_RETURN(ir::TensorSet set, WeightsOf(std::vector<const ir::Program*>{archive.programs[0].get()}));
  for (const std::string& name : set.without_values)
    set.notes.push_back(text::StrCat("'", name, "', which the program does not read, has no values and is left out"));
  set.without_values.clear();
  return set;
}

// Which tensors are kept, and their names; --rename is of those of --weights where that is given.
absl::StatusOr<weights::NameRules> NamesOf(const ConvertOptions& o) {
  auto names =
      weights::NameRules::Parse(o.include, o.exclude, o.weights.empty() ? o.rename : std::vector<std::string>());
  return names.ok() ? std::move(names) : UsageError(std::string(names.status().message()));
}

// Quantized weights become plain ones where a type is asked for, and where they are quantized anew.
absl::Status Dequantize(const std::string& path, ir::DType to, Conversion& c, ir::TensorSet* set, Chosen* out) {
  const ConvertOptions& o = c.options;
  if (!o.quantize.empty() && !o.requantize) {
    ASSIGN_OR_RETURN(bool quantized, SaysQuantized(path));
    if (!quantized) {
      ASSIGN_OR_RETURN(const auto found, FindQuantized(path, *set));
      quantized = found.has_value();
    }
    if (!quantized) return absl::OkStatus();
    return WithHelp(absl::InvalidArgumentError("the checkpoint is quantized already"),
                    "--requantize dequantizes it first, whose error is then that of both; better is the checkpoint in "
                    "float");
  }
  if (o.dtype.empty() && !o.requantize) return absl::OkStatus();
  ASSIGN_OR_RETURN(const uint64_t bytes, DequantizeTensors(path, to, nullptr, set, &c.summary.lines));
  out->dequantized += bytes;
  return absl::OkStatus();
}

absl::StatusOr<Chosen> Choose(Conversion& c, const weights::NameRules& names) {
  const ir::DType to = ir::DTypeFromName(c.options.dtype).value_or(ir::DType::kUnknown);
  Chosen out;
  std::map<std::string, std::string> origin;  // by the name that is written
  std::vector<std::string> clashes;
  struct Place {
    std::string name;
    std::vector<int64_t> sizes, strides;
    ir::DType dtype;
  };
  std::map<std::pair<const ir::Storage*, int64_t>, Place> places;
  Storages storages;
  for (const std::string& path : c.options.inputs) {
    auto set = TensorsOf(c, path);
    if (!set.ok()) return WithPlace(set.status(), path);
    std::erase_if(set->without_values, [&](const std::string& name) { return !names.Apply(name); });
    if (!set->without_values.empty()) return WithPlace(MissingWeights(set->without_values, kGiveWeights), path);
    storages.Add(*set);
    RETURN_IF_ERROR(WithPlace(Dequantize(path, to, c, &*set, &out), path));
    out.metadata.merge(set->metadata);
    for (std::string& note : set->notes) c.summary.lines.push_back(text::StrCat(path, ": ", note));
    out.left_out +=
        static_cast<int>(std::erase_if(set->unreadable, [&](const auto& t) { return !names.Apply(t.first); }));
    if (absl::Status s = CheckReadable(*set); !s.ok()) return WithPlace(s, path);
    for (auto& [name, tensor] : set->tensors) set->sharded.emplace(name, std::move(tensor));
    for (auto& [name, tensor] : set->sharded) {
      const std::optional<std::string> renamed = names.Apply(name);
      if (!renamed) {
        ++out.left_out;
        continue;
      }
      if (auto [it, fresh] = origin.emplace(*renamed, path); !fresh) {
        clashes.push_back(text::StrCat("'", *renamed, "' (", it->second, " and ", path, ")"));
        continue;
      }
      const ir::TensorRef* whole = tensor.whole();
      if (tensor.numel() > 0 && whole) {
        const Place here = {*renamed,
                            {whole->sizes.begin(), whole->sizes.end()},
                            {whole->strides.begin(), whole->strides.end()},
                            whole->dtype};
        const auto [first, fresh] = places.emplace(std::pair(whole->storage.get(), whole->offset), here);
        const Place& there = first->second;
        if (!fresh && c.options.tied == "drop" && there.sizes == here.sizes && there.strides == here.strides &&
            there.dtype == here.dtype) {
          out.tied.push_back(text::StrCat("'", *renamed, "' is left out: it is '", there.name, "'"));
          continue;
        }
        out.copies += !fresh;
      }
      const bool casts = to != ir::DType::kUnknown && weights::FindCast(tensor.dtype, to);
      out.bytes += tensor.nbytes();
      const ir::DType dtype = casts ? to : tensor.dtype;
      out.tensors.push_back({*renamed, std::move(tensor), dtype});
    }
  }
  if (!clashes.empty())
    return WithHelp(ListError(text::StrCat(clashes.size(), " names are given twice"), clashes),
                    "--rename or --exclude one of each");
  if (out.tensors.empty()) return absl::InvalidArgumentError("no tensors are left to write");
  out.scales = KeepScales(out.tensors);
  for (const weights::NamedTensor& t : out.tensors) out.cast += t.dtype != t.tensor.dtype;
  if (absl::Status s = c.CheckInputs(storages); !s.ok()) return s;
  if (c.options.max_output == 0) c.max_output = io::MostMadeOf(storages.bytes() + out.dequantized);
  std::sort(out.tensors.begin(), out.tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& [key, value] : c.options.metadata) out.metadata[key] = value;
  return out;
}

absl::StatusOr<exporters::SafetensorsReport> WriteRanks(Conversion& c, const Chosen& chosen,
                                                        const exporters::SafetensorsOptions& options) {
  // What the pieces of a tensor cover is checked before it is cut.
  for (const weights::NamedTensor& t : chosen.tensors)
    if (absl::Status s = ir::Validate(t.tensor); !s.ok()) return WithPlace(s, t.name);
  auto split = weights::SplitTensors(chosen.tensors, c.options.tp, c.options.tp_rules);
  if (!split.ok()) return split.status();
  for (std::string& note : split->notes) c.summary.lines.push_back(std::move(note));
  return exporters::ExportRanks(split->ranks, c.options.output, options);
}

// Counts what --dtype has lost; with --strict that is the answer.
absl::Status ReportCasts(Conversion& c, const std::vector<exporters::LossyCast>& lossy) {
  uint64_t infinite = 0, zero = 0;
  std::vector<std::string> items;
  for (const exporters::LossyCast& t : lossy) {
    infinite += t.losses.infinite;
    zero += t.losses.zero;
    std::vector<std::string> parts;
    if (t.losses.infinite > 0) parts.push_back(text::StrCat(t.losses.infinite, " infinite"));
    if (t.losses.zero > 0) parts.push_back(text::StrCat(t.losses.zero, " zero"));
    items.push_back(text::StrCat("'", t.name, "' (", text::Join(parts, ", "), ")"));
  }
  std::vector<std::string> parts;
  if (infinite > 0)
    parts.push_back(text::StrCat(infinite, infinite == 1 ? " value becomes" : " values become", " infinite"));
  if (zero > 0) parts.push_back(text::StrCat(zero, zero == 1 ? " value becomes" : " values become", " zero"));
  const std::string what = text::StrCat("--dtype ", c.options.dtype, ": ", text::Join(parts, " and "), " in ",
                                        lossy.size(), lossy.size() == 1 ? " tensor" : " tensors");
  if (c.options.strict)
    return WithHelp(AnswerIsNo(ListError(what, items), id::kLossyCast),
                    "--dtype bf16 has the range of f32; without --strict they are only counted");
  constexpr size_t kShown = 5;
  const bool more = items.size() > kShown;
  if (more) items.resize(kShown);
  c.summary.lines.push_back(text::StrCat(what, ": ", text::Join(items, ", "), more ? ", …" : ""));
  return absl::OkStatus();
}

void Summarize(const Chosen& chosen, const exporters::SafetensorsReport& report, Conversion& c) {
  const auto say = [&](int count, std::string_view what) {
    if (count > 0) c.summary.lines.push_back(text::StrCat(count, what));
  };
  say(chosen.left_out, " tensors are left out");
  c.summary.lines.insert(c.summary.lines.end(), chosen.tied.begin(), chosen.tied.end());
  say(chosen.cast, text::StrCat(" tensors are cast to ", c.options.dtype));
  say(chosen.scales, " scales of quantized weights keep their types");
  say(chosen.copies, " tensors share values with others and are written again: the format holds no aliases");
  if (IsFolder(c.options.output)) say(report.files, report.files == 1 ? " file" : " files");
  c.summary.tensors = static_cast<int>(chosen.tensors.size());
  c.summary.weight_bytes = chosen.bytes;
  c.summary.bytes_written = report.file_bytes;
}

// The tensors with quantized weights in place of those that the configuration names.
absl::Status WriteQuantized(Conversion& c, Chosen chosen, exporters::SafetensorsOptions options) {
  const ConvertOptions& o = c.options;
  if (quantizer::pt2e::IsRecipe(o.quantize))
    return UsageError(text::StrCat(o.quantize, " is for exported programs, which say what is computed"),
                      "int8-weight-only, 8da4w, … quantize the weights of checkpoints");
  if (o.tp > 0) return UsageError("--tp does not go with --quantize", "split first, then quantize each rank's file");
  ASSIGN_OR_RETURN(const std::optional<Ranks> ranks, RanksOf(o));
  ASSIGN_OR_RETURN(QuantizedCheckpoint q, QuantizeCheckpoint(o, std::move(chosen.tensors), &c.summary.lines));
  c.summary.quantized = q.report;
  RETURN_IF_ERROR(CheckRequired(o, *q.report));
  options.metadata.merge(q.metadata);
  options.metadata.emplace("format", "pt");  // transformers asks for it
  options.compute = q.compute;
  options.extra_files = std::move(q.extra_files);
  exporters::SafetensorsReport report;
  if (ranks) {
    if (!IsFolder(o.output)) return UsageError("several ranks write a folder", "end the output's name in /");
    auto done = exporters::ExportShardsOfRank(q.tensors, o.output, std::move(options), ranks->rank, ranks->world_size,
                                              RunOf(o, *q.report));
    if (!done.ok()) return done.status();
    report = done->report;
    c.summary.lines.push_back(text::StrCat("rank ", ranks->rank, " of ", ranks->world_size, " (", ranks->source,
                                           "): ", done->written, " of ", report.files, " files written, ", done->kept,
                                           " were there already",
                                           done->last ? "; the checkpoint is complete" : "; others are still to come"));
  } else {
    ASSIGN_OR_RETURN(report, IsFolder(o.output) ? exporters::ExportShards(q.tensors, o.output, options)
                                                : exporters::ExportSafetensors(q.tensors, o.output, options));
  }
  chosen.tensors = std::move(q.tensors);
  Summarize(chosen, report, c);
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteTensors(Conversion& c) {
  const ConvertOptions& o = c.options;
  auto options = SafetensorsOptionsOf(o);
  if (!options.ok()) return options.status();
  ASSIGN_OR_RETURN(const weights::NameRules names, NamesOf(o));
  if (!o.quantize.empty() && !o.dtype.empty())
    return UsageError("--dtype does not go with --quantize", "convert first, then quantize the result");
  if (o.requantize && o.quantize.empty()) return UsageError("--requantize goes with --quantize");
  auto chosen = Choose(c, names);
  if (!chosen.ok()) return chosen.status();
  if (o.shards > static_cast<int>(chosen->tensors.size()))
    return absl::InvalidArgumentError(
        text::StrCat("--shards ", o.shards, ": there are ", chosen->tensors.size(), " tensors"));
  options->metadata = chosen->metadata;
  options->max_output = c.max_output;
  if (chosen->dequantized > 0 && o.quantize.empty()) {
    if (const std::string config = ConfigBeside(o.inputs); !config.empty()) {
      auto plain = weights::quantized::WithoutQuantization(config, *ir::DTypeFromName(o.dtype));
      if (!plain.ok()) return WithPlace(plain.status(), "config.json");
      options->extra_files.emplace_back("config.json", io::Bytes::Of(*std::move(plain)));
    }
  }
  options->check_casts = [&c](const std::vector<exporters::LossyCast>& lossy) { return ReportCasts(c, lossy); };
  if (!o.quantize.empty()) return WriteQuantized(c, *std::move(chosen), *std::move(options));
  auto report = o.tp > 0             ? WriteRanks(c, *chosen, *options)
                : IsFolder(o.output) ? exporters::ExportShards(chosen->tensors, o.output, *options)
                                     : exporters::ExportSafetensors(chosen->tensors, o.output, *options);
  if (!report.ok()) return report.status();
  Summarize(*chosen, *report, c);
  return absl::OkStatus();
}

absl::Status WriteCheckpoint(Conversion& c) {
  const ConvertOptions& o = c.options;
  if (IsFolder(o.output))
    return UsageError("a torch.save checkpoint is one file", "end its name in .pt or .bin; shards are safetensors");
  ASSIGN_OR_RETURN(const weights::NameRules names, NamesOf(o));
  ASSIGN_OR_RETURN(const Chosen chosen, Choose(c, names));
  std::vector<exporters::NamedTensor> tensors;
  for (const weights::NamedTensor& t : chosen.tensors) {
    RETURN_IF_ERROR(WithPlace(ir::Validate(t.tensor), t.name));
    const ir::TensorRef* whole = t.tensor.whole();
    if (whole == nullptr)
      return WithHelp(absl::UnimplementedError(
                          text::StrCat("'", t.name, t.tensor.derived ? "' is quantized" : "' lies in several pieces")),
                      "convert to safetensors first");
    tensors.push_back({t.name, *whole});
  }
  ASSIGN_OR_RETURN(const exporters::TorchSaveReport report,
                   exporters::ExportTorchSave(tensors, o.output, c.max_output, o.dry_run));
  if (chosen.left_out > 0) c.summary.lines.push_back(text::StrCat(chosen.left_out, " tensors are left out"));
  c.summary.tensors = static_cast<int>(chosen.tensors.size());
  c.summary.weight_bytes = report.tensor_bytes;
  c.summary.bytes_written = report.file_bytes;
  return absl::OkStatus();
}

}  // namespace slipway::driver
