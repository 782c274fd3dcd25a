// The pickle machine: a stack, a memo, a table of allowed names and what each of them makes.
#include "importers/checkpoint/unpickler.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/dtypes.h"
#include "importers/checkpoint/pickle_names.h"
#include "importers/npy/element.h"

namespace slipway::importers {
namespace {

// Torch's element types. `storage_class` is the class that storages of the type are saved as; newer types have none and
// are saved as untyped bytes. Types below a byte occur only as values, never as a tensor's type.
struct TorchDtype {
  std::string_view name;
  int64_t item_size = 0;
  std::string_view storage_class;
};
constexpr std::string_view kBelowAByte[] = {"uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7",
                                            "int1",  "int2",  "int3",  "int4",  "int5",  "int6",  "int7"};
// The types of torch's own quantized tensors, which are named and never read.
constexpr TorchDtype kQuantized[] = {{"qint8", 1, "QInt8Storage"},
                                     {"quint8", 1, "QUInt8Storage"},
                                     {"qint32", 4, "QInt32Storage"},
                                     {"quint4x2", 1, "QUInt4x2Storage"},
                                     {"quint2x4", 1, "QUInt2x4Storage"}};
constexpr size_t kNamed = std::count_if(std::begin(kElementTypes), std::end(kElementTypes),
                                        [](const ElementType& t) { return !t.torch_name.empty(); });
constexpr auto kDtypes = [] {
  std::array<TorchDtype, kNamed + std::size(kBelowAByte) + std::size(kQuantized)> dtypes;
  auto at = dtypes.begin();
  for (const ElementType& t : kElementTypes)
    if (!t.torch_name.empty()) *at++ = {t.torch_name, (t.bits + 7) / 8, t.storage_class};
  for (std::string_view name : kBelowAByte) (at++)->name = name;
  for (const TorchDtype& t : kQuantized) *at++ = t;
  return dtypes;
}();
constexpr std::string_view kUntyped = "uint8";

const TorchDtype* FindDtype(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const TorchDtype& d) { return d.name == name; });
  return found == std::end(kDtypes) ? nullptr : found;
}

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
// dtypes come from kDtypes.
constexpr AllowedName kAllowed[] = {
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
constexpr uint8_t kTypedStorageRow = std::size(kAllowed);  // a storage class of kDtypes
constexpr uint8_t kInertRow = kTypedStorageRow + 1;        // a name under UnpickleOptions::inert_prefixes

Makes MakesOf(uint8_t row) {
  return row == kTypedStorageRow ? Makes::kStorageClass : row == kInertRow ? Makes::kInert : kAllowed[row].makes;
}

// Items or characters that may be copied, for each byte of the pickle and in any case.
constexpr uint64_t kWorkPerByte = 4, kFreeWork = 1 << 16;
constexpr int kMaxRank = 64;
constexpr int kMaxNestedCalls = 4;
constexpr uint64_t kOnPath = std::numeric_limits<uint64_t>::max();

std::string Text(std::string_view text) {
  constexpr size_t kLongest = 120;
  return absl::CHexEscape(absl::string_view(text.data(), std::min(text.size(), kLongest)));
}

// " (NAME)" of the opcodes that call by name or refer outside the pickle, which are never carried out.
std::string_view OpcodeName(uint8_t op) {
  switch (op) {
    case 'i': return " (INST)";
    case 'o': return " (OBJ)";
    case 'P': return " (PERSID)";
    case 0x82: return " (EXT1)";
    case 0x83: return " (EXT2)";
    case 0x84: return " (EXT4)";
    case 0x92: return " (NEWOBJ_EX)";
    case 0x97: return " (NEXT_BUFFER)";
    case 0x98: return " (READONLY_BUFFER)";
    default: return "";
  }
}

uint64_t LittleEndian(absl::Span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

std::string_view AsText(absl::Span<const uint8_t> bytes) {
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

bool IsContainer(PickleKind kind) {
  return kind == PickleKind::kList || kind == PickleKind::kTuple || kind == PickleKind::kSet ||
         kind == PickleKind::kDict || kind == PickleKind::kObject || kind == PickleKind::kSubclass;
}

// `dtype`'s view of `tensor->storage` by offset, sizes and strides: true where every element lies inside.
bool LiesInside(const PickleTensor& tensor) {
  const int64_t available = static_cast<int64_t>(
      std::min<uint64_t>(tensor.storage.bytes / tensor.item_size, std::numeric_limits<int64_t>::max()));
  int64_t bytes = tensor.item_size, last = tensor.offset;
  if (last < 0) return false;
  const bool empty = std::find(tensor.sizes.begin(), tensor.sizes.end(), 0) != tensor.sizes.end();
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    int64_t span;
    if (tensor.sizes[i] < 0 || tensor.strides[i] < 0) return false;
    if (empty) continue;
    if (__builtin_mul_overflow(bytes, tensor.sizes[i], &bytes) ||
        __builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &span) ||
        __builtin_add_overflow(last, span, &last)) {
      return false;
    }
  }
  return empty ? last <= available : last < available;
}

}  // namespace

int64_t TorchItemSize(std::string_view dtype) {
  const TorchDtype* found = FindDtype(dtype);
  return found == nullptr ? 0 : found->item_size;
}

const PickleValue* PickleValue::Find(std::string_view key_text) const {
  for (size_t i = 0; i < pairs(); ++i) {
    if (key(i).is(PickleKind::kString) && key(i).text() == key_text) return &value(i);
  }
  return nullptr;
}

// The errors below leave through `status_`: the first one stays, and Run() stops at the next opcode. Helpers that
// fail return nullptr or an empty span.
class UnpickleMachine {
 public:
  UnpickleMachine(absl::Span<const uint8_t> data, const UnpickleOptions& options) : data_(data), options_(options) {}

  absl::StatusOr<Unpickled> Run() {
    none_ = New(PickleKind::kNone);
    true_ = New(PickleKind::kBool);
    true_->integer_ = 1;
    false_ = New(PickleKind::kBool);
    bool stopped = false;
    while (status_.ok() && !stopped) {
      op_at_ = at_;
      const absl::Span<const uint8_t> op = Take(1);
      if (op.empty()) break;
      stopped = Step(op[0]);
    }
    if (!status_.ok()) return status_;
    result_.consumed_ = at_;
    if (!CheckTree(result_.root_)) return status_;
    return std::move(result_);
  }

 private:
  void Fail(absl::StatusCode code, const std::string& message) {
    if (status_.ok()) status_ = absl::Status(code, absl::StrCat("pickle byte ", op_at_, ": ", message));
  }
  void Malformed(const std::string& message) { Fail(absl::StatusCode::kInvalidArgument, message); }

  // Counts work that a few bytes can ask for again and again (copying a container or text out of the memo).
  bool Spend(uint64_t amount) {
    spent_ += amount;
    if (spent_ <= kWorkPerByte * data_.size() + kFreeWork) return true;
    Fail(absl::StatusCode::kOutOfRange, "the pickle copies its own values beyond all use");
    return false;
  }

