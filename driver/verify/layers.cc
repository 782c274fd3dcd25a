// Three ways, by what B shows of its inside. A program shows all its values, which are compared with A's of the same
// names; since both are run by the same kernels, any other bit is a difference. An ONNX model is asked for the values
// whose names its nodes have from A, or else, like a library, which shows nothing, compared with what slipway itself
// converts of A's
// beginnings: that finds what the conversion does wrong, but not what was done to the file.
#include "driver/verify/layers.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/convert.h"
#include "driver/verify/onnx_runtime.h"
#include "io/temp_folder.h"
#include "ir/clone.h"

namespace slipway::driver {
namespace {

using Node = VerifyLayers::Node;

std::string LayerTypeOf(const ir::TensorRef& t) {
  return text::StrCat(ir::Name(t.dtype), "[", text::Join(t.sizes, ","), "]");
}

// A value of A with what it is called in B.
struct Pair {
  const ir::Value* a;
  std::string b;
  uint64_t bytes = 0;
};

// What the sizes of the inputs say of symbols.
text::Map<int64_t> SymbolsOf(const ir::Program& p, const Tensors& inputs) {
  text::Map<int64_t> values;
  const std::vector<const ir::Value*> taken = TakenInputs(p);
  for (size_t i = 0; i < taken.size() && i < inputs.size(); ++i)
    for (size_t d = 0; d < taken[i]->sizes().size() && d < inputs[i].sizes.size(); ++d)
      if (taken[i]->sizes()[d].kind() == ir::SymKind::kSymbol)
        values.try_emplace(std::string(taken[i]->sizes()[d].name()), inputs[i].sizes[d]);
  return values;
}

// About how much memory a value takes; sizes that are not known count as 1.
uint64_t BytesOf(const ir::Value& v, const text::Map<int64_t>& symbols) {
  uint64_t bytes = 8;
  for (ir::Sym s : v.sizes()) {
    const auto size = ir::Evaluate(s, [&](std::string_view name) -> std::optional<int64_t> {
      const auto it = symbols.find(name);
      return it == symbols.end() ? std::nullopt : std::optional<int64_t>(it->second);
    });
    bytes *= static_cast<uint64_t>(std::max<int64_t>(1, size.value_or(1)));
    if (bytes > (uint64_t{1} << 50)) break;
  }
  return bytes;
}

// The tensors that nodes of the root graph make and something uses.
std::vector<const ir::Value*> ValuesOf(const ir::Program& p) {
  std::vector<const ir::Value*> out;
  for (const ir::Node* n : *p.graph)
    for (const ir::Value* v : n->outputs())
      if (v && v->type().is_tensor() && (!v->users().empty() || p.graph->IsOutput(v))) out.push_back(v);
  return out;
}

Node Describe(const ir::Value& v) {
  Node n;
  n.value = v.name();
  n.op = v.producer()->op_name();
  n.place = v.producer()->source() ? v.producer()->source()->Describe() : "";
  return n;
}

// Runs `p` up to these values.
absl::StatusOr<Tensors> Observe(const ir::Program& p, const std::vector<std::string>& names, const Tensors& inputs,
                                const VerifyOptions& o, const Plugins& plugins) {
  std::unique_ptr<ir::Program> copy = ir::Clone(p);
  copy->graph->outputs.clear();
  copy->output_specs.clear();
  ASSIGN_OR_RETURN(const auto prepared,
                   planner::PlanEvaluator(PlanOptionsOf(o, plugins)).Prepare(std::move(copy), names));
  return prepared->Run(inputs);
}

// The values of pairs in both. One without a storage is not there.
using Values = std::function<absl::StatusOr<std::pair<Tensors, Tensors>>(absl::Span<const Pair>)>;

// Goes through the pairs in order; stops at the first that differs, unless all are wanted.
absl::Status FindFirst(const std::vector<Pair>& pairs, const Values& values, bool exact, const VerifyOptions& o,
                       VerifyLayers& layers) {
  for (size_t first = 0, last; first < pairs.size(); first = last) {
    uint64_t bytes = 0;
    for (last = first; last < pairs.size() && (last == first || bytes + pairs[last].bytes <= o.observe_limit); ++last)
      bytes += pairs[last].bytes;
    ASSIGN_OR_RETURN(const auto both, values(absl::MakeConstSpan(pairs).subspan(first, last - first)));
    for (size_t i = first; i < last; ++i) {
      const ir::TensorRef &a = both.first[i - first], &b = both.second[i - first];
      if (!b.storage) continue;  // B has no such value
      ++layers.compared;
      std::optional<weights::Difference> difference;
      if (LayerTypeOf(a) == LayerTypeOf(b)) {
        weights::Tolerance tolerance;
        if (!exact || o.rtol || o.atol) {
          ASSIGN_OR_RETURN(tolerance, ToleranceFor(a, o));
        }
        ASSIGN_OR_RETURN(difference, weights::Compare(a, b, tolerance));
        if (difference->unequal == 0 && !o.all_layers) continue;
      }
      Node n = Describe(*pairs[i].a);
      n.a_type = LayerTypeOf(a);
      n.b_type = LayerTypeOf(b);
      n.difference = difference;
      n.differs = !difference || difference->unequal > 0;
      if (n.differs && !layers.first) layers.first = n;
      if (!o.all_layers) return absl::OkStatus();
      if (ir::IsFloating(a.dtype) && ir::BitSize(a.dtype) >= 8) {
        ASSIGN_OR_RETURN(const std::vector<double> numbers, weights::ToDoubles(a));
        n.rms = weights::RootMeanSquare(numbers);
      }
      layers.all.push_back(std::move(n));
    }
  }
  return absl::OkStatus();
}

// ---- Two programs

// A's values with those of B that have the same name; where few have, and both make as many, with those at the same
// place.
std::vector<Pair> Match(const ir::Program& a, const ir::Program& b, const text::Map<int64_t>& symbols,
                        VerifyLayers& layers) {
  const std::vector<const ir::Value*> of_a = ValuesOf(a), of_b = ValuesOf(b);
  std::vector<Pair> pairs;
  for (const ir::Value* v : of_a)
    if (const ir::Value* other = b.graph->FindValue(v->name()); other && other->producer() && other->type().is_tensor())
      pairs.push_back({v, other->name(), BytesOf(*v, symbols)});
  if (pairs.size() * 2 < of_a.size() && of_a.size() == of_b.size()) {
    pairs.clear();
    for (size_t i = 0; i < of_a.size(); ++i) pairs.push_back({of_a[i], of_b[i]->name(), BytesOf(*of_a[i], symbols)});
  }
  layers.unmatched = static_cast<int64_t>(of_a.size() - pairs.size());
  return pairs;
}

absl::StatusOr<VerifyLayers> ComparePrograms(const ir::Program& original_a, const ir::Program& original_b,
                                             const Tensors& inputs, const VerifyOptions& o) {
  VerifyLayers layers;
  layers.how = o.rtol || o.atol ? "both run by slipway's kernels" : "both run by slipway's kernels: bits are compared";
  ASSIGN_OR_RETURN(const Plugins plugins, Plugins::Open(o.plugins));
  ASSIGN_OR_RETURN(const std::unique_ptr<ir::Program> a, Unchanged(original_a));
  ASSIGN_OR_RETURN(const std::unique_ptr<ir::Program> b, Unchanged(original_b));
  const std::vector<Pair> pairs = Match(*a, *b, SymbolsOf(*a, inputs), layers);
  const Values values = [&](absl::Span<const Pair> some) -> absl::StatusOr<std::pair<Tensors, Tensors>> {
    std::vector<std::string> names_a, names_b;
    for (const Pair& p : some) names_a.push_back(p.a->name()), names_b.push_back(p.b);
    ASSIGN_OR_RETURN(Tensors of_a, Observe(*a, names_a, inputs, o, plugins));
    ASSIGN_OR_RETURN(Tensors of_b, Observe(*b, names_b, inputs, o, plugins));
    return std::pair(std::move(of_a), std::move(of_b));
  };
  RETURN_IF_ERROR(FindFirst(pairs, values, /*exact=*/true, o, layers));
  if (layers.first) {
    const std::string& first = layers.first->value;
    const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& p) { return p.a->name() == first; });
    const ir::Value* other = b->graph->FindValue(pair->b);
    if (other->producer()->op_name() != layers.first->op) layers.first->b_op = other->producer()->op_name();
  }
  return layers;
}

