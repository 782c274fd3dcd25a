// The C interface that PyTorch's loader of AOT packages expects of a library, over runtime/model.h. The names, the
// order of arguments and who owns what are those of torch 2.6 … 2.14 (torch/csrc/inductor/aoti_runtime/interface.h).
// torch's own functions are looked up when the first call comes, in the torch that made it: the library itself does not
// need one. What the interface has and a library of slipway cannot do is answered by an error.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/dtype_codes.h"
#include "runtime/model.h"

using slipway::kernels::Constant;
using slipway::kernels::DType;
using slipway::kernels::Error;
using slipway::kernels::ScalarTypeOf;
using slipway::kernels::Tensor;
using slipway::runtime::ConstantValue;
using slipway::runtime::Model;

extern "C" {
struct AtenTensorOpaque;
}
using AtenTensor = AtenTensorOpaque*;
using ConstantMap = std::unordered_map<std::string, AtenTensor>;  // libstdc++'s, made by torch
// AOTInductorConstantMapEntry: the same without a C++ type
struct ConstantEntry {
  const char* name;
  AtenTensor handle;
};

namespace {

thread_local std::string last_error;

// torch's C shim.
struct Torch {
  int32_t (*get_data_ptr)(AtenTensor, void**);
  int32_t (*get_dim)(AtenTensor, int64_t*);
  int32_t (*get_sizes)(AtenTensor, int64_t**);
  int32_t (*get_strides)(AtenTensor, int64_t**);
  int32_t (*get_dtype)(AtenTensor, int32_t*);
  int32_t (*get_device_type)(AtenTensor, int32_t*);
  int32_t (*empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, AtenTensor*);
  int32_t (*from_blob)(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, AtenTensor*,
                       int32_t, const uint8_t*, int64_t);
  int32_t (*delete_tensor)(AtenTensor);
  int32_t (*device_cpu)();
  int32_t (*layout_strided)();
};

// Throws where this process has no torch, or one without a function that is needed.
const Torch& TheTorch() {
  static const Torch torch = [] {
    Torch t{};
    void* library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    if (!library) throw std::runtime_error("no libtorch_cpu.so is loaded in this process");
    auto find = [&](auto* function, const char* name) {
      *reinterpret_cast<void**>(function) = dlsym(library, name);
      if (!*function) throw std::runtime_error(std::string("torch has no ") + name);
    };
    find(&t.get_data_ptr, "aoti_torch_get_data_ptr");
    find(&t.get_dim, "aoti_torch_get_dim");
    find(&t.get_sizes, "aoti_torch_get_sizes");
    find(&t.get_strides, "aoti_torch_get_strides");
    find(&t.get_dtype, "aoti_torch_get_dtype");
    find(&t.get_device_type, "aoti_torch_get_device_type");
    find(&t.empty_strided, "aoti_torch_empty_strided");
    find(&t.from_blob, "aoti_torch_create_tensor_from_blob_v2");
    find(&t.delete_tensor, "aoti_torch_delete_tensor_object");
    find(&t.device_cpu, "aoti_torch_device_type_cpu");
    find(&t.layout_strided, "aoti_torch_layout_strided");
    return t;
  }();
  return torch;
}

void Must(int32_t status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string("torch: ") + what);
}

// A view of torch's tensor; throws what is wrong with it.
Tensor ViewOf(AtenTensor handle) {
  const Torch& torch = TheTorch();
  int32_t device = 0, type = 0;
  int64_t dim = 0, *sizes = nullptr, *strides = nullptr;
  Must(torch.get_device_type(handle, &device), "get_device_type");
  if (device != torch.device_cpu()) throw std::runtime_error("is not in the CPU's memory");
  Must(torch.get_dtype(handle, &type), "get_dtype");
  Must(torch.get_dim(handle, &dim), "get_dim");
  Must(torch.get_sizes(handle, &sizes), "get_sizes");
  Must(torch.get_strides(handle, &strides), "get_strides");
  Tensor t;
  const std::optional<DType> dtype = slipway::kernels::FromScalarType(type);
  if (!dtype) throw std::runtime_error("is of a dtype that the model has not");
  if (dim > slipway::kernels::kMaxRank) throw std::runtime_error("has " + std::to_string(dim) + " dims");
  t.dtype = *dtype;
  t.rank = static_cast<int>(dim);
  for (int d = 0; d < t.rank; ++d) {
    t.sizes[d] = sizes[d];
    t.strides[d] = strides[d];
  }
  Must(torch.get_data_ptr(handle, &t.data), "get_data_ptr");
  return t;
}

