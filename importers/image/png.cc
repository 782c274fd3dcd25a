// PNG by libpng. Its errors leave by longjmp: functions that call it between setjmp and return keep everything in a
// struct that outlives them, so that no object is left without its destructor.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "base/text.h"
#include "importers/image/decode.h"

// What libpng's and libjpeg's own reports of errors, which are not used, print to where these are part of a shared
// library (cmake/Archives.cmake).
extern "C" {
std::FILE* slipway_images_stderr = stderr;
}

namespace slipway::importers {
namespace {

struct PngReader {
  explicit PngReader(absl::Span<const uint8_t> file) : file(file) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;

  absl::Span<const uint8_t> file;
  size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char error[160] = "";
  png_uint_32 width = 0, height = 0;
  int depth = 0, color = 0, passes = 0;
  Image image;
};

void Fail(png_structp png, png_const_charp message) {
  auto* r = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(r->error, message, sizeof r->error - 1);
  png_longjmp(png, 1);
}
void Ignore(png_structp, png_const_charp) {}

void Read(png_structp png, png_bytep to, size_t size) {
  auto* r = static_cast<PngReader*>(png_get_io_ptr(png));
  if (size > r->file.size() - r->at) png_error(png, "the file is cut off");
  std::memcpy(to, r->file.data() + r->at, size);
  r->at += size;
}

// False where libpng found an error, which is then in `error`.
bool ReadHeader(PngReader& r) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  png_set_read_fn(r.png, &r, Read);
  // Of the other chunks none changes what is read here.
  png_set_keep_unknown_chunks(r.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(r.png, r.info);
  png_get_IHDR(r.png, r.info, &r.width, &r.height, &r.depth, &r.color, nullptr, nullptr, nullptr);
  return true;
}

bool ReadPixels(PngReader& r) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  if (r.depth == 16) png_set_strip_16(r.png);
  if (r.color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(r.png);
  if (r.color == PNG_COLOR_TYPE_GRAY && r.depth < 8) png_set_expand_gray_1_2_4_to_8(r.png);
  if ((r.color & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(r.png);
  png_set_strip_alpha(r.png);
  r.passes = png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
  if (png_get_rowbytes(r.png, r.info) != size_t{3} * r.width) png_error(r.png, "rows of another size than RGB has");
  for (int pass = 0; pass < r.passes; ++pass)
    for (png_uint_32 y = 0; y < r.height; ++y)
      png_read_row(r.png, r.image.rgb.data() + size_t{3} * r.width * y, nullptr);
  png_read_end(r.png, nullptr);  // the checksum of the last pixels
  return true;
}

}  // namespace

absl::StatusOr<Image> ReadPng(absl::Span<const uint8_t> file) {
  const auto r = std::make_unique<PngReader>(file);
  r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r.get(), Fail, Ignore);
  if (r->png) r->info = png_create_info_struct(r->png);
  if (!r->info) return absl::ResourceExhaustedError("no memory for an image");
  const auto damaged = [&] { return absl::InvalidArgumentError(text::StrCat("a damaged PNG file: ", r->error)); };
  if (!ReadHeader(*r)) return damaged();
  if (absl::Status s = CheckSizes(r->width, r->height); !s.ok()) return s;
  if (r->depth == 16 && r->color == PNG_COLOR_TYPE_GRAY)
    return absl::UnimplementedError("a grey PNG file of 16 bits a pixel");
  // Deflate makes at most 1032 bytes of one.
  const uint64_t packed = uint64_t{r->width} * r->height * png_get_channels(r->png, r->info) * r->depth / 8;
  if (packed / 1032 > file.size())
    return absl::InvalidArgumentError(
        text::StrCat("a damaged PNG file: ", file.size(), " bytes for ", r->width, "x", r->height, " pixels"));
  r->image.width = r->width, r->image.height = r->height;
  r->image.rgb.resize(size_t{3} * r->width * r->height);
  if (!ReadPixels(*r)) return damaged();
  return std::move(r->image);
}

}  // namespace slipway::importers
