// Weights in and out.
#include "base/text.h"
#include "capi/dlpack_out.h"
#include "capi/model.h"
#include "driver/edge/format.h"
#include "importers/dlpack/dlpack.h"
#include "weights/join.h"

namespace slipway::capi {
namespace {

using driver::Outcome;

Outcome NoSuch(const slipway_archive& model, std::string_view name) {
  return Usage(
      text::StrCat("no weight is named '", name, "'", model.path.empty() ? "" : text::StrCat(" in ", model.path)));
}

// A parameter's, buffer's or constant's place among the inputs; -1 for none.
int InputOf(const ir::Program& p, std::string_view name) {
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    const ir::InputSpec& s = p.input_specs[i];
    if (s.is_weight() && s.target == name) return static_cast<int>(i);
  }
  return -1;
}

template <typename Managed>
Outcome Get(const slipway_archive& model, size_t program, const char* name, Managed** out,
            absl::StatusOr<Managed*> (*to_dlpack)(const ir::TensorRef&)) {
  if (!out) return Usage("tensor is NULL");
  *out = nullptr;
  if (!name) return Usage("the name is NULL");
  const ir::TensorRef* found = nullptr;
  if (model.weights_alone) {
    auto it = model.tensors.tensors.find(name);
    if (program == 0 && it != model.tensors.tensors.end()) found = &it->second;
  } else if (const ir::Program* p = model.Program(program)) {
    if (auto it = p->weights.find(name); it != p->weights.end()) {
      found = &it->second;
    } else if (p->objects.contains(name)) {
      return driver::Fail(
          absl::UnimplementedError(
              text::StrCat("'", name, "' is a tensor subclass: the pass unwrap-subclasses makes weights of its parts")),
          model.path);
    } else if (InputOf(*p, name) >= 0) {
      return driver::Fail(
          driver::WithId(absl::InvalidArgumentError(text::StrCat("the model has no values of '", name, "'")),
                         driver::id::kMissingWeights),
          model.path);
    }
  } else {
    return Usage(text::StrCat("there is no program number ", program));
  }
  if (!found) return NoSuch(model, name);
  auto tensor_out = to_dlpack(*found);
  if (!tensor_out.ok()) return driver::Fail(tensor_out.status(), text::StrCat("weight '", name, "'"));
  *out = *tensor_out;
  return {};
}

template <typename Managed>
Outcome Set(slipway_archive& model, size_t program, const char* name, Managed* tensor) {
  if (!tensor) return Usage("tensor is NULL");
  auto taken = importers::FromDlpack(tensor);  // first: it is ours from now on
  if (!name) return Usage("the name is NULL");
  if (!taken.ok()) return driver::Fail(taken.status(), text::StrCat("weight '", name, "'"));
  if (model.weights_alone) {
    if (program != 0) return Usage(text::StrCat("there is no program number ", program));
    model.tensors.tensors.insert_or_assign(name, *std::move(taken));
    model.Changed();
    return {};
  }
  ir::Program* p = model.Program(program);
  if (!p) return Usage(text::StrCat("there is no program number ", program));
  const int input = InputOf(*p, name);
  if (input < 0) {
    if (p->weights.contains(name))
      return driver::Fail(absl::UnimplementedError(text::StrCat(
                              "'", name, "' is a part of a tensor subclass: run the pass unwrap-subclasses first")),
                          model.path);
    return NoSuch(model, name);
  }
  if (absl::Status s = weights::FitsWeight(*p, input, taken->dtype, taken->sizes); !s.ok()) {
    return driver::Fail(driver::WithId(s, driver::id::kMissingWeights), model.path);
  }
  p->weights.insert_or_assign(name, *std::move(taken));
  model.Changed();
  return {};
}

// A tensor that no model takes is given back all the same.
template <typename Managed>
int SetOrFree(slipway_archive* model, size_t program, const char* name, Managed* tensor) {
  if (!model) {
    if (tensor && tensor->deleter) tensor->deleter(tensor);
    return SLIPWAY_USAGE;
  }
  return Call(model, [&] { return Set(*model, program, name, tensor); });
}

Outcome Load(slipway_archive& model, size_t program, const char* path, const slipway_options* options) {
  if (!path) return Usage("the path is NULL");
  driver::ConvertOptions o = options ? options->convert : driver::ConvertOptions();
  Outcome out;
  if (model.weights_alone) {
    if (program != 0) return Usage(text::StrCat("there is no program number ", program));
    auto set = driver::OpenWholeTensors(path, o.key);
    if (!set.ok()) return driver::Fail(set.status(), path);
    for (auto& [name, tensor] : set->tensors) model.tensors.tensors.insert_or_assign(name, std::move(tensor));
  } else {
    ir::Program* p = model.Program(program);
    if (!p) return Usage(text::StrCat("there is no program number ", program));
    o.weights = {path};
    driver::ConvertSummary summary;
    if (absl::Status s = driver::JoinWeightFiles(*p, o, summary); !s.ok()) return driver::Fail(s, model.path);
    AddNotes(summary.lines, &out);
  }
  model.Changed();
  return out;
}

}  // namespace
}  // namespace slipway::capi

using namespace slipway;  // NOLINT: the C functions live outside

extern "C" {

int slipway_weight_get(slipway_archive* model, size_t program, const char* name, DLManagedTensorVersioned** tensor) {
  return capi::Call(model, [&] { return capi::Get(*model, program, name, tensor, capi::ToDlpack); });
}

int slipway_weight_get_unversioned(slipway_archive* model, size_t program, const char* name, DLManagedTensor** tensor) {
  return capi::Call(model, [&] { return capi::Get(*model, program, name, tensor, capi::ToUnversionedDlpack); });
}

int slipway_weight_set(slipway_archive* model, size_t program, const char* name, DLManagedTensorVersioned* tensor) {
  return capi::SetOrFree(model, program, name, tensor);
}

int slipway_weight_set_unversioned(slipway_archive* model, size_t program, const char* name, DLManagedTensor* tensor) {
  return capi::SetOrFree(model, program, name, tensor);
}

int slipway_weights_load(slipway_archive* model, size_t program, const char* path, const slipway_options* options) {
  return capi::Call(model, [&] { return capi::Load(*model, program, path, options); });
}

}  // extern "C"
