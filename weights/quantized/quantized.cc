// The table of formats. A new one is a row here, and a file with the functions of the family that it belongs to.
#include "weights/quantized/quantized.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "io/io_error.h"
#include "weights/quantized/families.h"

namespace slipway::weights::quantized {
namespace {

struct Family {
  std::string_view method;  // quant_method of the configuration
  std::string_view title;
  // What tells of it where there is no configuration: a word in tensors' names, or metadata of this name. "" for none.
  std::string_view in_names, in_metadata;
  absl::Status (*find)(Finder& f);
  // Endings of names that no tensor has but parts of quantized weights, several with a | between them.
  std::string_view endings;
  bool activations = false;  // layers may have scales of their activations, too
};

constexpr Family kFamilies[] = {
    {"fp8", "fp8", "", "", FindFloat8, "_scale_inv", true},
    {"gptq", "GPTQ", "", "", FindGptq, ".qweight|.qzeros|.scales|.g_idx"},
    {"awq", "AWQ", "", "", FindAwq, ".qweight|.qzeros|.scales"},
    {"compressed-tensors", "compressed-tensors", "", "", FindCompressedTensors,
     ".weight_packed|.weight_scale|.weight_shape|.weight_zero_point|.weight_g_idx|.weight_global_scale", true},
    {"mxfp4", "MXFP4", "", "", FindMxfp4, "_blocks|_scales"},
    {"bitsandbytes", "bitsandbytes", ".quant_state.bitsandbytes__", "", FindBitsandbytes,
     ".absmax|.quant_map|.nested_absmax|.nested_quant_map|.SCB"},
    {"torchao", "torchao", "", "tensor_names", FindTorchao, "_qdata"},
};

// What a quantized layer has for its activations, and what it is in for caches: nothing to plain weights.
constexpr std::string_view kOfActivations[] = {"input_scale",     "input_zero_point",  "input_global_scale",
                                               "output_scale",    "output_zero_point", "output_global_scale",
                                               "activation_scale"};
constexpr std::string_view kOfCaches[] = {"k_scale", "v_scale", "q_scale", "k_zero_point", "v_zero_point"};

const Family* FamilyOf(const ir::TensorSet& set, const std::optional<ModelConfig>& config) {
  if (config) {
    const auto it = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                 [&](const Family& f) { return f.method == config->method; });
    return it == std::end(kFamilies) ? nullptr : &*it;
  }
  for (const Family& f : kFamilies) {
    if (!f.in_metadata.empty() && set.metadata.contains(std::string(f.in_metadata))) return &f;
    if (f.in_names.empty()) continue;
    for (const auto& [name, tensor] : set.tensors)
      if (text::Contains(name, f.in_names)) return &f;
  }
  return nullptr;
}

template <typename F>
void ForNames(const ir::TensorSet& set, const F& f) {
  for (const auto& [name, tensor] : set.tensors) f(name, tensor.dtype);
  for (const auto& [name, tensor] : set.sharded) f(name, tensor.dtype);
}

// Parts that no weight has taken: the checkpoint is damaged, or of another format than it says.
absl::Status CheckStray(const Family& family, const Finder& f, const ir::TensorSet& set) {
  std::string stray;
  ForNames(set, [&](const std::string& name, ir::DType dtype) {
    if (!stray.empty() || f.taken().contains(name) || f.left_out().contains(name)) return;
    bool part = dtype == ir::DType::kFloat8E4M3FN;
    for (std::string_view ending : text::Split(family.endings, '|')) part |= name.ends_with(ending);
    if (part) stray = name;
  });
  if (stray.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(text::StrCat("'", stray, "' is a part of no quantized weight"));
}

void LeaveOutActivations(const ir::TensorSet& set, Finder& f) {
  std::set<std::string> layers, around;  // with quantized weights, and what those are in
  for (const auto& w : f.weights()) {
    const size_t dot = w->name.rfind('.');
    if (dot == std::string::npos) continue;
    layers.insert(w->name.substr(0, dot));
    if (const size_t outer = w->name.rfind('.', dot - 1); dot > 0 && outer != std::string::npos)
      around.insert(w->name.substr(0, outer));
  }
  const auto is = [](std::string_view last, absl::Span<const std::string_view> names) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return last == name || (last.ends_with(name) && last[last.size() - name.size() - 1] == '_');
    });
  };
  ForNames(set, [&](const std::string& name, ir::DType) {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos || f.taken().contains(name)) return;
    const std::string layer = name.substr(0, dot), last = name.substr(dot + 1);
    if ((layers.contains(layer) && is(last, kOfActivations)) || (around.contains(layer) && is(last, kOfCaches)))
      f.LeaveOut(name);
  });
}

