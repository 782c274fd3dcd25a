// What each source of micro-kernels begins with: the intrinsics of the instruction set that it is compiled for, and the
// set's name. cmake/InstructionSets.cmake compiles each source once for each set that has its family, with
//
//   SLIPWAY_ISA        the set: the namespace of its tables (isa.cc)
//   SLIPWAY_ISA_BYTES  of a vector
//   SLIPWAY_ISA_ROWS   mr of GEMM tiles: with two vectors each, what the registers hold
//
// Sources are written with the vector extensions of GCC and Clang; intrinsics only where these have no form of an
// instruction. All functions are in an unnamed namespace and call none outside it but the set's own tables, so that
// code compiled for a newer processor is never linked into the path of an older one: what a header has is always
// inlined, and of the standard library only what compilers replace by themselves is used.
#ifndef SLIPWAY_KERNELS_ISA_SET_H_
#define SLIPWAY_KERNELS_ISA_SET_H_

#include "kernels/isa/intrinsics.h"

#define SLIPWAY_ISA_TEXT_OF(name) #name
#define SLIPWAY_ISA_TEXT(name) SLIPWAY_ISA_TEXT_OF(name)
#define SLIPWAY_ISA_NAME SLIPWAY_ISA_TEXT(SLIPWAY_ISA)

#endif  // SLIPWAY_KERNELS_ISA_SET_H_
