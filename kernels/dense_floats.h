// Dense tensors of f32, f16 or bf16 as f32, for kernels that work in it: the tensor's own memory where it is of f32, a
// copy where it is not.
#ifndef SLIPWAY_KERNELS_DENSE_FLOATS_H_
#define SLIPWAY_KERNELS_DENSE_FLOATS_H_

#include <memory>

#include "kernels/gemm_fast.h"
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
  // `t` must be one that Takes says yes to.
  explicit DenseFloats(const Tensor& t) : data_(t.as<float>()) {
    if (t.dtype == DType::kF32) return;
    copy_ = std::make_unique<Scratch>(t.numel());
    BestIsa().widen(t.data, t.dtype, copy_->data(), t.numel());
    data_ = copy_->data();
  }
  const float* data() const { return data_; }

 private:
  std::unique_ptr<Scratch> copy_;
  const float* data_;
};

// The same for a result: Store() rounds it into the tensor.
class DenseResult {
 public:
  explicit DenseResult(const Tensor& t) : t_(t) {
    if (t.dtype != DType::kF32) copy_ = std::make_unique<Scratch>(t.numel());
  }
  float* data() { return copy_ != nullptr ? copy_->data() : t_.as<float>(); }
  void Store() {
    if (copy_ != nullptr) BestIsa().narrow(copy_->data(), t_.data, t_.dtype, t_.numel());
  }

 private:
  const Tensor& t_;
  std::unique_ptr<Scratch> copy_;
};

// Runs a convolution's way (possible(), Run(x, w, out, batch, workers)) on the numbers of these tensors; false where it
// is not one for them.
template <typename Way>
bool RunOnDense(Way& way, const Tensor& x, const Tensor& w, const Tensor& out, const Workers* workers) {
  if (!way.possible()) return false;
  const DenseFloats from(x), weights(w);
  DenseResult to(out);
  way.Run(from.data(), weights.data(), to.data(), out.sizes[0], workers);
  to.Store();
  return true;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_DENSE_FLOATS_H_
