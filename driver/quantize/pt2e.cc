// The order is torchao's: fold, annotate, observe, convert.
#include "driver/quantize/pt2e.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/missing_weights.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/diagnostic.h"
#include "driver/quantize/budget.h"
#include "driver/quantize/layer_budget.h"
#include "driver/quantize/pt2e_values.h"
#include "driver/quantize/quantize.h"
#include "driver/quantize/samples.h"
#include "driver/quantize/scratch_tensors.h"
#include "io/io_error.h"
#include "passes/pass.h"
#include "quantizer/pt2e/annotate.h"
#include "quantizer/pt2e/fold_norms.h"
#include "quantizer/pt2e/recipe.h"
#include "quantizer/pt2e/rewrite.h"
#include "quantizer/quantize.h"
#include "weights/names.h"

namespace slipway::driver {
namespace {

namespace pt2e = quantizer::pt2e;
using ir::DType;
using ir::Node;
using ir::Value;

// What `auto` means for programs with calibration data.
constexpr std::string_view kRecipeOfBudget = "pt2e-x86:match=operators";

absl::Status CheckOptions(const ConvertOptions& o, const pt2e::Recipe& recipe) {
  RETURN_IF_ERROR(Samples::CheckOptions(o));
  if (!recipe.dynamic && !Samples::Given(o))
    return UsageError(text::StrCat(o.quantize, " looks at activations"), kGiveSamples);
  if (o.quantize == kAutomatic && o.error_budget.empty())
    return UsageError("--config auto needs a budget", "--error-budget 1%, of the outputs on calibration data");
  std::vector<std::string_view> others;
  if (!o.embeddings.empty()) others.push_back("--embeddings");
  if (!o.error_budget.empty() && recipe.dynamic) others.push_back("--error-budget");
  if (o.size_budget > 0) others.push_back("--size-budget");
  if (!o.save_config.empty()) others.push_back("--save-config");
  if (o.numerics != "0.18") others.push_back("--numerics");
  if (others.empty()) return absl::OkStatus();
  return UsageError(
      text::StrCat(text::Join(others, ", "), others.size() == 1 ? " does" : " do", " not go with ", o.quantize),
      "they are for configurations of weights");
}

// Nodes that match expressions: by module, by the name of their weight, or by operator.
class NodeChoice {
 public:
  static absl::StatusOr<NodeChoice> Make(const ir::Program& p, const std::vector<std::string>& expressions,
                                         std::string_view flag) {
    NodeChoice out;
    for (const std::string& text : expressions) {
      auto e = weights::NameExpression::Compile(text);
      if (!e.ok()) return UsageError(std::string(e.status().message()));
      bool met = false;
      for (const Node* n : *p.graph)
        for (const std::string& name : NamesOf(p, *n))
          if (e->FoundIn(name)) out.nodes_.insert(n), met = true;
      if (!met)
        return WithHelp(absl::InvalidArgumentError(
                            text::StrCat(flag, " '", text, "' is found in the name of no module, weight or operator")),
                        "slipway inspect --ir --sources lists them");
    }
    return out;
  }
  bool operator()(const Node& n) const { return nodes_.contains(&n); }

 private:
  static std::vector<std::string> NamesOf(const ir::Program& p, const Node& n) {
    std::vector<std::string> names = {std::string(n.op_name())};
    if (n.source()) names.push_back(n.source()->ModulePath());
    const Value* weight = n.Get("weight").value();
    if (weight && !weight->producer() && weight->graph() == p.graph.get()) names.push_back(pt2e::WeightName(p, weight));
    return names;
  }
  absl::flat_hash_set<const Node*> nodes_;
};

// The program in the form that recipes are about: every node in the root graph, nothing written in place. Gives the
// sources of nodes that did.
absl::StatusOr<absl::flat_hash_set<const ir::Source*>> MakeFunctional(ir::Program& p) {
  absl::flat_hash_set<const ir::Source*> in_place;
  for (const Node* n : *p.graph)
    if ((n->op_name() == "aten.mul_.Tensor" || n->op_name() == "aten.relu_.default") && n->source())
      in_place.insert(n->source().get());
  ConversionContext context;
  RETURN_IF_ERROR(passes::RunPasses(passes::kPlainNodes, p, context));
  constexpr std::string_view kRest[] = {"functionalize", "eliminate-dead-code"};
  RETURN_IF_ERROR(passes::RunPasses(kRest, p, context));
  return in_place;
}

// The report's rows: one for each weight of two and more dimensions, by name.
class ReportRows {
 public:
  ReportRows(const ir::Program& p, const pt2e::Recipe& recipe, const NodeChoice& excluded,
             const absl::flat_hash_set<const Node*>& in_float)
      : p_(p), recipe_(recipe), excluded_(excluded), in_float_(in_float) {}

