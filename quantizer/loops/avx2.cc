// The loops (loops.h) for one instruction set, which CMakeLists.txt's flags state.
#if defined(__x86_64__)
#define SLIPWAY_LOOPS avx2
#define SLIPWAY_LOOPS_NAME "avx2"
#include "quantizer/loops/body.h"

namespace slipway::quantizer {
extern const Loops k_avx2;
const Loops k_avx2 = avx2::kLoops;
}  // namespace slipway::quantizer
#endif
