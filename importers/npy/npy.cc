// A header is the text of a Python dict, {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }: the three keys
// are read in any order and nothing else is.
#include "importers/npy/npy.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "importers/npy/element.h"
#include "io/byte_source.h"
#include "io/inflated.h"
#include "io/zip_reader.h"

namespace slipway::importers {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY", kSuffix = ".npy";
constexpr size_t kMostHeader = 1 << 20, kMostRank = 64;

absl::Status BadArray(std::string_view what) {
  return absl::InvalidArgumentError(text::ToAbsl(text::StrCat("the header of the array: ", what)));
}

struct Header {
  std::string type;  // as written; of records the list that describes them
  bool fortran = false;
  std::vector<int64_t> shape;
};

// Reads the dict's text from its front.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  absl::StatusOr<Header> Parse() {
    Header header;
    bool type = false, order = false, shape = false;
    if (!Take('{')) return BadArray("it is no dict");
    while (!Take('}')) {
      std::string key;
      if (!String(&key) || !Take(':')) return BadArray("a key is expected");
      bool* seen = key == "descr" ? &type : key == "fortran_order" ? &order : key == "shape" ? &shape : nullptr;
      if (!seen || std::exchange(*seen, true))
        return BadArray(text::StrCat("the key '", key, "' is unknown, or there twice"));
      const bool read = seen == &type    ? Type(&header.type)
                        : seen == &order ? Bool(&header.fortran)
                                         : Shape(&header.shape);
      if (!read) return BadArray(text::StrCat("the value of '", key, "' is malformed"));
      if (!Take(',') && !text::StripLeft(rest_).starts_with('}')) return BadArray("a comma is expected");
    }
    if (!text::Strip(rest_).empty()) return BadArray("more follows the dict");
    if (!type || !order || !shape) return BadArray("'descr', 'fortran_order' or 'shape' is missing");
    return header;
  }

 private:
  std::string_view rest_;

  bool Take(char c) {
    rest_ = text::StripLeft(rest_);
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool String(std::string* out) {
    const char quote = Take('\'') ? '\'' : Take('"') ? '"' : 0;
    const size_t end = quote ? rest_.find(quote) : rest_.npos;
    if (end == rest_.npos) return false;
    *out = std::string(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool Bool(bool* out) {
    rest_ = text::StripLeft(rest_);
    *out = text::ConsumePrefix(&rest_, "True");
    return *out || text::ConsumePrefix(&rest_, "False");
  }
  // A string, or the list of a record's fields, which is passed over.
  bool Type(std::string* out) {
    rest_ = text::StripLeft(rest_);
    if (!rest_.starts_with('[')) return String(out);
    int depth = 0;
    for (size_t i = 0; i < rest_.size(); ++i) {
      depth += rest_[i] == '[';
      if (rest_[i] == ']' && --depth == 0) {
        *out = std::string(rest_.substr(0, i + 1));
        rest_.remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }
  bool Shape(std::vector<int64_t>* out) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      rest_ = text::StripLeft(rest_);
      size_t digits = 0;
      while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') ++digits;
      int64_t size;
      if (!text::ParseNumber(rest_.substr(0, digits), &size) || out->size() == kMostRank) return false;
      out->push_back(size);
      rest_.remove_prefix(digits);
      text::ConsumePrefix(&rest_, "L");  // Python 2
      if (!Take(',') && !text::StripLeft(rest_).starts_with(')')) return false;
    }
    return true;
  }
};

// What an array is of whose type torch has not.
std::string Describe(std::string_view type) {
  std::string_view kind = type;
  if (!kind.empty() && std::string_view("<>=|").find(kind[0]) != std::string_view::npos) kind.remove_prefix(1);
  if (kind.starts_with('O')) return "an array of Python objects, which are a pickle";
  if (kind.starts_with('U') || kind.starts_with('S') || kind.starts_with('a')) return "an array of texts";
  if (kind.starts_with('M') || kind.starts_with('m')) return "an array of dates or times";
  if (kind.starts_with('[')) return "an array of records";
  if (kind.starts_with('V'))
    return text::StrCat(
        "an array of raw bytes ('", kind,
        "'): NumPy writes bfloat16 and float8 so, and not which; save it as float32, or as safetensors");
  return text::StrCat("an array of the type '", type, "', which torch has not");
}

// Adds the array that fills `bytes` to the set.
absl::Status AddArray(const std::string& name, const io::Bytes& bytes, ir::TensorSet* set) {
  const absl::Span<const uint8_t> data = bytes.data();
  const std::string_view all(reinterpret_cast<const char*>(data.data()), data.size());
  if (!all.starts_with(kNpyMagic) || all.size() < 10)
    return absl::InvalidArgumentError("it does not begin as an array of NumPy does");
  const uint8_t version = data[6];
  if (version < 1 || version > 3) return absl::UnimplementedError(text::StrCat("version ", version, " of the format"));
  const size_t width = version == 1 ? 2 : 4, start = 8 + width;
  if (all.size() < start) return BadArray("it is cut off");
  size_t length = 0;
  for (size_t i = width; i-- > 0;) length = length << 8 | data[8 + i];
  if (length > kMostHeader || length > all.size() - start)
    return BadArray(text::StrCat("it is said to have ", length, " bytes"));
  auto header = HeaderParser(all.substr(start, length)).Parse();
  if (!header.ok()) return header.status();
  const std::optional<NumpyElement> element = ParseNumpyElement(header->type);
  if (!element) {
    set->unreadable.emplace(name, Describe(header->type));
    return absl::OkStatus();
  }
  const uint64_t begin = start + length, size = all.size() - begin;
  int64_t wanted = ir::ByteSize(element->dtype);
  for (int64_t s : header->shape)
    if (__builtin_mul_overflow(wanted, s, &wanted)) return BadArray("the shape is too large");
  if (static_cast<uint64_t>(wanted) != size)
    return absl::InvalidArgumentError(
        text::StrCat("the array takes ", wanted, " bytes, and ", size, " follow its header"));
  ir::TensorRef tensor;
  if (element->big_endian) {
    std::string swapped(all.substr(begin));
    SwapBytes(element->dtype, &swapped);
    tensor = ir::OwnedTensor(element->dtype, header->shape, std::move(swapped));
  } else {
    auto storage = std::make_shared<ir::Storage>();
    storage->bytes = bytes.Part(begin, size);
    storage->size = size;
    tensor.storage = std::move(storage);
    tensor.dtype = element->dtype;
    tensor.sizes = header->shape;
    tensor.strides = ir::ContiguousStrides(tensor.sizes);
  }
  if (header->fortran) {
    std::vector<int64_t> reversed(tensor.sizes.rbegin(), tensor.sizes.rend());
    reversed = ir::ContiguousStrides(reversed);
    tensor.strides.assign(reversed.rbegin(), reversed.rend());
  }
  if (absl::Status s = ir::Validate(tensor); !s.ok()) return s;
  set->tensors.emplace(name, std::move(tensor));
  return absl::OkStatus();
}

absl::Status AnnotateFile(const absl::Status& s, std::string_view where) {
  return s.ok() ? s : absl::Status(s.code(), text::StrCat(where, ": ", s.message()));
}

}  // namespace

bool LooksLikeNpy(absl::Span<const uint8_t> file) {
  return file.size() >= kNpyMagic.size() && std::equal(kNpyMagic.begin(), kNpyMagic.end(), file.begin(),
                                                       [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

bool LooksLikeNpz(const std::shared_ptr<io::MappedFile>& file) {
  auto zip = io::ZipReader::Open(file);
  return zip.ok() && !(*zip)->entries().empty() &&
         std::all_of((*zip)->entries().begin(), (*zip)->entries().end(),
                     [](const io::ZipEntry& e) { return std::string_view(e.name).ends_with(kSuffix); });
}

absl::StatusOr<ir::TensorSet> ReadNpy(const std::shared_ptr<io::MappedFile>& file) {
  ir::TensorSet set;
  if (absl::Status s = AddArray("array", io::Bytes::Of(file), &set); !s.ok()) return AnnotateFile(s, file->path());
  return set;
}

absl::StatusOr<ir::TensorSet> ReadNpz(const std::shared_ptr<io::MappedFile>& file) {
  auto zip = io::ZipReader::Open(file);
  if (!zip.ok()) return zip.status();
  io::MembersWithin members(**zip, io::MostMadeOf(file->size()));
  ir::TensorSet set;
  for (const io::ZipEntry& e : (*zip)->entries()) {
    const std::string where = text::StrCat(file->path(), ": ", e.name);
    auto bytes = members.Read(e);
    if (!bytes.ok()) return AnnotateFile(bytes.status(), where);
    std::string_view name = e.name;
    text::ConsumeSuffix(&name, kSuffix);
    if (absl::Status s = AddArray(std::string(name), *bytes, &set); !s.ok()) return AnnotateFile(s, where);
  }
  return set;
}

}  // namespace slipway::importers