// ---- What slipway converts of A's beginnings

// Gives a program in memory to a conversion.
class OneProgram : public Reader {
 public:
  explicit OneProgram(const ir::Program& p) : p_(p) {}
  absl::StatusOr<ir::Archive> Programs(const std::string&, int) const override {
    ir::Archive archive;
    archive.programs.push_back(ir::Clone(p_));
    return archive;
  }
  std::string Digest(const std::string&) const override { return ""; }

 private:
  const ir::Program& p_;
};

// What slipway makes of a program, in a folder that is gone with it.
class Converted {
 public:
  Converted(const ir::Program& p, const std::string& suffix, int opset, const VerifyOptions& o) {
    auto folder = io::TempFolder::Make();
    if (!folder.ok()) {
      status_ = folder.status();
      return;
    }
    folder_ = *std::move(folder);
    ConvertOptions options;
    options.inputs = {"part"};
    options.output = path_ = folder_->path() + "/part" + suffix;
    if (suffix == ".so") options.plugins = o.plugins;
    if (opset > 0) options.opset = opset;
    ConvertSummary summary;
    const Outcome outcome = Convert(options, &summary, OneProgram(p));
    if (outcome.code != kDone)
      status_ = absl::UnimplementedError(text::StrCat("a part is not converted: ", outcome.diagnostics.back().cause));
  }
  const absl::Status& status() const { return status_; }
  const std::string& path() const { return path_; }

