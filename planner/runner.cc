// One run of a plan on tensors of the IR.
#include "planner/runner.h"

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {

Runner::Runner(PlannedProgram planned, const PlanOptions& options, bool profile, int threads)
    : planned_(std::move(planned)), options_(options) {
  executable_ = kernels::Executable::Make(std::move(planned_.plan), &malformed_);
  pool_ = kernels::ThreadPool::Make(threads);
  if (executable_)
    context_ = std::make_unique<kernels::Context>(
        executable_,
        kernels::RunOptions{
            .memory_limit = options.memory_limit, .profile = profile, .workers = pool_ ? &pool_->workers() : nullptr});
}

absl::StatusOr<std::vector<ir::TensorRef>> Runner::Run(absl::Span<const ir::TensorRef> inputs) {
  if (!executable_) return absl::InternalError(text::StrCat("the plan is malformed: ", malformed_));
  std::vector<std::string> bytes(inputs.size());
  std::vector<kernels::Tensor> in(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::TensorRef& t = inputs[i];
    const auto dtype = NativeType(t.dtype);
    if (!dtype || t.sizes.size() > kernels::kMaxRank)
      return absl::InvalidArgumentError(
          text::StrCat("input ", i, " is ", ir::Name(t.dtype), " of ", t.sizes.size(), " dims"));
    if (absl::Status s = ir::Validate(t); !s.ok()) return s;
    const std::vector<int64_t> strides = ir::ContiguousStrides(t.sizes);
    const auto memory = ir::MappedBytes(*t.storage);
    const char* at = reinterpret_cast<const char*>(memory.data()) + (memory.empty() ? 0 : t.offset);
    if (memory.empty() || t.strides != strides || reinterpret_cast<uintptr_t>(at) % ir::ByteSize(t.dtype) != 0) {
      auto dense = ir::ReadDense(t, options_.memory_limit);
      if (!dense.ok()) return dense.status();
      bytes[i] = *std::move(dense);
      at = bytes[i].data();
    }
    in[i].data = const_cast<char*>(at);  // inputs are only read
    in[i].dtype = *dtype;
    in[i].rank = static_cast<int>(t.sizes.size());
    std::copy(t.sizes.begin(), t.sizes.end(), in[i].sizes);
    std::copy(strides.begin(), strides.end(), in[i].strides);
  }
  std::vector<std::string> out(plan().outputs.size());
  std::vector<std::vector<int64_t>> sizes(out.size());
  const auto begin = std::chrono::steady_clock::now();
  const kernels::Error failure = context_->Run(in, [&](int32_t slot, const kernels::Tensor& shape) -> void* {
    sizes[slot].assign(shape.sizes, shape.sizes + shape.rank);
    out[slot].resize(static_cast<size_t>(shape.numel()) * kernels::ByteSize(shape.dtype));
    return out[slot].data();
  });
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (failure) {
    std::string what = failure.text;
    if (failure.step >= 0) what = text::StrCat(planned_.origins[plan().steps[failure.step].origin], ": ", what);
    if (failure.kind == kernels::Error::kMemory) return absl::ResourceExhaustedError(what);
    if (failure.kind == kernels::Error::kPlan) return absl::InternalError(what);
    return absl::InvalidArgumentError(what);
  }
  std::vector<ir::TensorRef> tensors;
  for (size_t i = 0; i < out.size(); ++i)
    tensors.push_back(ir::OwnedTensor(FromNative(plan().outputs[i].dtype), sizes[i], std::move(out[i])));
  return tensors;
}

}  // namespace slipway::planner
