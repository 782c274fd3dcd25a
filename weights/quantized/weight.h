// One weight of a quantized checkpoint: the tensors that it is stored as, and how its numbers come from them. What the
// families of formats (families.h) find, and what everybody else reads as an ordinary tensor.
#ifndef SLIPWAY_WEIGHTS_QUANTIZED_WEIGHT_H_
#define SLIPWAY_WEIGHTS_QUANTIZED_WEIGHT_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/floats.h"
#include "ir/dtype.h"
#include "ir/sharded.h"
#include "ir/tensor.h"

namespace slipway::weights::quantized {

// A part of a weight seen as a matrix: its last dimension is a row.
struct Block {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  int64_t stride = 0;  // floats from one row of the result to the next
};

struct Weight {
  std::string name;  // "model.layers.0.mlp.up_proj.weight"
  std::vector<int64_t> sizes;
  std::string form;                       // for people: "4 bits, group 128"
  ir::DType dtype = ir::DType::kFloat32;  // what the reference implementation makes of it where nobody says otherwise
  // Rows of the weight are not rows of what is stored: many are best computed at once.
  bool scattered = false;
  std::vector<std::string> parts;  // names of the tensors that it is stored as
  std::vector<ir::TensorRef> stored;
  // The numbers of a block as the reference has them before its last rounding, to `to`: f32, f16 or bf16. Cannot fail:
  // whoever made it has compared all sizes and indexes.
  std::function<void(const Block& block, ir::DType to, float* out)> numbers;

  int64_t columns() const { return sizes.back(); }
  int64_t rows() const;
};

// The weight as a tensor of dtype f32, f16 or bf16.
ir::ShardedTensor TensorOf(std::shared_ptr<const Weight> weight, ir::DType to);

// A stored tensor's values where they lie, side by side.
class Values {
 public:
  Values() = default;
  explicit Values(const ir::TensorRef& t) : tensor_(t), data_(ir::MappedBytes(*t.storage).data() + t.offset) {}

  const uint8_t* data() const { return data_; }
  const ir::TensorRef& tensor() const { return tensor_; }
  const std::vector<int64_t>& sizes() const { return tensor_.sizes; }
  ir::DType dtype() const { return tensor_.dtype; }
  // Element `i` as the type that the tensor is of.
  template <typename T>
  T At(int64_t i) const {
    T value;
    std::memcpy(&value, data_ + i * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
  }
  // Element `i` of f32, f16 or bf16, or a power of two of f8e8m0.
  float Float(int64_t i) const;

 private:
  ir::TensorRef tensor_;
  const uint8_t* data_ = nullptr;
};

// One rounding of each number to a dtype: f16, bf16; f32 is as it is.
void RoundTo(ir::DType t, float* numbers, int64_t count);
// The same of the rows of a block.
void RoundTo(ir::DType t, const Block& block, float* out);

// The number that a code of 8 bits stands for, for all codes.
const float* NumbersOfE4M3();
const float* NumbersOfE5M2();
const float* NumbersOfE2M1();  // 16 of them
// 2^(code - 127), NaN for 255.
float NumberOfE8M0(uint8_t code);

// `bits` bits from bit `at` on of a sequence of 32-bit words, the first in the lowest bits, `step` words apart.
inline uint32_t BitsAt(const uint8_t* words, int64_t step, int64_t at, int bits) {
  uint32_t low, high = 0;
  const int64_t word = at / 32;
  const int shift = static_cast<int>(at % 32);
  std::memcpy(&low, words + word * step * 4, sizeof low);
  if (shift + bits > 32) std::memcpy(&high, words + (word + 1) * step * 4, sizeof high);
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  return static_cast<uint32_t>(both >> shift) & ((1u << bits) - 1);
}

}  // namespace slipway::weights::quantized

#endif  // SLIPWAY_WEIGHTS_QUANTIZED_WEIGHT_H_
