// Lookups in the table of base/dtypes.h, and torch's type promotion.
#include "ir/dtype.h"

#include <array>
#include <iterator>
#include <utility>

#include "base/dtypes.h"

namespace slipway::ir {
namespace {

// Indexed by DType.
constexpr auto kInfos = [] {
  std::array<DTypeInfo, std::size(kElementTypes)> infos{};
  for (size_t i = 0; i < infos.size(); ++i) {
    const ElementType& t = kElementTypes[i];
    infos[i] = {t.name, t.torch_name, t.safetensors, t.bits, static_cast<DTypeClass>(t.kind), t.is_signed, t.pt2};
  }
  return infos;
}();
static_assert(kInfos.size() == static_cast<size_t>(DType::kCount));
static_assert(static_cast<int>(DTypeClass::kComplex) == static_cast<int>(ElementKind::kComplex));

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
    case DType::kComplex32:
    case DType::kComplex64:
    case DType::kComplex128: return t;
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
  if (ca > cb) {
    std::swap(a, b);
    std::swap(ca, cb);
  }  // b has the higher or equal class
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
