// The two decoders behind ReadImage(), and what they check alike.
#ifndef SLIPWAY_IMPORTERS_IMAGE_DECODE_H_
#define SLIPWAY_IMPORTERS_IMAGE_DECODE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "importers/image/image.h"

namespace slipway::importers {

absl::StatusOr<Image> ReadPng(absl::Span<const uint8_t> file);
absl::StatusOr<Image> ReadJpeg(absl::Span<const uint8_t> file);

// OutOfRange above kMostPixels, InvalidArgument for an image without pixels.
absl::Status CheckSizes(uint64_t width, uint64_t height);

}  // namespace slipway::importers

#endif  // SLIPWAY_IMPORTERS_IMAGE_DECODE_H_
