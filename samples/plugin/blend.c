/* Kernels of one's own for operators that a program took from torch.library: blend.py beside this declares them for
 * torch.
 *
 *   cc -shared -fPIC -O2 -I include samples/plugin/blend.c -o blend.so
 *   slipway run model.pt2 --plugin ./blend.so --inputs in.safetensors --outputs out.safetensors
 *   slipway convert model.pt2 --plugin ./blend.so -o model.so        (the kernels ride inside model.so) */
#include <stdio.h>

#include "slipway/slipway_kernel.h"

static int64_t count_of(const DLTensor* t) {
  int64_t n = 1;
  for (int d = 0; d < t->ndim; ++d) n *= t->shape[d];
  return n;
}

static int is_f32(const DLTensor* t) { return t->dtype.code == kDLFloat && t->dtype.bits == 32; }

static int same_sizes(const DLTensor* a, const DLTensor* b) {
  if (a->ndim != b->ndim) return 0;
  for (int d = 0; d < a->ndim; ++d)
    if (a->shape[d] != b->shape[d]) return 0;
  return 1;
}

/* mylib::blend(Tensor x, Tensor y, float alpha=0.5, str mode="mix") -> Tensor: x·alpha + y·(1 - alpha), or the larger
 * one. */
static const char* blend(const slipway_kernel_call* call) {
  const slipway_kernel_arg* x = slipway_kernel_find(call, "x");
  const slipway_kernel_arg* y = slipway_kernel_find(call, "y");
  const slipway_kernel_arg* alpha = slipway_kernel_find(call, "alpha");
  const slipway_kernel_arg* mode = slipway_kernel_find(call, "mode");
  if (!x || !y || x->kind != SLIPWAY_KERNEL_TENSOR || y->kind != SLIPWAY_KERNEL_TENSOR) return "x and y are tensors";
  if (!is_f32(x->value.tensor) || !is_f32(y->value.tensor)) return "only f32 is blended";
  if (!same_sizes(x->value.tensor, y->value.tensor)) return "x and y are of different sizes";
  const double a = alpha ? alpha->value.f : 0.5;
  const float *from_x = x->value.tensor->data, *from_y = y->value.tensor->data;
  float* to = call->outputs[0].data;
  const int64_t n = count_of(&call->outputs[0]);
  if (mode && strcmp(mode->value.string, "largest") == 0) {
    for (int64_t i = 0; i < n; ++i) to[i] = from_x[i] > from_y[i] ? from_x[i] : from_y[i];
  } else if (!mode || strcmp(mode->value.string, "mix") == 0) {
    for (int64_t i = 0; i < n; ++i) to[i] = (float)(from_x[i] * a + from_y[i] * (1 - a));
  } else {
    snprintf(call->text, call->text_size, "blend has no mode '%s'", mode->value.string);
    return call->text;
  }
  return NULL;
}

/* mylib::positive(Tensor x) -> Tensor: the positive elements, so that the size of the result depends on the data. */
static const char* positive_sizes(const slipway_kernel_call* call, int64_t* const* sizes) {
  const slipway_kernel_arg* x = slipway_kernel_find(call, "x");
  if (!x || x->kind != SLIPWAY_KERNEL_TENSOR || !is_f32(x->value.tensor)) return "x is a tensor of f32";
  const float* from = x->value.tensor->data;
  const int64_t n = count_of(x->value.tensor);
  sizes[0][0] = 0;
  for (int64_t i = 0; i < n; ++i) sizes[0][0] += from[i] > 0;
  return NULL;
}
static const char* positive(const slipway_kernel_call* call) {
  const DLTensor* x = slipway_kernel_find(call, "x")->value.tensor;
  const float* from = x->data;
  float* to = call->outputs[0].data;
  const int64_t n = count_of(x);
  for (int64_t i = 0; i < n; ++i)
    if (from[i] > 0) *to++ = from[i];
  return NULL;
}

/* mylib::weighted_sum(Tensor[] xs, float[] weights) -> Tensor */
static const char* weighted_sum(const slipway_kernel_call* call) {
  const slipway_kernel_arg* xs = slipway_kernel_find(call, "xs");
  const slipway_kernel_arg* weights = slipway_kernel_find(call, "weights");
  if (!xs || !weights || xs->kind != SLIPWAY_KERNEL_TENSORS || weights->kind != SLIPWAY_KERNEL_FLOATS ||
      xs->count != weights->count)
    return "as many tensors as weights are summed";
  float* to = call->outputs[0].data;
  const int64_t n = count_of(&call->outputs[0]);
  for (int64_t i = 0; i < n; ++i) to[i] = 0;
  for (size_t k = 0; k < xs->count; ++k) {
    const DLTensor* x = xs->value.tensors[k];
    if (!x || !is_f32(x) || !same_sizes(x, &call->outputs[0])) return "tensors of f32 and of one size are summed";
    for (int64_t i = 0; i < n; ++i) to[i] += (float)weights->value.floats[k] * ((const float*)x->data)[i];
  }
  return NULL;
}

const slipway_kernel_library* slipway_kernels(void) {
  static const slipway_kernel kernels[] = {
      {"mylib::blend", blend, NULL, NULL},
      {"mylib::positive", positive, positive_sizes, NULL},
      {"mylib::weighted_sum", weighted_sum, NULL, NULL},
  };
  static const slipway_kernel_library library = {SLIPWAY_KERNEL_ABI, sizeof(slipway_kernel), kernels,
                                                 sizeof kernels / sizeof *kernels};
  return &library;
}
