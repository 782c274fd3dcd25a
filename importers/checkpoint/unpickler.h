// A restricted pickle machine. Checkpoints are pickles, and a pickle is a program that may call anything; this one
// runs no code: it knows the stack operations, containers, numbers and strings of protocols 2 to 5 and a fixed list of
// names, those that rebuild tensors. Any other name is refused before its arguments are even read, or, where the caller
// wants what else there is passed over, makes a record: its name and arguments, which nothing is done with.
#ifndef SLIPWAY_IMPORTERS_CHECKPOINT_UNPICKLER_H_
#define SLIPWAY_IMPORTERS_CHECKPOINT_UNPICKLER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace slipway::importers {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,     // fits int64
  kBigInt,  // does not: text() is the little-endian two's complement bytes
  kFloat,
  kComplex,  // real() and imag()
  kString,   // text() is UTF-8 (surrogates may occur, as in Python)
  kBytes,    // bytes and bytearray
  kList,
  kTuple,  // also torch.Size
  kSet,    // set and frozenset; in the order written, repetitions kept
  kDict,   // dict, OrderedDict, defaultdict, Counter; in the order written
  kTensor,
  kStorage,  // a storage on its own, outside a tensor
  kDevice,   // text() is e.g. "cpu", "cuda:0"
  kDtype,    // text() is torch's name, e.g. "bfloat16"
  kLayout,   // text() is e.g. "torch.strided"
  kGlobal,   // an allowed class as a value: text() is "module name"
  kObject,   // the record of a call of an inert name: text() is "module name", items() are the arguments and then
             // the states set on it and, of subclasses of dict and list, what they were filled with
  // Of UnpickleOptions::records only:
  kArray,       // a NumPy array of a type that torch has: array() and, dense in the order of the strides, text()
  kSubclass,    // a tensor subclass that is made of other tensors: text() is its class, "module name"; items() are the
                // arguments of its rebuilding (class, dtype, sizes, …) as a kTuple and its attributes as a kDict
  kUnreadable,  // a tensor that has no plain form: text() says what it is, "a sparse tensor (torch.sparse_coo)"
};

// A run of typed elements that lies outside the pickle under `key`: all that is there, or a part (files before
// torch 1.6 store views of a storage).
struct PickleStorage {
  std::string_view key;
  std::string_view dtype;     // torch's name of the element type; "uint8" for an untyped storage
  std::string_view location;  // the device it was saved from, e.g. "cuda:0"
  uint64_t elements = 0;
  uint64_t bytes = 0;   // elements times the size of one
  uint64_t offset = 0;  // bytes: where they begin in what lies under the key; not 0 only for views
  uint64_t whole = 0;   // bytes that the pickle claims to lie under the key, at least offset + bytes
};

// A strided view of a storage. Checked: every element lies inside the storage, and sizes times item size fits int64.
// (An expanded tensor, stride 0, may still have far more elements than its storage.)
struct PickleTensor {
  PickleStorage storage;
  std::string_view dtype;  // torch's name, e.g. "float32"; differs from storage.dtype only for untyped storages
  int64_t item_size = 0;   // bytes of one element
  int64_t offset = 0;      // in elements of dtype
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements of dtype, not negative
  bool requires_grad = false;
  bool is_parameter = false;
};

// One value of an Unpickled tree. Values may be shared (a pickle is a graph), and are never cyclic but for records.
class PickleValue {
 public:
  PickleKind kind() const { return kind_; }
  bool is(PickleKind kind) const { return kind_ == kind; }

  // Each is meaningful for the kinds named; zero, empty or nullptr for others.
  bool boolean() const { return integer_ != 0; }  // kBool
  int64_t integer() const { return integer_; }    // kBool, kInt
  double real() const { return real_; }           // kFloat, kComplex
  double imag() const { return imag_; }           // kComplex
  // kBigInt, kString, kBytes, kDevice, kDtype, kLayout, kGlobal, kObject
  std::string_view text() const { return text_; }
  const PickleTensor* tensor() const { return is(PickleKind::kTensor) ? tensor_.get() : nullptr; }
  const PickleTensor* array() const { return is(PickleKind::kArray) ? tensor_.get() : nullptr; }
  const PickleStorage* storage() const { return is(PickleKind::kStorage) ? &tensor_->storage : nullptr; }
  // The elements of a kList, kTuple or kSet; the keys and values of a kDict in turn; see kObject.
  absl::Span<const PickleValue* const> items() const { return items_; }
  // Of a kObject: how many of the items are arguments, and what a subclass of dict or list was filled with, a kDict or
  // a kList; else nullptr.
  size_t arguments() const { return arguments_; }
  const PickleValue* content() const { return content_ < 0 ? nullptr : items_[content_]; }

