// A layer's own error says in which order layers leave; it does not say what several make together, whose errors may
// cancel or grow on the way to the outputs. So the number of layers is found by measuring.
#include "driver/quantize/layer_budget.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/quantize/budget.h"
#include "driver/quantize/quantize.h"
#include "ir/clone.h"
#include "planner/evaluator.h"
#include "quantizer/pt2e/fold_norms.h"
#include "quantizer/pt2e/rewrite.h"
#include "weights/compare.h"

namespace slipway::driver {
namespace {

namespace pt2e = quantizer::pt2e;
using ir::Node;
using ir::Value;
using Nodes = absl::flat_hash_set<const Node*>;
using TensorRefs = std::vector<ir::TensorRef>;

// Samples that a layer's own error is measured on.
constexpr size_t kSamplesOfLayer = 4;
// Bytes of outputs of the float program that are kept; others are computed again.
constexpr uint64_t kMostKept = 256 << 20;

// A copy of a program whose outputs are the user's floating-point tensors, and what became of its nodes and values.
struct Copy {
  explicit Copy(const ir::Program& p) : program(ir::Clone(p)) {
    ir::Graph& g = *program->graph;
    for (size_t i = 0; i < g.inputs().size(); ++i) values[p.graph->inputs()[i]] = g.inputs()[i];
    auto from = p.graph->begin();
    for (Node* n : g) {
      nodes[*from] = n;
      for (size_t i = 0; i < n->outputs().size(); ++i)
        if (n->outputs()[i]) values[(*from)->outputs()[i]] = n->outputs()[i];
      ++from;
    }
    size_t kept = 0;
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      const Value* v = g.outputs[i].value();
      if (!v || program->output_specs[i].kind != ir::OutputSpec::kUser || v->type().kind != ir::Type::kTensor ||
          !ir::IsFloating(v->dtype()))
        continue;
      g.outputs[kept] = g.outputs[i];
      program->output_specs[kept++] = program->output_specs[i];
    }
    g.outputs.resize(kept);
    program->output_specs.resize(kept);
  }

  pt2e::Annotations Of(const pt2e::Annotations& a) const {
    pt2e::Annotations out;
    for (const pt2e::Annotations::Edge& e : a.edges)
      out.edges.push_back({nodes.at(e.user), values.at(e.value), e.weight});
    for (const Value* v : a.results) out.results.push_back(values.at(v));
    for (const auto& [x, y] : a.sharing) out.sharing.emplace_back(values.at(x), values.at(y));
    return out;
  }
  pt2e::QuantizedValues Of(const pt2e::QuantizedValues& given) const {
    pt2e::QuantizedValues out;
    for (const auto& [v, q] : given.activations) out.activations.emplace(values.at(v), q);
    for (const auto& [v, q] : given.weights) out.weights.emplace(values.at(v), q);
    return out;
  }

  std::unique_ptr<ir::Program> program;
  absl::flat_hash_map<const Node*, Node*> nodes;
  absl::flat_hash_map<const Value*, Value*> values;
};

// ||y - q||² and ||y||² of each output.
class OutputError {
 public:
  absl::Status Add(const TensorRefs& float_outputs, const TensorRefs& outputs) {
    sums_.resize(float_outputs.size());
    for (size_t i = 0; i < float_outputs.size(); ++i) {
      ASSIGN_OR_RETURN(const std::vector<double> y, weights::ToDoubles(float_outputs[i]));
      ASSIGN_OR_RETURN(const std::vector<double> q, weights::ToDoubles(outputs[i]));
      if (y.size() != q.size()) return absl::InternalError("a quantized program's output has other sizes");
      for (size_t j = 0; j < y.size(); ++j) {
        if (y[j] == q[j] || (std::isnan(y[j]) && std::isnan(q[j]))) {
          if (std::isfinite(y[j])) sums_[i].squares += y[j] * y[j];
          continue;
        }
        const double d = y[j] - q[j];
        sums_[i].errors += std::isfinite(d) ? d * d : std::numeric_limits<double>::infinity();
        sums_[i].squares += std::isfinite(y[j]) ? y[j] * y[j] : 0;
      }
    }
    return absl::OkStatus();
  }
  double Largest() const {
    double largest = 0;
    for (const Sums& s : sums_) largest = std::max(largest, s.errors > 0 ? std::sqrt(s.errors / s.squares) : 0);
    return largest;
  }

 private:
  struct Sums {
    double errors = 0, squares = 0;
  };
  std::vector<Sums> sums_;
};

class LayerMeasure {
 public:
  LayerMeasure(const ir::Program& p, const pt2e::Recipe& recipe, const ConvertOptions& o, const Samples& samples)
      : p_(p), recipe_(recipe), samples_(samples), evaluator_({.threads = Threads(o)}), kept_(samples.size()) {}