  // ----- bytes

  absl::Span<const uint8_t> Take(uint64_t size) {
    if (size > data_.size() - at_) {
      Malformed(absl::StrCat("the pickle ends too early: ", size, " bytes wanted, ", data_.size() - at_, " left"));
      return {};
    }
    const absl::Span<const uint8_t> taken = data_.subspan(at_, size);
    at_ += size;
    return taken;
  }
  uint64_t TakeInt(int width) { return LittleEndian(Take(width)); }
  // A text of the length that the next `width` bytes state.
  std::string_view TakeText(int width) { return AsText(Take(TakeInt(width))); }
  std::string_view TakeLine() {
    const std::string_view rest = AsText(data_.subspan(at_));
    const size_t end = rest.find('\n');
    if (end == rest.npos) {
      Malformed("the pickle ends within a line");
      return {};
    }
    at_ += end + 1;
    return rest.substr(0, end);
  }

  // ----- values, the stack and the memo

  PickleValue* New(PickleKind kind) {
    if (result_.values_.size() >= options_.max_values) {
      Fail(absl::StatusCode::kOutOfRange, absl::StrCat("more than ", options_.max_values, " values"));
      // Still a valid place to write to: the machine stops before the next opcode.
    }
    PickleValue& value = result_.values_.emplace_back();
    value.kind_ = kind;
    return &value;
  }
  PickleValue* NewInt(int64_t integer) {
    PickleValue* value = New(PickleKind::kInt);
    value->integer_ = integer;
    return value;
  }
  PickleValue* NewText(PickleKind kind, std::string_view text) {
    PickleValue* value = New(kind);
    value->text_ = text;
    return value;
  }
  PickleValue* NewString(std::string_view text) {
    if (!simdjson::validate_utf8(text.data(), text.size())) Malformed("a string is not UTF-8");
    return NewText(PickleKind::kString, text);
  }
  std::string_view Keep(std::string text) { return result_.strings_.emplace_back(std::move(text)); }

  void Push(PickleValue* value) {
    if (value == nullptr) return;  // an error has been reported
    if (stack_.size() >= options_.max_stack) {
      Fail(absl::StatusCode::kOutOfRange, absl::StrCat("more than ", options_.max_stack, " values on the stack"));
      return;
    }
    stack_.push_back(value);
  }
  // Values below the last mark belong to a container not yet complete and are out of reach.
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* Top() {
    if (stack_.size() <= Floor()) {
      Malformed("the stack is empty");
      return nullptr;
    }
    return stack_.back();
  }
  PickleValue* Pop() {
    PickleValue* value = Top();
    if (value != nullptr) stack_.pop_back();
    return value;
  }
  // All values above the last mark, which is removed.
  std::vector<const PickleValue*> PopToMark() {
    if (marks_.empty()) {
      Malformed("no mark is on the stack");
      return {};
    }
    const size_t mark = marks_.back();
    marks_.pop_back();
    std::vector<const PickleValue*> values(stack_.begin() + mark, stack_.end());
    stack_.resize(mark);
    return values;
  }
  // The value under the ones just popped, if it is of that kind; of a record, its content, which is made when it is
  // first filled.
  PickleValue* TopOf(PickleKind kind, const char* what) {
    PickleValue* value = Top();
    if (value != nullptr && options_.records && value->is(PickleKind::kObject)) {
      if (value->content_ < 0) {
        value->content_ = static_cast<int32_t>(value->items_.size());
        value->items_.push_back(New(kind));
      }
      value = const_cast<PickleValue*>(value->items_[value->content_]);  // made above, for this record alone
    }
    if (value != nullptr && !value->is(kind)) {
      Malformed(absl::StrCat("the value to fill is not ", what));
      return nullptr;
    }
    return value;
  }
  void Store(uint64_t index) {
    if (PickleValue* value = Top()) memo_[index] = value;
  }
  void Load(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return Malformed(absl::StrCat("memo entry ", index, " was never stored"));
    Push(found->second);
  }

  // ----- opcodes

