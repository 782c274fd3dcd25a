// One header, then the tensors in the order of the format's reference implementation; copied, gathered or cast as they
// lie.
#include "exporters/safetensors/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/atomic_writer.h"
#include "io/crc32.h"
#include "io/io_error.h"
#include "io/mapped_file.h"
#include "ir/storage_check.h"
#include "weights/cast.h"
#include "weights/checkpoint_folder.h"

namespace slipway::exporters {
namespace {

using ir::DType;
using weights::CastFunction;
using weights::FindCast;

constexpr char kIndex[] = "model.safetensors.index.json";
constexpr uint64_t kMaxHeader = 100'000'000;         // the format's own limit
constexpr int64_t kStep = int64_t{1} << 20;          // bytes of the source that are cast at once
constexpr uint64_t kCopyFrom = uint64_t{256} << 10;  // stretches of so many bytes are copied file to file

// The order of tensors in a file: types of greater rank first. As the reference implementation declares them.
constexpr DType kRank[] = {DType::kBool,          DType::kFloat4E2M1,     DType::kFloat6E2M3,     DType::kFloat6E3M2,
                           DType::kUInt8,         DType::kInt8,           DType::kFloat8E5M2,     DType::kFloat8E4M3FN,
                           DType::kFloat8E8M0FNU, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2FNUZ, DType::kInt16,
                           DType::kUInt16,        DType::kFloat16,        DType::kBFloat16,       DType::kInt32,
                           DType::kUInt32,        DType::kFloat32,        DType::kComplex64,      DType::kFloat64,
                           DType::kInt64,         DType::kUInt64};
int RankOf(DType t) { return static_cast<int>(std::find(std::begin(kRank), std::end(kRank), t) - std::begin(kRank)); }

uint64_t BytesOf(const weights::NamedTensor& t) {
  return (static_cast<uint64_t>(t.tensor.numel()) * ir::BitSize(t.dtype) + 7) / 8;
}

absl::Status Check(const std::vector<weights::NamedTensor>& tensors) {
  std::set<std::string_view> names;
  for (const weights::NamedTensor& t : tensors) {
    const auto bad = [&](std::string_view what) { return text::StrCat("'", t.name, "': ", what); };
    if (!text::IsUtf8(t.name)) return absl::InvalidArgumentError(bad("a tensor's name is not UTF-8"));
    if (t.name == "__metadata__") return absl::InvalidArgumentError(bad("the format keeps this name for itself"));
    if (!names.insert(t.name).second) return absl::InvalidArgumentError(bad("two tensors have this name"));
    if (ir::Info(t.dtype).safetensors.empty() || RankOf(t.dtype) == static_cast<int>(std::size(kRank)))
      return absl::UnimplementedError(bad(text::StrCat("the format has no type ", ir::Name(t.dtype))));
    if (t.dtype != t.tensor.dtype && !FindCast(t.tensor.dtype, t.dtype))
      return absl::UnimplementedError(
          bad(text::StrCat("casting ", ir::Name(t.tensor.dtype), " to ", ir::Name(t.dtype))));
    if (absl::Status s = t.computed ? absl::OkStatus() : ir::Validate(t.tensor); !s.ok())
      return absl::Status(s.code(), bad(text::FromAbsl(s.message())));
    if (static_cast<uint64_t>(t.tensor.numel()) * static_cast<uint64_t>(ir::BitSize(t.dtype)) % 8 != 0)
      return absl::UnimplementedError(bad("the format has no tensors that end within a byte"));
    if (const ir::TensorRef* whole = t.tensor.whole();
        ir::ByteSize(t.tensor.dtype) == 0 && whole && !whole->is_contiguous())
      return absl::UnimplementedError(bad("a strided tensor of parts of bytes"));
  }
  return absl::OkStatus();
}

// One file: its tensors in their order, and the header.
struct FilePlan {
  std::vector<const weights::NamedTensor*> tensors;
  std::string header;  // length included
  uint64_t tensor_bytes = 0;
  uint64_t size() const { return header.size() + tensor_bytes; }
};

absl::StatusOr<FilePlan> Plan(std::vector<const weights::NamedTensor*> tensors, const SafetensorsOptions& options) {
  FilePlan plan;
  std::stable_sort(tensors.begin(), tensors.end(), [](const weights::NamedTensor* a, const weights::NamedTensor* b) {
    const int x = RankOf(a->dtype), y = RankOf(b->dtype);
    return x != y ? x > y : a->name < b->name;
  });
  json::Writer out;
  out.BeginObject();
  if (!options.metadata.empty()) {
    out.Key("__metadata__").BeginObject();
    for (const auto& [key, value] : options.metadata) out.Key(key).String(value);
    out.EndObject();
  }
  for (const weights::NamedTensor* t : tensors) {
    out.Key(t->name).BeginObject().Key("dtype").String(ir::Info(t->dtype).safetensors).Key("shape").BeginArray();
    for (int64_t n : t->tensor.sizes) out.Int(n);
    out.EndArray().Key("data_offsets").BeginArray().Int(static_cast<int64_t>(plan.tensor_bytes));
    plan.tensor_bytes += BytesOf(*t);
    out.Int(static_cast<int64_t>(plan.tensor_bytes)).EndArray().EndObject();
  }
  out.EndObject();
  std::string text = out.Take();
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeader)
    return absl::UnimplementedError(
        text::StrCat("a header of ", text.size(), " bytes (limit ", kMaxHeader, "): use shards"));
  for (int i = 0; i < 8; ++i) plan.header += static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i));
  plan.header += text;
  plan.tensors = std::move(tensors);
  return plan;
}

