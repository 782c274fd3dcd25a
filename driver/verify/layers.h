// Where two models begin to differ: the first node, in the order of the program, whose value is another although its
// inputs agree.
#ifndef SLIPWAY_DRIVER_VERIFY_LAYERS_H_
#define SLIPWAY_DRIVER_VERIFY_LAYERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "driver/verify/model.h"

namespace slipway::driver {

// What tensors like this output of A may differ by, with the default's atol in absolute numbers.
absl::StatusOr<weights::Tolerance> ToleranceFor(const ir::TensorRef& a, const VerifyOptions& o,
                                                ir::DType narrowed = ir::DType::kFloat32);

// A functional program with the nodes that `p` has, as far as they survive functionalization: nothing is folded, joined
// or removed.
absl::StatusOr<std::unique_ptr<ir::Program>> Unchanged(const ir::Program& p);

// Both on one set of inputs, on which their outputs agree or not. One of them is a program.
absl::StatusOr<VerifyLayers> CompareLayers(const VerifyModel& a, const VerifyModel& b, const Tensors& inputs,
                                           bool agree, const VerifyOptions& o);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_VERIFY_LAYERS_H_