  // `errors` are those of all weights that were ever quantized, `weights` what is quantized now.
  void Add(const std::map<std::string, quantizer::Error>& errors, const std::vector<Value*>& weights,
           QuantizeReport* report) const {
    static const auto& layers =
        *new text::Set{"aten.conv1d.default",           "aten.conv1d.padding", "aten.conv2d.default",
                       "aten.conv2d.padding",           "aten.conv3d.default", "aten.conv3d.padding",
                       "aten.conv_transpose1d.default", "aten.linear.default", "aten.conv_transpose2d.input",
                       "aten.conv_transpose3d.input"};
    std::map<std::string, const Value*> by_name;
    for (const Value* v : p_.graph->inputs())
      if (pt2e::IsStoredWeight(p_, v)) by_name.emplace(pt2e::WeightName(p_, v), v);
    for (const auto& [name, t] : p_.weights) {
      if (t.sizes.size() < 2) {
        report->other_bytes += static_cast<uint64_t>(t.nbytes());
        ++report->other_tensors;
        continue;
      }
      QuantizedRow row;
      row.name = name;
      row.dtype = std::string(ir::Name(t.dtype));
      row.sizes = t.sizes;
      row.bytes_before = row.bytes_after = static_cast<uint64_t>(t.nbytes());
      const auto v = by_name.find(name);
      if (v != by_name.end() && std::find(weights.begin(), weights.end(), v->second) != weights.end()) {
        const quantizer::Error& error = errors.at(name);
        row.config = pt2e::ShortName(recipe_);
        row.asked = row.measured = true;
        row.bytes_after = BytesByRecipe(recipe_, t);
        row.relative_error = error.relative;
        row.max_error = error.max;
        row.squares = error.reference;
      } else if (v != by_name.end()) {
        row.why = "not read as a layer's weight";
        for (const Node* n : v->second->users())
          if (layers.contains(n->op_name()) && n->Get("weight").value() == v->second)
            row.why = WhyNot(*n), row.asked = row.why != kExcluded && row.why != kAsBudgetChose;
      } else {
        row.why = "updated by the program, or not read";
      }
      report->rows.push_back(std::move(row));
    }
  }

 private:
  static constexpr std::string_view kExcluded = "excluded";
  std::string WhyNot(const Node& n) const {
    if (excluded_(n)) return std::string(kExcluded);
    if (in_float_.contains(&n)) return std::string(kAsBudgetChose);
    if (n.output()->dtype() != DType::kFloat32) return "not of f32";
    const std::string_view origin = pt2e::OriginOf(n);
    return origin.empty() || recipe_.by_operator
               ? text::StrCat("the recipe takes no ", n.op_name())
               : text::StrCat("the recipe takes no ", n.op_name(), " of ", origin, " unless it is included");
  }

