// Recognised weights and norms as plans: which products take the integers of their weights, which do not, and that the
// numbers stay what the program's steps give.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "plan_names.h"
#include "planner/evaluator.h"
#include "planner/pack_weights.h"
#include "planner/planner.h"

namespace slipway::planner {
namespace {

// $q is 0..9, $s positive, $z small integers.
std::unique_ptr<ir::Program> Parse(std::string_view body, std::string_view dtype = "f32") {
  auto archive = ir::Parse(text::StrCat(R"(slipway.ir 1
form functional
dims { B = 1..64 positive }
weights {
  $q: i8[40,64] @ random(seed=3)
  $u: u8[40,64] @ random(seed=4)
  $t: i8[64,40] @ random(seed=5)
  $s: f32[40,4] @ random(seed=6)
  $h: bf16[40,4] @ random(seed=6)
  $z: i8[40,4] @ random(seed=7)
  $l: i64[40] @ random(seed=8)
  $r: f32[40] @ random(seed=9)
  $k: f16[64] @ random(seed=10)
}
graph main(%q: i8[40,64] = buffer $q, %u: u8[40,64] = buffer $u, %t: i8[64,40] = buffer $t, %s: f32[40,4] = buffer $s,
    %h: bf16[40,4] = buffer $h, %z: i8[40,4] = buffer $z, %l: i64[40] = buffer $l, %r: f32[40] = buffer $r,
    %k: f16[64] = buffer $k, %x: )",
                                        dtype, "[B,64]) {\n", body, "}"));
  EXPECT_TRUE(archive.ok()) << archive.status();
  return archive.ok() ? std::move(archive->programs[0]) : nullptr;
}

void Recognize(ir::Program& p) {
  for (auto pass : {passes::RecognizeQuantization, passes::RecognizeNorms, passes::FormQuantizedLinears}) {
    ASSERT_TRUE(pass(p).ok()) << pass(p);
    ASSERT_TRUE(ir::Verify(p).ok()) << ir::Verify(p);
  }
}

std::string Kernels(std::string_view body, std::string_view dtype = "f32") {
  auto p = Parse(body, dtype);
  Recognize(*p);
  auto planned = LegalizeAndPlan(*p);
  EXPECT_TRUE(planned.ok()) << planned.status();
  return KernelNames(planned->plan);
}

// As what the weights are packed, by name.
std::string Packings(std::string_view body, std::string_view dtype = "f32") {
  auto p = Parse(body, dtype);
  Recognize(*p);
  auto planned = LegalizeAndPlan(*p);
  EXPECT_TRUE(planned.ok()) << planned.status();
  ChooseWeightsToPack(*planned);
  std::string out;
  for (const auto& w : planned->weights)
    if (w.packed) text::StrAppend(&out, out.empty() ? "" : " ", w.name, static_cast<int>(w.packed->packing));
  return out;
}

// The results of the program's own steps and of what is recognised are near each other.
void ExpectSame(std::string_view body, ir::DType dtype = ir::DType::kFloat32, double precision = 1e-5) {
  for (int64_t rows : {1, 5, 40}) {
    std::vector<double> results[2];
    for (bool recognize : {false, true}) {
      auto p = Parse(body, ir::Name(dtype));
      if (recognize) Recognize(*p);
      std::string bytes;
      for (int64_t i = 0; i < rows * 64; ++i) {
        const float f = std::sin(static_cast<float>(i));
        char element[4];
        std::memcpy(element, &f, 4);
        const size_t size = static_cast<size_t>(ir::ByteSize(dtype));  // of bf16: the upper half
        bytes.append(element + 4 - size, size);
      }
      auto out = PlanEvaluator().Evaluate(std::move(p), {ir::OwnedTensor(dtype, {rows, 64}, std::move(bytes))});
      ASSERT_TRUE(out.ok()) << out.status();
      auto wide = ir::ReadDense((*out)[0]);
      ASSERT_TRUE(wide.ok());
      for (size_t i = 0; i < wide->size(); i += static_cast<size_t>(ir::ByteSize(dtype))) {
        const size_t size = static_cast<size_t>(ir::ByteSize(dtype));
        char element[4] = {};
        std::memcpy(element + 4 - size, wide->data() + i, size);
        float f;
        std::memcpy(&f, element, 4);
        results[recognize].push_back(static_cast<double>(f));
      }
    }
    ASSERT_EQ(results[0].size(), results[1].size());
    for (size_t i = 0; i < results[0].size(); ++i)
      ASSERT_NEAR(results[1][i], results[0][i], precision * (60 + std::fabs(results[0][i])))
          << rows << " rows, at " << i << "\n"
          << body;
  }
}

TEST(RecognizeQuantization, GroupsWithZeroPoints) {
  constexpr std::string_view kBody = R"(
  %q3: i8[40,4,16] = aten.view.default(self=%q, size=[40, 4, 16])
  %s3: f32[40,4,1] = aten.view.default(self=%s, size=[40, 4, 1])
  %z3: i8[40,4,1] = aten.view.default(self=%z, size=[40, 4, 1])
  %f: f32[40,4,16] = aten._to_copy.default(self=%q3, dtype=f32)
  %g: f32[40,4,1] = aten._to_copy.default(self=%z3, dtype=f32)
  %d: f32[40,4,16] = aten.sub.Tensor(self=%f, other=%g)
  %m: f32[40,4,16] = aten.mul.Tensor(self=%d, other=%s3)
  %w: f32[40,64] = aten.view.default(self=%m, size=[40, 64])
  %y: f32[B,40] = aten.linear.default(input=%x, weight=%w, bias=%r)
  return %y
)";
  EXPECT_EQ(Kernels(kBody), "quant_linear");
  EXPECT_EQ(Packings(kBody), "q4 s1 z1");
  ExpectSame(kBody);
}

TEST(RecognizeQuantization, ZeroPointsBehindTheScale) {
  for (std::string_view type : {"f32", "bf16"}) {
    const std::string_view scale = type == "f32" ? "%s3" : "%h3";
    const std::string body = text::StrCat(R"(
  %s3: f32[40,4,1] = aten.view.default(self=%s, size=[40, 4, 1])
  %q3: i8[40,4,16] = aten.view.default(self=%q, size=[40, 4, 16])
  %h3: bf16[40,4,1] = aten.view.default(self=%h, size=[40, 4, 1])
  %c: )",
                                          type, R"([40,4,1] = aten._to_copy.default(self=%h3, dtype=)", type, R"()
  %f: )",
                                          type, R"([40,4,16] = aten._to_copy.default(self=%q3, dtype=)", type, R"()
  %d: )",
                                          type, R"([40,4,16] = aten.sub.Tensor(self=%f, other=8)
  %m: )",
                                          type, R"([40,4,16] = aten.mul.Tensor(self=%d, other=)", scale, R"()
  %a: )",
                                          type, R"([40,4,16] = aten.add.Tensor(self=%m, other=%c)
  %w: )",
                                          type, R"([40,64] = aten.view.default(self=%a, size=[40, 64])
  %y: )",
                                          type, R"([B,40] = aten.linear.default(input=%x, weight=%w)
  return %y
)");
    EXPECT_EQ(Kernels(body, type), "quant_linear");
    type == "f32" ? ExpectSame(body) : ExpectSame(body, ir::DType::kBFloat16, 1e-2);
  }
}

