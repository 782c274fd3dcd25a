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

#include "model_runs.h"
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

using slipway::tests::BytesOf;
using slipway::tests::ModelFunctions;
using slipway::tests::ModelInputs;
using slipway::tests::RunOnce;

constexpr ModelFunctions kLinked = {slipway_model_open,        slipway_model_close,        slipway_model_error,
                                    slipway_model_input_count, slipway_model_input,        slipway_model_dim_count,
                                    slipway_model_get_dim,     slipway_model_output_count, slipway_model_run};

std::atomic<int> failures{0};

void Fail(const std::string& what) {
  if (failures.fetch_add(1) < 10) std::fprintf(stderr, "%s\n", what.c_str());
}

// Every byte of every result; "" where the run failed.
std::string Run(slipway_model* model, const ModelInputs& in) {
  std::string error, all = RunOnce(kLinked, model, in, &error);
  if (!error.empty()) Fail("a run: " + error);
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
  ModelInputs in;
  if (const std::string why = in.Make(kLinked, shared); !why.empty()) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 1;
  }
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
