// JPEG by libjpeg, with its default settings, which are Pillow's. Its errors leave by longjmp, as libpng's (png.cc),
// and damage is a warning to it, behind which it makes pixels up: here it is an error.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

// clang-format off: jpeglib.h needs <cstdio>, and jerror.h needs jpeglib.h
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "base/text.h"
#include "importers/image/decode.h"

namespace slipway::importers {
namespace {

// A progressive file refines its pixels in scans, each of which costs as much as all pixels do.
constexpr int kMostScans = 500;

struct JpegReader {
  explicit JpegReader(absl::Span<const uint8_t> file) : file(file) {}
  ~JpegReader() {
    if (created) jpeg_destroy_decompress(&jpeg);
  }
  JpegReader(const JpegReader&) = delete;

  absl::Span<const uint8_t> file;
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf jump;
  bool created = false;
  char error[JMSG_LENGTH_MAX] = "";
  Image image;
  std::vector<uint8_t> row;
};

[[noreturn]] void Fail(j_common_ptr jpeg) {
  auto* r = static_cast<JpegReader*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, r->error);
  std::longjmp(r->jump, 1);
}

void Warn(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {  // nothing of the pixels is lost
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR: return;
    default: Fail(jpeg);
  }
}

void CheckScans(j_common_ptr jpeg) {
  auto* r = static_cast<JpegReader*>(jpeg->client_data);
  if (r->jpeg.input_scan_number <= kMostScans) return;
  std::snprintf(r->error, sizeof r->error, "more than %d scans", kMostScans);
  std::longjmp(r->jump, 1);
}

// False where libjpeg found an error, which is then in `error`.
bool ReadHeader(JpegReader& r) {
  if (setjmp(r.jump)) return false;
  jpeg_create_decompress(&r.jpeg);
  r.created = true;
  r.progress.progress_monitor = CheckScans;
  r.jpeg.progress = &r.progress;
  jpeg_mem_src(&r.jpeg, r.file.data(), r.file.size());
  jpeg_read_header(&r.jpeg, TRUE);
  return true;
}

// x * y / 255, rounded.
uint8_t ProductOf(int x, int y) { return static_cast<uint8_t>((x * y + 127) / 255); }

// One row of `row` to RGB.
void ToRgb(const JpegReader& r, uint8_t* to) {
  const uint8_t* x = r.row.data();
  for (int64_t i = 0; i < r.image.width; ++i, to += 3, x += r.jpeg.output_components)
    switch (r.jpeg.output_components) {
      case 1: to[0] = to[1] = to[2] = x[0]; break;
      case 3: std::copy(x, x + 3, to); break;
      default:  // C, M, Y and K of 255 - x: Adobe's
        for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(std::max(0, x[3] - ProductOf(255 - x[c], x[3])));
    }
}

bool ReadPixels(JpegReader& r) {
  if (setjmp(r.jump)) return false;
  const int channels = r.jpeg.num_components;
  r.jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_start_decompress(&r.jpeg);
  while (r.jpeg.output_scanline < r.jpeg.output_height) {
    const size_t y = r.jpeg.output_scanline;
    JSAMPROW row = r.row.data();
    jpeg_read_scanlines(&r.jpeg, &row, 1);
    ToRgb(r, r.image.rgb.data() + size_t{3} * r.jpeg.output_width * y);
  }
  jpeg_finish_decompress(&r.jpeg);
  return true;
}

}  // namespace

absl::StatusOr<Image> ReadJpeg(absl::Span<const uint8_t> file) {
  const auto r = std::make_unique<JpegReader>(file);
  r->jpeg.err = jpeg_std_error(&r->errors);
  r->errors.error_exit = Fail;
  r->errors.emit_message = Warn;
  r->jpeg.client_data = r.get();
  const auto damaged = [&] { return absl::InvalidArgumentError(text::StrCat("a damaged JPEG file: ", r->error)); };
  if (!ReadHeader(*r)) return damaged();
  const uint64_t width = r->jpeg.image_width, height = r->jpeg.image_height;
  if (absl::Status s = CheckSizes(width, height); !s.ok()) return s;
  const int channels = r->jpeg.num_components;
  if (channels != 1 && channels != 3 && channels != 4)
    return absl::UnimplementedError(text::StrCat("a JPEG file of ", channels, " channels"));
  // Huffman codes take a bit for each block of 8x8 coefficients of a channel, which stand for 32x32 pixels at most.
  if (!r->jpeg.arith_code && width * height / 8192 > file.size())
    return absl::InvalidArgumentError(
        text::StrCat("a damaged JPEG file: ", file.size(), " bytes for ", width, "x", height, " pixels"));
  r->image.width = static_cast<int64_t>(width), r->image.height = static_cast<int64_t>(height);
  r->row.resize(width * static_cast<size_t>(channels));
  r->image.rgb.resize(size_t{3} * width * height);
  if (!ReadPixels(*r)) return damaged();
  return std::move(r->image);
}

}  // namespace slipway::importers