 private:
  std::unique_ptr<io::TempFolder> folder_;
  std::string path_;
  absl::Status status_;
};

// These values of `a`, computed by what is converted of it up to them.
absl::StatusOr<Tensors> RunConverted(const ir::Program& a, absl::Span<const Pair> pairs, const std::string& suffix,
                                     const Tensors& inputs, const VerifyOptions& o) {
  ir::Values values;
  for (const Pair& p : pairs) values.push_back(const_cast<ir::Value*>(p.a));
  const std::unique_ptr<ir::Program> part = ir::Extract(a, ir::RegionThatComputes(*a.graph, values), values);
  const std::vector<const ir::Value*> all = TakenInputs(a);
  Tensors some;  // of the inputs, those that the part takes
  for (const ir::Value* v : TakenInputs(*part))
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i]->name() == v->name()) some.push_back(inputs[i]);
  const Converted converted(*part, suffix, 0, o);
  RETURN_IF_ERROR(converted.status());
  ASSIGN_OR_RETURN(const auto model, VerifyModel::Open(converted.path(), o));
  ASSIGN_OR_RETURN(auto results, model->Run(absl::MakeConstSpan(&some, 1)));
  if (results[0].ok() && results[0]->size() != pairs.size())
    return absl::InternalError("a part gives another number of outputs");
  return std::move(results[0]);
}

