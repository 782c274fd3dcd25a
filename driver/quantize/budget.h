// Configurations chosen for the user: the one of each layer such that the whole stays within a budget of error or of
// size.
#ifndef SLIPWAY_DRIVER_QUANTIZE_BUDGET_H_
#define SLIPWAY_DRIVER_QUANTIZE_BUDGET_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "driver/convert/options.h"
#include "driver/quantize/report.h"
#include "ir/sharded.h"
#include "quantizer/config.h"

namespace slipway::driver {

// What --config says where the budgets choose.
inline constexpr std::string_view kAutomatic = "auto";

// --error-budget as a share: "1%" and "0.01" are 0.01. A usage error for what is no positive number.
absl::StatusOr<double> ParseErrorBudget(std::string_view given);

// 0.0123 as "1.23%".
std::string Percent(double share);

struct BudgetWeight {
  std::string name;  // MODULE.weight
  ir::ShardedTensor tensor;
};

// The least of bytes within --error-budget, or the least of error within --size-budget; with both, within the size and
// checked against the error. Each weight stays as it is or becomes int8 by rows, or 4 bits in groups of 32 or 128:
// int4-weight-only in checkpoints, whose layout packs it, intx in programs, which runtimes have kernels for. The error
// is that of all weights together,
// ||W - Q|| / ||W||, measured by quantizing each in each way. `other_bytes` are those of everything else.
//
// `choice` is filled in with what there was to choose from.
//
// A usage error without a budget, or for one that is no number; exit code 1, with the nearest that can be had, where
// there is no such choice.
absl::StatusOr<quantizer::ConfigMap> ConfigsWithin(const ConvertOptions& o, absl::Span<const BudgetWeight> weights,
                                                   uint64_t other_bytes, bool program, QuantizeChoice* choice);

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_BUDGET_H_
