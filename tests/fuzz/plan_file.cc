// Plans of native libraries: the file read, its tables checked, printed. tests/tools/fuzz_plan.cc runs what was
// changed, too.
#include <cstring>

#include "kernels/executor/execute.h"
#include "kernels/executor/plan_file.h"
#include "kernels/executor/print_plan.h"
#include "tests/fuzz/target.h"

using namespace slipway;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kWeights = 1 << 16;
  static uint8_t* const weights = static_cast<uint8_t*>(std::aligned_alloc(4096, kWeights));
  std::memset(weights, 0, kWeights);
  // Flat tables are read where they lie, which in a library is at a multiple of 64.
  std::unique_ptr<uint8_t, void (*)(void*)> plan(
      static_cast<uint8_t*>(std::aligned_alloc(64, (size + 63) / 64 * 64 + 64)), std::free);
  if (size) std::memcpy(plan.get(), data, size);
  kernels::NativeModel model;
  std::string why;
  if (!kernels::ReadPlanFile({plan.get(), size}, {weights, kWeights}, &model, &why)) {
    fuzz::Answer(why);
    return 0;
  }
  auto executable = kernels::Executable::Make(model.plan, &why);
  fuzz::Answer(why);
  if (executable) fuzz::Promise(!kernels::PrintPlan(model.plan).empty(), "a plan prints");
  return 0;
}
