// States of a model: memory that outlives its runs, which this handle owns. What grows has room for more than there is,
// so that a run writes what is new behind what there was and copies nothing; when the room is used up it doubles.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/strided_iterator.h"
#include "kernels/system.h"
#include "runtime/model.h"

namespace slipway::runtime {

using kernels::Error;
using kernels::State;
using kernels::Tensor;

namespace {

constexpr size_t kAlignment = 64;
constexpr int64_t kFirstRoom = 64;  // along the dim that grows, at least

void SetDense(Tensor& t) {
  int64_t step = 1;
  for (int d = t.rank - 1; d >= 0; --d) t.strides[d] = step, step *= std::max<int64_t>(t.sizes[d], 1);
}

// Dense rows: of `from` the first `length` along dim, to where they lie in `to`.
void CopyRows(const Tensor& from, const Tensor& to, int dim, int64_t length) {
  int64_t rows = 1, row = kernels::ByteSize(to.dtype);
  for (int d = 0; d < dim; ++d) rows *= to.sizes[d];
  for (int d = dim + 1; d < to.rank; ++d) row *= to.sizes[d];
  for (int64_t i = 0; i < rows && row * length > 0; ++i)
    std::memcpy(static_cast<char*>(to.data) + i * row * to.sizes[dim],
                static_cast<const char*>(from.data) + i * row * from.sizes[dim], static_cast<size_t>(row * length));
}

Error NoMemory() { return {Error::kMemory, "out of memory for the state", -1}; }

}  // namespace

Model::~Model() {
  for (Held& held : states_) FreeState(held);
}

bool Model::AllocateState(Held* held, Tensor shape) {
  SetDense(shape);
  uint64_t bytes = static_cast<uint64_t>(kernels::ByteSize(shape.dtype));
  for (int d = 0; d < shape.rank; ++d)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(shape.sizes[d]), &bytes) || bytes > uint64_t{1} << 46)
      return false;
  held->bytes = (bytes / kAlignment + 1) * kAlignment;
  const auto& a = options_.allocator;
  shape.data = a ? a->allocate(a->self, held->bytes, kAlignment) : kernels::AllocateAligned(kAlignment, held->bytes);
  held->tensor = shape;
  return shape.data != nullptr;
}

void Model::FreeState(Held& held) {
  if (!held.tensor.data) return;
  if (options_.allocator)
    options_.allocator->deallocate(options_.allocator->self, held.tensor.data, held.bytes);
  else
    kernels::FreeAligned(held.tensor.data);
  held = {};
}

// Makes the states as they are in the beginning, where they have not been made.
Error Model::FirstState() {
  if (!states_.empty()) return {};
  const kernels::Plan& p = plan();
  std::vector<Held> made(p.states.size());
  for (size_t i = 0; i < made.size(); ++i) {
    const State& s = p.states[i];
    const kernels::Input& in = p.inputs[s.input];
    Tensor shape;
    shape.dtype = in.dtype, shape.rank = static_cast<int>(in.sizes.size());
    for (int d = 0; d < shape.rank; ++d) shape.sizes[d] = d == s.dim ? 0 : p.exprs[in.sizes[d]].value;
    if (!AllocateState(&made[i], shape)) {
      for (Held& held : made) FreeState(held);
      return NoMemory();
    }
    const auto bytes = static_cast<size_t>(shape.numel() * kernels::ByteSize(shape.dtype));
    if (s.initial >= 0)
      std::memcpy(made[i].tensor.data, p.buffers[s.initial].constant, bytes);
    else
      std::memset(made[i].tensor.data, 0, bytes);
  }
  states_ = std::move(made);
  return {};
}

// Room for so much of state i, as far as there is memory.
bool Model::Reserve(size_t i, int64_t length) {
  Held& held = states_[i];
  const int dim = plan().states[i].dim;
  const int64_t room = held.tensor.sizes[dim];
  if (length <= room) return true;
  Held more;
  more.length = held.length;
  Tensor shape = held.tensor;
  shape.sizes[dim] = std::max({length, 2 * room, kFirstRoom});
  if (!AllocateState(&more, shape)) {
    shape.sizes[dim] = length;  // no more than what is needed
    if (!AllocateState(&more, shape)) return false;
  }
  CopyRows(held.tensor, more.tensor, dim, held.length);
  FreeState(held);
  held = more;
  return true;
}

