/* A library that gives named tensors to slipway: what `--weights dlpack:./producer.so` loads.
 *
 *     cc -shared -fPIC samples/dlpack_producer/producer.c -Iinclude -o producer.so
 *     slipway convert program.pt2 --weights dlpack:./producer.so -o model.onnx
 *
 * This one makes up the weights of one linear layer, as a matrix that lies transposed and a vector. A real one would
 * hand out the buffers of the engine it is linked with.
 */
#include <stdlib.h>

#include "slipway/dlpack_producer.h"

enum { kIn = 8, kOut = 4 };

/* Static memory needs no deleter's work; the structure is ours to free. */
static float weight[kIn][kOut]; /* transposed: element (o, i) is weight[i][o] */
static float bias[kOut];

typedef struct {
  DLManagedTensorVersioned managed;
  int64_t shape[2], strides[2];
} Lent;

static void release(DLManagedTensorVersioned* self) { free(self->manager_ctx); }

static Lent* lend(void* data, int32_t ndim) {
  Lent* lent = calloc(1, sizeof *lent);
  if (!lent) return NULL;
  lent->managed.version.major = DLPACK_MAJOR_VERSION;
  lent->managed.version.minor = DLPACK_MINOR_VERSION;
  lent->managed.manager_ctx = lent;
  lent->managed.deleter = release;
  lent->managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  lent->managed.dl_tensor.data = data;
  lent->managed.dl_tensor.device.device_type = kDLCPU;
  lent->managed.dl_tensor.ndim = ndim;
  lent->managed.dl_tensor.dtype.code = kDLFloat;
  lent->managed.dl_tensor.dtype.bits = 32;
  lent->managed.dl_tensor.dtype.lanes = 1;
  lent->managed.dl_tensor.shape = lent->shape;
  lent->managed.dl_tensor.strides = lent->strides;
  return lent;
}

int slipway_dlpack_next(void** state, const char** name, DLManagedTensorVersioned** tensor) {
  int* next = *state;
  if (!tensor) { /* the last call */
    free(next);
    *state = NULL;
    return 0;
  }
  if (!next) {
    *state = next = calloc(1, sizeof *next);
    if (!next) {
      *name = "out of memory";
      return 1;
    }
    for (int i = 0; i < kIn; ++i)
      for (int o = 0; o < kOut; ++o) weight[i][o] = (float)(o * kIn + i);
    for (int o = 0; o < kOut; ++o) bias[o] = -(float)o;
  }
  Lent* lent = NULL;
  switch ((*next)++) {
    case 0:
      *name = "fc.weight";
      lent = lend(weight, 2);
      if (!lent) return 1;
      lent->shape[0] = kOut, lent->shape[1] = kIn;
      lent->strides[0] = 1, lent->strides[1] = kOut;
      break;
    case 1:
      *name = "fc.bias";
      lent = lend(bias, 1);
      if (!lent) return 1;
      lent->shape[0] = kOut, lent->strides[0] = 1;
      break;
    default: return 0; /* no more */
  }
  *tensor = &lent->managed;
  return 0;
}
