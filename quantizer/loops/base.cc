// The loops (loops.h) for one instruction set, which CMakeLists.txt's flags state.
#define SLIPWAY_LOOPS base
#define SLIPWAY_LOOPS_NAME "v2"
#include "quantizer/loops/body.h"

namespace slipway::quantizer {
extern const Loops k_base;
const Loops k_base = base::kLoops;
}  // namespace slipway::quantizer
