// The sizes of a program as unknowns, and what equations between them tell: which unknown is which expression of
// others, what bounds a dimension, what sizes must meet besides.
#ifndef SLIPWAY_DYNAMIC_SHAPES_UNKNOWNS_H_
#define SLIPWAY_DYNAMIC_SHAPES_UNKNOWNS_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "dynamic_shapes/generalize_dims.h"
#include "dynamic_shapes/size_args.h"
#include "ir/graph.h"

namespace slipway::dynamic_shapes {

// A dimension of an input, or a number that may be a size.
struct Unknown {
  ir::Sym symbol = 0;
  int64_t value = 0;          // of the example
  std::vector<int64_t> more;  // of further examples, where the program is unified with others
  std::optional<ir::Sym> is;  // what it was found to be, over other unknowns
  // A dimension
  const ir::Value* input = nullptr;
  int axis = 0;
  DimRequest ask;
  ir::SymRange range{2, std::numeric_limits<int64_t>::max()};
  std::string cause, help;  // of a number or a relation
  std::string bound_cause;  // of the range
  // A number
  SizeArg arg;
  ir::Value* holder = nullptr;  // stands in the argument while types are inferred
  bool negative = false;        // the argument is the negative of it: a place counted from the end

  bool dimension() const { return input != nullptr; }
  bool varies() const;  // from example to example
};

// A node and where it comes from, for messages.
std::string PlaceOf(const ir::Node& n);
bool Mentions(ir::Sym s, ir::Sym symbol);

class Unknowns {
 public:
  // `examples`: at how many sizes the program is known.
  Unknowns(ir::SymTable& symbols, size_t examples) : symbols_(symbols), examples_(examples) {}

  // Dimensions are added first. Returns the place.
  int Add(Unknown u);
  Unknown& operator[](size_t k) { return unknowns_[k]; }
  size_t size() const { return unknowns_.size(); }
  size_t dimensions() const { return dimensions_; }
  size_t examples() const { return examples_; }

  Unknown* Find(ir::Sym symbol);   // null for another symbol
  std::vector<int> In(ir::Sym s);  // the unknowns that an expression has
  ir::Sym Canonical(ir::Sym s);    // with everything put in that is known
  // Of an example. Sizes that depend on data get numbers of their own.
  std::optional<int64_t> ValueOf(ir::Sym s, size_t example = 0);
  static int64_t ValueOf(const Unknown& u, size_t example) { return example == 0 ? u.value : u.more[example - 1]; }
  bool Fits(ir::Sym s, const Unknown& u);  // in every example

  // A size of this value, of which nothing else is known.
  ir::Sym UnresolvedSize(int64_t value);
  bool HasUnresolvedSize(ir::Sym s);
  bool IsOpen(ir::Sym s);  // has a symbol that is no unknown

  void Assign(Unknown& u, ir::Sym to);
  // A dimension stays what it was; a number is just that.
  void Pin(int k, std::string cause, std::string help = "");
  void PinAll(ir::Sym s, const std::string& cause, const std::string& help = "");
  // Assignments so far: whether something was learned since.
  int learned() const { return learned_; }
  // Why the programs are not one at several sizes, the first reason; "" while they may be.
  void Fail(std::string why);
  const std::string& failure() const { return failure_; }

  // What follows holds for a round, in which all equations and bounds come again.
  void BeginRound();
  // Learns from a == b. False: it does not hold for the example.
  bool Equate(ir::Sym a, ir::Sym b, const ir::Node& n);
  // low <= high, which holds for the example: a bound where it is one of a single dimension.
  void AtMost(ir::Sym low, ir::Sym high, const ir::Node& n);
  // Puts in the case of the example for minima and maxima, and notes what that takes.
  ir::Sym Decide(ir::Sym s, const ir::Node& n);
  struct Equation {
    const ir::Node* node;
    ir::Sym a, b;
  };
  const std::vector<Equation>& unsolved() const { return unsolved_; }
  // Whether a number is multiplied by or added to another that is not known either, in an equation that nothing solves.
  bool InUnresolvedEquation(int k, bool products_only);
  const std::map<std::string, std::string>& conditions() const { return conditions_; }  // with the node of each
  // The ranges of dimensions, by the bounds of the last round.
  void NarrowRanges();
  // Sizes of the dimensions that are free, by their places among the unknowns.
  using Trial = std::map<int, int64_t>;
  // Up to two trials in which all conditions of the last round and the ranges hold and as many dimensions as possible
  // have other sizes than in the example. `stuck`: dimensions that conditions keep from being larger or smaller alone
  // or together with all others.
  std::vector<Trial> Trials(std::vector<int>* stuck);
  ir::Sym At(ir::Sym s, const Trial& trial);  // with the trial's sizes put in

  // Before symbols are named: dimensions are called after their inputs.
  std::string Shown(ir::Sym s);
  std::string Shown(const ir::Sizes& sizes);

 private:
  struct Bound {
    ir::Sym low, high;
    std::string place;
  };

  bool SharesSum(ir::Sym symbol, ir::Sym sum);
  std::optional<ir::Sym> SolveFor(ir::Sym symbol, ir::Sym a, ir::Sym b, bool exact_only);
  bool TrySolve(int k, ir::Sym a, ir::Sym b, const std::string& why);
  bool Equal(ir::Sym a, ir::Sym b);
  bool NarrowByQuotient(ir::Sym a, ir::Sym b, const std::string& place);
  bool SameOrder(const std::vector<ir::Sym>& operands, size_t example, bool max);
  void NarrowBy(ir::Sym low, ir::Sym high, const std::string& place);

  ir::SymTable& symbols_;
  const size_t examples_;
  std::deque<Unknown> unknowns_;
  size_t dimensions_ = 0;
  text::Map<int> by_name_;
  text::Map<int64_t> open_sizes_;
  absl::flat_hash_map<ir::Sym, ir::Sym> canonical_;
  int learned_ = 0;
  std::string failure_;
  std::vector<Bound> bounds_;
  std::vector<Equation> unsolved_;
  std::map<std::string, std::string> conditions_;
  std::vector<std::pair<ir::Sym, ir::Sym>> condition_sides_;
};

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_UNKNOWNS_H_
