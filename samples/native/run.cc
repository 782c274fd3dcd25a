// Runs a model library from C++: what run.c beside this does, with objects that give back what they hold.
//
//   c++ -std=c++17 -I include samples/native/run.cc -ldl -o run && ./run model.so [dim=size …]
//
// Inputs are of ones; sizes of dims that are not given are their least.
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "slipway/slipway_model.h"

// A result: deletes its tensor.
struct Deleter {
  void operator()(DLManagedTensorVersioned* t) const { t->deleter(t); }
};
using Result = std::unique_ptr<DLManagedTensorVersioned, Deleter>;

// A tensor of the caller's, dense.
struct Array {
  DLDataType dtype;
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  Array(DLDataType t, std::vector<int64_t> s)
      : dtype(t), shape(std::move(s)), bytes(static_cast<size_t>(count()) * t.bits / 8) {}
  int64_t count() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  DLTensor view() {
    return {bytes.data(), {kDLCPU, 0}, static_cast<int32_t>(shape.size()), dtype, shape.data(), nullptr, 0};
  }
};

// One model in its library. Errors are exceptions with the library's text.
class Model {
 public:
  explicit Model(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW)) {
    if (!library_) throw std::runtime_error(dlerror());
    Find(open_, "slipway_model_open");
    Find(close_, "slipway_model_close");
    Find(error_, "slipway_model_error");
    Find(input_count_, "slipway_model_input_count");
    Find(output_count_, "slipway_model_output_count");
    Find(input_, "slipway_model_input");
    Find(output_, "slipway_model_output");
    Find(dim_count_, "slipway_model_dim_count");
    Find(get_dim_, "slipway_model_get_dim");
    Find(run_, "slipway_model_run");
    Check(open_(&model_));
  }
  ~Model() {
    if (model_) close_(model_);
    // The library stays: results may outlive the model, but not its code.
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  std::vector<slipway_model_value> inputs() const { return Values(input_count_, input_); }
  std::vector<slipway_model_value> outputs() const { return Values(output_count_, output_); }
  // The least size of each dim.
  std::map<std::string, int64_t> dims() const {
    std::map<std::string, int64_t> all;
    for (size_t i = 0; i < dim_count_(model_); ++i) {
      slipway_model_dim d;
      get_dim_(model_, i, &d);
      all[d.name] = d.min;
    }
    return all;
  }

  std::vector<Result> Run(std::vector<Array>& arrays) const {
    std::vector<DLTensor> tensors;
    for (Array& a : arrays) tensors.push_back(a.view());
    std::vector<const DLTensor*> in;
    for (const DLTensor& t : tensors) in.push_back(&t);
    std::vector<DLManagedTensorVersioned*> out(output_count_(model_));
    Check(run_(model_, in.data(), in.size(), out.data(), out.size()));
    return {out.begin(), out.end()};
  }

 private:
  template <typename F>
  void Find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library_, name));
    if (!function) throw std::runtime_error(dlerror());
  }
  void Check(int code) const {
    if (code != SLIPWAY_MODEL_OK) throw std::runtime_error(error_());
  }
  std::vector<slipway_model_value> Values(decltype(&slipway_model_input_count) count,
                                          decltype(&slipway_model_input) get) const {
    std::vector<slipway_model_value> all(count(model_));
    for (size_t i = 0; i < all.size(); ++i) get(model_, i, &all[i]);
    return all;
  }

  void* library_;
  slipway_model* model_ = nullptr;
  decltype(&slipway_model_open) open_;
  decltype(&slipway_model_close) close_;
  decltype(&slipway_model_error) error_;
  decltype(&slipway_model_input_count) input_count_;
  decltype(&slipway_model_output_count) output_count_;
  decltype(&slipway_model_input) input_;
  decltype(&slipway_model_output) output_;
  decltype(&slipway_model_dim_count) dim_count_;
  decltype(&slipway_model_get_dim) get_dim_;
  decltype(&slipway_model_run) run_;
};

static int64_t SizeOf(const std::string& text, const std::map<std::string, int64_t>& sizes) {
  char* end;
  const int64_t n = std::strtoll(text.c_str(), &end, 10);
  if (*end == 0) return n;
  const auto found = sizes.find(text);
  if (found == sizes.end()) throw std::runtime_error("give the size " + text);
  return found->second;
}

int main(int argc, char** argv) try {
  if (argc < 2) throw std::runtime_error("usage: run MODEL.so [dim=size ...]");
  const Model model(argv[1]);
  std::map<std::string, int64_t> sizes = model.dims();
  for (int i = 2; i < argc; ++i)
    if (const char* equals = std::strchr(argv[i], '='))
      sizes[std::string(argv[i], static_cast<size_t>(equals - argv[i]))] = std::atoll(equals + 1);

  std::vector<Array> arrays;
  for (const slipway_model_value& v : model.inputs()) {
    std::vector<int64_t> shape;
    std::cout << "input " << v.name << " [";
    for (int d = 0; d < v.ndim; ++d) {
      shape.push_back(SizeOf(v.dims[d], sizes));
      std::cout << (d ? ", " : "") << v.dims[d];
    }
    std::cout << "]\n";
    Array a(v.dtype, shape);
    for (int64_t k = 0; k < a.count(); ++k) {
      const float one = 1;
      const int64_t whole = 1;
      if (v.dtype.code == kDLFloat && v.dtype.bits == 32) std::memcpy(&a.bytes[static_cast<size_t>(k) * 4], &one, 4);
      if (v.dtype.code == kDLInt && v.dtype.bits == 64) std::memcpy(&a.bytes[static_cast<size_t>(k) * 8], &whole, 8);
    }
    arrays.push_back(std::move(a));
  }
  const std::vector<Result> results = model.Run(arrays);
  const std::vector<slipway_model_value> outputs = model.outputs();
  for (size_t i = 0; i < results.size(); ++i) {
    const DLTensor& t = results[i]->dl_tensor;
    int64_t count = 1;
    std::cout << "output " << outputs[i].name << " [";
    for (int d = 0; d < t.ndim; ++d) {
      count *= t.shape[d];
      std::cout << (d ? ", " : "") << t.shape[d];
    }
    std::cout << "]";
    if (t.dtype.code == kDLFloat && t.dtype.bits == 32)
      for (int64_t k = 0; k < count && k < 4; ++k) std::cout << " " << static_cast<const float*>(t.data)[k];
    std::cout << "\n";
  }
  return 0;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
