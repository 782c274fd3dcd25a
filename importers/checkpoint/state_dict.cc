// Which tensors of a checkpoint are its weights. Without a key a plain dict of tensors is taken, or what lies within
// under one of the
// usual names: else the error names what holds tensors for --key, whose path is matched key by key, since keys may hold
// dots themselves.
#include "importers/checkpoint/state_dict.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/text.h"
#include "importers/checkpoint/pickle_names.h"
#include "importers/checkpoint/torch_legacy.h"
#include "importers/checkpoint/torch_zip.h"

namespace slipway::importers {
namespace {

using Named = std::vector<std::pair<std::string, ir::TensorRef>>;

class Collector {
 public:
  explicit Collector(const TorchCheckpoint& checkpoint) : checkpoint_(checkpoint) {}

  absl::Status Add(std::string name, const PickleTensor& t) {
    auto& storage = storages_[std::string(t.storage.key)];
    if (!storage) {
      auto s = std::make_shared<ir::Storage>();
      const io::Bytes& bytes = checkpoint_.storages.find(t.storage.key)->second;
      s->bytes = bytes;
      s->size = bytes.size();
      if (const auto crc = checkpoint_.crcs.find(t.storage.key); crc != checkpoint_.crcs.end()) s->crc32 = crc->second;
      storage = std::move(s);
    }
    auto ref = ReferTo(t, storage);
    if (!ref.ok())
      return absl::Status(ref.status().code(), text::StrCat("'", name, "': ", text::FromAbsl(ref.status().message())));
    found_.emplace_back(std::move(name), *std::move(ref));
    return absl::OkStatus();
  }

