/* slipway as a library: opens what PyTorch exports, gives and takes weights as DLPack tensors without copying them,
 * runs passes, and writes ONNX, PT2 and safetensors.
 *
 *     slipway_archive* model;
 *     int status = slipway_open("model.pt2", NULL, &model);
 *     if (status == SLIPWAY_OK) status = slipway_weight_set(model, 0, "fc.weight", tensor);
 *     if (status == SLIPWAY_OK) status = slipway_export(model, SLIPWAY_ALL_PROGRAMS, "model.onnx", NULL, NULL);
 *     if (status != SLIPWAY_OK) fprintf(stderr, "%s\n", slipway_error(model));
 *     slipway_close(model);
 *
 * Status: functions that can fail return a slipway_status. What went wrong, and remarks on what went right, are the
 * diagnostics of the model: those of the latest call that returned a status.
 *
 * Threads: a model, and options, are for one thread at a time; distinct ones need no locks. There is no global state.
 * DLPack deleters are called by whichever thread lets go last.
 *
 * Strings are UTF-8 and end in a NUL; those returned belong to the library, for as long as the declaration says. A
 * string from a file that holds a NUL itself ends there.
 *
 * Stability: functions are added, never changed; structures grow at their end only, and say their size in struct_size.
 */
#ifndef SLIPWAY_SLIPWAY_H_
#define SLIPWAY_SLIPWAY_H_

#include <stddef.h>
#include <stdint.h>

#include "slipway/dlpack.h"

#if defined(__GNUC__)
#define SLIPWAY_API __attribute__((visibility("default")))
#else
#define SLIPWAY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The same numbers as the exit codes of the command line. */
typedef enum slipway_status {
  SLIPWAY_OK = 0,
  SLIPWAY_USAGE = 2,         /* an argument has no meaning: NULL, an index, a name or an option that there is not */
  SLIPWAY_BAD_INPUT = 3,     /* corrupt, hostile, of the wrong format; a tensor that does not fit */
  SLIPWAY_NOT_SUPPORTED = 4, /* operators, types, devices, features; all are listed */
  SLIPWAY_IO = 5,            /* could not read or write */
  SLIPWAY_NO_MEMORY = 6,     /* out of memory or over a limit */
  SLIPWAY_BUG = 70           /* in slipway */
} slipway_status;

/* "0.1.0". Valid for ever. */
SLIPWAY_API const char* slipway_version(void);

/* The command line, for programs that are nothing else: it handles signals, prints, and may end the process instead of
 * returning the exit code. */
SLIPWAY_API int slipway_main(int argc, char** argv);

/* ---- Options ---- */

/* The flags of `slipway convert`, by their names without the dashes. */
typedef struct slipway_options slipway_options;

/* NULL where memory is out. */
SLIPWAY_API slipway_options* slipway_options_new(void);
SLIPWAY_API void slipway_options_free(slipway_options* options); /* NULL is fine */

/* Sets a flag: ("opset", "18"), ("external-data", "always"), ("strict-types", "true"). Flags that the command line
 * takes several times, and lists, are added to: ("metadata", "key=value"), ("input-names", "ids,mask"). Switches take
 * "true" and "false". SLIPWAY_USAGE for an unknown key or a value that has no meaning; the options stay as they were.
 */
SLIPWAY_API int slipway_options_set(slipway_options* options, const char* key, const char* value);
/* What slipway_options_set() found wrong last; "" for nothing. Valid until it is called again. */
SLIPWAY_API const char* slipway_options_error(const slipway_options* options);
/* All keys; NULL behind the last. Valid for ever. */
SLIPWAY_API const char* slipway_options_key(size_t index);

/* Called as weights are written, with bytes done and in all, on the thread that exports. */
typedef void (*slipway_progress)(void* user, uint64_t done, uint64_t total);
SLIPWAY_API void slipway_options_progress(slipway_options* options, slipway_progress progress, void* user);

/* ---- Models ---- */

/* An opened file: one or several programs with their weights, or weights alone. */
typedef struct slipway_archive slipway_archive;

/* Opens a program (.pt2 of torch 2.5 ... 2.13, slipway's text form), or weights: safetensors, a torch.save checkpoint
 * (the option "key" names a dict within), a folder of shards; "dlpack:LIBRARY" loads a library (dlpack_producer.h),
 * running its code. Files are mapped, weights are not read; a file must not be shortened while it is open. `options`
 * may be NULL.
 *
 * *model is set on failure too, for its diagnostics, and must be closed: it then has no programs and no weights. Only
 * where memory is out it may be NULL, which every function takes. */
