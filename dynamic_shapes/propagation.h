// The way of sizes through a program: types flow from the inputs with what is known of the unknowns, and the shape
// functions of nodes, views and the bodies of control flow give equations.
#ifndef SLIPWAY_DYNAMIC_SHAPES_PROPAGATION_H_
#define SLIPWAY_DYNAMIC_SHAPES_PROPAGATION_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "dynamic_shapes/align.h"
#include "dynamic_shapes/generalize_dims.h"
#include "dynamic_shapes/size_args.h"
#include "dynamic_shapes/unknowns.h"
#include "ir/graph.h"

namespace slipway::dynamic_shapes {

class Propagation {
 public:
  // Makes unknowns of the dimensions that are asked for and, where there are some, of the numbers that may be sizes, in
  // whose arguments values then stand that belong to this. `others`: the same program at other sizes. `literal`:
  // numbers in the program are just that.
  Propagation(ir::Program& p, const DimRequests& ask, const std::vector<const Alignment*>& others, bool literal,
              Unknowns& known);

  // Infers all types afresh.
  void Round();

  // Of the round: numbers among the sizes of a view that its elements leave open.
  struct UnresolvedView {
    const ir::Node* node;
    std::vector<int> numbers;
    ir::Sym product;
  };
  const std::vector<UnresolvedView>& unresolved_views() const { return unresolved_views_; }
  // Of the round: nodes that cannot have the sizes that were tried, with those.
  struct Conflict {
    std::string why;
    std::vector<ir::Sym> sizes;
  };
  const std::vector<Conflict>& conflicts() const { return conflicts_; }

  // Infers every node at the sizes of a trial, once all is known. nullopt where each gives what was inferred before;
  // else the node that does not.
  std::optional<Conflict> Try(const Unknowns::Trial& trial);

  bool literal() const { return literal_; }
  // The unknowns among a node's arguments.
  absl::Span<const int> NumbersOf(const ir::Node& n) const;
  // Whether a value depends on what the user gives.
  bool IsData(const ir::Value* v) const { return data_.contains(v); }
  bool TakesUnknowns(const ir::Node& n) const;
  // Whether a number that became a size is among what makes a value that is no data.
  bool DependsOnSizes(const ir::Value& v) const;
  // All values with their types as exported.
  const std::vector<std::pair<ir::Value*, ir::Type>>& declared() const { return declared_; }

 private:
  void State(ir::Value* v);
  void Visit(ir::Graph& g);
  ir::Type WithKnown(ir::Type t);
  const ir::Type& Declared(const ir::Value* v) const { return declared_[declared_index_.at(v)].second; }
  const ir::Type& DeclaredIn(const ir::Value* v, size_t example) const;
  void SetRootInputs();
  void MatchWritten(const ir::OutputSpec& spec, const ir::Value* v);
  void Infer(ir::Graph& g);
  bool SetNumbers(ir::Node& n);
  bool MatchView(ir::Node& n);
  bool SolveViewOf(ir::Node& n, const Viewed& viewed, absl::Span<const int> unknown);
  void SolveExpand(ir::Node& n, absl::Span<const int> numbers);
  void AddConflict(ir::Node& n, const std::string& why);
  void LeaveUnresolved(const ir::Node& n);
  void InferNode(ir::Node& n);
  void Take(ir::Node& n, ir::Value& v, const ir::Type& inferred);
  ir::Type OfArg(const ir::Arg& a, const ir::Type& fallback);
  void SetInput(ir::Node& n, ir::Value* input, ir::Type t, bool drop_first);
  void InferHigherOrder(ir::Node& n);
  ir::Node* TryGraph(ir::Graph& g, std::string* why);
  void Same(ir::Node& n, const ir::Sizes& a, const ir::Sizes& b);

  ir::Program& p_;
  const std::vector<const Alignment*>& others_;
  const bool literal_;
  Unknowns& known_;
  ir::Graph holders_;  // owns the values that stand for numbers
  absl::flat_hash_map<const ir::Node*, std::vector<int>> numbers_;
  std::vector<std::pair<ir::Value*, ir::Type>> declared_;
  absl::flat_hash_map<const ir::Value*, int> declared_index_;
  absl::flat_hash_set<const ir::Value*> data_;
  // Of the round
  std::vector<UnresolvedView> unresolved_views_;
  std::vector<Conflict> conflicts_;
  absl::flat_hash_map<ir::Sym, std::vector<ir::Sym>> merged_;  // what sizes were merged from, outermost first
  absl::flat_hash_set<const ir::Graph*> seen_bodies_;
};

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_PROPAGATION_H_
