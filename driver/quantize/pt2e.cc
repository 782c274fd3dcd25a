// The order is torchao's: fold, annotate, observe, convert. One run of a sample gives all observed values, as far as
// they are held at once, and the observers of different values work side by side; samples follow one another, since
// histograms depend on the order.
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
#include "driver/quantize/quantize.h"
#include "driver/quantize/samples.h"
#include "driver/quantize/scratch_tensors.h"
#include "io/io_error.h"
#include "ir/clone.h"
#include "passes/pass.h"
#include "planner/evaluator.h"
#include "quantizer/loops/loops.h"
#include "quantizer/pt2e/annotate.h"
#include "quantizer/pt2e/fold_norms.h"
#include "quantizer/pt2e/observers.h"
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

constexpr std::string_view kGiveSamples =
    "--calibration FILE.safetensors, or --calibration-images, gives inputs to run the program on";

absl::Status CheckOptions(const ConvertOptions& o, const pt2e::Recipe& recipe) {
  RETURN_IF_ERROR(Samples::CheckOptions(o));
  if (!recipe.dynamic && !Samples::Given(o))
    return UsageError(text::StrCat(o.quantize, " looks at activations"), kGiveSamples);
  std::vector<std::string_view> others;
  if (!o.embeddings.empty()) others.push_back("--embeddings");
  if (!o.error_budget.empty()) others.push_back("--error-budget");
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

// The dense elements of an f32 tensor: where they lie, or copied to `held`.
absl::StatusOr<absl::Span<const float>> Floats(const ir::TensorRef& t, std::string* held) {
  if (t.dtype != DType::kFloat32) return absl::InternalError("observed a tensor that is not of f32");
  const absl::Span<const uint8_t> mapped = ir::MappedBytes(*t.storage);
  const auto n = static_cast<size_t>(t.numel());
  const uint8_t* data = mapped.data() + t.offset;
  if (mapped.empty() || !t.is_contiguous() || reinterpret_cast<uintptr_t>(data) % alignof(float) != 0) {
    ASSIGN_OR_RETURN(*held, ir::ReadDense(t));
    data = reinterpret_cast<const uint8_t*>(held->data());
  }
  return absl::MakeConstSpan(reinterpret_cast<const float*>(data), n);
}

// Bytes of values that one run gives to observers. Above, the program runs again for the rest.
constexpr double kMostObserved = 512 << 20;

class Quantizer {
 public:
  Quantizer(ir::Program& p, const pt2e::Recipe& recipe, const ConvertOptions& o, ScratchTensors& tensors)
      : p_(p), recipe_(recipe), options_(o), tensors_(tensors), report_(std::make_shared<QuantizeReport>()) {}

  // `samples` may lack where a dynamic recipe has nothing to observe.
  absl::Status Run(const pt2e::Annotations& a, const std::optional<Samples>& samples) {
    if (!recipe_.dynamic) groups_ = pt2e::GroupActivations(*p_.graph, a);
    const std::vector<Value*> weights = pt2e::WeightsOf(*p_.graph, a);
    const pt2e::ConstantValues constants(p_);
    RETURN_IF_ERROR(Evaluate(constants, weights));
    for (Value* w : weights)
      if (!constants.Contains(w)) observed_weights_.push_back(w);
    if (samples) {
      if (recipe_.dynamic && observed_weights_.empty())
        return UsageError(text::StrCat(options_.quantize, " computes scales of activations while the program runs"),
                          "it takes no calibration data");
      RETURN_IF_ERROR(Observe(*samples));
    } else if (!observed_weights_.empty()) {
      return WithPlace(UsageError("a layer's weight that is computed of inputs", kGiveSamples),
                       PlaceOf(observed_weights_[0]));
    }

    pt2e::QuantizedValues values;
    if (recipe_.dynamic) {
      for (Value* v : a.results) values.activations.try_emplace(v);
      for (const pt2e::Annotations::Edge& e : a.edges)
        if (!e.weight) values.activations.try_emplace(e.value);
      activations_ = values.activations.size();
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      auto parameters = observers_[g]->Finish(recipe_.activations());
      if (!parameters.ok()) return WithPlace(parameters.status(), PlaceOf(groups_[g].values[0]));
      activations_ += groups_[g].values.size();
      for (Value* v : groups_[g].values) {
        pt2e::Quantized q{{parameters->scale}, parameters->zero_point, std::nullopt};
        if (constants.Contains(v)) {
          ASSIGN_OR_RETURN(
              q.codes, Codes(Constant(v), {parameters->scale}, parameters->zero_point, recipe_.activations(), nullptr));
        }
        values.activations.emplace(v, std::move(q));
      }
    }
    for (Value* w : weights) {
      ASSIGN_OR_RETURN(pt2e::Quantized q, QuantizeWeight(w, constants.Contains(w)));
      values.weights.emplace(w, std::move(q));
    }
    Report();
    return pt2e::Rewrite(p_, a, recipe_, values);
  }

  const std::shared_ptr<QuantizeReport>& report() const { return report_; }
  size_t activations() const { return activations_; }
  size_t scales() const { return groups_.size(); }

 private:
  std::string PlaceOf(const Value* v) const {
    if (!v->producer()) return text::StrCat("input ", v->name());
    const std::string place = v->producer()->source() ? v->producer()->source()->Describe() : "";
    return text::StrCat("node ", v->name(), place.empty() ? "" : " in ", place);
  }

  // The values that are computed of weights alone.
  absl::Status Evaluate(const pt2e::ConstantValues& constants, const std::vector<Value*>& weights) {
    std::vector<Value*> computed;
    const auto add = [&](Value* v) {
      if (v->producer() && constants.Contains(v) && std::find(computed.begin(), computed.end(), v) == computed.end())
        computed.push_back(v);
    };
    for (Value* w : weights) add(w);
    for (const pt2e::ActivationGroup& g : groups_)
      for (Value* v : g.values) add(v);
    if (computed.empty()) return absl::OkStatus();
    planner::PlanEvaluator evaluator({.threads = Threads(options_)});
    ASSIGN_OR_RETURN(const std::vector<ir::TensorRef> values,
                     evaluator.Evaluate(ir::Extract(p_, ir::RegionThatComputes(*p_.graph, computed), computed), {}));
    for (size_t i = 0; i < computed.size(); ++i) computed_.emplace(computed[i], values[i]);
    return absl::OkStatus();
  }
  const ir::TensorRef& Constant(const Value* v) const {
    return v->producer() ? computed_.at(v) : p_.weights.at(pt2e::WeightName(p_, v));
  }

  // Where a value comes from in each run.
  struct Origin {
    enum Kind : uint8_t { kConstant, kInput, kComputed } kind;
    size_t index;  // among the inputs of a run, or what it gives
  };

  absl::Status Observe(const Samples& samples) {
    for (const Value* w : observed_weights_)
      if (!w->type().StaticSizes())
        return WithPlace(absl::UnimplementedError("a layer's weight that is computed of inputs and has dynamic sizes"),
                         PlaceOf(w));
    for (size_t i = 0; i < groups_.size(); ++i) observers_.push_back(pt2e::ActivationObserver::Make(recipe_.observer));
    weight_observers_.resize(observed_weights_.size());
    const pt2e::ConstantValues constants(p_);
    const std::map<std::string, int64_t, std::less<>> sizes = LargestSizes(samples);
    for (size_t first = 0, last; first < groups_.size() || first == 0; first = std::max<size_t>(last, 1)) {
      double bytes = 0;
      for (last = first; last < groups_.size(); ++last) {
        for (const Value* v : groups_[last].values)
          if (!constants.Contains(v)) bytes += BytesOf(*v, sizes);
        if (last > first && bytes > kMostObserved) break;
      }
      RETURN_IF_ERROR(Observe(samples, first, last, constants));
    }
    return absl::OkStatus();
  }

  // What symbols of input sizes stand for at most.
  std::map<std::string, int64_t, std::less<>> LargestSizes(const Samples& samples) const {
    std::map<std::string, int64_t, std::less<>> sizes;
    for (size_t i = 0; i < samples.size(); ++i) {
      size_t j = 0;
      for (size_t k = 0; k < p_.input_specs.size(); ++k) {
        const ir::Type& type = p_.graph->inputs()[k]->type();
        if (p_.input_specs[k].kind != ir::InputSpec::kUser || type.kind == ir::Type::kConstant) continue;
        const std::vector<int64_t> of_sample = samples.SizesOf(i, j++);
        for (size_t d = 0; d < of_sample.size() && d < type.sizes.size(); ++d)
          if (!type.sizes[d].constant() && !type.sizes[d].name().empty()) {
            int64_t& most = sizes[std::string(type.sizes[d].name())];
            most = std::max(most, of_sample[d]);
          }
      }
    }
    return sizes;
  }
  // About how many bytes a value takes in a run; sizes that are not known count as 1.
  static double BytesOf(const Value& v, const std::map<std::string, int64_t, std::less<>>& sizes) {
    double bytes = sizeof(float);
    for (const ir::Sym& size : v.sizes())
      bytes *= static_cast<double>(ir::Evaluate(size, [&](std::string_view symbol) -> std::optional<int64_t> {
                                     const auto it = sizes.find(symbol);
                                     if (it == sizes.end()) return std::nullopt;
                                     return it->second;
                                   }).value_or(1));
    return bytes;
  }

  // Observes the groups [first, last), and with the first of them the weights. Each run ends at the last of them.
  absl::Status Observe(const Samples& samples, size_t first, size_t last, const pt2e::ConstantValues& constants) {
    absl::flat_hash_map<const Value*, size_t> inputs;
    for (size_t i = 0; i < p_.input_specs.size(); ++i)
      if (p_.input_specs[i].kind == ir::InputSpec::kUser && p_.graph->inputs()[i]->type().kind != ir::Type::kConstant)
        inputs.emplace(p_.graph->inputs()[i], inputs.size());
    std::vector<std::string> names;
    absl::flat_hash_map<const Value*, Origin> origins;
    const auto add = [&](const Value* v) {
      if (origins.contains(v)) return;
      if (constants.Contains(v)) {
        origins.emplace(v, Origin{Origin::kConstant, 0});
      } else if (const auto it = inputs.find(v); it != inputs.end()) {
        origins.emplace(v, Origin{Origin::kInput, it->second});
      } else {
        origins.emplace(v, Origin{Origin::kComputed, names.size()});
        names.push_back(v->name());
      }
    };
    for (size_t g = first; g < last; ++g)
      for (const Value* v : groups_[g].values) add(v);
    const std::vector<Value*> weights = first == 0 ? observed_weights_ : std::vector<Value*>();
    for (const Value* v : weights) add(v);

    std::unique_ptr<ir::Program> copy = ir::Clone(p_);
    copy->graph->outputs.clear();
    copy->output_specs.clear();
    planner::PlanEvaluator evaluator({.threads = Threads(options_)});
    const auto prepared = evaluator.Prepare(std::move(copy), names);
    if (!prepared.ok()) return prepared.status();
    for (size_t i = 0; i < samples.size(); ++i) {
      const std::string where = text::StrCat("sample ", i, " of calibration data");
      ASSIGN_OR_RETURN(const std::vector<ir::TensorRef> sample, samples.Read(i));
      auto values = (*prepared)->Run(sample);
      if (!values.ok()) return WithPlace(values.status(), where);
      const auto tensor = [&](const Value* v) -> const ir::TensorRef& {
        const Origin& o = origins.at(v);
        return o.kind == Origin::kConstant ? Constant(v)
               : o.kind == Origin::kInput  ? sample[o.index]
                                           : (*values)[o.index];
      };
      RETURN_IF_ERROR(quantizer::InParallel(Threads(options_), last - first, [&](size_t g) -> absl::Status {
        for (const Value* v : groups_[first + g].values) {
          std::string held;
          ASSIGN_OR_RETURN(const absl::Span<const float> x, Floats(tensor(v), &held));
          if (absl::Status s = observers_[first + g]->Add(x.data(), static_cast<int64_t>(x.size())); !s.ok())
            return WithPlace(s, text::StrCat(PlaceOf(v), ", ", where));
        }
        return absl::OkStatus();
      }));
      for (size_t w = 0; w < weights.size(); ++w) {
        std::string held;
        const ir::TensorRef& t = tensor(weights[w]);
        ASSIGN_OR_RETURN(const absl::Span<const float> x, Floats(t, &held));
        auto& observer = weight_observers_[w];
        if (!observer) observer.emplace(ChannelsOf(t), static_cast<int64_t>(x.size()));
        if (absl::Status s = observer->Add(x.data(), 0, static_cast<int64_t>(x.size())); !s.ok())
          return WithPlace(s, text::StrCat(PlaceOf(weights[w]), ", ", where));
      }
    }
    return absl::OkStatus();
  }

  int64_t ChannelsOf(const ir::TensorRef& t) const { return recipe_.per_channel && !t.sizes.empty() ? t.sizes[0] : 1; }

  // The integers of a constant, `error` getting what they lose.
  absl::StatusOr<ir::TensorRef> Codes(const ir::TensorRef& t, const std::vector<float>& scales, int64_t zero_point,
                                      const pt2e::Integers& integers, quantizer::ErrorSums* error) {
    std::string held;
    ASSIGN_OR_RETURN(const absl::Span<const float> x, Floats(t, &held));
    std::string codes(x.size(), '\0');
    auto* to = reinterpret_cast<int8_t*>(codes.data());
    const int64_t size = std::max<int64_t>(static_cast<int64_t>(x.size() / scales.size()), 1);
    constexpr int64_t kChunk = 4096;
    std::vector<float> back(kChunk);
    for (int64_t at = 0; at < static_cast<int64_t>(x.size());) {
      const int64_t n = std::min({kChunk, size - at % size, static_cast<int64_t>(x.size()) - at});
      const float scale = scales[static_cast<size_t>(at / size)];
      pt2e::Quantize(x.data() + at, n, scale, zero_point, integers, to + at);
      if (error) {
        for (int64_t i = 0; i < n; ++i) back[static_cast<size_t>(i)] = static_cast<float>(to[at + i]) * scale;
        quantizer::BestLoops().errors(x.data() + at, back.data(), n, error);
      }
      at += n;
    }
    return tensors_.Add(integers.dtype, t.sizes, codes);
  }

  absl::StatusOr<pt2e::Quantized> QuantizeWeight(Value* w, bool constant) {
    pt2e::Quantized q;
    const std::string place = w->producer() ? PlaceOf(w) : text::StrCat("'", pt2e::WeightName(p_, w), "'");
    if (!constant) {
      const auto i = static_cast<size_t>(std::find(observed_weights_.begin(), observed_weights_.end(), w) -
                                         observed_weights_.begin());
      q.scales = weight_observers_[i]->Scales(recipe_.weights());
      return q;
    }
    const ir::TensorRef& t = Constant(w);
    std::string held;
    ASSIGN_OR_RETURN(const absl::Span<const float> x, Floats(t, &held));
    if (x.empty()) return WithPlace(absl::InvalidArgumentError("a weight without elements"), place);
    pt2e::WeightObserver observer(ChannelsOf(t), static_cast<int64_t>(x.size()));
    if (absl::Status s = observer.Add(x.data(), 0, static_cast<int64_t>(x.size())); !s.ok())
      return io::Prefixed(text::StrCat(place, ": "), s);
    q.scales = observer.Scales(recipe_.weights());
    quantizer::ErrorSums sums;
    ASSIGN_OR_RETURN(q.codes, Codes(t, q.scales, 0, recipe_.weights(), &sums));
    if (!w->producer()) errors_.emplace(pt2e::WeightName(p_, w), quantizer::Error::Of(sums));
    return q;
  }

  // A row for each weight of two and more dimensions, by name.
  void Report() {
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
        report_->other_bytes += static_cast<uint64_t>(t.nbytes());
        ++report_->other_tensors;
        continue;
      }
      QuantizedRow row;
      row.name = name;
      row.dtype = std::string(ir::Name(t.dtype));
      row.sizes = t.sizes;
      row.bytes_before = row.bytes_after = static_cast<uint64_t>(t.nbytes());
      if (const auto it = errors_.find(name); it != errors_.end()) {
        row.config = pt2e::ShortName(recipe_);
        row.asked = row.measured = true;
        row.bytes_after = static_cast<uint64_t>(t.numel() + (recipe_.per_channel ? t.sizes[0] * 12 : 0));
        row.relative_error = it->second.relative;
        row.max_error = it->second.max;
        row.squares = it->second.reference;
      } else if (const auto v = by_name.find(name); v != by_name.end()) {
        row.why = "not read as a layer's weight";
        for (const Node* n : v->second->users())
          if (layers.contains(n->op_name()) && n->Get("weight").value() == v->second)
            row.why = WhyNot(*n), row.asked = row.why != kExcluded;
      } else {
        row.why = "updated by the program, or not read";
      }
      report_->rows.push_back(std::move(row));
    }
  }
  static constexpr std::string_view kExcluded = "excluded";
  std::string WhyNot(const Node& n) const {
    if (excluded_ && (*excluded_)(n)) return std::string(kExcluded);
    if (n.output()->dtype() != DType::kFloat32) return "not of f32";
    const std::string_view origin = pt2e::OriginOf(n);
    return origin.empty() || recipe_.by_operator
               ? text::StrCat("the recipe takes no ", n.op_name())
               : text::StrCat("the recipe takes no ", n.op_name(), " of ", origin, " unless it is included");
  }

 public:
  void set_excluded(const NodeChoice* excluded) { excluded_ = excluded; }

 private:
  ir::Program& p_;
  const pt2e::Recipe& recipe_;
  const ConvertOptions& options_;
  ScratchTensors& tensors_;
  const NodeChoice* excluded_ = nullptr;
  std::shared_ptr<QuantizeReport> report_;
  std::vector<pt2e::ActivationGroup> groups_;                         // none in dynamic recipes
  size_t activations_ = 0;                                            // that become integers
  std::vector<std::unique_ptr<pt2e::ActivationObserver>> observers_;  // of groups
  std::vector<Value*> observed_weights_;                              // that are made anew in each run
  std::vector<std::optional<pt2e::WeightObserver>> weight_observers_;
  absl::flat_hash_map<const Value*, ir::TensorRef> computed_;
  std::map<std::string, quantizer::Error> errors_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<QuantizeReport>> QuantizeByRecipe(ir::Program& p, const ConvertOptions& o,
                                                                 const std::string& folder,
                                                                 std::vector<std::string>* lines) {
  auto recipe = pt2e::ParseRecipe(o.quantize);
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
  ASSIGN_OR_RETURN(const std::shared_ptr<io::MappedFile> folded_file, folded->Map());
  folded_tensors.Map(folded_file);
  if (recipe->quantizer == pt2e::Recipe::Quantizer::kXnnpack) RETURN_IF_ERROR(pt2e::NumbersBecomeConstants(p));

  ASSIGN_OR_RETURN(const NodeChoice excluded, NodeChoice::Make(p, o.quantize_exclude, "--exclude"));
  ASSIGN_OR_RETURN(const NodeChoice included, NodeChoice::Make(p, o.quantize_include, "--include"));
  selection.excluded = excluded, selection.included = included;
  const pt2e::Annotations annotations = pt2e::Annotate(p, *recipe, selection);
  if (annotations.edges.empty())
    return WithHelp(absl::InvalidArgumentError(text::StrCat("nothing is quantized: ", pt2e::ShortName(*recipe),
                                                            " takes no layer of the program")),
                    recipe->by_operator ? "only operators on f32 tensors are taken; docs/quantize.md lists them"
                                        : "match=operators takes layers whatever module of Python they come from");

  ASSIGN_OR_RETURN(const std::unique_ptr<io::ScratchFile> scratch, io::ScratchFile::Make(folder));
  ScratchTensors tensors(*scratch, 0);
  Quantizer quantizer(p, *recipe, o, tensors);
  quantizer.set_excluded(&excluded);
  RETURN_IF_ERROR(quantizer.Run(annotations, samples));
  ASSIGN_OR_RETURN(const std::shared_ptr<io::MappedFile> file, scratch->Map());
  tensors.Map(file);
  RETURN_IF_ERROR(passes::EliminateDeadCode(p));
  pt2e::RemoveUnreadWeights(p);
  std::string line = text::StrCat(quantizer.activations(), " activations become integers, with ");
  if (recipe->dynamic)
    text::StrAppend(&line, "scales of each run");
  else
    text::StrAppend(&line, quantizer.scales(), " scales of ", samples->size(),
                    samples->size() == 1 ? " sample" : " samples");
  lines->push_back(std::move(line));
  return quantizer.report();
}

}  // namespace slipway::driver
