// The C API on files that are not what they say: all that can be asked of a model is asked, whatever it answered
// before.
//
//   capi_walk FOLDER FILE…
//
// Opens each FILE, reads its values, weights, texts and diagnostics, runs every pass, exports to each target into
// FOLDER, sets weights to what it was given and closes. Exits with the gravest status that was met: 70, else 6, 4, 3 …
// else 0, and says on stderr what that call said. tests/hostile/mutate.py calls it on mutants; a sanitized build sees
// more.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "slipway/slipway.h"

namespace {

struct Worst {
  int status = SLIPWAY_OK;
  std::string said;

  int Met(int status_now, const slipway_archive* model) {
    if (status_now > status) {
      status = status_now;
      said = slipway_error(model);
    }
    return status_now;
  }
};

// Reads every byte of what a pointer and its length say, so that a sanitizer looks at them.
volatile unsigned char sink;
void Touch(const void* data, uint64_t size) {
  for (uint64_t i = 0; i < size; ++i) sink = sink ^ static_cast<const unsigned char*>(data)[i];
}
void Touch(const char* text) { Touch(text, std::strlen(text)); }

void ReadDiagnostics(const slipway_archive* model) {
  for (size_t i = 0; i <= slipway_diagnostic_count(model); ++i) {
    slipway_diagnostic d = {};
    d.struct_size = sizeof(d);
    if (slipway_diagnostic_get(model, i, &d) != SLIPWAY_OK) continue;
    for (const char* text : {d.id, d.cause, d.place, d.help}) Touch(text);
  }
}

void ReadValue(const slipway_value& v) {
  for (const char* text : {v.name, v.kind, v.dtype, v.value}) Touch(text);
  for (int32_t d = 0; d < v.rank; ++d) {
    Touch(&v.sizes[d], sizeof(int64_t));
    Touch(&v.mins[d], sizeof(int64_t));
    Touch(&v.maxs[d], sizeof(int64_t));
    Touch(v.exprs[d]);
  }
}

// A weight's elements, by its strides, and the same tensor set again.
void ReadWeight(slipway_archive* model, size_t program, const char* name, Worst& worst) {
  DLManagedTensorVersioned* tensor = nullptr;
  if (worst.Met(slipway_weight_get(model, program, name, &tensor), model) != SLIPWAY_OK) return;
  const DLTensor& t = tensor->dl_tensor;
  int64_t elements = 1, furthest = 0;
  for (int32_t d = 0; d < t.ndim; ++d) {
    elements *= t.shape[d];
    furthest += (t.shape[d] - 1) * t.strides[d];
  }
  const int64_t bits = int64_t{t.dtype.bits} * t.dtype.lanes;
  if (elements > 0 && t.data != nullptr) {
    const auto* first = static_cast<const unsigned char*>(t.data) + t.byte_offset;
    Touch(first, static_cast<uint64_t>((bits + 7) / 8));
    Touch(first + furthest * bits / 8, static_cast<uint64_t>((bits + 7) / 8));
  }
  worst.Met(slipway_weight_set(model, program, name, tensor), model);  // which takes the tensor, whatever comes of it
  DLManagedTensor* copy = nullptr;
  if (worst.Met(slipway_weight_get_unversioned(model, program, name, &copy), model) == SLIPWAY_OK) copy->deleter(copy);
}

void ReadProgram(slipway_archive* model, size_t program, Worst& worst) {
  if (const char* name = slipway_program_name(model, program)) Touch(name);
  for (slipway_role role : {SLIPWAY_INPUT, SLIPWAY_OUTPUT, SLIPWAY_UPDATE, SLIPWAY_WEIGHT}) {
    for (size_t i = 0; i < slipway_value_count(model, program, role); ++i) {
      slipway_value v = {};
      v.struct_size = sizeof(v);
      if (slipway_value_get(model, program, role, i, &v) != SLIPWAY_OK) continue;
      ReadValue(v);
      if (role == SLIPWAY_WEIGHT) ReadWeight(model, program, std::string(v.name).c_str(), worst);
    }
  }
}

void Export(slipway_archive* model, const std::string& folder, Worst& worst) {
  for (const char* target : {"onnx", "so", "pt2", "native-pt2", "safetensors"}) {
    slipway_options* options = slipway_options_new();
    slipway_options_set(options, "to", target);
    slipway_export_info info = {};
    info.struct_size = sizeof(info);
    // A target that this kind of model is not for is no fault of the file.
    if (const int status = slipway_export(model, 0, (folder + "/" + target).c_str(), options, &info);
        status != SLIPWAY_USAGE)
      worst.Met(status, model);
    ReadDiagnostics(model);
    slipway_options_free(options);
  }
}

void Walk(const std::string& folder, const char* file, Worst& worst) {
  slipway_archive* model = nullptr;
  const int opened = slipway_open(file, nullptr, &model);
  worst.Met(opened, model);
  ReadDiagnostics(model);
  const char* text = nullptr;
  if (worst.Met(slipway_inspect(model, &text), model) == SLIPWAY_OK) Touch(text);
  const size_t programs = slipway_program_count(model);
  for (size_t p = 0; p < (programs ? programs : 1); ++p) ReadProgram(model, p, worst);
  if (programs != 0 && worst.Met(slipway_text(model, &text), model) == SLIPWAY_OK) Touch(text);
  Export(model, folder, worst);
  for (size_t p = 0; p < programs; ++p) {
    for (size_t i = 0; slipway_pass_name(i) != nullptr; ++i) {
      worst.Met(slipway_run_pass(model, p, slipway_pass_name(i), nullptr), model);
      worst.Met(slipway_verify(model, p), model);
    }
  }
  if (programs != 0) Export(model, folder, worst);  // of what the passes left
  slipway_close(model);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: capi_walk FOLDER FILE...\n");
    return SLIPWAY_USAGE;
  }
  Worst worst;
  for (int i = 2; i < argc; ++i) Walk(argv[1], argv[i], worst);
  if (worst.status != SLIPWAY_OK) std::fprintf(stderr, "%s\n", worst.said.c_str());
  return worst.status;
}
