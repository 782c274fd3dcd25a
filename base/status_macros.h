// Leaving a function with the error of a Status or StatusOr.
#ifndef SLIPWAY_BASE_STATUS_MACROS_H_
#define SLIPWAY_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/statusor.h"

// RETURN_IF_ERROR(Check(x));
#define RETURN_IF_ERROR(expr) \
  if (absl::Status status_ = (expr); !status_.ok()) return status_

// ASSIGN_OR_RETURN(int64_t n, ReadCount());
#define ASSIGN_OR_RETURN(declaration, expr) \
  SLIPWAY_ASSIGN_OR_RETURN_(SLIPWAY_CONCATENATE_(status_or_, __LINE__), declaration, expr)
#define SLIPWAY_ASSIGN_OR_RETURN_(status_or, declaration, expr) \
  auto status_or = (expr);                                      \
  if (!status_or.ok()) return status_or.status();               \
  declaration = *std::move(status_or)
#define SLIPWAY_CONCATENATE_(a, b) SLIPWAY_CONCATENATE_IMPL_(a, b)
#define SLIPWAY_CONCATENATE_IMPL_(a, b) a##b

#endif  // SLIPWAY_BASE_STATUS_MACROS_H_
