// Stored members are read through the mapping; archives within the archive are gone into once.
#include "driver/verify/payloads.h"

#include <string>
#include <vector>

#include "base/list_error.h"
#include "base/text.h"
#include "io/inflated.h"
#include "io/zip_reader.h"
#include "io/zip_writer.h"

namespace slipway::driver {
namespace {

absl::Status VerifyZip(const io::ZipReader& zip, uint64_t most, const std::string& prefix, Verified* sum,
                       std::vector<std::string>* bad) {
  for (const io::ZipEntry& e : zip.entries()) {
    const std::string name = prefix + e.name;
    // One member is held at a time.
    auto bytes = io::MembersWithin(zip, most).Read(e);  // what is deflated is checked as it is inflated
    if (!bytes.ok()) {
      if (!absl::IsInvalidArgument(bytes.status())) return bytes.status();
      bad->push_back(text::StrCat("'", name, "'"));
      continue;
    }
    if (e.method == io::ZipMethod::kStored && io::Crc32Of(*bytes) != e.crc32)
      bad->push_back(text::StrCat("'", name, "'"));
    ++sum->members;
    sum->bytes += e.size;
    if (!prefix.empty() || e.size < 4) continue;  // a zip within a zip within a zip is bytes
    if (const io::Bytes head = bytes->Part(0, 4); head.data()[0] != 'P' || head.data()[1] != 'K') continue;
    if (auto inner = io::ZipReader::Open(*bytes); inner.ok())
      if (absl::Status s = VerifyZip(**inner, most, name + "/", sum, bad); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Verified> VerifyPayloads(const std::shared_ptr<io::MappedFile>& file) {
  Verified sum;
  const absl::Span<const uint8_t> head = file->data();
  if (head.size() < 2 || head[0] != 'P' || head[1] != 'K') return sum;
  auto zip = io::ZipReader::Open(file);
  if (!zip.ok()) return zip.status();
  std::vector<std::string> bad;
  if (absl::Status s = VerifyZip(**zip, io::MostMadeOf(file->size()), "", &sum, &bad); !s.ok()) return s;
  if (!bad.empty())
    return ListError(text::StrCat(bad.size(), bad.size() == 1 ? " member is" : " members are",
                                  " not the bytes the archive's CRC-32 was made of"),
                     bad);
  return sum;
}

}  // namespace slipway::driver
