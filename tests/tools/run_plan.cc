// Runs the plan in a native library's payload, whatever architecture the library is for: plans are the same for all.
//
//   run_plan MODEL.so      on numbers of its own; prints every element of every result, so that two builds of this can
//                          be compared (tests/arm/check.sh)
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/convert.h"
#include "kernels/executor/execute.h"
#include "kernels/executor/plan_file.h"
#include "kernels/isa/isa.h"
#include "payload.h"

using namespace slipway::kernels;

namespace {

int Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

// Dense, in memory of its own.
void Lay(Tensor* t, std::vector<std::vector<char>>* memory) {
  int64_t step = 1;
  for (int d = t->rank - 1; d >= 0; --d) t->strides[d] = step, step *= t->sizes[d];
  memory->emplace_back(static_cast<size_t>(step) * ByteSize(t->dtype) + 1);
  t->data = memory->back().data();
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

std::vector<Tensor> MakeInputs(const Plan& plan, std::vector<std::vector<char>>* memory) {
  std::vector<Scalar> symbols(plan.symbols.size()), values(plan.exprs.size());
  for (const Binding& b : plan.bindings) {
    const Symbol& s = plan.symbols[b.symbol];
    symbols[b.symbol] = s.real ? Scalar::Real(2) : Scalar::Int(std::min(std::max<int64_t>(5, s.min), s.max));
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = Evaluate(plan.exprs[i], values, symbols);
  std::vector<Tensor> inputs;
  for (const Input& in : plan.inputs) {
    Tensor t;
    t.dtype = in.dtype;
    t.rank = static_cast<int>(in.sizes.size());
    for (int d = 0; d < t.rank; ++d) t.sizes[d] = values[in.sizes[d]].bits;
    Lay(&t, memory);
    Fill(t, static_cast<uint32_t>(inputs.size() + 1));
    inputs.push_back(t);
  }
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return Fail("usage: run_plan MODEL.so");
  Payload payload;
  if (std::string why = ReadPayload(argv[1], &payload); !why.empty()) return Fail(why);
  NativeModel model;
  std::string why;
  if (!ReadPlanFile(payload.plan, payload.weights, &model, &why)) return Fail(why);

  const Plan& plan = model.plan;
  std::vector<std::vector<char>> memory;
  const std::vector<Tensor> inputs = MakeInputs(plan, &memory);
  auto executable = Executable::Make(plan, &why);
  if (!executable) return Fail(why);
  Context context(executable);
  std::vector<std::vector<char>> results(plan.outputs.size());
  std::vector<Tensor> outputs(plan.outputs.size());
  const Error failure = context.Run(inputs, [&](int32_t slot, const Tensor& shape) -> void* {
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