// Of a file with all of these.
absl::StatusOr<FilePlan> PlanOf(const std::vector<weights::NamedTensor>& tensors, const SafetensorsOptions& options) {
  if (absl::Status s = Check(tensors); !s.ok()) return s;
  std::vector<const weights::NamedTensor*> all;
  for (const weights::NamedTensor& t : tensors) all.push_back(&t);
  return Plan(std::move(all), options);
}

class FileWriter {
 public:
  FileWriter(const SafetensorsOptions& options, uint64_t total) : options_(options), total_(total) {}

  // All but what is computed.
  absl::Status Write(const FilePlan& plan, io::AtomicFile* file) {
    file_ = file;
    if (absl::Status s = file_->Reserve(plan.size()); !s.ok()) return s;
    if (absl::Status s = file_->Write(plan.header); !s.ok()) return s;
    for (const weights::NamedTensor* t : plan.tensors) {
      if (t->computed) places_.push_back({t, file_, file_->position()});
      if (absl::Status s = t->computed ? file_->Skip(BytesOf(*t)) : WriteTensor(*t); !s.ok())
        return io::Prefixed(text::StrCat("'", t->name, "': "), s);
    }
    return absl::OkStatus();
  }

  // What is computed, of the files written so far; then what casts have lost is told.
  absl::Status Finish() {
    if (absl::Status s = Compute(); !s.ok()) return s;
    return options_.check_casts && !lossy_.empty() ? options_.check_casts(lossy_) : absl::OkStatus();
  }

 private:
  absl::Status Compute() {
    if (places_.empty()) return absl::OkStatus();
    std::vector<const weights::NamedTensor*> tensors;
    absl::flat_hash_map<const weights::NamedTensor*, Place> places;
    for (const Place& p : places_) {
      tensors.push_back(p.tensor);
      places.emplace(p.tensor, p);
    }
    std::mutex mutex;
    return options_.compute(tensors,
                            [&](const weights::NamedTensor& t, uint64_t offset, absl::Span<const uint8_t> bytes) {
                              const Place& p = places.at(&t);
                              if (absl::Status s = p.file->WriteAt(p.at + offset, bytes); !s.ok()) return s;
                              const std::lock_guard lock(mutex);
                              Progress(bytes.size());
                              return absl::OkStatus();
                            });
  }

  struct Place {
    const weights::NamedTensor* tensor;
    io::AtomicFile* file;
    uint64_t at;
  };
  io::AtomicFile* file_ = nullptr;
  const SafetensorsOptions& options_;
  const uint64_t total_;
  uint64_t done_ = 0;
  std::vector<Place> places_;
  std::vector<uint8_t> cast_;
  std::vector<LossyCast> lossy_;
  ir::StorageCheck check_;

  void Progress(uint64_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(done_, total_);
  }

