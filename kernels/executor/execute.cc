// The executor. A run binds sizes and memory stage by stage (bind.cc), as the numbers that they depend on become known,
// and walks the steps. A step that needs a view without an address is an error.
#include "kernels/executor/execute.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <string_view>

#include "kernels/executor/execute_internal.h"
#include "kernels/gemm/product.h"
#include "kernels/strided_iterator.h"
#include "kernels/system.h"

namespace slipway::kernels {
namespace {

// Whether tensors are parts of the same rows, one beside the other: channels of an image with channels last, say. Some
// stride of `a` is the pitch of rows that both step by, and what either has of a row ends before the other begins.
bool InterleavedDisjoint(const Tensor& a, const Tensor& b) {
  const int64_t begin = reinterpret_cast<int64_t>(a.data);
  for (int d = 0; d < a.rank; ++d) {
    const int64_t pitch = a.strides[d] * ByteSize(a.dtype);
    if (a.sizes[d] < 2 || pitch <= 0) continue;
    int64_t first[2], last[2];  // bytes of a row
    bool rows = true;
    for (int k = 0; k < 2; ++k) {
      const Tensor& t = k == 0 ? a : b;
      const int64_t size = ByteSize(t.dtype), at = reinterpret_cast<int64_t>(t.data) - begin;
      first[k] = (at % pitch + pitch) % pitch, last[k] = first[k] + size;
      for (int e = 0; e < t.rank && rows; ++e) {
        const int64_t step = t.strides[e] * size;
        if (t.sizes[e] < 2 || step % pitch == 0) continue;
        rows = step > 0 && t.sizes[e] <= pitch / step + 1;
        if (rows) last[k] += step * (t.sizes[e] - 1);
      }
      rows = rows && last[k] <= pitch;
    }
    if (rows && (last[0] <= first[1] || last[1] <= first[0])) return true;
  }
  return false;
}

}  // namespace

void Context::Free::operator()(void* p) const {
  if (allocator)
    allocator->deallocate(allocator->self, p, bytes);
  else
    FreeAligned(p);
}

bool Context::Grow(Chunk& chunk, int64_t bytes) {
  chunk.bytes = 0;
  chunk.memory.reset();  // first, so that both are never there at once
  const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  const Allocator* a = options_.allocator;
  void* p = a ? a->allocate(a->self, rounded, kAlignment) : AllocateAligned(kAlignment, rounded);
  if (p && reinterpret_cast<uintptr_t>(p) % kAlignment != 0) {  // not what was asked for
    a->deallocate(a->self, p, rounded);
    p = nullptr;
  }
  if (!p) return false;
  chunk.memory = std::unique_ptr<void, Free>(p, Free{a, rounded});
  chunk.bytes = bytes;
  return true;
}

Context::Context(std::shared_ptr<const Executable> executable, RunOptions options)
    : executable_(std::move(executable)), options_(options) {
  const Plan& p = executable_->plan();
  symbols_.resize(p.symbols.size());
  values_.resize(p.exprs.size());
  inputs_.resize(p.inputs.size());
  copies_.resize(p.inputs.size());
  base_.resize(p.buffers.size());
  bytes_.resize(p.buffers.size());
  tensors_.resize(p.views.size());
  extent_.resize(p.views.size());
  chunks_.resize(executable_->stages_.size());
  scratch_of_.resize(p.steps.size());
  bound_.resize(executable_->stages_.size());
  ever_bound_.resize(executable_->stages_.size());
  if (options_.profile) nanoseconds_.resize(p.steps.size()), work_.resize(p.steps.size());
}

uint64_t Context::memory() const {
  uint64_t bytes = 0;
  for (const Chunk& c : chunks_) bytes += static_cast<uint64_t>(c.bytes);
  return bytes;
}

uint64_t Context::tensor_memory() const {
  uint64_t total = 0;
  Arena arena;
  for (size_t i = 0; i < bound_.size(); ++i) {
    const Executable::Stage& s = executable_->stages_[i];
    if (!bound_[i]) continue;
    std::vector<int64_t> sizes, offsets(s.temporaries.size());
    for (int32_t t : s.temporaries) sizes.push_back(t >= 0 ? std::max<int64_t>(bytes_[t], 0) : 0);
    total += static_cast<uint64_t>(std::max<int64_t>(arena.Place(s.lifetimes, s.deaths, sizes, offsets), 0));
  }
  return total;
}

// Takes the inputs, and what they say of symbols.
Error Context::BindSymbols(std::span<const Tensor> inputs) {
  const Plan& p = executable_->plan();
  if (inputs.size() != p.inputs.size())
    return Fail(Error::kInput,
                std::to_string(inputs.size()) + " inputs, the program takes " + std::to_string(p.inputs.size()));
  auto named = [&](size_t i) { return "input " + std::to_string(i) + " (" + p.inputs[i].name + ")"; };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& want = p.inputs[i];
    const Tensor& have = inputs[i];
    if (want.kind == Input::kUnused) continue;
    if (have.dtype != want.dtype || have.rank != static_cast<int>(want.sizes.size()))
      return Fail(Error::kInput, named(i) + ": is " + std::string(Info(have.dtype).name) + " of " +
                                     std::to_string(have.rank) + " dims, the program takes " +
                                     std::string(Info(want.dtype).name) + " of " + std::to_string(want.sizes.size()));
    int64_t bytes = ByteSize(have.dtype);
    bool empty = false;
    for (int d = 0; d < have.rank; ++d) {
      if (have.sizes[d] < 0) return Fail(Error::kInput, named(i) + ": a size is negative");
      empty |= have.sizes[d] == 0;
    }
    for (int d = 0; d < have.rank && !empty; ++d)
      if (__builtin_mul_overflow(bytes, have.sizes[d], &bytes))
        return Fail(Error::kInput, named(i) + ": a size is out of range");
    if (empty) bytes = 0;
    if (!empty && !have.data) return Fail(Error::kInput, named(i) + ": has no memory");
    inputs_[i] = have;
    if (empty) inputs_[i].data = nowhere;
  }
  for (const Binding& b : p.bindings) {
    const Tensor& t = inputs_[b.input];
    const Symbol& symbol = p.symbols[b.symbol];
    Scalar value;
    if (b.dim >= 0) {
      const int64_t n = t.sizes[b.dim];
      int64_t rest;
      if (__builtin_sub_overflow(n, b.shift, &rest) || rest % b.scale != 0)
        return Fail(Error::kInput, named(b.input) + ": size " + std::to_string(b.dim) + " is " + std::to_string(n) +
                                       ", which no " + symbol.name + " gives");
      value = symbol.real ? Scalar::Real(static_cast<double>(rest / b.scale)) : Scalar::Int(rest / b.scale);
    } else {
      value = ReadElement(t.data, t.dtype, symbol.real);
    }
    if (!symbol.real && (value.bits < symbol.min || value.bits > symbol.max))
      return Fail(Error::kInput, named(b.input) + ": " + symbol.name + " = " + std::to_string(value.bits) +
                                     ", the program takes " + std::to_string(symbol.min) + " to " +
                                     std::to_string(symbol.max));
    symbols_[b.symbol] = value;
  }
  return {};
}

