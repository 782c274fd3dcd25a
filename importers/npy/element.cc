// A kind and a size name at most one element type, so the table of types is searched by what both say.
#include "importers/npy/element.h"

#include <algorithm>

#include "base/text.h"

namespace slipway::importers {

std::optional<NumpyElement> ParseNumpyElement(std::string_view type) {
  NumpyElement element;
  if (!type.empty() && std::string_view("<>=|").find(type[0]) != std::string_view::npos) {
    element.big_endian = type[0] == '>';
    type.remove_prefix(1);
  }
  int bytes = 0;
  if (type.size() < 2 || !text::ParseNumber(type.substr(1), &bytes) || bytes <= 0 || bytes > 16) return std::nullopt;
  static constexpr struct {
    char kind;
    ir::DTypeClass cls;
    bool is_signed;
  } kKinds[] = {{'b', ir::DTypeClass::kBool, false},
                {'i', ir::DTypeClass::kIntegral, true},
                {'u', ir::DTypeClass::kIntegral, false},
                {'f', ir::DTypeClass::kFloating, true},
                {'c', ir::DTypeClass::kComplex, true}};
  for (const auto& k : kKinds) {
    if (k.kind != type[0]) continue;
    for (int i = 1; i < static_cast<int>(ir::DType::kCount); ++i) {
      const auto dtype = static_cast<ir::DType>(i);
      const ir::DTypeInfo& info = ir::Info(dtype);
      // NumPy has IEEE's floats alone: of two bytes float16, not bfloat16, and none of one byte; complex ones from 8
      // bytes.
      if (info.cls != k.cls || (k.cls != ir::DTypeClass::kBool && info.is_signed != k.is_signed) ||
          info.bits != 8 * bytes)
        continue;
      if (dtype == ir::DType::kBFloat16 || dtype == ir::DType::kComplex32 || (k.kind == 'f' && bytes == 1)) continue;
      element.dtype = dtype;
      element.big_endian = element.big_endian && bytes > 1;
      return element;
    }
  }
  return std::nullopt;
}

void SwapBytes(ir::DType dtype, std::string* bytes) {
  const size_t width = static_cast<size_t>(ir::ByteSize(dtype)) / (ir::IsComplex(dtype) ? 2 : 1);
  if (width == 0) return;
  for (size_t at = 0; at + width <= bytes->size(); at += width)
    std::reverse(bytes->begin() + at, bytes->begin() + at + width);
}

}  // namespace slipway::importers
