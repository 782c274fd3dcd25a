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
  for (auto table :
       {UnaryKernels(), BinaryKernels(), MoveKernels(), IndexKernels(), ReduceKernels(), ContractKernels(),
        NormalizeKernels(), ConvKernels(), PoolKernels(), SampleKernels(), OrderKernels(), TransformKernels()}) {
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
        for (int i = below(14); i > 0; --i) ints.push_back(below(8) == 0 ? -1 - below(3) : below(3));
        for (int i = below(4); i > 0; --i) floats.push_back(below(4) - 1.5);
        const Call call{in, out, below(2) ? type : static_cast<DType>(below(10)), ints, floats};
        if (k->memory != nullptr && std::all_of(all.begin(), all.end(), [](const Guarded& g) { return g.t.numel() > 0; })) {
          ASSERT_GE(k->memory(call), 0) << k->name;
        }
        const char* why = k->run(call);
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

}  // namespace
}  // namespace slipway::kernels
