// Inputs to compare two models on: the samples that an archive holds, or made ones that the program's signature allows.
#ifndef SLIPWAY_DRIVER_VERIFY_INPUTS_H_
#define SLIPWAY_DRIVER_VERIFY_INPUTS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace slipway::driver {

using Tensors = std::vector<ir::TensorRef>;

// The inputs that a run takes: tensors and symbolic numbers, in flattened order.
std::vector<const ir::Value*> TakenInputs(const ir::Program& p);

// The archive's sample inputs; InvalidArgument where it has none, or others than the program takes, with the reason.
absl::StatusOr<Tensors> SampleInputs(const ir::Program& p);

// Makes inputs within dtypes, ranges and relations: sizes from the ranges of the symbols so that guards, constraints of
// ranges and the conditions of the nodes hold; floating-point values standard normal; integers that index something
// within what they index, as far as the nodes between show it, others from 0 to 3. The same seed gives the same inputs.
class InputGenerator {
 public:
  struct Options {
    uint64_t seed = 0;
    bool adversarial = false;  // a fifth of the elements are edge values: zeros, infinities, NaN, denormals, extremes
    int64_t most_elements = int64_t{1} << 24;  // of all inputs together
  };
  InputGenerator(const ir::Program& p, const Options& options);
  ~InputGenerator();

  // Sizes for the symbols of the inputs. The first are those seen at export, or small ones; with `sweep` the least of
  // all, the largest of all (of what has no end some size), then any. InvalidArgument where none were found that fit
  // all conditions; ResourceExhausted where the least are too many elements.
  absl::StatusOr<text::Map<int64_t>> Sizes(int index, bool sweep);
  // Values for tensors of these sizes. `most_integer`: integers are at most this, but for edge
  // values.
  absl::StatusOr<Tensors> Values(const text::Map<int64_t>& sizes, int index,
                                 int64_t most_integer = std::numeric_limits<int64_t>::max());

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_VERIFY_INPUTS_H_