  // Carries out one opcode; true for STOP.
  bool Step(uint8_t op) {
    switch (op) {
      case 0x80: {  // PROTO
        const uint64_t protocol = TakeInt(1);
        if (protocol > 5) Malformed(absl::StrCat("protocol ", protocol, " is unknown"));
        return false;
      }
      case 0x95: {  // FRAME
        const uint64_t size = TakeInt(8);
        if (size > data_.size() - at_) Malformed("a frame is longer than the pickle");
        return false;
      }
      case '.': result_.root_ = Pop(); return true;
      case '(':
        if (marks_.size() >= options_.max_stack) {
          Fail(absl::StatusCode::kOutOfRange, absl::StrCat("more than ", options_.max_stack, " marks"));
        } else {
          marks_.push_back(stack_.size());
        }
        return false;
      case '0':
        // Python lets POP take away a mark when nothing lies above it.
        if (!marks_.empty() && stack_.size() == marks_.back()) {
          marks_.pop_back();
        } else {
          Pop();
        }
        return false;
      case '1': PopToMark(); return false;
      case '2': Push(Top()); return false;
      // Scalars.
      case 'N': Push(none_); return false;
      case 0x88: Push(true_); return false;
      case 0x89: Push(false_); return false;
      case 'J': Push(NewInt(static_cast<int32_t>(TakeInt(4)))); return false;
      case 'K': Push(NewInt(static_cast<int64_t>(TakeInt(1)))); return false;
      case 'M': Push(NewInt(static_cast<int64_t>(TakeInt(2)))); return false;
      case 0x8a: Push(NewLong(Take(TakeInt(1)))); return false;
      case 0x8b: Push(NewLong(Take(TakeInt(4)))); return false;
      case 'G': {
        uint64_t bits = 0;
        for (uint8_t byte : Take(8)) bits = bits << 8 | byte;  // the only big-endian number
        PickleValue* value = New(PickleKind::kFloat);
        value->real_ = std::bit_cast<double>(bits);
        Push(value);
        return false;
      }
      // Texts and bytes.
      case 0x8c: Push(NewString(TakeText(1))); return false;
      case 'X': Push(NewString(TakeText(4))); return false;
      case 0x8d: Push(NewString(TakeText(8))); return false;
      case 'U': Push(NewOldString(TakeText(1))); return false;
      case 'T': Push(NewOldString(TakeText(4))); return false;
      case 'C': Push(NewText(PickleKind::kBytes, TakeText(1))); return false;
      case 'B': Push(NewText(PickleKind::kBytes, TakeText(4))); return false;
      case 0x8e:
      case 0x96:  // bytes, bytearray
        Push(NewText(PickleKind::kBytes, TakeText(8)));
        return false;
      // Containers.
      case ']': Push(New(PickleKind::kList)); return false;
      case '}': Push(New(PickleKind::kDict)); return false;
      case ')': Push(New(PickleKind::kTuple)); return false;
      case 0x8f: Push(New(PickleKind::kSet)); return false;
      case 0x85:
      case 0x86:
      case 0x87: MakeTuple(op - 0x84); return false;
      case 't': Push(NewFilled(PickleKind::kTuple, PopToMark())); return false;
      case 'l': Push(NewFilled(PickleKind::kList, PopToMark())); return false;
      case 0x91: Push(NewFilled(PickleKind::kSet, PopToMark())); return false;
      case 'd': {
        PickleValue* dict = New(PickleKind::kDict);
        SetItems(dict, PopToMark());
        Push(dict);
        return false;
      }
      case 'a': {
        const PickleValue* item = Pop();
        if (item == nullptr) return false;
        if (PickleValue* list = TopOf(PickleKind::kList, "a list")) list->items_.push_back(item);
        return false;
      }
      case 'e': Extend(PickleKind::kList, "a list"); return false;
      case 0x90: Extend(PickleKind::kSet, "a set"); return false;
      case 's': {
        const PickleValue* value = Pop();
        const PickleValue* key = Pop();
        if (value == nullptr || key == nullptr) return false;
        if (PickleValue* dict = TopOf(PickleKind::kDict, "a dict")) SetItems(dict, {key, value});
        return false;
      }
      case 'u': {
        const std::vector<const PickleValue*> items = PopToMark();
        if (PickleValue* dict = TopOf(PickleKind::kDict, "a dict")) SetItems(dict, items);
        return false;
      }
      // The memo.
      case 'q': Store(TakeInt(1)); return false;
      case 'r': Store(TakeInt(4)); return false;
      case 0x94: Store(memo_.size()); return false;
      case 'h': Load(TakeInt(1)); return false;
      case 'j': Load(TakeInt(4)); return false;
      // Names and what they make.
      case 'c': {
        const std::string_view module = TakeLine();
        const std::string_view name = TakeLine();
        if (status_.ok()) Push(NewGlobal(module, name));
        return false;
      }
      case 0x93: {
        const PickleValue* name = Pop();
        const PickleValue* module = Pop();
        if (name == nullptr || module == nullptr) return false;
        if (!name->is(PickleKind::kString) || !module->is(PickleKind::kString)) {
          Malformed("a global is named by something that is not a string");
          return false;
        }
        Push(NewGlobal(module->text(), name->text()));
        return false;
      }
      case 'R':     // REDUCE: call
      case 0x81: {  // NEWOBJ: call a class
        const PickleValue* args = Pop();
        const PickleValue* callee = Pop();
        if (args != nullptr && callee != nullptr) Push(Call(callee, args, 0));
        return false;
      }
      case 0x92: {  // NEWOBJ_EX: call a class with arguments by name, too
        if (!options_.records) break;
        const PickleValue* named = Pop();
        const PickleValue* args = Pop();
        const PickleValue* callee = Pop();
        if (named == nullptr || args == nullptr || callee == nullptr) return false;
        if (!callee->is(PickleKind::kGlobal) || callee->global_ != kInertRow) break;
        PickleValue* record = Call(callee, args, 0);
        if (record != nullptr) record->items_.push_back(named), ++record->arguments_;
        Push(record);
        return false;
      }
      case 'b': Build(); return false;
      case 'Q': Push(NewStorage(Pop())); return false;
      default: break;
    }
    Malformed(absl::StrCat("opcode 0x", absl::Hex(op, absl::kZeroPad2), std::string(OpcodeName(op)),
                           " is not one of those that rebuild tensors; refused"));
    return false;
  }

  PickleValue* NewLong(absl::Span<const uint8_t> bytes) {
    // Two's complement, little-endian; drop bytes that only repeat the sign.
    while (bytes.size() > 1) {
      const uint8_t last = bytes.back(), before = bytes[bytes.size() - 2];
      if (!((last == 0 && before < 0x80) || (last == 0xff && before >= 0x80))) break;
      bytes.remove_suffix(1);
    }
    if (bytes.size() > 8) return NewText(PickleKind::kBigInt, AsText(bytes));
    uint64_t value = LittleEndian(bytes);
    if (!bytes.empty() && bytes.size() < 8 && bytes.back() >= 0x80) value |= ~uint64_t{0} << (8 * bytes.size());
    return NewInt(static_cast<int64_t>(value));
  }

  // Strings of Python 2 are text or bytes; only ASCII is surely text.
  PickleValue* NewOldString(std::string_view text) {
    const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
    return NewText(ascii ? PickleKind::kString : PickleKind::kBytes, text);
  }

  PickleValue* NewFilled(PickleKind kind, std::vector<const PickleValue*> items) {
    PickleValue* value = New(kind);
    value->items_ = std::move(items);
    return value;
  }

  void MakeTuple(int size) {
    std::vector<const PickleValue*> items(size);
    for (int i = size; i-- > 0;) items[i] = Pop();
    if (status_.ok()) Push(NewFilled(PickleKind::kTuple, std::move(items)));
  }

  void Extend(PickleKind kind, const char* what) {
    const std::vector<const PickleValue*> items = PopToMark();
    if (PickleValue* target = TopOf(kind, what))
      target->items_.insert(target->items_.end(), items.begin(), items.end());
  }

  void SetItems(PickleValue* dict, const std::vector<const PickleValue*>& items) {
    if (items.size() % 2 != 0) return Malformed("a dict is filled with a key but no value");
    for (size_t i = 0; i < items.size(); i += 2) {
      const PickleKind kind = items[i]->kind();
      if (kind == PickleKind::kList || kind == PickleKind::kDict || kind == PickleKind::kSet) {
        return Malformed("a container is the key of a dict");
      }
    }
    dict->items_.insert(dict->items_.end(), items.begin(), items.end());
  }

  PickleValue* NewGlobal(std::string_view module, std::string_view name) {
    const std::string_view known_module = module == "__builtin__" ? "builtins" : module;
    for (size_t row = 0; row < std::size(kAllowed); ++row) {
      if (kAllowed[row].module == known_module && kAllowed[row].name == name &&
          (!kAllowed[row].records || options_.records)) {
        return GlobalValue(static_cast<uint8_t>(row), module, name);
      }
    }
    for (const TorchDtype& dtype : kDtypes) {
      if (module == "torch" && name == dtype.name) return NewText(PickleKind::kDtype, dtype.name);
      if ((module == "torch" || module == "torch.cuda") && !dtype.storage_class.empty() &&
          name == dtype.storage_class) {
        PickleValue* value = GlobalValue(kTypedStorageRow, module, name);
        value->integer_ = &dtype - kDtypes.data();
        return value;
      }
    }
    for (const std::string& prefix : options_.inert_prefixes)
      if (module.substr(0, prefix.size()) == prefix) return GlobalValue(kInertRow, module, name);
    for (const std::string& inert : options_.inert_names) {
      if (inert.size() == module.size() + 1 + name.size() && inert.compare(0, module.size(), module) == 0 &&
          inert[module.size()] == ' ' && inert.compare(module.size() + 1, name.size(), name) == 0) {
        return GlobalValue(kInertRow, module, name);
      }
    }
    if (options_.records && IsHarmlessName(known_module, name) && !IsWithinKnown(known_module, name))
      return GlobalValue(kInertRow, module, name);
    Malformed(absl::StrCat("the name '", Text(module), ".", Text(name),
                           "' is not one of those that rebuild tensors; refused"));
    return nullptr;
  }

