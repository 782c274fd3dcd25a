// Dense tensors of f32, f16 or bf16 as f32, for kernels that work in it: the tensor's own memory where it is of f32, a
// copy where it is not.
#ifndef SLIPWAY_KERNELS_DENSE_FLOATS_H_
#define SLIPWAY_KERNELS_DENSE_FLOATS_H_

#include <initializer_list>

#include "kernels/isa.h"
#include "kernels/scope.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

class DenseFloats {
 public:
  static bool Takes(const Tensor& t) {
    return (t.dtype == DType::kF32 || t.dtype == DType::kF16 || t.dtype == DType::kBF16) && t.is_contiguous();
  }
  // Tensors with elements, all such as this takes.
  static bool TakesAll(const Tensor& x, const Tensor& w, const Tensor& out) {
    return out.numel() != 0 && w.numel() != 0 && x.numel() != 0 && Takes(x) && Takes(w) && Takes(out);
  }
  // `t` must be one that Takes says yes to; a copy lies in `memory`.
  DenseFloats(const Tensor& t, Workspace& memory) : data_(t.as<float>()) {
    if (t.dtype == DType::kF32) return;
    float* const copy = memory.Take<float>(t.numel());
    BestIsa().widen(t.data, t.dtype, copy, t.numel());
    data_ = copy;
  }
  const float* data() const { return data_; }

 private:
  const float* data_;
};

// The same for a result: Store() rounds it into the tensor.
class DenseResult {
 public:
  DenseResult(const Tensor& t, Workspace& memory)
      : t_(t), data_(t.dtype == DType::kF32 ? t.as<float>() : memory.Take<float>(t.numel())) {}
  float* data() { return data_; }
  void Store() {
    if (t_.dtype != DType::kF32) BestIsa().narrow(data_, t_.data, t_.dtype, t_.numel());
  }

 private:
  const Tensor& t_;
  float* data_;
};

// What these two take for such tensors.
inline Need DenseNeed(std::initializer_list<const Tensor*> tensors) {
  Need need;
  for (const Tensor* t : tensors)
    if (t->dtype != DType::kF32) need.Take<float>(t->numel());
  return need;
}

// Runs a convolution's way (possible(), Run(x, w, out, batch, workers, memory)) on the numbers of these tensors; false
// where it is not one for them.
template <typename Way>
bool RunOnDense(Way& way, const Tensor& x, const Tensor& w, const Tensor& out, const Workers* workers,
                Workspace& memory) {
  if (!way.possible()) return false;
  const DenseFloats from(x, memory), weights(w, memory);
  DenseResult to(out, memory);
  way.Run(from.data(), weights.data(), to.data(), out.sizes[0], workers, memory);
  to.Store();
  return true;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_DENSE_FLOATS_H_