TEST(RecognizeQuantization, OperatorsOfTorchao) {
  constexpr std::string_view kBody = R"(
  %w: f32[40,64] = torchao.dequantize_affine.default(input=%q, block_size=[1, 16], scale=%s, zero_point=%z, )"
                                     R"(input_dtype=i8, quant_min=-8, quant_max=7)
  %y: f32[B,40] = aten.linear.default(input=%x, weight=%w)
  return %y
)";
  EXPECT_EQ(Kernels(kBody), "quant_linear");
  ExpectSame(kBody);
}

TEST(RecognizeQuantization, ChannelsWithZeroPointsOfAnyType) {
  constexpr std::string_view kBody = R"(
  %w: f32[40,64] = quantized_decomposed.dequantize_per_channel.default(input=%u, scales=%r, zero_points=%l, )"
                                     R"(axis=0, quant_min=0, quant_max=255, dtype=u8)
  %p: f32[64,40] = aten.permute.default(self=%w, dims=[1, 0])
  %y: f32[B,40] = aten.addmm.default(self=%r, mat1=%x, mat2=%p)
  return %y
)";
  EXPECT_EQ(Kernels(kBody), "quant_linear");
  EXPECT_EQ(Packings(kBody), "u4");
  ExpectSame(kBody);
}

TEST(RecognizeQuantization, ScalesBehindTheProduct) {
  constexpr std::string_view kBody = R"(
  %f: f32[64,40] = aten._to_copy.default(self=%t, dtype=f32)
  %m: f32[B,40] = aten.mm.default(self=%x, mat2=%f)
  %y: f32[B,40] = aten.mul.Tensor(self=%m, other=%r)
  return %y
)";
  EXPECT_EQ(Kernels(kBody), "quant_linear");
  EXPECT_EQ(Packings(kBody), "t4 r1");
  ExpectSame(kBody);
}

