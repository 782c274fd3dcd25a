// Packed elements are read from the low bits of a byte up.
#include "importers/onnx/narrow_types.h"

#include <memory>
#include <string>
#include <utility>

#include "base/floats.h"
#include "base/status_macros.h"

namespace slipway::importers::onnx_in {

using ir::DType;

DType ProgramType(DType onnx) {
  switch (onnx) {
    case DType::kInt4:
    case DType::kInt2: return DType::kInt8;
    case DType::kUInt4:
    case DType::kUInt2: return DType::kUInt8;
    case DType::kFloat4E2M1: return DType::kFloat8E4M3FN;
    default: return onnx;
  }
}

absl::StatusOr<ir::TensorRef> ProgramTensor(ir::TensorRef t) {
  const DType wide = ProgramType(t.dtype);
  if (wide == t.dtype) return t;
  ASSIGN_OR_RETURN(const std::string packed, ir::ReadDense(t, UINT64_MAX));
  const int bits = static_cast<int>(ir::BitSize(t.dtype)), each = 8 / bits, codes = 1 << bits;
  std::string byte_of(static_cast<size_t>(codes), '\0');  // by code
  for (int code = 0; code < codes; ++code) {
    const bool negative = ir::Info(t.dtype).is_signed && code >= codes / 2;
    byte_of[static_cast<size_t>(code)] =
        static_cast<char>(ir::IsFloating(wide) ? F8<kE4M3FN>(Decode(kE2M1, static_cast<unsigned>(code))).bits
                          : negative           ? code - codes
                                               : code);
  }
  std::string bytes(static_cast<size_t>(t.numel()), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(packed[i / static_cast<size_t>(each)]);
    bytes[i] = byte_of[static_cast<size_t>(byte >> bits * static_cast<int>(i % static_cast<size_t>(each))) &
                       static_cast<size_t>(codes - 1)];
  }
  ir::TensorRef out = ir::OwnedTensor(wide, std::move(t.sizes), std::move(bytes));
  if (ir::IsFloating(wide)) return out;
  auto storage = std::make_shared<ir::Storage>(*out.storage);
  const bool is_signed = ir::Info(wide).is_signed;
  storage->bounds = {is_signed ? -codes / 2 : 0, is_signed ? codes / 2 - 1 : codes - 1};
  out.storage = std::move(storage);
  return out;
}

}  // namespace slipway::importers::onnx_in
