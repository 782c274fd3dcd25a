// The library is found through dlopen and called through its C functions, so that a run is what any C program gets.
#include "driver/run/library.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "importers/dlpack/dlpack.h"
#include "importers/native/native_file.h"
#include "io/mapped_file.h"
#include "slipway/slipway_model.h"

namespace slipway::driver {

absl::StatusOr<std::shared_ptr<io::MappedFile>> OpenWholeLibrary(const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<io::MappedFile> file, io::MappedFile::Open(path));
  const absl::Span<const uint8_t> bytes = file->data();
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0 || bytes[EI_CLASS] != ELFCLASS64)
    return absl::InvalidArgumentError(text::StrCat(path, ": no 64-bit ELF library"));
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto inside = [&](uint64_t offset, uint64_t size) {
    return offset <= bytes.size() && size <= bytes.size() - offset;
  };
  bool whole = inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  for (int i = 0; whole && i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    whole = inside(segment.p_offset, segment.p_filesz);
  }
  if (!whole) return absl::InvalidArgumentError(text::StrCat(path, ": the library is cut off"));
  RETURN_IF_ERROR(importers::ReadNative(file).status());
  return file;
}

struct NativeLibrary::Functions {
  decltype(&slipway_model_open_with) open;
  decltype(&slipway_model_close) close;
  decltype(&slipway_model_error) error;
  decltype(&slipway_model_output_count) output_count;
  decltype(&slipway_model_run) run;
  decltype(&slipway_model_set_threads) set_threads;
  decltype(&slipway_model_profile) profile;
  decltype(&slipway_model_profile_rows) profile_rows;
  decltype(&slipway_model_profile_work) profile_work;  // these may be null
  decltype(&slipway_model_profile_steps) profile_steps;
  decltype(&slipway_model_memory) memory;
  decltype(&slipway_model_state_count) state_count;
  decltype(&slipway_model_state) state;
  decltype(&slipway_model_state_length) state_length;
  decltype(&slipway_model_reset_state) reset_state;
};

absl::StatusOr<std::unique_ptr<NativeLibrary>> NativeLibrary::Open(const std::string& path,
                                                                   const std::vector<std::string>& plugins) {
  std::unique_ptr<NativeLibrary> out(new NativeLibrary);
  ASSIGN_OR_RETURN(out->file_, OpenWholeLibrary(path));
  // A name without a slash is looked for in the system's folders.
  const std::string place = path.find('/') == std::string::npos ? "./" + path : path;
  out->library_ = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!out->library_) return absl::InvalidArgumentError(dlerror());
  out->f_ = std::make_unique<Functions>();
  bool all = true;
  auto find = [&](auto* function, const char* name) {
    *reinterpret_cast<void**>(function) = dlsym(out->library_, name);
    all = all && *function != nullptr;
  };
  find(&out->f_->open, "slipway_model_open_with");
  find(&out->f_->close, "slipway_model_close");
  find(&out->f_->error, "slipway_model_error");
  find(&out->f_->output_count, "slipway_model_output_count");
  find(&out->f_->run, "slipway_model_run");
  find(&out->f_->set_threads, "slipway_model_set_threads");
  find(&out->f_->profile, "slipway_model_profile");
  find(&out->f_->profile_rows, "slipway_model_profile_rows");
  const bool complete = all;
  find(&out->f_->profile_work, "slipway_model_profile_work");
  find(&out->f_->profile_steps, "slipway_model_profile_steps");
  find(&out->f_->memory, "slipway_model_memory");
  find(&out->f_->state_count, "slipway_model_state_count");
  find(&out->f_->state, "slipway_model_state");
  find(&out->f_->state_length, "slipway_model_state_length");
  find(&out->f_->reset_state, "slipway_model_reset_state");
  if (!complete) return absl::InvalidArgumentError(text::StrCat(path, ": a library, but not a model of slipway"));
  std::vector<const char*> paths;
  for (const std::string& p : plugins) paths.push_back(p.c_str());
  slipway_model_options options{};
  options.size = sizeof options;
  options.plugins = paths.data();
  options.plugin_count = paths.size();
  if (out->f_->open(&out->model_, &options) != SLIPWAY_MODEL_OK)
    return absl::InvalidArgumentError(text::StrCat(path, ": ", std::string(out->f_->error())));
  return out;
}

NativeLibrary::~NativeLibrary() {
  FreeResults();
  if (model_) f_->close(model_);
  if (library_) dlclose(library_);
}

void NativeLibrary::FreeResults() {
  for (DLManagedTensorVersioned* r : std::exchange(results_, {}))
    if (r) r->deleter(r);
}

