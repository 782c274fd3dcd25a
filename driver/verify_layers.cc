// stub
#include "driver/verify_layers.h"
namespace slipway::driver {
absl::StatusOr<VerifyLayers> CompareLayers(const VerifyModel&, const VerifyModel&, const Tensors&, const VerifyOptions&) {
  return absl::UnimplementedError("--layers");
}
}
