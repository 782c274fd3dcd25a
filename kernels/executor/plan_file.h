// A native model as it lies in a library (schemas/plan.fbs): read, checked, and turned into a plan whose constants
// point into the weights.
#ifndef SLIPWAY_KERNELS_EXECUTOR_PLAN_FILE_H_
#define SLIPWAY_KERNELS_EXECUTOR_PLAN_FILE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/executor/plan.h"
#include "kernels/gemm/packing.h"

namespace slipway::kernels {

inline constexpr uint32_t kPlanFileVersion = 5;

// What lies at the start of a library's payload; offsets are from there, in bytes.
struct PayloadHeader {
  char magic[8];
  uint64_t size;  // of the whole payload
  uint64_t plan_offset, plan_size;
  uint64_t weights_offset, weights_size;
  uint64_t reserved[2];
};
static_assert(sizeof(PayloadHeader) == 64);
inline constexpr char kPayloadMagic[8] = {'S', 'L', 'I', 'P', 'W', 'A', 'Y', '1'};
inline constexpr char kNoPayloadMagic[8] = {'S', 'L', 'I', 'P', 'W', 'A', 'Y', '0'};
// Constants begin at multiples of this.
inline constexpr uint64_t kConstantAlignment = 64;

// A model's tensor of the program's own: a weight by its name, or a number without one.
struct Constant {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes, strides;
  const uint8_t* data = nullptr;
  uint64_t bytes = 0;                  // that the tensor reaches over
  std::optional<WeightMatrix> packed;  // how `data` is packed; null: it is the tensor as it is
  std::vector<int32_t> buffers;        // of the plan
};

struct Origin {
  std::string op, place;
};

// A leaf of the program's result, in flattened order.
struct Leaf {
  int32_t output = -1;  // -1: a constant
  bool none = false;    // of no number
  DType dtype = DType::kI64;
  int64_t bits = 0;
};

// A shared library with kernels that the plan calls, inside the payload.
struct EmbeddedPlugin {
  std::string name;
  std::span<const uint8_t> bytes;
};

struct NativeModel {
  std::string name;
  Plan plan;
  std::vector<std::vector<std::string>> input_dims, output_dims;  // for people: "B", "2*s0", "3"
  std::vector<std::string> output_names;
  std::vector<Constant> constants;
  std::vector<Origin> origins;
  std::vector<Leaf> leaves;
  std::string in_spec, out_spec;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<EmbeddedPlugin> plugins;
};

// Where kernels come from that the registry has not; the model's plugins are read already. Null, with the reason, for
// one that cannot be had.
using FindOther = std::function<const Kernel*(std::string_view name, const NativeModel& model, std::string* why)>;

// False, with the reason in `why`, where the bytes are no plan file of this version, name a kernel that is not here, or
// place a constant outside the weights. The plan itself is validated by Executable::Make. `weights` must outlive the
// model.
bool ReadPlanFile(std::span<const uint8_t> file, std::span<const uint8_t> weights, NativeModel* model, std::string* why,
                  const FindOther& find_other = nullptr);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_EXECUTOR_PLAN_FILE_H_
