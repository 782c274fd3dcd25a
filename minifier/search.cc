// Halving presumes that of two halves the second fails where the first does not; what it comes to is asked before it is
// believed.
#include "minifier/search.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "ir/clone.h"
#include "ir/ops/op_table.h"

namespace slipway::minifier {
namespace {

using ir::Node;
using ir::Program;
using ir::Value;

Places AllNodes(const Program& p) {
  Places all(p.graph->node_count());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Places Without(const Places& all, size_t begin, size_t end) {
  Places rest(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(begin));
  rest.insert(rest.end(), all.begin() + static_cast<std::ptrdiff_t>(end), all.end());
  return rest;
}

class Reduction {
 public:
  Reduction(Oracle& oracle, const StandIns& names, const SearchOptions& options)
      : oracle_(oracle), names_(names), options_(options) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Isolate());
    for (size_t before = Size() + 1; Size() < before;) {
      before = Size();
      RETURN_IF_ERROR(HoistBodies());
      RETURN_IF_ERROR(RemoveNodes());
      RETURN_IF_ERROR(TryFew());
      RETURN_IF_ERROR(ReduceBodies());
    }
    RETURN_IF_ERROR(Simplify());
    // Numbers in place of symbols, and arguments left out, free nodes that only they held.
    RETURN_IF_ERROR(RemoveNodes());
    return ReduceBodies();
  }

 private:
  Oracle& oracle_;
  const StandIns& names_;
  const SearchOptions& options_;
  bool asked_for_nothing_ = false;  // whether a program without nodes fails

  const Program& best() const { return oracle_.best(); }

  // Nodes, nested ones included.
  size_t Size() const {
    size_t n = best().graph->node_count();
    Program& p = const_cast<Program&>(best());
    for (const GraphPath& path : NestedGraphs(best())) n += FindGraph(p, path)->node_count();
    return n;
  }

  absl::StatusOr<bool> Fails(Edit edit, std::string_view what) {
    ASSIGN_OR_RETURN(const std::optional<size_t> first, oracle_.FirstThatFails({std::move(edit)}, what));
    return first.has_value();
  }
  Edit Keep(Places places, Joint joint = Joint::kCut) const { return KeepNodes(std::move(places), joint, &names_); }

  // ---- Which part of the graph

  absl::Status Isolate() {
    if (best().graph->node_count() > 1) {
      ASSIGN_OR_RETURN(bool apart, Fails(Together({Keep(AllNodes(best()), Joint::kApart), StripMetadata()}),
                                         "take all nodes apart"));
      if (!apart && HasSymbols()) {
        // Sizes that no input names any more are a trouble of their own.
        ASSIGN_OR_RETURN(
            apart,
            Fails(Together({PinSymbols(options_.symbols), Keep(AllNodes(best()), Joint::kApart), StripMetadata()}),
                  "take all nodes apart, sizes known"));
      }
      if (apart) return Halve();
    }
    ASSIGN_OR_RETURN(const bool plain, Fails(Together({Keep(AllNodes(best())), StripMetadata()}), "strip metadata"));
    if (!plain) RETURN_IF_ERROR(Fails(Keep(AllNodes(best())), "plain signature").status());
    return Narrow();
  }

  // Of nodes that are not connected: one, if one is enough.
  absl::Status Halve() {
    size_t count = best().graph->node_count();
    size_t begin = 0;
    const auto range = [](size_t from, size_t to) {
      Places places(to - from);
      std::iota(places.begin(), places.end(), static_cast<int>(from));
      return places;
    };
    // `best` is [0, count) of itself; the presumed part of it begins at `begin`.
    while (count - begin > 1) {
      const size_t half = begin + (count - begin) / 2;
      ASSIGN_OR_RETURN(const bool first, Fails(Keep(range(begin, half)), "halve"));
      if (first) {
        count = best().graph->node_count();
        begin = 0;
      } else {
        begin = half;
      }
    }
    if (begin > 0) RETURN_IF_ERROR(Fails(Keep(range(begin, count)), "halve").status());
    return absl::OkStatus();
  }

