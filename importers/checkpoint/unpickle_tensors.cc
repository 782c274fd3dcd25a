// Arrays and storages whose bytes lie in the pickle (NumPy's, and views in files before torch 1.6), and the check of
// the finished tree.
#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "importers/checkpoint/allowed_names.h"
#include "importers/checkpoint/pickle_names.h"
#include "importers/checkpoint/unpickle_machine.h"
#include "importers/npy/element.h"

namespace slipway::importers {

namespace {

constexpr uint64_t kOnPath = std::numeric_limits<uint64_t>::max();

}  // namespace

bool UnpickleMachine::IsNumpy(const PickleValue& record, std::string_view name) {
  return record.is(PickleKind::kObject) &&
         (record.text() == absl::StrCat("numpy.core.multiarray ", std::string(name)) ||
          record.text() == absl::StrCat("numpy._core.multiarray ", std::string(name)));
}

// The type of a record of numpy.dtype: its string or, of ml_dtypes', its class, and the state with the byte order.
std::optional<NumpyElement> UnpickleMachine::NumpyType(const PickleValue& dtype) {
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

// (bytes, dtype, shape, "C" or "F")
PickleValue* UnpickleMachine::MakeFromBuffer(const Args& args) {
  const PickleValue* order = args.Of(3, PickleKind::kString, "a string");
  if (order == nullptr) return nullptr;
  PickleValue* value = NewRecord(args.callee->text(), args);
  if (value != nullptr) MakeArray(value, *args.values[1], *args.values[2], order->text() == "F", *args.values[0]);
  return value;
}

// Python attributes set on a value: kept by records only (not an OrderedDict's _metadata, a tensor's __dict__).
void UnpickleMachine::Build() {
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
bool UnpickleMachine::TakeView(const PickleValue& view, PickleStorage* storage) {
  const absl::Span<const PickleValue* const> parts = view.items();
  if (!view.is(PickleKind::kTuple) || parts.size() != 3 || !parts[0]->is(PickleKind::kString) ||
      !parts[1]->is(PickleKind::kInt) || !parts[2]->is(PickleKind::kInt)) {
    Malformed("the view of a storage is not (key, first element, number of elements)");
    return false;
  }
  const int64_t first = parts[1]->integer(), count = parts[2]->integer();
  if (first < 0 || count < 0 || static_cast<uint64_t>(first) > storage->elements ||
      static_cast<uint64_t>(count) > storage->elements - static_cast<uint64_t>(first)) {
    Malformed(absl::StrCat("a view of ", count, " elements from element ", first, " does not lie inside its storage '",
                           ShortText(storage->key), "' of ", storage->elements));
    return false;
  }
  const uint64_t item = static_cast<uint64_t>(TorchItemSize(storage->dtype));
  storage->elements = static_cast<uint64_t>(count);
  storage->bytes = storage->elements * item;
  storage->offset = static_cast<uint64_t>(first) * item;
  return true;
}

// The persistent id ("storage", class, key, location, elements[, view]).
PickleValue* UnpickleMachine::NewStorage(const PickleValue* id) {
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
    Malformed(absl::StrCat("a storage is of the class ", ShortText(parts[1]->text())));
    return nullptr;
  }
  PickleStorage storage;
  storage.dtype = typed ? kTorchDtypes[parts[1]->integer_].name : kUntypedDtype;
  storage.key = parts[2]->text();
  storage.location = parts[3]->text();
  storage.elements = static_cast<uint64_t>(parts[4]->integer());
  if (__builtin_mul_overflow(storage.elements, static_cast<uint64_t>(TorchItemSize(storage.dtype)), &storage.bytes)) {
    Malformed(absl::StrCat("storage '", ShortText(storage.key), "' claims ", storage.elements, " elements"));
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
      Malformed(
          absl::StrCat("storage '", ShortText(storage.key), "' claims ", storage.bytes, " bytes, but has ", *exist));
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

// Checks, without recursing, that containers are not cyclic, not too deep, and small even when shared parts are
// repeated; and that no dict repeats a string key. With options_.records a record counts as one value within what
// refers to it, and a circle that leads through one is let pass.
bool UnpickleMachine::CheckTree(const PickleValue* root) {
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

bool UnpickleMachine::CheckKeys(const PickleValue& dict) {
  absl::flat_hash_set<std::string_view> keys;
  for (size_t i = 0; i < dict.pairs(); ++i) {
    if (dict.key(i).is(PickleKind::kString) && !keys.insert(dict.key(i).text()).second) {
      Malformed(absl::StrCat("a dict repeats the key '", ShortText(dict.key(i).text()), "'"));
      return false;
    }
  }
  return true;
}

}  // namespace slipway::importers
