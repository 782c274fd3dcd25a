// DLPack in: who calls the deleter and how often, and which tensors are taken.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "importers/dlpack/dlpack.h"
#include "ir/tensor.h"

namespace slipway::importers {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// A tensor over numbers that live as long as this object; counts what its deleter is called for.
template <typename Managed>
struct Lender {
  Managed managed = {};
  std::vector<int64_t> shape, strides;
  std::vector<float> numbers = std::vector<float>(64);
  int released = 0;

  explicit Lender(std::vector<int64_t> sizes = {2, 3}) : shape(std::move(sizes)) {
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    if constexpr (requires { managed.version; }) managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Lender*>(self->manager_ctx)->released; };
    DLTensor& t = managed.dl_tensor;
    t.data = numbers.data();
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int32_t>(shape.size());
    t.dtype = {kDLFloat, 32, 1};
    t.shape = shape.data();
  }
  DLTensor& tensor() { return managed.dl_tensor; }
  void SetStrides(std::vector<int64_t> s) {
    strides = std::move(s);
    tensor().strides = strides.data();
  }
  absl::StatusOr<ir::TensorRef> Take() { return FromDlpack(&managed); }
};
using Versioned = Lender<DLManagedTensorVersioned>;

// The tensor is refused with this code and this word, and given back once.
template <typename Managed>
void ExpectRefused(Lender<Managed>& lender, absl::StatusCode code, const std::string& word) {
  auto taken = lender.Take();
  ASSERT_FALSE(taken.ok()) << word;
  EXPECT_EQ(taken.status().code(), code) << taken.status();
  EXPECT_NE(taken.status().message().find(word), std::string::npos) << taken.status();
  EXPECT_EQ(lender.released, 1) << word;
}

template <typename Managed>
class DlpackDeleter : public ::testing::Test {};
using Both = ::testing::Types<DLManagedTensorVersioned, DLManagedTensor>;
TYPED_TEST_SUITE(DlpackDeleter, Both);

TYPED_TEST(DlpackDeleter, RunsWhenTheLastReferenceGoes) {
  Lender<TypeParam> lender;
  {
    auto taken = lender.Take();
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(ir::MappedBytes(*taken->storage).data(), reinterpret_cast<const uint8_t*>(lender.numbers.data()));
    ir::TensorRef other = *taken;
    *taken = ir::TensorRef();
    EXPECT_EQ(lender.released, 0);
    // A part of the bytes, as writers hold it, keeps the memory too.
    io::Bytes part = std::get<io::Bytes>(other.storage->bytes).Part(4, 8);
    other = ir::TensorRef();
    EXPECT_EQ(lender.released, 0);
    EXPECT_EQ(part.data().data(), reinterpret_cast<const uint8_t*>(lender.numbers.data()) + 4);
  }
  EXPECT_EQ(lender.released, 1);
}

TYPED_TEST(DlpackDeleter, RunsOnceOnRefusal) {
  Lender<TypeParam> lender;
  lender.tensor().dtype.bits = 24;
  ExpectRefused(lender, absl::StatusCode::kUnimplemented, "24 bits");
}

TYPED_TEST(DlpackDeleter, MayBeMissing) {
  Lender<TypeParam> lender;
  lender.managed.deleter = nullptr;
  EXPECT_TRUE(lender.Take().ok());
  lender.tensor().ndim = -1;
  EXPECT_FALSE(lender.Take().ok());
}

TEST(DlpackTest, OtherMajorVersionsAreGivenBackUnread) {
  for (uint32_t major : {0u, 2u, 0xffffffffu}) {
    Versioned lender;
    lender.managed.version.major = major;
    lender.tensor().shape = reinterpret_cast<int64_t*>(8);  // would crash
    ExpectRefused(lender, absl::StatusCode::kUnimplemented, "DLPack");
  }
  Versioned newer;
  newer.managed.version.minor = 99;
  EXPECT_TRUE(newer.Take().ok());
}

TEST(DlpackTest, StridesAndByteOffset) {
  Versioned lender({2, 3});
  lender.SetStrides({1, 2});  // transposed
  lender.tensor().byte_offset = 4 * sizeof(float);
  auto taken = lender.Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->strides, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(taken->storage->size, 6 * sizeof(float));
  auto dense = ir::ReadDense(*taken);
  ASSERT_TRUE(dense.ok()) << dense.status();
  const float* numbers = reinterpret_cast<const float*>(dense->data());
  EXPECT_EQ(std::vector<float>(numbers, numbers + 6), (std::vector<float>{4, 6, 8, 5, 7, 9}));

  Versioned expanded({5, 2});
  expanded.SetStrides({0, 1});
  auto rows = expanded.Take();
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->storage->size, 2 * sizeof(float));
  EXPECT_EQ(rows->nbytes(), 40);
}