absl::Status NativeLibrary::SetInputs(absl::Span<const ir::TensorRef> inputs) {
  inputs_.assign(inputs.begin(), inputs.end());
  bytes_.resize(inputs.size());
  tensors_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::TensorRef& t = inputs_[i];
    const std::optional<DLDataType> type = importers::DlpackType(t.dtype);
    if (!type)
      return absl::UnimplementedError(
          text::StrCat("input ", i, " is ", ir::Name(t.dtype), ", which libraries do not take"));
    auto dense = ir::ReadDense(t, uint64_t{1} << 40);
    if (!dense.ok()) return dense.status();
    bytes_[i] = *std::move(dense);
    tensors_[i] = {bytes_[i].data(),
                   {kDLCPU, 0},
                   static_cast<int32_t>(t.sizes.size()),
                   *type,
                   const_cast<int64_t*>(t.sizes.data()),
                   nullptr,
                   0};
  }
  return absl::OkStatus();
}

absl::Status NativeLibrary::Execute() {
  FreeResults();
  std::vector<const DLTensor*> in;
  for (const DLTensor& t : tensors_) in.push_back(&t);
  results_.resize(f_->output_count(model_));
  const int code = f_->run(model_, in.data(), in.size(), results_.data(), results_.size());
  if (code == SLIPWAY_MODEL_OK) return absl::OkStatus();
  const std::string why = f_->error();
  switch (code) {
    case SLIPWAY_MODEL_BAD_INPUT: return absl::InvalidArgumentError(why);
    case SLIPWAY_MODEL_UNSUPPORTED: return absl::UnimplementedError(why);
    case SLIPWAY_MODEL_NO_MEMORY: return absl::ResourceExhaustedError(why);
    default: return absl::InternalError(why);
  }
}

std::vector<ir::TensorRef> NativeLibrary::Outputs() const {
  std::vector<ir::TensorRef> out;
  for (const DLManagedTensorVersioned* r : results_) {
    if (!r) continue;  // the last run failed
    const DLTensor& t = r->dl_tensor;
    const ir::DType dtype = importers::DTypeFromDlpack(t.dtype).value_or(ir::DType::kUnknown);
    std::vector<int64_t> sizes(t.shape, t.shape + t.ndim);
    size_t n = t.dtype.bits / 8;
    for (int64_t s : sizes) n *= static_cast<size_t>(s);
    out.push_back(
        ir::OwnedTensor(dtype, std::move(sizes), std::string(n == 0 ? "" : static_cast<const char*>(t.data), n)));
  }
  return out;
}

absl::StatusOr<std::vector<ir::TensorRef>> NativeLibrary::Run(absl::Span<const ir::TensorRef> inputs) {
  if (absl::Status s = SetInputs(inputs); !s.ok()) return s;
  if (absl::Status s = Execute(); !s.ok()) return s;
  return Outputs();
}

absl::Status NativeLibrary::ResetState() {
  if (f_->reset_state == nullptr || f_->reset_state(model_) == SLIPWAY_MODEL_OK) return absl::OkStatus();
  return absl::ResourceExhaustedError(f_->error());
}

bool NativeLibrary::HasState() const {
  return f_->reset_state != nullptr && f_->state_count != nullptr && f_->state_count(model_) > 0;
}

std::vector<std::string> NativeLibrary::GrowingStates() const {
  std::vector<std::string> names;
  if (f_->state_count == nullptr || f_->state == nullptr || f_->state_length == nullptr) return names;
  for (size_t i = 0; i < f_->state_count(model_); ++i) {
    slipway_model_value value;
    f_->state(model_, i, &value);
    if (f_->state_length(model_, i) >= 0) names.emplace_back(value.name);
  }
  return names;
}

absl::Status NativeLibrary::SetThreads(int threads) {
  return f_->set_threads(model_, threads) == SLIPWAY_MODEL_OK ? absl::OkStatus()
                                                              : absl::InvalidArgumentError(f_->error());
}

void NativeLibrary::Profile(bool on) { f_->profile(model_, on); }

void NativeLibrary::ProfileRows(const std::function<void(const slipway_model_work&)>& row) const {
  using Row = std::function<void(const slipway_model_work&)>;
  void* const user = const_cast<void*>(static_cast<const void*>(&row));
  if (f_->profile_work != nullptr)
    return f_->profile_work(
        model_, [](void* f, const slipway_model_work* work) { (*static_cast<const Row*>(f))(*work); }, user);
  f_->profile_rows(
      model_,
      [](void* f, const char* op, int64_t steps, double seconds) {
        (*static_cast<const Row*>(f))({sizeof(slipway_model_work), op, steps, seconds, 0, 0, 0, "", "", 0});
      },
      user);
}

void NativeLibrary::StepRows(const std::function<void(const slipway_model_work&)>& row) const {
  using Row = std::function<void(const slipway_model_work&)>;
  if (f_->profile_steps == nullptr) return;
  f_->profile_steps(
      model_, [](void* f, const slipway_model_work* work) { (*static_cast<const Row*>(f))(*work); },
      const_cast<void*>(static_cast<const void*>(&row)));
}

bool NativeLibrary::Memory(uint64_t* temporaries, uint64_t* working) const {
  if (f_->memory == nullptr) return false;
  f_->memory(model_, temporaries, working);
  return true;
}

}  // namespace slipway::driver
