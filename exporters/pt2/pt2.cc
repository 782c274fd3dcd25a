// The members around the programs; docs/formats.md lists them. Names and order are torch's.
#include "exporters/pt2/pt2.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "exporters/program_names.h"
#include "exporters/pt2/payloads.h"
#include "exporters/pt2/torch_save.h"
#include "io/atomic_writer.h"
#include "io/io_error.h"
#include "io/zip_writer.h"

namespace slipway::exporters {
namespace {

// A weight that is a pickle as it came: a tensor subclass.
struct Pickled {
  std::string name;
  const ir::Storage* storage = nullptr;
  const ir::Type* type = nullptr;
  bool is_parameter = false;
};

// What one of the two tables (weights; constants) of a program holds.
struct Table {
  std::vector<NamedTensor> tensors;
  std::vector<Pickled> pickled;
  PlacedTensors placed;
};

// The program's named tensors in the order of its inputs, then those it holds beside them. Weights are parameters and
// persistent buffers; all others are constants.
void FillTables(const ir::Program& p, Table* weights, Table* constants) {
  std::set<std::string_view> done;
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::InputSpec& s = p.input_specs[i];
    if (!s.is_weight() || !done.insert(s.target).second) continue;
    const bool parameter = s.kind == ir::InputSpec::kParameter;
    Table& table = parameter || (s.kind == ir::InputSpec::kBuffer && s.persistent) ? *weights : *constants;
    const ir::Type& type = p.graph->inputs()[i]->type();
    if (auto object = p.objects.find(s.target); object != p.objects.end()) {
      table.pickled.push_back({s.target, object->second.first.get(), &type, parameter});
    } else if (auto it = p.weights.find(s.target); it != p.weights.end()) {
      table.tensors.push_back({s.target, it->second, parameter, type.requires_grad});
    }
  }
  for (const auto& [name, tensor] : p.weights) {
    if (done.contains(name)) continue;
    // The inner tensors of a subclass lie in its pickle.
    bool inner = false;
    for (size_t dot = name.find('.'); dot != name.npos && !inner; dot = name.find('.', dot + 1))
      inner = p.objects.contains(std::string_view(name).substr(0, dot));
    if (!inner) weights->tensors.push_back({name, tensor, false, false});
  }
}

// Payloads written already, so that a later program's equal ones point to them.
class Payloads {
 public:
  struct Entry {
    io::Bytes bytes;
    std::optional<uint32_t> crc32;
    std::string member;
    int program = 0;  // the last one that refers to it: within a program equal tensors are not aliases
  };

  // The entry of equal bytes that `program` does not refer to yet, or nullptr.
  Entry* Find(const Payload& p, int program) {
    if (program == 0 || p.bytes.size() == 0) return nullptr;
    auto [begin, end] = by_size_.equal_range(p.bytes.size());
    for (auto it = begin; it != end; ++it) {
      Entry& e = entries_[it->second];
      if (e.program == program || (e.crc32 && p.crc32 && *e.crc32 != *p.crc32)) continue;
      if (Equal(e.bytes, p.bytes)) {
        e.program = program;
        return &e;
      }
    }
    return nullptr;
  }
  void Add(const Payload& p, std::string member, int program) {
    by_size_.emplace(p.bytes.size(), entries_.size());
    entries_.push_back({p.bytes, p.crc32, std::move(member), program});
  }

 private:
  std::vector<Entry> entries_;
  std::multimap<uint64_t, size_t> by_size_;