Error Context::LengthsAfter(std::span<const Tensor> inputs, std::span<int64_t> lengths) try {
  const Plan& p = executable_->plan();
  last_symbols_ = symbols_;
  Error f = BindSymbols(inputs);
  if (!f) {
    lengths_.resize(p.exprs.size());
    for (int32_t e : executable_->lengths_) lengths_[e] = Evaluate(p.exprs[e], lengths_, symbols_);
    for (size_t i = 0; i < p.states.size() && !f; ++i) {
      const int32_t after = p.states[i].after;
      lengths[i] = after < 0 ? -1 : lengths_[after].bits;
      if (after >= 0 && (!lengths_[after].known || lengths[i] < 0 || lengths[i] > kFar))
        f = Fail(Error::kInput,
                 "state " + p.inputs[p.states[i].input].name + ": its length after the run has no value");
    }
  }
  symbols_ = last_symbols_;
  return f;
} catch (const std::bad_alloc&) {
  return Fail(Error::kMemory, "out of memory");
}

Error Context::Start(std::span<const Tensor> inputs) {
  const Plan& p = executable_->plan();
  if (Error f = BindSymbols(inputs)) return f;
  // Only now that sizes are in range: what is not dense is copied.
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& have = inputs[i];
    const int64_t size = ByteSize(have.dtype), bytes = have.numel() * size;
    const bool aligned = reinterpret_cast<uintptr_t>(have.data) % static_cast<uintptr_t>(size) == 0;
    if (p.inputs[i].kind == Input::kUnused || bytes == 0 || (aligned && have.is_contiguous())) continue;
    Chunk& copy = copies_[i];
    if (copy.bytes < bytes && !Grow(copy, bytes)) return Fail(Error::kMemory, "out of memory");
    inputs_[i].data = copy.memory.get();
    // Element by element: pointers may be unaligned.
    char* to = static_cast<char*>(copy.memory.get());
    for (Positions<1> at(have, {&have}); at; at.Next(), to += size) std::memcpy(to, at[0], static_cast<size_t>(size));
  }
  return {};
}