  // Whether a name is an attribute of a known one: what those make is known, their attributes are not.
  static bool IsWithinKnown(std::string_view module, std::string_view name) {
    const std::string_view first = name.substr(0, name.find('.'));
    return first.size() < name.size() &&
           std::any_of(std::begin(kAllowed), std::end(kAllowed),
                       [&](const AllowedName& known) { return known.module == module && known.name == first; });
  }

  PickleValue* GlobalValue(uint8_t row, std::string_view module, std::string_view name) {
    PickleValue* value = NewText(PickleKind::kGlobal, Keep(absl::StrCat(std::string(module), " ", std::string(name))));
    value->global_ = row;
    return value;
  }

  // ----- calls

  // The arguments of a call, with errors that name callee and position.
  struct Args {
    UnpickleMachine* machine;
    const PickleValue* callee;
    absl::Span<const PickleValue* const> values;

    bool Count(size_t least, size_t most) const {
      if (values.size() >= least && values.size() <= most) return true;
      machine->Malformed(absl::StrCat(Text(callee->text()), " is called with ", values.size(), " arguments"));
      return false;
    }
    // The argument, or nullptr where it is of another kind.
    const PickleValue* Of(size_t i, PickleKind kind, const char* what) const {
      if (i < values.size() && values[i]->is(kind)) return values[i];
      machine->Malformed(absl::StrCat("argument ", i, " of ", Text(callee->text()), " is not ", what));
      return nullptr;
    }
    bool Ints(size_t i, std::vector<int64_t>* out) const {
      const PickleValue* list = Of(i, PickleKind::kTuple, "a tuple of integers");
      if (list == nullptr || !machine->Spend(list->items().size())) return false;
      for (const PickleValue* item : list->items()) {
        if (!item->is(PickleKind::kInt)) {
          machine->Malformed(absl::StrCat("argument ", i, " of ", Text(callee->text()), " is not a tuple of integers"));
          return false;
        }
        out->push_back(item->integer());
      }
      return true;
    }
  };

  PickleValue* NewRecord(std::string_view name, const Args& args) {
    PickleValue* record = New(PickleKind::kObject);
    record->text_ = name;
    if (!Spend(args.values.size())) return nullptr;
    record->items_.assign(args.values.begin(), args.values.end());
    record->arguments_ = static_cast<uint32_t>(args.values.size());
    return record;
  }

  PickleValue* NewUnreadable(std::string what) { return NewText(PickleKind::kUnreadable, Keep(std::move(what))); }

  // A tensor that is known and not read: an error, or a value that says so.
  PickleValue* Unreadable(const std::string& what) {
    if (options_.records) return NewUnreadable(what);
    Fail(absl::StatusCode::kUnimplemented, absl::StrCat(what, " is not supported"));
    return nullptr;
  }

  PickleValue* Call(const PickleValue* callee, const PickleValue* args_value, int nested) {
    // What a call made may be called in turn: functools.partial, bound methods.
    if (options_.records && callee->is(PickleKind::kObject) && args_value->is(PickleKind::kTuple))
      return NewRecord(callee->text(), {this, callee, args_value->items()});
    if (!callee->is(PickleKind::kGlobal) || !args_value->is(PickleKind::kTuple)) {
      Malformed("a call of something that is not a name, or without a tuple of arguments");
      return nullptr;
    }
    const Args args{this, callee, args_value->items()};
    switch (MakesOf(callee->global_)) {
      case Makes::kInert: return NewRecord(callee->text(), args);
      case Makes::kGetattr: return Getattr(args);
      case Makes::kFromDevice: return args.Count(4, 4) ? MakeFromDevice(args) : nullptr;
      case Makes::kFromBuffer: return args.Count(4, 4) ? MakeFromBuffer(args) : nullptr;
      case Makes::kUnreadable: {
        const std::string what(kAllowed[callee->global_].what);
        if (!args.values.empty() && args.values[0]->is(PickleKind::kLayout))
          return NewUnreadable(absl::StrCat(what, " (", Text(args.values[0]->text()), ")"));
        if (!args.values.empty() && args.values[0]->is(PickleKind::kStorage))
          return NewUnreadable(absl::StrCat(what, " (torch.", std::string(args.values[0]->storage()->dtype), ")"));
        return NewUnreadable(what);
      }
      case Makes::kWrapperSubclass: Malformed("a tensor subclass is rebuilt without its attributes"); return nullptr;
      case Makes::kNothing:
      case Makes::kStorageClass:
        Malformed(absl::StrCat("a call of ", Text(callee->text()), ", which rebuilds no tensor; refused"));
        return nullptr;
      case Makes::kTensor: return args.Count(4, 4) ? MakeTensor(args, 0) : nullptr;
      case Makes::kTensorV2: return args.Count(6, 7) ? MakeTensor(args, 6) : nullptr;
      case Makes::kTensorV3: return args.Count(7, 8) ? MakeTensor(args, 7) : nullptr;
      case Makes::kParameter: return args.Count(3, 3) ? MakeParameter(args) : nullptr;
      case Makes::kParameterWithState: return args.Count(4, 4) ? MakeParameter(args) : nullptr;
      case Makes::kParameterClass: return args.Count(1, 2) ? MakeParameter(args) : nullptr;
      case Makes::kFromType: return args.Count(4, 4) ? MakeFromType(args, nested) : nullptr;
      case Makes::kSize: return MakeSize(args);
      case Makes::kDevice: return MakeDevice(args);
      case Makes::kLayout: {
        if (!args.Count(1, 1)) return nullptr;
        const PickleValue* name = args.Of(0, PickleKind::kString, "a string");
        return name == nullptr ? nullptr : NewText(PickleKind::kLayout, name->text());
      }
      case Makes::kDefaultDict:
        if (!args.values.empty()) {  // the factory, which is never called
          if (!args.values[0]->is(PickleKind::kGlobal) && !args.values[0]->is(PickleKind::kNone) &&
              !(options_.records && args.values[0]->is(PickleKind::kObject))) {
            args.Of(0, PickleKind::kGlobal, "a class");
            return nullptr;
          }
          return MakeDict({this, callee, args.values.subspan(1)});
        }
        return MakeDict(args);
      case Makes::kDict: return MakeDict(args);
      case Makes::kSet: return MakeSet(args);
      case Makes::kBytes:
      case Makes::kByteArray:
        if (!args.Count(0, 2)) return nullptr;
        if (args.values.empty()) return NewText(PickleKind::kBytes, "");
        if (args.values.size() == 1 && args.values[0]->is(PickleKind::kBytes)) {
          return NewText(PickleKind::kBytes, args.values[0]->text());
        }
        return MakeEncoded(args);
      case Makes::kEncoded: return MakeEncoded(args);
      case Makes::kComplex: {
        if (!args.Count(2, 2)) return nullptr;
        PickleValue* value = New(PickleKind::kComplex);
        for (size_t i = 0; i < 2; ++i) {
          const PickleValue* part = args.Of(i, PickleKind::kFloat, "a float");
          if (part == nullptr) return nullptr;
          (i == 0 ? value->real_ : value->imag_) = part->real();
        }
        return value;
      }
    }
    return nullptr;
  }