  absl::Status WriteTensor(const weights::NamedTensor& t) {
    auto reader = ir::ElementReader::Open(t.tensor);
    if (!reader.ok()) return reader.status();
    const int64_t item = reader->item();
    const CastFunction cast = FindCast(t.tensor.dtype, t.dtype);
    const weights::CountLossesFunction count_losses = weights::FindCountLosses(t.tensor.dtype, t.dtype);
    weights::CastLosses losses;
    for (const ir::Piece& piece : t.tensor.pieces) {
      const bool copied =
          !cast && piece.tensor.is_contiguous() && static_cast<uint64_t>(piece.tensor.nbytes()) >= kCopyFrom;
      if (absl::Status s = copied ? absl::OkStatus() : check_.Read(piece.tensor); !s.ok()) return s;
    }
    while (reader->left() > 0) {
      const ir::Run run = reader->Peek();
      const uint64_t size = static_cast<uint64_t>(run.count * item);
      const bool dense = run.stride == item && size >= kCopyFrom;  // not of values that are computed
      const auto* bytes = run.storage ? std::get_if<io::Bytes>(&run.storage->bytes) : nullptr;
      // What lies side by side in a file goes file to file; for short stretches the call would cost more than the copy.
      if (!cast && dense && bytes && bytes->file_range()) {
        if (absl::Status s = check_.Copy(*run.storage, static_cast<uint64_t>(run.offset), size, *file_); !s.ok())
          return s;
        reader->Skip(run.count);
        Progress(size);
        continue;
      }
      const absl::Span<const uint8_t> elements = reader->NextDense(dense ? kStep / item : reader->step());
      absl::Span<const uint8_t> out = elements;
      if (cast) {
        const uint64_t count = elements.size() / static_cast<size_t>(item);
        cast_.resize(count * static_cast<uint64_t>(ir::ByteSize(t.dtype)));
        cast(elements.data(), cast_.data(), count);
        if (count_losses) count_losses(elements.data(), cast_.data(), count, &losses);
        out = cast_;
      }
      if (absl::Status s = file_->Write(out); !s.ok()) return s;
      Progress(out.size());
    }
    if (t.tensor.derived) {
      const ir::DerivedValues::Losses lost = t.tensor.derived->losses();
      losses.infinite += lost.infinite, losses.zero += lost.zero;
    }
    if (losses.infinite > 0 || losses.zero > 0) lossy_.push_back({t.name, losses});
    return absl::OkStatus();
  }
};

// Deals the tensors out to files, in order.
std::vector<std::vector<const weights::NamedTensor*>> Deal(const std::vector<weights::NamedTensor>& tensors,
                                                           const SafetensorsOptions& options) {
  uint64_t total = 0;
  for (const weights::NamedTensor& t : tensors) total += BytesOf(t);
  std::vector<std::vector<const weights::NamedTensor*>> files(1);
  if (!tensors.empty() && tensors[0].shard >= 0) {
    for (const weights::NamedTensor& t : tensors) {
      files.resize(std::max(files.size(), static_cast<size_t>(t.shard) + 1));
      files[static_cast<size_t>(t.shard)].push_back(&t);
    }
    return files;
  }
  uint64_t in_file = 0, before = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t size = BytesOf(tensors[i]);
    bool next;
    if (options.shards > 0) {
      // A file ends where it has its share of the bytes, or where the files left need all tensors left.
      const uint64_t left = options.shards - files.size();
      const double share = static_cast<double>(total) / options.shards * static_cast<double>(files.size());
      next = left > 0 && !files.back().empty() &&
             (static_cast<double>(before) + size / 2.0 >= share || tensors.size() - i <= left);
    } else {
      next = options.max_shard_size > 0 && !files.back().empty() && in_file + size > options.max_shard_size;
    }
    if (next) {
      files.emplace_back();
      in_file = 0;
    }
    files.back().push_back(&tensors[i]);
    in_file += size;
    before += size;
  }
  return files;
}

std::string Padded(size_t n) {
  std::string s = std::to_string(n);
  return s.size() < 5 ? std::string(5 - s.size(), '0') + s : s;
}

// Makes the folder unless it is there; adds it to `made` where it was not.
absl::Status MakeFolder(const std::string& path, std::vector<std::string>* made) {
  if (mkdir(path.c_str(), 0777) == 0)
    made->push_back(path);
  else if (errno != EEXIST)
    return io::IoError(errno, path);
  return absl::OkStatus();
}

