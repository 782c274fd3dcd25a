/* The C interface of a native model: the library that `slipway convert -o model.so` writes. It needs libc only. One
 * model is inside each library; link with it, or dlopen() it and look these functions up.
 *
 * Every function may be called from any thread; runs of one model at a time are independent of each other. A function
 * that can fail returns SLIPWAY_MODEL_OK or what went wrong, and slipway_model_error() then has the text. Nothing
 * throws, exits or prints. Strings and arrays that are handed out belong to the model and last until it is closed. */
#ifndef SLIPWAY_SLIPWAY_MODEL_H_
#define SLIPWAY_SLIPWAY_MODEL_H_

#include <stddef.h>
#include <stdint.h>

#include "slipway/dlpack.h"

#ifndef SLIPWAY_MODEL_API
#define SLIPWAY_MODEL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct slipway_model slipway_model;

/* The numbers of slipway's exit codes. */
enum {
  SLIPWAY_MODEL_OK = 0,
  SLIPWAY_MODEL_BAD_INPUT = 3,   /* an input is not what the model takes, or its numbers are wrong for an operator */
  SLIPWAY_MODEL_UNSUPPORTED = 4, /* a device or a dtype that it has not */
  SLIPWAY_MODEL_NO_MEMORY = 6,
  SLIPWAY_MODEL_BUG = 70
};

/* Opens the model inside this library; the caller closes it. A library may be opened several times: the weights are
 * shared. */
SLIPWAY_MODEL_API int slipway_model_open(slipway_model** model);

/* How a model is opened. Set `size` to sizeof(slipway_model_options) and what is not wanted to zero. */
typedef struct {
  size_t size;
  const char* const* plugins; /* paths of shared libraries with kernels (slipway_kernel.h); their code is run */
  size_t plugin_count;
  int32_t threads; /* as slipway_model_set_threads() takes it */
  /* The caller's threads in place of the library's own: calls task(context, i) once for each i below `tasks`, on any
   * threads, and returns when all are done. It may be called from several runs at a time. `threads` says how many it
   * has. */
  void (*parallel_for)(void* user, int64_t tasks, void (*task)(void* context, int64_t i), void* context);
  void* parallel_user;
  /* Memory for what runs keep between their steps and for the results of slipway_model_run(), which give it back when
   * they are deleted; NULL where there is none. `alignment` is a power of two. Both functions or neither; the small
   * things that go with them come from the C library. */
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*deallocate)(void* user, void* memory, size_t bytes);
  void* memory_user;
} slipway_model_options;

/* `options` may be NULL. */
SLIPWAY_MODEL_API int slipway_model_open_with(slipway_model** model, const slipway_model_options* options);
SLIPWAY_MODEL_API void slipway_model_close(slipway_model* model);

/* What went wrong in the last call of this thread that failed; "" before. Valid until the thread's next failure. */
SLIPWAY_MODEL_API const char* slipway_model_error(void);

/* A tensor that goes in or out, in the program's flattened order. */
typedef struct {
  const char* name;
  DLDataType dtype;
  int32_t ndim;
  const char* const* dims; /* ndim texts: a number, or an expression in the model's dims: "3", "B", "2*B" */
  int32_t number;          /* 1: a symbolic number of the program, here a tensor of no dims */
} slipway_model_value;

SLIPWAY_MODEL_API size_t slipway_model_input_count(const slipway_model* model);
SLIPWAY_MODEL_API size_t slipway_model_output_count(const slipway_model* model);
/* `i` is below the count. */
SLIPWAY_MODEL_API void slipway_model_input(const slipway_model* model, size_t i, slipway_model_value* value);
SLIPWAY_MODEL_API void slipway_model_output(const slipway_model* model, size_t i, slipway_model_value* value);

/* A dim of the inputs and the sizes it may have, both ends included; INT64_MAX: no limit. */
typedef struct {
  const char* name;
  int64_t min, max;
} slipway_model_dim;

SLIPWAY_MODEL_API size_t slipway_model_dim_count(const slipway_model* model);
SLIPWAY_MODEL_API void slipway_model_get_dim(const slipway_model* model, size_t i, slipway_model_dim* dim);

/* A weight by its name in the program. `tensor` is a view of the library's own memory: read only. Weights that the
 * library holds in another order are put in the tensor's order when they are asked for; tensor.data is NULL where there
 * is no memory for that. */
typedef struct {
  const char* name;
  DLTensor tensor;
} slipway_model_constant;

SLIPWAY_MODEL_API size_t slipway_model_constant_count(const slipway_model* model);
SLIPWAY_MODEL_API void slipway_model_get_constant(const slipway_model* model, size_t i,
                                                  slipway_model_constant* constant);

SLIPWAY_MODEL_API size_t slipway_model_metadata_count(const slipway_model* model);
SLIPWAY_MODEL_API void slipway_model_get_metadata(const slipway_model* model, size_t i, const char** key,
                                                  const char** value);

/* Runs the model. `inputs` are tensors in the CPU's memory, of any strides, which are only read; dtypes, ranks, sizes,
 * ranges and relations are checked before anything runs. On success every output[i] is a new dense tensor that the
 * caller deletes (outputs[i]->deleter(outputs[i])), also after the model is closed, but before the library is unloaded;
 * after a failure they are all NULL. */
