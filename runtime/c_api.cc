// The functions of slipway_model.h over runtime/model.h: handles, errors as texts of the calling thread. No exception
// leaves a function here.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "kernels/dtype_codes.h"
#include "kernels/system.h"
#include "runtime/model.h"
#include "slipway/slipway_model.h"

using slipway::kernels::DlpackTypeOf;
using slipway::kernels::DType;
using slipway::kernels::Error;
using slipway::kernels::Tensor;
using slipway::runtime::Model;

struct slipway_model {
  std::unique_ptr<Model> model;
  std::optional<slipway::kernels::Allocator> allocator;  // the caller's
  std::vector<std::vector<const char*>> input_dims, output_dims;
  std::vector<size_t> symbols;    // of the plan: those that inputs give
  std::vector<size_t> constants;  // those with names
};

namespace {

thread_local std::string last_error;

int Fail(int code, std::string text) {
  last_error = std::move(text);
  return code;
}

// Runs `f`; what it throws becomes a code.
template <typename F>
int Guard(F f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return Fail(SLIPWAY_MODEL_NO_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return Fail(SLIPWAY_MODEL_BUG, e.what());
  }
}

// A view of the caller's tensor; "" or what is wrong with it.
std::string Take(const DLTensor* from, Tensor* to, int* code) {
  *code = SLIPWAY_MODEL_BAD_INPUT;
  if (!from) return "is NULL";
  if (from->device.device_type != kDLCPU) {
    *code = SLIPWAY_MODEL_UNSUPPORTED;
    return "is not in the CPU's memory";
  }
  if (from->ndim < 0 || from->ndim > slipway::kernels::kMaxRank) return "has " + std::to_string(from->ndim) + " dims";
  if (from->ndim > 0 && !from->shape) return "has no shape";
  const std::optional<DType> dtype = slipway::kernels::FromDlpackType(from->dtype);
  if (!dtype) {
    *code = SLIPWAY_MODEL_UNSUPPORTED;
    return "is of a dtype that the model has not";
  }
  to->dtype = *dtype;
  to->rank = from->ndim;
  int64_t step = 1;
  bool empty = false;
  for (int d = from->ndim - 1; d >= 0; --d) {
    to->sizes[d] = from->shape[d];
    to->strides[d] = from->strides ? from->strides[d] : step;
    empty |= from->shape[d] == 0;
    if (from->shape[d] < 0 || __builtin_mul_overflow(step, std::max<int64_t>(from->shape[d], 1), &step))
      return "has sizes out of range";
  }
  if (empty) {
    to->data = from->data;
    return "";
  }
  // Where the first and the last byte are, so that no later arithmetic overflows.
  int64_t before = 0, behind = 1;
  const int64_t item = slipway::kernels::ByteSize(*dtype);
  for (int d = 0; d < from->ndim; ++d) {
    if (to->sizes[d] == 1) {  // never taken: it may have been anything
      if (to->strides[d] < -INT32_MAX || to->strides[d] > INT32_MAX) to->strides[d] = 1;
      continue;
    }
    int64_t reach, *side = to->strides[d] < 0 ? &before : &behind;
    if (__builtin_mul_overflow(to->sizes[d] - 1, to->strides[d], &reach) || __builtin_add_overflow(*side, reach, side))
      return "has strides out of range";
  }
  uintptr_t first;
  int64_t low, high;
  if (__builtin_mul_overflow(before, item, &low) || __builtin_mul_overflow(behind, item, &high) ||
      __builtin_mul_overflow(step, item, &step))
    return "has strides out of range";
  if (!from->data) return "has no memory";
  if (__builtin_add_overflow(reinterpret_cast<uintptr_t>(from->data), from->byte_offset, &first) ||
      first > INTPTR_MAX || static_cast<int64_t>(first) + low < 0 || high > INTPTR_MAX - static_cast<int64_t>(first))
    return "reaches beyond the address space";
  to->data = reinterpret_cast<void*>(first);
  return "";
}

// Whether an array of `count` tensors is there.
template <typename T>
int NeedArray(const T* array, size_t count, const char* what) {
  return array || count == 0 ? SLIPWAY_MODEL_OK : Fail(SLIPWAY_MODEL_BAD_INPUT, std::string(what) + " is NULL");
}

// The inputs as the plan takes them.
int TakeAll(const Model& m, const DLTensor* const* inputs, size_t count, std::vector<Tensor>* out) {
  if (count != m.plan().given_inputs())
    return Fail(SLIPWAY_MODEL_BAD_INPUT,
                std::to_string(count) + " inputs, the model takes " + std::to_string(m.plan().given_inputs()));
  if (int code = NeedArray(inputs, count, "the array of inputs")) return code;
  out->resize(count);
  for (size_t i = 0; i < count; ++i) {
    int code;
    if (std::string wrong = Take(inputs[i], &(*out)[i], &code); !wrong.empty())
      return Fail(code, "input " + std::to_string(i) + " (" + m.plan().inputs[i].name + ") " + wrong);
  }
  return SLIPWAY_MODEL_OK;
}

int Report(const Error& f) {
  switch (f.kind) {
    case Error::kNone: return SLIPWAY_MODEL_OK;
    case Error::kMemory: return Fail(SLIPWAY_MODEL_NO_MEMORY, f.text);
    case Error::kPlan: return Fail(SLIPWAY_MODEL_BUG, f.text);
    default: return Fail(SLIPWAY_MODEL_BAD_INPUT, f.text);
  }
}

constexpr size_t kAlignment = 64;
constexpr int kMaxThreads = 4096;

// A result with its memory behind it, which may be from the caller's functions: they are asked for no longer than the
// result is there, the model may be closed before.
struct Result {
  DLManagedTensorVersioned tensor{};
  int64_t sizes[slipway::kernels::kMaxRank], strides[slipway::kernels::kMaxRank];
  std::optional<slipway::kernels::Allocator> allocator;
  size_t bytes = 0;
  void* memory = nullptr;

