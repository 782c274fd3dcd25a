// What pickles may name: torch's element types, and the table of the names that the machine knows, each with what a
// call of it makes.
#ifndef SLIPWAY_IMPORTERS_CHECKPOINT_ALLOWED_NAMES_H_
#define SLIPWAY_IMPORTERS_CHECKPOINT_ALLOWED_NAMES_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/dtypes.h"

namespace slipway::importers {

// Torch's element types. `storage_class` is the class that storages of the type are saved as; newer types have none and
// are saved as untyped bytes. Types below a byte occur only as values, never as a tensor's type.
struct TorchDtype {
  std::string_view name;
  int64_t item_size = 0;
  std::string_view storage_class;
};
inline constexpr std::string_view kBelowAByte[] = {"uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7",
                                                   "int1",  "int2",  "int3",  "int4",  "int5",  "int6",  "int7"};
// The types of torch's own quantized tensors, which are named and never read.
inline constexpr TorchDtype kQuantized[] = {{"qint8", 1, "QInt8Storage"},
                                            {"quint8", 1, "QUInt8Storage"},
                                            {"qint32", 4, "QInt32Storage"},
                                            {"quint4x2", 1, "QUInt4x2Storage"},
                                            {"quint2x4", 1, "QUInt2x4Storage"}};
inline constexpr size_t kNamed = std::count_if(std::begin(kElementTypes), std::end(kElementTypes),
                                               [](const ElementType& t) { return !t.torch_name.empty(); });
inline constexpr auto kTorchDtypes = [] {
  std::array<TorchDtype, kNamed + std::size(kBelowAByte) + std::size(kQuantized)> dtypes;
  auto at = dtypes.begin();
  for (const ElementType& t : kElementTypes)
    if (!t.torch_name.empty()) *at++ = {t.torch_name, (t.bits + 7) / 8, t.storage_class};
  for (std::string_view name : kBelowAByte) (at++)->name = name;
  for (const TorchDtype& t : kQuantized) *at++ = t;
  return dtypes;
}();
inline constexpr std::string_view kUntypedDtype = "uint8";

// What an allowed name makes when called (or that it is never called).
enum class Makes : uint8_t {
  kNothing,  // a class that is only mentioned
  kStorageClass,
  kTensor,
  kTensorV2,
  kTensorV3,
  kParameter,
  kParameterWithState,
  kParameterClass,
  kFromType,
  kSize,
  kDevice,
  kLayout,
  kDict,
  kDefaultDict,
  kSet,
  kByteArray,
  kBytes,
  kComplex,
  kEncoded,
  kWrapperSubclass,  // torch's way to rebuild a tensor subclass from its attributes
  kInert,            // a name the caller lets pass: a call makes a record of it and nothing else
  kGetattr,          // how protocol 2 writes the name of a class within a class
  kFromDevice,       // a tensor that was copied to the CPU to be saved
  kFromBuffer,       // NumPy's arrays in protocol 5
  kUnreadable,       // a tensor without a plain form
};
struct AllowedName {
  std::string_view module;
  std::string_view name;
  Makes makes;
  bool records = false;        // known only with UnpickleOptions::records
  std::string_view what = {};  // of kUnreadable: what it rebuilds
};
// Names in "__builtin__" stand for those in "builtins" (protocol 2 writes the former). Storage classes in "torch" and
// dtypes come from kTorchDtypes.
inline constexpr AllowedName kAllowedNames[] = {
    {"torch._utils", "_rebuild_tensor", Makes::kTensor},
    {"torch._utils", "_rebuild_tensor_v2", Makes::kTensorV2},
    {"torch._utils", "_rebuild_tensor_v3", Makes::kTensorV3},
    {"torch._utils", "_rebuild_parameter", Makes::kParameter},
    {"torch._utils", "_rebuild_parameter_with_state", Makes::kParameterWithState},
    {"torch._tensor", "_rebuild_from_type_v2", Makes::kFromType},
    {"torch._utils", "_rebuild_wrapper_subclass", Makes::kWrapperSubclass},
    {"torch.nn.parameter", "Parameter", Makes::kParameterClass},
    {"torch", "Tensor", Makes::kNothing},
    {"torch", "UntypedStorage", Makes::kStorageClass},
    {"torch.storage", "UntypedStorage", Makes::kStorageClass},
    {"torch.storage", "TypedStorage", Makes::kNothing},
    {"torch", "Size", Makes::kSize},
    {"torch", "device", Makes::kDevice},
    {"torch.serialization", "_get_layout", Makes::kLayout},
    {"collections", "OrderedDict", Makes::kDict},
    {"collections", "Counter", Makes::kDict},
    {"collections", "defaultdict", Makes::kDefaultDict},
    {"builtins", "set", Makes::kSet},
    {"builtins", "frozenset", Makes::kSet},
    {"builtins", "bytearray", Makes::kByteArray},
    {"builtins", "bytes", Makes::kBytes},
    {"builtins", "complex", Makes::kComplex},
    {"builtins", "dict", Makes::kDict},
    {"builtins", "list", Makes::kNothing},
    {"builtins", "int", Makes::kNothing},
    {"builtins", "float", Makes::kNothing},
    {"_codecs", "encode", Makes::kEncoded},
    {"builtins", "getattr", Makes::kGetattr, true},
    {"numpy.core.numeric", "_frombuffer", Makes::kFromBuffer, true},
    {"numpy._core.numeric", "_frombuffer", Makes::kFromBuffer, true},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", Makes::kFromDevice, true},
    {"torch._utils", "_rebuild_device_tensor_from_numpy", Makes::kFromDevice, true},
    {"torch._utils", "_rebuild_sparse_tensor", Makes::kUnreadable, true, "a sparse tensor"},
    {"torch._utils", "_rebuild_sparse_csr_tensor", Makes::kUnreadable, true, "a sparse tensor"},
    {"torch._utils", "_rebuild_qtensor", Makes::kUnreadable, true, "a tensor of torch's own quantized types"},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", Makes::kUnreadable, true,
     "a tensor of the device meta, which has no values"},
    {"torch._utils", "_rebuild_nested_tensor", Makes::kUnreadable, true, "a nested tensor"},
    {"torch.nested._internal.nested_tensor", "_rebuild_njt", Makes::kUnreadable, true, "a nested tensor"},
};
inline constexpr uint8_t kTypedStorageRow = std::size(kAllowedNames);  // a storage class of kTorchDtypes
inline constexpr uint8_t kInertRow = kTypedStorageRow + 1;             // a name under UnpickleOptions::inert_prefixes

// Null for another name.
inline const TorchDtype* FindTorchDtype(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTorchDtypes), std::end(kTorchDtypes),
                                   [&](const TorchDtype& d) { return d.name == name; });
  return found == std::end(kTorchDtypes) ? nullptr : found;
}

inline Makes MakesOf(uint8_t row) {
  return row == kTypedStorageRow ? Makes::kStorageClass : row == kInertRow ? Makes::kInert : kAllowedNames[row].makes;
}

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_CHECKPOINT_ALLOWED_NAMES_H_
