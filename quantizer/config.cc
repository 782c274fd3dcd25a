// Reading configurations.
#include "quantizer/config.h"

namespace slipway::quantizer {}