  PickleValue* MakeSet(const Args& args) {
    if (!args.Count(0, 1)) return nullptr;
    PickleValue* set = New(PickleKind::kSet);
    if (args.values.empty()) return set;
    const bool tuple = args.values[0]->is(PickleKind::kTuple);
    const PickleValue* list = tuple ? args.values[0] : args.Of(0, PickleKind::kList, "a list");
    if (list == nullptr || !Spend(list->items().size())) return nullptr;
    set->items_ = list->items_;
    return set;
  }

  PickleValue* MakeSize(const Args& args) {
    std::vector<int64_t> sizes;
    if (!args.Count(0, 1)) return nullptr;
    if (args.values.empty()) return New(PickleKind::kTuple);
    if (!args.Ints(0, &sizes)) return nullptr;
    return NewFilled(PickleKind::kTuple, args.values[0]->items_);
  }

  PickleValue* MakeDevice(const Args& args) {
    if (!args.Count(1, 2)) return nullptr;
    const PickleValue* type = args.Of(0, PickleKind::kString, "a string");
    if (type == nullptr) return nullptr;
    if (args.values.size() == 1 || args.values[1]->is(PickleKind::kNone)) {
      return NewText(PickleKind::kDevice, type->text());
    }
    const PickleValue* index = args.Of(1, PickleKind::kInt, "an integer");
    if (index == nullptr) return nullptr;
    return NewText(PickleKind::kDevice, Keep(absl::StrCat(std::string(type->text()), ":", index->integer())));
  }

  // dict(), dict(d) or dict([(k, v), …]).
  PickleValue* MakeDict(const Args& args) {
    if (!args.Count(0, 1)) return nullptr;
    PickleValue* dict = New(PickleKind::kDict);
    if (args.values.empty()) return dict;
    if (!Spend(args.values[0]->items().size())) return nullptr;
    if (args.values[0]->is(PickleKind::kDict)) {
      dict->items_ = args.values[0]->items_;
      return dict;
    }
    const PickleValue* list = args.Of(0, PickleKind::kList, "a dict or a list of pairs");
    if (list == nullptr) return nullptr;
    for (const PickleValue* pair : list->items()) {
      if (!(pair->is(PickleKind::kTuple) || pair->is(PickleKind::kList)) || pair->items().size() != 2) {
        Malformed(absl::StrCat(Text(args.callee->text()), " is called with something that is not a list of pairs"));
        return nullptr;
      }
      SetItems(dict, pair->items_);
    }
    return dict;
  }

  // Text whose characters stand for bytes: how protocol 2 writes bytes.
  PickleValue* MakeEncoded(const Args& args) {
    if (!args.Count(2, 2)) return nullptr;
    const PickleValue* text = args.Of(0, PickleKind::kString, "a string");
    const PickleValue* codec = args.Of(1, PickleKind::kString, "a string");
    if (text == nullptr || codec == nullptr) return nullptr;
    if (codec->text() != "latin1" && codec->text() != "latin-1") {
      Malformed(absl::StrCat("the encoding '", Text(codec->text()), "' is not one that stands for bytes; refused"));
      return nullptr;
    }
    if (!Spend(text->text().size())) return nullptr;
    std::string bytes;
    const std::string_view utf8 = text->text();  // valid: NewString() has checked
    for (size_t i = 0; i < utf8.size(); ++i) {
      const uint8_t lead = static_cast<uint8_t>(utf8[i]);
      if (lead < 0x80) {
        bytes.push_back(utf8[i]);
      } else if (lead <= 0xc3 && i + 1 < utf8.size()) {
        bytes.push_back(static_cast<char>((lead & 3) << 6 | (static_cast<uint8_t>(utf8[++i]) & 0x3f)));
      } else {
        Malformed("a character above 255 stands for a byte");
        return nullptr;
      }
    }
    return NewText(PickleKind::kBytes, Keep(std::move(bytes)));
  }

  // (storage, offset, sizes, strides[, requires_grad, hooks[, dtype][, metadata]]); `metadata_at` is the place of the
  // last one, 0 where there is none.
  PickleValue* MakeTensor(const Args& args, size_t metadata_at) {
    const PickleValue* storage = args.Of(0, PickleKind::kStorage, "a storage");
    const PickleValue* offset = args.Of(1, PickleKind::kInt, "an integer");
    auto tensor = std::make_unique<PickleTensor>();
    if (storage == nullptr || offset == nullptr || !args.Ints(2, &tensor->sizes) || !args.Ints(3, &tensor->strides)) {
      return nullptr;
    }
    tensor->storage = *storage->storage();
    tensor->dtype = tensor->storage.dtype;
    tensor->offset = offset->integer();
    if (metadata_at != 0) {
      const PickleValue* requires_grad = args.Of(4, PickleKind::kBool, "a boolean");
      if (requires_grad == nullptr) return nullptr;
      tensor->requires_grad = requires_grad->boolean();
    }
    if (metadata_at == 7) {
      const PickleValue* dtype = args.Of(6, PickleKind::kDtype, "a dtype");
      if (dtype == nullptr) return nullptr;
      tensor->dtype = dtype->text();
    }
    if (metadata_at != 0 && args.values.size() > metadata_at) {
      std::string_view lazy;
      if (!CheckMetadata(args, metadata_at, &lazy)) return nullptr;
      if (!lazy.empty()) return Unreadable(absl::StrCat("a tensor saved as a lazy ", std::string(lazy), " view"));
    }
    tensor->item_size = TorchItemSize(tensor->dtype);
    if (tensor->item_size == 0) {
      return Unreadable(absl::StrCat("a tensor of dtype ", Text(tensor->dtype)));
    }
    if (tensor->sizes.size() != tensor->strides.size() || tensor->sizes.size() > kMaxRank) {
      Malformed(absl::StrCat("a tensor has ", tensor->sizes.size(), " sizes and ", tensor->strides.size(), " strides"));
      return nullptr;
    }
    if (!LiesInside(*tensor)) {
      Malformed(absl::StrCat("a tensor of dtype ", Text(tensor->dtype), " at offset ", tensor->offset,
                             " does not lie inside its storage '", Text(tensor->storage.key), "' of ",
                             tensor->storage.bytes, " bytes"));
      return nullptr;
    }
    PickleValue* value = New(PickleKind::kTensor);
    value->tensor_ = std::move(tensor);
    return value;
  }

