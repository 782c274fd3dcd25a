/* What a library implements that gives tensors to `slipway convert --weights dlpack:./LIBRARY.so`. The tensors stay
 * where they are; slipway writes them straight from there. */
#ifndef SLIPWAY_DLPACK_PRODUCER_H_
#define SLIPWAY_DLPACK_PRODUCER_H_

#include "slipway/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives the next tensor: sets *name (UTF-8, valid until the next call) and *tensor, whose ownership passes to slipway:
 * it calls the deleter once, maybe on another thread, when the bytes are written. No tensor (*tensor stays NULL): there
 * are no more. The library keeps what it needs between calls in *state, which is NULL at first.
 *
 * Returns 0, or anything else for a failure, where *name may point to a message.
 *
 * The last call, also after a failure and after tensors that slipway refuses, has `name` and `tensor` NULL: it frees
 * *state; what it returns is not looked at. Tensors given before stay valid until their deleters are called. slipway
 * may then ask for all tensors again, with a new state. The library is not unloaded. */
__attribute__((visibility("default"))) int slipway_dlpack_next(void** state, const char** name,
                                                               DLManagedTensorVersioned** tensor);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SLIPWAY_DLPACK_PRODUCER_H_ */