  absl::Status Prepare() {
    Copy copy(p_);
    if (copy.program->graph->outputs.empty())
      return absl::InvalidArgumentError("--error-budget: the program has no output of floating-point numbers");
    ASSIGN_OR_RETURN(float_, evaluator_.Prepare(std::move(copy.program)));
    return absl::OkStatus();
  }

  // Of the program quantized so, on the first `samples`.
  absl::StatusOr<double> Error(const pt2e::Annotations& a, const pt2e::QuantizedValues& values, size_t samples) {
    if (a.edges.empty()) return 0;
    Copy copy(p_);
    RETURN_IF_ERROR(pt2e::Rewrite(*copy.program, copy.Of(a), recipe_, copy.Of(values)));
    ASSIGN_OR_RETURN(const auto quantized, evaluator_.Prepare(std::move(copy.program)));
    OutputError error;
    for (size_t i = 0; i < samples; ++i) {
      ASSIGN_OR_RETURN(const TensorRefs sample, samples_.Read(i));
      ASSIGN_OR_RETURN(const TensorRefs expected, FloatOutputs(i, sample));
      ASSIGN_OR_RETURN(const TensorRefs outputs, quantized->Run(sample));
      RETURN_IF_ERROR(error.Add(expected, outputs));
    }
    return error.Largest();
  }

 private:
  absl::StatusOr<TensorRefs> FloatOutputs(size_t i, const TensorRefs& sample) {
    if (!kept_[i].empty()) return kept_[i];
    ASSIGN_OR_RETURN(TensorRefs outputs, float_->Run(sample));
    uint64_t bytes = 0;
    for (const ir::TensorRef& t : outputs) bytes += static_cast<uint64_t>(t.nbytes());
    if (kept_bytes_ + bytes <= kMostKept) kept_bytes_ += bytes, kept_[i] = outputs;
    return outputs;
  }

  const ir::Program& p_;
  const pt2e::Recipe& recipe_;
  const Samples& samples_;
  planner::PlanEvaluator evaluator_;
  std::unique_ptr<ir::PreparedProgram> float_;
  std::vector<TensorRefs> kept_;  // outputs of the float program by sample
  uint64_t kept_bytes_ = 0;
};

struct Layer {
  const Node* node = nullptr;
  bool reads_weight = false;
  std::string weight;  // its FQN; "" where it is computed
  double error = 0;    // of the outputs where the layer alone is quantized
};

// In the order of the graph.
std::vector<Layer> LayersOf(const ir::Program& p, const pt2e::Annotations& a) {
  absl::flat_hash_map<const Node*, Layer> by_node;
  for (const pt2e::Annotations::Edge& e : a.edges) {
    Layer& l = by_node[e.user];
    l.node = e.user;
    if (!e.weight) continue;
    l.reads_weight = true;
    if (pt2e::IsStoredWeight(p, e.value)) l.weight = pt2e::WeightName(p, e.value);
  }
  std::vector<Layer> layers;
  for (const Node* n : *p.graph)
    if (const auto it = by_node.find(n); it != by_node.end()) layers.push_back(it->second);
  return layers;
}

// Whether there is an entry for every annotated value.
bool Covers(const pt2e::QuantizedValues& values, const pt2e::Annotations& a) {
  return std::all_of(a.edges.begin(), a.edges.end(),
                     [&](const pt2e::Annotations::Edge& e) {
                       return (e.weight ? values.weights : values.activations).contains(e.value);
                     }) &&
         std::all_of(a.results.begin(), a.results.end(),
                     [&](const Value* v) { return values.activations.contains(v); });
}

class Search {
 public:
  Search(const ir::Program& p, const pt2e::Recipe& recipe, const pt2e::Selection& selection, const ConvertOptions& o,
         const Samples& samples, Pt2eValues& values, QuantizeChoice* choice)
      : p_(p), recipe_(recipe), selection_(selection), samples_(samples), values_(values), choice_(choice),
        measure_(p, recipe, o, samples) {}

  absl::StatusOr<Nodes> Run(double budget) {
    choice_->of_outputs = true;
    choice_->error_budget = budget;
    const pt2e::Annotations all = Annotate({});
    layers_ = LayersOf(p_, all);
    RETURN_IF_ERROR(measure_.Prepare());
    ASSIGN_OR_RETURN(const double whole, ErrorWith(0));
    choice_->output_error = whole;
    if (whole <= budget) return Nodes();
    RETURN_IF_ERROR(Rank(all));
    ASSIGN_OR_RETURN(const size_t enough, Bisect(whole, budget));
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& l = layers_[i];
      if (l.weight.empty()) continue;
      const ir::TensorRef& t = p_.weights.at(l.weight);
      choice_->forms.push_back({l.weight, "", static_cast<uint64_t>(t.nbytes()), 0, i < enough});
      choice_->forms.push_back({l.weight, pt2e::ShortName(recipe_), BytesByRecipe(recipe_, t), l.error, i >= enough});
    }
    return First(enough);
  }

