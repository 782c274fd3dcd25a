// PNG and JPEG: what is decoded has the pixels that its sizes say, and can be resized.
#include "importers/image/image.h"
#include "tests/fuzz/target.h"

using namespace slipway;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto image = importers::ReadImage({data, size});
  fuzz::PromiseInputError(image.status());
  if (!image.ok()) return 0;
  fuzz::Promise(image->width > 0 && image->height > 0 &&
                    image->rgb.size() == static_cast<size_t>(3 * image->width * image->height),
                "an image has three bytes a pixel");
  if (image->rgb.size() > size_t{1} << 20) return 0;
  const importers::Image small = importers::Resize(*image, 5, 9, {1, 2, 3, 4});
  fuzz::Promise(small.width == 3 && small.height == 4 && small.rgb.size() == 36, "a window has its sizes");
  return 0;
}
