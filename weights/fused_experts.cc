// Names alone decide which tensors belong together, sizes and types whether they can: a fused tensor that is not the
// program's after all is refused with all others that do not fit.
#include "weights/fused_experts.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/text.h"

namespace slipway::weights {
namespace {

constexpr std::string_view kExperts = ".experts.", kWeight = ".weight";

// A fused weight, and the names that checkpoints have for what lies one below the other in it.
struct Fusion {
  std::string_view fused;
  std::vector<std::string_view> parts;
};

const std::vector<Fusion>& Fusions() {
  static const auto* const fusions = new std::vector<Fusion>{
      {"gate_up_proj", {"gate_proj", "up_proj"}},
      {"gate_up_proj", {"w1", "w3"}},
      {"gate_up_proj", {"fc1", "fc3"}},
      {"up_proj", {"up_proj"}},
      {"down_proj", {"down_proj"}},
      {"down_proj", {"w2"}},
      {"down_proj", {"fc2"}},
  };
  return *fusions;
}

// "a.experts.7.w1.weight" as "a.experts.", 7 and "w1".
struct ExpertName {
  std::string_view module, part;
  uint32_t number = 0;
};

std::optional<ExpertName> ParseExpertName(std::string_view name) {
  const size_t at = name.rfind(kExperts);
  if (at == name.npos || !name.ends_with(kWeight)) return std::nullopt;
  ExpertName out{name.substr(0, at + kExperts.size()), name.substr(at + kExperts.size()), 0};
  out.part.remove_suffix(kWeight.size());
  const size_t dot = out.part.find('.');
  if (dot == out.part.npos) return std::nullopt;
  const std::string_view number = out.part.substr(0, dot);
  out.part.remove_prefix(dot + 1);
  if (!absl::SimpleAtoi(text::ToAbsl(number), &out.number) || text::StrCat(out.number) != number) return std::nullopt;
  return out;
}

using ExpertNames = std::map<uint32_t, std::string>;  // of the experts' tensors, by number

// A matrix as the box at [expert, row, 0] of the fused tensor.
void AddPieces(const ir::ShardedTensor& matrix, int64_t expert, int64_t row, ir::ShardedTensor* fused) {
  for (ir::Piece piece : matrix.pieces) {
    piece.tensor.sizes.insert(piece.tensor.sizes.begin(), 1);
    piece.tensor.strides.insert(piece.tensor.strides.begin(), 0);
    piece.offsets[0] += row;
    piece.offsets.insert(piece.offsets.begin(), expert);
    fused->pieces.push_back(std::move(piece));
  }
}

// All experts' tensors of each part in one; nullopt where they do not make up a whole.
std::optional<ir::ShardedTensor> Fused(const GivenTensors& given, const std::vector<const ExpertNames*>& parts) {
  ir::ShardedTensor out;
  const size_t experts = parts[0]->size();
  int64_t row = 0;
  for (const ExpertNames* names : parts) {
    const ir::ShardedTensor& first = given.at(names->begin()->second);
    if (names->size() != experts || names->rbegin()->first != experts - 1 || first.sizes.size() != 2)
      return std::nullopt;
    if (names == parts[0]) {
      out.dtype = first.dtype;
      out.sizes = {static_cast<int64_t>(experts), 0, first.sizes[1]};
    }
    for (const auto& [expert, name] : *names) {
      const ir::ShardedTensor& t = given.at(name);
      if (t.derived || t.dtype != out.dtype || t.sizes != first.sizes || t.sizes[1] != out.sizes[2])
        return std::nullopt;
      AddPieces(t, expert, row, &out);
    }
    if (__builtin_add_overflow(row, first.sizes[0], &row)) return std::nullopt;
  }
  out.sizes[1] = row;
  return Validate(out).ok() ? std::optional(std::move(out)) : std::nullopt;
}

bool HasFused(const ir::Program& p, std::string_view fused) {
  const std::string end = text::StrCat(kExperts, fused);
  return std::any_of(p.input_specs.begin(), p.input_specs.end(),
                     [&](const ir::InputSpec& s) { return s.is_weight() && s.target.ends_with(end); });
}

}  // namespace

void FuseExperts(const ir::Program& p, GivenTensors* given, std::vector<std::string>* notes) {
  std::map<std::string, std::map<std::string, ExpertNames, std::less<>>> modules;  // by module and part
  for (const auto& [name, t] : *given)
    if (const auto e = ParseExpertName(name)) modules[std::string(e->module)][std::string(e->part)][e->number] = name;
  size_t taken = 0, made = 0;
  for (const Fusion& f : Fusions()) {
    if (modules.empty() || !HasFused(p, f.fused)) continue;
    for (auto& [module, parts] : modules) {
      const std::string name = text::StrCat(module, f.fused);
      std::vector<const ExpertNames*> names;
      for (std::string_view part : f.parts)
        if (const auto it = parts.find(part); it != parts.end()) names.push_back(&it->second);
      if (names.size() != f.parts.size() || given->contains(name)) continue;
      auto fused = Fused(*given, names);
      if (!fused) continue;
      for (const ExpertNames* each : names) {
        taken += each->size();
        for (const auto& [number, key] : *each) given->erase(key);
      }
      for (std::string_view part : f.parts) parts.erase(parts.find(part));
      given->emplace(name, *std::move(fused));
      ++made;
    }
  }
  if (made > 0) notes->push_back(text::StrCat("--weights: ", taken, " tensors of experts are fused into ", made));
}

}  // namespace slipway::weights