TEST(DlpackTest, StridesThatAreNeverTakenAreAnything) {
  Versioned lender({1, 3});
  lender.SetStrides({-7, 1});
  auto taken = lender.Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(taken->is_contiguous());
  EXPECT_EQ(taken->strides, (std::vector<int64_t>{3, 1}));

  Versioned empty({0, 3});
  empty.SetStrides({kMax, -kMax});
  empty.tensor().data = nullptr;
  auto none = empty.Take();
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->numel(), 0);
  EXPECT_EQ(none->storage->size, 0u);
  EXPECT_EQ(ir::ReadDense(*none).value(), "");
}

TEST(DlpackTest, NoDimensions) {
  Versioned lender(std::vector<int64_t>{});
  lender.tensor().shape = nullptr;
  auto taken = lender.Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->nbytes(), 4);
}

TEST(DlpackTest, Hostile) {
  using Code = absl::StatusCode;
  const auto refused = [](std::vector<int64_t> sizes, Code code, const std::string& word, auto change) {
    Versioned lender(std::move(sizes));
    change(lender);
    ExpectRefused(lender, code, word);
  };
  refused({2, 3}, Code::kInvalidArgument, "dimensions", [](Versioned& l) { l.tensor().ndim = -1; });
  refused({2, 3}, Code::kInvalidArgument, "dimensions",
          [](Versioned& l) { l.tensor().ndim = std::numeric_limits<int32_t>::max(); });
  refused({2, 3}, Code::kInvalidArgument, "shape", [](Versioned& l) { l.tensor().shape = nullptr; });
  refused({2, 3}, Code::kInvalidArgument, "data", [](Versioned& l) { l.tensor().data = nullptr; });
  refused({2, -3}, Code::kInvalidArgument, "size", [](Versioned&) {});
  refused({kMax, 2}, Code::kInvalidArgument, "overflow", [](Versioned&) {});
  refused({int64_t{1} << 62, int64_t{1} << 62, 0}, Code::kInvalidArgument, "overflow", [](Versioned&) {});
  refused({kMax / 32}, Code::kInvalidArgument, "address space",
          [](Versioned& l) { l.tensor().byte_offset = std::numeric_limits<uint64_t>::max() - 64; });
  refused({kMax / 32 + 1}, Code::kInvalidArgument, "overflow", [](Versioned&) {});
  refused({2, 3}, Code::kInvalidArgument, "overflow", [](Versioned& l) { l.SetStrides({kMax, 1}); });
  refused({2, 3}, Code::kUnimplemented, "negative stride", [](Versioned& l) { l.SetStrides({-3, 1}); });
  refused({2, 3}, Code::kInvalidArgument, "address space",
          [](Versioned& l) { l.tensor().byte_offset = std::numeric_limits<uint64_t>::max() - 1000; });
  refused({2, 3}, Code::kUnimplemented, "device", [](Versioned& l) { l.tensor().device.device_type = kDLCUDA; });
  refused({2, 3}, Code::kUnimplemented, "lanes", [](Versioned& l) { l.tensor().dtype.lanes = 0; });
  refused({2, kMax / 2}, Code::kInvalidArgument, "overflow", [](Versioned& l) { l.tensor().dtype.lanes = 65535; });
}

TEST(DlpackTest, PinnedMemoryOfTheHostIsRead) {
  for (DLDeviceType type : {kDLCUDAHost, kDLROCMHost}) {
    Versioned lender;
    lender.tensor().device.device_type = type;
    EXPECT_TRUE(lender.Take().ok());
  }
}

