// Programs are run by the evaluator, libraries in this process through their C interface (those of another machine in a
// process of an emulator), ONNX models in a process of Python.
#include "driver/verify/model.h"

#include "base/machine.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "driver/convert/missing_weights.h"
#include "driver/convert/pass_context.h"
#include "driver/edge/diagnostic.h"
#include "driver/edge/format.h"
#include "driver/run/emulated.h"
#include "driver/run/library.h"
#include "driver/verify/onnx_runtime.h"
#include "importers/native/native_file.h"
#include "io/atomic_writer.h"
#include "io/temp_folder.h"
#include "io/zip_reader.h"
#include "ir/clone.h"
#include "kernels/parallel.h"
#include "planner/lowering/rules.h"
#include "weights/cast.h"

namespace slipway::driver {
namespace {

class ProgramModel : public VerifyModel {
 public:
  ProgramModel(std::unique_ptr<ir::Program> p, Plugins plugins, const VerifyOptions& o)
      : program_(std::move(p)), plugins_(std::move(plugins)), options_(o) {}

  const ir::Program* program() const override { return program_.get(); }
  std::string kind() const override { return "program"; }
  std::vector<std::string> output_names() const override { return names_; }

  absl::StatusOr<std::vector<absl::StatusOr<Tensors>>> Run(absl::Span<const Tensors> sets) override {
    if (!prepared_) {
      std::unique_ptr<ir::Program> copy = ir::Clone(*program_);
      ConversionContext context;
      RETURN_IF_ERROR(passes::RunPasses(passes::kPreparation, *copy, context));
      for (const ir::Arg& out : copy->graph->outputs)
        if (const ir::Value* v = out.value()) names_.push_back(v->name());
      missing_ = WeightsWithoutValues(*copy);
      auto prepared = planner::PlanEvaluator(PlanOptionsOf(options_, plugins_)).Prepare(std::move(copy));
      if (!prepared.ok()) return OrMissingWeights(*program_, missing_, prepared.status(), kJoinWeights);
      prepared_ = *std::move(prepared);
    }
    std::vector<absl::StatusOr<Tensors>> results = RunAll(*prepared_, sets);
    for (const auto& result : results)  // sizes are planned one by one where no plan serves all
      if (absl::IsUnimplemented(result.status()) && !missing_.empty())
        return MissingWeights(*program_, missing_, kJoinWeights);
    return results;
  }

 private:
  std::unique_ptr<ir::Program> program_;
  Plugins plugins_;
  const VerifyOptions& options_;
  std::unique_ptr<ir::PreparedProgram> prepared_;
  std::vector<std::string> missing_;  // weights without values
  std::vector<std::string> names_;
};

// What libraries of this machine and of others have in common: what their inputs are.
class LibraryModel : public VerifyModel {
 public:
  explicit LibraryModel(const kernels::NativeModel& model) {
    for (const auto& [key, value] : model.metadata)
      if (const auto dtype = ir::DTypeFromName(value); key == "slipway.dtype" && dtype && ir::IsLowPrecision(*dtype))
        narrowed_ = *dtype;
    for (const kernels::Input& in : model.plan.inputs) inputs_.push_back(planner::FromNative(in.dtype));
  }

  ir::DType narrowed() const override { return narrowed_; }
  std::string kind() const override { return "native library"; }

 protected:
  // The inputs as the library takes them.
  absl::StatusOr<Tensors> Cast(Tensors inputs) const {
    for (size_t i = 0; i < inputs.size() && i < inputs_.size(); ++i)
      if (inputs[i].dtype == ir::DType::kFloat32 && inputs_[i] == narrowed_) {
        ASSIGN_OR_RETURN(inputs[i], CastTo(inputs[i], narrowed_));
      }
    return inputs;
  }

 private:
  ir::DType narrowed_ = ir::DType::kFloat32;
  std::vector<ir::DType> inputs_;
};

class LoadedModel : public LibraryModel {
 public:
  LoadedModel(std::unique_ptr<NativeLibrary> library, std::unique_ptr<io::TempFolder> folder,
              const kernels::NativeModel& model)
      : LibraryModel(model), folder_(std::move(folder)), library_(std::move(library)) {}

