// The header is untrusted JSON of untrusted length: names, dtypes, shapes and offsets are checked against each other
// and against the file's size, and the data must be covered without gaps or overlaps, as the format asks.
#include "importers/safetensors/safetensors.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "importers/json.h"

namespace slipway::importers {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

absl::Status BadSafetensors(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(text::StrCat(path, ": ", what));
}

uint64_t HeaderLength(absl::Span<const uint8_t> data) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | data[i];
  return length;
}

}  // namespace

bool LooksLikeSafetensors(absl::Span<const uint8_t> file) {
  if (file.size() < 10) return false;
  const uint64_t length = HeaderLength(file);
  if (length < 2 || length > kMaxHeader || length > file.size() - 8 || file[8] != '{') return false;
  const uint8_t last = file[8 + length - 1];  // spaces may follow the object
  return last == '}' || last == ' ';
}

absl::StatusOr<ir::TensorSet> ReadSafetensors(const std::shared_ptr<io::MappedFile>& file, uint64_t start) {
  const std::string& path = file->path();
  absl::Span<const uint8_t> data = file->data().subspan(start);
  if (data.size() < 8) return BadSafetensors(path, "shorter than a safetensors header");
  const uint64_t length = HeaderLength(data);
  if (length > kMaxHeader)
    return BadSafetensors(path, text::StrCat("header of ", length, " bytes (limit ", kMaxHeader, ")"));
  if (length > data.size() - 8)
    return BadSafetensors(path, text::StrCat("header of ", length, " bytes runs past the end"));
  const uint64_t base = 8 + length, room = data.size() - base;
  auto doc = json::Document::Parse({reinterpret_cast<const char*>(data.data()) + 8, length});
  if (!doc.ok()) return BadSafetensors(path, std::string(doc.status().message()));
  auto members = doc->root().AsObject();
  if (!members.ok()) return BadSafetensors(path, std::string(members.status().message()));

  ir::TensorSet set;
  auto storage = std::make_shared<ir::Storage>();
  storage->size = room;
  storage->bytes = io::Bytes(io::FileRange{file, start + base, room});
  std::vector<std::pair<uint64_t, uint64_t>> extents;
  for (const json::Member& m : *members) {
    std::string name(m.key);
    auto bad = [&](std::string_view what) { return BadSafetensors(path, text::StrCat("tensor '", name, "': ", what)); };
    if (name == "__metadata__") {
      auto entries = m.value.AsObject();
      if (!entries.ok()) return BadSafetensors(path, "__metadata__ is not an object");
      for (const json::Member& e : *entries) {
        auto v = e.value.AsString();
        if (!v.ok()) return BadSafetensors(path, "__metadata__ holds something that is not a string");
        set.metadata[std::string(e.key)] = std::string(*v);
      }
      continue;
    }
    const json::Value *dtype = m.value.Find("dtype"), *shape = m.value.Find("shape"),
                      *offsets = m.value.Find("data_offsets");
    if (!dtype || !dtype->is_string() || !shape || !shape->is_array() || !offsets || !offsets->is_array())
      return bad("dtype, shape or data_offsets is missing");
    auto t = ir::DTypeFromSafetensors(*dtype->AsString());
    if (!t) return absl::UnimplementedError(text::StrCat(path, ": tensor '", name, "': dtype ", *dtype->AsString()));
    ir::TensorRef ref;
    ref.dtype = *t;
    const auto sizes = shape->AsArray();
    for (const json::Value& s : *sizes) {
      auto n = s.AsInt();
      if (!n.ok() || *n < 0) return bad("a size is not a natural number");
      ref.sizes.push_back(*n);
    }
    auto ends = *offsets->AsArray();
    if (ends.size() != 2 || !ends[0].is_int() || !ends[1].is_int()) return bad("data_offsets is not a pair");
    int64_t begin = *ends[0].AsInt(), end = *ends[1].AsInt();
    if (begin < 0 || end < begin || static_cast<uint64_t>(end) > room) return bad("data_offsets lie outside the file");
    ref.storage = storage;
    ref.offset = begin;
    ref.strides = ir::ContiguousStrides(ref.sizes);
    if (absl::Status s = ir::Validate(ref); !s.ok()) return bad(text::FromAbsl(s.message()));
    if (ref.numel() * ir::BitSize(ref.dtype) % 8 != 0) return bad("it ends within a byte");
    if (ref.nbytes() != end - begin) return bad(text::StrCat("takes ", ref.nbytes(), " bytes and has ", end - begin));
    extents.emplace_back(begin, end);
    set.tensors.emplace(std::move(name), std::move(ref));
  }
  std::sort(extents.begin(), extents.end());
  uint64_t at = 0;
  for (auto [begin, end] : extents) {
    if (begin != at) return BadSafetensors(path, text::StrCat("tensors overlap or leave a hole at byte ", base + at));
    at = end;
  }
  if (at != room) return BadSafetensors(path, text::StrCat(room - at, " bytes after the last tensor"));
  return set;
}

}  // namespace slipway::importers
