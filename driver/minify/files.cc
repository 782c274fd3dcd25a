// What is written beside a candidate must be found again from another folder: paths in texts are relative to them.
#include "driver/minify/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>

#include "base/status_macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "driver/minify/check.h"
#include "driver/minify/data.h"
#include "exporters/onnx/export.h"
#include "exporters/pt2/pt2.h"
#include "exporters/pt2/torch_save.h"
#include "exporters/safetensors/safetensors.h"
#include "io/atomic_writer.h"
#include "io/io_error.h"
#include "io/mapped_file.h"
#include "ir/clone.h"
#include "ir/text.h"
#include "onnx_model/onnx_graph.h"

namespace slipway::driver {
namespace {

constexpr int64_t kMostBytesInText = int64_t{64} << 10;  // bytes of a weight

// The same tensor in another file of the same bytes.
class Links {
 public:
  // FOLDER/STEM.0 …
  explicit Links(std::string begin) : begin_(std::move(begin)) {}

  absl::StatusOr<ir::TensorRef> Move(const ir::TensorRef& t, const io::FileRange& range) {
    std::shared_ptr<const ir::Storage>& moved = storages_[t.storage.get()];
    if (!moved) {
      std::shared_ptr<io::MappedFile>& file = files_[range.file.get()];
      if (!file) {
        char absolute[4096];
        if (!realpath(range.file->path().c_str(), absolute)) return io::IoError(errno, range.file->path());
        const std::string link = text::StrCat(begin_, ".", files_.size() - 1);
        unlink(link.c_str());  // of an earlier run
        if (symlink(absolute, link.c_str()) != 0) return io::IoError(errno, link);
        ASSIGN_OR_RETURN(file, io::MappedFile::Open(link));
      }
      ir::Storage s = *t.storage;
      s.bytes = io::Bytes(io::FileRange{file, range.offset, range.size});
      moved = std::make_shared<const ir::Storage>(std::move(s));
    }
    ir::TensorRef out = t;
    out.storage = moved;
    return out;
  }

 private:
  std::string begin_;
  std::map<const io::MappedFile*, std::shared_ptr<io::MappedFile>> files_;
  std::map<const ir::Storage*, std::shared_ptr<const ir::Storage>> storages_;
};

}  // namespace

absl::Status WriteMinifiedText(const ir::Program& p, const std::string& folder, const std::string& stem, bool link) {
  const std::unique_ptr<ir::Program> copy = ir::Clone(p);
  copy->sample_inputs = nullptr;
  if (onnx_model::IsOnnx(p)) copy->weights.clear();
  Links links(text::StrCat(folder, "/", stem));
  std::vector<ir::TensorRef*> large;
  for (auto& [name, t] : copy->weights) {
    const io::Bytes* bytes = std::get_if<io::Bytes>(&t.storage->bytes);
    if (!bytes) continue;
    if (t.nbytes() <= kMostBytesInText && ir::BitSize(t.dtype) % 8 == 0) {
      ASSIGN_OR_RETURN(std::string dense, ir::ReadDense(t));
      t = ir::OwnedTensor(t.dtype, t.sizes, std::move(dense));
    } else if (bytes->file_range() && link) {
      ASSIGN_OR_RETURN(t, links.Move(t, *bytes->file_range()));
    } else {
      large.push_back(&t);
    }
  }
  if (!large.empty()) {
    const std::string path = text::StrCat(folder, "/", stem, ".bin");
    std::vector<uint64_t> offsets;
    ASSIGN_OR_RETURN(auto file, io::AtomicFile::Create(path));
    for (const ir::TensorRef* t : large) {
      offsets.push_back(file->position());
      const auto& bytes = std::get<io::Bytes>(t->storage->bytes);
      if (t->is_contiguous() && ir::BitSize(t->dtype) % 8 == 0) {
        RETURN_IF_ERROR(file->Append(bytes.Part(static_cast<uint64_t>(t->offset), static_cast<uint64_t>(t->nbytes()))));
      } else {
        ASSIGN_OR_RETURN(const std::string dense, ir::ReadDense(*t, uint64_t{1} << 40));
        RETURN_IF_ERROR(file->Write(dense));
      }
      RETURN_IF_ERROR(file->WriteZeros((64 - file->position() % 64) % 64));
    }
    RETURN_IF_ERROR(file->Commit());
    ASSIGN_OR_RETURN(const auto mapped, io::MappedFile::Open(path));
    for (size_t i = 0; i < large.size(); ++i) {
      ir::TensorRef& t = *large[i];
      ir::Storage s;
      s.size = static_cast<uint64_t>(t.nbytes());
      s.bytes = io::Bytes(io::FileRange{mapped, offsets[i], s.size});
      t.storage = std::make_shared<const ir::Storage>(std::move(s));
      t.strides = ir::ContiguousStrides(t.sizes);
      t.offset = 0;
    }
  }
  ir::PrintOptions print;
  print.base = folder;
  print.data = !onnx_model::IsOnnx(p);  // which is for reading only
  RETURN_IF_ERROR(io::WriteFile(text::StrCat(folder, "/", stem, ".ir"), ir::Print(*copy, print)));
  // A larger program may have left one.
  if (large.empty()) unlink(text::StrCat(folder, "/", stem, ".bin").c_str());
  return absl::OkStatus();
}

absl::Status WriteMinifiedPt2(const ir::Program& p, const std::vector<ir::TensorRef>& inputs, const std::string& path) {
  ir::Archive archive;
  archive.programs.push_back(ir::Clone(p));
  ir::Program& copy = *archive.programs[0];
  const std::vector<const ir::Value*> values = UserInputs(p);
  std::vector<exporters::SampleArgument> arguments;
  bool known = values.size() == inputs.size() && !copy.sample_inputs;
  for (size_t i = 0; known && i < inputs.size(); ++i) {
    const ir::Type& t = values[i]->type();
    known = t.is_tensor() || t.kind == ir::Type::kSymInt;
    arguments.push_back({inputs[i], !t.is_tensor()});
  }
  if (known) {
    if (auto saved = exporters::TorchSaveArguments(arguments); saved.ok()) {
      auto storage = std::make_shared<ir::Storage>();
      storage->size = saved->size();
      storage->bytes = io::Bytes::Of(*std::move(saved));
      copy.sample_inputs = std::move(storage);
    }
  }
  return exporters::ExportPt2({{&archive, path}}, {}, false).status();
}

absl::Status WriteMinifiedOnnx(const ir::Program& p, const std::string& path) {
  return exporters::ExportOnnxGraph(p, path).status();
}

absl::Status WriteMinifiedInputs(const std::vector<ir::TensorRef>& inputs, const std::string& path) {
  std::vector<weights::NamedTensor> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ir::TensorRef t = inputs[i];
    if (!std::holds_alternative<io::Bytes>(t.storage->bytes)) {
      ASSIGN_OR_RETURN(std::string dense, ir::ReadDense(t));
      t = ir::OwnedTensor(t.dtype, t.sizes, std::move(dense));
    }
    out.push_back({text::StrCat("input.", i), t, t.dtype});
  }
  return exporters::ExportSafetensors(out, path, {}).status();
}

