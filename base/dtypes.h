// The table of element types: what each is called and numbered by PyTorch, safetensors, DLPack, ONNX and the kernels.
// The rooms' own lookups (ir/dtype.h, kernels/tensor.h, kernels/dtype_codes.h, importers/dlpack,
// exporters/onnx/types.h, …) read this one; adding a type is adding a row. Rows are in the order of ir::DType.
#ifndef SLIPWAY_BASE_DTYPES_H_
#define SLIPWAY_BASE_DTYPES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace slipway {

// In torch's promotion order.
enum class ElementKind : uint8_t { kUnknown, kBool, kIntegral, kFloating, kComplex };

struct ElementType {
  std::string_view name;           // of the text form
  std::string_view torch_name;     // empty where torch has none
  std::string_view storage_class;  // that checkpoints save typed storages as; newer types have none
  std::string_view safetensors;    // empty where the format has none
  int bits;
  ElementKind kind;
  bool is_signed;
  int pt2;     // ScalarType of the PT2 schema, 0: none
  int c10;     // c10::ScalarType, -1: none
  int dlpack;  // DLDataTypeCode, -1: none
  std::string_view dlpack_name;
  int onnx;    // TensorProto.DataType, 0: none
  int kernel;  // kernels::DType, which plan files hold, -1: none
};

inline constexpr ElementType kElementTypes[] = {
    {"unknown", "", "", "", 0, ElementKind::kUnknown, false, 0, -1, -1, "", 0, -1},
    {"u8", "uint8", "ByteStorage", "U8", 8, ElementKind::kIntegral, false, 1, 0, 1, "kDLUInt", 2, 1},
    {"i8", "int8", "CharStorage", "I8", 8, ElementKind::kIntegral, true, 2, 1, 0, "kDLInt", 3, 2},
    {"i16", "int16", "ShortStorage", "I16", 16, ElementKind::kIntegral, true, 3, 2, 0, "kDLInt", 5, 3},
    {"i32", "int32", "IntStorage", "I32", 32, ElementKind::kIntegral, true, 4, 3, 0, "kDLInt", 6, 4},
    {"i64", "int64", "LongStorage", "I64", 64, ElementKind::kIntegral, true, 5, 4, 0, "kDLInt", 7, 5},
    {"f16", "float16", "HalfStorage", "F16", 16, ElementKind::kFloating, true, 6, 5, 2, "kDLFloat", 10, 6},
    {"f32", "float32", "FloatStorage", "F32", 32, ElementKind::kFloating, true, 7, 6, 2, "kDLFloat", 1, 8},
    {"f64", "float64", "DoubleStorage", "F64", 64, ElementKind::kFloating, true, 8, 7, 2, "kDLFloat", 11, 9},
    {"c32", "complex32", "", "", 32, ElementKind::kComplex, true, 9, 8, 5, "kDLComplex", 0, -1},
    {"c64", "complex64", "ComplexFloatStorage", "C64", 64, ElementKind::kComplex, true, 10, 9, 5, "kDLComplex", 14, -1},
    {"c128", "complex128", "ComplexDoubleStorage", "", 128, ElementKind::kComplex, true, 11, 10, 5, "kDLComplex", 15,
     -1},
    {"bool", "bool", "BoolStorage", "BOOL", 8, ElementKind::kBool, false, 12, 11, 6, "kDLBool", 9, 0},
    {"bf16", "bfloat16", "BFloat16Storage", "BF16", 16, ElementKind::kFloating, true, 13, 15, 4, "kDLBfloat", 16, 7},
    {"u16", "uint16", "", "U16", 16, ElementKind::kIntegral, false, 28, 27, 1, "kDLUInt", 4, 10},
    {"u32", "uint32", "", "U32", 32, ElementKind::kIntegral, false, 34, 28, 1, "kDLUInt", 12, 11},
    {"u64", "uint64", "", "U64", 64, ElementKind::kIntegral, false, 35, 29, 1, "kDLUInt", 13, 16},
    {"f8e4m3fn", "float8_e4m3fn", "", "F8_E4M3", 8, ElementKind::kFloating, true, 29, 24, 10, "kDLFloat8_e4m3fn", 17,
     12},
    {"f8e5m2", "float8_e5m2", "", "F8_E5M2", 8, ElementKind::kFloating, true, 30, 23, 12, "kDLFloat8_e5m2", 19, 13},
    {"f8e4m3fnuz", "float8_e4m3fnuz", "", "F8_E4M3FNUZ", 8, ElementKind::kFloating, true, 31, 26, 11,
     "kDLFloat8_e4m3fnuz", 18, 14},
    {"f8e5m2fnuz", "float8_e5m2fnuz", "", "F8_E5M2FNUZ", 8, ElementKind::kFloating, true, 32, 25, 13,
     "kDLFloat8_e5m2fnuz", 20, 15},
    {"f8e8m0fnu", "float8_e8m0fnu", "", "F8_E8M0", 8, ElementKind::kFloating, false, 33, 44, 14, "kDLFloat8_e8m0fnu",
     24, 17},
    {"i4", "", "", "", 4, ElementKind::kIntegral, true, 0, -1, 0, "kDLInt", 22, -1},
    {"u4", "", "", "", 4, ElementKind::kIntegral, false, 0, -1, 1, "kDLUInt", 21, -1},
    {"i2", "", "", "", 2, ElementKind::kIntegral, true, 0, -1, 0, "kDLInt", 26, -1},
    {"u2", "", "", "", 2, ElementKind::kIntegral, false, 0, -1, 1, "kDLUInt", 25, -1},
    {"f4e2m1", "float4_e2m1fn_x2", "", "F4", 4, ElementKind::kFloating, true, 0, 45, 17, "kDLFloat4_e2m1fn", 23, -1},
    {"f6e2m3", "", "", "F6_E2M3", 6, ElementKind::kFloating, true, 0, -1, 15, "kDLFloat6_e2m3fn", 27, -1},
    {"f6e3m2", "", "", "F6_E3M2", 6, ElementKind::kFloating, true, 0, -1, 16, "kDLFloat6_e3m2fn", 28, -1},
};

// The row of which `member` is `value`, as a number of ir::DType; 0 where there is none.
template <typename T>
constexpr size_t FindElementType(T ElementType::*member, T value) {
  for (size_t i = 1; i < sizeof(kElementTypes) / sizeof(kElementTypes[0]); ++i)
    if (kElementTypes[i].*member == value) return i;
  return 0;
}

}  // namespace slipway

#endif  // SLIPWAY_BASE_DTYPES_H_
