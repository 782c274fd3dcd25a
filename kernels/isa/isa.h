// The micro-kernels of an instruction set, a table per family, and the choice of the set. FAMILY.cc is the one source
// of a family's tables, compiled once for each set that has it (set.h); BestIsa() picks the best set that the processor
// supports on first use. Callers guarantee sizes, memory and workspace: micro-kernels allocate, check and thread
// nothing.
#ifndef SLIPWAY_KERNELS_ISA_ISA_H_
#define SLIPWAY_KERNELS_ISA_ISA_H_

#include <cstdint>

#include "kernels/isa/attention.h"
#include "kernels/isa/conv_nchw.h"
#include "kernels/isa/conv_nhwc.h"
#include "kernels/isa/dequant_gemm.h"
#include "kernels/isa/elementwise.h"
#include "kernels/isa/gemm.h"
#include "kernels/isa/reduction.h"
#include "kernels/isa/rnn.h"

namespace slipway::kernels {

struct Isa {
  const char* name;
  int64_t lanes;  // floats of a vector
  const GemmMicrokernels& gemm;
  const ElementwiseMicrokernels& elementwise;
  const ReductionMicrokernels& reduction;
  const RnnMicrokernels& rnn;
  const ConvNchwMicrokernels& conv_nchw;
  const ConvNhwcMicrokernels& conv_nhwc;
  const DequantGemmMicrokernels& dequant_gemm;
  const AttentionMicrokernels& attention;
};

// The best of this processor; the environment's SLIPWAY_ISA (v2, avx2, avxvnni, avx512, avx512vnni, avx512bf16, amx;
// on Arm neon, dotprod, i8mm, bf16) caps it.
const Isa& BestIsa();

// What SLIPWAY_ISA caps it to; null where that is not set, or not the name of a set.
const char* IsaCap();

// Null where this build or this processor has none of that name.
const Isa* FindIsa(const char* name);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_ISA_H_
