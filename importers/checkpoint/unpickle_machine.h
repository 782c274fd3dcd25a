// The pickle machine: a stack, a memo, a table of allowed names and what each of them makes. The methods are in
// unpickler.cc (bytes, values, opcodes), unpickle_calls.cc (what calls make) and unpickle_tensors.cc (arrays and
// storages that lie in the pickle, the check of the finished tree).
#ifndef SLIPWAY_IMPORTERS_CHECKPOINT_UNPICKLE_MACHINE_H_
#define SLIPWAY_IMPORTERS_CHECKPOINT_UNPICKLE_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "importers/checkpoint/pickle_names.h"
#include "importers/checkpoint/unpickler.h"
#include "importers/npy/element.h"

namespace slipway::importers {

inline constexpr int kMaxTensorRank = 64;

// The beginning of a text from the pickle, escaped, for messages.
std::string ShortText(std::string_view text);
std::string_view AsText(absl::Span<const uint8_t> bytes);
uint64_t LittleEndian(absl::Span<const uint8_t> bytes);
// Whether every element of the tensor's view lies inside its storage.
bool LiesInside(const PickleTensor& tensor);
bool IsContainer(PickleKind kind);

// Errors leave through `status_`: the first one stays, and Run() stops at the next opcode. Helpers that fail return
// nullptr or an empty span.
class UnpickleMachine {
 public:
  UnpickleMachine(absl::Span<const uint8_t> data, const UnpickleOptions& options) : data_(data), options_(options) {}

  absl::StatusOr<Unpickled> Run();

 private:
  void Fail(absl::StatusCode code, const std::string& message);
  void Malformed(const std::string& message) { Fail(absl::StatusCode::kInvalidArgument, message); }

  bool Spend(uint64_t amount);

  // ----- bytes

  absl::Span<const uint8_t> Take(uint64_t size);
  uint64_t TakeInt(int width) { return LittleEndian(Take(width)); }
  // A text of the length that the next `width` bytes state.
  std::string_view TakeText(int width) { return AsText(Take(TakeInt(width))); }
  std::string_view TakeLine();

  // ----- values, the stack and the memo

  PickleValue* New(PickleKind kind);
  PickleValue* NewInt(int64_t integer);
  PickleValue* NewText(PickleKind kind, std::string_view text);
  PickleValue* NewString(std::string_view text);
  std::string_view Keep(std::string text) { return result_.strings_.emplace_back(std::move(text)); }

  void Push(PickleValue* value);
  // Values below the last mark belong to a container not yet complete and are out of reach.
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* Top();
  PickleValue* Pop();
  std::vector<const PickleValue*> PopToMark();
  PickleValue* TopOf(PickleKind kind, const char* what);
  void Store(uint64_t index);
  void Load(uint64_t index);

  // ----- opcodes

  bool Step(uint8_t op);
  PickleValue* NewLong(absl::Span<const uint8_t> bytes);
  PickleValue* NewOldString(std::string_view text);
  PickleValue* NewFilled(PickleKind kind, std::vector<const PickleValue*> items);
  void MakeTuple(int size);
  void Extend(PickleKind kind, const char* what);
  void SetItems(PickleValue* dict, const std::vector<const PickleValue*>& items);
  PickleValue* NewGlobal(std::string_view module, std::string_view name);
  static bool IsWithinKnown(std::string_view module, std::string_view name);
  PickleValue* GlobalValue(uint8_t row, std::string_view module, std::string_view name);

  // ----- calls

  // The arguments of a call, with errors that name callee and position.
  struct Args {
    UnpickleMachine* machine;
    const PickleValue* callee;
    absl::Span<const PickleValue* const> values;

    bool Count(size_t least, size_t most) const {
      if (values.size() >= least && values.size() <= most) return true;
      machine->Malformed(absl::StrCat(ShortText(callee->text()), " is called with ", values.size(), " arguments"));
      return false;
    }
    // The argument, or nullptr where it is of another kind.
    const PickleValue* Of(size_t i, PickleKind kind, const char* what) const {
      if (i < values.size() && values[i]->is(kind)) return values[i];
      machine->Malformed(absl::StrCat("argument ", i, " of ", ShortText(callee->text()), " is not ", what));
      return nullptr;
    }
    bool Ints(size_t i, std::vector<int64_t>* out) const {
      const PickleValue* list = Of(i, PickleKind::kTuple, "a tuple of integers");
      if (list == nullptr || !machine->Spend(list->items().size())) return false;
      for (const PickleValue* item : list->items()) {
        if (!item->is(PickleKind::kInt)) {
          machine->Malformed(
              absl::StrCat("argument ", i, " of ", ShortText(callee->text()), " is not a tuple of integers"));
          return false;
        }
        out->push_back(item->integer());
      }
      return true;
    }
  };

  PickleValue* NewRecord(std::string_view name, const Args& args);
  PickleValue* NewUnreadable(std::string what);
  PickleValue* Unreadable(const std::string& what);
  PickleValue* Call(const PickleValue* callee, const PickleValue* args_value, int nested);
  PickleValue* MakeSet(const Args& args);
  PickleValue* MakeSize(const Args& args);
  PickleValue* MakeDevice(const Args& args);
  PickleValue* MakeDict(const Args& args);
  PickleValue* MakeEncoded(const Args& args);
  PickleValue* MakeTensor(const Args& args, size_t metadata_at);
  bool CheckMetadata(const Args& args, size_t at, std::string_view* lazy);
  PickleValue* MakeParameter(const Args& args);
  PickleValue* MakeFromType(const Args& args, int nested);
  PickleValue* MakeFromAnyType(const Args& args, int nested);
  PickleValue* NewSubclass(std::string_view type, const PickleValue* arguments, const PickleValue* attributes);
  PickleValue* Getattr(const Args& args);
  PickleValue* MakeFromDevice(const Args& args);

  // ----- NumPy

  static bool IsNumpy(const PickleValue& record, std::string_view name);
  static std::optional<NumpyElement> NumpyType(const PickleValue& dtype);
  void MakeArray(PickleValue* value, const PickleValue& dtype, const PickleValue& shape, bool fortran,
                 const PickleValue& bytes);
  PickleValue* MakeFromBuffer(const Args& args);
  void Build();
  bool TakeView(const PickleValue& view, PickleStorage* storage);
  PickleValue* NewStorage(const PickleValue* id);

  // ----- the finished tree

  bool CheckTree(const PickleValue* root);
  bool CheckKeys(const PickleValue& dict);

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

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_CHECKPOINT_UNPICKLE_MACHINE_H_
