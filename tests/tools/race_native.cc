// Runs a native library's model from many threads at once, under ThreadSanitizer (tests/builds/tsan.sh): the runtime's
// C functions and the kernels are linked into this program, and the payload comes from a library that slipway made.
//
//   race_native MODEL.so [THREADS [ROUNDS]]
//
// Each thread runs the model that all share and one of its own, and compares every result with that of one run alone;
// meanwhile another thread changes the number of threads, reads weights, times and memory, and opens and closes models.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "payload.h"
#include "slipway/slipway_model.h"

namespace {

constexpr size_t kMost = size_t{64} << 20;

}  // namespace

// In a library the exporter fills it in.
extern "C" {
alignas(4096) __attribute__((visibility("hidden"))) unsigned char slipway_payload[kMost];
}

namespace {

std::atomic<int> failures{0};

void Fail(const std::string& what) {
  if (failures.fetch_add(1) < 10) std::fprintf(stderr, "%s\n", what.c_str());
}

struct Inputs {
  std::vector<std::vector<char>> bytes;
  std::vector<std::vector<int64_t>> sizes;
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor*> pointers;
};

// A dim's text as a number; 5, or what is nearest among its sizes, for a symbol.
int64_t SizeOf(const slipway_model* model, const char* text) {
  char* end = nullptr;
  const int64_t number = std::strtoll(text, &end, 10);
  if (*end == '\0') return number;
  for (size_t i = 0; i < slipway_model_dim_count(model); ++i) {
    slipway_model_dim dim;
    slipway_model_get_dim(model, i, &dim);
    if (std::strcmp(dim.name, text) == 0) return 5 < dim.min ? dim.min : 5 > dim.max ? dim.max : 5;
  }
  std::fprintf(stderr, "the size of an input is %s\n", text);
  std::exit(1);
}

// Numbers between -1 and 1 as floats; other dtypes get zeros.
void Make(const slipway_model* model, Inputs* in) {
  const size_t count = slipway_model_input_count(model);
  in->bytes.resize(count), in->sizes.resize(count), in->tensors.resize(count);
  uint32_t seed = 1;
  for (size_t i = 0; i < count; ++i) {
    slipway_model_value value;
    slipway_model_input(model, i, &value);
    int64_t elements = 1;
    for (int d = 0; d < value.ndim; ++d) {
      in->sizes[i].push_back(SizeOf(model, value.dims[d]));
      elements *= in->sizes[i].back();
    }
    in->bytes[i].resize(static_cast<size_t>(elements) * value.dtype.bits / 8);
    if (value.dtype.code == kDLFloat && value.dtype.bits == 32)
      for (int64_t e = 0; e < elements; ++e) {
        seed = seed * 1664525u + 1013904223u;
        const float x = static_cast<float>(seed >> 8) / (1 << 23) - 1;
        std::memcpy(in->bytes[i].data() + 4 * e, &x, 4);
      }
    DLTensor& t = in->tensors[i];
    t = {};
    t.data = in->bytes[i].data();
    t.device = {kDLCPU, 0};
    t.ndim = value.ndim;
    t.dtype = value.dtype;
    t.shape = in->sizes[i].data();
    in->pointers.push_back(&t);
  }
}

size_t BytesOf(const DLTensor& t) {
  size_t bytes = t.dtype.bits / 8;
  for (int d = 0; d < t.ndim; ++d) bytes *= static_cast<size_t>(t.shape[d]);
  return bytes;
}

// Every byte of every result; "" where the run failed.
std::string Run(slipway_model* model, const Inputs& in) {
  std::vector<DLManagedTensorVersioned*> outputs(slipway_model_output_count(model));
  if (slipway_model_run(model, in.pointers.data(), in.pointers.size(), outputs.data(), outputs.size()) !=
      SLIPWAY_MODEL_OK) {
    Fail(std::string("a run: ") + slipway_model_error());
    return "";
  }
  std::string all;
  for (DLManagedTensorVersioned* o : outputs) {
    all.append(static_cast<const char*>(o->dl_tensor.data) + o->dl_tensor.byte_offset, BytesOf(o->dl_tensor));
    o->deleter(o);
  }
  return all;
}

slipway_model* Open() {
  slipway_model* model = nullptr;
  if (slipway_model_open(&model) != SLIPWAY_MODEL_OK) {
    std::fprintf(stderr, "%s\n", slipway_model_error());
    std::exit(1);
  }
  return model;
}

// What a program that serves a model does beside its runs.
void Disturb(slipway_model* shared, const std::atomic<bool>& stop) {
  for (int i = 0; !stop; ++i) {
    slipway_model_set_threads(shared, 1 + i % 4);
    slipway_model_profile(shared, i % 2);
    slipway_model_profile_rows(shared, [](void*, const char*, int64_t, double) {}, nullptr);
    uint64_t temporaries, working;
    slipway_model_memory(shared, &temporaries, &working);
    for (size_t c = 0; c < slipway_model_constant_count(shared); ++c) {
      slipway_model_constant constant;
      slipway_model_get_constant(shared, c, &constant);
      if (constant.tensor.data == nullptr && BytesOf(constant.tensor) > 0) Fail("a weight has no memory");
    }
    slipway_model_close(Open());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 4, rounds = argc > 3 ? std::atoi(argv[3]) : 20;
  slipway::kernels::Payload payload;
  if (const std::string why = slipway::kernels::ReadPayload(argv[1], &payload); !why.empty()) {
    std::fprintf(stderr, "%s: %s\n", argv[1], why.c_str());
    return 1;
  }
  slipway::kernels::PayloadHeader header;
  std::memcpy(&header, payload.memory.get(), sizeof header);
  if (header.size > kMost) {
    std::fprintf(stderr, "%s: too large\n", argv[1]);
    return 1;
  }
  std::memcpy(slipway_payload, payload.memory.get(), header.size);

  slipway_model* shared = Open();
  Inputs in;
  Make(shared, &in);
  const std::string expected = Run(shared, in);
  std::atomic<bool> stop{false};
  std::thread other(Disturb, shared, std::cref(stop));
  std::vector<std::thread> callers;
  for (int t = 0; t < threads; ++t)
    callers.emplace_back([&] {
      slipway_model* own = Open();
      for (int i = 0; i < rounds; ++i)
        if (Run(shared, in) != expected || Run(own, in) != expected) Fail("a result is not that of a run alone");
      slipway_model_close(own);
    });
  for (std::thread& t : callers) t.join();
  stop = true;
  other.join();
  slipway_model_close(shared);
  std::printf("%d threads, %d runs of each, %zu bytes of results, %d failures\n", threads, 2 * rounds, expected.size(),
              failures.load());
  return failures != 0 || expected.empty();
}
