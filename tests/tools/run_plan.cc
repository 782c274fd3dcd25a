// Runs the plan in a native library's payload on numbers of its own, whatever architecture the library is for: plans
// are the same for all. Prints every element of every result, so that two builds of this can be compared
// (tests/arm/check.sh).
//
//   run_plan MODEL.so
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "kernels/convert.h"
#include "kernels/execute.h"
#include "kernels/isa.h"
#include "kernels/plan_file.h"

using namespace slipway::kernels;

namespace {

int Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

// Numbers between -1 and 1, or small integers, the same everywhere.
void Fill(const Tensor& t, uint32_t seed) {
  for (int64_t i = 0; i < t.numel(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const double x = (static_cast<double>(seed >> 8) / (1 << 24)) * 2 - 1;
    WithAnyType(t.dtype, [&]<typename T>() {
      t.as<T>()[i] = IsFloating(t.dtype) ? Convert<T>(x) : Convert<T>(static_cast<int64_t>(seed >> 16) % 4);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return Fail("usage: run_plan MODEL.so");
  std::ifstream file(argv[1], std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  // The payload begins at a page.
  size_t at = 0;
  PayloadHeader header{};
  for (; at + sizeof header <= bytes.size(); at += 4096)
    if (std::memcmp(bytes.data() + at, kPayloadMagic, sizeof kPayloadMagic) == 0) break;
  if (at + sizeof header > bytes.size()) return Fail("no payload");
  std::memcpy(&header, bytes.data() + at, sizeof header);
  if (header.size > bytes.size() - at || header.plan_offset + header.plan_size > header.size ||
      header.weights_offset + header.weights_size > header.size)
    return Fail("the payload is cut off");
  // Constants lie at multiples of 64 bytes from there.
  const std::unique_ptr<char, void (*)(void*)> payload(static_cast<char*>(std::aligned_alloc(4096, header.size)),
                                                       std::free);
  std::memcpy(payload.get(), bytes.data() + at, header.size);
  auto part = [&](uint64_t offset, uint64_t size) {
    return std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(payload.get()) + offset, size);
  };
  NativeModel model;
  std::string why;
  if (!ReadPlanFile(part(header.plan_offset, header.plan_size), part(header.weights_offset, header.weights_size),
                    &model, &why))
    return Fail(why);

  const Plan& plan = model.plan;
  std::vector<Number> symbols(plan.symbols.size()), values(plan.exprs.size());
  for (const Binding& b : plan.bindings) {
    const Symbol& s = plan.symbols[b.symbol];
    symbols[b.symbol] = s.real ? Number::Real(2) : Number::Int(std::min(std::max<int64_t>(5, s.min), s.max));
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = Evaluate(plan.exprs[i], values, symbols);
  std::vector<std::vector<char>> memory;
  std::vector<Tensor> inputs;
  for (const Input& in : plan.inputs) {
    Tensor t;
    t.dtype = in.dtype;
    t.rank = static_cast<int>(in.sizes.size());
    int64_t step = 1;
    for (int d = t.rank - 1; d >= 0; --d) {
      t.sizes[d] = values[in.sizes[d]].bits;
      t.strides[d] = step;
      step *= t.sizes[d];
    }
    memory.emplace_back(static_cast<size_t>(step) * ByteSize(in.dtype) + 1);
    t.data = memory.back().data();
    Fill(t, static_cast<uint32_t>(inputs.size() + 1));
    inputs.push_back(t);
  }
  auto executable = Executable::Make(plan, &why);
  if (!executable) return Fail(why);
  Context context(executable);
  std::vector<std::vector<char>> results(plan.outputs.size());
  std::vector<Tensor> outputs(plan.outputs.size());
  const Failure failure = context.Run(inputs, [&](int32_t slot, const Tensor& shape) -> void* {
    results[slot].resize(static_cast<size_t>(shape.numel()) * ByteSize(shape.dtype) + 1);
    outputs[slot] = shape;
    return outputs[slot].data = results[slot].data();
  });
  if (failure) return Fail(failure.text);
  std::fprintf(stderr, "%s: %zu steps\n", BestIsa().name, plan.steps.size());
  for (const Tensor& t : outputs)
    for (int64_t i = 0; i < t.numel(); ++i)
      WithAnyType(t.dtype, [&]<typename T>() { std::printf("%.9g\n", Convert<double>(t.as<T>()[i])); });
  return 0;
}
