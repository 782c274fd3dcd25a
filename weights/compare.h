// How far the elements of two tensors of one type are from each other: what `slipway diff` and `slipway verify` count
// by.
#ifndef SLIPWAY_WEIGHTS_COMPARE_H_
#define SLIPWAY_WEIGHTS_COMPARE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/tensor.h"

namespace slipway::weights {

// Elements a and b are equal where |a - b| <= atol + rtol * |a|, as torch.testing.assert_close has it of an expected a.
struct Tolerance {
  double rtol = 0, atol = 0;
};

struct Difference {
  int64_t elements = 0;             // that were compared
  int64_t unequal = 0;              // of those, beyond the tolerance
  int64_t one_nan = 0;              // of the unequal ones: exactly one is NaN
  int64_t first = -1;               // the first unequal one, row-major
  double first_a = 0, first_b = 0;  // what it is in both; the real parts of complex ones
  // The largest differences of elements that are NaN in neither: as numbers, in parts of |a| (infinity where a is 0),
  // and in representable numbers of the type between both, where the type counts them (has_ulp).
  double max_abs = 0, max_rel = 0;
  bool has_ulp = false;
  uint64_t max_ulp = 0;
};

// Compares runs of elements that follow each other. Floating-point and complex elements are compared as f64 numbers:
// NaN equals NaN, 0 equals -0, an infinity equals only itself. All others are integers, for which the tolerance counts
// as well; those of less than a byte, the first in the lowest bits, are compared as codes.
class Comparison {
 public:
  Comparison(ir::DType dtype, Tolerance tolerance);
  // `elements` of both; types below a byte come in runs of whole bytes but for the last.
  void Add(const uint8_t* a, const uint8_t* b, int64_t elements);
  const Difference& result() const { return d_; }

 private:
  ir::DType dtype_;
  Tolerance tolerance_;
  std::vector<double> small_;  // the values of all codes of a type of at most 8 bits
  Difference d_;

  template <typename T, typename Of>
  void Reals(const uint8_t* a, const uint8_t* b, int64_t elements, Of of);
  template <typename T>
  void Complexes(const uint8_t* a, const uint8_t* b, int64_t elements);
  template <typename T>
  void Integers(const uint8_t* a, const uint8_t* b, int64_t elements);
  void Codes(const uint8_t* a, const uint8_t* b, int64_t elements);
  void Real(int64_t at, double a, double b, uint64_t ulp);
  void Apart(int64_t at, double distance, double size, double a, double b);
};

// Of two tensors of the same type and sizes, which are held in memory. Errors as of ir::ReadDense().
absl::StatusOr<Difference> Compare(const ir::TensorRef& a, const ir::TensorRef& b, Tolerance tolerance);

// The elements as f64. Unimplemented for complex types and those of less than a byte.
absl::StatusOr<std::vector<double>> ToDoubles(const ir::TensorRef& t);

// The values of all codes of a floating-point type of at most 8 bits; empty for others.
std::vector<double> ValuesOfCodes(ir::DType dtype);

// The root of the mean square of the finite ones; 0 for none.
double RootMeanSquare(absl::Span<const double> values);

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_COMPARE_H_
