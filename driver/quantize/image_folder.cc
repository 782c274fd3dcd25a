// The sizes are those of torchvision's Resize and CenterCrop, with their roundings.
#include "driver/quantize/image_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/edge/diagnostic.h"
#include "importers/image/image.h"
#include "io/io_error.h"
#include "io/mapped_file.h"

namespace slipway::driver {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kImageSuffixes[] = {".png", ".jpg", ".jpeg"};
constexpr std::string_view kOtherImages[] = {".webp", ".bmp",  ".gif",  ".tif", ".tiff", ".ppm", ".pgm",
                                             ".avif", ".heic", ".heif", ".jp2", ".jxl",  ".ico", ".tga"};
constexpr std::string_view kSizeHelp =
    "--size 224 resizes the shorter side and cuts out the center, --size 256:224 resizes it to 256 first, --size "
    "HEIGHTxWIDTH resizes both";

bool HasSuffix(const std::string& name, absl::Span<const std::string_view> suffixes) {
  const std::string lower = absl::AsciiStrToLower(text::ToAbsl(name));
  return std::any_of(suffixes.begin(), suffixes.end(), [&](std::string_view s) { return lower.ends_with(s); });
}

template <typename T>
std::optional<T> ReadNumber(std::string_view text) {
  T number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "R,G,B", or one number for all.
absl::StatusOr<std::array<float, 3>> ReadChannels(std::string_view flag, const std::string& given, bool divisor) {
  const std::vector<std::string_view> parts = text::Split(std::string_view(given), ',');
  std::array<float, 3> out = {};
  bool good = parts.size() == 3 || parts.size() == 1;
  for (size_t c = 0; good && c < 3; ++c) {
    const std::optional<float> x = ReadNumber<float>(text::Strip(parts[parts.size() == 1 ? 0 : c]));
    good = x && std::isfinite(*x) && (!divisor || *x > 0);
    if (good) out[c] = *x;
  }
  if (good) return out;
  return UsageError(text::StrCat(flag, " '", given, "'"),
                    divisor ? "three positive numbers, R,G,B: 0.229,0.224,0.225 are ImageNet's, 1,1,1 leaves 0 ... 1"
                            : "three numbers, R,G,B: 0.485,0.456,0.406 are ImageNet's, 0,0,0 leaves 0 ... 1");
}

// A side of an image in proportion to another that becomes `to`.
int64_t InProportion(int64_t side, int64_t to, int64_t of) { return std::max<int64_t>(side * to / of, 1); }

// Half of what is cut off, rounded half to even.
int64_t Margin(int64_t outer, int64_t inner) {
  const int64_t rest = outer - inner;
  return rest / 2 + (rest % 4 == 3 ? 1 : 0);
}

}  // namespace

absl::StatusOr<ImageFolder> ImageFolder::Open(const ConvertOptions& o) {
  std::vector<std::string_view> missing;
  if (o.mean.empty()) missing.push_back("--mean");
  if (o.std.empty()) missing.push_back("--std");
  if (o.image_size.empty()) missing.push_back("--size");
  if (!missing.empty())
    return UsageError(text::StrCat("--calibration-images without ", text::Join(missing, ", ")),
                      text::StrCat("as the model is used, for example --mean 0.485,0.456,0.406 --std "
                                   "0.229,0.224,0.225; ",
                                   kSizeHelp));
  ImageFolder out;
  ASSIGN_OR_RETURN(out.mean_, ReadChannels("--mean", o.mean, false));
  ASSIGN_OR_RETURN(out.std_, ReadChannels("--std", o.std, true));
  RETURN_IF_ERROR(out.ParseSize(o.image_size));
  RETURN_IF_ERROR(out.List(o.calibration_images, o.limit));
  return out;
}

absl::Status ImageFolder::ParseSize(const std::string& text) {
  constexpr int64_t kMost = 1 << 14;
  const size_t between = text.find_first_of(":x");
  const auto first = ReadNumber<int64_t>(std::string_view(text).substr(0, between));
  const auto second = between == std::string::npos ? first : ReadNumber<int64_t>(text.substr(between + 1));
  if (!first || !second || *first < 1 || *second < 1 || *first > kMost || *second > kMost)
    return UsageError(text::StrCat("--size '", text, "'"), kSizeHelp);
  if (between != std::string::npos && text[between] == 'x') {
    height_ = *first, width_ = *second;
    return absl::OkStatus();
  }
  shorter_ = *first, height_ = width_ = *second;
  if (height_ > shorter_) return UsageError(text::StrCat("--size '", text, "' cuts out more than there is"), kSizeHelp);
  return absl::OkStatus();
}

absl::Status ImageFolder::List(const std::string& folder, int limit) {
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error == std::errc::not_a_directory)
    return WithPlace(absl::InvalidArgumentError("--calibration-images is no folder"), folder);
  std::vector<std::string> others;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.')) continue;
    if (HasSuffix(name, kImageSuffixes)) paths_.push_back(text::StrCat(folder, "/", name));
    if (HasSuffix(name, kOtherImages)) others.push_back(name);
  }
  if (error) return io::IoError(error.value(), folder);
  if (!others.empty())
    return WithHelp(WithPlace(absl::UnimplementedError(text::StrCat(
                                  "'", text::Printable(*std::min_element(others.begin(), others.end())), "'",
                                  others.size() > 1 ? text::StrCat(" and ", others.size() - 1, " more") : "",
                                  ": only PNG and JPEG are read")),
                              folder),
                    "make .png files of them, or take them out of the folder");
  if (paths_.empty())
    return WithHelp(WithPlace(absl::InvalidArgumentError("no .png, .jpg or .jpeg file"), folder),
                    "folders in it are not searched");
  std::sort(paths_.begin(), paths_.end());
  if (limit > 0 && paths_.size() > static_cast<size_t>(limit)) paths_.resize(static_cast<size_t>(limit));
  return absl::OkStatus();
}