  // The shortest prefix that fails, what its last node needs, and the shortest suffix of that.
  absl::Status Narrow() {
    size_t low = 0;
    while (low + 1 < best().graph->node_count()) {
      const size_t middle = low + (best().graph->node_count() - low) / 2;
      Places places(middle);
      std::iota(places.begin(), places.end(), 0);
      ASSIGN_OR_RETURN(const bool fails, Fails(Keep(places), "shorten from the end"));
      if (!fails) low = middle;
    }
    if (const size_t n = best().graph->node_count(); n > 1) {
      const std::vector<Node*> nodes = NodesOf(*best().graph);
      const absl::flat_hash_set<const Node*> cone = [&] {
        const ir::Values last(nodes.back()->outputs().begin(), nodes.back()->outputs().end());
        ir::Values values;
        for (Value* v : last)
          if (v) values.push_back(v);
        const std::vector<Node*> found = ir::NodesThatCompute(values);
        return absl::flat_hash_set<const Node*>(found.begin(), found.end());
      }();
      Places places;
      for (size_t i = 0; i < n; ++i)
        if (cone.contains(nodes[i])) places.push_back(static_cast<int>(i));
      if (!places.empty() && places.size() < n)
        RETURN_IF_ERROR(Fails(Keep(places), "what the last node needs").status());
    }
    // The number of nodes at the front that are known not to go all together.
    size_t high = best().graph->node_count();
    while (high > 1) {
      const size_t n = best().graph->node_count();
      const size_t cut = high / 2;
      Places places(n - cut);
      std::iota(places.begin(), places.end(), static_cast<int>(cut));
      ASSIGN_OR_RETURN(const bool fails, Fails(Keep(places), "shorten from the front"));
      high = fails ? high - cut : cut;
    }
    return absl::OkStatus();
  }

  // Delta debugging: chunks of nodes go, ever smaller ones, until no single node does.
  absl::Status RemoveNodes() {
    bool again = best().graph->node_count() > (asked_for_nothing_ ? 1 : 0);
    for (size_t start = best().graph->node_count() / 2; again; start = 1) {
      again = false;
      for (size_t size = std::max<size_t>(1, start);; size /= 2) {
        for (size_t end = best().graph->node_count(); end > 0;) {
          const size_t begin = end > size ? end - size : 0;
          const Places all = AllNodes(best());
          const Places rest = Without(all, begin, end);
          std::vector<Edit> edits = {Keep(rest, Joint::kBypass), Keep(rest, Joint::kCut)};
          if (size == 1) {
            const Node* n = NodesOf(*best().graph)[begin];
            int operands = 0;
            for (const ir::NamedArg& a : n->args()) a.arg.ForEachValue([&](Value*) { ++operands; });
            for (int i = 1; i < std::min(operands, 4); ++i)
              edits.push_back(BypassNode(static_cast<int>(begin), i, &names_));
            if (all.size() == 1) edits = {Keep(rest, Joint::kCut)};
            asked_for_nothing_ |= all.size() == 1;
          }
          ASSIGN_OR_RETURN(const auto done,
                           oracle_.FirstThatFails(
                               edits, size == 1 ? "remove a node" : text::StrCat("remove ", end - begin, " nodes")));
          if (done && size == 1) again = true;
          end = std::min(begin, best().graph->node_count());
        }
        if (size == 1) break;
      }
    }
    return absl::OkStatus();
  }

  // Of few nodes: one or two of them alone, which removing one after the other does not come by where what is between
  // does not fail
  // (or the check gave out).
  absl::Status TryFew() {
    constexpr size_t kFew = 8;
    for (bool again = true; again && best().graph->node_count() > 2 && best().graph->node_count() <= kFew;) {
      const int n = static_cast<int>(best().graph->node_count());
      std::vector<Edit> edits;
      for (int i = 0; i < n; ++i) edits.push_back(Keep({i}));
      for (int i = 0; i < n; ++i)
        for (int k = i + 1; k < n; ++k) edits.push_back(Keep({i, k}, Joint::kBypass));
      ASSIGN_OR_RETURN(const auto done, oracle_.FirstThatFails(edits, "few nodes alone"));
      again = done.has_value();
    }
    return absl::OkStatus();
  }

