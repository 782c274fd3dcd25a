/* Runs a model library from C: loads it, says what it takes and gives, runs it on inputs of ones, prints the first
 * numbers.
 *
 *   cc -I include samples/native/run.c -ldl -o run && ./run model.so [dim=size …]
 *
 * Sizes of dims that are not given are their least. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slipway/slipway_model.h"

/* The functions of one model. A program that uses one model only can link with its library instead. */
#define FUNCTIONS(F) \
  F(open) F(close) F(error) F(input_count) F(input) F(output_count) F(output) F(dim_count) F(get_dim) F(run)
static struct {
#define F(name) __typeof__(&slipway_model_##name) name;
  FUNCTIONS(F)
#undef F
} model;

static void die(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

/* The value of a size's text: a number, or a dim's name. */
static int64_t size_of(slipway_model* m, const char* text, int argc, char** argv) {
  char* end;
  int64_t n = strtoll(text, &end, 10);
  if (*end == 0) return n;
  for (int i = 2; i < argc; ++i)
    if (strncmp(argv[i], text, strlen(text)) == 0 && argv[i][strlen(text)] == '=')
      return strtoll(argv[i] + strlen(text) + 1, NULL, 10);
  for (size_t i = 0; i < model.dim_count(m); ++i) {
    slipway_model_dim d;
    model.get_dim(m, i, &d);
    if (strcmp(d.name, text) == 0) return d.min;
  }
  fprintf(stderr, "give the size %s\n", text);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc < 2) die("usage: run MODEL.so [dim=size ...]");
  void* library = dlopen(argv[1], RTLD_NOW);
  if (!library) die(dlerror());
#define F(name) \
  if (!(*(void**)& model.name = dlsym(library, "slipway_model_" #name))) die(dlerror());
  FUNCTIONS(F)
#undef F
  slipway_model* m;
  if (model.open(&m) != SLIPWAY_MODEL_OK) die(model.error());

  size_t inputs = model.input_count(m), outputs = model.output_count(m);
  DLTensor* tensors = calloc(inputs + 1, sizeof *tensors);
  const DLTensor** in = calloc(inputs + 1, sizeof *in);
  for (size_t i = 0; i < inputs; ++i) {
    slipway_model_value v;
    model.input(m, i, &v);
    int64_t count = 1, bytes;
    DLTensor* t = &tensors[i];
    t->device.device_type = kDLCPU;
    t->dtype = v.dtype;
    t->ndim = v.ndim;
    t->shape = calloc((size_t)v.ndim + 1, sizeof(int64_t));
    printf("input %s [", v.name);
    for (int d = 0; d < v.ndim; ++d) {
      t->shape[d] = size_of(m, v.dims[d], argc, argv);
      count *= t->shape[d];
      printf("%s%s", d ? ", " : "", v.dims[d]);
    }
    printf("]\n");
    bytes = count * v.dtype.bits / 8;
    t->data = calloc(1, (size_t)bytes + 1);
    for (int64_t k = 0; k < count; ++k) {
      if (v.dtype.code == kDLFloat && v.dtype.bits == 32) ((float*)t->data)[k] = 1;
      if (v.dtype.code == kDLInt && v.dtype.bits == 64) ((int64_t*)t->data)[k] = 1;
    }
    in[i] = t;
  }
  DLManagedTensorVersioned** out = calloc(outputs + 1, sizeof *out);
  if (model.run(m, in, inputs, out, outputs) != SLIPWAY_MODEL_OK) die(model.error());
  for (size_t i = 0; i < outputs; ++i) {
    slipway_model_value v;
    model.output(m, i, &v);
    const DLTensor* t = &out[i]->dl_tensor;
    int64_t count = 1;
    printf("output %s [", v.name);
    for (int d = 0; d < t->ndim; ++d) {
      count *= t->shape[d];
      printf("%s%" PRId64, d ? ", " : "", t->shape[d]);
    }
    printf("]");
    if (t->dtype.code == kDLFloat && t->dtype.bits == 32)
      for (int64_t k = 0; k < count && k < 4; ++k) printf(" %g", ((float*)t->data)[k]);
    printf("\n");
    out[i]->deleter(out[i]);
  }
  for (size_t i = 0; i < inputs; ++i) {
    free(tensors[i].shape);
    free(tensors[i].data);
  }
  free(tensors);
  free(in);
  free(out);
  model.close(m);
  dlclose(library);
  return 0;
}