  absl::StatusOr<std::vector<absl::StatusOr<Tensors>>> Run(absl::Span<const Tensors> sets) override {
    std::vector<absl::StatusOr<Tensors>> out;
    for (const Tensors& set : sets) {
      RETURN_IF_ERROR(library_->ResetState());
      ASSIGN_OR_RETURN(const Tensors inputs, Cast(set));
      out.push_back(library_->Run(inputs));
      if (!out.back().ok() && !absl::IsInvalidArgument(out.back().status())) return out.back().status();
    }
    return out;
  }

 private:
  std::unique_ptr<io::TempFolder> folder_;  // where a package was unpacked
  std::unique_ptr<NativeLibrary> library_;
};

class EmulatedModel : public LibraryModel {
 public:
  EmulatedModel(std::string path, const Machine& machine, const VerifyOptions& o, const kernels::NativeModel& model)
      : LibraryModel(model), path_(std::move(path)), machine_(machine), options_(o) {}

  std::string note() const override { return text::StrCat(path_, " ran under an emulator of ", machine_.name); }

  absl::StatusOr<std::vector<absl::StatusOr<Tensors>>> Run(absl::Span<const Tensors> sets) override {
    std::vector<Tensors> inputs;
    for (const Tensors& set : sets) {
      ASSIGN_OR_RETURN(inputs.emplace_back(), Cast(set));
    }
    ASSIGN_OR_RETURN(std::vector<EmulatedRun> runs,
                     RunEmulated(path_, machine_, inputs,
                                 {.emulator = options_.emulator, .threads = options_.threads, .reset_state = true}));
    std::vector<absl::StatusOr<Tensors>> out;
    for (EmulatedRun& run : runs) {
      out.push_back(std::move(run.outputs));
      if (!out.back().ok() && !absl::IsInvalidArgument(out.back().status())) return out.back().status();
    }
    return out;
  }

 private:
  const std::string path_;
  const Machine& machine_;
  const VerifyOptions& options_;
};

class OnnxModel : public VerifyModel {
 public:
  OnnxModel(std::string path, const VerifyOptions& o, bool unoptimized)
      : path_(std::move(path)), options_(o), unoptimized_(unoptimized) {}

  std::string kind() const override { return "ONNX model"; }
  std::string note() const override { return version_.empty() ? "" : text::StrCat("onnxruntime ", version_); }
  std::vector<std::string> output_names() const override { return names_; }

  absl::StatusOr<std::vector<absl::StatusOr<Tensors>>> Run(absl::Span<const Tensors> sets) override {
    ASSIGN_OR_RETURN(OnnxRuns runs, RunOnnx(path_, sets,
                                            {.python = options_.python,
                                             .timeout_seconds = options_.timeout,
                                             .threads = options_.threads,
                                             .optimize = !unoptimized_}));
    version_ = runs.version;
    names_ = runs.outputs;
    // State that the model carries is no output of the program.
    size_t outputs = names_.size();
    while (outputs > 0 && names_[outputs - 1].starts_with("state_out.")) --outputs;
    names_.resize(outputs);
    for (auto& result : runs.results)
      if (result.ok()) result->resize(std::min(result->size(), outputs));
    return std::move(runs.results);
  }

