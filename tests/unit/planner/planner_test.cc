// The planner's evaluator on programs in the text form: known numbers, and what it refuses.
#include "planner/evaluator.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "ir/text.h"
#include "kernels/registry.h"
#include "passes/pass.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

std::unique_ptr<ir::Program> Parse(std::string_view graphs) {
  auto archive = ir::Parse(text::StrCat("slipway.ir 1\nform functional\n", graphs));
  EXPECT_TRUE(archive.ok()) << archive.status();
  return archive.ok() ? std::move(archive->programs[0]) : nullptr;
}

template <typename T>
ir::TensorRef Tensor(ir::DType dtype, std::vector<int64_t> sizes, std::vector<T> data) {
  return ir::OwnedTensor(dtype, std::move(sizes),
                         std::string(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(T)));
}
template <typename T>
std::vector<T> Numbers(const ir::TensorRef& t) {
  std::string bytes = *ir::ReadDense(t);
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(Rows, NameKnownOperatorsAndKernels) {
  for (auto table : {ElementwisePlans(), ViewPlans(), CreationPlans(), DataPlans(), ReductionPlans(), ProductPlans(),
                     ControlPlans(), NnPlans(), RecurrentPlans(), OrderPlans(), QuantPlans()}) {
    for (const PlanFamily& f : table) {
      if (!f.kernel.empty() && f.kernel != "argsort" && f.kernel != "nanmedian" && f.kernel != "nansum" &&
          f.kernel != "nanmean" && f.kernel != "diag" && f.kernel != "diagflat") {
        EXPECT_NE(kernels::FindKernel(f.kernel), nullptr) << f.kernel;
      }
      for (std::string_view name : text::Split(f.ops, ' ', true)) {
        std::string full = name[0] == '/' ? std::string(name.substr(1))
                                          : text::StrCat("aten.", name, text::Contains(name, ".") ? "" : ".default");
        EXPECT_NE(ir::FindOp(full), nullptr) << full;
      }
    }
  }
}

TEST(Evaluate, ViewsCostNothingAndResultsAreDense) {
  auto p = Parse(R"(
graph main(%x: f32[2,3]) {
  %t: f32[3,2] = aten.t.default(self=%x)
  %s: f32[2,2] = aten.slice.Tensor(self=%t, dim=0, start=0, end=3, step=2)
  %f: f32[2,2] = aten.flip.default(self=%s, dims=[0])
  %v: f32[4] = aten.view.default(self=%f, size=[4])
  return %f, %v
})");
  auto out = PlanEvaluator().Evaluate(std::move(p), {Tensor<float>(ir::DType::kFloat32, {2, 3}, {0, 1, 2, 3, 4, 5})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Numbers<float>((*out)[0]), (std::vector<float>{2, 5, 0, 3}));
  EXPECT_EQ(Numbers<float>((*out)[1]), (std::vector<float>{2, 5, 0, 3}));
  EXPECT_TRUE((*out)[0].is_contiguous());
}

TEST(Evaluate, SymbolsComeFromTheInputs) {
  constexpr std::string_view kText = R"(
dims { B = 2..8 positive }
graph main(%x: f32[B,2], %y: f32[B]) {
  %n: i64(B) = aten.sym_size.int(self=%x, dim=0)
  %z: f32[B] = aten.full.default(size=[%n], fill_value=3.0)
  %s: f32[B] = aten.sum.dim_IntList(self=%x, dim=[1])
  %a: f32[B] = aten.add.Tensor(self=%s, other=%z, alpha=2)
  return %a
})";
  auto x = Tensor<float>(ir::DType::kFloat32, {2, 2}, {1, 2, 3, 4}),
       y = Tensor<float>(ir::DType::kFloat32, {2}, {0, 0});
  auto out = PlanEvaluator().Evaluate(Parse(kText), {x, y});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Numbers<float>((*out)[0]), (std::vector<float>{9, 13}));
  auto wrong = Tensor<float>(ir::DType::kFloat32, {3}, {0, 0, 0});
  auto refused = PlanEvaluator().Evaluate(Parse(kText), {x, wrong});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(text::Contains(text::FromAbsl(refused.status().message()), "(y)")) << refused.status();
  EXPECT_FALSE(PlanEvaluator().Evaluate(Parse(kText), {x}).ok());
}

