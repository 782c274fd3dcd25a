/* Shares memory with slipway: replaces a weight by numbers that this program owns, reads one back without a copy, and
 * writes ONNX, on two models in two threads.
 *
 *     cc samples/c_api/share_weights.c -Iinclude -Lbuild -lslipway -Wl,-rpath,$PWD/build -pthread -o share_weights
 *     ./share_weights program.pt2 first.onnx second.onnx [weights.safetensors]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slipway/slipway.h"

/* A tensor over malloc'ed memory. The deleter is slipway's to call, once; it counts. */
typedef struct {
  DLManagedTensorVersioned managed;
  int* released;
  int64_t shape[8];
  float numbers[];
} Owned;

static void release(DLManagedTensorVersioned* self) {
  Owned* owned = self->manager_ctx;
  ++*owned->released;
  free(owned);
}

static Owned* make(const slipway_value* like, int* released) {
  size_t count = 1;
  for (int i = 0; i < like->rank; ++i) count *= (size_t)like->sizes[i];
  Owned* owned = calloc(1, sizeof(Owned) + count * sizeof(float));
  if (!owned) return NULL;
  for (int i = 0; i < like->rank; ++i) owned->shape[i] = like->sizes[i];
  for (size_t i = 0; i < count; ++i) owned->numbers[i] = 0.001f * (float)(i % 1000);
  owned->released = released;
  owned->managed.version.major = DLPACK_MAJOR_VERSION;
  owned->managed.version.minor = DLPACK_MINOR_VERSION;
  owned->managed.manager_ctx = owned;
  owned->managed.deleter = release;
  owned->managed.dl_tensor.data = owned->numbers;
  owned->managed.dl_tensor.device.device_type = kDLCPU;
  owned->managed.dl_tensor.ndim = like->rank;
  owned->managed.dl_tensor.dtype = like->dl_dtype;
  owned->managed.dl_tensor.shape = owned->shape;
  return owned;
}

/* What slipway has to say of the latest call. */
static void tell(const slipway_archive* model) {
  for (size_t i = 0; i < slipway_diagnostic_count(model); ++i) {
    slipway_diagnostic d = {.struct_size = sizeof d};
    if (slipway_diagnostic_get(model, i, &d) != SLIPWAY_OK) return;
    static const char* const words[] = {"error", "warning", "note"};
    fprintf(stderr, "%s%s%s: %s%s%s\n", words[d.severity], *d.id ? " " : "", d.id, d.cause, *d.place ? " at " : "",
            d.place);
  }
}

static void describe(const slipway_archive* model) {
  static const char* const titles[] = {"input", "output"};
  for (slipway_role role = SLIPWAY_INPUT; role <= SLIPWAY_OUTPUT; ++role) {
    for (size_t i = 0; i < slipway_value_count(model, 0, role); ++i) {
      slipway_value v = {.struct_size = sizeof v};
      if (slipway_value_get(model, 0, role, i, &v) != SLIPWAY_OK) return;
      printf("%s %s: %s[", titles[role], v.name, v.dtype);
      for (int k = 0; k < v.rank; ++k) printf("%s%s", k ? "," : "", v.exprs[k]);
      printf("]\n");
    }
  }
}

/* The first parameter of 32-bit floats. */
static int find(const slipway_archive* model, slipway_value* v) {
  for (size_t i = 0; i < slipway_value_count(model, 0, SLIPWAY_WEIGHT); ++i) {
    v->struct_size = sizeof *v;
    if (slipway_value_get(model, 0, SLIPWAY_WEIGHT, i, v) != SLIPWAY_OK) return 0;
    if (v->dl_dtype.code == kDLFloat && v->dl_dtype.bits == 32 && v->rank <= 8 && strcmp(v->kind, "parameter") == 0)
      return 1;
  }
  return 0;
}

typedef struct {
  const char *program, *output, *weights;
  int describes, status;
} Job;

static int convert(const Job* job, int* released) {
  slipway_archive* model;
  DLManagedTensorVersioned* back = NULL;
  slipway_value weight;
  int status = slipway_open(job->program, NULL, &model);
  if (status == SLIPWAY_OK && job->weights) status = slipway_weights_load(model, 0, job->weights, NULL);
  if (status == SLIPWAY_OK && job->describes) describe(model);
  if (status == SLIPWAY_OK && !find(model, &weight)) {
    fprintf(stderr, "no parameter of 32-bit floats\n");
    status = SLIPWAY_BAD_INPUT;
  }
  if (status == SLIPWAY_OK) {
    char name[256];
    Owned* mine = make(&weight, released);
    snprintf(name, sizeof name, "%s", weight.name); /* `weight` points into the model, which the next call changes */
    status = mine ? slipway_weight_set(model, 0, name, &mine->managed) : SLIPWAY_NO_MEMORY;
    if (status == SLIPWAY_OK) status = slipway_weight_get(model, 0, name, &back);
    if (status == SLIPWAY_OK && job->describes)
      printf("%s: %s, %s\n", name, back->dl_tensor.data == (void*)mine->numbers ? "the very same memory" : "A COPY",
             back->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? "read-only" : "WRITABLE");
  }
  if (status == SLIPWAY_OK) {
    slipway_options* options = slipway_options_new();
    slipway_export_info info = {.struct_size = sizeof info};
    status = options ? slipway_options_set(options, "opset", "18") : SLIPWAY_NO_MEMORY;
    if (status == SLIPWAY_OK) status = slipway_export(model, SLIPWAY_ALL_PROGRAMS, job->output, options, &info);
    if (status == SLIPWAY_OK && job->describes)
      printf("%s: %d nodes, %s weights\n", job->output, (int)info.nodes_after,
             info.weight_bytes > 0 ? "with" : "without");
    slipway_options_free(options);
  }
  if (status != SLIPWAY_OK) tell(model);
  slipway_close(model);
  /* What was given out stays valid until its own deleter is called; only then are this program's numbers freed. */
  if (back) {
    if (*released != 0 || ((float*)back->dl_tensor.data)[0] != 0) status = SLIPWAY_BUG;
    back->deleter(back);
  }
  return status;
}

static void* run(void* argument) {
  Job* job = argument;
  int released = 0;
  job->status = convert(job, &released);
  if (job->status == SLIPWAY_OK && released != 1) {
    fprintf(stderr, "the deleter ran %d times\n", released);
    job->status = SLIPWAY_BUG;
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    fprintf(stderr, "%s PROGRAM.pt2 FIRST.onnx SECOND.onnx [WEIGHTS]\n", argv[0]);
    return SLIPWAY_USAGE;
  }
  printf("slipway %s\n", slipway_version());
  Job jobs[2] = {{argv[1], argv[2], argc > 4 ? argv[4] : NULL, 1, SLIPWAY_OK},
                 {argv[1], argv[3], argc > 4 ? argv[4] : NULL, 0, SLIPWAY_OK}};
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    if (pthread_create(&threads[i], NULL, run, &jobs[i]) != 0) return SLIPWAY_NO_MEMORY;
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return jobs[0].status != SLIPWAY_OK ? jobs[0].status : jobs[1].status;
}