std::string ReproConstants(const ReproOptions& o, std::string_view what) {
  std::string out = "CHECK = [\n";
  for (const std::string& step : o.steps) text::StrAppend(&out, "    ", text::Quoted(step), ",\n");
  return text::StrCat(out, "]  # commands, {} being the ", what, "\nFROM = ", text::Quoted(o.from),
                      "  # where they start, seen from here\n");
}

absl::Status WriteReproShell(const ReproOptions& o, const std::string& folder) {
  std::string script = text::StrCat("#!/bin/sh\n# Fails as the original did: ", o.failure,
                                    "\nset -e\ncd \"$(dirname \"$0\")\"/", ShellQuoted(o.from), "\n");
  bool scratch = false, slipway = false;
  std::string body;
  for (std::string step : o.steps) {
    const std::pair<std::string_view, std::string> files[] = {
        {"{pt2}", ShellQuoted(o.result + "min.pt2")},
        {"{}", ShellQuoted(o.result + (o.onnx ? "min.onnx" : "min.pt2"))},
        {"{ir}", ShellQuoted(o.result + "min.ir")},
        {"{inputs}", ShellQuoted(o.result + "inputs.safetensors")},
        {"{other}", ShellQuoted(o.result + (o.onnx ? "other.onnx" : "other.ir"))},
        {"{onnx}", o.onnx ? ShellQuoted(o.result + "min.onnx") : "\"$scratch\"/out.onnx"},
        {"{folder}", "\"$scratch\""},
    };
    for (const auto& [key, value] : files)
      for (size_t at = step.find(key); at != std::string::npos; at = step.find(key, at + value.size()))
        step.replace(at, key.size(), value);
    scratch |= text::Contains(step, "$scratch");
    if (step.starts_with("slipway ")) {
      step.replace(0, 7, "\"${SLIPWAY:-slipway}\"");
      slipway = true;
    }
    text::StrAppend(&body, step, "\n");
  }
  if (slipway) script += "# SLIPWAY names the binary; else it is found in PATH.\n";
  if (scratch) script += "scratch=$(mktemp -d)\ntrap 'rm -rf \"$scratch\"' EXIT\n";
  const std::string path = folder + "/repro.sh";
  RETURN_IF_ERROR(io::WriteFile(path, script + body));
  return chmod(path.c_str(), 0755) == 0 ? absl::OkStatus() : io::IoError(errno, path);
}

void RemoveFolder(const std::string& path) {
  std::error_code ignored;  // what stays is of no harm
  std::filesystem::remove_all(path, ignored);
}

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return absl::OkStatus();
  return io::IoError(errno, path);
}

absl::Status RemoveLinks(const std::string& folder) {
  static constexpr std::string_view kNames[] = {"min.",   "other.",    "inputs.safetensors",
                                                "repro.", "report.md", "probes"};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours =
        std::any_of(std::begin(kNames), std::end(kNames), [&](std::string_view n) { return name.starts_with(n); });
    if (ours && entry.is_symlink(error) && unlink(entry.path().c_str()) != 0)
      return io::IoError(errno, entry.path().string());
  }
  return absl::OkStatus();
}

}  // namespace slipway::driver