// Tensors that are deleted in the end, whatever happens.
class Handles {
 public:
  Handles() = default;
  // Takes ownership from an array of the caller, which sees nulls from then on: torch 2.14 deletes what is left in it.
  Handles(AtenTensor* handles, size_t n) : list_(handles, handles + n) { std::fill(handles, handles + n, nullptr); }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() { Clear(); }
  void Add(AtenTensor h) { list_.push_back(h); }
  std::vector<AtenTensor>& list() { return list_; }
  void Clear() {
    for (AtenTensor h : list_)
      if (h) TheTorch().delete_tensor(h);
    list_.clear();
  }

 private:
  std::vector<AtenTensor> list_;
};

AtenTensor Empty(const Tensor& shape) {
  const Torch& torch = TheTorch();
  AtenTensor out = nullptr;
  Must(torch.empty_strided(shape.rank, shape.sizes, shape.strides, ScalarTypeOf(shape.dtype), torch.device_cpu(), 0,
                           &out),
       "empty_strided");
  return out;
}

// What torch holds of a model: a container.
struct Container {
  std::unique_ptr<Model> model;
  std::vector<size_t> constants;  // those with names
  std::vector<size_t> inputs;     // those that torch passes: tensors

  int64_t nothing = 0;
  bool external = false;  // made with the caller's constants
  Handles extracted;
  std::vector<ConstantEntry> entries;  // of `extracted`, with names of the model
};

Container& Of(void* handle) { return *static_cast<Container*>(handle); }

template <typename F>
int32_t Guard(F f) {
  try {
    f();
    return 0;
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";
  } catch (const std::exception& e) {
    last_error = e.what();
  }
  // Of failures that are no run's, the loader shows a general text only.
  std::fprintf(stderr, "slipway: %s\n", last_error.c_str());
  return 1;
}

std::unique_ptr<Container> Make(const char* device) {
  if (device && std::strncmp(device, "cpu", 3) != 0)
    throw std::runtime_error(std::string("a model for the CPU, not for ") + device);
  auto c = std::make_unique<Container>();
  std::string why;
  c->model = Model::Open({}, &why);
  if (!c->model) throw std::runtime_error(why);
  if (!c->model->plan().states.empty())
    throw std::runtime_error("the library keeps state between runs, which torch's loader does not know of");
  const auto& about = c->model->about();
  for (size_t i = 0; i < about.constants.size(); ++i)
    if (!about.constants[i].name.empty()) c->constants.push_back(i);
  for (size_t i = 0; i < about.plan.inputs.size(); ++i)
    if (about.plan.inputs[i].kind == slipway::kernels::Input::kTensor) c->inputs.push_back(i);
  return c;
}

void UpdateFromMap(Container& c, const ConstantMap& map, bool inactive, bool full, bool keep) {
  std::vector<ConstantValue> values;
  for (size_t i : c.constants) {
    const Constant& constant = c.model->about().constants[i];
    auto it = map.find(constant.name);
    if (it == map.end()) continue;
    try {
      values.push_back({i, ViewOf(it->second), keep});
    } catch (const std::runtime_error& e) {
      throw std::runtime_error("constant '" + constant.name + "' " + e.what());
    }
  }
  if (std::string why = c.model->SetConstants(values, inactive, full); !why.empty()) throw std::runtime_error(why);
}

void UpdateFromPairs(Container& c, const ConstantEntry* pairs, size_t count, bool inactive, bool full, bool keep) {
  ConstantMap given;
  for (size_t i = 0; i < count; ++i) given[pairs[i].name] = pairs[i].handle;
  UpdateFromMap(c, given, inactive, full, keep);
}

// Makes a tensor over each constant's memory: c.entries.
void Extract(Container& c, bool inactive) {
  const Torch& torch = TheTorch();
  c.entries.clear();
  c.extracted.Clear();  // the loader copies and does not free
  for (size_t i : c.constants) {
    const Constant& k = c.model->about().constants[i];
    AtenTensor h = nullptr;
    Must(torch.from_blob(const_cast<uint8_t*>(c.model->ConstantData(i, inactive)), static_cast<int64_t>(k.sizes.size()),
                         k.sizes.data(), k.strides.data(), 0, ScalarTypeOf(k.dtype), torch.device_cpu(), 0, &h,
                         torch.layout_strided(), nullptr, 0),
         "create_tensor_from_blob_v2");
    c.extracted.Add(h);
    c.entries.push_back({k.name.c_str(), h});
  }
}

int32_t NotInLibraries(const char* what) {
  return Guard(
      [&] { throw std::runtime_error(std::string(what) + ": slipway's libraries are run through a model container"); });
}