Error Context::SetSymbol(int32_t symbol, Scalar value) {
  const Symbol& s = executable_->plan().symbols[symbol];
  if (!value.known) return Fail(Error::kData, s.name + " has no value");
  if (!s.real && (value.bits < s.min || value.bits > s.max))
    return Fail(Error::kData, s.name + " = " + std::to_string(value.bits) + " is outside " + std::to_string(s.min) +
                                  " to " + std::to_string(s.max));
  symbols_[symbol] = value;
  return BindStage(static_cast<size_t>(executable_->symbol_stage_[symbol]), false);
}

// Whether the views of a step can be used.
Error Context::Usable(const Step& s) const {
  for (int32_t v = s.first_view; v < s.first_view + s.inputs + s.outputs; ++v) {
    if (!bound_[executable_->view_stage_[v]]) return Fail(Error::kPlan, "sizes are not known yet");
    if (!tensors_[v].data) return Fail(Error::kData, "a tensor of these sizes does not fit its memory");
  }
  if (executable_->may_overlap_[&s - executable_->plan().steps.data()] && Overlap(s))
    return Fail(Error::kPlan, "a result lies where another tensor of its step does");
  return {};
}

// Whether a result lies where another view of the step does, as far as the bytes from the first to the last of each and
// their rows tell; an elementwise result may lie exactly where an operand does, others where the one does that they
// overwrite.
bool Context::Overlap(const Step& s) const {
  const Plan& p = executable_->plan();
  auto root = [&](int32_t v) { return executable_->root_[p.views[v].buffer]; };
  const int32_t overwritten = executable_->overwritten_[&s - p.steps.data()];
  for (int32_t k = s.first_view + s.inputs; k < s.first_view + s.inputs + s.outputs; ++k)
    for (int32_t j = s.first_view; j < k; ++j) {
      if (root(j) != root(k) || extent_[j].second < extent_[k].first || extent_[k].second < extent_[j].first) continue;
      const Tensor &a = tensors_[j], &b = tensors_[k];
      bool same = (s.kernel->elementwise || j - s.first_view == overwritten) && j < s.first_view + s.inputs &&
                  a.data == b.data && a.rank == b.rank && ByteSize(a.dtype) == ByteSize(b.dtype);
      for (int d = 0; same && d < a.rank; ++d) same = a.sizes[d] == b.sizes[d] && a.strides[d] == b.strides[d];
      if (!same && !InterleavedDisjoint(a, b)) return true;
    }
  return false;
}

bool Context::Numbers(const Step& s) {
  const Plan& p = executable_->plan();
  ints_.clear();
  floats_.clear();
  for (int32_t k = 0; k < s.ints + s.floats; ++k) {
    const Scalar& n = values_[p.numbers[s.first_number + k]];
    if (!n.known) return false;
    if (k < s.ints)
      ints_.push_back(n.bits);
    else
      floats_.push_back(n.real());
  }
  return true;
}

Call Context::CallOf(const Step& s, Scratch* scratch) const {
  const std::span<const Tensor> all(tensors_.data() + s.first_view, static_cast<size_t>(s.inputs + s.outputs));
  const std::span<const ChainOp> ops = executable_->plan().ops;
  return {all.first(s.inputs),
          all.last(s.outputs),
          s.compute,
          ints_,
          floats_,
          options_.workers,
          ops.subspan(static_cast<size_t>(s.ops > 0 ? s.first_op : 0), static_cast<size_t>(s.ops)),
          scratch,
          s.kernel->user};
}

Error Context::RunKernel(const Step& s) {
  const Plan& p = executable_->plan();
  const std::span<const Tensor> all(tensors_.data() + s.first_view, static_cast<size_t>(s.inputs + s.outputs));
  if (s.kernel->elementwise) {
    const Tensor& shape = all[s.inputs];
    for (const Tensor& t : all)
      if (t.rank != shape.rank || std::memcmp(t.sizes, shape.sizes, sizeof(int64_t) * static_cast<size_t>(t.rank)) != 0)
        return Fail(Error::kData, "the sizes of operands and result do not agree");
  }
  if (!Numbers(s)) return Fail(Error::kData, "a number has no value");
  const Block& block = scratch_of_[&s - p.steps.data()];
  scratch_.Reset(block.at, block.bytes);
  const Call call = CallOf(s, &scratch_);
  if (const char* why = s.kernel->run(call)) return Fail(Error::kData, why);
  if (options_.profile) CountWork(s, call);
  return {};
}