  // False where there is none.
  bool Allocate(size_t n, const std::optional<slipway::kernels::Allocator>& from) {
    bytes = (n / kAlignment + 1) * kAlignment;
    allocator = from;
    memory =
        from ? from->allocate(from->self, bytes, kAlignment) : slipway::kernels::AllocateAligned(kAlignment, bytes);
    return memory != nullptr;
  }
  // A dense tensor of these sizes.
  void Describe(const Tensor& shape) {
    int64_t step = 1;
    for (int d = shape.rank - 1; d >= 0; --d)
      sizes[d] = shape.sizes[d], strides[d] = step, step *= std::max<int64_t>(shape.sizes[d], 1);
    tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    tensor.manager_ctx = this;
    tensor.deleter = Delete;
    tensor.dl_tensor = {memory, {kDLCPU, 0}, shape.rank, DlpackTypeOf(shape.dtype), sizes, strides, 0};
  }
  ~Result() {
    if (!memory) return;
    if (allocator)
      allocator->deallocate(allocator->self, memory, bytes);
    else
      slipway::kernels::FreeAligned(memory);
  }

  static void Delete(DLManagedTensorVersioned* self) { delete static_cast<Result*>(self->manager_ctx); }
};

std::vector<std::vector<const char*>> Pointers(const std::vector<std::vector<std::string>>& texts) {
  std::vector<std::vector<const char*>> out;
  for (const auto& list : texts) {
    out.emplace_back();
    for (const std::string& s : list) out.back().push_back(s.c_str());
  }
  return out;
}

}  // namespace

