// The containers around the programs: A (torch 2.5–2.7: flat zip, pickled weights), B with pickled weights (2.8) and B
// with raw weights (2.9 …). See docs/formats.md for the members of each.
#include "importers/pt2/pt2.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "base/text.h"
#include "importers/checkpoint/state_dict.h"
#include "importers/json.h"
#include "importers/pt2/program.h"
#include "io/inflated.h"
#include "io/zip_reader.h"

namespace slipway::importers {
namespace {

constexpr std::string_view kProgramA = "serialized_exported_program.json";
constexpr uint64_t kMaxJson = uint64_t{1} << 31;

using io::ZipEntry;
using io::ZipReader;

absl::Status Annotate(const absl::Status& s, std::string_view where) {
  return s.ok() ? s : absl::Status(s.code(), text::StrCat(where, ": ", s.message()));
}

// Storages already made, so that tensors of one payload share it, and the other members that are read whole.
class Storages {
 public:
  explicit Storages(const ZipReader& zip, uint64_t archive) : members_(zip, io::MostMadeOf(archive)) {}
  absl::StatusOr<io::Bytes> Read(const ZipEntry& e) { return members_.Read(e); }
  absl::StatusOr<std::shared_ptr<const ir::Storage>> Of(const ZipEntry& e) {
    auto& slot = by_name_[e.name];
    if (slot) return slot;
    auto bytes = members_.Read(e);
    if (!bytes.ok()) return bytes.status();
    auto s = std::make_shared<ir::Storage>();
    s->size = bytes->size();
    s->bytes = *std::move(bytes);
    s->crc32 = e.crc32;
    return slot = std::move(s);
  }