 private:
  const std::string path_;
  const VerifyOptions& options_;
  const bool unoptimized_;
  std::string version_;
  std::vector<std::string> names_;
};

// The library of a package for torch's AOT loader, as a file of its own.
absl::StatusOr<std::string> Unpack(const std::shared_ptr<io::MappedFile>& file, const std::string& folder) {
  ASSIGN_OR_RETURN(const auto zip, io::ZipReader::Open(file));
  for (const io::ZipEntry& e : zip->entries()) {
    if (!e.name.ends_with(".so")) continue;
    ASSIGN_OR_RETURN(const io::Bytes bytes, zip->Read(e, uint64_t{1} << 36));
    const std::string path = folder + "/model.so";
    ASSIGN_OR_RETURN(auto out, io::AtomicFile::Create(path));
    RETURN_IF_ERROR(out->Append(bytes));
    RETURN_IF_ERROR(out->Commit());
    return path;
  }
  return absl::InvalidArgumentError("a package without a library");
}

absl::Status HasGrowingStates(const std::string& path, const std::vector<std::string>& states) {
  return WithHelp(
      absl::UnimplementedError(text::StrCat(path, ": the library keeps ", text::Join(states, ", "), " between runs")),
      "what `convert` makes without --state can be compared");
}

absl::StatusOr<std::unique_ptr<VerifyModel>> OpenForeign(const Source& source, const Machine& machine,
                                                         const VerifyOptions& o) {
  ASSIGN_OR_RETURN(const importers::NativeFile native, importers::ReadNative(source.file));
  const kernels::Plan& plan = native.model.plan;
  std::vector<std::string> growing;
  for (const kernels::State& state : plan.states)
    if (state.dim >= 0 && static_cast<size_t>(state.input) < plan.inputs.size())
      growing.push_back(plan.inputs[static_cast<size_t>(state.input)].name);
  if (!growing.empty()) return HasGrowingStates(source.path, growing);
  if (!o.plugins.empty())
    return WithHelp(absl::UnimplementedError(text::StrCat("--plugin: the library is for ", machine.name,
                                                          " and runs under an emulator, which this is not for")),
                    "compare the program with a library of this machine");
  return std::make_unique<EmulatedModel>(source.path, machine, o, native.model);
}

absl::StatusOr<std::unique_ptr<VerifyModel>> OpenLibrary(const Source& source, const VerifyOptions& o) {
  if (const Machine* machine = ForeignMachine(source)) return OpenForeign(source, *machine, o);
  std::unique_ptr<io::TempFolder> folder;
  std::string path = source.path;
  if (io::ZipReader::Open(source.file).ok()) {
    ASSIGN_OR_RETURN(folder, io::TempFolder::Make());
    ASSIGN_OR_RETURN(path, Unpack(source.file, folder->path()));
  }
  ASSIGN_OR_RETURN(auto library, NativeLibrary::Open(path, o.plugins));
  RETURN_IF_ERROR(library->SetThreads(o.threads));
  if (const auto states = library->GrowingStates(); !states.empty()) return HasGrowingStates(path, states);
  ASSIGN_OR_RETURN(const importers::NativeFile native, importers::ReadNative(source.file));
  return std::make_unique<LoadedModel>(std::move(library), std::move(folder), native.model);
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerifyModel>> VerifyModel::Open(const std::string& path, const VerifyOptions& o,
                                                               bool unoptimized) {
  ASSIGN_OR_RETURN(const Source source, OpenSource(path));
  ASSIGN_OR_RETURN(const Format* format, FormatOf(source));
  if (format->name == "onnx") return std::make_unique<OnnxModel>(path, o, unoptimized);
  if (unoptimized) return UsageError("--ort-unoptimized is for an ONNX model as A");
  if (format->name == "native") return OpenLibrary(source, o);
  ASSIGN_OR_RETURN(ir::Archive archive, OpenArchive(source));
  if (archive.programs.size() != 1)
    return WithHelp(absl::UnimplementedError(text::StrCat("an archive of ", archive.programs.size(), " programs")),
                    "slipway unpack divides it");
  ASSIGN_OR_RETURN(Plugins plugins, Plugins::Open(o.plugins));
  return std::make_unique<ProgramModel>(std::move(archive.programs[0]), std::move(plugins), o);
}

absl::StatusOr<ir::TensorRef> CastTo(const ir::TensorRef& t, ir::DType to) {
  const weights::CastFunction cast = weights::FindCast(t.dtype, to);
  if (cast == nullptr) return t;
  ASSIGN_OR_RETURN(const std::string dense, ir::ReadDense(t, uint64_t{1} << 40));
  const auto n = static_cast<uint64_t>(t.numel());
  std::string made(n * static_cast<uint64_t>(ir::ByteSize(to)), '\0');
  cast(reinterpret_cast<const uint8_t*>(dense.data()), reinterpret_cast<uint8_t*>(made.data()), n);
  return ir::OwnedTensor(to, t.sizes, std::move(made));
}

planner::PlanOptions PlanOptionsOf(const VerifyOptions& o, const Plugins& plugins) {
  planner::PlanOptions options{.memory_limit = o.memory_limit};
  if (!o.plugins.empty()) options.plugins = [&plugins](std::string_view name) { return plugins.Find(name); };
  options.threads = o.threads > 0 ? o.threads : kernels::DefaultThreads();
  return options;
}

std::vector<absl::StatusOr<Tensors>> RunAll(ir::PreparedProgram& program, absl::Span<const Tensors> sets) {
  std::vector<absl::StatusOr<Tensors>> out;
  for (const Tensors& inputs : sets) out.push_back(program.Run(inputs));
  return out;
}

}  // namespace slipway::driver