absl::StatusOr<VerifyLayers> CompareConverted(const ir::Program& a, const Tensors& inputs, const std::string& suffix,
                                              bool agree, const VerifyOptions& o) {
  VerifyLayers layers;
  layers.how =
      text::StrCat("those of A by slipway's kernels, beside what A's beginnings give when converted to ", suffix);
  ASSIGN_OR_RETURN(const Plugins plugins, Plugins::Open(o.plugins));
  const text::Map<int64_t> symbols = SymbolsOf(a, inputs);
  std::vector<Pair> pairs;
  for (const ir::Value* v : ValuesOf(a)) pairs.push_back({v, v->name(), BytesOf(*v, symbols)});
  const Values values = [&](absl::Span<const Pair> some) -> absl::StatusOr<std::pair<Tensors, Tensors>> {
    std::vector<std::string> names;
    for (const Pair& p : some) names.push_back(p.a->name());
    ASSIGN_OR_RETURN(Tensors of_a, Observe(a, names, inputs, o, plugins));
    ASSIGN_OR_RETURN(Tensors of_b, RunConverted(a, some, suffix, inputs, o));
    return std::pair(std::move(of_a), std::move(of_b));
  };
  RETURN_IF_ERROR(FindFirst(pairs, values, /*exact=*/false, o, layers));
  if (layers.first || agree) return layers;
  // Values that are outputs stand in the way of fusion. One at a time they do less: beginnings of different lengths are
  // tried by bisection, each with its last value as the only output.
  size_t good = 0, bad = pairs.size();  // the beginnings up to `good` agree, that up to `bad` does not
  const auto differs = [&](size_t n) -> absl::StatusOr<bool> {
    const Pair last = pairs[n - 1];
    VerifyLayers one;
    VerifyOptions only_first = o;
    only_first.all_layers = false;
    RETURN_IF_ERROR(FindFirst({last}, values, /*exact=*/false, only_first, one));
    if (one.first) layers.first = one.first;
    return one.first.has_value();
  };
  if (pairs.empty()) return layers;
  for (size_t i = 0; i < a.graph->outputs.size() && !layers.first; ++i)
    if (const ir::Value* v = a.graph->outputs[i].value(); v && v->producer()) {
      const auto at = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& p) { return p.a == v; });
      if (at == pairs.end()) continue;
      bad = static_cast<size_t>(at - pairs.begin()) + 1;
      ASSIGN_OR_RETURN(const bool differs_here, differs(bad));
      if (differs_here) break;
    }
  if (!layers.first) {
    layers.note =
        "what slipway converts of A agrees with A, up to the outputs: B was not made of A by this slipway, or was "
        "changed";
    return layers;
  }
  while (bad - good > 1) {
    const size_t middle = good + (bad - good) / 2;
    ASSIGN_OR_RETURN(const bool differs_here, differs(middle));
    (differs_here ? bad : good) = middle;
  }
  layers.note = "found by bisection over single values: with all of them as outputs the conversion agrees";
  return layers;
}

// ---- A program and an ONNX model

// "name" of "name.3".
std::string_view FamilyOf(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos || name.find_first_not_of("0123456789", dot + 1) != std::string_view::npos
             ? name
             : name.substr(0, dot);
}

// The values that an ONNX model has by A's names, as tensors of the types that A's have; those it has not have no
// storage. What one node of A became may make several: its result is the only one of its type that others read.
absl::StatusOr<Tensors> ObserveOnnx(const std::string& model, const std::vector<std::string>& names,
                                    const Tensors& of_a, const Tensors& inputs, const VerifyOptions& o,
                                    OnnxRuns* said) {
  ASSIGN_OR_RETURN(OnnxRuns runs,
                   RunOnnx(model, absl::MakeConstSpan(&inputs, 1), {o.python, o.timeout, o.threads}, &names));
  if (!runs.results[0].ok()) return runs.results[0].status();
  const Tensors& values = *runs.results[0];
  if (values.size() != runs.outputs.size() + runs.observed.size())
    return absl::InvalidArgumentError("onnxruntime's answer is of other values");
  text::Map<const ir::TensorRef*> by_name;
  for (size_t i = 0; i < values.size(); ++i)
    by_name[i < runs.outputs.size() ? runs.outputs[i] : runs.observed[i - runs.outputs.size()]] = &values[i];
  text::Map<std::vector<const ir::TensorRef*>> families;
  for (const std::string& name : runs.made)
    if (const auto it = by_name.find(name); it != by_name.end()) {
      families[name].push_back(it->second);
      if (FamilyOf(name) != name) families[FamilyOf(name)].push_back(it->second);
    }
  Tensors found(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const auto it = families.find(names[i]);
    if (it == families.end()) continue;
    std::vector<const ir::TensorRef*> same = it->second;
    std::erase_if(same, [&](const ir::TensorRef* t) { return t->dtype != of_a[i].dtype || t->sizes != of_a[i].sizes; });
    if (same.size() == 1) found[i] = *same[0];
  }
  *said = std::move(runs);
  return found;
}