TEST(DlpackTest, Types) {
  const struct {
    uint8_t code, bits;
    ir::DType dtype;
  } known[] = {{kDLInt, 8, ir::DType::kInt8},
               {kDLInt, 16, ir::DType::kInt16},
               {kDLInt, 32, ir::DType::kInt32},
               {kDLInt, 64, ir::DType::kInt64},
               {kDLInt, 4, ir::DType::kInt4},
               {kDLUInt, 8, ir::DType::kUInt8},
               {kDLUInt, 16, ir::DType::kUInt16},
               {kDLUInt, 32, ir::DType::kUInt32},
               {kDLUInt, 64, ir::DType::kUInt64},
               {kDLUInt, 4, ir::DType::kUInt4},
               {kDLFloat, 16, ir::DType::kFloat16},
               {kDLFloat, 32, ir::DType::kFloat32},
               {kDLFloat, 64, ir::DType::kFloat64},
               {kDLBfloat, 16, ir::DType::kBFloat16},
               {kDLComplex, 32, ir::DType::kComplex32},
               {kDLComplex, 64, ir::DType::kComplex64},
               {kDLComplex, 128, ir::DType::kComplex128},
               {kDLBool, 8, ir::DType::kBool},
               {kDLFloat8_e4m3fn, 8, ir::DType::kFloat8E4M3FN},
               {kDLFloat8_e4m3fnuz, 8, ir::DType::kFloat8E4M3FNUZ},
               {kDLFloat8_e5m2, 8, ir::DType::kFloat8E5M2},
               {kDLFloat8_e5m2fnuz, 8, ir::DType::kFloat8E5M2FNUZ},
               {kDLFloat8_e8m0fnu, 8, ir::DType::kFloat8E8M0FNU},
               {kDLFloat6_e2m3fn, 6, ir::DType::kFloat6E2M3},
               {kDLFloat6_e3m2fn, 6, ir::DType::kFloat6E3M2},
               {kDLFloat4_e2m1fn, 4, ir::DType::kFloat4E2M1}};
  for (const auto& type : known) {
    Versioned lender({2, 4});
    lender.tensor().dtype = {type.code, type.bits, 1};
    auto taken = lender.Take();
    ASSERT_TRUE(taken.ok()) << ir::Name(type.dtype) << ": " << taken.status();
    EXPECT_EQ(taken->dtype, type.dtype);
    EXPECT_EQ(taken->storage->size, static_cast<uint64_t>(type.bits)) << "8 elements";
    const auto back = DlpackType(type.dtype);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->code, type.code);
    EXPECT_EQ(back->bits, type.bits);
  }
  // Every type that slipway has goes there and back.
  for (int i = 1; i < static_cast<int>(ir::DType::kCount); ++i) {
    const auto type = DlpackType(static_cast<ir::DType>(i));
    ASSERT_TRUE(type.has_value()) << ir::Name(static_cast<ir::DType>(i));
    EXPECT_EQ(DTypeFromDlpack(*type), static_cast<ir::DType>(i));
    EXPECT_EQ(type->bits, ir::BitSize(static_cast<ir::DType>(i)));
  }
  for (int code = 0; code < 256; ++code)
    for (int bits : {0, 1, 3, 8, 24, 128, 255}) {
      Versioned lender;
      lender.numbers.resize(64);
      lender.tensor().dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
      const bool is_known = DTypeFromDlpack(lender.tensor().dtype).has_value();
      EXPECT_EQ(lender.Take().ok(), is_known);
      EXPECT_EQ(lender.released, 1);
    }
}

TEST(DlpackTest, LanesAreElementsOfTheLastDimension) {
  Versioned pairs({2, 3});  // as torch gives float4_e2m1fn_x2
  pairs.tensor().dtype = {kDLFloat4_e2m1fn, 4, 2};
  pairs.SetStrides({3, 1});
  auto taken = pairs.Take();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->sizes, (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(taken->strides, (std::vector<int64_t>{6, 1}));
  EXPECT_EQ(taken->storage->size, 6u);

  Versioned vectors({4, 1});
  vectors.tensor().dtype = {kDLFloat, 32, 4};
  vectors.SetStrides({2, 1});
  auto wide = vectors.Take();
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->sizes, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(wide->strides, (std::vector<int64_t>{8, 1}));

  Versioned apart({2, 2});
  apart.tensor().dtype = {kDLFloat, 32, 2};
  apart.SetStrides({1, 2});
  ExpectRefused(apart, absl::StatusCode::kUnimplemented, "lie apart");
  Versioned scalar(std::vector<int64_t>{});
  scalar.tensor().dtype = {kDLFloat, 32, 2};
  ExpectRefused(scalar, absl::StatusCode::kUnimplemented, "no dimensions");
}

TEST(DlpackTest, PartsOfBytes) {
  Versioned padded({4});
  padded.tensor().dtype = {kDLInt, 4, 1};
  padded.managed.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  ExpectRefused(padded, absl::StatusCode::kUnimplemented, "padded");
  Versioned strided({2, 2});
  strided.tensor().dtype = {kDLInt, 4, 1};
  strided.SetStrides({1, 2});
  ExpectRefused(strided, absl::StatusCode::kUnimplemented, "strided");
}

}  // namespace
}  // namespace slipway::importers