SLIPWAY_API int slipway_open(const char* path, const slipway_options* options, slipway_archive** model);

/* The same for a program (.pt2) that lies in memory, which is copied; what it is called in messages is `name`. Weights
 * that it was saved without (on torch's device meta) come by slipway_weight_set(). `options` may be NULL. */
SLIPWAY_API int slipway_open_bytes(const void* data, size_t size, const char* name, const slipway_options* options,
                                   slipway_archive** model);

/* A model of weights alone that has none yet: slipway_weight_set() adds them. */
SLIPWAY_API int slipway_new(slipway_archive** model);

/* Frees the model. Tensors given out by slipway_weight_get() stay valid. NULL is fine. */
SLIPWAY_API void slipway_close(slipway_archive* model);

/* ---- Diagnostics ---- */

typedef enum slipway_severity { SLIPWAY_ERROR = 0, SLIPWAY_WARNING = 1, SLIPWAY_NOTE = 2 } slipway_severity;

typedef struct slipway_diagnostic {
  size_t struct_size; /* set by the caller: sizeof(slipway_diagnostic) */
  slipway_severity severity;
  const char* id;    /* "SW1001": docs/diagnostics.md; "" for notes without one */
  const char* cause; /* one line */
  const char* place; /* file, member, node or line of the model's source; may be "" */
  const char* help;  /* what solves it; may be "" */
} slipway_diagnostic;

/* How many diagnostics the latest call left; errors come last. */
SLIPWAY_API size_t slipway_diagnostic_count(const slipway_archive* model);
/* One of them. The strings are valid until the next call on the model that returns a status. SLIPWAY_USAGE for an index
 * that there is not; the diagnostics stay as they are. */
SLIPWAY_API int slipway_diagnostic_get(const slipway_archive* model, size_t index, slipway_diagnostic* diagnostic);
/* What went wrong in one line, "error[SW1001]: cause"; "" where nothing did. Valid as those strings. */
SLIPWAY_API const char* slipway_error(const slipway_archive* model);

/* ---- What is in a model ---- */

SLIPWAY_API size_t slipway_program_count(const slipway_archive* model);
/* NULL for an index that there is not. Valid until the model is closed. */
SLIPWAY_API const char* slipway_program_name(const slipway_archive* model, size_t program);

typedef enum slipway_role {
  SLIPWAY_INPUT = 0,  /* of the user, in flattened order */
  SLIPWAY_OUTPUT = 1, /* to the user, in flattened order */
  SLIPWAY_UPDATE = 2, /* buffers and inputs that the program updates */
  SLIPWAY_WEIGHT = 3  /* parameters, buffers and constants */
} slipway_role;

#define SLIPWAY_DYNAMIC (-1)

typedef struct slipway_value {
  size_t struct_size;  /* set by the caller: sizeof(slipway_value) */
  const char* name;    /* of a weight: its FQN */
  const char* kind;    /* "input", "parameter", "buffer", "tensor_constant", "output", "buffer_mutation", ... */
  const char* dtype;   /* "f32", "bf16", "i64"; of symbolic numbers the type they are passed as; "" for what has none */
  DLDataType dl_dtype; /* the same for DLPack; bits 0 for what has none */
  int32_t is_tensor;
  int32_t rank;             /* of tensors; the arrays below have so many entries */
  const int64_t* sizes;     /* SLIPWAY_DYNAMIC for a size that is not fixed */
  const int64_t* mins;      /* bounds of each size, inclusive; INT64_MIN and INT64_MAX: none */
  const int64_t* maxs;      /* ... */
  const char* const* exprs; /* the sizes as text: "3", "batch", "2*batch + 1" */
  const char* value;        /* of symbolic numbers the expression, of constants the value; else "" */
  uint64_t bytes;           /* of weights, dense */
  int32_t stored;           /* of weights: whether the model has the values */
} slipway_value;

/* `program` is an index; of a model of weights alone 0, with no values but weights. 0 for a program that there is not.
 */
SLIPWAY_API size_t slipway_value_count(const slipway_archive* model, size_t program, slipway_role role);
/* What `value` points to is valid until the model is closed or one of its weights or programs changed. SLIPWAY_USAGE
 * for an index that there is not, SLIPWAY_NO_MEMORY; the diagnostics stay as they are. */