extern "C" {

int slipway_model_open(slipway_model** model) { return slipway_model_open_with(model, nullptr); }

int slipway_model_open_with(slipway_model** model, const slipway_model_options* given) {
  *model = nullptr;
  return Guard([&] {
    // What a caller of another version does not know is as if it had not said anything.
    slipway_model_options options{};
    if (given) std::memcpy(&options, given, std::min(given->size, sizeof options));
    std::string why;
    auto m = std::make_unique<slipway_model>();
    slipway::runtime::ModelOptions with;
    for (size_t i = 0; options.plugins && i < options.plugin_count; ++i) with.plugins.emplace_back(options.plugins[i]);
    if (options.threads < 0 || options.threads > kMaxThreads)
      return Fail(SLIPWAY_MODEL_BAD_INPUT, std::to_string(options.threads) + " threads");
    with.threads = options.threads;
    if (options.parallel_for)
      with.workers = {options.threads > 0 ? options.threads : slipway::kernels::DefaultThreads(), options.parallel_for,
                      options.parallel_user};
    if (!options.allocate != !options.deallocate)
      return Fail(SLIPWAY_MODEL_BAD_INPUT, "allocate and deallocate come together");
    if (options.allocate) m->allocator = with.allocator = {options.allocate, options.deallocate, options.memory_user};
    m->model = Model::Open(std::move(with), &why);
    if (!m->model) return Fail(SLIPWAY_MODEL_BAD_INPUT, why);
    m->input_dims = Pointers(m->model->about().input_dims);
    m->output_dims = Pointers(m->model->about().output_dims);
    std::vector<bool> given(m->model->plan().symbols.size());
    const auto& plan = m->model->plan();
    for (const auto& b : plan.bindings)  // how much room a state has is no caller's
      if (b.dim < 0 || static_cast<size_t>(b.input) < plan.given_inputs()) given[b.symbol] = true;
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i] && !m->model->plan().symbols[i].real) m->symbols.push_back(i);
    for (size_t i = 0; i < m->model->about().constants.size(); ++i)
      if (!m->model->about().constants[i].name.empty()) m->constants.push_back(i);
    *model = m.release();
    return static_cast<int>(SLIPWAY_MODEL_OK);
  });
}

void slipway_model_close(slipway_model* model) { delete model; }

const char* slipway_model_error(void) { return last_error.c_str(); }

size_t slipway_model_input_count(const slipway_model* m) { return m->model->plan().given_inputs(); }
size_t slipway_model_output_count(const slipway_model* m) { return m->model->plan().outputs.size(); }

void slipway_model_input(const slipway_model* m, size_t i, slipway_model_value* value) {
  const auto& in = m->model->plan().inputs[i];
  *value = {in.name.c_str(), DlpackTypeOf(in.dtype), static_cast<int32_t>(in.sizes.size()), m->input_dims[i].data(),
            in.kind != slipway::kernels::Input::kTensor};
}

void slipway_model_output(const slipway_model* m, size_t i, slipway_model_value* value) {
  const auto& out = m->model->plan().outputs[i];
  *value = {m->model->about().output_names[i].c_str(), DlpackTypeOf(out.dtype), static_cast<int32_t>(out.sizes.size()),
            m->output_dims[i].data(), out.number};
}

size_t slipway_model_dim_count(const slipway_model* m) { return m->symbols.size(); }
void slipway_model_get_dim(const slipway_model* m, size_t i, slipway_model_dim* dim) {
  const auto& s = m->model->plan().symbols[m->symbols[i]];
  *dim = {s.name.c_str(), s.min, s.max};
}

size_t slipway_model_constant_count(const slipway_model* m) { return m->constants.size(); }
void slipway_model_get_constant(const slipway_model* m, size_t i, slipway_model_constant* constant) {
  const size_t k = m->constants[i];
  const auto& c = m->model->about().constants[k];
  constant->name = c.name.c_str();
  const uint8_t* data = nullptr;
  Guard([&] {
    data = m->model->ConstantData(k, false);
    return static_cast<int>(SLIPWAY_MODEL_OK);
  });
  constant->tensor = {const_cast<uint8_t*>(data),
                      {kDLCPU, 0},
                      static_cast<int32_t>(c.sizes.size()),
                      DlpackTypeOf(c.dtype),
                      const_cast<int64_t*>(c.sizes.data()),
                      const_cast<int64_t*>(c.strides.data()),
                      0};
}