  static bool Equal(const io::Bytes& a, const io::Bytes& b) {
    const io::FileRange *x = a.file_range(), *y = b.file_range();
    if (x && y && x->file == y->file && x->offset == y->offset) return true;
    constexpr uint64_t kStep = uint64_t{8} << 20;
    for (uint64_t at = 0; at < a.size(); at += kStep) {
      const uint64_t n = std::min(kStep, a.size() - at);
      const io::Bytes left = a.Part(at, n), right = b.Part(at, n);
      const bool equal = std::memcmp(left.data().data(), right.data().data(), n) == 0;
      if (left.file_range()) left.file_range()->Release();
      if (right.file_range()) right.file_range()->Release();
      if (!equal) return false;
    }
    return true;
  }
};

absl::Status CheckNames(const ir::Archive& archive, const Pt2Options& options) {
  std::set<std::string_view> names;
  for (const auto& p : archive.programs) {
    if (p->name.empty() || p->name.find_first_of("/\\") != std::string::npos || p->name.starts_with('.') ||
        !text::IsPlain(p->name))
      return absl::InvalidArgumentError(text::StrCat("'", p->name, "' cannot be the name of a program in an archive"));
    if (!names.insert(p->name).second)
      return absl::InvalidArgumentError(text::StrCat("two programs are named '", p->name, "'"));
  }
  if (options.target == TorchTarget::k26 && archive.programs.size() != 1)
    return absl::UnimplementedError("the layout of torch 2.6 holds one program");
  for (const auto& [name, content] : archive.extra_files)
    if (!MayNameExtraFile(name))
      return absl::InvalidArgumentError(text::StrCat("'", name, "' cannot be the name of an extra file"));
  return absl::OkStatus();
}

class ArchiveWriter {
 public:
  ArchiveWriter(const ir::Archive& archive, const Pt2Options& options) : archive_(archive), options_(options) {}

  // Everything that can fail without a file. Once.
  absl::Status Prepare() {
    if (absl::Status s = CheckNames(archive_, options_); !s.ok()) return s;
    std::vector<std::string> refused;
    for (const auto& p : archive_.programs) {
      if (absl::Status s = CheckProgramNames(*p); !s.ok()) return s;
      auto json = ProgramToJson(*p, options_.target);
      const std::string prefix = archive_.programs.size() > 1 ? text::StrCat(p->name, ": ") : "";
      if (!json.ok()) {
        if (!absl::IsUnimplemented(json.status())) return json.status();
        refused.push_back(text::StrCat(prefix, json.status().message()));
        continue;
      }
      Part part{p.get(), *std::move(json), {}, {}};
      if (options_.weights) FillTables(*p, &part.weights, &part.constants);
      for (Table* t : {&part.weights, &part.constants}) {
        for (const NamedTensor& n : t->tensors)
          if (absl::Status s = CheckDType(n.tensor.dtype, options_.target); !s.ok())
            refused.push_back(text::StrCat(prefix, "'", n.name, "': ", s.message()));
        if (options_.target == TorchTarget::k26 && !t->pickled.empty())
          refused.push_back(
              text::StrCat(prefix, t->pickled.size(), " weights that are tensor subclasses, for torch 2.6"));
        auto placed = PlaceTensors(t->tensors);
        if (!placed.ok()) return placed.status();
        t->placed = *std::move(placed);
        for (const Payload& payload : t->placed.payloads) total_ += payload.bytes.size();
        for (const Pickled& x : t->pickled) total_ += x.storage->size;
      }
      parts_.push_back(std::move(part));
    }
    return refused.empty() ? absl::OkStatus() : absl::UnimplementedError(text::Join(refused, "; "));
  }
  uint64_t payload_bytes() const { return total_; }

  absl::Status Write(io::AtomicFile* file, Pt2Report* report) {
    io::ZipWriter zip(file);
    zip_ = &zip;
    absl::Status s = options_.target == TorchTarget::k29 ? WriteFolder(file->path()) : WriteFlat();
    if (s.ok()) s = zip.Finish();
    report->weight_bytes += written_;
    report->file_bytes += file->position();
    return s;
  }

 private:
  struct Part {
    const ir::Program* program;
    std::string json;
    Table weights, constants;
  };

  const ir::Archive& archive_;
  const Pt2Options& options_;
  std::vector<Part> parts_;
  io::ZipWriter* zip_ = nullptr;
  uint64_t total_ = 0, done_ = 0, written_ = 0;

  void Progress(uint64_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(done_, total_);
  }

  absl::Status Add(const std::string& member, const io::Bytes& bytes, std::optional<uint32_t> crc,
                   std::string_view what) {
    written_ += bytes.size();
    const absl::Status s = zip_->Add(member, bytes, crc);
    return s.ok() ? s : io::Prefixed(text::StrCat("'", what, "': "), s);
  }

  // ---- One folder, raw weights (torch 2.9 …)

