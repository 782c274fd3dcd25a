// Chains give what their operations give one by one: random programs with and without fusion. Which steps become chains
// is in tests/golden/fuse_chains.sw.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/text.h"
#include "ir/text.h"
#include "planner/planner.h"
#include "planner/runner.h"

namespace slipway::planner {
namespace {

std::unique_ptr<ir::Program> Parse(std::string_view graphs) {
  auto archive = ir::Parse(text::StrCat("slipway.ir 1\nform functional\n", graphs));
  EXPECT_TRUE(archive.ok()) << archive.status() << graphs;
  return archive.ok() ? std::move(archive->programs[0]) : nullptr;
}

PlannedProgram Plan(std::string_view graphs, bool fuse) {
  auto p = Parse(graphs);
  PlanOptions options;
  options.fuse = fuse;
  auto planned = LegalizeAndPlan(*p, options);
  EXPECT_TRUE(planned.ok()) << planned.status() << graphs;
  return planned.ok() ? *std::move(planned) : PlannedProgram();
}

std::vector<std::string> RunPlan(PlannedProgram p, absl::Span<const ir::TensorRef> inputs) {
  Runner runner(std::move(p));
  auto out = runner.Run(inputs);
  EXPECT_TRUE(out.ok()) << out.status();
  std::vector<std::string> bytes;
  if (out.ok())
    for (const ir::TensorRef& t : *out) bytes.push_back(*ir::ReadDense(t));
  return bytes;
}

struct Type {
  const char* name;
  ir::DType dtype;
  int rank;  // within promotion
  bool real;
};
constexpr Type kTypes[] = {{"bool", ir::DType::kBool, 0, false},  {"u8", ir::DType::kUInt8, 1, false},
                           {"i32", ir::DType::kInt32, 2, false},  {"i64", ir::DType::kInt64, 3, false},
                           {"f16", ir::DType::kFloat16, 4, true}, {"bf16", ir::DType::kBFloat16, 4, true},
                           {"f32", ir::DType::kFloat32, 5, true}, {"f64", ir::DType::kFloat64, 6, true}};
constexpr int kF32 = 6;

// A random program in the text form, with inputs for it.
struct Random {
  struct Value {
    std::string name;
    int type;
    std::vector<int64_t> sizes;
  };
  std::mt19937 random;
  std::vector<Value> values;
  std::string body;
  std::vector<ir::TensorRef> inputs;

  int Below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  std::string TypeOf(const Value& v) { return text::StrCat(kTypes[v.type].name, "[", text::Join(v.sizes, ","), "]"); }
  const Value& Any() { return values[std::max(0, static_cast<int>(values.size()) - 1 - Below(6))]; }

  Value& Add(int type, std::vector<int64_t> sizes, std::string_view op, std::string_view arguments) {
    Value v{text::StrCat("v", values.size()), type, std::move(sizes)};
    text::StrAppend(&body, "  %", v.name, ": ", TypeOf(v), " = ", op, "(", arguments, ")\n");
    values.push_back(std::move(v));
    return values.back();
  }
  static bool Broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b, std::vector<int64_t>* out) {
    out->assign(std::max(a.size(), b.size()), 1);
    for (const auto* s : {&a, &b})
      for (size_t d = 0; d < s->size(); ++d) {
        int64_t& size = (*out)[out->size() - s->size() + d];
        if (size == 1)
          size = (*s)[d];
        else if ((*s)[d] != 1 && (*s)[d] != size)
          return false;
      }
    return true;
  }
  static int Promote(int a, int b) {
    if (kTypes[a].rank == 4 && kTypes[b].rank == 4 && a != b) return kF32;
    return kTypes[a].rank >= kTypes[b].rank ? a : b;
  }

