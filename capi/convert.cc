// Passes and export.
#include "base/text.h"
#include "capi/model.h"
#include "driver/edge/format.h"
#include "driver/edge/target.h"
#include "importers/dlpack/dlpack.h"
#include "ir/clone.h"
#include "ir/verify.h"

namespace slipway::capi {
namespace {

using driver::Outcome;

// Gives the model's programs, or one of them, to conversions, which rewrite what they get.
class ModelReader : public driver::Reader {
 public:
  ModelReader(const slipway_archive& model, size_t program) : model_(model), program_(program) {}

  absl::StatusOr<ir::Archive> Programs(const std::string&, int) const override {
    if (model_.weights_alone) return absl::UnimplementedError("weights alone, without a program");
    ir::Archive archive;
    archive.producer = model_.archive.producer;
    archive.extra_files = model_.archive.extra_files;
    std::vector<ir::TensorRef*> tensors;
    for (const ir::Program* p : Chosen()) {
      archive.programs.push_back(ir::Clone(*p));
      for (auto& [name, tensor] : archive.programs.back()->weights) tensors.push_back(&tensor);
    }
    importers::ShareStorages(tensors);
    return archive;
  }

  absl::StatusOr<ir::TensorSet> Tensors(const std::string&, const std::string&) const override {
    auto set = model_.weights_alone ? absl::StatusOr<ir::TensorSet>(model_.tensors) : driver::WeightsOf(Chosen());
    if (!set.ok()) return set.status();
    std::vector<ir::TensorRef*> tensors;
    for (auto& [name, tensor] : set->tensors) tensors.push_back(&tensor);
    importers::ShareStorages(tensors);
    return set;
  }

  std::string Digest(const std::string&) const override { return model_.file ? driver::SourceDigest(model_.file) : ""; }

 private:
  const slipway_archive& model_;
  const size_t program_;

  std::vector<const ir::Program*> Chosen() const {
    if (program_ != SLIPWAY_ALL_PROGRAMS) return {model_.Program(program_)};
    std::vector<const ir::Program*> all;
    for (const auto& p : model_.archive.programs) all.push_back(p.get());
    return all;
  }
};

bool HasProgram(const slipway_archive& model, size_t program) {
  return program == SLIPWAY_ALL_PROGRAMS || (model.weights_alone ? program == 0 : model.Program(program) != nullptr);
}

Outcome Export(slipway_archive& model, size_t program, const char* path, const slipway_options* options,
               slipway_export_info* info) {
  if (!path) return Usage("the path is NULL");
  if (!HasProgram(model, program)) return Usage(text::StrCat("there is no program number ", program));
  driver::ConvertOptions o = options ? options->convert : driver::ConvertOptions();
  // What the input is called in messages. NAME=FILE would be taken apart.
  o.inputs = {model.path.find('=') != std::string::npos && model.path.find('/') == std::string::npos ? "./" + model.path
                                                                                                     : model.path};
  o.output = path;
  driver::ConvertSummary summary;
  Outcome out = driver::Convert(o, &summary, ModelReader(model, program));
  AddNotes(summary.lines, &out);
  model.report = out.code == driver::kDone ? driver::ToJson(o, summary) : "";
  if (info) {
    slipway_export_info full = {};
    full.nodes_before = summary.nodes_before;
    full.nodes_after = summary.nodes_after;
    full.tensors = summary.tensors;
    full.weight_bytes = summary.weight_bytes;
    full.bytes_written = summary.bytes_written;
    full.seconds = summary.seconds;
    if (!Fill(info, full)) return Usage("info has no struct_size");
  }
  return out;
}

Outcome RunPass(slipway_archive& model, size_t program, const char* name, const slipway_options* options) {
  if (!name) return Usage("the name is NULL");
  const passes::Pass* pass = passes::FindPass(name);
  if (!pass) return Usage(text::StrCat("no pass is named '", name, "'"));
  ir::Program* p = model.Program(program);
  if (!p) return Usage(text::StrCat("there is no program number ", program));
  driver::ConversionContext context;
  context.verify_each = true;
  const driver::ConvertOptions o = options ? options->convert : driver::ConvertOptions();
  const driver::Target* target = driver::FindTarget(o.to.empty() ? "onnx" : o.to);
  if (target && target->legal) {
    auto legal = target->legal(o);
    if (!legal.ok()) return driver::Fail(legal.status());
    context.legal = *std::move(legal);
  }
  std::unique_ptr<ir::Program> copy = ir::Clone(*p);
  // Passes rely on types that fit their operators; every pipeline begins with this check.
  if (!model.typed.contains(program))
    if (absl::Status s = passes::InferShapes(*copy); !s.ok()) return driver::Fail(s, model.path);
  if (absl::Status s = passes::RunPass(*pass, *copy, context); !s.ok()) return driver::Fail(s, model.path);
  Outcome out;
  std::vector<std::string> refused;
  for (const ir::Node* n : *copy->graph)
    if (auto it = context.refusals.find(n); it != context.refusals.end()) refused.emplace_back(it->second.message());
  AddNotes(refused, &out);
  for (const std::string& state : context.dropped) out.diagnostics.push_back(driver::DroppedState(state));
  model.archive.programs[program] = std::move(copy);
  model.typed.insert(program);
  model.Changed();
  return out;
}

}  // namespace
}  // namespace slipway::capi

using namespace slipway;  // NOLINT: the C functions live outside

extern "C" {

const char* slipway_pass_name(size_t index) {
  return index < passes::Passes().size() ? passes::Passes()[index].name.data() : nullptr;
}

int slipway_run_pass(slipway_archive* model, size_t program, const char* pass, const slipway_options* options) {
  return capi::Call(model, [&] { return capi::RunPass(*model, program, pass, options); });
}

int slipway_verify(slipway_archive* model, size_t program) {
  return capi::Call(model, [&]() -> driver::Outcome {
    const ir::Program* p = model->Program(program);
    if (!p) return capi::Usage(text::StrCat("there is no program number ", program));
    if (absl::Status s = ir::Verify(*p); !s.ok()) return driver::Fail(s, model->path);
    return {};
  });
}

int slipway_export(slipway_archive* model, size_t program, const char* path, const slipway_options* options,
                   slipway_export_info* info) {
  return capi::Call(model, [&] { return capi::Export(*model, program, path, options, info); });
}

int slipway_export_report(slipway_archive* model, const char** json) {
  if (!model || !json || model->report.empty()) return SLIPWAY_USAGE;
  *json = model->report.c_str();
  return SLIPWAY_OK;
}

}  // extern "C"
