// No number of a plan may be believed: sizes and strides are checked for overflow before a kernel sees them.
#include "kernels/executor/step_call.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kFar = int64_t{1} << 60;

// False for what has no elements, or more than memory has.
bool TensorOf(const Plan& p, const View& v, const std::vector<Scalar>& values, Tensor* t) {
  t->dtype = p.buffers[v.buffer].widened ? DType::kF32 : v.dtype, t->rank = v.rank;
  const auto& packed = p.buffers[v.buffer].packed;
  t->packed = packed ? packed->packing : Packing::kNone;
  int64_t elements = 1, reach = 0;
  for (int d = 0; d < v.rank; ++d) {
    const Scalar &size = values[p.dims[v.first_dim + d]], &stride = values[p.dims[v.first_dim + v.rank + d]];
    if (!size.known || !stride.known || size.bits < 1 || __builtin_mul_overflow(elements, size.bits, &elements) ||
        elements > StepCall::kMaxElements)
      return false;
    t->sizes[d] = size.bits,
    t->strides[d] = size.bits == 1 && (stride.bits > kFar || stride.bits < -kFar) ? 0 : stride.bits;
    int64_t way;
    if (__builtin_mul_overflow(size.bits - 1, t->strides[d], &way) || way > kFar || way < -kFar) return false;
    reach += way < 0 ? -way : way;
    if (reach > kFar) return false;
  }
  return true;
}

}  // namespace

bool StepCall::Bind(const Plan& plan, const Step& step, const std::vector<Scalar>& values) {
  tensors.resize(static_cast<size_t>(step.inputs + step.outputs));
  ints.clear(), reals.clear();
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!TensorOf(plan, plan.views[step.first_view + static_cast<int32_t>(i)], values, &tensors[i])) return false;
  for (int32_t k = 0; k < step.ints + step.floats; ++k) {
    const Scalar& n = values[plan.numbers[step.first_number + k]];
    if (!n.known) return false;
    if (k < step.ints)
      ints.push_back(n.bits);
    else
      reals.push_back(n.real());
  }
  const auto inputs = static_cast<size_t>(step.inputs);
  call = {.in = std::span<const Tensor>(tensors).first(inputs),
          .out = std::span<const Tensor>(tensors).subspan(inputs)};
  call.compute = step.compute, call.ints = ints, call.floats = reals, call.user = step.kernel->user;
  return true;
}

}  // namespace slipway::kernels
