// Runs of a native library's model for tests of threads: inputs that fit it, and all bytes of its results. The
// functions of slipway_model.h are linked into race_native and looked up in a library by race_capi.
#ifndef SLIPWAY_TESTS_TOOLS_MODEL_RUNS_H_
#define SLIPWAY_TESTS_TOOLS_MODEL_RUNS_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "slipway/slipway_model.h"

namespace slipway::tests {

struct ModelFunctions {
  decltype(&slipway_model_open) open = nullptr;
  decltype(&slipway_model_close) close = nullptr;
  decltype(&slipway_model_error) error = nullptr;
  decltype(&slipway_model_input_count) input_count = nullptr;
  decltype(&slipway_model_input) input = nullptr;
  decltype(&slipway_model_dim_count) dim_count = nullptr;
  decltype(&slipway_model_get_dim) get_dim = nullptr;
  decltype(&slipway_model_output_count) output_count = nullptr;
  decltype(&slipway_model_run) run = nullptr;
};

inline size_t BytesOf(const DLTensor& t) {
  size_t bytes = t.dtype.bits / 8;
  for (int d = 0; d < t.ndim; ++d) bytes *= static_cast<size_t>(t.shape[d]);
  return bytes;
}

struct ModelInputs {
  std::vector<std::vector<char>> bytes;
  std::vector<std::vector<int64_t>> sizes;
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor*> pointers;

  // Numbers between -1 and 1 as floats; other dtypes get zeros. Returns what stands against it, "" for nothing.
  std::string Make(const ModelFunctions& f, const slipway_model* model) {
    const size_t count = f.input_count(model);
    bytes.resize(count), sizes.resize(count), tensors.resize(count);
    uint32_t seed = 1;
    for (size_t i = 0; i < count; ++i) {
      slipway_model_value value;
      f.input(model, i, &value);
      DLTensor& t = tensors[i];
      t = {};
      for (int d = 0; d < value.ndim; ++d) {
        sizes[i].push_back(SizeOf(f, model, value.dims[d]));
        if (sizes[i].back() < 0) return std::string("the size of an input is ") + value.dims[d];
      }
      t.device = {kDLCPU, 0};
      t.ndim = value.ndim;
      t.dtype = value.dtype;
      t.shape = sizes[i].data();
      bytes[i].resize(BytesOf(t));
      t.data = bytes[i].data();
      if (value.dtype.code == kDLFloat && value.dtype.bits == 32) {
        for (size_t e = 0; e < bytes[i].size() / 4; ++e) {
          seed = seed * 1664525u + 1013904223u;
          const float x = static_cast<float>(seed >> 8) / (1 << 23) - 1;
          std::memcpy(bytes[i].data() + 4 * e, &x, 4);
        }
      }
      pointers.push_back(&t);
    }
    return "";
  }

 private:
  // A dim's text as a number; 5, or what is nearest among its sizes, for a symbol; -1 for any other expression.
  static int64_t SizeOf(const ModelFunctions& f, const slipway_model* model, const char* text) {
    char* end = nullptr;
    const int64_t number = std::strtoll(text, &end, 10);
    if (*end == '\0') return number;
    for (size_t i = 0; i < f.dim_count(model); ++i) {
      slipway_model_dim dim;
      f.get_dim(model, i, &dim);
      if (std::strcmp(dim.name, text) == 0) return 5 < dim.min ? dim.min : 5 > dim.max ? dim.max : 5;
    }
    return -1;
  }
};

// Every byte of every result; where the run failed, "" and why.
inline std::string RunOnce(const ModelFunctions& f, slipway_model* model, const ModelInputs& in, std::string* error) {
  std::vector<DLManagedTensorVersioned*> outputs(f.output_count(model));
  if (f.run(model, in.pointers.data(), in.pointers.size(), outputs.data(), outputs.size()) != SLIPWAY_MODEL_OK) {
    *error = f.error();
    return "";
  }
  std::string all;
  for (DLManagedTensorVersioned* o : outputs) {
    all.append(static_cast<const char*>(o->dl_tensor.data) + o->dl_tensor.byte_offset, BytesOf(o->dl_tensor));
    o->deleter(o);
  }
  return all;
}

}  // namespace slipway::tests

#endif  // SLIPWAY_TESTS_TOOLS_MODEL_RUNS_H_
