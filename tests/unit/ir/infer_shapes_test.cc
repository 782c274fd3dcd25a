// Shape functions: promotion and the rules that are easy to get wrong. What torch itself says about many more programs
// is in tests/interop/shapes_test.py.
#include "ir/ops/infer.h"

#include <regex>

#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::ir {
namespace {

class Shapes : public testing::Test {
 protected:
  Program p;
  SymTable& t = *p.syms;
  Sym s0 = t.Symbol("s0"), s1 = t.Symbol("s1");

  Value* In(DType dtype, Sizes sizes) { return p.graph->AddInput("x", Type::Tensor(dtype, std::move(sizes))); }
  Value* In(Sizes sizes) { return In(DType::kFloat32, std::move(sizes)); }
  Value* SymIn(Sym e) { return p.graph->AddInput("n", Type::SymInt(e)); }

  // The types of the call's results as text, or the error.
  std::string Types(std::string_view op, std::vector<Arg> args,
                    std::vector<std::pair<std::string_view, Arg>> named = {}) {
    Builder b(*p.graph, nullptr, nullptr);
    Values out = b.CallMulti(op, std::move(args), std::move(named));
    if (!b.ok()) return std::string(b.status().message());
    std::string text;
    for (Value* v : out) text += (text.empty() ? "" : ", ") + (v ? v->type().ToString() : "none");
    return text;
  }
};

TEST_F(Shapes, EveryRowNamesAnOperator) {
  for (auto table : {ElementwiseShapes(), ViewShapes(), ReductionShapes(), NnShapes(), IndexingShapes(),
                     CreationShapes(), LinalgShapes(), SymbolicShapes()})
    for (const ShapeRow& row : table) EXPECT_NE(FindOp(row.op), nullptr) << row.op;
}

TEST_F(Shapes, NoOperatorHasTwoRows) {
  std::vector<std::string_view> names;
  for (auto table : {ElementwiseShapes(), ViewShapes(), ReductionShapes(), NnShapes(), IndexingShapes(),
                     CreationShapes(), LinalgShapes(), SymbolicShapes()})
    for (const ShapeRow& row : table) names.push_back(row.op);
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  EXPECT_EQ(twice, names.end()) << *twice;
}

TEST_F(Shapes, DimensionedTensorsOutrankZeroDimensionalOnesOutrankNumbers) {
  Value *half = In(DType::kFloat16, {4}), *zero = In(DType::kFloat64, {}), *ints = In(DType::kInt32, {4});
  EXPECT_EQ(Types("aten.add.Tensor", {half, zero}), "f16[4]");
  EXPECT_EQ(Types("aten.add.Tensor", {ints, zero}), "f64[4]");
  EXPECT_EQ(Types("aten.add.Tensor", {ints, 2.5}), "f32[4]");
  EXPECT_EQ(Types("aten.add.Tensor", {half, 2.5}), "f16[4]");
  EXPECT_EQ(Types("aten.mul.Tensor", {zero, 2}), "f64[]");
  EXPECT_EQ(Types("aten.add.Tensor", {half, ints}), "f16[4]");
  EXPECT_EQ(Types("aten.add.Tensor", {half, In(DType::kBFloat16, {4})}), "f32[4]");
  EXPECT_EQ(Types("aten.add.Tensor", {In(DType::kUInt8, {4}), In(DType::kInt8, {4})}), "i16[4]");
  EXPECT_EQ(Types("aten.mul.Tensor", {half, std::complex<double>(0, 1)}), "c32[4]");
  EXPECT_EQ(Types("aten.mul.Tensor", {In(DType::kBFloat16, {4}), std::complex<double>(0, 1)}), "c64[4]");
  EXPECT_EQ(Types("aten.mul.Tensor", {In(DType::kFloat64, {4}), In(DType::kComplex64, {})}), "c128[4]");
  EXPECT_EQ(Types("aten.pow.Tensor_Scalar", {In(DType::kBool, {4}), 2}), "i64[4]");
}

TEST_F(Shapes, CategoriesOfResults) {
  Value *i = In(DType::kInt32, {4, 6}), *b = In(DType::kBool, {4, 6}), *c = In(DType::kComplex64, {4, 6});
  EXPECT_EQ(Types("aten.div.Tensor", {i, i}), "f32[4,6]");
  EXPECT_EQ(Types("aten.div.Tensor_mode", {i, i}, {{"rounding_mode", "floor"}}), "i32[4,6]");
  EXPECT_EQ(Types("aten.sqrt.default", {i}), "f32[4,6]");
  EXPECT_EQ(Types("aten.lt.Scalar", {i, 2}), "bool[4,6]");
  EXPECT_EQ(Types("aten.sum.dim_IntList", {b, Ints{1}}), "i64[4]");
  EXPECT_EQ(Types("aten.amax.default", {i, Ints{}, true}), "i32[1,1]");
  EXPECT_EQ(Types("aten.abs.default", {c}), "f32[4,6]");
  EXPECT_EQ(Types("aten.var.correction", {c, Ints{0}}), "f32[6]");
  EXPECT_EQ(Types("aten.cumsum.default", {b, 0}, {{"dtype", DType::kFloat16}}), "f16[4,6]");
  EXPECT_EQ(Types("aten.clamp.default", {i, 0.5}), "f32[4,6]");
}

TEST_F(Shapes, Broadcasting) {
  EXPECT_EQ(Types("aten.add.Tensor", {In({s0, 1, 5}), In({s1, 1})}), "f32[s0,s1,5]");
  EXPECT_EQ(Types("aten.add.Tensor", {In({s0, 8}), In({4, 8})}), "f32[4,8]");  // torch guarded on s0 == 4
  EXPECT_EQ(Types("aten.add.Tensor", {In({3}), In({4})}), "aten.add.Tensor: sizes do not broadcast: 3 and 4 differ");
}

TEST_F(Shapes, Views) {
  Value* x = In({s0, 6, 4});
  EXPECT_EQ(Types("aten.view.default", {x, SymInts{SymIn(s0), -1}}), "f32[s0,24]");
  EXPECT_EQ(Types("aten.view.default", {x, Ints{-1, 8}}), "f32[3*s0,8]");
  EXPECT_EQ(Types("aten.view.default", {x, Ints{-1, -1}}), "aten.view.default: more than one size is -1");
  EXPECT_EQ(Types("aten.view.default", {In({4, 6}), Ints{5, -1}}), "aten.view.default: 24 elements do not divide by 5");
  EXPECT_EQ(Types("aten.flatten.using_ints", {x}), "f32[24*s0]");
  EXPECT_EQ(Types("aten.expand.default", {In({s0, 1}), Ints{3, -1, 5}}), "f32[3,s0,5]");
  EXPECT_EQ(Types("aten.expand.default", {In({4}), Ints{-1, 4}}), "aten.expand.default: a new dimension cannot be -1");
  EXPECT_EQ(Types("aten.squeeze.default", {In({s0, 1, 3})}), "f32[s0,3]");
  EXPECT_EQ(Types("aten.squeeze.dim", {In({s0, 1, 3}), 0}), "f32[s0,1,3]");
  EXPECT_EQ(Types("aten.squeeze.dims", {In({1, 1, 1}), Ints{0, -1}}), "f32[1]");
  EXPECT_EQ(Types("aten.unsqueeze.default", {In({}), -1}), "f32[1]");
  EXPECT_EQ(Types("aten.permute.default", {x, Ints{2, 0, 0}}), "aten.permute.default: dims are not a permutation");
}

TEST_F(Shapes, Slices) {
  Value* x = In({s0, 6});
  EXPECT_EQ(Types("aten.slice.Tensor", {x, 1, 2, 100}), "f32[s0,4]");
  EXPECT_EQ(Types("aten.slice.Tensor", {x, 1, -100, -2}), "f32[s0,4]");
  EXPECT_EQ(Types("aten.slice.Tensor", {x, 1, 5, 2}), "f32[s0,0]");
  EXPECT_EQ(Types("aten.slice.Tensor", {x, 1, 0, std::numeric_limits<int64_t>::max(), 4}), "f32[s0,2]");
  EXPECT_EQ(Types("aten.slice.Tensor", {x, 0, 1}), "f32[s0 - 1,6]");
  EXPECT_EQ(Types("aten.slice.Tensor", {x, 0, 0, -1}), "f32[s0 - 1,6]");
  // A bound that may be past the end is clamped, not assumed.
  EXPECT_EQ(Types("aten.slice.Tensor", {x, 0, 0, SymIn(s1)}), "f32[Min(s0, s1),6]");
  EXPECT_EQ(Types("aten.slice.Tensor", {x, 1, 0, 6, 0}), "aten.slice.Tensor: the step is not positive");
}

TEST_F(Shapes, PartsAndJoins) {
  EXPECT_EQ(Types("aten.split.Tensor", {In({7, s0}), 3}), "f32[3,s0], f32[3,s0], f32[1,s0]");
  EXPECT_EQ(Types("aten.chunk.default", {In({7}), 4}), "f32[2], f32[2], f32[2], f32[1]");
  EXPECT_EQ(Types("aten.tensor_split.sections", {In({7}), 3}), "f32[3], f32[2], f32[2]");
  EXPECT_EQ(Types("aten.split_with_sizes.default", {In({7}), Ints{3, 3}}),
            "aten.split_with_sizes.default: the parts do not add up to the size: 6 and 7 differ");
  EXPECT_EQ(Types("aten.cat.default", {Values{In({0}), In({s0, 3}), In(DType::kFloat64, {s1, 3})}}), "f64[s0 + s1,3]");
  EXPECT_EQ(Types("aten.stack.default", {Values{In({s0}), In({4})}, -1}), "f32[4,2]");
}

TEST_F(Shapes, Windows) {
  Value *x = In({s0, 3, s1, 32}), *w = In({8, 3, 3, 3});
  EXPECT_EQ(Types("aten.conv2d.default", {x, w, nullptr, Ints{2, 2}, Ints{1, 1}}), "f32[s0,8,(s1 - 1)//2 + 1,16]");
  EXPECT_EQ(Types("aten.conv2d.padding", {x, w, nullptr, Ints{1}, "same", Ints{2}}), "f32[s0,8,s1,32]");
  // Transposed: channels are the second size of the weight, times groups.
  EXPECT_EQ(Types("aten.conv_transpose2d.input",
                  {In({1, 8, s0, 5}), In({8, 3, 4, 4}), nullptr, Ints{2}, Ints{1}, Ints{1}, 2}),
            "f32[1,6,2*s0 + 1,11]");
  // A last window that would begin in the right padding is left out.
  EXPECT_EQ(Types("aten.max_pool2d.default", {In({1, 1, 5, 4}), Ints{2}, Ints{3}, Ints{0}, Ints{1}, true}),
            "f32[1,1,2,2]");
  EXPECT_EQ(Types("aten.max_pool2d.default", {In({1, 1, 1, 1}), Ints{1}, Ints{2}, Ints{0}, Ints{1}, true}),
            "f32[1,1,1,1]");
  EXPECT_EQ(Types("aten.max_pool2d.default", {In({1, 1, 3, 3}), Ints{1}, Ints{3}, Ints{0}, Ints{1}, true}),
            "f32[1,1,1,1]");
  EXPECT_EQ(Types("aten.avg_pool1d.default", {In({1, 7}), Ints{2}, Ints{}, Ints{1}, true}), "f32[1,4]");
  EXPECT_EQ(Types("aten.max_pool2d.default", {In({1, 1, s0, 4}), Ints{3, 3}, Ints{2, 2}, Ints{1, 1}, Ints{1}, true}),
            "f32[1,1,s0//2 + 1,3]");
  EXPECT_EQ(Types("aten.upsample_nearest2d.vec", {In({1, 1, s0, 5}), nullptr, std::vector<double>{2.0, 1.5}}),
            "f32[1,1,2*s0,7]");
}

TEST_F(Shapes, Indexing) {
  Value *x = In({s0, 5, 6, 7}), *i = In(DType::kInt64, {2, 3}), *mask = In(DType::kBool, {5, 6});
  EXPECT_EQ(Types("aten.index.Tensor", {x, Values{nullptr, i, i}}), "f32[s0,2,3,7]");
  EXPECT_EQ(Types("aten.index.Tensor", {x, Values{i, nullptr, i}}), "f32[2,3,5,7]");
  EXPECT_EQ(Types("aten.index.Tensor", {x, Values{nullptr, mask}}).substr(0, 8), "f32[s0,u");
  EXPECT_EQ(Types("aten.index_select.default", {x, 1, In(DType::kInt64, {s1})}), "f32[s0,s1,6,7]");
  EXPECT_EQ(Types("aten.embedding.default", {In({10, 4}), i}), "f32[2,3,4]");
}

TEST_F(Shapes, Products) {
  EXPECT_EQ(Types("aten.matmul.default", {In({s0, 1, 4, 5}), In({3, 5, 6})}), "f32[s0,3,4,6]");
  EXPECT_EQ(Types("aten.matmul.default", {In({5}), In({3, 5, 6})}), "f32[3,6]");
  EXPECT_EQ(Types("aten.mm.default", {In({4, 5}), In({6, 7})}), "aten.mm.default: inner sizes: 5 and 6 differ");
  EXPECT_EQ(Types("aten.einsum.default", {"b...i,ij->...jb", Values{In({s0, 2, 3, 4}), In({4, 5})}}), "f32[2,3,5,s0]");
  EXPECT_EQ(Types("aten.linalg_qr.default", {In({5, 3}), "complete"}), "f32[5,5], f32[5,3]");
  EXPECT_EQ(Types("aten.fft_irfft.default", {In(DType::kComplex64, {4, 5})}), "f32[4,8]");
}

TEST_F(Shapes, NumbersAndCreation) {
  EXPECT_EQ(Types("aten.arange.start_step", {0, SymIn(s0), 2}), "i64[(s0 + 1)//2]");
  EXPECT_EQ(Types("aten.arange.start_step", {5, 0, -2}), "i64[3]");
  EXPECT_EQ(Types("aten.arange.default", {2.5}), "f32[3]");
  EXPECT_EQ(Types("aten.full.default", {Ints{2}, true}), "bool[2]");
  EXPECT_EQ(Types("aten.tril_indices.default", {3, 4, 1}), "i64[2,9]");
  EXPECT_EQ(Types("aten.triu_indices.default", {3, 4, -1}), "i64[2,11]");
  EXPECT_EQ(Types("_operator.floordiv", {SymIn(s0 * 6), 4}), "i64((3*s0)//2)");
  EXPECT_EQ(Types("aten.sym_size.int", {In({2, s0 + 1}), -1}), "i64(s0 + 1)");
}

TEST_F(Shapes, InPlaceResultsAreTheWrittenArgument) {
  Value* x = In(DType::kInt32, {4, 1});
  EXPECT_EQ(Types("aten.add_.Tensor", {x, 1}), "i32[4,1]");
  EXPECT_EQ(Types("aten.squeeze_.default", {x}), "i32[4]");
}

TEST_F(Shapes, ThePassNamesWhatContradicts) {
  Value* x = In({s0, 4});
  Builder b(*p.graph, nullptr, nullptr);
  Value* y = b.Call("aten.add.Tensor", {x, 1.0});
  p.graph->outputs = {y};
  EXPECT_TRUE(passes::InferShapes(p).ok());
  y->mutable_type().sizes[0] = s0 + 1;
  EXPECT_EQ(passes::InferShapes(p).message(),
            "aten.add.Tensor (%add): result %add is declared as f32[s0 + 1,4], the operator gives f32[s0,4]");
  y->mutable_type() = Type::Tensor(DType::kFloat16, {s0, 4});
  EXPECT_EQ(passes::InferShapes(p).code(), absl::StatusCode::kInvalidArgument);
  // What inference cannot decide is as declared: the program may know better.
  y->mutable_type() = Type::Tensor(DType::kFloat32, {s1, 4});
  EXPECT_TRUE(passes::InferShapes(p).ok());
  EXPECT_EQ(y->type().ToString(), "f32[s1,4]");
}

TEST_F(Shapes, CheckingMakesNoSymbols) {
  Builder b(*p.graph, nullptr, nullptr);
  b.Call("aten.nonzero.default", {In({4, 6})});
  size_t before = t.symbols().size();
  EXPECT_TRUE(passes::InferShapes(p).ok());
  EXPECT_EQ(t.symbols().size(), before);
}

// What an operator cannot be given is refused here, so that no rule behind it has to.
TEST_F(Shapes, RefusesWhatDoesNotFit) {
  Value *x = In({2, 4, 5}), *three = In({3}), *ints = In(DType::kInt8, {2, 4, 5});
  EXPECT_EQ(Types("aten.group_norm.default", {x, 2, three}),
            "aten.group_norm.default: argument 'weight' and the channels: 3 and 4 differ");
  EXPECT_EQ(Types("aten.batch_norm.default", {x, In({}), None{}, None{}, None{}, true, 0.1, 1e-5, false}),
            "aten.batch_norm.default: argument 'weight' has rank 0, not 1");
  EXPECT_EQ(Types("aten.scaled_dot_product_attention.default", {x, x, ints}),
            "aten.scaled_dot_product_attention.default: query, key and value have different dtypes");
  EXPECT_EQ(Types("aten.repeat.default", {In({2, 8}), Ints{int64_t{1} << 59, 1}}),
            "aten.repeat.default: a result of f32[1152921504606846976,8] is out of range");
}

// One mutant a line that came to exit 70, through ONNX's checker or a decomposition, before the rule looked.
TEST_F(Shapes, RefusesWhatTorchRefuses) {
  const DType f16 = DType::kFloat16, i64 = DType::kInt64, boolean = DType::kBool;
  Value *m = In({3, 4}), *n = In({4, 5}), *v = In({4}), *halves = In(f16, {4, 5}), *batch = In({2, 3, 4}),
        *x4 = In({2, 4, 6, 6});
  Value *square = In({4, 4}), *ids = In(i64, {3});
  const struct {
    std::string_view op;
    std::vector<Arg> args;
    std::string_view why;
  } cases[] = {
      {"aten.mm.default", {m, halves}, "'x' is f32 and 'x' f16"},
      {"aten.logsumexp.default", {m, Ints{1, 1}}, "dim 1 is given twice"},
      {"aten.sum.dim_IntList", {m, Ints{0, -2}}, "dim 0 is given twice"},
      {"aten.linalg_vector_norm.default", {m, 2, Ints{1, 1}}, "dim 1 is given twice"},
      {"aten.multinomial.default", {m, 5}, "5 samples of 4"},
      {"aten.matmul.default", {In(DType::kInt16, {3, 4}), n}, "'x' is i16 and 'x' f32"},
      {"aten.bmm.default", {batch, In(i64, {2, 4, 5})}, "'x' is f32 and 'x' i64"},
      {"aten.baddbmm.default", {In({2, 0, 5}), batch, In({2, 4, 5})}, "what is added to the product: 0 and 3 differ"},
      {"aten.addmm.default", {In({6}), m, n}, "what is added to the product: 6 and 5 differ"},
      {"aten.addmm.default", {In(f16, {5}), m, n}, "'x' is f16 and 'x' f32"},
      {"aten.addmv.default", {In({2, 3}), m, v}, "what is added to the product: 2 dimensions do not expand to 1"},
      {"aten.addmv.default", {In({3}), m, In({2, 2})}, "'x' has 2 dimensions, not 1"},
      {"aten.mul.Tensor", {In(DType::kFloat8E8M0FNU, {4}), v}, "dtypes that have no common one"},
      {"aten.addr.default", {In({2, 2}), v, v}, "what is added to the product: 2 and 4 differ"},
      {"aten._int_mm.default", {In(DType::kInt8, {3, 4}), In(DType::kInt8, {5, 4})}, "inner sizes: 4 and 5 differ"},
      {"aten.linear.default", {m, In({5, 4}), In({3})}, "the bias: 3 and 5 differ"},
      {"aten.tensordot.default", {m, n, Ints{0}, Ints{1}}, "contracted sizes: 3 and 5 differ"},
      {"aten.linalg_multi_dot.default", {Values{m, m}}, "inner sizes: 4 and 3 differ"},
      {"aten.bilinear.default", {m, In({3, 5}), In({6, 4, 4})}, "sizes of the second input: 4 and 5 differ"},
      {"aten.linalg_cross.default", {m, m}, "the size of a vector: 4 and 3 differ"},
      {"aten.linalg_cholesky.default", {m}, "rows and columns of a square matrix: 3 and 4 differ"},
      {"aten.linalg_eigvalsh.default", {In({5, 1})}, "rows and columns of a square matrix: 5 and 1 differ"},
      {"aten.linalg_ldl_factor_ex.default", {In({2, 5, 1})}, "rows and columns of a square matrix: 5 and 1 differ"},
      {"aten.lu_unpack.default", {In({3, 3, 5}), In(DType::kInt32, {0, 3})}, "the pivots: 0 and 3 differ"},
      {"aten.linalg_solve_triangular.default",
       {square, In({3, 2})},
       "sizes of the matrix and the right-hand sides: 4 and 3 differ"},
      {"aten.cholesky_solve.default",
       {In({3, 2}), square},
       "sizes of the matrix and the right-hand sides: 4 and 3 differ"},
      {"aten.linalg_solve.default",
       {square, In({3, 2})},
       "sizes of the matrix and the right-hand sides: 4 and 3 differ"},
      {"aten.linalg_tensorinv.default", {In({2, 3, 4})}, "elements of the rows and the columns: 6 and 4 differ"},
      {"aten.linalg_householder_product.default", {m, v}, "fewer rows than columns"},
      {"aten.conv2d.default", {x4, In({8, 3, 3, 3})}, "channels of the input and the weight: 4 and 3 differ"},
      {"aten.conv2d.default", {x4, In({8, 4, 3, 3}), In(boolean, {8})}, "'x' is f32 and 'x' bool"},
      {"aten.conv2d.default",
       {x4, In({8, 4, 3, 3}), In({7})},
       "the bias and the channels of the result: 7 and 8 differ"},
      {"aten.conv2d.padding",
       {x4, In({8, 4, 3, 3}), None{}, Ints{-2, 1}, "same"},
       "the stride of padding 'same': -2 and 1 differ"},
      {"aten.conv2d.padding",
       {x4, In({8, 4, 3, 3}), None{}, Ints{1, 1}, "same", Ints{1, 0}},
       "a dilation is not positive"},
      {"aten.conv_transpose2d.input", {x4, In({3, 8, 3, 3})}, "channels of the input and the weight: 4 and 3 differ"},
      {"aten.conv_transpose2d.input", {x4, In({4, 8, 3, 3}), None{}, Ints{0, 1}}, "a stride is not positive"},
      {"aten.avg_pool1d.default", {In({2, 3, 1}), Ints{3}}, "the kernel is larger than the input"},
      {"aten.max_pool2d_with_indices.default",
       {x4, Ints{3, 3}, Ints{2, 2}, Ints{0, 7}},
       "the padding is more than half of the kernel"},
      {"aten.conv2d.default", {x4, In({8, 4, 7, 7})}, "the kernel is larger than the input"},
      {"aten.prelu.default", {In({7}), In(DType::kUInt8, {})}, "'x' is f32 and 'x' u8"},
      {"aten._unsafe_masked_index_put_accumulate.default",
       {In({5, 5}), In(boolean, {10, 10}), Values{In(i64, {10, 1}), In(i64, {1, 10})}, In({10, 2})},
       "sizes do not broadcast: 2 and 10 differ"},
      {"aten.grid_sampler_2d.default",
       {x4, In({2, 5, 5, 3}), 0, 0, false},
       "coordinates of a point of the grid: 3 and 2 differ"},
      {"aten.layer_norm.default", {m, Ints{3}}, "normalized_shape: 3 and 4 differ"},
      {"aten.layer_norm.default", {m, Ints{4}, In({5})}, "argument 'weight': 5 and 4 differ"},
      {"aten.layer_norm.default", {In(i64, {3, 4}), Ints{4}, v}, "'x' is i64 and 'x' f32"},
      {"aten.rms_norm.default", {m, Ints{}}, "no normalized dimension"},
      {"aten.group_norm.default", {x4, 3}, "channels that the groups do not divide: 1 and 0 differ"},
      {"aten.group_norm.default", {x4, 2, In(f16, {4})}, "'x' is f32 and 'x' f16"},
      {"aten.scaled_dot_product_attention.default",
       {batch, batch, In({2, 2, 4})},
       "lengths of key and value: 3 and 2 differ"},
      {"aten.scaled_dot_product_attention.default",
       {batch, batch, batch, In({5, 2, 3, 3})},
       "the mask: 4 dimensions do not expand to 3"},
      {"aten.im2col.default", {x4, Ints{2, 2}, Ints{0, 1}, Ints{0, 0}, Ints{1, 1}}, "a dilation is not positive"},
      {"aten.im2col.default",
       {x4, Ints{7, 2}, Ints{1, 1}, Ints{0, 0}, Ints{1, 1}},
       "the kernel is larger than the input"},
      {"aten.col2im.default",
       {In({2, 16, 8}), Ints{4, 4}, Ints{2, 2}, Ints{1, 1}, Ints{0, 0}, Ints{1, 1}},
       "blocks: 8 and 9 differ"},
      {"aten.col2im.default", {In({2, 16, 9}), Ints{4, 4}, Ints{2, 2}, Ints{1, 1}, Ints{0, 0}, Ints{1, 1}}, ""},
      {"aten.glu.default", {In({3, 5})}, "a size that is not even: 1 and 0 differ"},
      {"aten.gru.input",
       {batch, In({1, 3, 6}), Values{In({18, 4}), In({18, 6})}, false, 1, 0.0, false, false, false},
       ""},
      {"aten.gru.input",
       {batch, In({1, 3, 6}), Values{In({18, 4}), In({18, 5})}, false, 1, 0.0, false, false, false},
       "weight 1: 5 and 6 differ"},
      {"aten.gru.input",
       {m, In({1, 6}), Values{In({18, 4}), In({18})}, false, 1, 0.0, false, false, false},
       "weight 1: 1 and 2 dimensions"},
      {"aten.gru_cell.default", {m, In({3, 6}), In({12, 4}), In({18, 6})}, "argument 'w_ih': 12 and 18 differ"},
      {"aten.view_as.default", {m, v}, "the number of elements: 12 and 4 differ"},
      {"aten.expand_as.default", {x4, m}, "a size does not expand: 4 dimensions do not expand to 2"},
      {"aten.slice_scatter.default", {m, m, 0, 1, 2}, "sizes of what is written: 3 and 1 differ"},
      {"aten.select_scatter.default", {m, m, 0, 0}, "sizes of what is written: 2 and 1 dimensions"},
      {"aten.select.int", {m, 0, 3}, "index 3 of a size of 3"},
      {"aten.affine_grid_generator.default", {batch, Ints{3, 1, 5, 5}, false}, "matrices and grids: 2 and 3 differ"},
      {"aten.affine_grid_generator.default", {m, Ints{3, 1, 5, 5}, false}, "matrices of rank 2"},
      {"aten.diagonal_scatter.default", {m, v}, "sizes of what is written: 4 and 3 differ"},
      {"aten.as_strided_scatter.default", {m, v, Ints{2}, Ints{1}}, "sizes of what is written: 4 and 2 differ"},
      {"aten.flip.default", {m, Ints{1, -1}}, "a dimension is flipped twice"},
      {"aten.roll.default", {m, Ints{1, 1}, Ints{0}}, "shifts and dims differ in number"},
      {"aten.triu.default", {v}, "'x' has fewer than 2 dimensions"},
      {"aten.trace.default", {v}, "'x' has 1 dimensions, not 2"},
      {"aten.narrow.default", {m, 1, 2, 3}, "the part reaches beyond the size"},
      {"aten.unfold.default", {m, 0, int64_t{1} << 60, 1}, "a window is larger than the size"},
      {"aten.view_as_complex.default", {m}, "the last dimension of a complex view: 4 and 2 differ"},
      {"aten.repeat.default", {m, Ints{-1, 1}}, "a number of repeats is negative"},
      {"aten.pixel_shuffle.default", {x4, 3}, "channels that the factor does not divide: 4 and 0 differ"},
      {"aten.cartesian_prod.default", {Values{v, ids}}, "'x' is f32 and 'x' i64"},
      {"aten.cartesian_prod.default", {Values{m}}, "'x' has 2 dimensions, not 1"},
      {"aten.lerp.Scalar", {m, In(DType::kInt8, {3, 4}), 0.5}, "'x' is f32 and 'x' i8"},
      {"aten.masked_scatter.default", {In(boolean, {3}), In(boolean, {3}), In({3})}, "'x' is bool and 'x' f32"},
      {"aten.masked_fill.Scalar", {m, m, 0.5}, "'x' is f32, not a mask"},
      {"aten.dist.default", {In({5}), In({3})}, "sizes do not broadcast: 5 and 3 differ"},
      {"aten.topk.default", {m, 5}, "k is larger than the size"},
      {"aten.kthvalue.default", {m, 5}, "k is out of range"},
      {"aten.index.Tensor", {m, Values{v}}, "'x' is f32, which is no index"},
      {"aten.index_put.default", {m, Values{ids}, In({2, 4})}, "the values: 2 and 3 differ"},
      {"aten.bincount.default", {In(i64, {})}, "'x' has 0 dimensions, not 1"},
      {"aten.fill.Tensor", {m, In({1})}, "'x' has 1 dimensions, not 0"},
      {"aten.fill_.Tensor", {m, In({3, 4})}, "'x' has 2 dimensions, not 0"},
      {"aten.masked_fill.Tensor", {m, In(boolean, {3, 4}), In({1})}, "'x' has 1 dimensions, not 0"},
      {"aten.index_fill.int_Tensor", {m, 0, ids, In({1})}, "'x' has 1 dimensions, not 0"},
      {"aten.index_fill.int_Scalar", {m, 0, v, 1.0}, "'x' is f32, not an index"},
      {"aten.index_fill.int_Scalar", {m, 0, In(i64, {3, 1}), 1.0}, "the indices are no list"},
      {"aten.index_add.default", {m, 0, ids, In({3, 5})}, "sizes of a slice: 5 and 4 differ"},
      {"aten.index_copy.default", {m, 1, ids, m}, "indices and slices: 4 and 3 differ"},
      {"aten.index_reduce.default", {m, 0, ids, In(f16, {3, 4}), "prod"}, "'x' is f32 and 'x' f16"},
      {"aten.index_add.default", {In({}), 0, In(i64, {1}), In({})}, ""},
      {"aten.index_copy.default", {v, 0, In(i64, {}), In({1})}, ""},
      {"aten.put.default", {m, ids, v}, "indices and values: 4 and 3 differ"},
      {"aten.take.default", {m, v}, "'x' is f32, not an index"},
      {"aten.take_along_dim.default", {v, v, 0}, "'x' is f32, not an index"},
      {"aten.masked_select.default", {v, In(boolean, {3})}, "sizes do not broadcast: 4 and 3 differ"},
      {"aten.where.self", {m, m, m}, "'x' is f32, not a condition"},
      {"aten.copy_.default", {v, In({1, 4})}, "the second tensor: 2 dimensions do not expand to 1"},
      {"aten.bernoulli.Tensor", {v, In({3})}, "the second tensor: 3 and 4 differ"},
      {"aten.add_.Tensor", {v, m}, "writes f32[3,4] into f32[4]"},
      {"aten.masked_fill_.Scalar", {v, In(boolean, {3, 4}), 0.5}, "writes f32[3,4] into f32[4]"},
      {"aten.add_.Tensor", {m, v}, ""},
      {"aten.squeeze_.dim", {In({1, 4}), 0}, ""},
      {"aten.fake_quantize_per_channel_affine.default",
       {m, In({4}), In(DType::kInt32, {4}), 0, 0, 255},
       "scales and slices: 4 and 3 differ"},
      {"aten.searchsorted.Tensor", {m, In({2, 5})}, "lists of boundaries and rows: 3 and 2 differ"},
      {"aten.searchsorted.Tensor", {m, v}, "neither a list of boundaries nor one for each row"},
      {"aten.bucketize.Tensor", {v, m}, "'x' has 2 dimensions, not 1"},
      {"aten.bucketize.Scalar", {1.0, m}, "'x' has 2 dimensions, not 1"},
      {"aten.searchsorted.Scalar", {m, 1.0}, "'x' has 2 dimensions, not 1"},
      {"aten.one_hot.default", {v, 4}, "'x' is f32, not of classes"},
      {"aten.histc.default", {v, 0}, "the number of bins is not positive"},
      {"aten.gather.default", {m, 0, ids}, "the tensor and the indices differ in rank"},
      {"aten.scatter.src", {m, 0, In(i64, {2, 5}), In({2, 5})}, "more indices than the size"},
      {"aten.scatter_add.default", {m, 0, In(i64, {2, 4}), In(f16, {2, 4})}, "'x' is f32 and 'x' f16"},
      {"aten.index_select.default", {m, 0, v}, "'x' is f32, not an index"},
      {"aten.embedding.default", {m, v}, "'x' is f32, not an index"},
      {"aten.embedding_bag.padding_idx",
       {m, In(i64, {7}), In(i64, {2}), false, 0, false, In({5}), false, None{}},
       "a weight for each index: 5 and 7 differ"},
      {"aten.histogram.bins_tensor", {v, In({})}, "'x' has 0 dimensions, not 1"},
      {"aten.histogramdd.TensorList_bins", {m, Values{v, v, v, m}}, "'x' has 2 dimensions, not 1"},
  };
  for (const auto& c : cases) {
    const std::string said = std::regex_replace(Types(c.op, c.args), std::regex("'x_[0-9]+'"), "'x'");
    if (c.why.empty())
      EXPECT_EQ(said.find(": "), std::string::npos) << said;
    else
      EXPECT_EQ(said, std::string(c.op) + ": " + std::string(c.why));
  }
}

// What a rule needs and cannot prove is recorded with its node; what holds is not, and what cannot hold is an error.
TEST_F(Shapes, RecordsWhatItNeeds) {
  auto needed = [&] {
    std::string text;
    for (const ShapeConstraint& c : ConstraintsOf(p))
      text += std::string(c.node->op().base) + ": " + c.condition.ToString() + "\n";
    return text;
  };
  Value *x = In({s0, 8}), *y = In({s1, 8});
  EXPECT_EQ(Types("aten.add.Tensor", {x, x}), "f32[s0,8]");
  EXPECT_EQ(needed(), "") << "equal sizes need nothing";
  EXPECT_EQ(Types("aten.add.Tensor", {x, y}), "f32[s0,8]");
  EXPECT_EQ(Types("aten.cat.default", {Values{x, y}, 1}), "f32[s0,16]");
  EXPECT_EQ(Types("aten.mm.default", {In({4, s0}), y}), "f32[4,8]");
  EXPECT_EQ(Types("aten.view.default", {x, SymInts{-1, 16}}), "f32[s0//2,16]");
  EXPECT_EQ(Types("aten.max_pool2d.default", {In({1, 1, s0, 8}), Ints{3, 3}}), "f32[1,1,s0//3,2]");
  EXPECT_EQ(needed(),
            "add: Eq(s0, s1)\ncat: Eq(s0, s1)\nmm: Eq(s0, s1)\nview: Eq(8*Mod(s0, 2), 0)\nmax_pool2d: s0//3 >= 1\n");
  EXPECT_EQ(Types("aten.add.Tensor", {x, In({s0, 7})}), "aten.add.Tensor: sizes do not broadcast: 8 and 7 differ");
  EXPECT_EQ(Types("aten.add.Tensor", {x, In({s0 + 1, 8})}),
            "aten.add.Tensor: sizes do not broadcast: s0 and s0 + 1 differ");
}

}  // namespace
}  // namespace slipway::ir
