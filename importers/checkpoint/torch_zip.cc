// Finds the pickle and the storages of a torch.save zip. The archive's folder name is arbitrary, so the pickle is
// searched for.
#include "importers/checkpoint/torch_zip.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "io/inflated.h"
#include "io/zip_reader.h"

namespace slipway::importers {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";

absl::Status Annotate(const io::ZipReader& zip, const std::string& member, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(zip.source_name(), ": ", absl::Utf8SafeCHexEscape(member), ": ", status.message()));
}

// The folder that all members lie in: that of the one data.pkl.
absl::StatusOr<std::string> FindFolder(const io::ZipReader& zip) {
  const io::ZipEntry* pickle = nullptr;
  for (const io::ZipEntry& entry : zip.entries()) {
    const size_t slash = entry.name.find('/');
    if (slash == entry.name.npos || std::string_view(entry.name).substr(slash) != kPickleName) continue;
    if (pickle != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(zip.source_name(), ": two members are named data.pkl"));
    }
    pickle = &entry;
  }
  if (pickle == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(zip.source_name(), ": not a torch.save checkpoint: no member FOLDER/data.pkl"));
  }
  return pickle->name.substr(0, pickle->name.find('/') + 1);
}

}  // namespace

bool LooksLikeTorchZip(const std::shared_ptr<io::MappedFile>& file) {
  auto zip = io::ZipReader::Open(file);
  return zip.ok() && std::any_of((*zip)->entries().begin(), (*zip)->entries().end(),
                                 [](const io::ZipEntry& e) { return std::string_view(e.name).ends_with(kPickleName); });
}

absl::StatusOr<TorchCheckpoint> OpenTorchZip(io::Bytes archive, const TorchZipOptions& options) {
  const uint64_t most = options.max_inflated_bytes > 0 ? options.max_inflated_bytes : io::MostMadeOf(archive.size());
  absl::StatusOr<std::shared_ptr<const io::ZipReader>> opened = io::ZipReader::Open(std::move(archive));
  if (!opened.ok()) return opened.status();
  const io::ZipReader& zip = **opened;
  const absl::StatusOr<std::string> folder = FindFolder(zip);
  if (!folder.ok()) return folder.status();
  if (zip.Find(*folder + "constants.pkl") != nullptr) {
    return Annotate(zip, *folder + "constants.pkl",
                    absl::UnimplementedError("this is a TorchScript archive, which is not read; export the model with "
                                             "torch.export, or save its state_dict"));
  }
  if (const io::ZipEntry* order = zip.Find(*folder + "byteorder"); order != nullptr) {
    const absl::StatusOr<std::string> text = zip.ReadAll(*order, 64);
    if (!text.ok()) return text.status();
    if (*text != "little") {
      return Annotate(zip, order->name,
                      absl::UnimplementedError(absl::StrCat("byte order '", absl::CHexEscape(*text), "' is not read")));
    }
  }

  const io::ZipEntry* pickle = zip.Find(*folder + "data.pkl");
  TorchCheckpoint checkpoint;
  // Copied rather than mapped: it is parsed byte by byte, its CRC is checked, and strings refer to it for long.
  absl::StatusOr<std::string> text = zip.ReadAll(*pickle, options.max_pickle_bytes);
  if (!text.ok()) return text.status();
  checkpoint.pickle = io::Bytes::Of(*std::move(text));

  io::MembersWithin members(zip, most);
  UnpickleOptions unpickle = options.unpickle;
  unpickle.storage_bytes = [&](std::string_view key) -> absl::StatusOr<uint64_t> {
    if (const auto known = checkpoint.storages.find(key); known != checkpoint.storages.end()) {
      return known->second.size();
    }
    const io::ZipEntry* entry = zip.Find(absl::StrCat(*folder, "data/", std::string(key)));
    if (entry == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("storage '", absl::CHexEscape(std::string(key)), "' is not in the archive"));
    }
    absl::StatusOr<io::Bytes> bytes = members.Read(*entry);
    if (!bytes.ok()) return bytes.status();
    checkpoint.storages.emplace(key, *std::move(bytes));
    checkpoint.crcs.emplace(key, entry->crc32);
    return entry->size;
  };
  absl::StatusOr<Unpickled> object = Unpickle(checkpoint.pickle.data(), unpickle);
  if (!object.ok()) return Annotate(zip, pickle->name, object.status());
  if (object->consumed() != checkpoint.pickle.size()) {
    return Annotate(zip, pickle->name,
                    absl::InvalidArgumentError(absl::StrCat("bytes follow the pickle at byte ", object->consumed())));
  }
  checkpoint.object = *std::move(object);
  return checkpoint;
}

absl::StatusOr<ir::TensorRef> ReferTo(const PickleTensor& tensor, std::shared_ptr<const ir::Storage> storage) {
  const std::optional<ir::DType> dtype = ir::DTypeFromTorchName(tensor.dtype);
  if (!dtype) return absl::UnimplementedError(absl::StrCat("dtype ", std::string(tensor.dtype)));
  ir::TensorRef ref;
  ref.storage = std::move(storage);
  ref.dtype = *dtype;
  ref.sizes = tensor.sizes;
  ref.strides = tensor.strides;
  if (__builtin_mul_overflow(tensor.offset, tensor.item_size, &ref.offset) ||
      __builtin_add_overflow(ref.offset, static_cast<int64_t>(tensor.storage.offset), &ref.offset)) {
    return absl::InvalidArgumentError("the storage offset overflows");
  }
  if (ir::ByteSize(*dtype) == 0) {
    if (ref.sizes.empty() || !ref.is_contiguous()) {
      return absl::UnimplementedError(absl::StrCat("a strided or 0-dimensional tensor of ", std::string(tensor.dtype)));
    }
    const int64_t packed = 8 * tensor.item_size / ir::BitSize(*dtype);
    if (__builtin_mul_overflow(ref.sizes.back(), packed, &ref.sizes.back())) {
      return absl::InvalidArgumentError("tensor size overflows");
    }
    ref.strides = ir::ContiguousStrides(ref.sizes);
  }
  return ref;
}

}  // namespace slipway::importers
