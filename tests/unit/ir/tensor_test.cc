// Tensors whose elements are read as numbers.
#include "ir/tensor.h"

#include <cstring>

#include "base/floats.h"
#include "gtest/gtest.h"

namespace slipway::ir {
namespace {

template <typename T>
TensorRef Tensor(DType dtype, std::vector<T> elements) {
  std::string bytes(elements.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return OwnedTensor(dtype, {static_cast<int64_t>(elements.size())}, std::move(bytes));
}

TEST(ReadNumbersTest, OfEachType) {
  const std::vector<double> expected = {1, -2, 100};
  EXPECT_EQ(*ReadNumbers(Tensor<float>(DType::kFloat32, {1, -2, 100})), expected);
  EXPECT_EQ(*ReadNumbers(Tensor<double>(DType::kFloat64, {1, -2, 100})), expected);
  EXPECT_EQ(*ReadNumbers(Tensor<F16>(DType::kFloat16, {F16(1.f), F16(-2.f), F16(100.f)})), expected);
  EXPECT_EQ(*ReadNumbers(Tensor<BF16>(DType::kBFloat16, {BF16(1.f), BF16(-2.f), BF16(100.f)})), expected);
  EXPECT_EQ(*ReadNumbers(Tensor<int64_t>(DType::kInt64, {1, -2, 100})), expected);
  EXPECT_EQ(*ReadNumbers(Tensor<int32_t>(DType::kInt32, {1, -2, 100})), expected);
  EXPECT_EQ(*ReadNumbers(Tensor<int16_t>(DType::kInt16, {1, -2, 100})), expected);
  EXPECT_EQ(*ReadNumbers(Tensor<int8_t>(DType::kInt8, {1, -2, 100})), expected);
  EXPECT_EQ(*ReadNumbers(Tensor<uint8_t>(DType::kUInt8, {1, 254})), (std::vector<double>{1, 254}));
  EXPECT_EQ(*ReadNumbers(Tensor<uint8_t>(DType::kBool, {0, 1})), (std::vector<double>{0, 1}));
  EXPECT_EQ(ReadNumbers(Tensor<uint8_t>(DType::kFloat8E4M3FN, {0, 1})).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(ReadNumbersTest, OfAView) {
  TensorRef t = Tensor<float>(DType::kFloat32, {0, 1, 2, 3, 4, 5});
  t.sizes = {2, 2};  // the transpose of the last two columns of a 2 x 3 matrix
  t.strides = {1, 3};
  t.offset = sizeof(float);
  EXPECT_EQ(*ReadNumbers(t), (std::vector<double>{1, 4, 2, 5}));
  t.offset = 3 * sizeof(float);
  EXPECT_FALSE(ReadNumbers(t).ok()) << "elements past the end";
}

}  // namespace
}  // namespace slipway::ir