absl::StatusOr<ir::TensorRef> ImageFolder::Read(size_t i) const {
  auto file = io::MappedFile::Open(paths_[i]);
  if (!file.ok()) return WithPlace(file.status(), paths_[i]);
  auto image = importers::ReadImage((*file)->data());
  if (absl::IsOutOfRange(image.status()))
    return WithHelp(WithPlace(absl::UnimplementedError(image.status().message()), text::Printable(paths_[i])),
                    "make it smaller, or take it out of the folder");
  if (!image.ok())
    return WithHelp(WithPlace(image.status(), text::Printable(paths_[i])),
                    absl::IsInvalidArgument(image.status()) ? "take it out of the folder, or replace it"
                                                            : "convert it to RGB of 8 bits a channel");
  int64_t width = width_, height = height_;
  if (shorter_ > 0) {
    const bool tall = image->width <= image->height;
    width = tall ? shorter_ : InProportion(image->width, shorter_, image->height);
    height = tall ? InProportion(image->height, shorter_, image->width) : shorter_;
  }
  const importers::Image small =
      importers::Resize(*image, width, height, {Margin(width, width_), Margin(height, height_), width_, height_});

  const size_t pixels = small.rgb.size() / 3;
  std::string bytes(small.rgb.size() * sizeof(float), '\0');
  auto* to = reinterpret_cast<float*>(bytes.data());
  for (size_t c = 0; c < 3; ++c) {
    std::array<float, 256> numbers;
    for (size_t x = 0; x < numbers.size(); ++x) numbers[x] = (static_cast<float>(x) / 255.0f - mean_[c]) / std_[c];
    for (size_t p = 0; p < pixels; ++p) *to++ = numbers[small.rgb[3 * p + c]];
  }
  return ir::OwnedTensor(ir::DType::kFloat32, sizes(), std::move(bytes));
}

}  // namespace slipway::driver
