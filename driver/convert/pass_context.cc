// The evaluator of constant folding has a small limit: what needs more memory than that is not worth its place in a
// file.
#include "driver/convert/pass_context.h"

#include "planner/evaluator.h"

namespace slipway::driver {
namespace {

constexpr uint64_t kFoldingMemory = uint64_t{1} << 32;  // bytes

}  // namespace

ConversionContext::ConversionContext() : folding_(new planner::PlanEvaluator({.memory_limit = kFoldingMemory})) {
  evaluator = folding_.get();
}

}  // namespace slipway::driver
