/* Kernels of your own: a shared library that says what operators it computes and how. `slipway run --plugin ./lib.so`
 * uses it, and `slipway convert --plugin ./lib.so -o model.so` puts it into the library it writes.
 *
 * The library exports one function, slipway_kernels(), and needs nothing of slipway's at link time:
 *
 *   static const slipway_kernel kernels[] = {{"mylib::blend", blend, NULL, NULL}};
 *   static const slipway_kernel_library library = {SLIPWAY_KERNEL_ABI, sizeof(slipway_kernel), kernels, 1};
 *   const slipway_kernel_library* slipway_kernels(void) { return &library; }
 *
 * Functions are called from any thread, several at a time. They may not throw, exit or keep pointers they are handed.
 */
#ifndef SLIPWAY_SLIPWAY_KERNEL_H_
#define SLIPWAY_SLIPWAY_KERNEL_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "slipway/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when these structures change in a way that older libraries do not survive. */
#define SLIPWAY_KERNEL_ABI 1

/* What an argument is. */
enum {
  SLIPWAY_KERNEL_NONE = 0,
  SLIPWAY_KERNEL_TENSOR = 1,
  SLIPWAY_KERNEL_INT = 2,
  SLIPWAY_KERNEL_FLOAT = 3,
  SLIPWAY_KERNEL_BOOL = 4,
  SLIPWAY_KERNEL_STRING = 5,
  SLIPWAY_KERNEL_INTS = 6, /* also lists of bools, as 0 and 1 */
  SLIPWAY_KERNEL_FLOATS = 7,
  SLIPWAY_KERNEL_TENSORS = 8, /* None among them: NULL */
  SLIPWAY_KERNEL_DTYPE = 9
};

typedef struct {
  const char* name; /* of the parameter in the operator's schema */
  int32_t kind;
  size_t count; /* of lists; bytes of a string, which also ends with a NUL */
  union {
    int64_t i; /* of INT and BOOL */
    double f;
    DLDataType dtype;
    const char* string;
    const int64_t* ints;
    const double* floats;
    const DLTensor* tensor; /* dense, in the CPU's memory; only read. No elements: data may be anything */
    const DLTensor* const* tensors;
  } value;
} slipway_kernel_arg;

/* One call. Arguments are those that the program gives, in its order: what it leaves at the default is absent, and what
 * comes after it as well. */
typedef struct {
  const slipway_kernel_arg* args;
  size_t arg_count;
  const DLTensor* outputs; /* dense, of the dtypes and sizes that the program declares; data is to be written */
  size_t output_count;
  void* user; /* the kernel's */
  char* text; /* room for an error's text */
  size_t text_size;
} slipway_kernel_call;

/* NULL when done, else what went wrong: a constant text, or call->text with a text in it. */
typedef const char* (*slipway_kernel_fn)(const slipway_kernel_call* call);

/* The sizes that the outputs will have: sizes[i][d] is to be set for dim d of output i, which has outputs[i].ndim dims
 * and neither shape nor data yet. */
typedef const char* (*slipway_kernel_shape_fn)(const slipway_kernel_call* call, int64_t* const* sizes);

typedef struct {
  const char* op; /* "mylib::blend.default"; without an overload the default one */
  slipway_kernel_fn run;
  slipway_kernel_shape_fn shape; /* NULL: the program always says the sizes. Else they are compared with what it says,
                                    and sizes that it does not know (of data) are taken from here */
  void* user;
} slipway_kernel;

typedef struct {
  uint32_t abi;         /* SLIPWAY_KERNEL_ABI */
  uint32_t kernel_size; /* sizeof(slipway_kernel) */
  const slipway_kernel* kernels;
  size_t count;
} slipway_kernel_library;

/* What the library exports under this name. */
#ifndef SLIPWAY_KERNEL_EXPORT
#define SLIPWAY_KERNEL_EXPORT __attribute__((visibility("default")))
#endif
SLIPWAY_KERNEL_EXPORT const slipway_kernel_library* slipway_kernels(void);

/* The argument of that name; NULL where the program leaves it at its default or it is None. */
static inline const slipway_kernel_arg* slipway_kernel_find(const slipway_kernel_call* call, const char* name) {
  size_t i;
  for (i = 0; i < call->arg_count; ++i)
    if (strcmp(call->args[i].name, name) == 0) return call->args[i].kind == SLIPWAY_KERNEL_NONE ? NULL : &call->args[i];
  return NULL;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SLIPWAY_SLIPWAY_KERNEL_H_ */