 private:
  Nodes First(size_t count) const {
    Nodes out;
    for (size_t i = 0; i < count; ++i) out.insert(layers_[i].node);
    return out;
  }
  pt2e::Annotations Annotate(const Nodes& left) const {
    pt2e::Selection with = selection_;
    with.excluded = [&](const Node& n) { return left.contains(&n) || (selection_.excluded && selection_.excluded(n)); };
    return pt2e::Annotate(p_, recipe_, with);
  }

  // Of the outputs with the first `count` layers in float, on all samples.
  absl::StatusOr<double> ErrorWith(size_t count) {
    const pt2e::Annotations a = Annotate(First(count));
    ASSIGN_OR_RETURN(const pt2e::QuantizedValues values, values_.Of(a));
    ASSIGN_OR_RETURN(const double error, measure_.Error(a, values, samples_.size()));
    absl::flat_hash_set<std::string> quantized;
    for (size_t i = count; i < layers_.size(); ++i) quantized.insert(layers_[i].weight);
    uint64_t bytes = 0;
    for (const auto& [name, t] : p_.weights)
      bytes += quantized.contains(name) ? BytesByRecipe(recipe_, t) : static_cast<uint64_t>(t.nbytes());
    choice_->steps.push_back({text::StrCat(count, " of ", layers_.size(), " layers in float"), bytes, error});
    return error;
  }

  // Measures each layer alone, with the ranges of all together where these are known, since observing costs more than
  // running, and sorts: the one that leaves first is first.
  absl::Status Rank(const pt2e::Annotations& all) {
    ASSIGN_OR_RETURN(const pt2e::QuantizedValues of_all, values_.Of(all));
    Nodes others = First(layers_.size());
    for (Layer& l : layers_) {
      others.erase(l.node);
      const pt2e::Annotations a = Annotate(others);
      others.insert(l.node);
      std::optional<pt2e::QuantizedValues> of_layer;
      if (!Covers(of_all, a)) {
        ASSIGN_OR_RETURN(of_layer, values_.Of(a));
      }
      ASSIGN_OR_RETURN(l.error,
                       measure_.Error(a, of_layer ? *of_layer : of_all, std::min(samples_.size(), kSamplesOfLayer)));
    }
    std::stable_sort(layers_.begin(), layers_.end(), [](const Layer& a, const Layer& b) { return a.error > b.error; });
    return absl::OkStatus();
  }

  // The least number of layers in float that is enough, if errors only shrink with it. Begins where errors that add up
  // like independent ones would reach the budget.
  absl::StatusOr<size_t> Bisect(double error_of_none, double budget) {
    double squares = 0;
    for (const Layer& l : layers_) squares += l.error * l.error;
    double rest = squares;
    size_t guess = 0;
    for (; guess < layers_.size() && rest > 0 && error_of_none * std::sqrt(rest / squares) > budget; ++guess)
      rest -= layers_[guess].error * layers_[guess].error;
    size_t all_weights = layers_.size();  // so many in float, and no weight is quantized
    while (all_weights > 1 && !layers_[all_weights - 1].reads_weight) --all_weights;
    size_t few = 0, enough = all_weights;
    double error_of_few = error_of_none;
    while (few + 1 < enough) {
      const size_t middle = guess > few && guess < enough ? guess : few + (enough - few) / 2;
      guess = 0;
      ASSIGN_OR_RETURN(const double error, ErrorWith(middle));
      if (error <= budget)
        enough = middle, choice_->output_error = error;
      else
        few = middle, error_of_few = error;
    }
    if (enough < all_weights) return enough;
    return AnswerIsNo(text::StrCat("--error-budget ", Percent(budget), ": with ", few, " of ", layers_.size(),
                                   " layers in float the outputs are still ", Percent(error_of_few), " off"),
                      id::kNotQuantized);
  }

  const ir::Program& p_;
  const pt2e::Recipe& recipe_;
  const pt2e::Selection& selection_;
  const Samples& samples_;
  Pt2eValues& values_;
  QuantizeChoice* choice_;
  LayerMeasure measure_;
  std::vector<Layer> layers_;
};

}  // namespace

absl::StatusOr<absl::flat_hash_set<const Node*>> LayersInFloat(const ir::Program& p, const pt2e::Recipe& recipe,
                                                               const pt2e::Selection& selection,
                                                               const ConvertOptions& o, const Samples& samples,
                                                               Pt2eValues& values, QuantizeChoice* choice) {
  ASSIGN_OR_RETURN(const double budget, ParseErrorBudget(o.error_budget));
  return Search(p, recipe, selection, o, samples, values, choice).Run(budget);
}

}  // namespace slipway::driver
