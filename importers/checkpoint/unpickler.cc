// Bytes, values, the stack, the memo and the opcodes.
#include "importers/checkpoint/unpickler.h"

#include <simdjson.h>
#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "importers/checkpoint/allowed_names.h"
#include "importers/checkpoint/pickle_names.h"
#include "importers/checkpoint/unpickle_machine.h"
#include "importers/npy/element.h"

namespace slipway::importers {

namespace {

// Items or characters that may be copied, for each byte of the pickle and in any case.
constexpr uint64_t kWorkPerByte = 4, kFreeWork = 1 << 16;

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

}  // namespace

std::string ShortText(std::string_view text) {
  constexpr size_t kLongest = 120;
  return absl::CHexEscape(absl::string_view(text.data(), std::min(text.size(), kLongest)));
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

int64_t TorchItemSize(std::string_view dtype) {
  const TorchDtype* found = FindTorchDtype(dtype);
  return found == nullptr ? 0 : found->item_size;
}

const PickleValue* PickleValue::Find(std::string_view key_text) const {
  for (size_t i = 0; i < pairs(); ++i) {
    if (key(i).is(PickleKind::kString) && key(i).text() == key_text) return &value(i);
  }
  return nullptr;
}

absl::StatusOr<Unpickled> UnpickleMachine::Run() {
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

void UnpickleMachine::Fail(absl::StatusCode code, const std::string& message) {
  if (status_.ok()) status_ = absl::Status(code, absl::StrCat("pickle byte ", op_at_, ": ", message));
}

// Counts work that a few bytes can ask for again and again (copying a container or text out of the memo).
bool UnpickleMachine::Spend(uint64_t amount) {
  spent_ += amount;
  if (spent_ <= kWorkPerByte * data_.size() + kFreeWork) return true;
  Fail(absl::StatusCode::kOutOfRange, "the pickle copies its own values beyond all use");
  return false;
}

absl::Span<const uint8_t> UnpickleMachine::Take(uint64_t size) {
  if (size > data_.size() - at_) {
    Malformed(absl::StrCat("the pickle ends too early: ", size, " bytes wanted, ", data_.size() - at_, " left"));
    return {};
  }
  const absl::Span<const uint8_t> taken = data_.subspan(at_, size);
  at_ += size;
  return taken;
}

std::string_view UnpickleMachine::TakeLine() {
  const std::string_view rest = AsText(data_.subspan(at_));
  const size_t end = rest.find('\n');
  if (end == rest.npos) {
    Malformed("the pickle ends within a line");
    return {};
  }
  at_ += end + 1;
  return rest.substr(0, end);
}

PickleValue* UnpickleMachine::New(PickleKind kind) {
  if (result_.values_.size() >= options_.max_values) {
    Fail(absl::StatusCode::kOutOfRange, absl::StrCat("more than ", options_.max_values, " values"));
    // Still a valid place to write to: the machine stops before the next opcode.
  }
  PickleValue& value = result_.values_.emplace_back();
  value.kind_ = kind;
  return &value;
}

PickleValue* UnpickleMachine::NewInt(int64_t integer) {
  PickleValue* value = New(PickleKind::kInt);
  value->integer_ = integer;
  return value;
}

PickleValue* UnpickleMachine::NewText(PickleKind kind, std::string_view text) {
  PickleValue* value = New(kind);
  value->text_ = text;
  return value;
}

PickleValue* UnpickleMachine::NewString(std::string_view text) {
  if (!simdjson::validate_utf8(text.data(), text.size())) Malformed("a string is not UTF-8");
  return NewText(PickleKind::kString, text);
}

void UnpickleMachine::Push(PickleValue* value) {
  if (value == nullptr) return;  // an error has been reported
  if (stack_.size() >= options_.max_stack) {
    Fail(absl::StatusCode::kOutOfRange, absl::StrCat("more than ", options_.max_stack, " values on the stack"));
    return;
  }
  stack_.push_back(value);
}

PickleValue* UnpickleMachine::Top() {
  if (stack_.size() <= Floor()) {
    Malformed("the stack is empty");
    return nullptr;
  }
  return stack_.back();
}

PickleValue* UnpickleMachine::Pop() {
  PickleValue* value = Top();
  if (value != nullptr) stack_.pop_back();
  return value;
}

// All values above the last mark, which is removed.
std::vector<const PickleValue*> UnpickleMachine::PopToMark() {
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
PickleValue* UnpickleMachine::TopOf(PickleKind kind, const char* what) {
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

void UnpickleMachine::Store(uint64_t index) {
  if (PickleValue* value = Top()) memo_[index] = value;
}

void UnpickleMachine::Load(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) return Malformed(absl::StrCat("memo entry ", index, " was never stored"));
  Push(found->second);
}

// Carries out one opcode; true for STOP. A table: one case an opcode.
bool UnpickleMachine::Step(uint8_t op) {
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

PickleValue* UnpickleMachine::NewLong(absl::Span<const uint8_t> bytes) {
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
PickleValue* UnpickleMachine::NewOldString(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
  return NewText(ascii ? PickleKind::kString : PickleKind::kBytes, text);
}

PickleValue* UnpickleMachine::NewFilled(PickleKind kind, std::vector<const PickleValue*> items) {
  PickleValue* value = New(kind);
  value->items_ = std::move(items);
  return value;
}

void UnpickleMachine::MakeTuple(int size) {
  std::vector<const PickleValue*> items(size);
  for (int i = size; i-- > 0;) items[i] = Pop();
  if (status_.ok()) Push(NewFilled(PickleKind::kTuple, std::move(items)));
}

void UnpickleMachine::Extend(PickleKind kind, const char* what) {
  const std::vector<const PickleValue*> items = PopToMark();
  if (PickleValue* target = TopOf(kind, what)) target->items_.insert(target->items_.end(), items.begin(), items.end());
}

void UnpickleMachine::SetItems(PickleValue* dict, const std::vector<const PickleValue*>& items) {
  if (items.size() % 2 != 0) return Malformed("a dict is filled with a key but no value");
  for (size_t i = 0; i < items.size(); i += 2) {
    const PickleKind kind = items[i]->kind();
    if (kind == PickleKind::kList || kind == PickleKind::kDict || kind == PickleKind::kSet) {
      return Malformed("a container is the key of a dict");
    }
  }
  dict->items_.insert(dict->items_.end(), items.begin(), items.end());
}

PickleValue* UnpickleMachine::NewGlobal(std::string_view module, std::string_view name) {
  const std::string_view known_module = module == "__builtin__" ? "builtins" : module;
  for (size_t row = 0; row < std::size(kAllowedNames); ++row) {
    if (kAllowedNames[row].module == known_module && kAllowedNames[row].name == name &&
        (!kAllowedNames[row].records || options_.records)) {
      return GlobalValue(static_cast<uint8_t>(row), module, name);
    }
  }
  for (const TorchDtype& dtype : kTorchDtypes) {
    if (module == "torch" && name == dtype.name) return NewText(PickleKind::kDtype, dtype.name);
    if ((module == "torch" || module == "torch.cuda") && !dtype.storage_class.empty() && name == dtype.storage_class) {
      PickleValue* value = GlobalValue(kTypedStorageRow, module, name);
      value->integer_ = &dtype - kTorchDtypes.data();
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
  Malformed(absl::StrCat("the name '", ShortText(module), ".", ShortText(name),
                         "' is not one of those that rebuild tensors; refused"));
  return nullptr;
}

// Whether a name is an attribute of a known one: what those make is known, their attributes are not.
bool UnpickleMachine::IsWithinKnown(std::string_view module, std::string_view name) {
  const std::string_view first = name.substr(0, name.find('.'));
  return first.size() < name.size() &&
         std::any_of(std::begin(kAllowedNames), std::end(kAllowedNames),
                     [&](const AllowedName& known) { return known.module == module && known.name == first; });
}

PickleValue* UnpickleMachine::GlobalValue(uint8_t row, std::string_view module, std::string_view name) {
  PickleValue* value = NewText(PickleKind::kGlobal, Keep(absl::StrCat(std::string(module), " ", std::string(name))));
  value->global_ = row;
  return value;
}

// Makes `value` the array of the bytes, where torch has its type; else it stays as it is.
void UnpickleMachine::MakeArray(PickleValue* value, const PickleValue& dtype, const PickleValue& shape, bool fortran,
                                const PickleValue& bytes) {
  const std::optional<NumpyElement> element = NumpyType(dtype);
  if (!element || !shape.is(PickleKind::kTuple) || !bytes.is(PickleKind::kBytes)) return;
  if (shape.items().size() > kMaxTensorRank)
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

absl::StatusOr<Unpickled> Unpickle(absl::Span<const uint8_t> data, const UnpickleOptions& options) {
  return UnpickleMachine(data, options).Run();
}

}  // namespace slipway::importers
