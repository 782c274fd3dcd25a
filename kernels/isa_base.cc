// isa_body.h for every processor of the architecture (x86-64-v2).
#define SLIPWAY_ISA_NAME "v2"
#define SLIPWAY_ISA_TABLE kIsaBase
#define SLIPWAY_ISA_BYTES 16
#define SLIPWAY_ISA_ROWS 6
#include "kernels/isa_body.h"