// Prepared once, run at several sizes; a value inside is observed by its name.
TEST(Evaluate, PreparesOnceAndObservesValues) {
  constexpr std::string_view kText = R"(
dims { B = 2..8 positive }
graph main(%x: f32[B,2]) {
  %s: f32[B] = aten.sum.dim_IntList(self=%x, dim=[1])
  %m: f32[B] = aten.mul.Tensor(self=%s, other=%s)
  return %m
})";
  PlanEvaluator evaluator;
  auto prepared = evaluator.Prepare(Parse(kText), {"s"});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  for (int64_t rows : {2, 3, 2}) {
    std::vector<float> x(rows * 2, 1.5f);
    auto out = (*prepared)->Run({Tensor<float>(ir::DType::kFloat32, {rows, 2}, x)});
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_EQ(out->size(), 2u);
    EXPECT_EQ(Numbers<float>((*out)[0]), std::vector<float>(rows, 9));
    EXPECT_EQ(Numbers<float>((*out)[1]), std::vector<float>(rows, 3));
  }
  EXPECT_EQ(evaluator.Prepare(Parse(kText), {"t"}).status().code(), absl::StatusCode::kNotFound);
}

// An input that is not dense, or lies badly for its dtype, is copied; a dense one is read where it lies.
TEST(Evaluate, ReadsInputsOfAnyLayout) {
  constexpr std::string_view kText = "graph main(%x: f32[2,3]) { %y: f32[2,3] = aten.neg.default(self=%x) return %y }";
  ir::TensorRef dense = Tensor<float>(ir::DType::kFloat32, {3, 2}, {1, 2, 3, 4, 5, 6});
  ir::TensorRef transposed = dense;
  transposed.sizes = {2, 3};
  transposed.strides = {1, 2};
  auto out = PlanEvaluator().Evaluate(Parse(kText), {transposed});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Numbers<float>((*out)[0]), (std::vector<float>{-1, -3, -5, -2, -4, -6}));
  EXPECT_EQ(Numbers<float>(dense), (std::vector<float>{1, 2, 3, 4, 5, 6})) << "inputs are not written";
}

TEST(Evaluate, DecomposesWhatHasNoRow) {
  auto p = Parse(R"(
graph main(%x: f32[2], %y: f32[2]) {
  %l: f32[] = aten.mse_loss.default(self=%x, target=%y)
  return %l
})");
  auto out = PlanEvaluator().Evaluate(
      std::move(p), {Tensor<float>(ir::DType::kFloat32, {2}, {1, 2}), Tensor<float>(ir::DType::kFloat32, {2}, {3, 5})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Numbers<float>((*out)[0]), (std::vector<float>{6.5}));
}

TEST(Evaluate, SaysWhatItCannot) {
  auto refused = [](std::string_view graphs, std::vector<ir::TensorRef> inputs, PlanOptions options = {}) {
    return PlanEvaluator(options).Evaluate(Parse(graphs), inputs).status();
  };
  absl::Status s =
      refused("graph main(%x: f32[2]) { %r: f32[2] = aten.dropout.default(input=%x, p=0.5, train=true) return %r }",
              {Tensor<float>(ir::DType::kFloat32, {2}, {1, 2})});
  EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(text::Contains(text::FromAbsl(s.message()), "aten.dropout")) << s;
  s = refused(
      "graph main(%x: f32[2], %i: i64[1]) { %r: f32[1] = aten.index_select.default(self=%x, dim=0, index=%i) return %r "
      "}",
      {Tensor<float>(ir::DType::kFloat32, {2}, {1, 2}), Tensor<int64_t>(ir::DType::kInt64, {1}, {2})});
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(text::Contains(text::FromAbsl(s.message()), "aten.index_select.default: index out of range")) << s;
  s = refused("graph main() { %z: f32[1000000] = aten.zeros.default(size=[1000000]) return %z }", {},
              {.memory_limit = 1000});
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
}

TEST(Evaluate, PartsOfASplitAddUp) {
  constexpr char kText[] = R"(
dims { A = 0..8 }
graph main(%x: f32[8], %n: i64(A)) {
  %p: f32[A], %q: f32[3] = aten.split_with_sizes.default(self=%x, split_sizes=[%n, 3])
  return %p, %q
})";
  const ir::TensorRef x = Tensor<float>(ir::DType::kFloat32, {8}, {0, 1, 2, 3, 4, 5, 6, 7});
  auto of = [&](int64_t n) {
    return PlanEvaluator().Evaluate(Parse(kText), {x, Tensor<int64_t>(ir::DType::kInt64, {}, {n})});
  };
  auto parts = of(5);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(Numbers<float>((*parts)[1]), (std::vector<float>{5, 6, 7}));
  EXPECT_EQ(of(4).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Evaluate, HostileSizesAreRefused) {
  auto refused = [](std::string_view graphs) {
    return PlanEvaluator().Evaluate(Parse(graphs), {Tensor<float>(ir::DType::kFloat32, {1, 1}, {1})}).status();
  };
  EXPECT_FALSE(refused(R"(graph main(%x: f32[1,1]) {
    %e: f32[4000000000,4000000000] = aten.expand.default(self=%x, size=[4000000000, 4000000000])
    %y: f32[] = aten.sum.default(self=%e)
    return %y
  })")
                   .ok());
  EXPECT_EQ(refused(R"(graph main(%x: f32[1,1]) {
    %a: f32[1,100000000] = aten.expand.default(self=%x, size=[1, 100000000])
    %b: f32[100000000,10000] = aten.expand.default(self=%x, size=[100000000, 10000])
    %y: f32[1,10000] = aten.mm.default(self=%a, mat2=%b)
    return %y
  })")
                .code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused(R"(graph main(%x: f32[1,1]) {
    %y: f32[0] = aten.diagonal.default(self=%x, offset=-9223372036854775807)
    return %y
  })")
                .code(),
            absl::StatusCode::kInvalidArgument);
}

