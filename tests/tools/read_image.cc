// Reads an image as calibration does and writes its RGB, so that tests can compare with other readers and resizers.
//
//   read_image FILE                                      "WIDTH HEIGHT\n", then the pixels
//   read_image FILE WIDTH HEIGHT [LEFT TOP WIDTH HEIGHT] the same of the image resized, or of a window of that
#include <cstdio>
#include <cstdlib>
#include <string>

#include "importers/image/image.h"
#include "io/mapped_file.h"

namespace {

int Fail(const absl::Status& s) {
  std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace slipway;
  if (argc != 2 && argc != 4 && argc != 8) return 2;
  const auto file = io::MappedFile::Open(argv[1]);
  if (!file.ok()) return Fail(file.status());
  auto image = importers::ReadImage((*file)->data());
  if (!image.ok()) return Fail(image.status());
  if (argc > 2) {
    int64_t n[6] = {};
    for (int i = 2; i < argc; ++i) n[i - 2] = std::atoll(argv[i]);
    importers::Window window{0, 0, n[0], n[1]};
    if (argc == 8) window = {n[2], n[3], n[4], n[5]};
    *image = importers::Resize(*image, n[0], n[1], window);
  }
  std::printf("%lld %lld\n", static_cast<long long>(image->width), static_cast<long long>(image->height));
  std::fwrite(image->rgb.data(), 1, image->rgb.size(), stdout);
}
