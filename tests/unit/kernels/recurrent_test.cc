// Recurrent layers run on the memory that they say they need, and a packed weight gives what a plain one gives.
// tests/interop/recurrent_test.py compares the numbers with torch's.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "fenced_scratch.h"
#include "kernels/gemm/packing.h"
#include "kernels/registry.h"

namespace slipway::kernels {
namespace {

Tensor Of(std::vector<float>& data, std::vector<int64_t> sizes) {
  Tensor t;
  t.data = data.data(), t.rank = static_cast<int>(sizes.size());
  int64_t step = 1;
  for (int d = t.rank - 1; d >= 0; --d) t.sizes[d] = sizes[d], t.strides[d] = step, step *= sizes[d];
  return t;
}

std::vector<float> Lstm(int64_t times, int64_t batch, int64_t n, bool packed) {
  std::mt19937 random(1);
  auto numbers = [&](int64_t count) {
    std::vector<float> v(static_cast<size_t>(count));
    for (float& x : v) x = static_cast<float>(random() % 1000) / 1000 - 0.5f;
    return v;
  };
  const int64_t wide = 4 * n;
  std::vector<float> x = numbers(times * batch * wide), w = numbers(wide * n), h = numbers(batch * n),
                     c = numbers(batch * n);
  std::vector<float> panels(static_cast<size_t>(PanelBytes(n, wide, DType::kF32)) / sizeof(float));
  PackPanels({w.data(), DType::kF32, 1, n}, n, wide, 0, (wide - 1) / kPanel + 1, panels.data());
  std::vector<float> y(times * batch * n), last(batch * n), cells(batch * n);
  std::vector<Tensor> in = {Of(x, {times, batch, wide}), Of(w, {n, wide}), Of(h, {batch, n}), Of(c, {batch, n})};
  in[1].strides[0] = 1, in[1].strides[1] = n;
  if (packed) in[1].data = panels.data(), in[1].packed = Packing::kNr16;
  const std::vector<Tensor> out = {Of(y, {times, batch, n}), Of(last, {batch, n}), Of(cells, {batch, n})};
  const int64_t ints[] = {0, 0};
  const Kernel* kernel = FindKernel("lstm");
  Call call{in, out, DType::kF32, ints, {}};
  const int64_t bytes = QueryWorkspace(*kernel, call);
  EXPECT_GE(bytes, batch * wide * int64_t{sizeof(float)});
  FencedScratch memory(bytes);
  call.scratch = &*memory;
  EXPECT_EQ(kernel->run(call), nullptr);
  EXPECT_TRUE(memory.sufficed());
  return y;
}

TEST(Recurrent, RunsOnTheMemoryItNames) {
  for (int64_t batch : {1, 2, 3, 9})
    for (int64_t n : {5, 32, 70}) {
      SCOPED_TRACE(testing::Message() << batch << " " << n);
      const std::vector<float> plain = Lstm(4, batch, n, false), packed = Lstm(4, batch, n, true);
      for (size_t i = 0; i < plain.size(); ++i) ASSERT_NEAR(plain[i], packed[i], 1e-5) << i;
    }
}

}  // namespace
}  // namespace slipway::kernels