// The files of a folder, all or none, in place of the checkpoint that is there: `plans` under `names`, and
// model.safetensors.index.json where `index` is not empty.
absl::Status WriteFolder(const std::string& folder, const std::vector<FilePlan>& plans,
                         const std::vector<std::string>& names, const std::string& index,
                         const SafetensorsOptions& options) {
  uint64_t total = 0;
  for (const FilePlan& plan : plans) total += plan.tensor_bytes;
  std::string base = folder;
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  std::vector<std::string> made;
  RETURN_IF_ERROR(MakeFolder(base, &made));
  const auto write = [&]() -> absl::Status {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(text::StrCat(base, "/", name));
    if (!index.empty()) paths.push_back(text::StrCat(base, "/", kIndex));
    std::vector<std::unique_ptr<io::AtomicFile>> written;
    FileWriter writer(options, total);
    for (size_t i = 0; i < paths.size(); ++i) {
      auto file = io::AtomicFile::Create(paths[i]);
      if (!file.ok()) return file.status();
      const absl::Status s = i < plans.size() ? writer.Write(plans[i], file->get()) : (*file)->Write(index);
      if (!s.ok()) return s;
      written.push_back(*std::move(file));
    }
    if (absl::Status s = writer.Finish(); !s.ok()) return s;
    for (const auto& [name, content] : options.extra_files) {
      const std::string path = text::StrCat(base, "/", name);
      RETURN_IF_ERROR(MakeFolder(path.substr(0, path.rfind('/')), &made));
      auto file = io::AtomicFile::Create(path);
      if (!file.ok()) return file.status();
      RETURN_IF_ERROR((*file)->Append(content));
      written.insert(written.begin(), *std::move(file));
    }
    std::vector<io::AtomicFile*> all;
    std::set<std::string> now;
    for (const auto& f : written) {
      all.push_back(f.get());
      now.insert(f->path());
    }
    std::vector<std::string> obsolete;
    for (const std::string& name : weights::FilesReplaced(base))
      if (std::string path = text::StrCat(base, "/", name); !now.contains(path)) obsolete.push_back(std::move(path));
    return io::CommitAll(all, obsolete);
  };
  if (absl::Status s = write(); !s.ok()) {
    for (auto it = made.rbegin(); it != made.rend(); ++it) rmdir(it->c_str());
    return s;
  }
  return absl::OkStatus();
}

// A folder of files: the plan of each, its name, and the index that names them, where there are several.
struct Shards {
  std::vector<FilePlan> plans;
  std::vector<std::string> names;
  std::string index;
  SafetensorsReport report;
};

