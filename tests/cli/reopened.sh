# A host that opens, runs and closes model libraries again and again keeps no memory of them.
source "$ROOT/tests/cli/lib.bash"
cat > reopen.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "slipway/slipway_model.h"
static size_t held(void) {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}
#define LOAD(name) typeof(name)* name##_ = (typeof(name)*)dlsym(library, #name)
int main(int argc, char** argv) {
  const int runs = argc > 2;
  size_t before = 0;
  for (int i = 0; i < 1100; ++i) {
    if (i == 100) before = held();
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return puts(dlerror()), 1;
    if (runs) {
      LOAD(slipway_model_open);
      LOAD(slipway_model_close);
      LOAD(slipway_model_run);
      LOAD(slipway_model_error);
      slipway_model* model;
      if (slipway_model_open_(&model) != SLIPWAY_MODEL_OK) return 2;
      float x[6] = {0};
      int64_t shape[2] = {2, 3};
      DLTensor input;
      memset(&input, 0, sizeof(input));
      input.data = x, input.device.device_type = kDLCPU, input.ndim = 2, input.shape = shape;
      input.dtype = (DLDataType){kDLFloat, 32, 1};
      DLManagedTensorVersioned* output = NULL;
      if (slipway_model_run_(model, &(const DLTensor*){&input}, 1, &output,
          1) != SLIPWAY_MODEL_OK) return puts(slipway_model_error_()), 3;
      output->deleter(output);
      if (slipway_model_run_(model, NULL, 0, NULL, 0) == SLIPWAY_MODEL_OK) return 4;
      slipway_model_close_(model);
    }
    dlclose(library);
  }
  const long grown = (long)held() - (long)before;
  printf("%ld bytes more after 1,000 cycles\n", grown);
  return grown > 16384;
}
C
cc -std=gnu11 -O1 -Wall -Wextra -I"$ROOT/include" reopen.c -o reopen -ldl
cat > model.sw <<'SW'
slipway.ir 1
graph main(%x: f32[2, 3]) {
  %y: f32[2, 3] = aten.exp.default(self=%x)
  return %y
}
SW
slipway convert model.sw -o model.so -q
./reopen ./model.so
./reopen ./model.so run
