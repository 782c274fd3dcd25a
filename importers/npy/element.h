// NumPy's element types, as .npy files and pickled arrays write them: "<f4", "|b1", ">i8".
#ifndef SLIPWAY_IMPORTERS_NPY_ELEMENT_H_
#define SLIPWAY_IMPORTERS_NPY_ELEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/dtype.h"

namespace slipway::importers {

struct NumpyElement {
  ir::DType dtype = ir::DType::kUnknown;
  bool big_endian = false;  // never set for elements of one byte
};

// The element type of a type string: a byte order ('<', '>', '=', '|') or none, a kind and a size in bytes. No value
// for types
// that torch has not: objects, texts, dates, records, long doubles, raw bytes.
std::optional<NumpyElement> ParseNumpyElement(std::string_view type);

// Reverses the bytes of each number of `dtype`; of complex elements, of both parts.
void SwapBytes(ir::DType dtype, std::string* bytes);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_NPY_ELEMENT_H_
