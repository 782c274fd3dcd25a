// Photographs as calibration takes them: PNG and JPEG files become RGB of 8 bits, and RGB of another size, with the
// numbers of Pillow's `convert("RGB")` and `resize(…, BILINEAR)`, which most training code prepares images with.
#ifndef SLIPWAY_IMPORTERS_IMAGE_IMAGE_H_
#define SLIPWAY_IMPORTERS_IMAGE_IMAGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace slipway::importers {

// Rows of pixels from the top, three bytes each.
struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

// The most pixels that an image may have: 200 MB of RGB.
inline constexpr int64_t kMostPixels = int64_t{1} << 26;

// Decodes a file that begins as PNG or JPEG do, whatever its name. Palettes, grey, CMYK (of Adobe's kind) and 16 bits a
// channel become RGB of 8 bits, transparency is dropped, orientation and color profiles are not applied: as in Pillow.
//
// InvalidArgument for another file and one that is damaged or cut off, Unimplemented for grey PNG of 16 bits, whose
// numbers Pillow clips, and for other numbers of channels, OutOfRange above kMostPixels. Nothing is allocated for
// pixels that a file of its length cannot hold.
absl::StatusOr<Image> ReadImage(absl::Span<const uint8_t> file);

// A part of a larger image.
struct Window {
  int64_t left, top, width, height;
};

// The window of the image resized to `width` x `height`: bilinear with antialiasing, in Pillow's fixed-point
// arithmetic, first along rows, then along columns, to the bit as Pillow 12. (13 goes along columns first where the
// height shrinks much more than the width, which changes some bytes by one.) All sizes are at least 1, and the window
// lies within.
Image Resize(const Image& image, int64_t width, int64_t height, const Window& window);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_IMAGE_IMAGE_H_
