// What passes are handed in the driver: an evaluator for constant folding.
#ifndef SLIPWAY_DRIVER_CONVERT_PASS_CONTEXT_H_
#define SLIPWAY_DRIVER_CONVERT_PASS_CONTEXT_H_

#include <memory>

#include "passes/pass.h"

namespace slipway::driver {

// A context whose evaluator is its own. What is legal is not set.
struct ConversionContext : passes::PassContext {
  ConversionContext();

 private:
  std::unique_ptr<ir::Evaluator> folding_;
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_CONVERT_PASS_CONTEXT_H_
