// Dense tensors of f32, f16 or bf16 as f32, for kernels that work in it: the tensor's own memory where it is of f32, a
// copy in scratch memory where it is not. Where the scratch counts, nothing is copied.
#ifndef SLIPWAY_KERNELS_CONV_DENSE_F32_H_
#define SLIPWAY_KERNELS_CONV_DENSE_F32_H_

#include "kernels/isa/isa.h"
#include "kernels/scratch.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// A dense tensor of these sizes, without memory.
inline Tensor DenseLike(Tensor t, DType dtype) {
  t.data = nullptr, t.dtype = dtype;
  int64_t step = 1;
  for (int d = t.rank - 1; d >= 0; --d) t.strides[d] = step, step *= t.sizes[d];
  return t;
}

class DenseF32 {
 public:
  static bool Takes(const Tensor& t) {
    return (t.dtype == DType::kF32 || t.dtype == DType::kF16 || t.dtype == DType::kBF16) && t.is_contiguous();
  }
  // Tensors with elements, all such as this takes.
  static bool TakesAll(const Tensor& x, const Tensor& w, const Tensor& out) {
    return out.numel() != 0 && w.numel() != 0 && x.numel() != 0 && Takes(x) && Takes(w) && Takes(out);
  }
  // `t` must be one that Takes says yes to.
  DenseF32(const Tensor& t, Scratch& scratch) : data_(t.as<float>()) {
    if (t.dtype == DType::kF32) return;
    float* const copy = scratch.Take<float>(t.numel());
    if (!scratch.querying()) BestIsa().elementwise.convert_to_f32(t.data, t.dtype, copy, t.numel());
    data_ = copy;
  }
  const float* data() const { return data_; }

 private:
  const float* data_;
};

// The same for a result: Store() rounds it into the tensor.
class DenseF32Result {
 public:
  DenseF32Result(const Tensor& t, Scratch& scratch)
      : t_(t), narrows_(t.dtype != DType::kF32 && !scratch.querying()),
        data_(t.dtype == DType::kF32 ? t.as<float>() : scratch.Take<float>(t.numel())) {}
  float* data() { return data_; }
  void Store() {
    if (narrows_) BestIsa().elementwise.convert_from_f32(data_, t_.data, t_.dtype, t_.numel());
  }

 private:
  const Tensor& t_;
  bool narrows_;
  float* data_;
};

// Runs a convolution's way (possible(), Run(x, w, out, batch, workers, scratch)) on the numbers of these tensors; false
// where it is not one for them.
template <typename Way>
bool RunOnDenseF32(Way& way, const Tensor& x, const Tensor& w, const Tensor& out, const Workers* workers,
                   Scratch& scratch) {
  if (!way.possible()) return false;
  const DenseF32 from(x, scratch), weights(w, scratch);
  DenseF32Result to(out, scratch);
  way.Run(from.data(), weights.data(), to.data(), out.sizes[0], workers, scratch);
  to.Store();
  return true;
}

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_DENSE_F32_H_
