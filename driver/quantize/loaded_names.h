// What transformers makes of the names of a quantized folder's weights, and which of them it would not find quantized.
#ifndef SLIPWAY_DRIVER_QUANTIZE_LOADED_NAMES_H_
#define SLIPWAY_DRIVER_QUANTIZE_LOADED_NAMES_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "driver/convert/options.h"
#include "weights/transformers_names.h"

namespace slipway::driver {

class LoadedNames {
 public:
  // As --names says. Unimplemented where it wants transformers' and they are not known; a line where nothing was said
  // and a folder's model is not known.
  static absl::StatusOr<LoadedNames> Make(const ConvertOptions& o, std::string_view config_json,
                                          std::vector<std::string>* lines);

  // The weight's name in the model class; its own where names are the file's.
  std::string Of(const std::string& name) const;
  // Whether the weight `name`, of two dimensions, is no linear layer's in the model class.
  bool IsOther(const std::string& name) const;
  // Why the weight `name` stays in float, since transformers would not find it quantized; "" where it does. `has` tells
  // whether the checkpoint has a tensor of a name.
  std::string WhyNotLoaded(const std::string& name, const std::function<bool(const std::string&)>& has) const;
  // Unimplemented, saying what to do, where such weights are to be quantized all the same.
  absl::Status Check(const std::vector<std::string>& names, const std::function<bool(const std::string&)>& has) const;

 private:
  std::optional<weights::TransformersNames> names_;
};

}  // namespace slipway::driver

#endif  // SLIPWAY_DRIVER_QUANTIZE_LOADED_NAMES_H_