  // ---- Nested graphs

  absl::Status HoistBodies() {
    for (bool again = true; again;) {
      std::vector<Edit> edits;
      for (const GraphPath& path : NestedGraphs(best())) edits.push_back(Hoist(path));
      if (edits.empty()) return absl::OkStatus();
      ASSIGN_OR_RETURN(const auto done, oracle_.FirstThatFails(edits, "make a nested graph the program"));
      again = done.has_value();
      if (again) RETURN_IF_ERROR(Isolate());
    }
    return absl::OkStatus();
  }

  absl::Status ReduceBodies() {
    const size_t count = NestedGraphs(best()).size();
    for (size_t k = 0; k < count; ++k) {
      for (size_t size = static_cast<size_t>(-1);;) {
        // Removing nodes with graphs of their own changes the list: graphs are taken by their places in it.
        const std::vector<GraphPath> paths = NestedGraphs(best());
        if (k >= paths.size()) return absl::OkStatus();
        const auto nodes = [&] { return FindGraph(const_cast<Program&>(best()), paths[k])->node_count(); };
        size = std::max<size_t>(1, std::min(size, nodes()) / (size == static_cast<size_t>(-1) ? 1 : 2));
        bool shorter = false;
        for (size_t end = nodes(); end > 0;) {
          const size_t begin = end > size ? end - size : 0;
          Places places(end - begin);
          std::iota(places.begin(), places.end(), static_cast<int>(begin));
          ASSIGN_OR_RETURN(const bool done, Fails(RemoveNested(paths[k], places), "remove nodes of a nested graph"));
          if (done) shorter = true;
          if (done && NestedGraphs(best()).size() != paths.size()) break;
          end = std::min(begin, nodes());
        }
        if (size == 1 && !shorter) break;
      }
    }
    return absl::OkStatus();
  }

  // ---- What is left

  static Edit Together(std::vector<Edit> edits) {
    return [edits = std::move(edits)](Program& p) -> absl::Status {
      for (const Edit& e : edits) RETURN_IF_ERROR(e(p));
      return absl::OkStatus();
    };
  }
  // Those that fit, one after the other.
  static Edit AsFarAsPossible(std::vector<Edit> edits) {
    return [edits = std::move(edits)](Program& p) -> absl::Status {
      for (const Edit& e : edits) {
        const std::unique_ptr<Program> copy = ir::Clone(p);
        if (e(*copy).ok()) RETURN_IF_ERROR(e(p));
      }
      return absl::OkStatus();
    };
  }

  bool HasSymbols() const {
    for (const ir::Value* v : best().graph->inputs())
      for (ir::Sym s : v->type().sizes)
        if (!s.is_constant()) return true;
    return false;
  }

  std::vector<std::string> WeightNames() const {
    std::vector<std::string> names;
    for (const auto& [name, t] : best().weights) names.push_back(name);
    return names;
  }

  // Every size of inputs that is larger than it need be, the largest first.
  static Edit ShrinkSizes() {
    return [](Program& p) -> absl::Status {
      for (int64_t size : SizesOf(p)) {
        for (const auto& [to, multiples] :
             std::initializer_list<std::pair<int64_t, bool>>{{2, true}, {2, false}, {4, true}, {4, false}}) {
          if (to >= size) continue;
          const Edit e = ReplaceSize(size, to, multiples);
          if (!e(*ir::Clone(p)).ok()) continue;
          RETURN_IF_ERROR(e(p));
          break;
        }
      }
      return absl::OkStatus();
    };
  }