 private:
  io::MembersWithin members_;
  std::map<std::string, std::shared_ptr<const ir::Storage>> by_name_;
};

absl::Status AddWeight(ir::Program& p, std::string name, ir::TensorRef t, std::string_view where) {
  if (absl::Status s = ir::Validate(t); !s.ok()) return Annotate(s, text::StrCat(where, ": '", name, "'"));
  p.weights.insert_or_assign(std::move(name), std::move(t));
  return absl::OkStatus();
}

// Weights that were saved without values, with their types: of models on the device meta or of FakeTensorMode.
using Absent = std::map<std::string, PayloadMeta>;

// torch writes a tensor without values as a member of 0 bytes, into which it joins all of a type. An empty tensor's
// member has 0 bytes as well, and its values are all there; a member that was cut short has a checksum.
bool IsAbsent(const PayloadMeta& meta, const ZipEntry& payload) {
  const bool empty = std::find(meta.sizes.begin(), meta.sizes.end(), 0) != meta.sizes.end();
  return !empty && (meta.on_meta || (payload.size == 0 && payload.compressed_size == 0 && payload.crc32 == 0));
}

// B-raw: a JSON config of payloads beside raw storages.
absl::Status ReadRawWeights(const ZipReader& zip, Storages& storages, const std::string& config, const std::string& dir,
                            ir::Program& p, Absent& absent) {
  const ZipEntry* entry = zip.Find(config);
  if (!entry) return absl::OkStatus();
  auto text = zip.ReadAll(*entry, kMaxJson);
  if (!text.ok()) return Annotate(text.status(), config);
  auto doc = json::Document::Parse(*text);
  if (!doc.ok()) return Annotate(doc.status(), config);
  auto map = doc->root().Get("config");
  if (!map.ok()) return Annotate(map.status(), config);
  auto members = (*map)->AsObject();
  if (!members.ok()) return Annotate(members.status(), config);
  for (const json::Member& m : *members) {
    std::string name(m.key);
    std::string where = text::StrCat(config, ": '", name, "'");
    auto path = m.value.Get("path_name");
    if (!path.ok()) return Annotate(path.status(), where);
    auto file = (*path)->AsString();
    if (!file.ok()) return Annotate(file.status(), where);
    const json::Value* pickled = m.value.Find("use_pickle");
    const json::Value* meta = m.value.Find("tensor_meta");
    const std::string member = text::StrCat(dir, *file);
    const ZipEntry* payload = zip.Find(member);
    if (!payload) return absl::InvalidArgumentError(text::StrCat(where, ": member ", member, " is missing"));
    if (pickled && pickled->is_bool() && *pickled->AsBool()) {
      if (meta && meta->is_object()) {  // a tensor subclass: its tensors, each under its attribute's name
        auto bytes = storages.Read(*payload);
        if (!bytes.ok()) return Annotate(bytes.status(), where);
        auto parts = ReadTensorSubclass(*std::move(bytes));
        if (!parts.ok()) return Annotate(parts.status(), where);
        for (auto& [attribute, tensor] : *parts)
          if (absl::Status s = AddWeight(p, text::StrCat(name, ".", attribute), std::move(tensor), config); !s.ok())
            return s;
      }
      auto storage = storages.Of(*payload);
      if (!storage.ok()) return Annotate(storage.status(), where);
      p.objects[name] = {*storage, member};
      continue;
    }
    if (!meta || !meta->is_object()) return absl::InvalidArgumentError(text::StrCat(where, ": no tensor_meta"));
    auto parsed = ParsePayloadMeta(*meta);
    if (!parsed.ok()) return Annotate(parsed.status(), where);
    if (IsAbsent(*parsed, *payload)) {
      absent.emplace(std::move(name), *std::move(parsed));
      continue;
    }
    auto storage = storages.Of(*payload);
    if (!storage.ok()) return Annotate(storage.status(), where);
    ir::TensorRef t;
    t.storage = *std::move(storage);
    t.dtype = parsed->dtype;
    t.sizes = std::move(parsed->sizes);
    t.strides = std::move(parsed->strides);
    if (parsed->storage_offset < 0 || __builtin_mul_overflow(parsed->storage_offset, ir::ByteSize(t.dtype), &t.offset))
      return absl::InvalidArgumentError(text::StrCat(where, ": bad storage offset ", parsed->storage_offset));
    if (absl::Status s = AddWeight(p, std::move(name), std::move(t), config); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// A and B-pickle: a torch.save archive inside the archive, holding a dict of name -> tensor. Those without values are
// left out of it.
absl::Status ReadPickledWeights(const ZipReader& zip, Storages& storages, const std::string& member, ir::Program& p) {
  const ZipEntry* entry = zip.Find(member);
  if (!entry || entry->size == 0) return absl::OkStatus();
  auto bytes = storages.Read(*entry);
  if (!bytes.ok()) return Annotate(bytes.status(), member);
  auto tensors = ReadTensorDict(*std::move(bytes));
  if (!tensors.ok()) return Annotate(tensors.status(), member);
  for (auto& [name, tensor] : *tensors)
    if (absl::Status s = AddWeight(p, name, std::move(tensor), member); !s.ok()) return s;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ir::Program>> ReadOne(const ZipReader& zip, const std::string& member) {
  auto text = zip.ReadAll(*zip.Find(member), kMaxJson);
  if (!text.ok()) return Annotate(text.status(), member);
  return ParseProgram(*text, member);
}

// Every weight the signature names must fit what the graph says of it, those without values too; weights may be missing
// (a weightless archive).
absl::Status CheckWeights(const ir::Program& p, const Absent& absent, std::string_view where) {
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::InputSpec& s = p.input_specs[i];
    if (s.kind == ir::InputSpec::kUser || s.kind == ir::InputSpec::kConstant) continue;
    const auto it = p.weights.find(s.target);
    const auto without = absent.find(s.target);
    if (it == p.weights.end() && without == absent.end()) continue;
    const ir::DType dtype = it != p.weights.end() ? it->second.dtype : without->second.dtype;
    const std::vector<int64_t>& found = it != p.weights.end() ? it->second.sizes : without->second.sizes;
    const ir::Type& t = p.graph->inputs()[i]->type();
    if (!t.is_tensor()) continue;
    if (t.dtype != dtype)
      return absl::InvalidArgumentError(text::StrCat(where, ": '", s.target, "' is ", ir::Name(dtype),
                                                     " in the archive and ", ir::Name(t.dtype), " in the graph"));
    auto sizes = t.StaticSizes();
    if (sizes && *sizes != found)
      return absl::InvalidArgumentError(text::StrCat(where, ": '", s.target, "' has other sizes in the archive than ",
                                                     t.ToString(), " in the graph"));
  }
  return absl::OkStatus();
}

absl::Status KeepSampleInputs(const ZipReader& zip, Storages& storages, const std::string& member, ir::Program& p) {
  const ZipEntry* entry = zip.Find(member);
  if (!entry || entry->size == 0) return absl::OkStatus();
  auto storage = storages.Of(*entry);
  if (!storage.ok()) return Annotate(storage.status(), member);
  p.sample_inputs = *std::move(storage);
  return absl::OkStatus();
}

// They are held in memory, and a program is printed with all of them: together they may be some times as long as the
// archive.
absl::Status ReadExtraFiles(const ZipReader& zip, std::string_view folder, ir::Archive& archive) {
  constexpr uint64_t kTimes = 4, kAnyhow = uint64_t{64} << 20;
  uint64_t left = kAnyhow;
  for (const ZipEntry& e : zip.entries()) left += kTimes * e.compressed_size;
  for (const ZipEntry& e : zip.entries()) {
    std::string_view rest = e.name;
    if (!text::ConsumePrefix(&rest, folder) || rest.empty() || rest.ends_with('/')) continue;
    if (e.size > left)
      return absl::OutOfRangeError(
          text::StrCat(e.name, ": the extra files inflate to many times what the archive takes"));
    left -= e.size;
    auto text = zip.ReadAll(e, uint64_t{1} << 28);
    if (!text.ok()) return Annotate(text.status(), e.name);
    archive.extra_files[std::string(rest)] = *std::move(text);
  }
  return absl::OkStatus();
}

}  // namespace

bool LooksLikePt2(const std::shared_ptr<io::MappedFile>& file) {
  auto zip = ZipReader::Open(file);
  if (!zip.ok()) return false;
  for (const ZipEntry& e : (*zip)->entries())
    if (e.name == kProgramA || (text::Contains(e.name, "/models/") && e.name.ends_with(".json"))) return true;
  return false;
}

absl::StatusOr<ir::Archive> ReadPt2(const std::shared_ptr<io::MappedFile>& file) {
  auto opened = ZipReader::Open(file);
  if (!opened.ok()) return opened.status();
  const ZipReader& zip = **opened;
  ir::Archive archive;
  Storages storages(zip, file->size());

  // Container B: everything lies in the folder of the first member.
  std::string folder;
  if (!zip.entries().empty()) {
    const std::string& first = zip.entries()[0].name;
    if (size_t slash = first.find('/'); slash != std::string::npos) folder = first.substr(0, slash + 1);
  }
  std::vector<std::pair<std::string, std::string>> models;  // name, member
  if (!folder.empty()) {
    const std::string prefix = text::StrCat(folder, "models/");
    for (const ZipEntry& e : zip.entries()) {
      std::string_view rest = e.name;
      if (text::ConsumePrefix(&rest, prefix) && text::ConsumeSuffix(&rest, ".json") && !text::Contains(rest, "/"))
        models.emplace_back(std::string(rest), e.name);
    }
  }
  if (!models.empty()) {
    if (const ZipEntry* v = zip.Find(text::StrCat(folder, "archive_version"))) {
      auto version = zip.ReadAll(*v, 64);
      if (!version.ok()) return Annotate(version.status(), v->name);
      if (text::Strip(*version) != "0")
        return absl::UnimplementedError(text::StrCat(v->name, ": archive version '", *version, "' (read: 0)"));
    }
    if (const ZipEntry* order = zip.Find(text::StrCat(folder, "byteorder"))) {
      auto text = zip.ReadAll(*order, 64);
      if (!text.ok()) return Annotate(text.status(), order->name);
      if (text::Strip(*text) != "little")
        return absl::UnimplementedError(text::StrCat(order->name, ": byte order '", *text, "' (read: little)"));
    }
    for (const auto& [name, member] : models) {
      auto program = ReadOne(zip, member);
      if (!program.ok()) return program.status();
      ir::Program& p = **program;
      p.name = name;
      Absent absent;
      struct {
        const char *dir, *config;
      } kinds[] = {{"data/weights/", "_weights_config.json"}, {"data/constants/", "_constants_config.json"}};
      for (const auto& kind : kinds) {
        std::string dir = text::StrCat(folder, kind.dir);
        std::string pickled = text::StrCat(dir, name, ".pt");
        absl::Status s = zip.Find(pickled)
                             ? ReadPickledWeights(zip, storages, pickled, p)
                             : ReadRawWeights(zip, storages, text::StrCat(dir, name, kind.config), dir, p, absent);
        if (!s.ok()) return s;
      }
      if (absl::Status s = CheckWeights(p, absent, member); !s.ok()) return s;
      if (absl::Status s = KeepSampleInputs(zip, storages, text::StrCat(folder, "data/sample_inputs/", name, ".pt"), p);
          !s.ok())
        return s;
      archive.programs.push_back(*std::move(program));
    }
    if (absl::Status s = ReadExtraFiles(zip, text::StrCat(folder, "extra/"), archive); !s.ok()) return s;
  } else if (zip.Find(kProgramA)) {
    auto program = ReadOne(zip, std::string(kProgramA));
    if (!program.ok()) return program.status();
    ir::Program& p = **program;
    for (const char* member : {"serialized_state_dict.pt", "serialized_constants.pt"})
      if (absl::Status s = ReadPickledWeights(zip, storages, member, p); !s.ok()) return s;
    if (absl::Status s = CheckWeights(p, {}, kProgramA); !s.ok()) return s;
    if (absl::Status s = KeepSampleInputs(zip, storages, "serialized_example_inputs.pt", p); !s.ok()) return s;
    if (absl::Status s = ReadExtraFiles(zip, "extra_files/", archive); !s.ok()) return s;
    archive.programs.push_back(*std::move(program));
  } else {
    return absl::InvalidArgumentError(
        text::StrCat(file->path(), ": no exported program inside (neither models/*.json nor ", kProgramA, ")"));
  }
  const ir::Program& p = *archive.programs[0];
  archive.producer = text::StrCat("torch ", p.torch_version.empty() ? "<= 2.5" : p.torch_version, " (PT2 schema ",
                                  p.schema_major, ".", p.schema_minor, ")");
  return archive;
}

}  // namespace slipway::importers