  const ir::Program& p_;
  const pt2e::Recipe& recipe_;
  const NodeChoice& excluded_;
  const absl::flat_hash_set<const Node*>& in_float_;
};

}  // namespace

bool QuantizesByRecipe(const ConvertOptions& o) {
  return pt2e::IsRecipe(o.quantize) || (o.quantize == kAutomatic && Samples::Given(o));
}

absl::StatusOr<std::shared_ptr<QuantizeReport>> QuantizeByRecipe(ir::Program& p, const ConvertOptions& o,
                                                                 const std::string& folder,
                                                                 std::vector<std::string>* lines) {
  auto recipe = pt2e::ParseRecipe(o.quantize == kAutomatic ? kRecipeOfBudget : o.quantize);
  if (!recipe.ok())
    return UsageError(std::string(recipe.status().message()), "docs/quantize.md lists the names and their keys");
  RETURN_IF_ERROR(CheckOptions(o, *recipe));
  if (const std::vector<std::string> missing = WeightsWithoutValues(p); !missing.empty())
    return MissingWeights(p, missing, kGiveWeights);
  for (const Node* n : *p.graph)
    if (n->op_name().starts_with("quantized_decomposed."))
      return WithHelp(absl::InvalidArgumentError("the program is quantized already"),
                      "its float program can be; slipway convert takes it as it is");
  std::optional<Samples> samples;
  if (Samples::Given(o)) {
    ASSIGN_OR_RETURN(samples, Samples::Open(p, o));
  }

  pt2e::Selection selection;
  ASSIGN_OR_RETURN(selection.in_place, MakeFunctional(p));
  ASSIGN_OR_RETURN(const std::unique_ptr<io::ScratchFile> folded, io::ScratchFile::Make(folder));
  ScratchTensors folded_tensors(*folded, 0);
  RETURN_IF_ERROR(pt2e::FoldNorms(p, [&](DType dtype, const std::vector<int64_t>& sizes, const std::string& bytes) {
    return folded_tensors.Add(dtype, sizes, bytes);
  }));
  RETURN_IF_ERROR(folded_tensors.Map());
  if (recipe->quantizer == pt2e::Recipe::Quantizer::kXnnpack) RETURN_IF_ERROR(pt2e::NumbersBecomeConstants(p));

  ASSIGN_OR_RETURN(const NodeChoice excluded, NodeChoice::Make(p, o.quantize_exclude, "--exclude"));
  ASSIGN_OR_RETURN(const NodeChoice included, NodeChoice::Make(p, o.quantize_include, "--include"));
  selection.excluded = excluded, selection.included = included;
  pt2e::Annotations annotations = pt2e::Annotate(p, *recipe, selection);
  if (annotations.edges.empty())
    return WithHelp(absl::InvalidArgumentError(text::StrCat("nothing is quantized: ", pt2e::ShortName(*recipe),
                                                            " takes no layer of the program")),
                    recipe->by_operator ? "only operators on f32 tensors are taken; docs/quantize.md lists them"
                                        : "match=operators takes layers whatever module of Python they come from");

  ASSIGN_OR_RETURN(const std::unique_ptr<io::ScratchFile> scratch, io::ScratchFile::Make(folder));
  ScratchTensors tensors(*scratch, 0);
  Pt2eValues values(p, *recipe, o, samples ? &*samples : nullptr, tensors);
  auto report = std::make_shared<QuantizeReport>();
  absl::flat_hash_set<const Node*> in_float;
  if (!o.error_budget.empty()) {
    ASSIGN_OR_RETURN(in_float, LayersInFloat(p, *recipe, selection, o, *samples, values, &report->choice));
    selection.excluded = [&](const Node& n) { return excluded(n) || in_float.contains(&n); };
    annotations = pt2e::Annotate(p, *recipe, selection);
  }
  ASSIGN_OR_RETURN(const pt2e::QuantizedValues quantized, values.Of(annotations));
  ReportRows(p, *recipe, excluded, in_float).Add(values.errors(), pt2e::WeightsOf(*p.graph, annotations), report.get());
  const size_t scales = recipe->dynamic ? 0 : pt2e::GroupActivations(*p.graph, annotations).size();
  RETURN_IF_ERROR(pt2e::Rewrite(p, annotations, *recipe, quantized));
  RETURN_IF_ERROR(passes::EliminateDeadCode(p));
  ir::RemoveUnreadWeights(p);

  std::string line = text::StrCat(quantized.activations.size(), " activations become integers, with ");
  if (recipe->dynamic)
    text::StrAppend(&line, "scales of each run");
  else
    text::StrAppend(&line, scales, " scales of ", samples->size(), samples->size() == 1 ? " sample" : " samples");
  lines->push_back(std::move(line));
  if (!o.error_budget.empty())
    lines->push_back(text::StrCat(in_float.size(), in_float.size() == 1 ? " layer stays" : " layers stay",
                                  " in float; outputs on calibration data are ", Percent(report->choice.output_error),
                                  " off"));
  return report;
}

}  // namespace slipway::driver