// In bf16 each weight is rounded as the program says; only the order of sums differs.
TEST(RecognizeQuantization, WeightsOfBFloat16) {
  constexpr std::string_view kBody = R"(
  %w: bf16[40,64] = torchao.dequantize_affine.default(input=%q, block_size=[1, 16], scale=%h, zero_point=%z, )"
                                     R"(input_dtype=i8, quant_min=-8, quant_max=7, output_dtype=bf16)
  %y: bf16[B,40] = aten.linear.default(input=%x, weight=%w)
  return %y
)";
  EXPECT_EQ(Kernels(kBody, "bf16"), "quant_linear");
  EXPECT_EQ(Packings(kBody, "bf16"), "q4 h1 z1");
  ExpectSame(kBody, ir::DType::kBFloat16, 4e-3);
  // A scale of f32 counts as bf16 there.
  constexpr std::string_view kWide = R"(
  %w: bf16[40,64] = torchao.dequantize_affine.default(input=%q, block_size=[1, 16], scale=%s, zero_point=%z, )"
                                     R"(input_dtype=i8, quant_min=-8, quant_max=7, output_dtype=bf16)
  %y: bf16[B,40] = aten.linear.default(input=%x, weight=%w)
  return %y
)";
  EXPECT_EQ(Kernels(kWide, "bf16"), "quant_linear");
  ExpectSame(kWide, ir::DType::kBFloat16, 4e-3);
}

// Folding makes numbers of zero points and scales that are all the same.
TEST(RecognizeQuantization, NumbersInsteadOfTensors) {
  for (std::string_view zero : {"0.0", "5.0", "0.5"})
    for (std::string_view scale : {"1.0", "0.125"}) {
      const std::string body = text::StrCat(R"(
  %f: f32[40,64] = aten._to_copy.default(self=%q, dtype=f32)
  %g: f32[40,1] = aten.full.default(size=[40, 1], fill_value=)",
                                            zero, R"()
  %h1: f32[40,1] = aten.full.default(size=[40, 1], fill_value=)",
                                            scale, R"()
  %d: f32[40,64] = aten.sub.Tensor(self=%f, other=%g)
  %m: f32[40,64] = aten.mul.Tensor(self=%d, other=%h1)
  %y: f32[B,40] = aten.linear.default(input=%x, weight=%m)
  return %y
)");
      EXPECT_EQ(Kernels(body), "quant_linear") << body;
      ExpectSame(body);
    }
}

TEST(RecognizeQuantization, AWeightForTwo) {
  constexpr std::string_view kBody = R"(
  %f: f32[64,40] = aten._to_copy.default(self=%t, dtype=f32)
  %a: f32[B,40] = aten.mm.default(self=%x, mat2=%f)
  %n: f32[B,64] = aten.neg.default(self=%x)
  %b: f32[B,40] = aten.mm.default(self=%n, mat2=%f)
  return %a, %b
)";
  EXPECT_EQ(Kernels(kBody), "quant_linear neg quant_linear");
}