void Run(Container& c, AtenTensor* inputs, size_t input_count, AtenTensor* outputs, size_t output_count) {
  Handles owned(inputs, input_count);  // the callee's from here on
  const auto& about = c.model->about();
  if (input_count != c.inputs.size())
    throw std::runtime_error(std::to_string(input_count) + " tensors, the model takes " +
                             std::to_string(c.inputs.size()));
  if (output_count != about.leaves.size())
    throw std::runtime_error(std::to_string(output_count) + " outputs, the model has " +
                             std::to_string(about.leaves.size()));
  std::vector<Tensor> in(about.plan.inputs.size());
  for (size_t i = 0; i < in.size(); ++i)
    if (about.plan.inputs[i].kind != slipway::kernels::Input::kTensor) {
      if (about.plan.inputs[i].kind == slipway::kernels::Input::kNumber)
        throw std::runtime_error("input '" + about.plan.inputs[i].name +
                                 "' is a number, which torch's loader does not pass on");
      in[i].dtype = about.plan.inputs[i].dtype;
      in[i].data = &c.nothing;
    }
  for (size_t i = 0; i < input_count; ++i) {
    try {
      in[c.inputs[i]] = ViewOf(owned.list()[i]);
    } catch (const std::runtime_error& e) {
      throw std::runtime_error("input " + std::to_string(i) + " (" + about.plan.inputs[c.inputs[i]].name + ") " +
                               e.what());
    }
  }
  Handles results;
  results.list().resize(about.plan.outputs.size());
  const Error failure = c.model->Run(in, [&](int32_t slot, const Tensor& shape) -> void* {
    AtenTensor& h = results.list()[slot];
    if (h) TheTorch().delete_tensor(h);
    h = Empty(shape);
    void* data = nullptr;
    Must(TheTorch().get_data_ptr(h, &data), "get_data_ptr");
    return data ? data : static_cast<void*>(&c.nothing);
  });
  if (failure) throw std::runtime_error(failure.text);
  std::vector<AtenTensor> out;
  Handles constants;
  for (const auto& leaf : about.leaves) {
    if (leaf.output >= 0) {
      out.push_back(results.list()[leaf.output]);
      continue;
    }
    // One tensor per leaf: a constant is one of no dims, None one of no elements.
    Tensor shape;
    shape.dtype = leaf.dtype;
    shape.rank = leaf.none ? 1 : 0;
    shape.strides[0] = 1;
    const AtenTensor h = Empty(shape);
    constants.Add(h);
    out.push_back(h);
    void* data = nullptr;
    Must(TheTorch().get_data_ptr(h, &data), "get_data_ptr");
    if (!leaf.none) std::memcpy(data, &leaf.bits, static_cast<size_t>(slipway::kernels::ByteSize(leaf.dtype)));
  }
  std::copy(out.begin(), out.end(), outputs);
  results.list().clear();  // the caller's now
  constants.list().clear();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int32_t AOTInductorModelContainerCreateWithDevice(void** out, size_t /*runners*/, const char* device,
                                                  const char* /*folder*/) {
  return Guard([&] { *out = Make(device).release(); });
}
// The caller's tensors are used where they are, and stay alive as long as the container.
int32_t AOTInductorModelContainerCreateWithExternalConstants(void** out, size_t /*runners*/, const char* device,
                                                             const char* /*folder*/, const ConstantEntry* pairs,
                                                             size_t count) {
  return Guard([&] {
    auto c = Make(device);
    UpdateFromPairs(*c, pairs, count, false, true, true);
    c->external = true;
    *out = c.release();
  });
}
int32_t AOTInductorModelContainerDidCallLoadConstants(void* handle, bool* did) {
  *did = !Of(handle).external;
  return 0;
}
// How constants are copied to another device: there is none.
int32_t AOTInductorSetUsePinnedAsyncConstantsCopy(bool /*enabled*/) { return 0; }
int32_t AOTInductorSetPinnedAsyncConstantsCopyStageBufferBytes(size_t /*bytes*/) { return 0; }
int32_t AOTInductorModelContainerCreate(void** out, size_t runners, bool is_cpu, const char* folder) {
  return AOTInductorModelContainerCreateWithDevice(out, runners, is_cpu ? "cpu" : "cuda", folder);
}
int32_t AOTInductorModelContainerDelete(void* handle) {
  return Guard([&] { delete &Of(handle); });
}

int32_t AOTInductorModelContainerRun(void* handle, AtenTensor* inputs, size_t input_count, AtenTensor* outputs,
                                     size_t output_count, void* /*stream*/, void* /*proxy*/) {
  try {
    Run(Of(handle), inputs, input_count, outputs, output_count);
    return 0;
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";
  } catch (const std::exception& e) {
    last_error = e.what();
  }
  return 1;
}
int32_t AOTInductorModelContainerRunSingleThreaded(void* handle, AtenTensor* inputs, size_t input_count,
                                                   AtenTensor* outputs, size_t output_count, void* stream,
                                                   void* proxy) {
  return AOTInductorModelContainerRun(handle, inputs, input_count, outputs, output_count, stream, proxy);
}

int32_t AOTInductorModelContainerGetNumInputs(void* handle, size_t* n) {
  *n = Of(handle).inputs.size();
  return 0;
}
int32_t AOTInductorModelContainerGetInputName(void* handle, size_t i, const char** name) {
  return Guard([&] { *name = Of(handle).model->plan().inputs[Of(handle).inputs.at(i)].name.c_str(); });
}
int32_t AOTInductorModelContainerGetNumOutputs(void* handle, size_t* n) {
  *n = Of(handle).model->about().leaves.size();
  return 0;
}
int32_t AOTInductorModelContainerGetOutputName(void* /*handle*/, size_t /*i*/, const char** /*name*/) {
  return Guard([] { throw std::runtime_error("names of outputs are not kept: they are what the call spec says"); });
}
int32_t AOTInductorModelContainerGetCallSpec(void* handle, const char** in, const char** out) {
  *in = Of(handle).model->about().in_spec.c_str();
  *out = Of(handle).model->about().out_spec.c_str();
  return 0;
}

int32_t AOTInductorModelContainerGetNumConstants(void* handle, size_t* n) {
  *n = Of(handle).constants.size();
  return 0;
}
int32_t AOTInductorModelContainerGetConstantName(void* handle, size_t i, const char** name) {
  return Guard([&] { *name = Of(handle).model->about().constants[Of(handle).constants.at(i)].name.c_str(); });
}
int32_t AOTInductorModelContainerGetConstantOriginalFQN(void* handle, size_t i, const char** name) {
  return AOTInductorModelContainerGetConstantName(handle, i, name);
}
int32_t AOTInductorModelContainerGetConstantFromFolded(void* handle, size_t i, bool* folded) {
  return Guard([&] {
    static_cast<void>(Of(handle).constants.at(i));  // which throws where there is none
    *folded = false;
  });
}
// Whether a constant was a parameter or a buffer is not kept: 0 is ConstantType::Unknown.
int32_t AOTInductorModelContainerGetConstantType(void* handle, size_t i, int32_t* type) {
  return Guard([&] {
    static_cast<void>(Of(handle).constants.at(i));  // which throws where there is none
    *type = 0;
  });
}
int32_t AOTInductorModelContainerGetConstantDtype(void* handle, size_t i, int32_t* dtype) {
  return Guard([&] { *dtype = ScalarTypeOf(Of(handle).model->about().constants[Of(handle).constants.at(i)].dtype); });
}
int32_t AOTInductorModelContainerGetConstantDataSize(void* handle, size_t i, size_t* size) {
  return Guard([&] { *size = Of(handle).model->about().constants[Of(handle).constants.at(i)].bytes; });
}
int32_t AOTInductorModelContainerGetConstantsBlobSize(void* handle, uint64_t* size) {
  *size = 0;
  for (size_t i : Of(handle).constants) *size += (Of(handle).model->about().constants[i].bytes + 63) / 64 * 64;
  return 0;
}

int32_t AOTInductorModelContainerUpdateConstantBuffer(void* handle, void* map, bool inactive, bool full) {
  return Guard([&] { UpdateFromMap(Of(handle), *static_cast<ConstantMap*>(map), inactive, full, false); });
}
int32_t AOTInductorModelContainerUpdateConstantBufferFromCpu(void* handle, void* map, bool inactive, bool full) {
  return Guard([&] { UpdateFromMap(Of(handle), *static_cast<ConstantMap*>(map), inactive, full, false); });
}
int32_t AOTInductorModelContainerUpdateUserManagedConstantBuffer(void* handle, void* map, bool inactive, bool full) {
  return Guard([&] { UpdateFromMap(Of(handle), *static_cast<ConstantMap*>(map), inactive, full, true); });
}
int32_t AOTInductorModelContainerUpdateInactiveConstantBuffer(void* handle, void* map) {
  return Guard([&] { UpdateFromMap(Of(handle), *static_cast<ConstantMap*>(map), true, true, false); });
}
int32_t AOTInductorModelContainerUpdateConstantBufferPairs(void* handle, const ConstantEntry* pairs, size_t count,
                                                           bool inactive, bool full) {
  return Guard([&] { UpdateFromPairs(Of(handle), pairs, count, inactive, full, false); });
}
int32_t AOTInductorModelContainerUpdateConstantBufferFromCpuPairs(void* handle, const ConstantEntry* pairs,
                                                                  size_t count, bool inactive, bool full) {
  return Guard([&] { UpdateFromPairs(Of(handle), pairs, count, inactive, full, false); });
}
int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(void* handle, const ConstantEntry* pairs,
                                                                      size_t count, bool inactive, bool full) {
  return Guard([&] { UpdateFromPairs(Of(handle), pairs, count, inactive, full, true); });
}
int32_t AOTInductorModelContainerUpdateInactiveConstantBufferPairs(void* handle, const ConstantEntry* pairs,
                                                                   size_t count) {
  return Guard([&] { UpdateFromPairs(Of(handle), pairs, count, true, true, false); });
}
int32_t AOTInductorModelContainerFreeInactiveConstantBuffer(void* handle) {
  return Guard([&] { Of(handle).model->DropInactive(); });
}
int32_t AOTInductorModelContainerSwapConstantBuffer(void* handle) {
  return Guard([&] {
    if (std::string why = Of(handle).model->Swap(); !why.empty()) throw std::runtime_error(why);
  });
}
// Nothing is derived from constants when the model is loaded.
int32_t AOTInductorModelContainerRunConstantFolding(void* /*handle*/, bool /*inactive*/, void* /*stream*/,
                                                    void* /*proxy*/) {
  return 0;
}
int32_t AOTInductorModelContainerExtractConstantsMap(void* handle, void* map, bool inactive) {
  return Guard([&] {
    Extract(Of(handle), inactive);
    for (const ConstantEntry& e : Of(handle).entries) (*static_cast<ConstantMap*>(map))[e.name] = e.handle;
  });
}
// The entries are the container's, until the next call.
int32_t AOTInductorModelContainerExtractConstantsMapEntries(void* handle, const ConstantEntry** entries, size_t* count,
                                                            bool inactive) {
  return Guard([&] {
    Extract(Of(handle), inactive);
    *entries = Of(handle).entries.data();
    *count = Of(handle).entries.size();
  });
}
// All constants behind each other, each at a multiple of 64 bytes.
int32_t AOTInductorModelUpdateConstantsFromBlob(void* handle, const uint8_t* blob) {
  return Guard([&] {
    Container& c = Of(handle);
    std::vector<ConstantValue> values;
    for (size_t i : c.constants) {
      const Constant& k = c.model->about().constants[i];
      Tensor t;
      t.data = const_cast<uint8_t*>(blob);
      t.dtype = k.dtype;
      t.rank = static_cast<int>(k.sizes.size());
      std::copy(k.sizes.begin(), k.sizes.end(), t.sizes);
      std::copy(k.strides.begin(), k.strides.end(), t.strides);
      values.push_back({i, t, false});
      blob += (k.bytes + 63) / 64 * 64;
    }
    if (std::string why = c.model->SetConstants(values, false, true); !why.empty()) throw std::runtime_error(why);
  });
}

// Models without a container. No loader of torch asks for them.
int32_t AOTInductorModelCreate(void** /*out*/, void* /*map*/) { return NotInLibraries("AOTInductorModelCreate"); }
int32_t AOTInductorModelCreateV2(void** /*out*/, const ConstantEntry* /*pairs*/, size_t /*count*/) {
  return NotInLibraries("AOTInductorModelCreateV2");
}
int32_t AOTInductorModelRun(void* /*model*/, AtenTensor* /*inputs*/, AtenTensor* /*outputs*/) {
  return NotInLibraries("AOTInductorModelRun");
}
int32_t AOTInductorModelDelete(void* /*model*/) { return NotInLibraries("AOTInductorModelDelete"); }
int32_t AOTInductorModelGetNumOutputs(void* /*model*/, size_t* /*n*/) {
  return NotInLibraries("AOTInductorModelGetNumOutputs");
}
int32_t AOTInductorModelUpdateConstantsMap(void* /*model*/, void* /*map*/) {
  return NotInLibraries("AOTInductorModelUpdateConstantsMap");
}
int32_t AOTInductorModelUpdateConstantsMapV2(void* /*model*/, const ConstantEntry* /*pairs*/, int32_t /*count*/) {
  return NotInLibraries("AOTInductorModelUpdateConstantsMapV2");
}

int32_t AOTInductorGetLastError(const char** text) {
  *text = last_error.c_str();
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