// Folding: what the golden text does not show.
TEST(FoldConstants, WeightsThatAreReplacedPayForTheirResults) {
  auto count = [](std::string_view last) {
    auto p = Parse(text::StrCat(R"(
weights { $w: f32[4096] @ random(seed=3) }
graph main(%w: f32[4096] = buffer $w, %x: f32[4096]) {
  %e: f32[4096] = aten.exp.default(self=%w)
  %y: f32[4096] = aten.mul.Tensor(self=%x, other=%e)
  )",
                                last, "\n}"));
    PlanEvaluator evaluator;
    EXPECT_TRUE(passes::FoldConstants(*p, evaluator).ok());
    return p->graph->node_count();
  };
  EXPECT_EQ(count("return %y"), 1u);      // 16 KiB for 16 KiB
  EXPECT_EQ(count("return %y, %w"), 2u);  // the weight would stay beside its exponential
}

TEST(FoldConstants, ForSpeedWhatTakesLongerToComputeThanToRead) {
  auto count = [](const passes::FoldLimits& limits, std::string_view table) {
    auto p = Parse(text::StrCat(R"(
weights { $big: f32[300000] @ random(seed=4) }
graph main(%big: f32[300000] = buffer $big, %x: f32[300,300]) {
  %steps: i64[300] = aten.arange.default(end=300)
  %row: i64[1,300] = aten.unsqueeze.default(self=%steps, dim=0)
  %column: i64[300,1] = aten.unsqueeze.default(self=%steps, dim=1)
  %distance: i64[300,300] = aten.sub.Tensor(self=%row, other=%column)
)",
                                table, R"(
  %y: f32[300,300] = aten.add.Tensor(self=%x, other=%table)
  return %y, %big
})"));
    PlanEvaluator evaluator;
    EXPECT_TRUE(passes::FoldConstants(*p, evaluator, limits).ok());
    return p->graph->node_count();
  };
  constexpr std::string_view kMask = "  %table: f32[300,300] = aten._to_copy.default(self=%distance, dtype=f32)";
  constexpr std::string_view kBias = R"(
  %float: f32[300,300] = aten._to_copy.default(self=%distance, dtype=f32)
  %table: f32[300,300] = aten.softmax.int(self=%float, dim=1))";
  EXPECT_GT(count({}, kBias), 1u);
  EXPECT_EQ(count(passes::kFoldForSpeed, kBias), 1u);
  EXPECT_GT(count(passes::kFoldForSpeed, kMask), 1u);
}

TEST(FoldConstants, OneNodeThatCannotBeLeavesTheOthers) {
  auto p = Parse(R"(
graph main(%x: f32[2]) {
  %a: i64[2] = aten.arange.default(end=2)
  %five: i64[2] = aten.add.Tensor(self=%a, other=5)
  %bad: f32[2] = aten.index_select.default(self=%x, dim=0, index=%five)
  %one: i64[3] = aten.arange.start(start=1, end=4)
  %far: i64[3] = aten.index_select.default(self=%a, dim=0, index=%one)
  return %bad, %far, %five
})");
  PlanEvaluator evaluator;
  ASSERT_TRUE(passes::FoldConstants(*p, evaluator).ok());
  std::vector<std::string> left;
  for (const ir::Node* n : *p->graph) left.emplace_back(n->output()->name());
  EXPECT_EQ(left, (std::vector<std::string>{"a", "bad", "one", "far"}));
}

}  // namespace
}  // namespace slipway::planner
