// The loops (loops.h) for one instruction set, which CMakeLists.txt's flags state.
#if defined(__x86_64__)
#define SLIPWAY_LOOPS avx512
#define SLIPWAY_LOOPS_NAME "avx512"
#include "quantizer/loops/body.h"

namespace slipway::quantizer {
extern const Loops k_avx512;
const Loops k_avx512 = avx512::kLoops;
}  // namespace slipway::quantizer
#endif
