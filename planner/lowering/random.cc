// Random numbers of the three distributions that others are made of (passes/decompositions/random.cc).
#include "ir/ops/op_table.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

void Random(PlanContext& c) {
  Operand out = c.Result();
  if (!c.ok()) return;
  if (!ir::IsFloating(out.dtype)) return c.Fail("of a type without fractions");
  c.Emit(c.kernel(), {}, {out}, out.dtype);
  c.Return(out);
}
void RandomIntegers(PlanContext& c) {
  Operand out = c.Result();
  const Dim low = c.node().op().ArgIndex("low") >= 0 ? c.n("low") : Dim(0), high = c.n("high");
  if (!c.ok()) return;
  c.Emit("random_integers", {}, {out}, out.dtype, RandomIntegersAttributes{low, high - low});
  c.Return(out);
}

constexpr PlanFamily kRandomFamilies[] = {
    {Random, "random_uniform", "rand rand.generator rand_like rand_like.generator"},
    {Random, "random_normal", "randn randn.generator randn_like randn_like.generator"},
    {RandomIntegers, "",
     "randint randint.generator randint.low randint.low_generator randint_like randint_like.generator "
     "randint_like.low_dtype "
     "randint_like.low_generator_dtype"},
};

}  // namespace

absl::Span<const PlanFamily> RandomPlans() { return kRandomFamilies; }

}  // namespace slipway::planner