size_t slipway_model_metadata_count(const slipway_model* m) { return m->model->about().metadata.size(); }
void slipway_model_get_metadata(const slipway_model* m, size_t i, const char** key, const char** value) {
  *key = m->model->about().metadata[i].first.c_str();
  *value = m->model->about().metadata[i].second.c_str();
}

int slipway_model_run(slipway_model* m, const DLTensor* const* inputs, size_t input_count,
                      DLManagedTensorVersioned** outputs, size_t output_count) {
  for (size_t i = 0; outputs && i < output_count; ++i) outputs[i] = nullptr;
  return Guard([&]() -> int {
    Model& model = *m->model;
    if (int code = NeedArray(outputs, output_count, "the array of outputs")) return code;
    if (output_count != model.plan().outputs.size())
      return Fail(SLIPWAY_MODEL_BAD_INPUT, "room for " + std::to_string(output_count) + " outputs, the model has " +
                                               std::to_string(model.plan().outputs.size()));
    std::vector<Tensor> in;
    if (int code = TakeAll(model, inputs, input_count, &in)) return code;
    std::vector<std::unique_ptr<Result>> results(output_count);
    const Error failure = model.Run(in, [&](int32_t slot, const Tensor& shape) -> void* {
      auto r = std::make_unique<Result>();
      const size_t bytes = static_cast<size_t>(shape.numel()) * slipway::kernels::ByteSize(shape.dtype);
      if (!r->Allocate(bytes, m->allocator)) return nullptr;
      r->Describe(shape);
      results[slot] = std::move(r);
      return results[slot]->tensor.dl_tensor.data;
    });
    if (failure) return Report(failure);
    for (size_t i = 0; i < output_count; ++i) outputs[i] = &results[i].release()->tensor;
    return SLIPWAY_MODEL_OK;
  });
}

int slipway_model_run_into(slipway_model* m, const DLTensor* const* inputs, size_t input_count,
                           const DLTensor* const* outputs, size_t output_count) {
  return Guard([&]() -> int {
    Model& model = *m->model;
    if (output_count != model.plan().outputs.size())
      return Fail(SLIPWAY_MODEL_BAD_INPUT, std::to_string(output_count) + " outputs, the model has " +
                                               std::to_string(model.plan().outputs.size()));
    if (int code = NeedArray(outputs, output_count, "the array of outputs")) return code;
    std::vector<Tensor> in, out(output_count);
    if (int code = TakeAll(model, inputs, input_count, &in)) return code;
    for (size_t i = 0; i < output_count; ++i) {
      int code;
      if (std::string wrong = Take(outputs[i], &out[i], &code); !wrong.empty())
        return Fail(code, "output " + std::to_string(i) + " " + wrong);
      if (!out[i].is_contiguous())
        return Fail(SLIPWAY_MODEL_BAD_INPUT, "output " + std::to_string(i) + " is not dense");
    }
    std::string wrong;
    const Error failure = model.Run(in, [&](int32_t slot, const Tensor& shape) -> void* {
      const Tensor& o = out[slot];
      const bool fits =
          o.dtype == shape.dtype && o.rank == shape.rank && std::equal(o.sizes, o.sizes + o.rank, shape.sizes);
      if (fits && (o.data || shape.numel() == 0)) return o.data ? o.data : static_cast<void*>(&wrong);
      wrong = "output " + std::to_string(slot) + " is not of the dtype and sizes that the model gives:";
      for (int d = 0; d < shape.rank; ++d) wrong += (d ? ", " : " [") + std::to_string(shape.sizes[d]);
      wrong += shape.rank ? "]" : " []";
      return nullptr;
    });
    if (!wrong.empty()) return Fail(SLIPWAY_MODEL_BAD_INPUT, wrong);
    return Report(failure);
  });
}

