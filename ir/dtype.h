// Element types: every dtype a PT2 archive, a safetensors file or a quantized program can hold, with one table of
// their names and sizes. Sub-byte types have a size in bits; packing is little end first within a byte (ONNX order).
#ifndef SLIPWAY_IR_DTYPE_H_
#define SLIPWAY_IR_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace slipway::ir {

// clang-format off
enum class DType : uint8_t {
  kUnknown = 0,
  kUInt8, kInt8, kInt16, kInt32, kInt64,
  kFloat16, kFloat32, kFloat64,
  kComplex32, kComplex64, kComplex128,
  kBool, kBFloat16,
  kUInt16, kUInt32, kUInt64,
  kFloat8E4M3FN, kFloat8E5M2, kFloat8E4M3FNUZ, kFloat8E5M2FNUZ, kFloat8E8M0FNU,
  kInt4, kUInt4, kInt2, kUInt2, kFloat4E2M1, kFloat6E2M3, kFloat6E3M2,
  kCount,
};
// clang-format on

// Kinds in torch's promotion order: bool < integral < floating < complex.
enum class DTypeClass : uint8_t { kUnknown, kBool, kIntegral, kFloating, kComplex };

struct DTypeInfo {
  std::string_view name;         // text form: "f32"
  std::string_view torch_name;   // "float32"; empty where torch has none
  std::string_view safetensors;  // "F32"; empty where the format has none
  int bits;                      // size of one element
  DTypeClass cls;
  bool is_signed;
  int pt2_number;  // ScalarType of the PT2 schema; 0 where it has none
};

const DTypeInfo& Info(DType t);
inline std::string_view Name(DType t) { return Info(t).name; }
inline int64_t BitSize(DType t) { return Info(t).bits; }
// Bytes of one element; 0 for sub-byte types.
inline int64_t ByteSize(DType t) { return Info(t).bits % 8 ? 0 : Info(t).bits / 8; }
inline bool IsFloating(DType t) { return Info(t).cls == DTypeClass::kFloating; }
inline bool IsComplex(DType t) { return Info(t).cls == DTypeClass::kComplex; }
inline bool IsIntegral(DType t) { return Info(t).cls == DTypeClass::kIntegral; }  // bool is not integral
inline bool IsBool(DType t) { return t == DType::kBool; }
inline bool IsLowPrecision(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }

std::optional<DType> DTypeFromName(std::string_view name);         // "f32"
std::optional<DType> DTypeFromTorchName(std::string_view name);    // "float32"
std::optional<DType> DTypeFromSafetensors(std::string_view name);  // "F32"
std::optional<DType> DTypeFromPt2(int64_t number);

// torch.promote_types: the smallest dtype both convert to (c10/core/ScalarType.cpp). kUnknown if torch has none
// (float8 with anything else).
DType PromoteTypes(DType a, DType b);
// torch.result_type's category rule is applied by the caller: see ops/infer.h.
DType ToComplex(DType t);  // f32 -> c64; complex stays
DType ToReal(DType t);     // c64 -> f32; others stay

}  // namespace slipway::ir

#endif  // SLIPWAY_IR_DTYPE_H_