absl::StatusOr<Shards> PlanShards(const std::vector<weights::NamedTensor>& tensors, const SafetensorsOptions& options) {
  if (absl::Status s = Check(tensors); !s.ok()) return s;
  Shards out;
  for (const auto& list : Deal(tensors, options)) {
    auto plan = Plan(list, options);
    if (!plan.ok()) return plan.status();
    out.report.tensor_bytes += plan->tensor_bytes;
    out.report.file_bytes += plan->size();
    out.plans.push_back(*std::move(plan));
  }
  const size_t count = out.plans.size();
  out.report.files = static_cast<int>(count);
  if (count == 1) {
    out.names = {"model.safetensors"};
    return out;
  }
  std::map<std::string_view, std::string_view> map;
  for (size_t i = 0; i < count; ++i)
    out.names.push_back(text::StrCat("model-", Padded(i + 1), "-of-", Padded(count), ".safetensors"));
  for (size_t i = 0; i < count; ++i)
    for (const weights::NamedTensor* t : out.plans[i].tensors) map[t->name] = out.names[i];
  out.index = text::StrCat("{\n  \"metadata\": {\n    \"total_size\": ", out.report.tensor_bytes,
                           "\n  },\n  \"weight_map\": {");
  const char* comma = "\n    ";
  for (const auto& [name, file] : map) {
    out.index += comma;
    json::AppendString(&out.index, name);
    out.index += ": ";
    json::AppendString(&out.index, file);
    comma = ",\n    ";
  }
  out.index += "\n  }\n}\n";
  out.report.file_bytes += out.index.size();
  return out;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

bool HoldsText(const std::string& path, const std::string& text) {
  auto file = io::MappedFile::Open(path);
  return file.ok() && (*file)->size() == text.size() &&
         std::memcmp((*file)->data().data(), text.data(), text.size()) == 0;
}

// What a shard of several processes says in its header of its values: filled in when they are there. Without a dot, as
// weights::kRunKey.
constexpr char kCrc[] = "slipway_crc32";
constexpr size_t kCrcDigits = 8;

std::string CrcText(uint32_t crc) { return absl::StrCat(absl::Hex(crc, absl::kZeroPad8)); }

// Where the digits of the checksum stand in the header of such a shard. No name of a tensor holds a quote that is not
// escaped.
size_t CrcPlace(const FilePlan& plan) {
  const std::string key = text::StrCat("\"", kCrc, "\":\"");
  return plan.header.find(key) + key.size();
}

enum class Found { kNothing, kOther, kDamaged, kWhole };
// What is at a shard's path: `read_values` compares its values with the checksum, too.
Found FindShard(const std::string& path, const FilePlan& plan, bool read_values) {
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return Found::kNothing;
  const absl::Span<const uint8_t> data = (*file)->data();
  if (data.size() < plan.header.size()) return Found::kOther;
  std::string header(reinterpret_cast<const char*>(data.data()), plan.header.size());
  const std::string crc = header.replace(CrcPlace(plan), kCrcDigits, kCrcDigits, '0') == plan.header
                              ? std::string(reinterpret_cast<const char*>(data.data()) + CrcPlace(plan), kCrcDigits)
                              : "";
  if (crc.empty()) return Found::kOther;
  if (data.size() != plan.size()) return Found::kDamaged;
  return read_values && CrcText(io::Crc32(0, data.subspan(plan.header.size()))) != crc ? Found::kDamaged
                                                                                       : Found::kWhole;
}

absl::Status WriteShard(const std::string& path, const FilePlan& plan, const SafetensorsOptions& options,
                        uint64_t total) {
  ASSIGN_OR_RETURN(const auto file, io::AtomicFile::Create(path, {.durable = true}));
  FileWriter writer(options, total);
  RETURN_IF_ERROR(writer.Write(plan, file.get()));
  RETURN_IF_ERROR(writer.Finish());
  ASSIGN_OR_RETURN(const uint32_t crc, file->Crc32From(plan.header.size()));
  const std::string digits = CrcText(crc);
  RETURN_IF_ERROR(file->WriteAt(CrcPlace(plan),
                                absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(digits.data()), digits.size())));
  return file->Commit();
}

absl::Status OfAnotherRun(const std::string& path) {
  return absl::FailedPreconditionError(text::StrCat(path,
                                                    " is of another checkpoint or was written with another "
                                                    "configuration or input: remove it, or choose an empty folder"));
}

}  // namespace

absl::StatusOr<SafetensorsReport> ExportSafetensors(const std::vector<weights::NamedTensor>& tensors,
                                                    const std::string& path, const SafetensorsOptions& options) {
  auto plan = PlanOf(tensors, options);
  if (!plan.ok()) return plan.status();
  if (absl::Status s = CheckOutput(plan->size(), options.max_output); !s.ok()) return s;
  if (!options.dry_run) {
    auto file = io::AtomicFile::Create(path);
    if (!file.ok()) return file.status();
    FileWriter writer(options, plan->tensor_bytes);
    if (absl::Status s = writer.Write(*plan, file->get()); !s.ok()) return s;
    if (absl::Status s = writer.Finish(); !s.ok()) return s;
    if (absl::Status s = (*file)->Commit(); !s.ok()) return s;
  }
  return SafetensorsReport{1, plan->tensor_bytes, plan->size()};
}

absl::StatusOr<SafetensorsReport> ExportShards(const std::vector<weights::NamedTensor>& tensors,
                                               const std::string& folder, const SafetensorsOptions& options) {
  auto shards = PlanShards(tensors, options);
  if (!shards.ok()) return shards.status();
  if (absl::Status s = CheckOutput(shards->report.file_bytes, options.max_output); !s.ok()) return s;
  if (options.dry_run) return shards->report;
  if (absl::Status s = WriteFolder(folder, shards->plans, shards->names, shards->index, options); !s.ok()) return s;
  return shards->report;
}