TEST(RecognizeQuantization, WhatIsNoSuchWeightStays) {
  // The floats are a result, too.
  EXPECT_EQ(Kernels(R"(
  %f: f32[64,40] = aten._to_copy.default(self=%t, dtype=f32)
  %y: f32[B,40] = aten.mm.default(self=%x, mat2=%f)
  return %y, %f
)"),
            "copy matmul");
  // A function in between.
  EXPECT_EQ(Kernels(R"(
  %f: f32[64,40] = aten._to_copy.default(self=%t, dtype=f32)
  %g: f32[64,40] = aten.sin.default(self=%f)
  %y: f32[B,40] = aten.mm.default(self=%x, mat2=%g)
  return %y
)")
                .find("quant"),
            std::string::npos);
  // A difference that wraps.
  EXPECT_EQ(Kernels(R"(
  %d: i8[64,40] = aten.sub.Tensor(self=%t, other=%t)
  %f: f32[64,40] = aten._to_copy.default(self=%d, dtype=f32)
  %y: f32[B,40] = aten.mm.default(self=%x, mat2=%f)
  return %y
)")
                .find("quant"),
            std::string::npos);
  // A scale by row of the product's matrix.
  EXPECT_EQ(Kernels(R"(
  %f: f32[40,64] = aten._to_copy.default(self=%q, dtype=f32)
  %e: f32[1,64] = aten.slice.Tensor(self=%f, dim=0, start=0, end=1)
  %m: f32[40,64] = aten.mul.Tensor(self=%f, other=%e)
  %y: f32[B,40] = aten.linear.default(input=%x, weight=%m)
  return %y
)")
                .find("quant"),
            std::string::npos);
}

// The arithmetic that quantization.h states, of operators that nothing in this test's programs writes.
TEST(Quantization, InSteps) {
  auto evaluate = [](std::string_view type, std::string_view node) {
    auto archive = ir::Parse(text::StrCat(R"(slipway.ir 1
form functional
weights {
  $q: u8[2,4] @ base64("AAEHCAkOD4A=")
  $s: f32[2,2] @ base64("AACAPgAAAD8AAIA/AAAAQA==")
  $z: f32[2,2] @ base64("AACAPwAAAEAAAEBAAACAQA==")
  $x: f32[4] @ base64("AAAgQAAAYEAAAKDAAAB6Qw==")
}
graph main(%q: u8[2,4] = buffer $q, %s: f32[2,2] = buffer $s, %z: f32[2,2] = buffer $z, %x: f32[4] = buffer $x) {
  %one: f64[] = aten.full.default(size=[], fill_value=1.0, dtype=f64)
  %y: )",
                                          type, " = ", node, "\n  return %y\n}"));
    EXPECT_TRUE(archive.ok()) << archive.status();
    auto out = PlanEvaluator().Evaluate(std::move(archive->programs[0]), {});
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? *ir::ReadDense((*out)[0]) : "";
  };
  const auto floats = [](std::vector<float> v) {
    return std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
  };
  // Zero points are added behind the scale, of integers around the middle of their range.
  EXPECT_EQ(evaluate("f32[2,4]",
                     "slipway.dequantize.default(input=%q, scale=%s, zero_point=%z, block_size=[1, 2], arithmetic=f32, "
                     "dtype=f32, quant_min=0, quant_max=15, zero_point_domain=\"float\")"),
            floats({-1, -0.75, 1.5, 2, 4, 9, 18, 244}));
  EXPECT_EQ(evaluate("f32[2,4]",
                     "slipway.dequantize.default(input=%q, scale=%s, zero_point=%z, block_size=[1, 2], arithmetic=f32, "
                     "dtype=f32)"),
            floats({-0.25, 0, 2.5, 3, 6, 11, 22, 248}));
  // To even, then within the range.
  EXPECT_EQ(evaluate("i8[4]",
                     "slipway.quantize.default(input=%x, scale=%one, zero_point=None, block_size=[-1], arithmetic=f32, "
                     "dtype=i8, quant_min=-4, quant_max=100)"),
            std::string("\x02\x04\xfc\x64"));
}

TEST(RecognizeNorms, WrittenOut) {
  constexpr std::string_view kBody = R"(
  %q2: f32[B,64] = aten.pow.Tensor_Scalar(self=%x, exponent=2)
  %m: f32[B,1] = aten.mean.dim(self=%q2, dim=[-1], keepdim=true)
  %e: f32[B,1] = aten.add.Tensor(self=%m, other=1e-6)
  %f: f32[B,1] = aten.rsqrt.default(self=%e)
  %y: f32[B,64] = aten.mul.Tensor(self=%x, other=%f)
  %w: f32[64] = aten._to_copy.default(self=%k, dtype=f32)
  %g: f32[B,64] = aten.mul.Tensor(self=%w, other=%y)
  return %g
)";
  EXPECT_EQ(Kernels(kBody), "copy rms_norm");
  ExpectSame(kBody, ir::DType::kFloat32, 2e-7);
}

}  // namespace
}  // namespace slipway::planner