  absl::Status WriteTable(const Table& table, int program, const std::string& folder, std::string_view stem,
                          const std::string& config, int* counter, Payloads* seen) {
    std::vector<std::string> paths(table.placed.payloads.size());
    std::vector<std::string_view> first(paths.size());  // a tensor's name, for messages
    for (size_t i = table.tensors.size(); i-- > 0;) first[table.placed.places[i].payload] = table.tensors[i].name;
    for (size_t i = 0; i < paths.size(); ++i) {
      const Payload& payload = table.placed.payloads[i];
      if (const Payloads::Entry* e = seen->Find(payload, program)) {
        paths[i] = e->member;
      } else {
        paths[i] = text::StrCat(stem, (*counter)++);
        if (absl::Status s = Add(folder + paths[i], payload.bytes, payload.crc32, first[i]); !s.ok()) return s;
        seen->Add(payload, paths[i], program);
      }
      Progress(payload.bytes.size());
    }
    json::Writer out;
    out.BeginObject().Key("config").BeginObject();
    const auto entry = [&](const std::string& name, std::string_view path, bool parameter, bool pickled) {
      out.Key(name).BeginObject().Key("path_name").String(path).Key("is_param").Bool(parameter);
      out.Key("use_pickle").Bool(pickled).Key("tensor_meta");
    };
    for (const Pickled& x : table.pickled) {
      const auto* bytes = std::get_if<io::Bytes>(&x.storage->bytes);
      const auto sizes = x.type->StaticSizes();
      if (!bytes || !sizes)
        return absl::UnimplementedError(text::StrCat("'", x.name, "': a tensor subclass without a file"));
      const std::string path = text::StrCat(stem, (*counter)++);
      if (absl::Status s = Add(folder + path, *bytes, x.storage->crc32, x.name); !s.ok()) return s;
      Progress(bytes->size());
      entry(x.name, path, x.is_parameter, true);
      std::vector<int64_t> strides = ir::ContiguousStrides(*sizes);
      for (size_t i = 0; i < strides.size() && x.type->strides_known; ++i)
        strides[i] = x.type->strides[i].constant().value_or(strides[i]);
      WriteTensorMeta(out, x.type->dtype, *sizes, strides, x.type->storage_offset.constant().value_or(0),
                      x.type->requires_grad);
      out.EndObject();
    }
    for (size_t i = 0; i < table.tensors.size(); ++i) {
      const NamedTensor& t = table.tensors[i];
      entry(t.name, paths[table.placed.places[i].payload], t.is_parameter, false);
      WriteTensorMeta(out, t.tensor.dtype, t.tensor.sizes, t.tensor.strides, table.placed.places[i].offset,
                      t.requires_grad);
      out.EndObject();
    }
    out.EndObject().EndObject();
    return zip_->Add(folder + config, out.text());
  }

  // torch names the folder after the file.
  static std::string FolderFor(const std::string& path) {
    const size_t slash = path.rfind('/');
    std::string stem = slash == path.npos ? path : path.substr(slash + 1);
    if (stem.ends_with(".pt2")) stem.resize(stem.size() - 4);
    return stem.empty() || stem == "." || stem == ".." || stem.size() > 255 || !text::IsPlain(stem) ? "archive/"
                                                                                                    : stem + "/";
  }

  absl::Status WriteFolder(const std::string& path) {
    const std::string folder = FolderFor(path);
    int weights = 0, constants = 0;
    Payloads seen_weights, seen_constants;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const std::string& name = part.program->name;
      if (absl::Status s = WriteTable(part.weights, static_cast<int>(i), folder + "data/weights/", "weight_",
                                      name + "_weights_config.json", &weights, &seen_weights);
          !s.ok())
        return s;
      if (absl::Status s = WriteTable(part.constants, static_cast<int>(i), folder + "data/constants/", "tensor_",
                                      name + "_constants_config.json", &constants, &seen_constants);
          !s.ok())
        return s;
      if (absl::Status s = zip_->Add(text::StrCat(folder, "models/", name, ".json"), part.json); !s.ok()) return s;
      if (absl::Status s = AddSampleInputs(text::StrCat(folder, "data/sample_inputs/", name, ".pt"), *part.program);
          !s.ok())
        return s;
    }
    for (const auto& [name, content] : archive_.extra_files)
      if (absl::Status s = zip_->Add(text::StrCat(folder, "extra/", name), content); !s.ok()) return s;
    if (options_.more)
      if (absl::Status s = options_.more(*zip_, folder); !s.ok()) return s;
    const std::pair<const char*, const char*> rest[] = {
        {"archive_format", "pt2"}, {"archive_version", "0"}, {".data/version", "6\n"}, {"byteorder", "little"}};
    for (const auto& [name, content] : rest)
      if (absl::Status s = zip_->Add(text::StrCat(folder, name), std::string_view(content)); !s.ok()) return s;
    return absl::OkStatus();
  }

