// Which decoder a file is for follows from its first bytes. Names of files are often wrong.
#include "importers/image/image.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "base/text.h"
#include "importers/image/decode.h"

namespace slipway::importers {

absl::Status CheckSizes(uint64_t width, uint64_t height) {
  if (width == 0 || height == 0) return absl::InvalidArgumentError("an image without pixels");
  if (height > static_cast<uint64_t>(kMostPixels) / width)
    return absl::OutOfRangeError(
        text::StrCat("an image of ", width, "x", height, " pixels; up to ", kMostPixels, " are read"));
  return absl::OkStatus();
}

absl::StatusOr<Image> ReadImage(absl::Span<const uint8_t> file) {
  static constexpr uint8_t kPng[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, kJpeg[] = {0xff, 0xd8, 0xff};
  const auto begins = [&](absl::Span<const uint8_t> with) {
    return file.size() >= with.size() && std::equal(with.begin(), with.end(), file.begin());
  };
  if (begins(kPng)) return ReadPng(file);
  if (begins(kJpeg)) return ReadJpeg(file);
  return absl::InvalidArgumentError("neither a PNG nor a JPEG file");
}

}  // namespace slipway::importers
