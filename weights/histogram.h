// How the values of a tensor are spread: what `slipway inspect --html --histograms` draws.
#ifndef SLIPWAY_WEIGHTS_HISTOGRAM_H_
#define SLIPWAY_WEIGHTS_HISTOGRAM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/sharded.h"

namespace slipway::weights {

// `counts` of the finite values in steps of `width` from `from` on; least, greatest, mean and standard deviation of
// them.
struct Histogram {
  int64_t elements = 0, zeros = 0, nan = 0, infinite = 0;
  double min = 0, max = 0, mean = 0, deviation = 0;
  double from = 0, width = 0;
  std::vector<int64_t> counts;
};

// Of a tensor of any size, gone through once, a piece at a time. Steps are powers of two, so that at least 32 of them
// and at most 64 lie between the least and the greatest value's powers of two; fewer where zero is far outside of what
// there is. nullopt for types without plain numbers: complex ones, and integers of less than a byte. Errors are those
// of tensors that are not valid or cannot be read.
absl::StatusOr<std::optional<Histogram>> HistogramOf(const ir::ShardedTensor& t);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_HISTOGRAM_H_
