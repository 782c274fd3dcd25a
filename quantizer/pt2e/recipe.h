// What torchao's PT2E quantizers are asked for, as one value: which of the two, and how numbers become integers. They
// quantize whole programs, activations and weights of convolutions too, and so are no quantizer::Config, which is about
// one weight.
#ifndef SLIPWAY_QUANTIZER_PT2E_RECIPE_H_
#define SLIPWAY_QUANTIZER_PT2E_RECIPE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "quantizer/config.h"

namespace slipway::quantizer::pt2e {

// The integers that numbers become.
struct Integers {
  ir::DType dtype;
  int64_t low, high;
};

struct Recipe {
  enum class Quantizer : uint8_t { kX86, kXnnpack };
  enum class Observer : uint8_t { kHistogram, kMinMax, kMovingAverage };

  Quantizer quantizer = Quantizer::kX86;  // X86InductorQuantizer, XNNPACKQuantizer
  Observer observer = Observer::kHistogram;
  bool per_channel = true;    // scales of weights
  bool reduce_range = false;  // activations of x86 have 7 bits
  bool dynamic = false;       // each run makes the scales of its activations; nothing is observed
  // Layers are known by their operators alone; false: as in torchao by the module or function of Python that the
  // program says they came from.
  bool by_operator = false;

  Integers activations() const;
  Integers weights() const;
};

// Whether a configuration's name is one of a recipe; what comes behind it may still be wrong.
bool IsRecipe(std::string_view name);

// pt2e-x86[:per-tensor,reduce-range,dynamic,observer=histogram|min-max|moving-average,match=modules|operators] and
// pt2e-xnnpack[:per-channel,observer=…,match=…]. InvalidArgument names all that is wrong.
absl::StatusOr<Recipe> ParseRecipe(std::string_view text);

// As short as people write it; ParseRecipe() reads it back.
std::string ShortName(const Recipe& r);

// For help texts and docs/quantize.md.
std::vector<ShortNameRow> RecipeNames();

}  // namespace slipway::quantizer::pt2e

#endif  // SLIPWAY_QUANTIZER_PT2E_RECIPE_H_
