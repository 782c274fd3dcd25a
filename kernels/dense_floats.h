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

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_DENSE_FLOATS_H_
