// Scales, zero points and integers of the values that a recipe quantizes: the float program runs on calibration data,
// and observers look at its activations and weights.
#ifndef SLIPWAY_DRIVER_QUANTIZE_PT2E_VALUES_H_
#define SLIPWAY_DRIVER_QUANTIZE_PT2E_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "driver/convert/options.h"
#include "driver/quantize/samples.h"
#include "driver/quantize/scratch_tensors.h"
#include "ir/graph.h"
#include "quantizer/pt2e/annotate.h"
#include "quantizer/pt2e/observers.h"
#include "quantizer/pt2e/recipe.h"
#include "quantizer/pt2e/rewrite.h"
#include "quantizer/quantize.h"

namespace slipway::driver {

// What calibration data are asked for with.
inline constexpr std::string_view kGiveSamples =
    "--calibration FILE.safetensors, or --calibration-images, gives inputs to run the program on";

// A weight's integers, scales and zero points as the program stores them.
uint64_t BytesByRecipe(const quantizer::pt2e::Recipe& recipe, const ir::TensorRef& weight);

// Of one functional program, which must not change between calls. What is known of a value is kept, so that several
// annotations of the program cost little more than the first.
class Pt2eValues {
 public:
  // `samples` may be null where a dynamic recipe has nothing to observe. Integers of constants go to `tensors`,
  // and can be read. All must outlive this.
  Pt2eValues(const ir::Program& p, const quantizer::pt2e::Recipe& recipe, const ConvertOptions& o,
             const Samples* samples, ScratchTensors& tensors)
      : p_(p), recipe_(recipe), options_(o), samples_(samples), tensors_(tensors), constants_(p) {}

  // What each annotated value becomes, runs of the program included. A usage error where samples are missing or of no
  // use, InvalidArgument with the place for activations that are not finite or were never computed.
  absl::StatusOr<quantizer::pt2e::QuantizedValues> Of(const quantizer::pt2e::Annotations& a);

  // What the integers of stored weights lose, by the weight's name.
  const std::map<std::string, quantizer::Error>& errors() const { return errors_; }

 private:
  // Values that share a scale, in the order of a run.
  using Group = std::vector<ir::Value*>;

  std::string PlaceOf(const ir::Value* v) const;
  absl::Status EvaluateConstants(absl::Span<const Group> groups, absl::Span<ir::Value* const> weights);
  const ir::TensorRef& Constant(const ir::Value* v) const;
  absl::Status Observe(absl::Span<const Group> groups, absl::Span<ir::Value* const> weights);
  absl::Status ObserveAtOnce(absl::Span<const Group> groups, absl::Span<ir::Value* const> weights);
  std::map<std::string, int64_t, std::less<>> LargestSizes() const;
  int64_t ChannelsOf(const ir::TensorRef& t) const;
  absl::StatusOr<ir::TensorRef> Codes(const ir::TensorRef& t, const std::vector<float>& scales, int64_t zero_point,
                                      const quantizer::pt2e::Integers& integers, quantizer::ErrorSums* error);
  absl::StatusOr<quantizer::pt2e::Quantized> QuantizeConstantWeight(ir::Value* w);

  const ir::Program& p_;
  const quantizer::pt2e::Recipe& recipe_;
  const ConvertOptions& options_;
  const Samples* samples_;
  ScratchTensors& tensors_;
  const quantizer::pt2e::ConstantValues constants_;
  absl::flat_hash_map<const ir::Value*, ir::TensorRef> computed_;    // of weights alone
  std::map<Group, std::vector<quantizer::pt2e::Quantized>> groups_;  // activations: one each
  absl::flat_hash_map<const ir::Value*, quantizer::pt2e::Quantized> weights_;
  std::map<std::string, quantizer::Error> errors_;
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_PT2E_VALUES_H_