Error Model::RunWithStates(std::span<const Tensor> inputs, const kernels::AllocateOutput& allocate) {
  std::lock_guard lock(state_mutex_);
  const kernels::Plan& p = plan();
  if (damaged_) return {Error::kInput, "a run that failed has left the state in between: reset it", -1};
  if (Error f = FirstState()) return f;
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  all.resize(p.inputs.size());
  std::vector<int64_t> lengths(states_.size()), after(states_.size());
  auto add_states = [&] {
    for (size_t i = 0; i < states_.size(); ++i) {
      const State& s = p.states[i];
      all[s.input] = states_[i].tensor;
      lengths[i] = states_[i].length;
      if (s.length < 0) continue;
      all[s.length].dtype = kernels::DType::kI64;
      all[s.length].data = &lengths[i];
    }
  };
  add_states();
  Runner runner = Take();
  Error failure = runner.context->LengthsAfter(all, after);
  for (size_t i = 0; i < states_.size() && !failure; ++i)
    if (after[i] >= 0 && !Reserve(i, std::max(after[i], states_[i].length))) failure = NoMemory();
  if (!failure) {
    add_states();
    failure = runner.context->Run(all, allocate);
    if (failure.step >= 0) {
      failure.text = about_.origins[p.steps[failure.step].origin].op + ": " + failure.text;
      // What has grown is as it was: only what lies behind it was written.
      damaged_ = std::any_of(p.states.begin(), p.states.end(), [](const State& s) { return s.length < 0; });
    }
  }
  Return(std::move(runner));
  for (size_t i = 0; i < states_.size() && !failure; ++i)
    if (after[i] >= 0) states_[i].length = after[i];
  return failure;
}

Error Model::ResetState() {
  std::lock_guard lock(state_mutex_);
  for (Held& held : states_) FreeState(held);
  states_.clear();
  damaged_ = false;
  return {};
}

int64_t Model::StateLength(size_t i) {
  std::lock_guard lock(state_mutex_);
  if (plan().states[i].length < 0) return -1;
  return states_.empty() ? 0 : states_[i].length;
}

Error Model::TruncateState(int64_t length) {
  std::lock_guard lock(state_mutex_);
  if (Error f = FirstState()) return f;
  const kernels::Plan& p = plan();
  for (size_t i = 0; i < states_.size(); ++i)
    if (p.states[i].length >= 0 && (length < 0 || length > states_[i].length))
      return {Error::kInput,
              "state " + p.inputs[p.states[i].input].name + " has a length of " + std::to_string(states_[i].length) +
                  ", which cannot be cut to " + std::to_string(length),
              -1};
  for (size_t i = 0; i < states_.size(); ++i)
    if (p.states[i].length >= 0) states_[i].length = length;
  return {};
}

Error Model::GetState(size_t i, const std::function<void*(const Tensor& shape)>& allocate) {
  std::lock_guard lock(state_mutex_);
  if (i >= plan().states.size()) return {Error::kInput, "no state " + std::to_string(i), -1};
  if (Error f = FirstState()) return f;
  const Held& held = states_[i];
  const int dim = plan().states[i].dim;
  Tensor shape = held.tensor;
  if (dim >= 0) shape.sizes[dim] = held.length;
  shape.data = allocate(shape);
  if (!shape.data) return NoMemory();
  const size_t bytes = static_cast<size_t>(shape.numel() * kernels::ByteSize(shape.dtype));
  if (dim >= 0)
    CopyRows(held.tensor, shape, dim, held.length);
  else
    std::memcpy(shape.data, held.tensor.data, bytes);
  return {};
}

Error Model::SetState(size_t i, const Tensor& value) {
  std::lock_guard lock(state_mutex_);
  const kernels::Plan& p = plan();
  if (i >= p.states.size()) return {Error::kInput, "no state " + std::to_string(i), -1};
  if (Error f = FirstState()) return f;
  Held& held = states_[i];
  const int dim = p.states[i].dim;
  bool fits = value.dtype == held.tensor.dtype && value.rank == held.tensor.rank &&
              (value.data != nullptr || value.numel() == 0);
  for (int d = 0; d < held.tensor.rank && fits; ++d)
    fits = value.sizes[d] >= 0 && (d == dim || value.sizes[d] == held.tensor.sizes[d]);
  if (!fits)
    return {Error::kInput, "state " + p.inputs[p.states[i].input].name + " is of another dtype or other sizes", -1};
  if (dim >= 0) {
    held.length = 0;  // there is nothing to carry over
    if (!Reserve(i, value.sizes[dim])) return NoMemory();
    held.length = value.sizes[dim];
  }
  Tensor to = held.tensor;
  const size_t item = static_cast<size_t>(kernels::ByteSize(to.dtype));
  if (dim >= 0) to.sizes[dim] = value.sizes[dim];
  if (value.numel() > 0)
    for (kernels::Positions<2> at(value, {&value, &to}); at; at.Next()) std::memcpy(at[1], at[0], item);
  return {};
}

}  // namespace slipway::runtime
