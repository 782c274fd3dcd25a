// What kernels say of their products is what they do: the loops that they name are told apart by the scratch memory
// that these take.
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/executor/execute.h"
#include "kernels/executor/plan_products.h"
#include "kernels/gemm/product.h"
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/int8_gemm.h"

namespace slipway::kernels {
namespace {

Tensor Dense(DType dtype, std::vector<int64_t> sizes, Packing packing = Packing::kNone) {
  Tensor t;
  t.dtype = dtype, t.rank = static_cast<int>(sizes.size()), t.packed = packing;
  int64_t step = 1;
  for (int d = t.rank - 1; d >= 0; --d)
    t.sizes[d] = sizes[static_cast<size_t>(d)], t.strides[d] = step, step *= t.sizes[d];
  return t;
}

Product Of(const char* kernel, const Call& c, int64_t rows = 0) {
  Product p;
  EXPECT_TRUE(FindKernel(kernel)->product(c, rows, &p));
  return p;
}

int64_t Rounded(int64_t floats) { return (floats * 4 + 63) / 64 * 64; }

TEST(Products, MatmulTakesTheLoopThatItNames) {
  const int64_t n = 96;
  for (int64_t k : {64, 65})
    for (DType a : {DType::kF32, DType::kBF16})
      for (int64_t m = 1; m < 40; ++m) {
        const Tensor in[] = {Dense(a, {m, k}), Dense(DType::kBF16, {k, n}, Packing::kNr16)},
                     out[] = {Dense(DType::kF32, {m, n})};
        Call c{.in = in, .out = out};
        const Product p = Of("matmul", c);
        EXPECT_EQ(p.m.value, m);
        EXPECT_EQ(p.k.value, k);
        EXPECT_EQ(p.n.value, n);
        EXPECT_EQ(p.operations, 2.0 * static_cast<double>(m * k * n));
        EXPECT_EQ(p.bytes, 2.0 * static_cast<double>(k * n));
        const std::string_view way = p.loop.way;
        const int64_t scratch = QueryWorkspace(*FindKernel("matmul"), c);
        if (way == "sums of two products of bf16") {
          ASSERT_NE(BestBf16Gemm(), nullptr);
          EXPECT_STREQ(p.loop.isa, BestBf16Gemm()->name);
          EXPECT_EQ(scratch, Rounded(BestBf16Gemm()->workspace({}))) << m;
        } else {
          EXPECT_STREQ(p.loop.isa, BestIsa().name);
          EXPECT_EQ(way == "packed panels read once", scratch == Rounded((k + 64) * m)) << way << " " << m << " " << k;
          EXPECT_TRUE(way == "packed panels read once" || way == "tiles of f32");
        }
        // Rows that are asked for, in place of the tensor's.
        const Product other = Of("matmul", c, 3);
        EXPECT_EQ(other.m.value, 3);
      }
}

TEST(Products, QuantLinearTakesTheLoopThatItNames) {
  const int64_t k = 64, n = 48;
  for (Packing packing : {Packing::kNr16K4, Packing::kNr16Int4})
    for (int64_t groups : {1, 2, 32})
      for (DType rounded : {DType::kF32, DType::kBF16, DType::kF16})
        for (int64_t m = 1; m < 40; ++m) {
          const Tensor in[] = {Dense(DType::kF32, {m, k}), Dense(DType::kI8, {k, n}, packing),
                               Dense(DType::kF32, {groups, n}, Packing::kNr16)};
          const Tensor out[] = {Dense(DType::kF32, {m, n})};
          const int64_t ints[] = {kQuantScale, static_cast<int64_t>(rounded), static_cast<int64_t>(DType::kF32), 0, 1};
          Call c{.in = in, .out = out};
          c.ints = ints;
          const Product p = Of("quant_linear", c);
          EXPECT_EQ(p.groups, groups);
          EXPECT_EQ(p.bytes, static_cast<double>(k * n / (packing == Packing::kNr16Int4 ? 2 : 1) + groups * n * 4));
          const std::string_view way = p.loop.way;
          const int64_t scratch = QueryWorkspace(*FindKernel("quant_linear"), c),
                        blocks = k / (groups == 1 ? 64 : k / groups);
          const bool digits = BestInt8Gemm().split_int8_gemm != nullptr && rounded == DType::kF32 && groups <= 2;
          EXPECT_EQ(digits, way == "floats as three int8 slices, sums of four products") << m << " " << groups;
          if (digits) {  // what they are, or what the others take where a row has none
            EXPECT_STREQ(p.loop.isa, BestInt8Gemm().name);
            EXPECT_GE(scratch, Rounded(m * k * 3 / 4) + Rounded(m * blocks * 3) + Rounded(m * blocks));
          } else {
            EXPECT_STREQ(p.loop.isa, BestIsa().name);
            EXPECT_EQ(way == "widened in registers", scratch == 0) << m << " " << groups;
          }
        }
}

TEST(Products, IntegerLinearTakesTheLoopThatItNames) {
  const int64_t k = 64, n = 48;
  for (Packing packing : {Packing::kNr16K4, Packing::kNr16Int4})
    for (int64_t groups : {1, 4})
      for (int64_t m : {1, 3, 40}) {
        const Tensor in[] = {Dense(DType::kI8, {m, k}), Dense(DType::kI8, {k, n}, packing),
                             Dense(DType::kF32, {groups, n}, Packing::kNr16), Dense(DType::kF32, {m, 1})};
        const Tensor out[] = {Dense(DType::kF32, {m, n})};
        const int64_t ints[] = {0, static_cast<int64_t>(DType::kF32)};
        Call c{.in = in, .out = out};
        c.ints = ints;
        const Product p = Of("integer_linear", c);
        const bool nibbles = packing == Packing::kNr16Int4;
        const Int8GemmMicrokernels& best = BestInt8Gemm();
        EXPECT_EQ(p.groups, groups);
        EXPECT_STREQ(p.loop.isa, best.name);
        EXPECT_STREQ(p.loop.way, best.algorithm[nibbles]);
        // Rows of activations as that loop reads them, their scales and sums.
        EXPECT_EQ(QueryWorkspace(*FindKernel("integer_linear"), c),
                  Rounded(m) + Rounded(m * best.row_bytes(k, nibbles) / 4) + Rounded(m * groups));
      }
  // The ways differ in what these rows are: of 16 bits, or of bytes.
  for (const char* name :
       {"v2", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx", "neon", "dotprod", "i8mm", "bf16"}) {
    const Int8GemmMicrokernels* isa = FindInt8Gemm(name);
    for (int nibbles = 0; isa != nullptr && nibbles < 2; ++nibbles) {
      const std::string_view way = isa->algorithm[nibbles];
      const bool bytes = way.starts_with("sums of four products") || way == "tiles of 16 rows (AMX)" ||
                         way == "products of bytes, pairs in 16 bits" || (nibbles && way == "32-bit products");
      EXPECT_EQ(isa->row_bytes(64, nibbles != 0) < 2 * 64, bytes) << name << " " << way;
    }
  }
}

// A plan of one product: x[B, 8] by a constant, whose rows are what a caller gives.
TEST(Products, APlanSaysForWhichRows) {
  static float weight[8 * 16] = {};
  Plan p;
  p.symbols.push_back({"B", 1, 40});
  auto number = [&](int64_t v) {
    p.exprs.push_back({.op = Expr::kInt, .value = v});
    return static_cast<int32_t>(p.exprs.size()) - 1;
  };
  p.exprs.push_back({.op = Expr::kSymbol, .value = 0});
  const int32_t b = 0, zero = number(0), one = number(1), eight = number(8), columns = number(16), bytes = number(512);
  p.exprs.push_back({.op = Expr::kMul, .a = b, .b = bytes});
  const int32_t all = static_cast<int32_t>(p.exprs.size()) - 1;
  p.inputs.push_back({.name = "x", .sizes = {b, eight}});
  p.outputs.push_back({.sizes = {b, columns}});
  p.bindings.push_back({.symbol = 0, .input = 0, .dim = 0});
  p.buffers = {{.kind = Buffer::kInput, .bytes = all},
               {.kind = Buffer::kConstant, .bytes = bytes, .constant = weight},
               {.kind = Buffer::kOutput, .bytes = all}};
  p.buffers[1].packed = WeightMatrix{DType::kF32, 8, 16, 16, 1, Packing::kNr16};
  p.dims = {b, eight, eight, one, eight, columns, columns, one, b, columns, columns, one};
  p.views = {{.buffer = 0, .rank = 2, .offset = zero, .first_dim = 0},
             {.buffer = 1, .rank = 2, .offset = zero, .first_dim = 4},
             {.buffer = 2, .rank = 2, .offset = zero, .first_dim = 8}};
  p.steps.push_back({.kernel = FindKernel("matmul"), .inputs = 2, .outputs = 1});
  std::string why;
  const auto e = Executable::Make(p, &why);
  ASSERT_NE(e, nullptr) << why;
  const std::vector<PlanProduct> products = ProductsOf(e->plan());
  ASSERT_EQ(products.size(), 1u);
  const PlanProduct& product = products[0];
  EXPECT_EQ(product.m, "B");
  EXPECT_EQ(product.k, "8");
  EXPECT_EQ(product.n, "16");
  EXPECT_EQ(product.bytes, 512);
  EXPECT_EQ(product.packing, Packing::kNr16);
  ASSERT_EQ(product.loops.size(), 2u);
  EXPECT_EQ(product.loops[0].from, 1);
  EXPECT_STREQ(product.loops[0].loop.way, "packed panels read once");
  EXPECT_EQ(product.loops[1].from, product.loops[0].to + 1);
  EXPECT_EQ(product.loops[1].to, 40);

  // And a run that is profiled counts the work.
  Context context(e, {.profile = true});
  std::vector<float> x(3 * 8), y(3 * 16);
  Tensor in = Dense(DType::kF32, {3, 8});
  in.data = x.data();
  const Error f = context.Run({&in, 1}, [&](int32_t, const Tensor&) -> void* { return y.data(); });
  ASSERT_FALSE(f) << f.text;
  EXPECT_EQ(context.work()[0].operations, 2.0 * 3 * 8 * 16);
  EXPECT_EQ(context.work()[0].bytes, 512);
  EXPECT_EQ(context.work()[0].most_rows, 3);
}

}  // namespace
}  // namespace slipway::kernels