  // The number of key-value pairs of a kDict, and each of them.
  size_t pairs() const { return kind_ == PickleKind::kDict ? items_.size() / 2 : 0; }
  const PickleValue& key(size_t i) const { return *items_[2 * i]; }
  const PickleValue& value(size_t i) const { return *items_[2 * i + 1]; }
  // The value of a kDict under a string key, or nullptr. Linear: for many look-ups, walk the pairs.
  const PickleValue* Find(std::string_view key) const;

 private:
  friend class UnpickleMachine;

  PickleKind kind_ = PickleKind::kNone;
  uint8_t global_ = 0;     // kGlobal: a row of the table of allowed names
  uint32_t depth_ = 0;     // containers below this one, once checked
  uint64_t expanded_ = 0;  // values below and including this one, shared ones repeated; 0 until checked
  int64_t integer_ = 0;
  double real_ = 0;
  double imag_ = 0;
  std::string_view text_;
  std::vector<const PickleValue*> items_;
  uint32_t arguments_ = 0;
  int32_t content_ = -1;                  // an index of items_
  std::unique_ptr<PickleTensor> tensor_;  // kTensor, kArray; kStorage uses its `storage` only
};

struct UnpickleOptions {
  // The bytes that exist under a storage key, or an error where there is no such storage. Called once for each
  // mention of a storage; a storage that claims more bytes than exist is refused. Where the function is not set (the
  // storages are not known yet), the caller checks PickleStorage::bytes itself.
  std::function<absl::StatusOr<uint64_t>(std::string_view key)> storage_bytes;
  // Modules whose names may be mentioned and "called" without being known: a call makes a kObject record. Tensor
  // subclasses (torchao) keep their settings in such objects. Empty: every unknown name is refused.
  std::vector<std::string> inert_prefixes;
  // The same for single names, "module name".
  std::vector<std::string> inert_names;
  // Every name that is not known makes such records, but for those that run commands or code (pickle_names.h), which
  // are refused: they are an attack on whoever loads the file otherwise. NumPy's arrays are read, tensors that have no
  // plain form become kUnreadable in place of an error, and records may refer to themselves.
  bool records = false;
  uint64_t max_values = 8'000'000;      // values made
  uint64_t max_stack = 1'000'000;       // of the machine, in values and marks each
  uint64_t max_expanded = 100'000'000;  // values met when the tree is walked with shared parts repeated
  uint32_t max_depth = 200;             // containers within containers; with `records`, of those between two records
  uint32_t max_record_depth = 2000;     // containers and records within each other
};

// The outcome: a tree and the memory behind it. Its strings refer to the pickled bytes, which must outlive it.
class Unpickled {
 public:
  const PickleValue& root() const { return *root_; }
  // Bytes read, up to and including the STOP; what follows is not part of this pickle.
  uint64_t consumed() const { return consumed_; }
  // Every mention of a storage, in order; a key may occur several times.
  absl::Span<const PickleStorage> storages() const { return storages_; }
  // Every value that was made, in the tree or not.
  const std::deque<PickleValue>& values() const { return values_; }

 private:
  friend class UnpickleMachine;

  std::vector<PickleStorage> storages_;
  std::deque<PickleValue> values_;   // stable addresses
  std::deque<std::string> strings_;  // text that had to be made
  const PickleValue* root_ = nullptr;
  uint64_t consumed_ = 0;
};

// Reads one pickle from the front of `data`. A walk of the result is finite and may recurse: its depth and its length
// are within the options' limits. With `records` that holds for the containers between records alone: every circle
// leads through a kObject, and whoever walks into those must remember where it has been, and count.
//
// Errors give the byte offset. InvalidArgument: malformed or hostile (a name or opcode that is not on the list, a stack
// underflow, an unknown memo entry, a container that contains itself, a tensor outside its storage, a dict that repeats
// a string key). Unimplemented: a kind of tensor or text that is known and not read. OutOfRange: beyond a limit.
absl::StatusOr<Unpickled> Unpickle(absl::Span<const uint8_t> data, const UnpickleOptions& options = {});

// The size in bytes of one element of the torch dtype of that name; 0 where there is none such.
int64_t TorchItemSize(std::string_view dtype);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_CHECKPOINT_UNPICKLER_H_
