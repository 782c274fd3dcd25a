// Tensors in pieces: what is refused, parts of parts, and that every way through the elements gives the same bytes.
#include "ir/sharded.h"

#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "io/mapped_file.h"
#include "zip_builder.h"

namespace slipway::ir {
namespace {

// A tensor over a fresh file of random bytes, its dimensions in any order in memory, with a gap and a first byte of its
// own.
TensorRef Scattered(std::mt19937& rng, DType dtype, const std::vector<int64_t>& sizes) {
  std::vector<size_t> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), rng);
  TensorRef t;
  t.dtype = dtype;
  t.sizes = sizes;
  t.strides.resize(sizes.size());
  int64_t step = 1;
  for (size_t d : order) {
    t.strides[d] = step;
    step *= std::max<int64_t>(sizes[d], 1) + (rng() % 4 == 0);
  }
  t.offset = static_cast<int64_t>(rng() % 9);
  std::string bytes(static_cast<size_t>(step * ByteSize(dtype) + t.offset), '\0');
  for (char& c : bytes) c = static_cast<char>(rng());
  auto file = io::MappedFile::Open(testing::WriteTemp("scattered", bytes));
  auto storage = std::make_shared<Storage>();
  storage->size = bytes.size();
  storage->bytes = io::Bytes::Of(*file);
  t.storage = storage;
  return t;
}

// Cut at random into a grid, each piece copied to a memory of its own or left where it is.
ShardedTensor Cut(std::mt19937& rng, const TensorRef& whole) {
  ShardedTensor t = whole;
  for (size_t d = 0; d < whole.sizes.size(); ++d) {
    ShardedTensor next;
    next.dtype = t.dtype;
    next.sizes = t.sizes;
    for (const Piece& p : t.pieces) {
      for (int64_t at = 0; at < p.tensor.sizes[d];) {
        const int64_t n = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(p.tensor.sizes[d] - at));
        Piece part = p;
        part.offsets[d] += at;
        part.tensor.sizes[d] = n;
        part.tensor.offset += at * p.tensor.strides[d] * ByteSize(t.dtype);
        next.pieces.push_back(part);
        at += n;
      }
    }
    t = next;
  }
  for (Piece& p : t.pieces)
    if (rng() % 2) p.tensor = OwnedTensor(p.tensor.dtype, p.tensor.sizes, *ReadDense(p.tensor));
  std::shuffle(t.pieces.begin(), t.pieces.end(), rng);
  return t;
}

std::string ReadBy(const ShardedTensor& t, std::mt19937& rng) {
  auto reader = ElementReader::Open(t);
  EXPECT_TRUE(reader.ok()) << reader.status();
  std::string out;
  while (reader->left() > 0) {
    const Run run = reader->Peek();
    EXPECT_GT(run.count, 0);
    if (rng() % 3 == 0 && run.stride == reader->item()) {
      const int64_t n = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(run.count));
      EXPECT_EQ(run.data, MappedBytes(*run.storage).data() + run.offset);
      out.append(reinterpret_cast<const char*>(run.data), static_cast<size_t>(n * reader->item()));
      reader->Skip(n);
    } else {
      const auto bytes = reader->NextDense(1 + static_cast<int64_t>(rng() % 700));
      out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  EXPECT_EQ(reader->Peek().count, 0);
  EXPECT_TRUE(reader->NextDense(5).empty());
  return out;
}

TEST(Sharded, EveryWayGivesTheSameBytes) {
  std::mt19937 rng(1);
  const DType types[] = {DType::kInt8, DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128};
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> sizes(rng() % 5);
    for (int64_t& n : sizes) n = 1 + static_cast<int64_t>(rng() % 9);
    const TensorRef whole = Scattered(rng, types[rng() % 5], sizes);
    const std::string want = *ReadDense(whole);
    EXPECT_EQ(ReadBy(whole, rng), want);
    const ShardedTensor cut = Cut(rng, whole);
    ASSERT_TRUE(Validate(cut).ok()) << Validate(cut);
    EXPECT_EQ(ReadBy(cut, rng), want);
    if (sizes.empty()) continue;
    const size_t dim = rng() % sizes.size();
    const int64_t start = static_cast<int64_t>(rng() % static_cast<uint64_t>(sizes[dim]));
    const int64_t length = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(sizes[dim] - start));
    TensorRef part = whole;
    part.sizes[dim] = length;
    part.offset += start * whole.strides[dim] * ByteSize(whole.dtype);
    auto narrow = Narrow(cut, dim, start, length);
    ASSERT_TRUE(narrow.ok());
    ASSERT_TRUE(Validate(*narrow).ok()) << Validate(*narrow);
    EXPECT_EQ(ReadBy(*narrow, rng), *ReadDense(part));
  }
}