SLIPWAY_MODEL_API int slipway_model_run(slipway_model* model, const DLTensor* const* inputs, size_t input_count,
                                        DLManagedTensorVersioned** outputs, size_t output_count);

/* The same into the caller's memory: dense tensors in the CPU's memory of the dtypes and sizes that the outputs have.
 * They may not overlap each other or the inputs; after a failure they hold nothing of use. */
SLIPWAY_MODEL_API int slipway_model_run_into(slipway_model* model, const DLTensor* const* inputs, size_t input_count,
                                             const DLTensor* const* outputs, size_t output_count);

/* How many threads one run may use at once, the calling one included; 0: SLIPWAY_NUM_THREADS or OMP_NUM_THREADS of the
 * environment, else as many as there are processors for this process. That is what holds before the first call. Runs
 * under way go on as they began. Results are the same bits for any number. Runs that come at the same time share the
 * threads: while one has them, another goes on its calling thread alone. */
SLIPWAY_MODEL_API int slipway_model_set_threads(slipway_model* model, int threads);

/* Where the time goes. With `on` runs are timed step by step; the sums of all runs since then are handed to `row`, by
 * operator, slowest first. */
SLIPWAY_MODEL_API void slipway_model_profile(slipway_model* model, int on);
SLIPWAY_MODEL_API void slipway_model_profile_rows(
    slipway_model* model, void (*row)(void* user, const char* op, int64_t steps, double seconds), void* user);

/* The same, by operator and the sizes of its operands, with what products of matrices did in these steps. Libraries
 * that older slipways made have neither this nor the next function: look them up with dlsym(). */
typedef struct {
  size_t size; /* of this struct: newer libraries may have more at its end */
  const char* op;
  int64_t steps;
  double seconds;
  double operations;  /* multiplications and additions; 0 where nothing is a product */
  double bytes;       /* of right matrices with their scales, as the library holds them, once a product */
  int64_t most_rows;  /* of a left matrix: of one row, bytes per second are what counts */
  const char* shapes; /* of operands and results: "1x3x224x224 64x3x7x7 -> 1x64x112x112"; older libraries have no such
                         field: see size */
  const char* place;  /* of profile_steps(): "layers.3.mlp (model.py:7)", else "" */
  double memory;      /* bytes of operands and results */
} slipway_model_work;
SLIPWAY_MODEL_API void slipway_model_profile_work(slipway_model* model,
                                                  void (*row)(void* user, const slipway_model_work* work), void* user);
/* The same of each step of the model that ran, in the model's order. */
SLIPWAY_MODEL_API void slipway_model_profile_steps(slipway_model* model,
                                                   void (*row)(void* user, const slipway_model_work* work), void* user);

/* State. A library that `convert --state` made keeps tensors between its runs, for each opened model its own: buffers
 * that the program updates, which begin as they are in the program, and inputs that grow, a decoder's past keys and
 * values, which begin with nothing. They are neither inputs nor outputs; each run reads them and leaves them as they
 * are to be for the next. Runs of one model wait for each other, and for the functions below; models that were opened
 * apart do not. After a run that failed, growing states are as they were before; where the model has states of fixed
 * size and the run failed on its way (not for its inputs), runs are refused until slipway_model_reset_state(). A
 * growing state takes memory as it needs it, and a run beyond what the program takes is SLIPWAY_MODEL_BAD_INPUT:
 * slipway_model_get_dim() says the limit. Libraries that older slipways made have none of these functions. */
SLIPWAY_MODEL_API size_t slipway_model_state_count(const slipway_model* model);
/* `i` is below the count. The dim that grows is the one whose text is no number. */
SLIPWAY_MODEL_API void slipway_model_state(const slipway_model* model, size_t i, slipway_model_value* value);
/* All states as they are in the beginning. */
SLIPWAY_MODEL_API int slipway_model_reset_state(slipway_model* model);
/* How long state `i` is now along the dim that grows: the position of the next token; -1 for a state of fixed size. */
SLIPWAY_MODEL_API int64_t slipway_model_state_length(slipway_model* model, size_t i);
/* Forgets what lies behind `length` in all growing states. States of fixed size stay as they are. */
SLIPWAY_MODEL_API int slipway_model_truncate_state(slipway_model* model, int64_t length);
/* A new dense tensor with a copy of state `i`, which the caller deletes as it does outputs; and a copy of the caller's
 * into the state, of any strides, and of any size along the dim that grows. */
SLIPWAY_MODEL_API int slipway_model_get_state(slipway_model* model, size_t i, DLManagedTensorVersioned** value);
SLIPWAY_MODEL_API int slipway_model_set_state(slipway_model* model, size_t i, const DLTensor* value);

/* Bytes that one run holds at once between its steps, and what kernels take beside them to work: those of the latest
 * run. 0 before the first. */
SLIPWAY_MODEL_API void slipway_model_memory(slipway_model* model, uint64_t* temporaries, uint64_t* working);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SLIPWAY_SLIPWAY_MODEL_H_ */