SLIPWAY_API int slipway_value_get(const slipway_archive* model, size_t program, slipway_role role, size_t index,
                                  slipway_value* value);

/* What `slipway inspect --json` prints (schemas/inspect.schema.json), and `slipway inspect --ir`. Valid until the next
 * call of the same function on the model. */
SLIPWAY_API int slipway_inspect(slipway_archive* model, const char** json);
SLIPWAY_API int slipway_text(slipway_archive* model, const char** text);

/* ---- Weights ---- */

/* Gives a view of a weight: the bytes in the mapped file or in the memory they came from, not copied, flagged
 * read-only. A weight that is not aligned to its element's size, or that a rule makes, is copied, and flagged as a copy
 * instead. Strides are always set. The caller calls the deleter; until then the bytes stay, also after slipway_close().
 *
 * SLIPWAY_USAGE for a name that there is not; SLIPWAY_BAD_INPUT for a weight without values. */
SLIPWAY_API int slipway_weight_get(slipway_archive* model, size_t program, const char* name,
                                   DLManagedTensorVersioned** tensor);
/* The same for consumers of the older structure, which cannot say that a tensor is read-only: always a copy. */
SLIPWAY_API int slipway_weight_get_unversioned(slipway_archive* model, size_t program, const char* name,
                                               DLManagedTensor** tensor);

/* Replaces a weight's values by a tensor of the same type and sizes, in the memory of the host; it is not copied and
 * must not be written to while slipway has it. Strides and byte_offset are honoured; a dense tensor is written to files
 * as it lies. Lanes count as more elements of the last dimension. In a model of weights alone any name and type is
 * taken.
 *
 * The tensor passes to slipway whatever is returned: its deleter is called exactly once, before the call returns where
 * the tensor is refused, else when neither the model nor a tensor given out needs it any more. A tensor of another
 * major version of DLPack is refused (SLIPWAY_NOT_SUPPORTED). */
SLIPWAY_API int slipway_weight_set(slipway_archive* model, size_t program, const char* name,
                                   DLManagedTensorVersioned* tensor);
SLIPWAY_API int slipway_weight_set_unversioned(slipway_archive* model, size_t program, const char* name,
                                               DLManagedTensor* tensor);

/* Replaces weights by those of a file or folder, by name: what the flag --weights does. The options "key" and
 * "allow-missing" apply; may be NULL. All of them are replaced or, on failure, none. A model of weights alone takes all
 * that there are. */
SLIPWAY_API int slipway_weights_load(slipway_archive* model, size_t program, const char* path,
                                     const slipway_options* options);

/* ---- Passes and export ---- */

#define SLIPWAY_ALL_PROGRAMS ((size_t) - 1)

/* The passes of docs/design/passes.md, in the order in which a conversion to ONNX runs them; NULL behind the last.
 * Valid for ever. */
SLIPWAY_API const char* slipway_pass_name(size_t index);
/* Runs one pass on a program. Options ("opset", "custom-op", ...) matter to passes that prepare for a target; may be
 * NULL. On failure the program is what it was. SLIPWAY_BAD_INPUT where it is not in the form that the pass needs, or
 * declares types that its operators do not give, which the first pass on a program looks at. */
SLIPWAY_API int slipway_run_pass(slipway_archive* model, size_t program, const char* pass,
                                 const slipway_options* options);
/* Checks that a program is consistent; one that was opened is. */
SLIPWAY_API int slipway_verify(slipway_archive* model, size_t program);

typedef struct slipway_export_info {
  size_t struct_size;                /* set by the caller: sizeof(slipway_export_info) */
  int32_t nodes_before, nodes_after; /* of programs */
  int32_t tensors;                   /* of files of weights */
  uint64_t weight_bytes, bytes_written;
  double seconds;
} slipway_export_info;

/* Writes one program or all, with the weights as they are now: what `slipway convert` does. The format is that of the
 * option "to" or of the path's suffix. The model does not change. The file appears whole or not at all. Warnings and
 * notes are left as diagnostics. `options` and `info` may be NULL. */
SLIPWAY_API int slipway_export(slipway_archive* model, size_t program, const char* path, const slipway_options* options,
                               slipway_export_info* info);
/* What `slipway convert --json` prints of the latest slipway_export() that succeeded (schemas/convert.schema.json).
 * Valid until the next export of the model. SLIPWAY_USAGE before there was one. */
SLIPWAY_API int slipway_export_report(slipway_archive* model, const char** json);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SLIPWAY_SLIPWAY_H_ */
