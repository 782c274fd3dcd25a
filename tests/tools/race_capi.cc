// Uses the C API from many threads at once, under ThreadSanitizer (tests/builds/tsan.sh): each thread opens, asks,
// changes and converts models of its own, and loads and runs the libraries that it made.
//
//   race_capi FOLDER THREADS ROUNDS FILE...
//
// What a thread gets (files byte by byte, texts, results of runs, messages) is compared with what one thread alone got
// before. Tensors of weights go from thread to thread, so that a file's mapping is let go by whichever is last. Writes
// into folders below FOLDER, which must exist.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "model_runs.h"
#include "slipway/slipway.h"

namespace {

using slipway::tests::ModelFunctions;
using slipway::tests::ModelInputs;
using slipway::tests::RunOnce;

std::atomic<int> failures{0};

void Fail(const std::string& what) {
  if (failures.fetch_add(1) < 10) std::fprintf(stderr, "%s\n", what.c_str());
}

// One tensor of each file on its way to another thread.
class Mailbox {
 public:
  // Leaves a tensor and takes what was there: null at first.
  DLManagedTensorVersioned* Swap(DLManagedTensorVersioned* tensor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(tensor, tensor_);
    return tensor;
  }
  ~Mailbox() {
    if (tensor_ != nullptr) tensor_->deleter(tensor_);
  }

 private:
  std::mutex mutex_;
  DLManagedTensorVersioned* tensor_ = nullptr;
};

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Results of the library's model, run by two callers at a time.
std::string RunLibrary(const std::string& path) {
  // The loader has a lock of its own, which ThreadSanitizer does not see: a library may lie where another thread's was.
  static std::mutex loading;
  std::unique_lock<std::mutex> lock(loading);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  lock.unlock();
  if (library == nullptr) {
    Fail(dlerror());
    return "";
  }
  ModelFunctions f;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) Fail(path + " has no " + name);
    return function != nullptr;
  };
  std::string results[2];
  if (find(f.open, "slipway_model_open") && find(f.close, "slipway_model_close") &&
      find(f.error, "slipway_model_error") && find(f.input_count, "slipway_model_input_count") &&
      find(f.input, "slipway_model_input") && find(f.dim_count, "slipway_model_dim_count") &&
      find(f.get_dim, "slipway_model_get_dim") && find(f.output_count, "slipway_model_output_count") &&
      find(f.run, "slipway_model_run")) {
    slipway_model* model = nullptr;
    ModelInputs in;
    std::string error;
    if (f.open(&model) != SLIPWAY_MODEL_OK) {
      Fail(path + ": " + f.error());
    } else if (error = in.Make(f, model); !error.empty()) {
      Fail(path + ": " + error);
    } else {
      std::string errors[2];
      std::thread other([&] { results[1] = RunOnce(f, model, in, &errors[1]); });
      results[0] = RunOnce(f, model, in, &errors[0]);
      other.join();
      for (const std::string& e : errors)
        if (!e.empty()) Fail(path + ": " + e);
      if (results[0] != results[1]) Fail(path + ": two runs at a time differ");
    }
    f.close(model);
  }
  lock.lock();
  dlclose(library);
  return results[0];
}

// Whatever can be asked of a model, as text.
std::string Ask(slipway_archive* model) {
  std::string all;
  const char* text = nullptr;
  for (auto* ask : {slipway_inspect, slipway_text}) {
    if (ask(model, &text) == SLIPWAY_OK) all += text;
  }
  for (size_t p = 0; p < slipway_program_count(model); ++p) {
    all += slipway_program_name(model, p);
    for (slipway_role role : {SLIPWAY_INPUT, SLIPWAY_OUTPUT, SLIPWAY_UPDATE, SLIPWAY_WEIGHT}) {
      for (size_t i = 0; i < slipway_value_count(model, p, role); ++i) {
        slipway_value v = {};
        v.struct_size = sizeof v;
        if (slipway_value_get(model, p, role, i, &v) != SLIPWAY_OK) Fail("a value is not there");
        all += std::string(v.name) + v.kind + v.dtype + v.value;
      }
    }
  }
  return all;
}

