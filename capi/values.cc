// What is in a model: programs, their inputs, outputs, updates and weights.
#include <limits>

#include "base/text.h"
#include "capi/model.h"
#include "driver/edge/format.h"
#include "driver/inspect/inspect.h"
#include "importers/dlpack/dlpack.h"
#include "ir/sym.h"
#include "ir/text.h"

namespace slipway::capi {
namespace {

ValueRow ToValue(driver::TensorRow row, ir::SymTable* syms) {
  ValueRow v;
  v.dtype = ir::DTypeFromName(row.dtype).value_or(ir::DType::kUnknown);
  for (const std::string& size : row.shape) {
    int64_t number = SLIPWAY_DYNAMIC;
    ir::SymRange range;
    if (text::ParseNumber(size, &number)) {
      range = {number, number};
    } else {
      number = SLIPWAY_DYNAMIC;
      if (syms)
        if (auto expr = syms->ParseExpr(size); expr.ok()) range = ir::RangeOf(*expr);
    }
    v.sizes.push_back(number);
    v.mins.push_back(range.min);
    v.maxs.push_back(range.max);
  }
  v.row = std::move(row);
  for (const std::string& size : v.row.shape) v.exprs.push_back(size.c_str());
  return v;
}

const std::vector<ValueRow>* Values(const slipway_archive& model, size_t program, slipway_role role) {
  if (role < SLIPWAY_INPUT || role > SLIPWAY_WEIGHT) return nullptr;
  if (program >= (model.weights_alone ? 1 : model.archive.programs.size())) return nullptr;
  if (auto it = model.values.find({program, role}); it != model.values.end()) return &it->second;
  std::vector<driver::TensorRow> rows;
  ir::SymTable* syms = nullptr;
  if (model.weights_alone) {
    driver::FileReport report;
    driver::Describe(model.tensors, &report);
    if (role == SLIPWAY_WEIGHT) rows = std::move(report.tensors);
  } else {
    const ir::Program& p = *model.Program(program);
    driver::ProgramReport report = driver::ReportOf(p);
    syms = p.syms.get();
    rows = std::move(role == SLIPWAY_INPUT    ? report.inputs
                     : role == SLIPWAY_OUTPUT ? report.outputs
                     : role == SLIPWAY_UPDATE ? report.updates
                                              : report.weights);
  }
  std::vector<ValueRow> values;
  values.reserve(rows.size());
  for (driver::TensorRow& row : rows) values.push_back(ToValue(std::move(row), syms));
  return &model.values.emplace(std::pair(program, static_cast<int>(role)), std::move(values)).first->second;
}

}  // namespace
}  // namespace slipway::capi

using namespace slipway;  // NOLINT: the C functions live outside

extern "C" {

size_t slipway_program_count(const slipway_archive* model) { return model ? model->archive.programs.size() : 0; }

const char* slipway_program_name(const slipway_archive* model, size_t program) {
  const ir::Program* p = model ? model->Program(program) : nullptr;
  return p ? p->name.c_str() : nullptr;
}

size_t slipway_value_count(const slipway_archive* model, size_t program, slipway_role role) {
  if (!model) return 0;
  try {
    const auto* values = capi::Values(*model, program, role);
    return values ? values->size() : 0;
  } catch (...) {
    return 0;
  }
}

int slipway_value_get(const slipway_archive* model, size_t program, slipway_role role, size_t index,
                      slipway_value* out) {
  if (!model) return SLIPWAY_USAGE;
  try {
    const auto* values = capi::Values(*model, program, role);
    if (!values || index >= values->size()) return SLIPWAY_USAGE;
    const ValueRow& v = (*values)[index];
    slipway_value full = {};
    full.name = v.row.name.c_str();
    full.kind = v.row.kind.c_str();
    full.dtype = v.row.dtype.c_str();
    full.dl_dtype = importers::DlpackType(v.dtype).value_or(DLDataType{0, 0, 0});
    full.is_tensor = v.row.is_tensor;
    full.rank = static_cast<int32_t>(v.sizes.size());
    full.sizes = v.sizes.data();
    full.mins = v.mins.data();
    full.maxs = v.maxs.data();
    full.exprs = v.exprs.data();
    full.value = v.row.value.c_str();
    full.bytes = v.row.bytes;
    full.stored = role == SLIPWAY_WEIGHT && v.row.stored;
    return capi::Fill(out, full) ? SLIPWAY_OK : SLIPWAY_USAGE;
  } catch (...) {
    return SLIPWAY_NO_MEMORY;
  }
}

int slipway_inspect(slipway_archive* model, const char** json) {
  return capi::Call(model, [&]() -> driver::Outcome {
    if (!json) return capi::Usage("json is NULL");
    driver::FileReport report;
    report.file = model->path;
    report.format = model->format;
    report.bytes = model->bytes;
    if (model->weights_alone)
      driver::Describe(model->tensors, &report);
    else
      driver::Describe(model->archive, &report);
    model->json = driver::ToJson(report);
    *json = model->json.c_str();
    return {};
  });
}

int slipway_text(slipway_archive* model, const char** out) {
  return capi::Call(model, [&]() -> driver::Outcome {
    if (!out) return capi::Usage("text is NULL");
    if (model->weights_alone)
      return driver::Fail(absl::UnimplementedError("weights alone have no text form"), model->path);
    ir::PrintOptions options;
    options.base = driver::FolderOf(model->path);
    model->text = ir::Print(model->archive, options);
    *out = model->text.c_str();
    return {};
  });
}

}  // extern "C"
