// The evaluator that passes are handed: it plans a program and runs the plan.
#ifndef SLIPWAY_PLANNER_EVALUATOR_H_
#define SLIPWAY_PLANNER_EVALUATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/evaluator.h"
#include "passes/keep_state.h"

namespace slipway::kernels {
struct Kernel;
}

namespace slipway::planner {

struct PlanOptions {
  uint64_t memory_limit = uint64_t{1} << 34;  // bytes of all temporaries together
  bool fuse = true;                           // elementwise steps that follow one another become one; false: for tests
  bool layouts = true;                        // images of convolutions may lie with channels last; false: for tests
  // The kernel of a plugin by its name ("mylib::blend.default"), null where there is none; it must outlive the plan.
  // May be empty.
  std::function<const kernels::Kernel*(std::string_view name)> plugins;
  // Every rounding to 16-bit floats that the program states is made; false: those of dequantized matrices, of their
  // scales and of activations that become integers may be left out, which is nearer the exact result.
  bool exact_casts = true;
  int threads = 1;           // that PlanEvaluator's programs run on
  bool verify_each = false;  // the verifier looks at the program after every pass
  // Whether the plan keeps states between runs (kernels::State): the weights whose updates are outputs of the program,
  // and the inputs `growing`. Only for plans that a library runs: nothing else has a place for them.
  bool keep_state = false;
  std::vector<passes::GrowingState> growing;
};

// Computes by legalizing to `native`, planning and running.
class PlanEvaluator : public ir::Evaluator {
 public:
  explicit PlanEvaluator(PlanOptions options = {}) : options_(options) {}
  bool Supports(const ir::Node& n) const override;
  absl::StatusOr<std::unique_ptr<ir::PreparedProgram>> Prepare(std::unique_ptr<ir::Program> p,
                                                               absl::Span<const std::string> observe = {}) override;

 private:
  PlanOptions options_;
};

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_EVALUATOR_H_
