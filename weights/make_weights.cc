// Casts and gathers, a step at a time, into a scratch file.
#include "weights/make_weights.h"

#include <algorithm>
#include <memory>

#include "io/mapped_file.h"
#include "io/scratch_file.h"
#include "weights/cast.h"

namespace slipway::weights {
namespace {

constexpr int64_t kStep = int64_t{1} << 16;  // elements: stays in the processor's cache

absl::Status MakeOne(const WeightToMake& w, io::ScratchFile& out) {
  const CastFunction cast = FindCast(w.from.dtype, w.to);
  if (!cast && w.from.dtype != w.to) return absl::InternalError("no cast between these types");
  auto reader = ir::ElementReader::Open(w.from);
  if (!reader.ok()) return reader.status();
  std::vector<uint8_t> block;
  while (reader->left() > 0) {
    absl::Span<const uint8_t> elements = reader->NextDense(std::min(kStep, reader->step()));
    if (cast) {
      const uint64_t count = elements.size() / static_cast<uint64_t>(reader->item());
      block.resize(count * static_cast<uint64_t>(ir::ByteSize(w.to)));
      cast(elements.data(), block.data(), count);
      elements = block;
    }
    if (absl::Status s = out.Append(elements); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeWeights(std::vector<WeightToMake>& weights, const std::string& folder) {
  if (weights.empty()) return absl::OkStatus();
  auto scratch = io::ScratchFile::Make(folder);
  if (!scratch.ok()) return scratch.status();
  for (const WeightToMake& w : weights)
    if (absl::Status s = MakeOne(w, **scratch); !s.ok()) return s;
  auto file = (*scratch)->Map();
  if (!file.ok()) return file.status();
  uint64_t at = 0;
  for (WeightToMake& w : weights) {
    const uint64_t size = static_cast<uint64_t>((w.from.numel() * ir::BitSize(w.to) + 7) / 8);
    auto storage = std::make_shared<ir::Storage>();
    storage->bytes = io::Bytes(io::FileRange{*file, at, size});
    storage->size = size;
    w.made = {std::move(storage), w.to, w.from.sizes, ir::ContiguousStrides(w.from.sizes), 0};
    at += size;
  }
  return absl::OkStatus();
}

}  // namespace slipway::weights
