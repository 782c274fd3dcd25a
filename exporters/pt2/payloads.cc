// The ranges that tensors address are merged per storage and element type; a tensor's place in its run follows.
#include "exporters/pt2/payloads.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace slipway::exporters {
namespace {

// Bytes [begin, end) of a storage.
struct Extent {
  int64_t begin = 0, end = 0;
};

// What a tensor addresses; ir::Validate() has found it inside its storage.
Extent ExtentOf(const ir::TensorRef& t) {
  if (t.numel() == 0) return {t.offset, t.offset};
  int64_t last = 0;
  for (size_t i = 0; i < t.sizes.size(); ++i) last += (t.sizes[i] - 1) * t.strides[i];
  return {t.offset, t.offset + (last + 1) * ir::ByteSize(t.dtype)};
}

absl::StatusOr<Payload> PayloadOf(const ir::TensorRef& t, Extent e) {
  Payload p;
  p.dtype = t.dtype;
  const ir::Storage& s = *t.storage;
  if (const io::Bytes* bytes = std::get_if<io::Bytes>(&s.bytes)) {
    p.bytes = bytes->Part(e.begin, e.end - e.begin);
    if (p.bytes.size() == s.size) p.crc32 = s.crc32;
    return p;
  }
  ir::TensorRef dense = t;  // a rule fills a tensor of its own
  dense.offset = 0;
  dense.sizes = {(e.end - e.begin) / ir::ByteSize(t.dtype)};
  dense.strides = {1};
  auto bytes = ir::ReadDense(dense);
  if (!bytes.ok()) return bytes.status();
  p.bytes = io::Bytes::Of(*std::move(bytes));
  return p;
}

}  // namespace

absl::StatusOr<PlacedTensors> PlaceTensors(const std::vector<NamedTensor>& tensors) {
  PlacedTensors out;
  out.places.resize(tensors.size());
  // Tensors by storage and type, the groups in order of their first tensor.
  std::map<std::pair<const ir::Storage*, ir::DType>, size_t> group_of;
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ir::TensorRef& t = tensors[i].tensor;
    if (ir::ByteSize(t.dtype) == 0)
      return absl::UnimplementedError(text::StrCat("'", tensors[i].name, "': elements of type ", ir::Name(t.dtype)));
    if (absl::Status s = ir::Validate(t); !s.ok()) return s;
    auto [it, fresh] = group_of.emplace(std::pair(t.storage.get(), t.dtype), groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(i);
  }
  struct Run {
    Extent extent;
    std::vector<size_t> members;
  };
  std::vector<Run> runs;
  for (std::vector<size_t>& group : groups) {
    const int64_t item = ir::ByteSize(tensors[group[0]].tensor.dtype);
    std::stable_sort(group.begin(), group.end(), [&](size_t a, size_t b) {
      return ExtentOf(tensors[a].tensor).begin < ExtentOf(tensors[b].tensor).begin;
    });
    bool first = true;
    for (size_t i : group) {
      const Extent e = ExtentOf(tensors[i].tensor);
      const bool joins = !first && e.begin < runs.back().extent.end && (e.begin - runs.back().extent.begin) % item == 0;
      if (!joins) runs.push_back({e, {}});
      runs.back().extent.end = std::max(runs.back().extent.end, e.end);
      runs.back().members.push_back(i);
      first = false;
    }
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return *std::min_element(a.members.begin(), a.members.end()) <
           *std::min_element(b.members.begin(), b.members.end());
  });
  for (const Run& run : runs) {
    for (size_t i : run.members) {
      const ir::TensorRef& t = tensors[i].tensor;
      out.places[i] = {out.payloads.size(), (t.offset - run.extent.begin) / ir::ByteSize(t.dtype)};
    }
    auto payload = PayloadOf(tensors[run.members[0]].tensor, run.extent);
    if (!payload.ok())
      return absl::Status(payload.status().code(),
                          text::StrCat("'", tensors[run.members[0]].name, "': ", payload.status().message()));
    out.payloads.push_back(*std::move(payload));
  }
  return out;
}

}  // namespace slipway::exporters