  void Input(std::vector<int64_t> sizes) {
    Value v{text::StrCat("v", values.size()), Below(2) ? kF32 : Below(8), std::move(sizes)};
    int64_t n = 1;
    for (int64_t s : v.sizes) n *= s;
    std::vector<float> numbers;
    for (int64_t i = 0; i < n; ++i) {
      const float x = static_cast<float>(Below(2001) - 1000) / 128;
      numbers.push_back(v.type == 0 ? static_cast<float>(x > 0) : v.type == 1 ? std::abs(x) : x);
    }
    auto p = Parse(text::StrCat("graph main(%x: f32[", n, "]) {\n  %y: ", kTypes[v.type].name, "[", n,
                                "] = aten._to_copy.default(self=%x, dtype=", kTypes[v.type].name, ")\n  return %y\n}"));
    auto x =
        ir::OwnedTensor(ir::DType::kFloat32, {n},
                        std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)));
    auto out = PlanEvaluator().Evaluate(std::move(p), {x});
    ASSERT_TRUE(out.ok()) << out.status();
    inputs.push_back(ir::OwnedTensor(kTypes[v.type].dtype, v.sizes, *ir::ReadDense((*out)[0])));
    values.push_back(std::move(v));
  }

  void Step() {
    const Value x = Any();
    auto arg = [](const Value& v, std::string_view name) { return text::StrCat(name, "=%", v.name); };
    const std::string self = arg(x, "self");
    const int rank = static_cast<int>(x.sizes.size());
    switch (Below(10)) {
      case 0: {
        constexpr const char* kOps[] = {"neg",  "exp", "tanh", "sigmoid", "relu",
                                        "gelu", "sin", "abs",  "rsqrt",   "logical_not"};
        const int k = Below(kTypes[x.type].real ? 10 : 1);
        if (x.type == 0 || k == 9) {
          Add(0, x.sizes, "aten.logical_not.default", self);
        } else {
          Add(x.type, x.sizes, text::StrCat("aten.", kOps[k], ".default"),
              text::StrCat(self, k == 5 ? ", approximate=\"none\"" : ""));
        }
        return;
      }
      case 1: {
        const int to = Below(8);
        Add(to, x.sizes, "aten._to_copy.default", text::StrCat(self, ", dtype=", kTypes[to].name));
        return;
      }
      case 2: {
        if (rank < 2) return;
        const int a = Below(rank), b = Below(rank);
        std::vector<int64_t> sizes = x.sizes;
        std::swap(sizes[a], sizes[b]);
        Add(x.type, sizes, "aten.transpose.int", text::StrCat(self, ", dim0=", a, ", dim1=", b));
        return;
      }
      case 3: {
        const int d = Below(rank);
        if (x.sizes[d] < 4) return;
        std::vector<int64_t> sizes = x.sizes;
        sizes[d] = x.sizes[d] / 2;
        Value low =
            Add(x.type, sizes, "aten.slice.Tensor", text::StrCat(self, ", dim=", d, ", start=0, end=", sizes[d]));
        Value high = Add(x.type, sizes, "aten.slice.Tensor",
                         text::StrCat(self, ", dim=", d, ", start=", sizes[d], ", end=", 2 * sizes[d]));
        if (x.type < 1) return;
        Value turned = Add(x.type, sizes, "aten.neg.default", arg(high, "self"));
        if (x.sizes[d] % 2 == 0)
          Add(x.type, x.sizes, "aten.cat.default",
              text::StrCat("tensors=[%", turned.name, ", %", low.name, "], dim=", d));
        else
          Add(x.type, x.sizes, "aten.slice_scatter.default",
              text::StrCat(self, ", ", arg(turned, "src"), ", dim=", d, ", start=0, end=", sizes[d]));
        return;
      }
      case 4: {
        if (x.type == 0) return;
        Add(x.type, x.sizes, "aten.clamp.default", text::StrCat(self, ", min=-1, max=3"));
        return;
      }
      default: {
        const Value y = Any();
        std::vector<int64_t> sizes;
        if (!Broadcast(x.sizes, y.sizes, &sizes)) return;
        const int type = Promote(x.type, y.type);
        const std::string both = text::StrCat(self, ", ", arg(y, "other"));
        switch (Below(6)) {
          case 0: Add(0, sizes, "aten.lt.Tensor", both); return;
          case 1: {
            const Value& c = values[Below(static_cast<int>(values.size()))];
            std::vector<int64_t> all;
            if (c.type != 0 || !Broadcast(sizes, c.sizes, &all)) return;
            Add(type, all, "aten.where.self", text::StrCat(arg(c, "condition"), ", ", both));
            return;
          }
          case 2:
            if (type == 0) return;
            Add(type, sizes, "aten.sub.Tensor", both + ", alpha=1");
            return;
          case 3: Add(type, sizes, "aten.mul.Tensor", both); return;
          default: Add(type, sizes, "aten.add.Tensor", both + ", alpha=1"); return;
        }
      }
    }
  }

  std::string Program() {
    std::string inputs_text;
    for (size_t i = 0; i < inputs.size(); ++i)
      text::StrAppend(&inputs_text, i ? ", " : "", "%", values[i].name, ": ", TypeOf(values[i]));
    std::string results = text::StrCat("%", values.back().name);
    for (size_t i = inputs.size(); i + 1 < values.size(); ++i)
      if (Below(8) == 0) text::StrAppend(&results, ", %", values[i].name);
    return text::StrCat("graph main(", inputs_text, ") {\n", body, "  return ", results, "\n}");
  }
};

