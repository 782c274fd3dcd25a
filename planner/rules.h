// How an operator becomes steps of a plan: one row per operator in the tables of plan_*.cc. A row's function reads its
// arguments through PlanContext (an ir::ArgReader); views are arithmetic on strides, the rest are kernel calls.
#ifndef SLIPWAY_PLANNER_RULES_H_
#define SLIPWAY_PLANNER_RULES_H_

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ir/ops/args.h"
#include "ir/ops/infer.h"
#include "planner/planner.h"

namespace slipway::planner {

using ir::DType;
using ir::Ints;

// A tensor of the plan being made. Default: none.
struct Operand {
  int buffer = -1;
  int64_t offset = 0;  // bytes
  DType dtype = DType::kUnknown;
  Ints sizes, strides;  // elements
  explicit operator bool() const { return buffer >= 0; }
  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t numel() const;
  bool is_contiguous() const;
};

// The same numbers seen otherwise. All take dims that are in range.
Operand Expand(Operand x, const Ints& sizes);  // to broadcast sizes
Operand Permute(const Operand& x, const std::vector<int>& order);
Operand Swap(Operand x, int a, int b);
Operand MoveToLast(const Operand& x, const std::vector<int>& dims);  // in the order given
Operand Unsqueeze(Operand x, int dim);
Operand Drop(Operand x, int dim);  // a dim of size 1, or the first of it
Operand Narrow(Operand x, int dim, int64_t start, int64_t length, int64_t step = 1);
Operand Select(Operand x, int dim, int64_t index);
Operand Diagonal(Operand x, int64_t offset, int a, int b);  // the diagonal becomes the last dim

// The plan being made.
class PlanBuilder {
 public:
  explicit PlanBuilder(PlannedProgram& out, const PlanOptions& options) : out_(out), options_(options) {}

  absl::flat_hash_map<const ir::Value*, Operand> values;

  int AddBuffer(kernels::Buffer b);
  int AddView(const Operand& x);
  PlannedProgram& out() { return out_; }
  uint64_t temporaries = 0;  // bytes
  uint64_t limit() const { return options_.memory_limit; }

 private:
  PlannedProgram& out_;
  const PlanOptions& options_;
};

class PlanContext : public ir::ArgReader {
 public:
  PlanContext(const ir::Node& n, PlanBuilder& b, std::string_view kernel) : ArgReader(n), b_(b), kernel_(kernel) {}

  // The row's kernel.
  std::string_view kernel() const { return kernel_; }

  // Arguments as tensors of the plan; in(i) is by position in the declaration.
  Operand in(std::string_view name);
  Operand in(size_t i);
  Operand opt_in(std::string_view name);
  Operand of(const ir::Value* v);
  // An argument that is a tensor or a number, which becomes a 0-d constant of f64 or i64.
  Operand number(const ir::Scalar& s);

  // Result i as declared.
  DType out_dtype(size_t i = 0);
  Ints out_sizes(size_t i = 0);
  bool used(size_t i);

  Operand Temp(DType dtype, Ints sizes);  // dense
  // An error where a kernel's own a × b numbers do not fit the memory limit.
  void Account(int64_t a, int64_t b);
  // A number by which places move (an offset, a padding): bounded, so that sums with sizes do not overflow.
  int64_t Shift(int64_t v) {
    constexpr int64_t kMost = int64_t{1} << 48;
    if (v < -kMost || v > kMost) Fail("a number is out of range");
    return ok() ? v : 0;
  }
  Operand Result(size_t i = 0) { return Temp(out_dtype(i), out_sizes(i)); }
  // One kernel call.
  void Emit(std::string_view kernel, std::vector<Operand> in, std::vector<Operand> out, DType compute, Ints ints = {},
            std::vector<double> floats = {});

  // Operands expanded to the result's sizes, then one call; gives the result.
  Operand Map(std::string_view kernel, std::vector<Operand> in, Operand out, DType compute, Ints ints = {},
              std::vector<double> floats = {});
  void Copy(const Operand& from, const Operand& to);
  Operand Cast(Operand x, DType dtype);    // x itself when it already is
  Operand Dense(Operand x);                // x itself when it already is
  Operand Reshape(Operand x, Ints sizes);  // a view where strides allow, else of a copy
  Operand Full(Ints sizes, const ir::Scalar& value, DType dtype);

  void Return(Operand x) { results_ = {std::move(x)}; }
  void Return(std::vector<Operand> xs) { results_ = std::move(xs); }
  std::vector<Operand>& results() { return results_; }

 private:
  PlanBuilder& b_;
  std::string_view kernel_;
  std::vector<Operand> results_;
};

// The kernels' name for a dtype; nullopt where they have none.
std::optional<kernels::DType> NativeType(DType t);
DType FromNative(kernels::DType t);

using PlanFn = void (*)(PlanContext& c);
struct PlanRow {
  std::string_view op;
  PlanFn fn;
  std::string_view kernel;
};

// Operators that share a function and a kernel ("" : each the kernel of its own base name), as names separated by white
// space. A name is of ATen; without an overload it is the default one.
struct PlanFamily {
  PlanFn fn;
  std::string_view kernel;
  std::string_view ops;
};

const PlanRow* FindPlanRow(std::string_view op);

absl::Span<const PlanFamily> ElementwisePlans();
absl::Span<const PlanFamily> ViewPlans();
absl::Span<const PlanFamily> CreationPlans();
absl::Span<const PlanFamily> DataPlans();
absl::Span<const PlanFamily> ReductionPlans();
absl::Span<const PlanFamily> ProductPlans();

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_RULES_H_
