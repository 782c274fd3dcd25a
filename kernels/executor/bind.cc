// Binds a run, stage by stage: sizes, strides and reach of views, memory of temporaries and results. What is hard: no
// number of a plan may be believed. Sizes, strides and offsets are evaluated in arithmetic that notices overflow, and a
// view that does not lie in its buffer has no address.
#include <algorithm>
#include <string>
#include <string_view>

#include "kernels/executor/execute.h"
#include "kernels/executor/execute_internal.h"

namespace slipway::kernels {

// Sizes, strides and reach of a view. One without values, or outside what memory can hold, is an error only when a step
// uses it: that of a branch not taken, or of a loop's counter at its end, is none.
void Context::BindView(int32_t i) {
  const Plan& p = executable_->plan();
  const View& v = p.views[i];
  Tensor& t = tensors_[i];
  auto& [first, last] = extent_[i];
  t.dtype = p.buffers[v.buffer].widened ? DType::kF32 : v.dtype;
  t.rank = v.rank;
  t.packed = p.buffers[v.buffer].packed ? p.buffers[v.buffer].packed->packing : Packing::kNone;
  const int64_t size = ByteSize(v.dtype);
  bool known = values_[v.offset].known, empty = false;
  for (int d = 0; d < v.rank; ++d) {
    const Scalar &n = values_[p.dims[v.first_dim + d]], &s = values_[p.dims[v.first_dim + v.rank + d]];
    known = known && n.known && s.known && n.bits >= 0;
    t.sizes[d] = n.bits;
    t.strides[d] = s.bits;
    empty |= n.bits == 0;
  }
  if (!known) {
    first = last = -1;
    return;
  }
  first = last = values_[v.offset].bits;
  // Strides of dims of size 1, or of tensors without elements, are unused and may be any number: none that overflows in
  // a kernel.
  for (int d = 0; d < v.rank; ++d)
    if ((empty || t.sizes[d] == 1) && (t.strides[d] > kFar || t.strides[d] < -kFar)) t.strides[d] = 0;
  bool fits = empty || (first >= 0 && first % size == 0);
  int64_t numel = size;
  if (empty) {
    for (int d = 0; d < v.rank && fits; ++d)
      fits = !__builtin_mul_overflow(numel, std::max<int64_t>(t.sizes[d], 1), &numel);
    first = fits ? 0 : -1, last = -1;
    return;
  }
  numel = 1;
  for (int d = 0; d < v.rank && fits; ++d) {
    int64_t way;
    fits = !__builtin_mul_overflow(numel, t.sizes[d], &numel) &&
           !__builtin_mul_overflow(t.sizes[d] - 1, t.strides[d], &way) && !__builtin_mul_overflow(way, size, &way) &&
           !__builtin_add_overflow(way < 0 ? first : last, way, way < 0 ? &first : &last);
  }
  fits = fits && !__builtin_add_overflow(last, size - 1, &last) && !__builtin_mul_overflow(numel, size, &numel) &&
         // expanded ones have elements that take no memory, but time
         static_cast<uint64_t>(numel) <= options_.memory_limit;
  // Elements of results do not share memory.
  fits = fits && (!executable_->written_[i] || numel - 1 <= last - first);
  if (!fits) first = last = -1;
}

bool Context::Fits(int32_t view) const {
  const auto& [first, last] = extent_[view];
  return first >= 0 && last < bytes_[executable_->root_[executable_->plan().views[view].buffer]];
}

// The scratch memory that the kernel of a step counts; 0 where its views are no valid tensors yet.
int64_t Context::ScratchBytes(const Step& s) {
  // No tensor that is real has more elements; one dim of stride 0 may have any number.
  constexpr int64_t kMaxElements = int64_t{1} << 40, kLimit = int64_t{1} << 46;
  const std::span<const Tensor> all(tensors_.data() + s.first_view, static_cast<size_t>(s.inputs + s.outputs));
  for (int32_t k = 0; k < s.inputs + s.outputs; ++k) {
    if (!Fits(s.first_view + k)) return 0;
    if (std::find(all[k].sizes, all[k].sizes + all[k].rank, 0) != all[k].sizes + all[k].rank) return 0;
    if (all[k].numel() > kMaxElements) return 0;
  }
  if (!Numbers(s)) return 0;
  const int64_t bytes = QueryWorkspace(*s.kernel, CallOf(s, nullptr));
  return bytes > 0 && bytes <= kLimit ? bytes : 0;
}

// Places the temporaries of the stage, whose views' sizes are known.
Error Context::BindMemory(size_t stage) {
  const Executable::Stage& s = executable_->stages_[stage];
  const Plan& p = executable_->plan();
  sizes_.resize(s.temporaries.size());
  offsets_.resize(s.temporaries.size());
  for (size_t i = 0; i < s.temporaries.size(); ++i) {
    const int32_t b = s.temporaries[i];
    if (b < 0) continue;
    const Scalar& n = values_[p.buffers[b].bytes];
    bytes_[b] = n.known ? n.bits : -1;  // negative: no view fits
    sizes_[i] = n.known && n.bits > 0 ? n.bits : 0;
  }
  for (size_t i = 0; i < s.temporaries.size(); ++i)
    if (const int32_t t = s.temporaries[i]; t < 0) sizes_[i] = ScratchBytes(p.steps[~t]);
  const int64_t total = arena_.Place(s.lifetimes, s.deaths, sizes_, offsets_);
  Chunk& chunk = chunks_[stage];
  if (total < 0 || memory() - static_cast<uint64_t>(chunk.bytes) + static_cast<uint64_t>(total) + outputs_bytes_ >
                       options_.memory_limit)
    return Fail(Error::kMemory,
                "intermediate results take more than " + std::to_string(options_.memory_limit) + " bytes");
  if ((chunk.bytes < total || !chunk.memory) && !Grow(chunk, total)) return Fail(Error::kMemory, "out of memory");
  for (size_t i = 0; i < s.temporaries.size(); ++i) {
    const int32_t t = s.temporaries[i];
    char* const at = static_cast<char*>(chunk.memory.get()) + offsets_[i];
    if (t >= 0)
      base_[t] = at;
    else
      scratch_of_[~t] = {at, sizes_[i]};
  }
  return {};
}

// The caller's memory for results of the stage.
Error Context::Allocate(size_t stage, const AllocateOutput& allocate) {
  const Plan& p = executable_->plan();
  for (int32_t slot : executable_->stages_[stage].outputs) {
    const Output& out = p.outputs[slot];
    Tensor shape;
    shape.dtype = out.dtype;
    shape.rank = static_cast<int>(out.sizes.size());
    int64_t bytes = ByteSize(out.dtype), step = 1;
    bool fits = true, empty = false;
    for (int d = shape.rank - 1; d >= 0; --d) {
      const Scalar& n = values_[out.sizes[d]];
      if (!n.known || n.bits < 0)
        return Fail(Error::kData, "result " + std::to_string(slot) + ": a size has no value or is negative");
      shape.sizes[d] = n.bits;
      shape.strides[d] = step;
      empty |= n.bits == 0;
      const int64_t factor = n.bits == 0 ? 1 : n.bits;
      fits = fits && !__builtin_mul_overflow(step, factor, &step) && !__builtin_mul_overflow(bytes, factor, &bytes);
    }
    if (!fits || (!empty && static_cast<uint64_t>(bytes) > options_.memory_limit - outputs_bytes_))
      return Fail(Error::kMemory, "results take more than " + std::to_string(options_.memory_limit) + " bytes");
    if (empty) bytes = 0;
    void* memory = allocate(slot, shape);
    if (!memory && !empty) return Fail(Error::kMemory, "out of memory");
    outputs_bytes_ += static_cast<uint64_t>(bytes);
    const int32_t buffer = executable_->output_buffer_[slot];
    base_[buffer] = empty ? nowhere : static_cast<char*>(memory);
    bytes_[buffer] = bytes;
  }
  return {};
}

// Everything of the stage; `again`: nothing but the caller's memory is new.
Error Context::BindStage(size_t stage, bool again) {
  const Executable::Stage& s = executable_->stages_[stage];
  const Plan& p = executable_->plan();
  const bool kept = again && bound_[stage];
  for (size_t later = stage; later < bound_.size(); ++later) bound_[later] = 0;
  if (!kept) {
    for (int32_t e : s.exprs) values_[e] = Evaluate(p.exprs[e], values_, symbols_);
    for (int32_t c : s.checks) {
      const Scalar& n = values_[p.checks[c].expr];
      if (!n.known || n.bits == 0) return Fail(stage == 0 ? Error::kInput : Error::kData, p.checks[c].text);
    }
  }
  if (stage == 0) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& want = p.inputs[i];
      const std::string_view name = want.name;
      auto named = [&] { return "input " + std::to_string(i) + " (" + std::string(name) + ")"; };
      if (want.kind == Input::kUnused) continue;
      for (size_t d = 0; d < want.sizes.size(); ++d) {
        const Scalar& n = values_[want.sizes[d]];
        if (!n.known || n.bits != inputs_[i].sizes[d])
          return Fail(
              Error::kInput,
              named() + ": size " + std::to_string(d) + " is " + std::to_string(inputs_[i].sizes[d]) +
                  (n.known ? ", the program takes " + std::to_string(n.bits) : ", which the program does not take"));
      }
      if (want.value < 0) continue;
      const Scalar& n = values_[want.value];
      const Scalar have = ReadElement(inputs_[i].data, inputs_[i].dtype, IsFloating(inputs_[i].dtype));
      if (!n.known || n.bits != have.bits)
        return Fail(Error::kInput, named() + ": is not the number that the program takes");
    }
    outputs_bytes_ = 0;
    for (size_t b = 0; b < p.buffers.size(); ++b) {
      const Buffer& buffer = p.buffers[b];
      if (buffer.kind == Buffer::kInput || buffer.kind == Buffer::kState) {
        const Tensor& in = inputs_[buffer.slot];
        base_[b] = static_cast<char*>(in.data);
        bytes_[b] = in.data ? in.numel() * ByteSize(in.dtype) : 0;  // an unused number has no memory
      } else if (buffer.kind == Buffer::kConstant) {
        base_[b] = buffer.constant ? static_cast<char*>(const_cast<void*>(buffer.constant)) : nowhere;
        bytes_[b] = p.exprs[buffer.bytes].value;
      }
    }
  }
  if (Error f = Allocate(stage, *allocate_)) return f;
  if (!kept) {
    for (int32_t v : s.views)
      if (!executable_->fixed_[v] || !ever_bound_[stage]) BindView(v);
    if (Error f = BindMemory(stage)) return f;
  }
  for (int32_t v : kept ? s.callers_views : s.views) {
    const int32_t buffer = executable_->root_[p.views[v].buffer];
    tensors_[v].data =
        Fits(v) ? base_[buffer] + (extent_[v].second < 0 ? 0 : values_[p.views[v].offset].bits) : nullptr;
  }
  bound_[stage] = ever_bound_[stage] = 1;
  return {};
}

}  // namespace slipway::kernels