  absl::Status AddSampleInputs(const std::string& member, const ir::Program& p) {
    const auto* bytes = p.sample_inputs ? std::get_if<io::Bytes>(&p.sample_inputs->bytes) : nullptr;
    return bytes ? zip_->Add(member, *bytes, p.sample_inputs->crc32) : zip_->Add(member, std::string_view());
  }

  // ---- Flat, pickled weights (torch 2.6 …)

  absl::Status WritePickled(const std::string& member, const Table& table) {
    if (table.tensors.empty()) return zip_->Add(member, std::string_view());
    auto layout = TorchSaveDict(table.tensors, table.placed);
    if (!layout.ok()) return layout.status();
    const std::vector<io::ZipLayout::Piece> pieces = layout->Finish();
    if (absl::Status s = zip_->Begin(member, layout->size()); !s.ok()) return s;
    for (const io::ZipLayout::Piece& piece : pieces)
      if (absl::Status s = zip_->Append(piece.bytes, piece.crc); !s.ok()) return s;
    for (const Payload& payload : table.placed.payloads) {
      written_ += payload.bytes.size();
      Progress(payload.bytes.size());
    }
    return zip_->End();
  }

  absl::Status WriteFlat() {
    const Part& part = parts_[0];
    if (absl::Status s = zip_->Add("serialized_exported_program.json", part.json); !s.ok()) return s;
    if (absl::Status s = WritePickled("serialized_state_dict.pt", part.weights); !s.ok()) return s;
    if (absl::Status s = WritePickled("serialized_constants.pt", part.constants); !s.ok()) return s;
    if (absl::Status s = AddSampleInputs("serialized_example_inputs.pt", *part.program); !s.ok()) return s;
    for (const auto& [name, content] : archive_.extra_files)
      if (absl::Status s = zip_->Add(text::StrCat("extra_files/", name), content); !s.ok()) return s;
    return zip_->Add("version", std::string_view("8.2"));
  }
};

}  // namespace

bool MayNameExtraFile(std::string_view name) {
  if (name.empty() || name.starts_with('/') || !text::IsPlain(name)) return false;
  for (const std::string_view part : text::Split(name, '/'))
    if (part.empty() || part == "." || part == "..") return false;
  return true;
}

absl::StatusOr<Pt2Report> ExportPt2(absl::Span<const Pt2File> files, const Pt2Options& options, bool dry_run) {
  Pt2Options each = options;
  uint64_t total = 0, before = 0;
  std::deque<ArchiveWriter> writers;
  for (const Pt2File& f : files) {
    writers.emplace_back(*f.archive, each);
    if (absl::Status s = writers.back().Prepare(); !s.ok()) return s;
    total += writers.back().payload_bytes();
  }
  if (absl::Status s = CheckOutput(total, options.max_output); !s.ok()) return s;
  Pt2Report report;
  if (dry_run) {
    report.weight_bytes = total;
    return report;
  }
  if (options.progress) each.progress = [&](uint64_t done, uint64_t) { options.progress(before + done, total); };
  std::vector<std::unique_ptr<io::AtomicFile>> written;
  std::vector<io::AtomicFile*> all;
  for (size_t i = 0; i < files.size(); ++i) {
    auto file = io::AtomicFile::Create(files[i].path);
    if (!file.ok()) return file.status();
    // Of several programs, equal payloads are written once: how much is known afterwards.
    const bool known = files[i].archive->programs.size() == 1;
    if (absl::Status s = (*file)->Reserve(known ? writers[i].payload_bytes() : 0); !s.ok()) return s;
    if (absl::Status s = writers[i].Write(file->get(), &report); !s.ok()) return s;
    before += writers[i].payload_bytes();
    written.push_back(*std::move(file));
    all.push_back(written.back().get());
  }
  if (absl::Status s = io::CommitAll(all); !s.ok()) return s;
  return report;
}

}  // namespace slipway::exporters
