// The restricted pickle machine, with and without the classes of tensor subclasses; what it gives is walked.
#include "importers/checkpoint/unpickler.h"

#include <set>

#include "tests/fuzz/target.h"

using namespace slipway;
using importers::PickleValue;

namespace {

// `records`: those that were walked, since circles lead through them; below one the depth counts anew.
uint64_t Walk(const PickleValue& v, int depth, std::set<const PickleValue*>& records) {
  fuzz::Promise(depth < 300, "values nest no deeper than the limit");
  if (v.is(importers::PickleKind::kObject)) {
    if (records.size() > 50 || !records.insert(&v).second) return 0;
    depth = 0;
  }
  uint64_t sum = v.text().size() + static_cast<uint64_t>(v.integer());
  for (char c : v.text()) sum += static_cast<uint8_t>(c);
  if (const auto* a = v.array()) fuzz::Promise(a->storage.bytes == v.text().size(), "an array has its bytes");
  if (const auto* t = v.tensor()) {
    fuzz::Promise(t->sizes.size() == t->strides.size(), "a stride for each size");
    for (int64_t s : t->sizes) fuzz::Promise(s >= 0, "a size is not negative");
    sum += t->storage.bytes;
  }
  if (depth < 50)  // shared values are met again and again
    for (const PickleValue* item : v.items().first(std::min<size_t>(v.items().size(), 20)))
      sum += Walk(*item, depth + 1, records);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (int names = 0; names < 3; ++names) {
    importers::UnpickleOptions options;
    options.max_values = 100'000;
    options.max_expanded = 1'000'000;
    if (names == 1) {
      options.inert_prefixes = {"torchao"};
    } else {
      options.records = names == 2;
      options.storage_bytes = [](std::string_view key) -> absl::StatusOr<uint64_t> {
        return key.size() == 1 ? absl::StatusOr<uint64_t>(4096) : absl::InvalidArgumentError("no such storage");
      };
    }
    auto pickle = importers::Unpickle({data, size}, options);
    fuzz::PromiseInputError(pickle.status());
    if (!pickle.ok()) continue;
    fuzz::Promise(pickle->consumed() <= size, "no more is read than there is");
    std::set<const PickleValue*> records;
    Walk(pickle->root(), 0, records);
  }
  return 0;
}