  // Every tensor of a dict; `nested` dicts too, names joined by dots.
  absl::Status AddDict(const PickleValue& dict, const std::string& prefix, bool nested) {
    for (size_t i = 0; i < dict.pairs(); ++i) {
      const PickleValue& value = dict.value(i);
      const PickleTensor* t = value.tensor();
      if (!t && !(nested && value.is(PickleKind::kDict))) continue;
      if (!dict.key(i).is(PickleKind::kString)) return absl::InvalidArgumentError("a tensor's name is not a string");
      std::string name = text::StrCat(prefix, dict.key(i).text());
      if (absl::Status s = t ? Add(name, *t) : AddDict(value, name + ".", nested); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // An array, whose bytes are those of the pickle.
  absl::Status AddArray(std::string name, const PickleValue& array) {
    auto& storage = arrays_[array.text().data()];
    if (!storage) {
      auto s = std::make_shared<ir::Storage>();
      const absl::Span<const uint8_t> pickle = checkpoint_.pickle.data();
      const auto* bytes = reinterpret_cast<const uint8_t*>(array.text().data());
      const bool within = std::less_equal<>()(pickle.data(), bytes) &&
                          std::less_equal<>()(bytes + array.text().size(), pickle.data() + pickle.size());
      s->bytes = within ? checkpoint_.pickle.Part(static_cast<uint64_t>(bytes - pickle.data()), array.text().size())
                        : io::Bytes::Of(std::string(array.text()));
      s->size = array.text().size();
      storage = std::move(s);
    }
    auto ref = ReferTo(*array.array(), storage);
    if (!ref.ok())
      return absl::Status(ref.status().code(), text::StrCat("'", name, "': ", text::FromAbsl(ref.status().message())));
    found_.emplace_back(std::move(name), *std::move(ref));
    return absl::OkStatus();
  }

  Named found_;

 private:
  const TorchCheckpoint& checkpoint_;
  std::map<std::string, std::shared_ptr<const ir::Storage>, std::less<>> storages_;
  std::map<const char*, std::shared_ptr<const ir::Storage>> arrays_;
};

// What rebuilds tensors without values: of the device meta, and of FakeTensorMode.
constexpr const char* kWithoutValues[] = {"torch._utils _rebuild_meta_tensor_no_storage",
                                          "torch._export.serde.serialize _reconstruct_fake_tensor"};

// Either form of torch.save.
absl::StatusOr<TorchCheckpoint> Open(io::Bytes file, const TorchZipOptions& options = {}) {
  if (LooksLikeTorchLegacy(file.data())) return OpenTorchLegacy(std::move(file), options.unpickle);
  return OpenTorchZip(std::move(file), options);
}

absl::StatusOr<TorchCheckpoint> OpenWithValues(io::Bytes file) {
  TorchZipOptions options;
  options.unpickle.inert_names.assign(std::begin(kWithoutValues), std::end(kWithoutValues));
  auto checkpoint = Open(std::move(file), options);
  if (!checkpoint.ok()) return checkpoint;
  for (const PickleValue& v : checkpoint->object.values())
    if (v.is(PickleKind::kObject)) return absl::UnimplementedError("there are tensors without values among them");
  return checkpoint;
}

absl::StatusOr<Named> Read(io::Bytes archive, const TorchZipOptions& options, bool nested) {
  auto checkpoint = Open(std::move(archive), options);
  if (!checkpoint.ok()) return checkpoint.status();
  const PickleValue& root = checkpoint->object.root();
  if (!root.is(PickleKind::kDict)) return absl::InvalidArgumentError("the pickle holds no dict of tensors");
  Collector c(*checkpoint);
  if (absl::Status s = c.AddDict(root, "", nested); !s.ok()) return s;
  return std::move(c.found_);
}

// ---- What else than tensors is pickled: objects are walked for tensors

// The attributes that were set on a record: dicts of its state, of which classes with __slots__ have two.
std::vector<const PickleValue*> AttributesOf(const PickleValue& record) {
  std::vector<const PickleValue*> dicts;
  for (size_t i = record.arguments(); i < record.items().size(); ++i) {
    const PickleValue* state = record.items()[i];
    if (state == record.content()) continue;
    if (state->is(PickleKind::kDict)) dicts.push_back(state);
    if (state->is(PickleKind::kTuple))
      for (const PickleValue* part : state->items())
        if (part->is(PickleKind::kDict)) dicts.push_back(part);
  }
  return dicts;
}

struct ModuleState {
  const PickleValue *parameters, *buffers, *modules, *attributes;
};

// What a torch.nn.Module's object holds; no value for other records. torch.fx pickles modules as a call with the
// attributes.
std::optional<ModuleState> ModuleOf(const PickleValue& record) {
  if (!record.is(PickleKind::kObject)) return std::nullopt;
  std::vector<const PickleValue*> dicts = AttributesOf(record);
  if (record.arguments() > 0 && record.items()[0]->is(PickleKind::kDict)) dicts.push_back(record.items()[0]);
  for (const PickleValue* d : dicts) {
    const ModuleState m = {d->Find("_parameters"), d->Find("_buffers"), d->Find("_modules"), d};
    if (m.parameters && m.buffers && m.modules && m.parameters->is(PickleKind::kDict) &&
        m.buffers->is(PickleKind::kDict) && m.modules->is(PickleKind::kDict))
      return m;
  }
  return std::nullopt;
}

bool IsTensor(const PickleValue& v) {
  return v.is(PickleKind::kTensor) || v.is(PickleKind::kSubclass) || v.is(PickleKind::kUnreadable);
}

// "name" for a string, digits for a number; no value for what names nothing.
std::optional<std::string> KeyName(const PickleValue& key) {
  if (key.is(PickleKind::kString)) return std::string(key.text());
  if (key.is(PickleKind::kInt)) return std::to_string(key.integer());
  return std::nullopt;
}

struct Entry {
  std::string name;
  const PickleValue* value;
  bool numbered;  // the key of a dict is a number
};

// What a container or a record holds, each under its key, number or attribute's name.
std::vector<Entry> EntriesOf(const PickleValue& value) {
  std::vector<Entry> entries;
  const auto add_pairs = [&](const PickleValue& dict) {
    for (size_t i = 0; i < dict.pairs(); ++i)
      if (auto name = KeyName(dict.key(i)))
        entries.push_back({*std::move(name), &dict.value(i), dict.key(i).is(PickleKind::kInt)});
  };
  const auto add_items = [&](absl::Span<const PickleValue* const> items) {
    for (size_t i = 0; i < items.size(); ++i) entries.push_back({std::to_string(i), items[i], false});
  };
  if (value.is(PickleKind::kDict)) add_pairs(value);
  if (value.is(PickleKind::kList) || value.is(PickleKind::kTuple)) add_items(value.items());
  if (!value.is(PickleKind::kObject)) return entries;
  if (const PickleValue* content = value.content()) {
    content->is(PickleKind::kDict) ? add_pairs(*content) : add_items(content->items());
    return entries;
  }
  if (const auto module = ModuleOf(value)) add_pairs(*module->modules);
  for (const PickleValue* attributes : AttributesOf(value)) add_pairs(*attributes);
  if (entries.empty()) add_items(value.items().first(value.arguments()));  // a tuple with names
  return entries;
}

// Walks a checkpoint with objects in it. Circles lead through objects, and parts may be shared: what is met is counted.
class CheckpointWalk {
 public:
  explicit CheckpointWalk(const TorchCheckpoint& checkpoint) : checkpoint_(checkpoint), collector_(checkpoint) {}

  // The tensors of a container, an object or a module, by name.
  absl::Status AddEntries(const PickleValue& value) {
    if (const auto module = ModuleOf(value)) return AddModule(*module, "", 0);
    if (IsTensor(value) || value.array()) return AddTensor("0", value);
    for (const auto& [name, entry, numbered] : EntriesOf(value)) {
      if (IsTensor(*entry) || entry->array()) {
        if (absl::Status s = AddTensor(name, *entry); !s.ok()) return s;
      } else {
        // Weights may be packed with others in a tuple (torch's quantized layers): not to be lost without a word.
        std::set<const PickleValue*> seen;
        const PickleValue* unreadable = nullptr;
        const bool holds = Holds(*entry, seen, &unreadable, 0);
        if (!status_.ok()) return status_;
        if (unreadable)
          unreadable_.emplace_back(name, text::StrCat("it holds ", unreadable->text()));
        else if (holds)
          within_.push_back(name);
      }
    }
    return absl::OkStatus();
  }

  // Every tensor below `value`.
  absl::Status AddAll(const PickleValue& value, const std::string& path, int depth) {
    if (absl::Status s = Count(depth); !s.ok()) return s;
    if (IsTensor(value) || value.array()) return AddTensor(path.empty() ? "0" : path, value);
    if (value.is(PickleKind::kObject) && !seen_.insert(&value).second) return absl::OkStatus();
    if (const auto module = ModuleOf(value)) return AddModule(*module, path.empty() ? "" : path + ".", depth);
    const auto below = [&](const PickleValue& child, const std::string& key) {
      return AddAll(child, path.empty() ? key : text::StrCat(path, ".", key), depth + 1);
    };
    if (value.is(PickleKind::kDict)) {
      for (size_t i = 0; i < value.pairs(); ++i)
        if (absl::Status s = below(value.value(i), KeyName(value.key(i)).value_or(text::StrCat("#", i))); !s.ok())
          return s;
      return absl::OkStatus();
    }
    for (const auto& [name, entry, numbered] : EntriesOf(value))
      if (absl::Status s = below(*entry, name); !s.ok()) return s;
    return absl::OkStatus();
  }

  // The paths of values that hold tensors themselves, the outermost too (""): of dicts, lists, objects and modules.
  // With `arrays` NumPy's count. Numbers as keys are those of an optimizer's state, which is nobody's weights, and
  // lists beside tensors are parts of one (what is packed with it, hyperparameters).
  absl::Status FindCandidates(const PickleValue& value, const std::string& path, bool arrays, int depth,
                              std::vector<std::string>* found) {
    if (absl::Status s = Count(depth); !s.ok()) return s;
    if (ModuleOf(value)) {
      found->push_back(path);
      return absl::OkStatus();
    }
    if (value.is(PickleKind::kObject) && !searched_.insert(&value).second) return absl::OkStatus();
    bool tensors = depth == 0 && (IsTensor(value) || (arrays && value.array()));
    std::vector<std::string> within, of_lists;
    for (const auto& [name, entry, numbered] : EntriesOf(value)) {
      tensors |= IsTensor(*entry) || (arrays && entry->array());
      if (numbered) continue;
      const bool list = entry->is(PickleKind::kList) || entry->is(PickleKind::kTuple);
      if (absl::Status s = FindCandidates(*entry, path.empty() ? name : text::StrCat(path, ".", name), arrays,
                                          depth + 1, list ? &of_lists : &within);
          !s.ok())
        return s;
    }
    if (tensors) found->push_back(path);
    found->insert(found->end(), within.begin(), within.end());
    if (!tensors) found->insert(found->end(), of_lists.begin(), of_lists.end());
    return absl::OkStatus();
  }
  void SearchAgain() { searched_.clear(); }

  // The value that a path of keys joined by dots leads to; keys may hold dots themselves.
  const PickleValue* Follow(const PickleValue& value, std::string_view path, int depth = 0) {
    if (path.empty()) return &value;
    if (!Count(depth).ok()) return nullptr;
    for (const auto& [name, entry, numbered] : EntriesOf(value)) {
      std::string_view rest = path;
      if (name.empty() || !text::ConsumePrefix(&rest, name)) continue;
      if (rest.empty()) return entry;
      if (!text::ConsumePrefix(&rest, ".")) continue;
      if (const PickleValue* found = Follow(*entry, rest, depth + 1)) return found;
    }
    return nullptr;
  }

  bool empty() const { return collector_.found_.empty() && unreadable_.empty(); }

  // The outcome, with `taken` where a value was chosen unasked, and the candidates beside it.
  CheckpointTensors Finish(std::string_view taken, const std::vector<std::string>& candidates) {
    CheckpointTensors out;
    out.tensors = std::move(collector_.found_);
    out.unreadable = std::move(unreadable_);
    std::vector<std::string> parts;
    if (!taken.empty())
      parts.push_back(text::StrCat(
          "the tensors of '", taken, "' are taken",
          candidates.size() > 1 ? text::StrCat(", one of ", candidates.size(), " with tensors (--key names another)")
                                : ""));
    for (const auto& [type, count] : subclasses_)
      parts.push_back(text::StrCat(count, count == 1 ? " tensor of " : " tensors of ", type,
                                   count == 1 ? " is given as its parts" : " are given as their parts"));
    if (!within_.empty())
      parts.push_back(text::StrCat(within_.size(), within_.size() == 1 ? " value that holds" : " values that hold",
                                   " tensors within left out: ", Some(within_)));
    if (std::string records = RecordsNote(); !records.empty()) parts.push_back(std::move(records));
    out.note = text::Join(parts, "; ");
    return out;
  }

  static std::string Some(std::vector<std::string> names) {
    constexpr size_t kShown = 8;
    const bool more = names.size() > kShown;
    if (more) names.resize(kShown);
    return text::StrCat(text::Join(names, ", "), more ? ", …" : "");
  }

 private:
  static constexpr uint64_t kMostMet = 20'000'000, kTensor = 10;  // a tensor counts as so many values
  static constexpr int kMostDepth = 2000;

  const TorchCheckpoint& checkpoint_;
  Collector collector_;
  std::vector<std::pair<std::string, std::string>> unreadable_;
  std::vector<std::string> within_;  // of the entries, those that hold tensors and are none
  std::map<std::string, int> subclasses_;
  std::set<const PickleValue*> seen_, searched_, on_path_;
  uint64_t met_ = 0;
  absl::Status status_;

  absl::Status Count(int depth) {
    if (status_.ok() && ++met_ > kMostMet)
      status_ = absl::OutOfRangeError("objects that refer to each other are met more often than the limit");
    if (status_.ok() && depth > kMostDepth)
      status_ = absl::OutOfRangeError(text::StrCat("objects nest deeper than ", kMostDepth));
    return status_;
  }

  // Whether there are tensors below; the first that is not readable stops the search.
  bool Holds(const PickleValue& value, std::set<const PickleValue*>& seen, const PickleValue** unreadable, int depth) {
    if (!Count(depth).ok() || *unreadable) return false;
    if (value.is(PickleKind::kUnreadable)) *unreadable = &value;
    if (IsTensor(value)) return true;
    if (value.is(PickleKind::kObject) && (ModuleOf(value) || !seen.insert(&value).second))
      return ModuleOf(value).has_value();
    bool holds = false;
    for (const PickleValue* item : value.items()) holds |= Holds(*item, seen, unreadable, depth + 1);
    return holds;
  }

  absl::Status AddTensor(const std::string& name, const PickleValue& value) {
    met_ += kTensor;
    if (value.is(PickleKind::kUnreadable)) {
      unreadable_.emplace_back(name, value.text());
      return absl::OkStatus();
    }
    if (value.is(PickleKind::kSubclass)) return AddSubclass(name, value, 0);
    if (value.array()) return collector_.AddArray(name, value);
    return collector_.Add(name, *value.tensor());
  }

  absl::Status AddSubclass(const std::string& name, const PickleValue& value, int depth) {
    if (absl::Status s = Count(depth); !s.ok()) return s;
    const PickleValue& attributes = *value.items()[1];
    const std::string type = DottedName(value.text());
    if (const PickleValue* local = attributes.Find("_local_tensor"); local && attributes.Find("_spec")) {
      const auto bad = [&](std::string_view what) {
        unreadable_.emplace_back(name, std::string(what));
        return absl::OkStatus();
      };
      std::set<const PickleValue*> seen;
      if (!local->tensor()) return bad("a DTensor without a plain tensor of this rank");
      if (HoldsPartial(*attributes.Find("_spec"), seen, 0))
        return bad("a DTensor of partial sums, which other ranks have the rest of");
      const auto arguments = value.items()[0]->items();
      std::vector<int64_t> sizes;
      if (arguments.size() > 2)
        for (const PickleValue* size : arguments[2]->items()) sizes.push_back(size->integer());
      if (sizes != local->tensor()->sizes)
        return bad(text::StrCat("one rank's shard [", text::Join(local->tensor()->sizes, ","), "] of a DTensor [",
                                text::Join(sizes, ","), "]; torch.distributed.checkpoint saves all of them"));
      return collector_.Add(name, *local->tensor());
    }
    ++subclasses_[type];
    bool any = false;
    for (size_t i = 0; i < attributes.pairs(); ++i) {
      const PickleValue& part = attributes.value(i);
      if (!attributes.key(i).is(PickleKind::kString) || !IsTensor(part)) continue;
      any = true;
      const std::string part_name = text::StrCat(name, ".", attributes.key(i).text());
      if (absl::Status s =
              part.is(PickleKind::kSubclass) ? AddSubclass(part_name, part, depth + 1) : AddTensor(part_name, part);
          !s.ok())
        return s;
    }
    if (!any) unreadable_.emplace_back(name, text::StrCat("a tensor of the class ", type));
    return absl::OkStatus();
  }

  // Whether a DTensor's placements say that its values are to be summed (Partial, _NormPartial, …).
  bool HoldsPartial(const PickleValue& value, std::set<const PickleValue*>& seen, int depth) {
    if (!Count(depth).ok()) return true;
    if (value.is(PickleKind::kObject)) {
      if (text::Contains(value.text(), "Partial")) return true;
      if (!seen.insert(&value).second) return false;
    }
    return std::any_of(value.items().begin(), value.items().end(),
                       [&](const PickleValue* item) { return HoldsPartial(*item, seen, depth + 1); });
  }

  // As torch.nn.Module.state_dict() names them: parameters, buffers that are persistent, then the modules within. A
  // module that is there under two names gives its tensors under both.
  absl::Status AddModule(const ModuleState& module, const std::string& prefix, int depth) {
    if (absl::Status s = Count(depth); !s.ok()) return s;
    if (!on_path_.insert(module.attributes).second)
      return absl::InvalidArgumentError(text::StrCat("the module '", prefix, "' is within itself"));
    const PickleValue* transient = module.attributes->Find("_non_persistent_buffers_set");
    const auto is_transient = [&](const PickleValue& name) {
      return transient && std::any_of(transient->items().begin(), transient->items().end(), [&](const PickleValue* t) {
               return t->is(PickleKind::kString) && t->text() == name.text();
             });
    };
    for (const PickleValue* held : {module.parameters, module.buffers})
      for (size_t i = 0; i < held->pairs(); ++i) {
        const PickleValue &key = held->key(i), &value = held->value(i);
        if (value.is(PickleKind::kNone) || !key.is(PickleKind::kString) ||
            (held == module.buffers && is_transient(key)))
          continue;
        const std::string name = text::StrCat(prefix, key.text());
        if (IsTensor(value)) {
          if (absl::Status s = AddTensor(name, value); !s.ok()) return s;
        } else {
          unreadable_.emplace_back(
              name, text::StrCat("it is ", value.is(PickleKind::kObject) ? DottedName(value.text()) : "no tensor"));
        }
      }
    // Weights that torch's quantized layers keep packed in an object of C++.
    for (size_t i = 0; i < module.attributes->pairs(); ++i) {
      const PickleValue &key = module.attributes->key(i), &value = module.attributes->value(i);
      if (key.is(PickleKind::kString) && value.is(PickleKind::kObject) && value.text() == "torch ScriptObject")
        unreadable_.emplace_back(text::StrCat(prefix, key.text()), "packed weights of torch's quantized layers");
    }
    for (size_t i = 0; i < module.modules->pairs(); ++i) {
      const PickleValue& key = module.modules->key(i);
      const auto child = ModuleOf(module.modules->value(i));
      if (!child || !key.is(PickleKind::kString)) continue;
      if (absl::Status s = AddModule(*child, text::StrCat(prefix, key.text(), "."), depth + 1); !s.ok()) return s;
    }
    on_path_.erase(module.attributes);
    return absl::OkStatus();
  }

  // How many objects of which classes nothing was made of. Modules are read, and what arrays are described by belongs
  // to them.
  std::string RecordsNote() const {
    std::map<std::string_view, size_t> counts;
    size_t all = 0;
    for (const PickleValue& v : checkpoint_.object.values()) {
      if (!v.is(PickleKind::kObject) || v.text() == "numpy dtype" || ModuleOf(v)) continue;
      ++counts[v.text()];
      ++all;
    }
    if (all == 0) return "";
    std::vector<std::pair<size_t, std::string_view>> order;
    for (const auto& [name, count] : counts) order.emplace_back(count, name);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::string> shown;
    for (const auto& [count, name] : order) shown.push_back(text::StrCat(count, " ", DottedName(name)));
    return text::StrCat(all,
                        all == 1 ? " object that is no tensor passed over" : " objects that are no tensors passed over",
                        ", none of them made: ", Some(std::move(shown)));
  }
};

// Under these names training scripts and libraries keep a model's weights.
constexpr std::string_view kUsualNames[] = {
    "state_dict", "model_state_dict", "model",          "model_state", "module",     "net",
    "network",    "net_state_dict",   "weights",        "params",      "params_ema", "ema",
    "model_ema",  "ema_model",        "ema_state_dict", "state"};

absl::StatusOr<TorchCheckpoint> OpenWithRecords(io::Bytes archive) {
  TorchZipOptions options;
  options.unpickle.records = true;
  return Open(std::move(archive), options);
}

absl::Status CheckNames(const Named& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors)
    if (!names.insert(name).second)
      return absl::InvalidArgumentError(text::StrCat("two tensors are named '", name, "'"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointTensors> ReadCheckpoint(io::Bytes archive, std::string_view key) {
  auto checkpoint = OpenWithRecords(std::move(archive));
  if (!checkpoint.ok()) return checkpoint.status();
  const PickleValue& root = checkpoint->object.root();
  CheckpointWalk walk(*checkpoint);
  std::vector<std::string> candidates;
  if (absl::Status s = walk.FindCandidates(root, "", /*arrays=*/false, 0, &candidates); !s.ok()) return s;
  if (candidates.empty()) {
    walk.SearchAgain();
    if (absl::Status s = walk.FindCandidates(root, "", /*arrays=*/true, 0, &candidates); !s.ok()) return s;
  }
  const PickleValue* chosen = nullptr;
  std::string_view taken;
  if (!key.empty()) {
    chosen = walk.Follow(root, key == "." ? std::string_view() : key);
    if (chosen && key != "." && IsTensor(*chosen)) chosen = nullptr;
  } else if (candidates.size() == 1 && candidates[0].empty()) {
    chosen = &root;
  } else {
    // Tensors beside dicts of tensors (a state of random numbers, say) are hardly what is wanted.
    std::map<const PickleValue*, std::string_view> usual;  // one object may be there under two names
    for (const std::string& c : candidates)
      if (std::find(std::begin(kUsualNames), std::end(kUsualNames), c) != std::end(kUsualNames))
        usual.emplace(walk.Follow(root, c), c);
    if (usual.size() == 1) std::tie(chosen, taken) = *usual.begin();
  }
  if (chosen)
    if (absl::Status s = walk.AddEntries(*chosen); !s.ok()) return s;
  if (!walk.empty()) {
    CheckpointTensors out = walk.Finish(taken, candidates);
    if (absl::Status s = CheckNames(out.tensors); !s.ok()) return s;
    return out;
  }
  std::erase(candidates, "");
  return absl::InvalidArgumentError(text::StrCat(
      key.empty() ? "the checkpoint is no plain dict of tensors"
                  : text::StrCat("the checkpoint has no dict of tensors at '", key, "'"),
      candidates.empty() ? "" : text::StrCat("; --key names one of those within: ", CheckpointWalk::Some(candidates))));
}

absl::StatusOr<CheckpointTensors> ListCheckpoint(io::Bytes archive) {
  auto checkpoint = OpenWithRecords(std::move(archive));
  if (!checkpoint.ok()) return checkpoint.status();
  CheckpointWalk walk(*checkpoint);
  if (absl::Status s = walk.AddAll(checkpoint->object.root(), "", 0); !s.ok()) return s;
  return walk.Finish("", {});
}

namespace {

absl::Status AddLeaves(const PickleValue& value, Collector& c, std::vector<PickleLeaf>* out) {
  if (const PickleTensor* t = value.tensor()) {
    if (absl::Status s = c.Add("", *t); !s.ok()) return s;
    out->emplace_back(std::move(c.found_.back().second));
    c.found_.clear();
    return absl::OkStatus();
  }
  const bool dict = value.is(PickleKind::kDict);
  if (dict || value.is(PickleKind::kList) || value.is(PickleKind::kTuple)) {
    for (size_t i = 0; i < (dict ? value.pairs() : value.items().size()); ++i)
      if (absl::Status s = AddLeaves(dict ? value.value(i) : *value.items()[i], c, out); !s.ok()) return s;
    return absl::OkStatus();
  }
  switch (value.kind()) {
    case PickleKind::kInt: out->emplace_back(value.integer()); break;
    case PickleKind::kBool: out->emplace_back(value.boolean()); break;
    case PickleKind::kFloat: out->emplace_back(value.real()); break;
    default: out->emplace_back(); break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PickleLeaf>> ReadLeaves(io::Bytes archive) {
  auto checkpoint = OpenWithValues(std::move(archive));
  if (!checkpoint.ok()) return checkpoint.status();
  Collector c(*checkpoint);
  std::vector<PickleLeaf> leaves;
  if (absl::Status s = AddLeaves(checkpoint->object.root(), c, &leaves); !s.ok()) return s;
  return leaves;
}

absl::Status CheckPickle(io::Bytes archive) { return OpenWithValues(std::move(archive)).status(); }

absl::StatusOr<Named> ReadTensorDict(io::Bytes archive) {
  TorchZipOptions options;
  options.unpickle.inert_names.assign(std::begin(kWithoutValues), std::end(kWithoutValues));
  return Read(std::move(archive), options, /*nested=*/false);
}

absl::StatusOr<Named> ReadTensorSubclass(io::Bytes archive) {
  TorchZipOptions options;
  options.unpickle.inert_prefixes = {"torchao."};
  return Read(std::move(archive), options, /*nested=*/true);
}

}  // namespace slipway::importers