// Counts what a call that went well read and wrote, and its products.
void Context::CountWork(const Step& s, const Call& call) {
  Work& work = work_[&s - executable_->plan().steps.data()];
  for (const auto& tensors : {call.in, call.out})
    for (const Tensor& t : tensors) work.memory += BytesOf(t);
  if (s.kernel->product == nullptr) return;
  Product p;
  const auto empty = [](const Tensor& t) { return t.numel() == 0; };
  if (std::any_of(call.in.begin(), call.in.end(), empty) || std::any_of(call.out.begin(), call.out.end(), empty) ||
      !s.kernel->product(call, 0, &p) || p.n.value == 0)
    return;
  work.operations += p.operations, work.bytes += p.bytes * p.reads;
  work.most_rows = std::max(work.most_rows, p.m.value);
}

void Context::ResetProfile() {
  std::fill(nanoseconds_.begin(), nanoseconds_.end(), 0);
  std::fill(work_.begin(), work_.end(), Work{});
}

std::string Context::ShapesOf(int32_t step) const {
  const Step& s = executable_->plan().steps[step];
  if (s.kind != Step::kKernel || nanoseconds_.empty() || nanoseconds_[step] == 0) return "";
  std::string shapes;
  for (int32_t k = 0; k < s.inputs + s.outputs; ++k) {
    const Tensor& t = tensors_[s.first_view + k];
    if (k > 0) shapes += ' ';
    if (k == s.inputs) shapes += "-> ";
    for (int d = 0; d < t.rank; ++d) (shapes += d == 0 ? "" : "x") += std::to_string(t.sizes[d]);
    if (t.rank == 0) shapes += '1';
  }
  return shapes;
}

Error Context::Steps() {
  const Plan& p = executable_->plan();
  const int32_t end = static_cast<int32_t>(p.steps.size());
  auto truth = [&](int32_t e, bool* holds) -> Error {
    if (!values_[e].known) return Fail(Error::kData, "a number has no value");
    *holds = values_[e].bits != 0;
    return {};
  };
  uint64_t left = options_.step_limit;
  for (int32_t i = 0; i < end;) {
    const Step& s = p.steps[i];
    int32_t next = i + 1;
    Error f;
    if (left-- == 0)
      return {Error::kData, "the run takes more than " + std::to_string(options_.step_limit) + " steps", i};
    bool holds = true;
    const auto begin = options_.profile ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    switch (s.kind) {
      case Step::kKernel:
        f = Usable(s);
        if (!f) f = RunKernel(s);
        break;
      case Step::kPublish: {
        const Tensor& t = tensors_[s.first_view];
        f = Usable(s);
        if (!f && t.numel() < 1) f = Fail(Error::kData, "a number of nothing");
        if (!f) f = SetSymbol(s.symbol, ReadElement(t.data, t.dtype, p.symbols[s.symbol].real));
        break;
      }
      case Step::kSet: f = SetSymbol(s.symbol, values_[s.expr]); break;
      case Step::kJump: next = s.target; break;
      case Step::kUnless:
        f = truth(s.expr, &holds);
        if (!holds) next = s.target;
        break;
      case Step::kCheck:
        f = truth(s.expr, &holds);
        if (!f && !holds) f = Fail(Error::kData, p.texts[s.target]);
        break;
    }
    if (f) {
      f.step = i;
      return f;
    }
    if (options_.profile)
      nanoseconds_[i] +=
          std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
    i = next;
  }
  return {};
}

Error Context::Run(std::span<const Tensor> inputs, const AllocateOutput& allocate) try {
  allocate_ = &allocate;
  last_symbols_ = symbols_;
  if (Error f = Start(inputs)) {
    symbols_ = last_symbols_;
    return f;
  }
  bool again = bound_[0] != 0;
  for (const Binding& b : executable_->plan().bindings)
    again = again && last_symbols_[b.symbol].known && last_symbols_[b.symbol].bits == symbols_[b.symbol].bits;
  if (Error f = BindStage(0, again)) return f;
  return Steps();
} catch (const std::bad_alloc&) {
  return Fail(Error::kMemory, "out of memory");
}

}  // namespace slipway::kernels