  // Bits that change what the stored numbers mean must not be dropped: `lazy` is the one that is set.
  bool CheckMetadata(const Args& args, size_t at, std::string_view* lazy) {
    if (args.values[at]->is(PickleKind::kNone)) return true;
    const PickleValue* metadata = args.Of(at, PickleKind::kDict, "a dict");
    if (metadata == nullptr || !Spend(metadata->items().size())) return false;
    for (std::string_view bit : {"conj", "neg"}) {
      const PickleValue* set = metadata->Find(bit);
      if (set != nullptr && !(set->is(PickleKind::kBool) && !set->boolean())) *lazy = bit;
    }
    return true;
  }

  // (tensor[, requires_grad[, hooks[, attributes]]])
  PickleValue* MakeParameter(const Args& args) {
    if (options_.records && !args.values.empty()) {
      const PickleValue* data = args.values[0];
      if (data->is(PickleKind::kObject))
        return NewUnreadable(absl::StrCat("a tensor of the class ", DottedName(data->text())));
      if (data->is(PickleKind::kUnreadable)) return NewText(PickleKind::kUnreadable, data->text());
      if (data->is(PickleKind::kSubclass)) return NewSubclass(data->text(), data->items_[0], data->items_[1]);
    }
    if (!args.values.empty() && args.values[0]->is(PickleKind::kDict)) {  // a tensor subclass, as its attributes
      PickleValue* subclass = New(PickleKind::kDict);
      if (!Spend(args.values[0]->items().size())) return nullptr;
      subclass->items_.assign(args.values[0]->items().begin(), args.values[0]->items().end());
      return subclass;
    }
    const PickleValue* data = args.Of(0, PickleKind::kTensor, "a tensor");
    if (data == nullptr) return nullptr;
    bool requires_grad = true;
    if (args.values.size() > 1) {
      const PickleValue* given = args.Of(1, PickleKind::kBool, "a boolean");
      if (given == nullptr) return nullptr;
      requires_grad = given->boolean();
    }
    PickleValue* value = New(PickleKind::kTensor);
    value->tensor_ = std::make_unique<PickleTensor>(*data->tensor_);
    value->tensor_->is_parameter = true;
    value->tensor_->requires_grad = requires_grad;
    return value;
  }

  // (rebuilding function, class, its arguments, Python attributes): a tensor with attributes, which are dropped.
  PickleValue* MakeFromType(const Args& args, int nested) {
    const PickleValue* function = args.Of(0, PickleKind::kGlobal, "a function");
    const PickleValue* type = args.Of(1, PickleKind::kGlobal, "a class");
    const PickleValue* arguments = args.Of(2, PickleKind::kTuple, "a tuple");
    if (options_.records && function != nullptr && type != nullptr && arguments != nullptr)
      return MakeFromAnyType(args, nested);
    if (function == nullptr || type == nullptr || arguments == nullptr) return nullptr;
    if (nested >= kMaxNestedCalls) {
      Malformed("calls nest too deeply");
      return nullptr;
    }
    if (MakesOf(function->global_) == Makes::kWrapperSubclass) {
      // A tensor subclass: what it is made of is in the attributes, which stand for it.
      const PickleValue* attributes = args.Of(3, PickleKind::kDict, "a dict of attributes");
      if (attributes == nullptr) return nullptr;
      PickleValue* subclass = New(PickleKind::kDict);
      if (!Spend(attributes->items().size())) return nullptr;
      subclass->items_.assign(attributes->items().begin(), attributes->items().end());
      return subclass;
    }
    const bool is_parameter = type->text() == "torch.nn.parameter Parameter";
    if (!is_parameter && type->text() != "torch Tensor") {
      Malformed(absl::StrCat("a tensor is rebuilt as ", Text(type->text())));
      return nullptr;
    }
    PickleValue* value = Call(function, arguments, nested + 1);
    if (value == nullptr) return nullptr;
    if (!value->is(PickleKind::kTensor)) {
      Malformed(absl::StrCat(Text(function->text()), " does not rebuild a tensor"));
      return nullptr;
    }
    if (is_parameter) value->tensor_->is_parameter = true;
    return value;
  }

  // The same of any class. A plain tensor of a subclass of torch.Tensor is a tensor; what the class adds to it is
  // dropped.
  PickleValue* MakeFromAnyType(const Args& args, int nested) {
    const PickleValue *function = args.values[0], *type = args.values[1], *arguments = args.values[2];
    if (nested >= kMaxNestedCalls) {
      Malformed("calls nest too deeply");
      return nullptr;
    }
    if (MakesOf(function->global_) == Makes::kWrapperSubclass) {
      // A dict, or with __slots__ (a dict or None, a dict).
      const PickleValue* state = args.values[3];
      PickleValue* attributes = New(PickleKind::kDict);
      const auto add = [&](const PickleValue& part) {
        if (part.is(PickleKind::kDict) && Spend(part.items().size()))
          attributes->items_.insert(attributes->items_.end(), part.items().begin(), part.items().end());
      };
      add(*state);
      if (state->is(PickleKind::kTuple))
        for (const PickleValue* part : state->items()) add(*part);
      if (!status_.ok()) return nullptr;
      return NewSubclass(type->text(), arguments, attributes);
    }
    PickleValue* value = Call(function, arguments, nested + 1);
    if (value == nullptr || value->is(PickleKind::kUnreadable) || value->is(PickleKind::kSubclass)) return value;
    if (!value->is(PickleKind::kTensor))
      return NewUnreadable(absl::StrCat("a tensor of the class ", DottedName(type->text())));
    value->tensor_->is_parameter |= type->text() == "torch.nn.parameter Parameter";
    return value;
  }

  PickleValue* NewSubclass(std::string_view type, const PickleValue* arguments, const PickleValue* attributes) {
    PickleValue* value = NewFilled(PickleKind::kSubclass, {arguments, attributes});
    value->text_ = type;
    return value;
  }

  // (object, name): a class within a class, a method. Nothing is looked up: it is a name with a longer path.
  PickleValue* Getattr(const Args& args) {
    if (!args.Count(2, 2)) return nullptr;
    const PickleValue* name = args.Of(1, PickleKind::kString, "a string");
    if (name == nullptr) return nullptr;
    if (!args.values[0]->is(PickleKind::kGlobal)) return NewRecord(args.callee->text(), args);
    const std::string_view of = args.values[0]->text();
    const size_t space = of.find(' ');
    if (!Spend(of.size() + name->text().size())) return nullptr;
    return NewGlobal(Keep(std::string(of.substr(0, space))),
                     Keep(absl::StrCat(std::string(of.substr(space + 1)), ".", std::string(name->text()))));
  }

  // (tensor or array, dtype, device, requires_grad)
  PickleValue* MakeFromDevice(const Args& args) {
    const PickleValue* dtype = args.Of(1, PickleKind::kDtype, "a dtype");
    if (dtype == nullptr) return nullptr;
    const PickleValue* data = args.values[0];
    const PickleTensor* held = data->is(PickleKind::kArray) ? data->array() : data->tensor();
    if (held == nullptr || held->dtype != dtype->text())
      return NewUnreadable(absl::StrCat("a tensor of another device, of dtype ", Text(dtype->text())));
    PickleValue* value = NewText(data->kind(), data->text());
    value->tensor_ = std::make_unique<PickleTensor>(*held);
    return value;
  }

