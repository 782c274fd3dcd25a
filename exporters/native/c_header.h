// The interface of one model as a C header over slipway_model.h: `slipway inspect --header`.
#ifndef SLIPWAY_EXPORTERS_NATIVE_C_HEADER_H_
#define SLIPWAY_EXPORTERS_NATIVE_C_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/executor/plan_file.h"
#include "kernels/tensor.h"
#include "planner/planner.h"

namespace slipway::exporters {

// What a caller of a native library sees.
struct NativeInterface {
  struct Value {
    std::string name;
    kernels::DType dtype;
    std::vector<std::string> dims;  // numbers, or expressions in the dims below
    bool number = false;            // a symbolic number as a tensor of no dims
  };
  struct Dim {
    std::string name;
    int64_t min, max;
  };
  std::string name;  // the program's
  std::vector<Value> inputs, outputs;
  std::vector<Value> states;  // that the library keeps between runs
  std::vector<Dim> dims;
};

NativeInterface InterfaceOf(const kernels::NativeModel& model);
NativeInterface InterfaceOf(const std::string& name, const planner::PlannedProgram& planned);

// C11, and C++; every name in it begins with `prefix`, which is made an identifier. Deterministic.
std::string CHeader(const NativeInterface& model, const std::string& prefix);

}  // namespace slipway::exporters

#endif  // SLIPWAY_EXPORTERS_NATIVE_C_HEADER_H_