  absl::Status Simplify() {
    const std::vector<std::string> weights = WeightNames();
    ASSIGN_OR_RETURN(const bool all,
                     Fails(AsFarAsPossible({PinSymbols(options_.symbols), DropRanges(), DropStrides(), DropArguments(),
                                            ReplaceWeights(weights, false), WidenFloats(), ShrinkSizes(), MergeInputs(),
                                            StripMetadata()}),
                           "simplify all"));
    if (all) return absl::OkStatus();
    RETURN_IF_ERROR(Fails(StripMetadata(), "strip metadata").status());
    RETURN_IF_ERROR(DropOutputs());
    RETURN_IF_ERROR(Pin());
    RETURN_IF_ERROR(LeaveArgumentsOut());
    RETURN_IF_ERROR(SimplifyWeights());
    RETURN_IF_ERROR(Fails(WidenFloats(), "widen floats").status());
    RETURN_IF_ERROR(Shrink());
    RETURN_IF_ERROR(Fails(MergeInputs(), "merge inputs").status());
    RETURN_IF_ERROR(Fails(DropStrides(), "drop strides").status());
    RETURN_IF_ERROR(Fails(DropRanges(), "drop ranges of expressions").status());
    return Fails(StripMetadata(), "strip metadata").status();
  }

  absl::Status DropOutputs() {
    for (size_t i = best().graph->outputs.size(); i-- > 0 && best().graph->outputs.size() > 1;) {
      Places keep(best().graph->outputs.size());
      std::iota(keep.begin(), keep.end(), 0);
      if (i >= keep.size()) continue;
      keep.erase(keep.begin() + static_cast<std::ptrdiff_t>(i));
      RETURN_IF_ERROR(Fails(KeepOutputs(keep), "drop an output").status());
    }
    return absl::OkStatus();
  }

  absl::Status Pin() {
    if (!HasSymbols()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const bool all, Fails(PinSymbols(options_.symbols), "make sizes numbers"));
    if (all) return absl::OkStatus();
    std::vector<std::string> names;
    for (const ir::SymbolInfo& s : best().syms->symbols()) names.push_back(s.name);
    for (const std::string& name : names) {
      auto value = options_.symbols.find(name);
      if (value == options_.symbols.end()) continue;
      RETURN_IF_ERROR(Fails(PinSymbols({{name, value->second}}), text::StrCat("make ", name, " a number")).status());
    }
    return absl::OkStatus();
  }

  absl::Status LeaveArgumentsOut() {
    ASSIGN_OR_RETURN(const bool all, Fails(DropArguments(), "leave arguments out"));
    if (all) return absl::OkStatus();
    std::vector<GraphPath> paths = NestedGraphs(best());
    paths.insert(paths.begin(), GraphPath());
    for (const GraphPath& path : paths) {
      const size_t count = FindGraph(const_cast<Program&>(best()), path)->node_count();
      for (size_t place = 0; place < count; ++place) {
        std::vector<std::string> names;
        const Node* n = NodesOf(*FindGraph(const_cast<Program&>(best()), path))[place];
        for (const ir::NamedArg& a : n->args())
          if (!a.name.empty()) names.push_back(a.name);
        for (const std::string& name : names)
          RETURN_IF_ERROR(
              Fails(DropArgument(path, static_cast<int>(place), name), text::StrCat("leave ", name, " out")).status());
      }
    }
    return absl::OkStatus();
  }

  absl::Status SimplifyWeights() {
    const std::vector<std::string> names = WeightNames();
    if (names.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const auto all, oracle_.FirstThatFails({ReplaceWeights(names, false), ReplaceWeights(names, true)},
                                                            "make weights by a rule"));
    if (all) return absl::OkStatus();
    for (const std::string& name : names)
      RETURN_IF_ERROR(
          oracle_
              .FirstThatFails({ReplaceWeights({name}, false), ReplaceWeights({name}, true)}, "make a weight by a rule")
              .status());
    return absl::OkStatus();
  }

  absl::Status Shrink() {
    ASSIGN_OR_RETURN(const bool all, Fails(ShrinkSizes(), "shrink sizes"));
    if (all) return absl::OkStatus();
    for (int64_t size : SizesOf(best())) {
      std::vector<Edit> edits;
      for (int64_t to : {2, 4, 8, 16, 32, 64})
        if (to < size) edits.push_back(ReplaceSize(size, to, true)), edits.push_back(ReplaceSize(size, to, false));
      RETURN_IF_ERROR(oracle_.FirstThatFails(edits, text::StrCat("shrink ", size)).status());
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status Search(Oracle& oracle, const StandIns& names, const SearchOptions& options) {
  return Reduction(oracle, names, options).Run();
}

}  // namespace slipway::minifier