  // ----- NumPy

  static bool IsNumpy(const PickleValue& record, std::string_view name) {
    return record.is(PickleKind::kObject) &&
           (record.text() == absl::StrCat("numpy.core.multiarray ", std::string(name)) ||
            record.text() == absl::StrCat("numpy._core.multiarray ", std::string(name)));
  }

  // The type of a record of numpy.dtype: its string or, of ml_dtypes', its class, and the state with the byte order.
  static std::optional<NumpyElement> NumpyType(const PickleValue& dtype) {
    if (!dtype.is(PickleKind::kObject) || dtype.text() != "numpy dtype" || dtype.items().empty()) return std::nullopt;
    const PickleValue& name = *dtype.items()[0];
    const PickleValue& state = *dtype.items().back();
    const bool swapped = dtype.items().size() > dtype.arguments() && state.is(PickleKind::kTuple) &&
                         state.items().size() > 1 && state.items()[1]->is(PickleKind::kString) &&
                         state.items()[1]->text() == ">";
    std::optional<NumpyElement> element;
    constexpr std::string_view kMlDtypes = "ml_dtypes ";
    if (name.is(PickleKind::kString)) {
      element = ParseNumpyElement(name.text());
    } else if (name.is(PickleKind::kGlobal) && name.text().substr(0, kMlDtypes.size()) == kMlDtypes) {
      if (const auto known = ir::DTypeFromTorchName(name.text().substr(kMlDtypes.size()));
          known && ir::ByteSize(*known) > 0)
        element = NumpyElement{*known, false};
    }
    if (element && swapped && ir::ByteSize(element->dtype) > 1) element->big_endian = true;
    return element;
  }

  // Makes `value` the array of the bytes, where torch has its type; else it stays as it is.
  void MakeArray(PickleValue* value, const PickleValue& dtype, const PickleValue& shape, bool fortran,
                 const PickleValue& bytes) {
    const std::optional<NumpyElement> element = NumpyType(dtype);
    if (!element || !shape.is(PickleKind::kTuple) || !bytes.is(PickleKind::kBytes)) return;
    if (shape.items().size() > kMaxRank)
      return Malformed(absl::StrCat("an array has ", shape.items().size(), " sizes"));
    auto array = std::make_unique<PickleTensor>();
    array->dtype = ir::Info(element->dtype).torch_name;
    array->item_size = ir::ByteSize(element->dtype);
    array->storage.dtype = array->dtype;
    array->storage.bytes = array->storage.whole = bytes.text().size();
    array->storage.elements = array->storage.bytes / static_cast<uint64_t>(array->item_size);
    int64_t count = 1;
    for (const PickleValue* size : shape.items()) {
      if (!size->is(PickleKind::kInt) || size->integer() < 0 ||
          __builtin_mul_overflow(count, std::max<int64_t>(size->integer(), 1), &count))
        return Malformed("the shape of an array is not one");
      array->sizes.push_back(size->integer());
    }
    if (std::find(array->sizes.begin(), array->sizes.end(), 0) != array->sizes.end()) count = 0;
    int64_t size;
    if (__builtin_mul_overflow(count, array->item_size, &size) || static_cast<uint64_t>(size) != bytes.text().size())
      return Malformed(absl::StrCat("an array of ", count, " elements of ", array->item_size, " bytes has ",
                                    bytes.text().size(), " bytes"));
    array->strides.assign(array->sizes.size(), 1);
    for (size_t i = 1; i < array->sizes.size(); ++i) {
      const size_t d = fortran ? i : array->sizes.size() - 1 - i, before = fortran ? i - 1 : d + 1;
      array->strides[d] = array->strides[before] * std::max<int64_t>(array->sizes[before], 1);
    }
    value->kind_ = PickleKind::kArray;
    value->items_.clear();
    value->arguments_ = 0;
    value->text_ = bytes.text();
    value->tensor_ = std::move(array);
    if (!element->big_endian || !Spend(bytes.text().size())) return;
    std::string swapped(bytes.text());
    SwapBytes(element->dtype, &swapped);
    value->text_ = Keep(std::move(swapped));
  }

  // (bytes, dtype, shape, "C" or "F")
  PickleValue* MakeFromBuffer(const Args& args) {
    const PickleValue* order = args.Of(3, PickleKind::kString, "a string");
    if (order == nullptr) return nullptr;
    PickleValue* value = NewRecord(args.callee->text(), args);
    if (value != nullptr) MakeArray(value, *args.values[1], *args.values[2], order->text() == "F", *args.values[0]);
    return value;
  }

  // Python attributes set on a value: kept by records only (not an OrderedDict's _metadata, a tensor's __dict__).
  void Build() {
    const PickleValue* state = Pop();
    PickleValue* target = Top();
    if (state == nullptr || target == nullptr) return;
    if (target->is(PickleKind::kObject)) target->items_.push_back(state);
    if (options_.records && (target->is(PickleKind::kSubclass) || target->is(PickleKind::kUnreadable) ||
                             target->is(PickleKind::kArray) || target->is(PickleKind::kSet)))
      return;
    // (version, shape, dtype, whether the first dimension is the fastest, bytes)
    if (options_.records && IsNumpy(*target, "_reconstruct")) {
      const auto parts = state->items();
      if (state->is(PickleKind::kTuple) && parts.size() == 5 && parts[3]->is(PickleKind::kBool))
        MakeArray(target, *parts[2], *parts[1], parts[3]->boolean(), *parts[4]);
      return;
    }
    if (!target->is(PickleKind::kDict) && !target->is(PickleKind::kTensor) && !target->is(PickleKind::kObject)) {
      Malformed("attributes are set on a value that has none");
    }
  }

  // Makes `storage` the part of itself that `view` tells: (key of the view, first element, number of elements).
  bool TakeView(const PickleValue& view, PickleStorage* storage) {
    const absl::Span<const PickleValue* const> parts = view.items();
    if (!view.is(PickleKind::kTuple) || parts.size() != 3 || !parts[0]->is(PickleKind::kString) ||
        !parts[1]->is(PickleKind::kInt) || !parts[2]->is(PickleKind::kInt)) {
      Malformed("the view of a storage is not (key, first element, number of elements)");
      return false;
    }
    const int64_t first = parts[1]->integer(), count = parts[2]->integer();
    if (first < 0 || count < 0 || static_cast<uint64_t>(first) > storage->elements ||
        static_cast<uint64_t>(count) > storage->elements - static_cast<uint64_t>(first)) {
      Malformed(absl::StrCat("a view of ", count, " elements from element ", first,
                             " does not lie inside its storage '", Text(storage->key), "' of ", storage->elements));
      return false;
    }
    const uint64_t item = static_cast<uint64_t>(TorchItemSize(storage->dtype));
    storage->elements = static_cast<uint64_t>(count);
    storage->bytes = storage->elements * item;
    storage->offset = static_cast<uint64_t>(first) * item;
    return true;
  }