TEST(Sharded, LargeTransposedAndExpanded) {
  std::mt19937 rng(2);
  TensorRef t = Scattered(rng, DType::kInt32, {3000, 4000});
  t.strides = {1, 3000};
  t.offset = 0;
  EXPECT_TRUE(ReadBy(t, rng) == *ReadDense(t));
  auto reader = ElementReader::Open(t);
  std::string out;
  while (reader->left() > 0) {
    const auto bytes = reader->NextDense(1'000'000);
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  EXPECT_TRUE(out == *ReadDense(t));
  t.sizes = {7, 500};
  t.strides = {0, 2};
  EXPECT_EQ(ReadBy(t, rng), *ReadDense(t));
}

TEST(Sharded, RulesAndPartsOfBytes) {
  std::mt19937 rng(3);
  auto rule = std::make_shared<Storage>();
  rule->bytes = Random{7};
  rule->size = 48;
  TensorRef t{rule, DType::kFloat32, {3, 4}, {4, 1}, 0};
  EXPECT_EQ(ReadBy(t, rng), *ReadDense(t));
  const TensorRef halves = OwnedTensor(DType::kFloat4E2M1, {4, 6}, "0123456789ab");
  EXPECT_EQ(ReadBy(halves, rng), "0123456789ab");
  auto part = Narrow(halves, 0, 2, 2);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(ReadBy(*part, rng), "6789ab");
  EXPECT_EQ(Narrow(halves, 1, 0, 2).status().code(), absl::StatusCode::kUnimplemented);
  const TensorRef odd = OwnedTensor(DType::kFloat4E2M1, {4, 3}, "012345");
  EXPECT_EQ(Narrow(odd, 0, 1, 2).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Sharded, Refusals) {
  const auto piece = [](std::vector<int64_t> offsets, std::vector<int64_t> sizes, DType dtype = DType::kInt8) {
    int64_t n = ByteSize(dtype);
    for (int64_t s : sizes) n *= s;
    return Piece{OwnedTensor(dtype, sizes, std::string(static_cast<size_t>(n), 'x')), offsets};
  };
  const auto check = [](std::vector<int64_t> sizes, std::vector<Piece> pieces, DType dtype = DType::kInt8) {
    ShardedTensor t;
    t.dtype = dtype;
    t.sizes = std::move(sizes);
    t.pieces = std::move(pieces);
    return std::string(Validate(t).message());
  };
  EXPECT_EQ(check({4, 2}, {piece({0, 0}, {2, 2}), piece({2, 0}, {2, 2})}), "");
  EXPECT_EQ(check({0, 2}, {}), "");
  EXPECT_EQ(check({}, {piece({}, {})}), "");
  EXPECT_NE(check({}, {piece({}, {}), piece({}, {})}).find("overlap"), std::string::npos);
  EXPECT_NE(check({4, 2}, {piece({0, 0}, {2, 2})}).find("hole"), std::string::npos);
  EXPECT_NE(check({3, 2}, {piece({0, 0}, {2, 2}), piece({1, 0}, {2, 2})}).find("overlap"), std::string::npos);
  EXPECT_NE(check({2, 2}, {piece({0, 0}, {2, 2}), piece({0, 0}, {2, 2})}).find("overlap"), std::string::npos);
  EXPECT_NE(check({4, 2}, {piece({3, 0}, {2, 2})}).find("outside"), std::string::npos);
  EXPECT_NE(check({4, 2}, {piece({-1, 0}, {2, 2})}).find("outside"), std::string::npos);
  EXPECT_NE(check({4, 2}, {piece({INT64_MAX, 0}, {2, 2})}).find("outside"), std::string::npos);
  EXPECT_NE(check({4, 2}, {piece({0}, {2})}).find("dimensions"), std::string::npos);
  EXPECT_NE(check({2}, {piece({0}, {2}, DType::kInt16)}).find("i16"), std::string::npos);
  EXPECT_NE(check({INT64_MAX, INT64_MAX}, {}).find("overflows"), std::string::npos);
  EXPECT_NE(check({-1}, {}).find("negative"), std::string::npos);
}

}  // namespace
}  // namespace slipway::ir