TEST(FuseChains, GivesTheSameBits) {
  int before = 0, after = 0;
  for (int round = 0; round < 400; ++round) {
    Random r;
    r.random.seed(static_cast<unsigned>(round));
    const std::vector<int64_t> shapes[] = {{3, 4, 40}, {2, 700, 3}, {2, 1500}, {6, 8, 16}};
    const std::vector<int64_t> shape = shapes[r.Below(4)];
    for (int i = 0; i < 4; ++i) {
      std::vector<int64_t> sizes = shape;
      if (i > 1) {
        for (int64_t& s : sizes)
          if (r.Below(3) == 0) s = 1;
        sizes.erase(sizes.begin(), sizes.begin() + r.Below(static_cast<int>(sizes.size())));
      }
      r.Input(sizes);
    }
    for (int i = 0; i < 30; ++i) r.Step();
    const std::string program = r.Program();
    PlannedProgram one = Plan(program, false), fused = Plan(program, true);
    before += static_cast<int>(one.plan.steps.size());
    after += static_cast<int>(fused.plan.steps.size());
    const auto want = RunPlan(std::move(one), r.inputs), have = RunPlan(std::move(fused), r.inputs);
    ASSERT_EQ(want.size(), have.size()) << program;
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_TRUE(want[i] == have[i]) << "result " << i << " of round " << round << program;
  }
  EXPECT_LT(after, before * 2 / 3);
}

TEST(FuseChains, GivesTheSameBitsByThreads) {
  constexpr std::string_view kText = R"(
graph main(%x: f32[300,513], %y: bf16[513]) {
  %a: f32[300,513] = aten.mul.Tensor(self=%x, other=%y)
  %b: bf16[300,513] = aten._to_copy.default(self=%a, dtype=bf16)
  %c: bf16[300,513] = aten.tanh.default(self=%b)
  %d: f32[300,513] = aten.add.Tensor(self=%c, other=%x)
  %s: f32[300,513] = aten.softmax.int(self=%d, dim=1)
  %n: f32[300,513] = aten.layer_norm.default(input=%s, normalized_shape=[513])
  %m: f32[513] = aten.mean.dim(self=%n, dim=[0])
  %t: f32[513,300] = aten.t.default(self=%n)
  return %d, %n, %m, %t
})";
  std::mt19937 random(1);
  auto numbers = [&](ir::DType t, std::vector<int64_t> sizes, size_t bytes) {
    std::string data(bytes, 0);
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
      const float x = static_cast<float>(random() % 4001) / 1000 - 2;
      std::memcpy(data.data() + i, &x, 4);
    }
    return ir::OwnedTensor(t, std::move(sizes), std::move(data));
  };
  const std::vector<ir::TensorRef> inputs = {numbers(ir::DType::kFloat32, {300, 513}, 300 * 513 * 4),
                                             numbers(ir::DType::kBFloat16, {513}, 513 * 2)};
  const auto want = RunPlan(Plan(kText, false), inputs);
  for (int threads : {1, 2, 5}) {
    Runner runner(Plan(kText, true), {}, false, threads);
    auto out = runner.Run(inputs);
    ASSERT_TRUE(out.ok()) << out.status();
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(*ir::ReadDense((*out)[i]) == want[i]) << threads << " " << i;
  }
}

}  // namespace
}  // namespace slipway::planner
