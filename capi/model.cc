// Models from opening to closing, their diagnostics, and options.
#include "capi/model.h"

#include "base/text.h"
#include "base/utf8.h"
#include "driver/convert/options.h"
#include "driver/edge/format.h"

namespace slipway::capi {

using driver::Outcome;

void AddNotes(const std::vector<std::string>& lines, Outcome* outcome) {
  std::vector<driver::Diagnostic> notes;
  for (const std::string& line : lines) notes.push_back({driver::Severity::kNote, "", line, "", ""});
  outcome->diagnostics.insert(outcome->diagnostics.begin(), notes.begin(), notes.end());
}

int Record(slipway_archive* model, Outcome outcome) {
  model->error.clear();
  if (outcome.code != driver::kDone)
    for (const driver::Diagnostic& d : outcome.diagnostics)
      if (d.severity == driver::Severity::kError)
        model->error = text::StrCat("error[", d.id, "]: ", text::Printable(d.cause));
  model->diagnostics = std::move(outcome.diagnostics);
  return outcome.code;
}

namespace {

Outcome OpenPrograms(const driver::Source& source, slipway_archive* model) {
  auto archive = driver::OpenArchive(source);
  if (!archive.ok()) return driver::Fail(archive.status(), source.path);
  model->archive = *std::move(archive);
  return {};
}

Outcome Open(const char* path, const slipway_options* options, slipway_archive* model) {
  if (!path) return Usage("the path is NULL");
  model->path = path;
  auto source = driver::OpenSource(path);
  if (!source.ok()) return driver::Fail(source.status(), path);
  model->file = source->file;
  model->bytes = model->file ? model->file->size() : 0;
  auto format = driver::FormatOf(*source);
  if (!format.ok()) return driver::Fail(format.status(), path);
  model->format = (*format)->name;
  if (!(*format)->tensors) return OpenPrograms(*source, model);
  auto tensors = driver::OpenWholeTensors(path, options ? options->convert.key : "");
  if (!tensors.ok()) return driver::Fail(tensors.status(), path);
  model->tensors = *std::move(tensors);
  model->weights_alone = true;
  return {};
}

// The file of memory is no file that outputs could name as where they come from: its weights come later.
Outcome OpenBytes(const void* data, size_t size, const char* name, slipway_archive* model) {
  if (!data || !name) return Usage(data ? "the name is NULL" : "the data is NULL");
  model->path = name;
  model->bytes = size;
  auto file = io::MappedFile::OfBytes(name, {static_cast<const uint8_t*>(data), size});
  if (!file.ok()) return driver::Fail(file.status(), name);
  const driver::Source source = {name, *std::move(file)};
  auto format = driver::FormatOf(source);
  if (!format.ok()) return driver::Fail(format.status(), name);
  model->format = (*format)->name;
  if (!(*format)->programs) return driver::Fail(absl::UnimplementedError("weights alone, without a program"), name);
  return OpenPrograms(source, model);
}

slipway_archive* NewModel(slipway_archive** out) {
  if (!out) return nullptr;
  *out = nullptr;
  try {
    *out = new slipway_archive;
  } catch (...) {
  }
  return *out;
}

}  // namespace
}  // namespace slipway::capi

using namespace slipway;  // NOLINT: the C functions live outside

extern "C" {

const char* slipway_version(void) { return SLIPWAY_VERSION; }

int slipway_open(const char* path, const slipway_options* options, slipway_archive** out) {
  if (!out) return SLIPWAY_USAGE;
  slipway_archive* model = capi::NewModel(out);
  if (!model) return SLIPWAY_NO_MEMORY;
  return capi::Call(model, [&] { return capi::Open(path, options, model); });
}

int slipway_open_bytes(const void* data, size_t size, const char* name, const slipway_options*, slipway_archive** out) {
  if (!out) return SLIPWAY_USAGE;
  slipway_archive* model = capi::NewModel(out);
  if (!model) return SLIPWAY_NO_MEMORY;
  return capi::Call(model, [&] { return capi::OpenBytes(data, size, name, model); });
}

int slipway_new(slipway_archive** out) {
  if (!out) return SLIPWAY_USAGE;
  slipway_archive* model = capi::NewModel(out);
  if (!model) return SLIPWAY_NO_MEMORY;
  return capi::Call(model, [&] {
    model->weights_alone = true;
    model->format = "safetensors";
    return driver::Outcome();
  });
}

void slipway_close(slipway_archive* model) { delete model; }

size_t slipway_diagnostic_count(const slipway_archive* model) {
  return !model ? 0 : model->no_memory ? 1 : model->diagnostics.size();
}

int slipway_diagnostic_get(const slipway_archive* model, size_t index, slipway_diagnostic* out) {
  if (index >= slipway_diagnostic_count(model)) return SLIPWAY_USAGE;
  slipway_diagnostic full = {sizeof full, SLIPWAY_ERROR, driver::id::kMemory, "out of memory", "", ""};
  if (!model->no_memory) {
    const driver::Diagnostic& d = model->diagnostics[index];
    full.severity = static_cast<slipway_severity>(d.severity);
    full.id = d.id.c_str();
    full.cause = d.cause.c_str();
    full.place = d.place.c_str();
    full.help = d.help.c_str();
  }
  return capi::Fill(out, full) ? SLIPWAY_OK : SLIPWAY_USAGE;
}

const char* slipway_error(const slipway_archive* model) {
  return !model ? "" : model->no_memory ? "error[SW4001]: out of memory" : model->error.c_str();
}

slipway_options* slipway_options_new(void) {
  try {
    return new slipway_options;
  } catch (...) {
    return nullptr;
  }
}

void slipway_options_free(slipway_options* options) { delete options; }

int slipway_options_set(slipway_options* options, const char* key, const char* value) {
  if (!options) return SLIPWAY_USAGE;
  try {
    options->error.clear();
    if (!key || !value) {
      options->error = "the key or the value is NULL";
      return SLIPWAY_USAGE;
    }
    const absl::Status s = driver::SetConvertFlag(options->convert, key, value);
    if (s.ok()) return SLIPWAY_OK;
    options->error = std::string(s.message());
    return SLIPWAY_USAGE;
  } catch (...) {
    return SLIPWAY_NO_MEMORY;
  }
}

const char* slipway_options_error(const slipway_options* options) { return options ? options->error.c_str() : ""; }

const char* slipway_options_key(size_t index) {
  return index < std::size(driver::kConvertFlags) ? driver::kConvertFlags[index].name.data() : nullptr;
}

void slipway_options_progress(slipway_options* options, slipway_progress progress, void* user) {
  if (!options) return;
  options->convert.progress = nullptr;
  if (progress)
    options->convert.progress = [progress, user](uint64_t done, uint64_t total) { progress(user, done, total); };
}

}  // extern "C"
