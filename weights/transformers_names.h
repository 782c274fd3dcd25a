// Under which names transformers looks for tensors. Since version 5 it renames them while it loads, and fuses or splits
// some: a quantized weight loads only where its metadata has the name that the model class gives it, and not at all
// where the class makes another tensor of it and others. schemas/transformers_names.txt, which
// scripts/gen_transformers_names.py makes from the installed transformers, holds the rules by model class.
#ifndef SLIPWAY_WEIGHTS_TRANSFORMERS_NAMES_H_
#define SLIPWAY_WEIGHTS_TRANSFORMERS_NAMES_H_

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace slipway::weights {

class TransformersNames {
 public:
  // The names of the model that config.json is of: of the first of its `architectures`, or of its `model_type` alone.
  // nullopt where the table has neither, or where rules cannot be stated. InvalidArgument for what is no object.
  static absl::StatusOr<std::optional<TransformersNames>> For(std::string_view config_json);

  struct Loaded {
    std::string name;  // in the model class; of a tensor that becomes several, the first
    // Whether its values are changed while it is loaded: fused with others, split, transposed.
    bool converted = false;
  };
  Loaded Load(std::string_view name) const;
  // Whether a name as Load() gives it is of a weight of two dimensions that is no linear layer's: a router that is a
  // module of its own, an embedding by an odd name.
  bool IsOther(std::string_view loaded) const;

  const std::string& model_class() const { return class_; }
  // What the rules are of: "transformers 5.24.0".
  static std::string_view Version();

 private:
  struct Rule;
  TransformersNames() = default;

  std::string class_, prefix_;
  bool base_inside_ = false;           // the base model is a part called `prefix_`
  std::vector<std::string> children_;  // of the base model
  std::vector<std::shared_ptr<const Rule>> rules_;
  std::set<std::string, std::less<>> others_;  // modules, numbers in their paths as #
};

}  // namespace slipway::weights

#endif  // SLIPWAY_WEIGHTS_TRANSFORMERS_NAMES_H_