// Whether two values agree within the tolerance.
absl::StatusOr<bool> AllClose(const ir::TensorRef& a, const ir::TensorRef& b, const VerifyOptions& o) {
  ASSIGN_OR_RETURN(const weights::Tolerance tolerance, ToleranceFor(a, o));
  ASSIGN_OR_RETURN(const weights::Difference d, weights::Compare(a, b, tolerance));
  return d.unequal == 0;
}

// Passes may give the name of a node that they took out to another one. So B's values are believed to be A's of the
// same names unless the model that slipway makes of A now has another value under that name.
absl::StatusOr<VerifyLayers> CompareOnnx(const ir::Program& original, const ir::Program& a, const Tensors& inputs,
                                         const std::string& model, const VerifyOptions& o) {
  VerifyLayers layers;
  ASSIGN_OR_RETURN(const Plugins plugins, Plugins::Open(o.plugins));
  const text::Map<int64_t> symbols = SymbolsOf(a, inputs);
  std::vector<Pair> pairs;
  for (const ir::Value* v : ValuesOf(a)) pairs.push_back({v, "", BytesOf(*v, symbols)});
  const int64_t all = static_cast<int64_t>(pairs.size());
  std::unique_ptr<Converted> now;
  const Values values = [&](absl::Span<const Pair> some) -> absl::StatusOr<std::pair<Tensors, Tensors>> {
    std::vector<std::string> names;
    for (const Pair& p : some) names.push_back(p.a->name());
    ASSIGN_OR_RETURN(Tensors of_a, Observe(a, names, inputs, o, plugins));
    OnnxRuns runs;
    ASSIGN_OR_RETURN(Tensors of_b, ObserveOnnx(model, names, of_a, inputs, o, &runs));
    layers.how = text::StrCat("those of A by slipway's kernels, those of B by onnxruntime ", runs.version);
    if (!now) now = std::make_unique<Converted>(original, ".onnx", static_cast<int>(runs.opset), o);
    auto of_now = now->status().ok() ? ObserveOnnx(now->path(), names, of_a, inputs, o, &runs)
                                     : absl::StatusOr<Tensors>(now->status());
    for (size_t i = 0; of_now.ok() && i < names.size(); ++i) {
      if (!(*of_now)[i].storage || !of_b[i].storage) continue;
      ASSIGN_OR_RETURN(const bool same, AllClose(of_a[i], (*of_now)[i], o));
      if (!same) of_b[i] = {};
    }
    return std::pair(std::move(of_a), std::move(of_b));
  };
  RETURN_IF_ERROR(FindFirst(pairs, values, /*exact=*/false, o, layers));
  if (!layers.first) layers.unmatched = all - layers.compared;
  return layers;
}

// A program and a model of another kind. What a run cannot do is part of the answer.
absl::StatusOr<VerifyLayers> CompareWith(const ir::Program& original, const VerifyModel& model, const std::string& path,
                                         const Tensors& inputs, bool agree, const VerifyOptions& o) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ir::Program> p, Unchanged(original));
  const bool onnx = model.kind() == "ONNX model";
  VerifyLayers layers;
  if (onnx) {
    ASSIGN_OR_RETURN(layers, CompareOnnx(original, *p, inputs, path, o));
    if (layers.first || agree) return layers;
  }
  if (agree && !o.all_layers) {
    layers.how = text::StrCat("a ", model.kind(), " shows none");
    return layers;
  }
  return CompareConverted(*p, inputs, onnx ? ".onnx" : ".so", agree, o);
}

}  // namespace

absl::StatusOr<VerifyLayers> CompareLayers(const VerifyModel& a, const VerifyModel& b, const Tensors& inputs,
                                           bool agree, const VerifyOptions& o) {
  const ir::Program *pa = a.program(), *pb = b.program();
  auto layers = pa && pb ? ComparePrograms(*pa, *pb, inputs, o)
                : pa     ? CompareWith(*pa, b, o.b, inputs, agree, o)
                         : CompareWith(*pb, a, o.a, inputs, agree, o);
  if (!pa && layers.ok()) {
    if (layers->first) std::swap(layers->first->a_type, layers->first->b_type);
    for (Node& n : layers->all) std::swap(n.a_type, n.b_type);
  }
  return layers;
}

}  // namespace slipway::driver
