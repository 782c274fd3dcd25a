// Three ways, by what B shows of its inside. A program shows all its values, which are compared with A's of the same names; since
// both are run by the same kernels, any other bit is a difference. An ONNX model is asked for the values whose names its nodes have
// from A, or else, like a library, which shows nothing, compared with what slipway itself converts of A's beginnings: that finds
// what the conversion does wrong, but not what was done to the file.
#include "driver/verify_layers.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/onnx_runtime.h"
#include "driver/pass_context.h"
#include "ir/clone.h"

namespace slipway::driver {
namespace {

using Node = VerifyLayers::Node;

std::string TypeOf(const ir::TensorRef& t) { return text::StrCat(ir::Name(t.dtype), "[", text::Join(t.sizes, ","), "]"); }

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
      if (taken[i]->sizes()[d].kind() == ir::SymKind::kSymbol) values.try_emplace(std::string(taken[i]->sizes()[d].name()), inputs[i].sizes[d]);
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

// The values that nodes of the root graph make and that runs can give: tensors and symbolic numbers.
std::vector<const ir::Value*> ValuesOf(const ir::Program& p) {
  std::vector<const ir::Value*> out;
  for (const ir::Node* n : *p.graph)
    for (const ir::Value* v : n->outputs())
      if (v && v->type().is_tensor()) out.push_back(v);
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
absl::StatusOr<Tensors> Observe(const ir::Program& p, const std::vector<std::string>& names, const Tensors& inputs, const VerifyOptions& o,
                                const Plugins& plugins) {
  std::unique_ptr<ir::Program> copy = ir::Clone(p);
  copy->graph->outputs.clear();
  copy->output_specs.clear();
  ASSIGN_OR_RETURN(const auto prepared, planner::PlanEvaluator(PlanOptionsOf(o, plugins)).Prepare(std::move(copy), names));
  return prepared->Run(inputs);
}

// Values by pairs of names, as many at a time as may be held; `differs` fills in a node where one does.
using Values = std::function<absl::StatusOr<std::pair<Tensors, Tensors>>(absl::Span<const Pair>)>;

// Goes through the pairs in order; stops at the first that differs.
absl::Status FindFirst(const std::vector<Pair>& pairs, const Values& values, bool exact, const VerifyOptions& o, VerifyLayers& layers) {
  for (size_t first = 0, last; first < pairs.size(); first = last) {
    uint64_t bytes = 0;
    for (last = first; last < pairs.size() && (last == first || bytes + pairs[last].bytes <= o.observe_limit); ++last) bytes += pairs[last].bytes;
    ASSIGN_OR_RETURN(const auto both, values(absl::MakeConstSpan(pairs).subspan(first, last - first)));
    for (size_t i = first; i < last; ++i) {
      const ir::TensorRef &a = both.first[i - first], &b = both.second[i - first];
      ++layers.compared;
      std::optional<weights::Difference> difference;
      if (TypeOf(a) == TypeOf(b)) {
        weights::Tolerance tolerance;
        if (!exact || o.rtol || o.atol) {
          ASSIGN_OR_RETURN(tolerance, ToleranceFor(a, o));
        }
        ASSIGN_OR_RETURN(difference, weights::Compare(a, b, tolerance));
        if (difference->unequal == 0) continue;
      }
      layers.first = Describe(*pairs[i].a);
      layers.first->a_type = TypeOf(a);
      layers.first->b_type = TypeOf(b);
      layers.first->difference = difference;
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

// ---- Two programs

// A's values with those of B that have the same name; where few have, and both make as many, with those at the same place.
std::vector<Pair> Match(const ir::Program& a, const ir::Program& b, const text::Map<int64_t>& symbols, VerifyLayers& layers) {
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

absl::StatusOr<VerifyLayers> ComparePrograms(const ir::Program& original_a, const ir::Program& original_b, const Tensors& inputs,
                                             const VerifyOptions& o) {
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
    const ir::Value* other = b->graph->FindValue(std::find_if(pairs.begin(), pairs.end(), [&](const Pair& p) { return p.a->name() == layers.first->value; })->b);
    if (other->producer()->op_name() != layers.first->op) layers.first->b_op = other->producer()->op_name();
  }
  return layers;
}

}  // namespace

absl::StatusOr<VerifyLayers> CompareLayers(const VerifyModel& a, const VerifyModel& b, const Tensors& inputs, const VerifyOptions& o) {
  const ir::Program *pa = a.program(), *pb = b.program();
  if (pa && pb) return ComparePrograms(*pa, *pb, inputs, o);
  return absl::UnimplementedError("--layers");
}

}  // namespace slipway::driver
