// What becomes of unknowns that no equation reaches: evidence tells what a number is, or the dimensions that it may
// stand for are pinned.
#ifndef SLIPWAY_DYNAMIC_SHAPES_DECISIONS_H_
#define SLIPWAY_DYNAMIC_SHAPES_DECISIONS_H_

#include <string>
#include <vector>

#include "dynamic_shapes/propagation.h"
#include "dynamic_shapes/unknowns.h"
#include "ir/graph.h"

namespace slipway::dynamic_shapes {

class Decisions {
 public:
  Decisions(const ir::Program& p, Propagation& flow, Unknowns& known) : p_(p), flow_(flow), known_(known) {}

  // After a round that taught nothing, the `round`th. False where all is decided.
  bool Decide(int round);
  // Numbers taken for sizes by evidence, one line each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  bool DecideConflicts(int round);
  bool DecideNumbers(int round);
  bool DecideViews();
  bool DecideEquations();
  bool DecideScalars();
  bool DecideUnwritable(const ir::Graph& g);
  bool DecideFollowers();
  bool DecideByTrial();
  void OfStep(const Unknown& u, std::vector<ir::Sym>* fits);
  bool MakeOne(const std::vector<ir::Sym>& fits, const std::string& place);
  bool InUnresolvedView(int k) const;
  std::vector<ir::Sym> FreeDimensions();
  std::vector<ir::Sym> Candidates(const Unknown& u);
  std::vector<ir::Sym> Suspects(const Unknown& u);
  void PinSourcesOf(const Unknown& u);
  std::vector<ir::Sym> Exactly(const Unknown& u, const std::vector<ir::Sym>& among);
  std::vector<ir::Sym> LinearFits(const Unknown& u, const std::vector<ir::Sym>& among);
  std::vector<ir::Sym> PadSuspicion(const Unknown& u, ir::Sym size, std::vector<ir::Sym> among);
  ir::Sym BoundedSize(const Unknown& u, const ir::Value& x);
  std::vector<ir::Sym> Matching(const Unknown& u, const std::vector<ir::Sym>& among, ir::Sym size);

  const ir::Program& p_;
  Propagation& flow_;
  Unknowns& known_;
  std::vector<std::string> notes_;
};

}  // namespace slipway::dynamic_shapes

#endif  // SLIPWAY_DYNAMIC_SHAPES_DECISIONS_H_
