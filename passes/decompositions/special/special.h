// The parts of the table of special functions, one per file.
#ifndef SLIPWAY_PASSES_DECOMPOSITIONS_SPECIAL_SPECIAL_H_
#define SLIPWAY_PASSES_DECOMPOSITIONS_SPECIAL_SPECIAL_H_

#include "absl/types/span.h"
#include "passes/decompose.h"

namespace slipway::passes {

absl::Span<const DecomposeRow> GammaDecompositions();       // decompose_special.cc: gamma, zeta and error functions
absl::Span<const DecomposeRow> BesselDecompositions();      // decompose_bessel.cc: Bessel and Airy functions
absl::Span<const DecomposeRow> PolynomialDecompositions();  // decompose_polynomial.cc: orthogonal polynomials
absl::Span<const DecomposeRow> NumberDecompositions();      // decompose_number.cc: divisors, parts and bits of numbers

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_DECOMPOSITIONS_SPECIAL_SPECIAL_H_
