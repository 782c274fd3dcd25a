// Kernels called with arguments that make no sense: whatever a plan says, they answer with a text and touch nothing but
// the tensors that they were handed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/registry.h"

namespace slipway::kernels {
namespace {

constexpr size_t kBytes = 8192, kGuard = 4096;

// A tensor of small random sizes, dense, in memory with guards around it.
struct Guarded {
  std::vector<unsigned char> memory = std::vector<unsigned char>(kBytes + 2 * kGuard, 0x5a);
  Tensor t;
  void Lay(int rank, const int64_t* sizes, DType dtype) {
    t.dtype = dtype;
    t.rank = rank;
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; --d) t.sizes[d] = sizes[d], t.strides[d] = step, step *= sizes[d];
    t.data = memory.data() + kGuard;
    std::memset(t.data, 0, kBytes);
  }
  bool Intact(size_t used) const {
    for (size_t i = 0; i < kGuard; ++i)
      if (memory[i] != 0x5a || memory[kGuard + kBytes + i] != 0x5a) return false;
    for (size_t i = kGuard + used; i < kGuard + kBytes; ++i)
      if (memory[i] != 0) return false;
    return true;
  }
};

TEST(KernelArguments, MakeNoSense) {
  std::mt19937 random(11);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (auto table : {UnaryKernels(), BinaryKernels(), MoveKernels(), IndexKernels(), ReduceKernels(), MatmulKernels(),
                     NormalizeKernels(), GroupNormKernels(), ConvKernels(), PoolKernels(), SampleKernels(),
                     OrderKernels(), TransformKernels()}) {
    for (const Kernel& row : table) {
      const Kernel* k = FindKernel(row.name);
      ASSERT_NE(k, nullptr);
      int done = 0;
      for (int round = 0; round < 400; ++round) {
        const int inputs = k->inputs + below(2), outputs = k->outputs + (k->elementwise ? 0 : below(2));
        std::vector<Guarded> all(static_cast<size_t>(inputs + outputs));
        int64_t sizes[kMaxRank];
        int rank = below(6);
        for (int64_t& s : sizes) s = below(4);
        const auto type = static_cast<DType>(below(10));
        for (Guarded& g : all) {
          // Most tensors are alike, so that some calls get through.
          if (!k->elementwise && below(3) == 0) rank = below(6), sizes[below(5)] = below(4);
          g.Lay(rank, sizes, below(4) == 0 ? static_cast<DType>(below(10)) : below(3) == 0 ? DType::kI64 : type);
        }
        std::vector<Tensor> in, out;
        for (int i = 0; i < inputs + outputs; ++i) (i < inputs ? in : out).push_back(all[i].t);
        std::vector<int64_t> ints;
        std::vector<double> floats;
        // Mostly as many numbers as the attributes are; a number that may be either is a real sometimes.
        const bool real = k->ints == 1 && below(4) == 0;
        for (int i = below(8) == 0 ? below(14) : real ? 0 : k->ints; i > 0; --i)
          ints.push_back(below(8) == 0 ? -1 - below(3) : below(3));
        for (int i = below(8) == 0 ? below(4) : k->reals + real; i > 0; --i) floats.push_back(below(4) - 1.5);
        const Call call{in, out, below(2) ? type : static_cast<DType>(below(10)), ints, floats};
        if (std::all_of(all.begin(), all.end(), [](const Guarded& g) { return g.t.numel() > 0; })) {
          std::vector<Tensor> no_in = in, no_out = out;  // to count there is no memory
          for (auto* list : {&no_in, &no_out})
            for (Tensor& t : *list) t.data = nullptr;
          Call counts = call;
          counts.in = no_in, counts.out = no_out;
          ASSERT_GE(QueryWorkspace(*k, counts), 0) << k->name;
        }
        const char* why = kernels::Run(*k, call);
        done += why == nullptr;
        for (size_t i = 0; i < all.size(); ++i) {
          const size_t used =
              i < static_cast<size_t>(inputs) ? 0 : static_cast<size_t>(all[i].t.numel()) * ByteSize(all[i].t.dtype);
          ASSERT_TRUE(all[i].Intact(used)) << k->name << ": operand " << i << " of " << inputs << " + " << outputs;
        }
      }
      RecordProperty(std::string(k->name), done);
    }
  }
}

// A tensor without elements may claim any other sizes: nothing is allocated by them.
TEST(KernelArguments, ConvolutionsOfEmptyWeightsAllocateNothing) {
  constexpr int64_t kHuge = int64_t{1} << 39;
  auto tensor = [](std::initializer_list<int64_t> sizes) {
    Tensor t;
    t.dtype = DType::kF64;
    for (int64_t s : sizes) t.sizes[t.rank++] = s;
    for (int64_t step = 1, d = t.rank - 1; d >= 0; --d) t.strides[d] = step, step *= std::max<int64_t>(1, t.sizes[d]);
    return t;
  };
  const int64_t ints[] = {1, 1, 1, 1, 0, 0, 0, 1, 1, 1};  // groups; stride, padding, dilation
  double image[1] = {0};
  Tensor in[] = {tensor({1, 1, 1, 1, 1}), tensor({0, 1, 1, 1, kHuge})}, out = tensor({1, 0, 1, 1, 1});
  in[0].data = in[1].data = out.data = image;
  in[0].sizes[4] = kHuge, in[0].strides[4] = 0;
  EXPECT_EQ(kernels::Run(*FindKernel("conv"), {.in = in, .out = {&out, 1}, .compute = DType::kF64, .ints = ints}),
            nullptr);
}

}  // namespace
}  // namespace slipway::kernels