// The form that most weights have; how many have another.
std::string TitleOf(const Family& family, const Finder& f) {
  std::map<std::string_view, size_t> counts;
  for (const auto& w : f.weights()) ++counts[w->form];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end()) return std::string(family.title);
  const size_t others = f.weights().size() - most->second;
  return text::StrCat(family.title, " ", most->first, others ? text::StrCat("; ", others, " weights otherwise") : "");
}

}  // namespace

const std::string_view kFormats =
    "fp8 with scales of blocks, GPTQ, AWQ (gemm), compressed-tensors (pack-, int-, float-, naive- and nvfp4-pack-"
    "quantized), MXFP4 of gpt-oss, bitsandbytes, torchao";

absl::StatusOr<std::optional<Checkpoint>> Find(const ir::TensorSet& set, const std::optional<ModelConfig>& config,
                                               bool whole) {
  const Family* family = FamilyOf(set, config);
  if (!family && !config) return std::nullopt;
  if (!family) {
    return absl::UnimplementedError(text::StrCat(config->file, ": ",
                                                 config->method.empty()
                                                     ? "a quantization_config without a quant_method"
                                                     : text::StrCat("weights quantized by '", config->method, "'")));
  }
  Finder f(set, config ? &*config : nullptr, whole);
  RETURN_IF_ERROR(family->find(f));
  if (family->activations) LeaveOutActivations(set, f);
  RETURN_IF_ERROR(CheckStray(*family, f, set));
  if (f.weights().empty() && whole)
    return absl::InvalidArgumentError(text::StrCat(config ? config->file : "metadata",
                                                   " says that weights are quantized (", family->title,
                                                   "), and none of them is"));
  Checkpoint out;
  out.title = TitleOf(*family, f);
  if (config) out.dtype = config->dtype;
  out.weights = f.weights();
  std::sort(out.weights.begin(), out.weights.end(), [](const auto& a, const auto& b) { return a->name < b->name; });
  out.left_out.assign(f.left_out().begin(), f.left_out().end());
  return out;
}

int Replace(const Checkpoint& checkpoint, ir::DType to, const std::function<bool(const Weight&)>& keep,
            ir::TensorSet* set) {
  int replaced = 0;
  for (const auto& w : checkpoint.weights) {
    if (keep && keep(*w)) continue;
    ++replaced;
    for (const std::string& part : w->parts) set->tensors.erase(part);
    const ir::DType dtype = to != ir::DType::kUnknown                 ? to
                            : checkpoint.dtype != ir::DType::kUnknown ? checkpoint.dtype
                                                                      : w->dtype;
    set->sharded.insert_or_assign(w->name, TensorOf(w, dtype));
    set->metadata.erase(w->name);  // torchao's
  }
  if (replaced == 0) return 0;
  for (const std::string& name : checkpoint.left_out) set->tensors.erase(name), set->sharded.erase(name);
  set->metadata.erase(kModelNames);
  if (set->metadata.erase("tensor_names") > 0)
    std::erase_if(set->metadata, [](const auto& m) { return m.second.starts_with(R"({"_type")"); });
  return replaced;
}

}  // namespace slipway::weights::quantized