// The first weight of the first program goes to the next thread and comes from the one before.
void ExchangeWeight(slipway_archive* model, Mailbox& mailbox) {
  slipway_value v = {};
  v.struct_size = sizeof v;
  if (slipway_value_get(model, 0, SLIPWAY_WEIGHT, 0, &v) != SLIPWAY_OK || !v.stored) return;
  const std::string name = v.name;
  DLManagedTensorVersioned* tensor = nullptr;
  if (slipway_weight_get(model, 0, name.c_str(), &tensor) != SLIPWAY_OK) {
    Fail(slipway_error(model));
    return;
  }
  tensor = mailbox.Swap(tensor);
  if (tensor != nullptr && slipway_weight_set(model, 0, name.c_str(), tensor) != SLIPWAY_OK) Fail(slipway_error(model));
}

// What every target makes of the model, or says against it.
std::string Export(slipway_archive* model, const std::string& folder) {
  std::string all;
  for (const char* target : {"onnx", "so", "pt2", "native-pt2", "safetensors"}) {
    const std::string path = folder + "/model." + target;  // a library holds its name
    slipway_options* options = slipway_options_new();
    if (slipway_options_set(options, "to", target) != SLIPWAY_OK) Fail(slipway_options_error(options));
    uint64_t written = 0;
    slipway_options_progress(
        options, [](void* user, uint64_t done, uint64_t) { *static_cast<uint64_t*>(user) = done; }, &written);
    const int status = slipway_export(model, 0, path.c_str(), options, nullptr);
    if (status == SLIPWAY_BUG || status == SLIPWAY_IO) Fail(slipway_error(model));
    all += std::string(target) + " " + std::to_string(status) + " " + std::to_string(written) + "\n";
    for (size_t i = 0; i < slipway_diagnostic_count(model); ++i) {
      slipway_diagnostic d = {};
      d.struct_size = sizeof d;
      if (slipway_diagnostic_get(model, i, &d) != SLIPWAY_OK) Fail("a diagnostic is not there");
      all += std::string(d.id) + d.cause + "\n";
    }
    if (status == SLIPWAY_OK) {
      all += Content(path);
      if (target == std::string("so")) all += RunLibrary(path);
      std::remove(path.c_str());
    }
    slipway_options_free(options);
  }
  return all;
}

std::string Use(const std::string& file, const std::string& folder, Mailbox& mailbox) {
  slipway_archive* model = nullptr;
  std::string all;
  if (slipway_open((file + ".none").c_str(), nullptr, &model) != SLIPWAY_IO) Fail("a file that is not there opens");
  all += slipway_error(model);
  slipway_close(model);
  if (slipway_open(file.c_str(), nullptr, &model) != SLIPWAY_OK) Fail(slipway_error(model));
  all += Ask(model);
  ExchangeWeight(model, mailbox);
  all += Export(model, folder);
  for (size_t i = 0; slipway_pass_name(i) != nullptr; ++i) {
    const int status = slipway_run_pass(model, 0, slipway_pass_name(i), nullptr);
    if (status == SLIPWAY_BUG) Fail(slipway_error(model));
    all += slipway_pass_name(i) + (" " + std::to_string(status)) + slipway_error(model) + "\n";
  }
  all += Ask(model);
  slipway_close(model);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: race_capi FOLDER THREADS ROUNDS FILE...\n");
    return 2;
  }
  const std::string folder = argv[1];
  const int threads = std::atoi(argv[2]), rounds = std::atoi(argv[3]);
  const std::vector<std::string> files(argv + 4, argv + argc);
  std::vector<Mailbox> mailboxes(files.size());
  std::vector<std::string> expected;
  size_t bytes = 0;
  std::filesystem::create_directory(folder + "/alone");
  for (size_t i = 0; i < files.size(); ++i) {
    Use(files[i], folder + "/alone", mailboxes[i]);  // leaves a tensor
    expected.push_back(Use(files[i], folder + "/alone", mailboxes[i]));
    bytes += expected.back().size();
  }
  std::vector<std::thread> users;
  for (int t = 0; t < threads; ++t) {
    users.emplace_back([&, t] {
      const std::string own = folder + "/" + std::to_string(t);
      std::filesystem::create_directory(own);
      for (int r = 0; r < rounds; ++r)
        for (size_t i = 0; i < files.size(); ++i)
          if (Use(files[i], own, mailboxes[i]) != expected[i]) Fail(files[i] + " is not what it is alone");
    });
  }
  for (std::thread& t : users) t.join();
  std::printf("%d threads, %d rounds of %zu files, %zu bytes of results, %d failures\n", threads, rounds, files.size(),
              bytes, failures.load());
  return failures != 0 || bytes == 0;
}
