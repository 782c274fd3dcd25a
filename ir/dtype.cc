// The dtype table and torch's type promotion.
#include "ir/dtype.h"

namespace slipway::ir {
namespace {

constexpr DTypeClass kB = DTypeClass::kBool, kI = DTypeClass::kIntegral, kF = DTypeClass::kFloating,
                     kC = DTypeClass::kComplex;

// Indexed by DType.
constexpr DTypeInfo kInfos[] = {
    {"unknown", "", "", 0, DTypeClass::kUnknown, false, 0},
    {"u8", "uint8", "U8", 8, kI, false, 1},
    {"i8", "int8", "I8", 8, kI, true, 2},
    {"i16", "int16", "I16", 16, kI, true, 3},
    {"i32", "int32", "I32", 32, kI, true, 4},
    {"i64", "int64", "I64", 64, kI, true, 5},
    {"f16", "float16", "F16", 16, kF, true, 6},
    {"f32", "float32", "F32", 32, kF, true, 7},
    {"f64", "float64", "F64", 64, kF, true, 8},
    {"c32", "complex32", "", 32, kC, true, 9},
    {"c64", "complex64", "C64", 64, kC, true, 10},
    {"c128", "complex128", "", 128, kC, true, 11},
    {"bool", "bool", "BOOL", 8, kB, false, 12},
    {"bf16", "bfloat16", "BF16", 16, kF, true, 13},
    {"u16", "uint16", "U16", 16, kI, false, 28},
    {"u32", "uint32", "U32", 32, kI, false, 34},
    {"u64", "uint64", "U64", 64, kI, false, 35},
    {"f8e4m3fn", "float8_e4m3fn", "F8_E4M3", 8, kF, true, 29},
    {"f8e5m2", "float8_e5m2", "F8_E5M2", 8, kF, true, 30},
    {"f8e4m3fnuz", "float8_e4m3fnuz", "F8_E4M3FNUZ", 8, kF, true, 31},
    {"f8e5m2fnuz", "float8_e5m2fnuz", "F8_E5M2FNUZ", 8, kF, true, 32},
    {"f8e8m0fnu", "float8_e8m0fnu", "F8_E8M0", 8, kF, false, 33},
    {"i4", "", "", 4, kI, true, 0},
    {"u4", "", "", 4, kI, false, 0},
    {"i2", "", "", 2, kI, true, 0},
    {"u2", "", "", 2, kI, false, 0},
    {"f4e2m1", "float4_e2m1fn_x2", "F4", 4, kF, true, 0},
    {"f6e2m3", "", "F6_E2M3", 6, kF, true, 0},
    {"f6e3m2", "", "F6_E3M2", 6, kF, true, 0},
};
static_assert(sizeof(kInfos) / sizeof(kInfos[0]) == static_cast<size_t>(DType::kCount));

template <typename Pred>
std::optional<DType> FindBy(Pred pred) {
  for (int i = 1; i < static_cast<int>(DType::kCount); ++i)
    if (pred(kInfos[i])) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace

const DTypeInfo& Info(DType t) { return kInfos[static_cast<int>(t)]; }

std::optional<DType> DTypeFromName(std::string_view name) {
  return FindBy([&](const DTypeInfo& i) { return i.name == name; });
}
std::optional<DType> DTypeFromTorchName(std::string_view name) {
  if (name.empty()) return std::nullopt;
  return FindBy([&](const DTypeInfo& i) { return i.torch_name == name; });
}
std::optional<DType> DTypeFromSafetensors(std::string_view name) {
  if (name.empty()) return std::nullopt;
  return FindBy([&](const DTypeInfo& i) { return i.safetensors == name; });
}
std::optional<DType> DTypeFromPt2(int64_t number) {
  if (number <= 0) return std::nullopt;
  return FindBy([&](const DTypeInfo& i) { return i.pt2_number == number; });
}

DType ToComplex(DType t) {
  switch (t) {
    case DType::kComplex32: case DType::kComplex64: case DType::kComplex128: return t;
    case DType::kFloat64: return DType::kComplex128;
    case DType::kFloat16: return DType::kComplex32;
    default: return DType::kComplex64;
  }
}

DType ToReal(DType t) {
  switch (t) {
    case DType::kComplex32: return DType::kFloat16;
    case DType::kComplex64: return DType::kFloat32;
    case DType::kComplex128: return DType::kFloat64;
    default: return t;
  }
}

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  DTypeClass ca = Info(a).cls, cb = Info(b).cls;
  if (ca == DTypeClass::kUnknown || cb == DTypeClass::kUnknown) return DType::kUnknown;
  if (ca > cb) { std::swap(a, b); std::swap(ca, cb); }  // b has the higher or equal class
  auto narrow_float = [](DType t) { return IsFloating(t) && BitSize(t) < 16; };
  if (narrow_float(a) || narrow_float(b)) {
    // torch promotes no two different types when one is a float8; bool and integers do promote to it.
    return narrow_float(b) && ca < DTypeClass::kFloating ? b : DType::kUnknown;
  }
  if (ca != cb) {
    if (cb == DTypeClass::kComplex && ca == DTypeClass::kFloating) {
      DType c = ToComplex(a);
      if (a == DType::kBFloat16) c = DType::kComplex64;
      return BitSize(c) > BitSize(b) ? c : b;
    }
    return b;
  }
  switch (ca) {
    case DTypeClass::kFloating:
      if (BitSize(a) == BitSize(b)) return DType::kFloat32;  // f16 with bf16
      return BitSize(a) > BitSize(b) ? a : b;
    case DTypeClass::kComplex: return BitSize(a) > BitSize(b) ? a : b;
    case DTypeClass::kIntegral: {
      bool sa = Info(a).is_signed, sb = Info(b).is_signed;
      if (sa == sb) return BitSize(a) > BitSize(b) ? a : b;
      DType s = sa ? a : b, u = sa ? b : a;
      if (BitSize(s) > BitSize(u)) return s;
      if (u == DType::kUInt8) return DType::kInt16;
      return DType::kUnknown;  // torch refuses uint16/32/64 with a narrower or equal signed type
    }
    default: return DType::kUnknown;
  }
}

}  // namespace slipway::ir