  // The persistent id ("storage", class, key, location, elements[, view]).
  PickleValue* NewStorage(const PickleValue* id) {
    if (id == nullptr) return nullptr;
    const absl::Span<const PickleValue* const> parts = id->items();
    // The form before 1.6 writes the classes of modules so: ("module", class, file, source).
    if (options_.records && id->is(PickleKind::kTuple) && parts.size() == 4 && parts[0]->is(PickleKind::kString) &&
        parts[0]->text() == "module" && parts[1]->is(PickleKind::kGlobal))
      return const_cast<PickleValue*>(parts[1]);  // all values belong to result_, which this machine owns
    if (!id->is(PickleKind::kTuple) || (parts.size() != 5 && parts.size() != 6) || !parts[0]->is(PickleKind::kString) ||
        parts[0]->text() != "storage" || !parts[1]->is(PickleKind::kGlobal) || !parts[2]->is(PickleKind::kString) ||
        !parts[3]->is(PickleKind::kString) || !parts[4]->is(PickleKind::kInt) || parts[4]->integer() < 0) {
      Malformed("a persistent id is not (\"storage\", class, key, location, number of elements)");
      return nullptr;
    }
    const bool typed = parts[1]->global_ == kTypedStorageRow;
    if (MakesOf(parts[1]->global_) != Makes::kStorageClass) {
      Malformed(absl::StrCat("a storage is of the class ", Text(parts[1]->text())));
      return nullptr;
    }
    PickleStorage storage;
    storage.dtype = typed ? kDtypes[parts[1]->integer_].name : kUntyped;
    storage.key = parts[2]->text();
    storage.location = parts[3]->text();
    storage.elements = static_cast<uint64_t>(parts[4]->integer());
    if (__builtin_mul_overflow(storage.elements, static_cast<uint64_t>(TorchItemSize(storage.dtype)), &storage.bytes)) {
      Malformed(absl::StrCat("storage '", Text(storage.key), "' claims ", storage.elements, " elements"));
      return nullptr;
    }
    storage.whole = storage.bytes;
    if (options_.storage_bytes) {
      const absl::StatusOr<uint64_t> exist = options_.storage_bytes(storage.key);
      if (!exist.ok()) {
        Fail(exist.status().code(), std::string(exist.status().message()));
        return nullptr;
      }
      if (storage.bytes > *exist) {
        Malformed(absl::StrCat("storage '", Text(storage.key), "' claims ", storage.bytes, " bytes, but has ", *exist));
        return nullptr;
      }
    }
    if (parts.size() == 6 && !parts[5]->is(PickleKind::kNone) && !TakeView(*parts[5], &storage)) return nullptr;
    result_.storages_.push_back(storage);
    PickleValue* value = New(PickleKind::kStorage);
    value->tensor_ = std::make_unique<PickleTensor>();
    value->tensor_->storage = storage;
    return value;
  }

  // ----- the finished tree

  // Checks, without recursing, that containers are not cyclic, not too deep, and small even when shared parts are
  // repeated; and that no dict repeats a string key. With options_.records a record counts as one value within what
  // refers to it, and a circle that leads through one is let pass.
  bool CheckTree(const PickleValue* root) {
    struct Frame {
      PickleValue* value;
      size_t next;
      int64_t record;  // the last record on the path up to this one; -1 for none
    };
    std::vector<Frame> path;
    const auto is_record = [&](const PickleValue& value) { return options_.records && value.is(PickleKind::kObject); };
    const auto enter = [&](const PickleValue* value) {
      // All values belong to result_, which this machine owns.
      PickleValue* mine = const_cast<PickleValue*>(value);
      mine->expanded_ = kOnPath;
      mine->depth_ = static_cast<uint32_t>(path.size());
      const auto here = static_cast<int64_t>(path.size());
      path.push_back({mine, 0, is_record(*mine) ? here : path.empty() ? -1 : path.back().record});
    };
    enter(root);
    const uint32_t max_path = options_.records ? options_.max_record_depth : options_.max_depth;
    while (!path.empty()) {
      PickleValue* value = path.back().value;
      const bool container = IsContainer(value->kind_);
      if (container && path.back().next < value->items_.size()) {
        const PickleValue* item = value->items_[path.back().next++];
        if (item->expanded_ == kOnPath && path.back().record < static_cast<int64_t>(item->depth_)) {
          Malformed("a container contains itself");
          return false;
        }
        if (item->expanded_ == 0) enter(item);
        if (path.size() > max_path + 1) {
          Fail(absl::StatusCode::kOutOfRange, absl::StrCat("containers nest deeper than ", max_path));
          return false;
        }
        continue;
      }
      path.pop_back();
      uint64_t expanded = 1;
      uint32_t depth = 0;
      for (const PickleValue* item : container ? value->items() : absl::Span<const PickleValue* const>()) {
        const bool leaf = item->expanded_ == kOnPath || is_record(*item);
        expanded += leaf ? 1 : item->expanded_;
        depth = std::max(depth, leaf ? 1 : item->depth_ + 1);
        if (expanded > options_.max_expanded) {
          Fail(absl::StatusCode::kOutOfRange, "values shared within each other grow beyond the limit");
          return false;
        }
        if (depth > options_.max_depth) {
          Fail(absl::StatusCode::kOutOfRange, options_.records
                                                  ? absl::StrCat("containers nest deeper than ", options_.max_depth)
                                                  : "values shared within each other grow beyond the limit");
          return false;
        }
      }
      value->expanded_ = expanded;
      value->depth_ = depth;
      if (value->is(PickleKind::kDict) && !CheckKeys(*value)) return false;
    }
    return true;
  }

  bool CheckKeys(const PickleValue& dict) {
    absl::flat_hash_set<std::string_view> keys;
    for (size_t i = 0; i < dict.pairs(); ++i) {
      if (dict.key(i).is(PickleKind::kString) && !keys.insert(dict.key(i).text()).second) {
        Malformed(absl::StrCat("a dict repeats the key '", Text(dict.key(i).text()), "'"));
        return false;
      }
    }
    return true;
  }

  const absl::Span<const uint8_t> data_;
  const UnpickleOptions& options_;
  uint64_t at_ = 0;     // next byte
  uint64_t op_at_ = 0;  // the opcode being carried out
  uint64_t spent_ = 0;
  absl::Status status_;
  Unpickled result_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;  // sizes of stack_
  absl::flat_hash_map<uint64_t, PickleValue*> memo_;
  PickleValue* none_ = nullptr;
  PickleValue* true_ = nullptr;
  PickleValue* false_ = nullptr;
};

absl::StatusOr<Unpickled> Unpickle(absl::Span<const uint8_t> data, const UnpickleOptions& options) {
  return UnpickleMachine(data, options).Run();
}

}  // namespace slipway::importers
