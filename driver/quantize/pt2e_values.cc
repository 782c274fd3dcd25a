// One run of a sample gives all observed values, as far as they are held at once, and the observers of different values
// work side by side; samples follow one another, since histograms depend on the order.
#include "driver/quantize/pt2e_values.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "driver/edge/diagnostic.h"
#include "driver/quantize/quantize.h"
#include "io/io_error.h"
#include "ir/clone.h"
#include "planner/evaluator.h"
#include "quantizer/loops/loops.h"
#include "quantizer/pt2e/fold_norms.h"

namespace slipway::driver {
namespace {

namespace pt2e = quantizer::pt2e;
using ir::DType;
using ir::Value;
using SizeOfSymbol = std::map<std::string, int64_t, std::less<>>;

// Bytes of values that one run gives to observers. Above, the program runs again for the rest.
constexpr double kMostObserved = 512 << 20;

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

// About how many bytes a value takes in a run; sizes that are not known count as 1.
double BytesOf(const Value& v, const SizeOfSymbol& sizes) {
  double bytes = sizeof(float);
  for (const ir::Sym& size : v.sizes())
    bytes *= static_cast<double>(ir::Evaluate(size, [&](std::string_view symbol) -> std::optional<int64_t> {
                                   const auto it = sizes.find(symbol);
                                   if (it == sizes.end()) return std::nullopt;
                                   return it->second;
                                 }).value_or(1));
  return bytes;
}

}  // namespace

uint64_t BytesByRecipe(const pt2e::Recipe& recipe, const ir::TensorRef& weight) {
  constexpr int64_t kOfChannel = sizeof(float) + sizeof(int64_t);
  return static_cast<uint64_t>(weight.numel() + (recipe.per_channel ? weight.sizes[0] * kOfChannel : 0));
}

absl::StatusOr<pt2e::QuantizedValues> Pt2eValues::Of(const pt2e::Annotations& a) {
  pt2e::QuantizedValues values;
  std::vector<Group> groups, new_groups;
  if (recipe_.dynamic) {
    for (Value* v : a.results) values.activations.try_emplace(v);
    for (const pt2e::Annotations::Edge& e : a.edges)
      if (!e.weight) values.activations.try_emplace(e.value);
  } else {
    for (pt2e::ActivationGroup& g : pt2e::GroupActivations(*p_.graph, a)) {
      if (!groups_.contains(g.values)) new_groups.push_back(g.values);
      groups.push_back(std::move(g.values));
    }
  }
  const std::vector<Value*> weights = pt2e::WeightsOf(*p_.graph, a);
  std::vector<Value*> new_constants, observed, new_observed;
  for (Value* w : weights) {
    const bool is_new = !weights_.contains(w);
    if (!constants_.Contains(w)) observed.push_back(w);
    if (is_new) (constants_.Contains(w) ? new_constants : new_observed).push_back(w);
  }

  RETURN_IF_ERROR(EvaluateConstants(new_groups, new_constants));
  if (!samples_ && !observed.empty())
    return WithPlace(UsageError("a layer's weight that is computed of inputs", kGiveSamples), PlaceOf(observed[0]));
  if (samples_ && recipe_.dynamic && observed.empty())
    return UsageError(text::StrCat(options_.quantize, " computes scales of activations while the program runs"),
                      "it takes no calibration data");
  if (!new_groups.empty() || !new_observed.empty()) RETURN_IF_ERROR(Observe(new_groups, new_observed));
  for (Value* w : new_constants) {
    ASSIGN_OR_RETURN(weights_[w], QuantizeConstantWeight(w));
  }
  if (!new_groups.empty() || !new_constants.empty()) RETURN_IF_ERROR(tensors_.Map());

  for (const Group& g : groups) {
    const std::vector<pt2e::Quantized>& known = groups_.at(g);
    for (size_t i = 0; i < g.size(); ++i) values.activations.emplace(g[i], known[i]);
  }
  for (Value* w : weights) values.weights.emplace(w, weights_.at(w));
  return values;
}

std::string Pt2eValues::PlaceOf(const Value* v) const {
  if (!v->producer()) return text::StrCat("input ", v->name());
  const std::string place = v->producer()->source() ? v->producer()->source()->Describe() : "";
  return text::StrCat("node ", v->name(), place.empty() ? "" : " in ", place);
}

// The values that are computed of weights alone.
absl::Status Pt2eValues::EvaluateConstants(absl::Span<const Group> groups, absl::Span<Value* const> weights) {
  std::vector<Value*> computed;
  const auto add = [&](Value* v) {
    if (v->producer() && constants_.Contains(v) && !computed_.contains(v) &&
        std::find(computed.begin(), computed.end(), v) == computed.end())
      computed.push_back(v);
  };
  for (Value* w : weights) add(w);
  for (const Group& g : groups)
    for (Value* v : g) add(v);
  if (computed.empty()) return absl::OkStatus();
  planner::PlanEvaluator evaluator({.threads = Threads(options_)});
  ASSIGN_OR_RETURN(const std::vector<ir::TensorRef> values,
                   evaluator.Evaluate(ir::Extract(p_, ir::RegionThatComputes(*p_.graph, computed), computed), {}));
  for (size_t i = 0; i < computed.size(); ++i) computed_.emplace(computed[i], values[i]);
  return absl::OkStatus();
}

const ir::TensorRef& Pt2eValues::Constant(const Value* v) const {
  return v->producer() ? computed_.at(v) : p_.weights.at(pt2e::WeightName(p_, v));
}

absl::Status Pt2eValues::Observe(absl::Span<const Group> groups, absl::Span<Value* const> weights) {
  for (const Value* w : weights)
    if (!w->type().StaticSizes())
      return WithPlace(absl::UnimplementedError("a layer's weight that is computed of inputs and has dynamic sizes"),
                       PlaceOf(w));
  const SizeOfSymbol sizes = LargestSizes();
  for (size_t first = 0, last; first < groups.size() || first == 0; first = std::max<size_t>(last, 1)) {
    double bytes = 0;
    for (last = first; last < groups.size(); ++last) {
      for (const Value* v : groups[last])
        if (!constants_.Contains(v)) bytes += BytesOf(*v, sizes);
      if (last > first && bytes > kMostObserved) break;
    }
    RETURN_IF_ERROR(
        ObserveAtOnce(groups.subspan(first, last - first), first == 0 ? weights : absl::Span<Value* const>()));
  }
  return absl::OkStatus();
}

// What symbols of input sizes stand for at most.
SizeOfSymbol Pt2eValues::LargestSizes() const {
  SizeOfSymbol sizes;
  for (size_t i = 0; i < samples_->size(); ++i) {
    size_t j = 0;
    for (size_t k = 0; k < p_.input_specs.size(); ++k) {
      const ir::Type& type = p_.graph->inputs()[k]->type();
      if (p_.input_specs[k].kind != ir::InputSpec::kUser || type.kind == ir::Type::kConstant) continue;
      const std::vector<int64_t> of_sample = samples_->SizesOf(i, j++);
      for (size_t d = 0; d < of_sample.size() && d < type.sizes.size(); ++d)
        if (!type.sizes[d].constant() && !type.sizes[d].name().empty()) {
          int64_t& most = sizes[std::string(type.sizes[d].name())];
          most = std::max(most, of_sample[d]);
        }
    }
  }
  return sizes;
}

// One run a sample, which ends at the last of the values.
absl::Status Pt2eValues::ObserveAtOnce(absl::Span<const Group> groups, absl::Span<Value* const> weights) {
  // Where a value comes from in each run.
  struct Origin {
    enum Kind : uint8_t { kConstant, kInput, kComputed } kind;
    size_t index;  // among the inputs of a run, or what it gives
  };
  absl::flat_hash_map<const Value*, size_t> inputs;
  for (size_t i = 0; i < p_.input_specs.size(); ++i)
    if (p_.input_specs[i].kind == ir::InputSpec::kUser && p_.graph->inputs()[i]->type().kind != ir::Type::kConstant)
      inputs.emplace(p_.graph->inputs()[i], inputs.size());
  std::vector<std::string> names;
  absl::flat_hash_map<const Value*, Origin> origins;
  const auto add = [&](const Value* v) {
    if (origins.contains(v)) return;
    if (constants_.Contains(v)) {
      origins.emplace(v, Origin{Origin::kConstant, 0});
    } else if (const auto it = inputs.find(v); it != inputs.end()) {
      origins.emplace(v, Origin{Origin::kInput, it->second});
    } else {
      origins.emplace(v, Origin{Origin::kComputed, names.size()});
      names.push_back(v->name());
    }
  };
  for (const Group& g : groups)
    for (const Value* v : g) add(v);
  for (const Value* v : weights) add(v);

  std::unique_ptr<ir::Program> copy = ir::Clone(p_);
  copy->graph->outputs.clear();
  copy->output_specs.clear();
  planner::PlanEvaluator evaluator({.threads = Threads(options_)});
  const auto prepared = evaluator.Prepare(std::move(copy), names);
  if (!prepared.ok()) return prepared.status();
  std::vector<std::unique_ptr<pt2e::ActivationObserver>> observers;
  for (size_t i = 0; i < groups.size(); ++i) observers.push_back(pt2e::ActivationObserver::Make(recipe_.observer));
  std::vector<std::optional<pt2e::WeightObserver>> weight_observers(weights.size());
  for (size_t i = 0; i < samples_->size(); ++i) {
    const std::string where = text::StrCat("sample ", i, " of calibration data");
    ASSIGN_OR_RETURN(const std::vector<ir::TensorRef> sample, samples_->Read(i));
    auto values = (*prepared)->Run(sample);
    if (!values.ok()) return WithPlace(values.status(), where);
    const auto tensor = [&](const Value* v) -> const ir::TensorRef& {
      const Origin& o = origins.at(v);
      return o.kind == Origin::kConstant ? Constant(v)
             : o.kind == Origin::kInput  ? sample[o.index]
                                         : (*values)[o.index];
    };
    RETURN_IF_ERROR(quantizer::InParallel(Threads(options_), groups.size(), [&](size_t g) -> absl::Status {
      for (const Value* v : groups[g]) {
        std::string held;
        ASSIGN_OR_RETURN(const absl::Span<const float> x, Floats(tensor(v), &held));
        if (absl::Status s = observers[g]->Add(x.data(), static_cast<int64_t>(x.size())); !s.ok())
          return WithPlace(s, text::StrCat(PlaceOf(v), ", ", where));
      }
      return absl::OkStatus();
    }));
    for (size_t w = 0; w < weights.size(); ++w) {
      std::string held;
      const ir::TensorRef& t = tensor(weights[w]);
      ASSIGN_OR_RETURN(const absl::Span<const float> x, Floats(t, &held));
      auto& observer = weight_observers[w];
      if (!observer) observer.emplace(ChannelsOf(t), static_cast<int64_t>(x.size()));
      if (absl::Status s = observer->Add(x.data(), 0, static_cast<int64_t>(x.size())); !s.ok())
        return WithPlace(s, text::StrCat(PlaceOf(weights[w]), ", ", where));
    }
  }

  for (size_t g = 0; g < groups.size(); ++g) {
    const auto parameters = observers[g]->Finish(recipe_.activations());
    if (!parameters.ok()) return WithPlace(parameters.status(), PlaceOf(groups[g][0]));
    std::vector<pt2e::Quantized> known;
    for (const Value* v : groups[g]) {
      known.push_back({{parameters->scale}, parameters->zero_point, std::nullopt});
      if (!constants_.Contains(v)) continue;
      ASSIGN_OR_RETURN(known.back().codes,
                       Codes(Constant(v), {parameters->scale}, parameters->zero_point, recipe_.activations(), nullptr));
    }
    groups_.emplace(groups[g], std::move(known));
  }
  for (size_t w = 0; w < weights.size(); ++w)
    weights_[weights[w]].scales = weight_observers[w]->Scales(recipe_.weights());
  return absl::OkStatus();
}

int64_t Pt2eValues::ChannelsOf(const ir::TensorRef& t) const {
  return recipe_.per_channel && !t.sizes.empty() ? t.sizes[0] : 1;
}

// The integers of a constant, `error` getting what they lose.
absl::StatusOr<ir::TensorRef> Pt2eValues::Codes(const ir::TensorRef& t, const std::vector<float>& scales,
                                                int64_t zero_point, const pt2e::Integers& integers,
                                                quantizer::ErrorSums* error) {
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

absl::StatusOr<pt2e::Quantized> Pt2eValues::QuantizeConstantWeight(Value* w) {
  const std::string place = w->producer() ? PlaceOf(w) : text::StrCat("'", pt2e::WeightName(p_, w), "'");
  const ir::TensorRef& t = Constant(w);
  std::string held;
  ASSIGN_OR_RETURN(const absl::Span<const float> x, Floats(t, &held));
  if (x.empty()) return WithPlace(absl::InvalidArgumentError("a weight without elements"), place);
  pt2e::WeightObserver observer(ChannelsOf(t), static_cast<int64_t>(x.size()));
  if (absl::Status s = observer.Add(x.data(), 0, static_cast<int64_t>(x.size())); !s.ok())
    return io::Prefixed(text::StrCat(place, ": "), s);
  pt2e::Quantized q;
  q.scales = observer.Scales(recipe_.weights());
  quantizer::ErrorSums sums;
  ASSIGN_OR_RETURN(q.codes, Codes(t, q.scales, 0, recipe_.weights(), &sums));
  if (!w->producer()) errors_.emplace(pt2e::WeightName(p_, w), quantizer::Error::Of(sums));
  return q;
}

}  // namespace slipway::driver