int slipway_model_set_threads(slipway_model* m, int threads) {
  if (threads < 0 || threads > kMaxThreads) return Fail(SLIPWAY_MODEL_BAD_INPUT, std::to_string(threads) + " threads");
  return Guard([&] {
    m->model->SetThreads(threads);
    return static_cast<int>(SLIPWAY_MODEL_OK);
  });
}

void slipway_model_profile(slipway_model* m, int on) { m->model->Profile(on != 0); }

void slipway_model_profile_rows(slipway_model* m, void (*row)(void*, const char*, int64_t, double), void* user) {
  Guard([&] {
    for (const Model::Row& r : m->model->ProfileRows(false)) row(user, r.op.c_str(), r.steps, r.seconds);
    return 0;
  });
}

namespace {

void TellWork(const std::vector<Model::Row>& rows, void (*row)(void*, const slipway_model_work*), void* user) {
  for (const Model::Row& r : rows) {
    const slipway_model_work work{sizeof work,  r.op.c_str(),     r.steps,          r.seconds,       r.work.operations,
                                  r.work.bytes, r.work.most_rows, r.shapes.c_str(), r.place.c_str(), r.work.memory};
    row(user, &work);
  }
}

}  // namespace

void slipway_model_profile_work(slipway_model* m, void (*row)(void*, const slipway_model_work*), void* user) {
  Guard([&] {
    TellWork(m->model->ProfileRows(true), row, user);
    return 0;
  });
}

void slipway_model_profile_steps(slipway_model* m, void (*row)(void*, const slipway_model_work*), void* user) {
  Guard([&] {
    TellWork(m->model->StepRows(), row, user);
    return 0;
  });
}

size_t slipway_model_state_count(const slipway_model* m) { return m->model->plan().states.size(); }

void slipway_model_state(const slipway_model* m, size_t i, slipway_model_value* value) {
  const int32_t slot = m->model->plan().states[i].input;
  const auto& in = m->model->plan().inputs[slot];
  *value = {in.name.c_str(), DlpackTypeOf(in.dtype), static_cast<int32_t>(in.sizes.size()), m->input_dims[slot].data(),
            0};
}

int slipway_model_reset_state(slipway_model* m) {
  return Guard([&] { return Report(m->model->ResetState()); });
}

int64_t slipway_model_state_length(slipway_model* m, size_t i) {
  int64_t length = -1;
  Guard([&] {
    length = m->model->StateLength(i);
    return 0;
  });
  return length;
}

int slipway_model_truncate_state(slipway_model* m, int64_t length) {
  return Guard([&] { return Report(m->model->TruncateState(length)); });
}

int slipway_model_get_state(slipway_model* m, size_t i, DLManagedTensorVersioned** out) {
  *out = nullptr;
  return Guard([&]() -> int {
    auto r = std::make_unique<Result>();
    const Error failure = m->model->GetState(i, [&](const Tensor& shape) -> void* {
      if (!r->Allocate(static_cast<size_t>(shape.numel()) * slipway::kernels::ByteSize(shape.dtype), m->allocator))
        return nullptr;
      r->Describe(shape);
      return r->memory;
    });
    if (failure) return Report(failure);
    *out = &r.release()->tensor;
    return SLIPWAY_MODEL_OK;
  });
}

int slipway_model_set_state(slipway_model* m, size_t i, const DLTensor* value) {
  return Guard([&]() -> int {
    Tensor t;
    int code;
    if (std::string wrong = Take(value, &t, &code); !wrong.empty())
      return Fail(code, "state " + std::to_string(i) + " " + wrong);
    return Report(m->model->SetState(i, t));
  });
}

void slipway_model_memory(slipway_model* m, uint64_t* temporaries, uint64_t* working) {
  *temporaries = *working = 0;
  Guard([&] {
    m->model->Memory(temporaries, working);
    return 0;
  });
}

}  // extern "C"
