// The products of matrices in a plan, which is looked at and not run: their sizes, how their weights lie, and the loops
// that they would take on this processor, by the number of rows where that is not fixed.
#ifndef SLIPWAY_KERNELS_EXECUTOR_PLAN_PRODUCTS_H_
#define SLIPWAY_KERNELS_EXECUTOR_PLAN_PRODUCTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/executor/plan.h"
#include "kernels/gemm/product.h"

namespace slipway::kernels {

struct PlanProduct {
  int32_t step = 0;
  // numbers, or expressions over the plan's symbols; n is "" where nothing is multiplied
  std::string batch, m, k, n;
  DType left = DType::kF32, right = DType::kF32, result = DType::kF32;
  bool has_right = false;
  int64_t groups = 0;  // as Product
  Packing packing = Packing::kNone;
  double bytes = 0;  // of the right matrix with its scales; 0 where it is no constant
  struct Rows {
    int64_t from = 1, to = 0;  // numbers of rows; to = 0: any number of them
    Loop loop;
  };
  // In order; empty where sizes cannot be told. Several for the same rows where other sizes decide among them.
  std::vector<Rows> loops;
};

// The plan must be valid (Executable::Make).
std::vector<PlanProduct> ProductsOf(const Plan& plan);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_PLAN_PRODUCTS_H_
