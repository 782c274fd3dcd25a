// See open.h.
#include "driver/open.h"

#include "base/text.h"
#include "importers/checkpoint/torch_legacy.h"
#include "importers/pt2/pt2.h"
#include "io/digest.h"
#include "io/zip_reader.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace slipway::driver {

FileFormat FormatOf(const io::MappedFile& file) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data().data()), file.data().size());
  if (ir::LooksLikeText(bytes)) return FileFormat::kText;
  if (bytes.starts_with("PK")) return FileFormat::kPt2;
  if (importers::LooksLikeTorchLegacy(file.data())) return FileFormat::kCheckpoint;
  const std::string_view name = file.path();
  if (name.ends_with(".safetensors")) return FileFormat::kSafetensors;
  if (name.ends_with(".onnx")) return FileFormat::kOnnx;
  // A small header length and a JSON object behind it.
  if (bytes.size() > 8 && bytes[7] == 0 && bytes[6] == 0 && bytes[5] == 0 && bytes[8] == '{') return FileFormat::kSafetensors;
  return name.ends_with(".pt2") ? FileFormat::kPt2 : FileFormat::kUnknown;
}

absl::StatusOr<ir::Archive> OpenArchive(const std::shared_ptr<io::MappedFile>& file) {
  const auto read = [&]() -> absl::StatusOr<ir::Archive> {
    switch (FormatOf(*file)) {
      case FileFormat::kPt2: return importers::ReadPt2(file);
      case FileFormat::kText: {
        ir::ParseOptions options;
        options.base = FolderOf(file->path());
        options.name = file->path();
        return ir::Parse({reinterpret_cast<const char*>(file->data().data()), file->data().size()}, options);
      }
      case FileFormat::kSafetensors:
        return absl::UnimplementedError(text::StrCat(file->path(), ": a safetensors file holds weights, no program"));
      case FileFormat::kCheckpoint:
        return absl::UnimplementedError(text::StrCat(file->path(), ": a checkpoint holds weights, no program"));
      case FileFormat::kOnnx: return absl::UnimplementedError(text::StrCat(file->path(), ": reading ONNX files"));
      case FileFormat::kUnknown: break;
    }
    return absl::InvalidArgumentError(text::StrCat(file->path(), ": neither a zip archive nor slipway's text form"));
  };
  absl::StatusOr<ir::Archive> archive = read();
  if (!archive.ok()) return archive;
  for (const auto& p : archive->programs)
    if (absl::Status s = ir::Verify(*p); !s.ok()) return s;
  return archive;
}

absl::StatusOr<ir::Archive> OpenArchive(const std::string& path) {
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return OpenArchive(*file);
}

std::string SourceDigest(const std::shared_ptr<io::MappedFile>& file) {
  io::Sha256 digest;
  if (FormatOf(*file) == FileFormat::kPt2) {
    if (auto zip = io::ZipReader::Open(file); zip.ok())
      for (const io::ZipEntry& e : (*zip)->entries()) digest.Update(text::StrCat(e.name, "\n", e.size, " ", e.crc32, "\n"));
  } else {
    digest.Update(file->data());
  }
  return text::StrCat("sha256:", io::ToHex(digest.Finish()));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace slipway::driver