absl::StatusOr<RankReport> ExportShardsOfRank(const std::vector<weights::NamedTensor>& tensors,
                                              const std::string& folder, SafetensorsOptions options, int rank,
                                              int world_size, const std::string& run) {
  options.metadata[weights::kRunKey] = run;
  options.metadata[kCrc] = std::string(kCrcDigits, '0');
  auto shards = PlanShards(tensors, options);
  if (!shards.ok()) return shards.status();
  if (absl::Status s = CheckOutput(shards->report.file_bytes, options.max_output); !s.ok()) return s;
  RankReport out{shards->report, 0, 0, false};
  if (options.dry_run) return out;
  std::string base = folder;
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  if (mkdir(base.c_str(), 0777) != 0 && errno != EEXIST) return io::IoError(errno, base);
  // Files of another checkpoint would be read along with these.
  const std::string index = text::StrCat(base, "/", kIndex);
  for (const std::string& name : weights::FilesReplaced(base))
    if (name != kIndex && std::find(shards->names.begin(), shards->names.end(), name) == shards->names.end())
      return OfAnotherRun(text::StrCat(base, "/", name));
  const size_t count = shards->plans.size();
  const auto path = [&](size_t i) { return text::StrCat(base, "/", shards->names[i]); };
  const auto is_own = [&](size_t i) { return static_cast<int>(i % static_cast<size_t>(world_size)) == rank; };
  for (size_t i = 0; i < count; ++i)
    if (FindShard(path(i), shards->plans[i], false) == Found::kOther) return OfAnotherRun(path(i));
  if (!shards->index.empty() && Exists(index) && !HoldsText(index, shards->index) && unlink(index.c_str()) != 0 &&
      errno != ENOENT)
    return io::IoError(errno, index);
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i)
    if (is_own(i)) total += shards->plans[i].tensor_bytes;
  for (size_t i = 0; i < count; ++i) {
    if (!is_own(i)) continue;
    if (FindShard(path(i), shards->plans[i], true) == Found::kWhole) {
      ++out.kept;
      continue;
    }
    RETURN_IF_ERROR(WriteShard(path(i), shards->plans[i], options, total));
    ++out.written;
  }
  // Others may have begun since, or have left files long ago: whoever completes the checkpoint answers for all of it.
  for (const bool read_values : {false, true})
    for (size_t i = 0; i < count; ++i) {
      if (is_own(i)) continue;
      switch (FindShard(path(i), shards->plans[i], read_values)) {
        case Found::kNothing: return out;
        case Found::kOther: return OfAnotherRun(path(i));
        case Found::kDamaged:
          return absl::DataLossError(
              text::StrCat(path(i),
                           " is damaged: its values are not those that its header's checksum was made of; "
                           "rank ",
                           i % static_cast<size_t>(world_size), " of this run writes it anew"));
        case Found::kWhole: break;
      }
    }
  out.last = true;
  std::vector<std::pair<std::string, io::Bytes>> extra = std::move(options.extra_files);
  if (!shards->index.empty()) extra.emplace_back(kIndex, io::Bytes::Of(std::move(shards->index)));
  std::vector<std::string> made;
  for (const auto& [name, content] : extra) {
    const std::string to = text::StrCat(base, "/", name);
    RETURN_IF_ERROR(MakeFolder(to.substr(0, to.rfind('/')), &made));
    auto file = io::AtomicFile::Create(to, {.durable = true});
    if (!file.ok()) return file.status();
    RETURN_IF_ERROR((*file)->Append(content));
    RETURN_IF_ERROR((*file)->Commit());
  }
  return out;
}

absl::StatusOr<SafetensorsReport> ExportRanks(const std::vector<std::vector<weights::NamedTensor>>& ranks,
                                              const std::string& folder, const SafetensorsOptions& options) {
  std::vector<FilePlan> plans;
  std::vector<std::string> names;
  SafetensorsReport report;
  report.files = static_cast<int>(ranks.size());
  for (const std::vector<weights::NamedTensor>& tensors : ranks) {
    auto plan = PlanOf(tensors, options);
    if (!plan.ok()) return plan.status();
    report.tensor_bytes += plan->tensor_bytes;
    report.file_bytes += plan->size();
    names.push_back(text::StrCat("rank-", Padded(plans.size()), "-of-", Padded(ranks.size()), ".safetensors"));
    plans.push_back(*std::move(plan));
  }
  if (absl::Status s = CheckOutput(report.file_bytes, options.max_output); !s.ok()) return s;
  if (options.dry_run) return report;
  if (absl::Status s = WriteFolder(folder, plans, names, "", options); !s.ok()) return s;
  return report;
}

}  // namespace slipway::exporters
