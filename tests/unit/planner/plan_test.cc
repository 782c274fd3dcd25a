// Plans without a planner: expressions, memory, sizes known late, control flow, and what Executable::Make refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/executor/execute.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

TEST(Expressions, RoundAsTorchDoesAndNeverWrap) {
  auto of = [](Expr::Op op, int64_t a, int64_t b) {
    const Scalar values[] = {Scalar::Int(a), Scalar::Int(b)};
    const Scalar n = Evaluate({.op = op, .a = 0, .b = 1}, values, {});
    return n.known ? n.bits : -77;
  };
  EXPECT_EQ(of(Expr::kFloorDiv, -7, 2), -4);
  EXPECT_EQ(of(Expr::kCeilDiv, -7, 2), -3);
  EXPECT_EQ(of(Expr::kCeilDiv, 7, 2), 4);
  EXPECT_EQ(of(Expr::kMod, -7, 3), 2);
  EXPECT_EQ(of(Expr::kMod, 7, -3), -2);
  EXPECT_EQ(of(Expr::kPow, 3, 4), 81);
  EXPECT_EQ(of(Expr::kFloorDiv, 1, 0), -77);
  EXPECT_EQ(of(Expr::kFloorDiv, kMin, -1), -77);
  EXPECT_EQ(of(Expr::kAdd, kMax, 1), -77);
  EXPECT_EQ(of(Expr::kMul, kMax, 2), -77);
  EXPECT_EQ(of(Expr::kPow, 2, 63), -77);
}

TEST(Expressions, WhatIsNotChosenNeedNoValue) {
  const Scalar values[] = {Scalar::Int(0), Scalar{}, Scalar::Int(5)};
  EXPECT_EQ(Evaluate({.op = Expr::kSelect, .a = 0, .b = 1, .c = 2}, values, {}).bits, 5);
  EXPECT_EQ(Evaluate({.op = Expr::kMul, .a = 0, .b = 1}, values, {}).bits, 0);
  EXPECT_FALSE(Evaluate({.op = Expr::kAdd, .a = 0, .b = 1}, values, {}).known);
}

TEST(Arena, LiveBuffersNeverOverlap) {
  std::mt19937 random(7);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Arena arena;
  for (int round = 0; round < 300; ++round) {
    const int n = 1 + below(60);
    std::vector<Lifetime> lives(n);
    std::vector<int64_t> bytes(n), offsets(n);
    for (Lifetime& l : lives) l.first = below(40), l.last = l.first + below(12);
    std::sort(lives.begin(), lives.end(), [](auto& a, auto& b) { return a.first < b.first; });
    for (int64_t& b : bytes) b = below(4) == 0 ? 0 : below(5000);
    std::vector<int32_t> deaths(n);
    std::iota(deaths.begin(), deaths.end(), 0);
    std::stable_sort(deaths.begin(), deaths.end(), [&](int a, int b) { return lives[a].last < lives[b].last; });
    const int64_t total = arena.Place(lives, deaths, bytes, offsets);
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(offsets[i] % kAlignment, 0);
      EXPECT_LE(offsets[i] + bytes[i], total);
      for (int j = 0; j < i; ++j) {
        if (lives[i].first > lives[j].last || lives[j].first > lives[i].last || !bytes[i] || !bytes[j]) continue;
        EXPECT_TRUE(offsets[i] + bytes[i] <= offsets[j] || offsets[j] + bytes[j] <= offsets[i]) << round;
      }
    }
  }
}

TEST(Arena, ReusesWhatIsDead) {
  const Lifetime lives[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  const int32_t deaths[] = {0, 1, 2, 3};
  const int64_t bytes[] = {640, 640, 640, 640};
  int64_t offsets[4];
  EXPECT_EQ(Arena().Place(lives, deaths, bytes, offsets), 1280);
  const int64_t huge[] = {kMax, 1, 1, 1};
  EXPECT_EQ(Arena().Place(lives, deaths, huge, offsets), -1);
}

TEST(Arena, TheLargestFirstWhereThatTakesLess) {
  // A large one that finds no gap among small ones which came before it, and would lie behind them.
  const Lifetime lives[] = {{0, 1}, {0, 5}, {2, 3}, {4, 5}};
  const int32_t deaths[] = {0, 2, 1, 3};
  const int64_t bytes[] = {64, 64, 640, 1280};
  int64_t offsets[4];
  EXPECT_EQ(Arena().Place(lives, deaths, bytes, offsets), 1344);
}

// A plan by hand.
struct Made {
  Plan plan;
  int Add(Expr e) {
    plan.exprs.push_back(e);
    return static_cast<int>(plan.exprs.size()) - 1;
  }
  int Int(int64_t v) { return Add({.op = Expr::kInt, .value = v}); }
  int Sym(std::string name, int64_t min = 0, int64_t max = 100) {
    plan.symbols.push_back({std::move(name), min, max});
    return Add({.op = Expr::kSymbol, .value = static_cast<int64_t>(plan.symbols.size()) - 1});
  }
  int Times(int a, int b) { return Add({.op = Expr::kMul, .a = a, .b = b}); }
  int Buf(Buffer::Kind kind, int count, int size, int slot = 0) {
    plan.buffers.push_back({kind, Times(count, Int(size)), nullptr, slot});
    return static_cast<int>(plan.buffers.size()) - 1;
  }
  // Vectors of `count` elements.
  void View1(int buffer, DType t, int count, int offset = -1) {
    View v{buffer, t, 1, offset < 0 ? Int(0) : offset, static_cast<int>(plan.dims.size())};
    plan.dims.push_back(count), plan.dims.push_back(Int(1));
    plan.views.push_back(v);
  }
  void View0(int buffer, DType t) { plan.views.push_back({buffer, t, 0, Int(0), static_cast<int>(plan.dims.size())}); }
  Step& Kernel(std::string_view name, int in, int out, DType compute) {
    Step s;
    s.kernel = FindKernel(name);
    s.compute = compute;
    s.inputs = in, s.outputs = out;
    s.first_view = static_cast<int>(plan.views.size()) - in - out;
    s.first_number = static_cast<int>(plan.numbers.size());
    plan.steps.push_back(s);
    return plan.steps.back();
  }
};

template <typename T>
Tensor Of(std::vector<T>& v, DType t) {
  Tensor x;
  x.data = v.data();
  x.dtype = t;
  x.rank = 1;
  x.sizes[0] = static_cast<int64_t>(v.size());
  x.strides[0] = 1;
  return x;
}

// out = square(-x) for any n up to 100; -x and its square share memory.
Made Chain() {
  Made m;
  const int n = m.Sym("n", 1);
  m.plan.inputs.push_back({"x", Input::kTensor, DType::kF32, {n}, -1});
  m.plan.bindings.push_back({0, 0, 0, 1, 0});
  m.plan.outputs.push_back({DType::kF32, false, {n}});
  const int x = m.Buf(Buffer::kInput, n, 4), a = m.Buf(Buffer::kTemporary, n, 4), b = m.Buf(Buffer::kTemporary, n, 4),
            y = m.Buf(Buffer::kOutput, n, 4);
  m.plan.buffers[b].bytes = m.plan.buffers[a].bytes;
  for (auto [from, to, name] : {std::tuple(x, a, "neg"), std::tuple(a, b, "square"), std::tuple(b, y, "copy")}) {
    m.View1(from, DType::kF32, n), m.View1(to, DType::kF32, n);
    m.Kernel(name, 1, 1, DType::kF32);
  }
  for (View& v : m.plan.views) {  // one zero and one 1, as a planner that shares expressions makes
    v.offset = m.plan.views[0].offset;
    m.plan.dims[v.first_dim + 1] = m.plan.dims[1];
  }
  return m;
}

struct Result {
  std::vector<float> data;
  AllocateOutput into() {
    return [this](int32_t, const Tensor& shape) {
      data.assign(static_cast<size_t>(shape.numel()), -1);
      return data.data();
    };
  }
};

TEST(Execute, OnePlanServesAllSizes) {
  std::string why;
  auto e = Executable::Make(Chain().plan, &why);
  ASSERT_TRUE(e) << why;
  EXPECT_EQ(e->memory_of(2), 1);  // in place
  Context c(e);
  for (size_t n : {3, 3, 50, 1}) {
    std::vector<float> x(n);
    std::iota(x.begin(), x.end(), 1.f);
    const Tensor in[] = {Of(x, DType::kF32)};
    Result out;
    const Error f = c.Run(in, out.into());
    ASSERT_FALSE(f) << f.text;
    ASSERT_EQ(out.data.size(), n);
    EXPECT_EQ(out.data[n - 1], static_cast<float>(n * n));
  }
  EXPECT_EQ(c.memory(), 256u);  // of the largest: 50 floats, once
}

// The scratch memory that a kernel counts lies among the temporaries, away from what is alive meanwhile.
TEST(Execute, ScratchLiesAmongTemporaries) {
  static size_t takes;
  static constexpr int64_t kCounts = 1000;
  const kernels::Kernel probe = {.name = "probe",
                                 .run = [](const Call& c) -> const char* {
                                   const bool querying = c.scratch->querying();
                                   char* const at = c.scratch->Take<char>(!querying ? static_cast<int64_t>(takes)
                                                                          : c.in[0].sizes[0] == 7
                                                                              ? std::numeric_limits<int64_t>::max()
                                                                              : kCounts);
                                   if (querying) return nullptr;
                                   std::memset(at, 0x7f, takes);
                                   std::copy_n(c.in[0].as<float>(), c.in[0].numel(), c.out[0].as<float>());
                                   return nullptr;
                                 },
                                 .inputs = 1,
                                 .queries_workspace = true};
  Made m = Chain();
  m.plan.steps[1].kernel = &probe;
  std::string why;
  auto e = Executable::Make(m.plan, &why);
  ASSERT_TRUE(e) << why;
  auto run = [&](Context& c, size_t n) {
    std::vector<float> x(n);
    std::iota(x.begin(), x.end(), 1.f);
    const Tensor in[] = {Of(x, DType::kF32)};
    Result out;
    ASSERT_FALSE(c.Run(in, out.into()));
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(out.data[i], -x[i]);
  };
  Context c(e);
  takes = kCounts;
  run(c, 50);
  EXPECT_EQ(c.tensor_memory(), 2 * 256u);
  EXPECT_EQ(c.memory(), 2 * 256u + 1024u);
  const uint64_t little = c.unplanned_memory();  // of the elementwise ones
  takes = 1 << 20;                               // more than it said
  run(c, 50);
  EXPECT_LT(little, takes);
  EXPECT_GE(c.unplanned_memory(), takes);
  Context other(e);
  run(other, 7);  // what no memory holds is not placed
  EXPECT_EQ(other.memory(), 2 * 64u);
}

TEST(Execute, InputsAreCheckedAndMadeDense) {
  std::string why;
  Context c(Executable::Make(Chain().plan, &why));
  Result out;
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  Tensor strided = Of(x, DType::kF32);
  strided.sizes[0] = 3;
  strided.strides[0] = 2;
  ASSERT_FALSE(c.Run(std::vector<Tensor>{strided}, out.into()));
  EXPECT_EQ(out.data, (std::vector<float>{1, 9, 25}));
  auto refused = [&](Tensor t) { return c.Run(std::vector<Tensor>{t}, out.into()); };
  Tensor wrong = strided;
  wrong.dtype = DType::kI32;
  EXPECT_EQ(refused(wrong).kind, Error::kInput);
  wrong = strided;
  wrong.rank = 2;
  wrong.sizes[1] = 1;
  EXPECT_EQ(refused(wrong).kind, Error::kInput);
  wrong = strided;
  wrong.sizes[0] = 101;
  EXPECT_NE(refused(wrong).text.find("n = 101"), std::string::npos);
  wrong.sizes[0] = -1;
  EXPECT_EQ(refused(wrong).kind, Error::kInput);
  EXPECT_EQ(c.Run({}, out.into()).kind, Error::kInput);
  ASSERT_FALSE(refused(strided));
  Context small(Executable::Make(Chain().plan, &why), {.memory_limit = 64});
  wrong.sizes[0] = 100;
  wrong.strides[0] = 0;
  EXPECT_EQ(small.Run(std::vector<Tensor>{wrong}, out.into()).kind, Error::kMemory);
}

TEST(Execute, SizesMayDependOnData) {
  // k = x[0]; out = arange(k)
  Made m;
  const int k = m.Sym("k", 0, 5), one = m.Int(1);
  m.plan.inputs.push_back({"x", Input::kTensor, DType::kI64, {one}, -1});
  m.plan.outputs.push_back({DType::kF32, false, {k}});
  const int x = m.Buf(Buffer::kInput, one, 8), y = m.Buf(Buffer::kOutput, k, 4);
  m.View0(x, DType::kI64);
  Step publish;
  publish.kind = Step::kPublish;
  publish.inputs = 1;
  m.plan.steps.push_back(publish);
  m.View1(y, DType::kF32, k);
  Step& fill = m.Kernel("arange", 0, 1, DType::kF32);
  fill.ints = 2;
  m.plan.numbers = {m.Int(0), one};
  std::string why;
  auto e = Executable::Make(m.plan, &why);
  ASSERT_TRUE(e) << why;
  Context c(e);
  for (int64_t n : {4, 0, 5}) {
    std::vector<int64_t> in = {n};
    Result out;
    const Error f = c.Run(std::vector<Tensor>{Of(in, DType::kI64)}, out.into());
    ASSERT_FALSE(f) << f.text;
    ASSERT_EQ(out.data.size(), static_cast<size_t>(n));
  }
  std::vector<int64_t> in = {6};
  Result out;
  const Error f = c.Run(std::vector<Tensor>{Of(in, DType::kI64)}, out.into());
  EXPECT_EQ(f.kind, Error::kData);
  EXPECT_EQ(f.step, 0);
}

TEST(Execute, LoopsKeepWhatTheyUse) {
  // for (i = 0; i < n; ++i) out[i] = -x[i], with a temporary inside and one from before.
  Made m;
  const int n = m.Sym("n", 0), i = m.Sym("i"), one = m.Int(1), at = m.Times(i, m.Int(4));
  m.plan.inputs.push_back({"x", Input::kTensor, DType::kF32, {n}, -1});
  m.plan.bindings.push_back({0, 0, 0, 1, 0});
  m.plan.outputs.push_back({DType::kF32, false, {n}});
  const int x = m.Buf(Buffer::kInput, n, 4), copy = m.Buf(Buffer::kTemporary, n, 4), y = m.Buf(Buffer::kOutput, n, 4),
            inside = m.Buf(Buffer::kTemporary, one, 4), zero = m.Int(0);
  m.View1(x, DType::kF32, n), m.View1(copy, DType::kF32, n);
  m.Kernel("copy", 1, 1, DType::kF32);  // 0
  auto control = [&](Step::Kind kind, int symbol, int expr, int target) {
    Step s;
    s.kind = kind;
    s.symbol = symbol, s.expr = expr, s.target = target;
    m.plan.steps.push_back(s);
  };
  control(Step::kSet, 1, zero, 0);                                         // 1
  control(Step::kUnless, 0, m.Add({.op = Expr::kLt, .a = i, .b = n}), 7);  // 2
  m.View1(copy, DType::kF32, one, at), m.View1(inside, DType::kF32, one);
  m.Kernel("neg", 1, 1, DType::kF32);  // 3
  m.View1(inside, DType::kF32, one), m.View1(y, DType::kF32, one, at);
  m.Kernel("copy", 1, 1, DType::kF32);                                     // 4
  control(Step::kSet, 1, m.Add({.op = Expr::kAdd, .a = i, .b = one}), 0);  // 5
  control(Step::kJump, 0, zero, 2);                                        // 6
  std::string why;
  auto e = Executable::Make(m.plan, &why);
  ASSERT_TRUE(e) << why;
  EXPECT_EQ(e->lifetime(copy).last, 6);
  EXPECT_EQ(e->lifetime(inside).last, 4);
  Context c(e);
  std::vector<float> in = {1, 2, 3};
  Result out;
  const Error f = c.Run(std::vector<Tensor>{Of(in, DType::kF32)}, out.into());
  ASSERT_FALSE(f) << f.text;
  EXPECT_EQ(out.data, (std::vector<float>{-1, -2, -3}));
}

TEST(Execute, RefusesWhatIsMalformed) {
  std::string why;
  int refused = 0;
  auto expect = [&](auto spoil) {
    Made m = Chain();
    spoil(m.plan);
    why.clear();
    EXPECT_EQ(Executable::Make(m.plan, &why), nullptr) << refused;
    EXPECT_FALSE(why.empty());
    ++refused;
  };
  expect([](Plan& p) { p.steps[0].kernel = nullptr; });
  expect([](Plan& p) { p.steps[0].first_view = 99; });
  expect([](Plan& p) { p.steps[1].inputs = -1; });
  expect([](Plan& p) { p.steps[1].inputs = 0, p.steps[1].outputs = 2; });
  expect([](Plan& p) { p.steps[0].kind = static_cast<Step::Kind>(9); });
  expect([](Plan& p) {
    p.steps[2].kind = Step::kJump, p.steps[2].target = 9, p.steps[2].inputs = p.steps[2].outputs = 0;
  });
  expect([](Plan& p) { p.views[0].buffer = 4; });
  expect([](Plan& p) { p.views[0].rank = 17; });
  expect([](Plan& p) { p.views[1].buffer = 0; });  // writes an input
  expect([](Plan& p) { p.dims[0] = -1; });
  expect([](Plan& p) { p.exprs[1].op = Expr::kNot, p.exprs[1].a = 1; });
  expect([](Plan& p) { p.exprs[0].value = 1; });
  expect([](Plan& p) { p.buffers[3].slot = 1; });
  expect([](Plan& p) { p.buffers[3].kind = Buffer::kTemporary; });
  expect([](Plan& p) { p.bindings[0].dim = 1; });
  expect([](Plan& p) { p.bindings[0].scale = 0; });
  expect([](Plan& p) { p.inputs[0].kind = Input::kUnused, p.bindings[0].dim = -1; });
  expect([](Plan& p) { p.outputs[0].dtype = static_cast<DType>(77); });
  // What only sizes show is an error of the run.
  Made m = Chain();
  m.plan.exprs.push_back({.op = Expr::kInt, .value = 4});
  m.plan.views[2].offset = static_cast<int>(m.plan.exprs.size()) - 1;
  Context c(Executable::Make(m.plan, &why));
  std::vector<float> x = {1, 2};
  Result out;
  EXPECT_EQ(c.Run(std::vector<Tensor>{Of(x, DType::kF32)}, out.into()).kind, Error::kData);
}

TEST(Execute, ResultsHaveMemoryOfTheirOwn) {
  auto run = [](auto change, RunOptions options = {}) {
    Made m = Chain();
    change(m);
    std::string why;
    auto e = Executable::Make(m.plan, &why);
    EXPECT_TRUE(e) << why;
    Context c(e, options);
    std::vector<float> x = {1, 2, 3};
    Result out;
    std::vector<Tensor> inputs(m.plan.inputs.size());
    inputs[0] = Of(x, DType::kF32);
    Error f = c.Run(inputs, out.into());
    if (!f) {
      EXPECT_EQ(out.data, (std::vector<float>{1, 4, 9}));
    }
    return f.kind;
  };
  EXPECT_EQ(run([](Made&) {}), Error::kNone);
  // An elementwise result may be its operand, no other may.
  auto in_place = [](Made& m) { m.plan.views[3].buffer = m.plan.views[4].buffer = 1; };
  EXPECT_EQ(run(in_place), Error::kNone);
  EXPECT_EQ(run([&](Made& m) {
              in_place(m);
              m.plan.steps[1].kernel = FindKernel("cumsum");
            }),
            Error::kPlan);
  // Its elements neither.
  EXPECT_EQ(run([](Made& m) { m.plan.dims[m.plan.views[1].first_dim + 1] = m.Int(0); }), Error::kData);
  // A number that nothing depends on has none at all.
  EXPECT_EQ(run([](Made& m) {
              m.plan.inputs.push_back({"unused", Input::kUnused, DType::kF32, {}, -1});
              m.plan.views[0].buffer = m.Buf(Buffer::kInput, m.Int(1), 4, 1);
              m.plan.dims[m.plan.views[0].first_dim] = m.plan.dims[m.plan.views[1].first_dim] = m.Int(1);
            }),
            Error::kData);
  // Nor is an operand larger than memory, wherever its elements lie.
  EXPECT_EQ(run(
                [](Made& m) {
                  m.plan.dims[m.plan.views[0].first_dim] = m.Int(int64_t{1} << 40);
                  m.plan.dims[m.plan.views[0].first_dim + 1] = m.Int(0);
                },
                {.memory_limit = 1 << 20}),
            Error::kData);
}

// Rows of 16 bytes, three of them: from the first two numbers of each their squares are made, beside them.
TEST(Execute, ResultsMayLieBesideOperandsInTheSameRows) {
  auto run = [](int64_t offset, int64_t pitch, int64_t column = 1) {
    Made m;
    const int six = m.Int(6);
    m.plan.inputs = {{"x", Input::kTensor, DType::kF32, {six}, -1}};
    m.plan.outputs.push_back({DType::kF32, false, {six}});
    const int x = m.Buf(Buffer::kInput, six, 4), rows = m.Buf(Buffer::kTemporary, m.Int(32), 4),
              y = m.Buf(Buffer::kOutput, six, 4);
    auto view = [&](int buffer, int64_t at, int64_t row, int64_t step) {
      m.plan.views.push_back({buffer, DType::kF32, 2, m.Int(at), static_cast<int>(m.plan.dims.size())});
      for (int64_t v : {int64_t{3}, int64_t{2}, row, step}) m.plan.dims.push_back(m.Int(v));
    };
    view(x, 0, 2, 1), view(rows, 0, 4, 1);
    m.Kernel("copy", 1, 1, DType::kF32);
    view(rows, 0, 4, 1), view(rows, offset, pitch, column);
    m.Kernel("square", 1, 1, DType::kF32);
    view(rows, offset, pitch, column), view(y, 0, 2, 1);
    m.Kernel("copy", 1, 1, DType::kF32);
    std::string why;
    auto e = Executable::Make(m.plan, &why);
    EXPECT_TRUE(e) << why;
    Context c(e);
    std::vector<float> in = {1, 2, 3, 4, 5, 6};
    const Tensor input = Of(in, DType::kF32);
    Result out;
    const Error f = c.Run({&input, 1}, out.into());
    if (!f) {
      EXPECT_EQ(out.data, (std::vector<float>{1, 4, 9, 16, 25, 36}));
    }
    return f.kind;
  };
  EXPECT_EQ(run(8, 4), Error::kNone);
  EXPECT_EQ(run(24, 8), Error::kNone);    // every second row
  EXPECT_EQ(run(4, 4), Error::kPlan);     // one of them is the operand's
  EXPECT_EQ(run(12, 4), Error::kPlan);    // the next row's
  EXPECT_EQ(run(8, 3), Error::kPlan);     // other rows
  EXPECT_EQ(run(8, 4, 2), Error::kPlan);  // beyond the row
  EXPECT_EQ(run(8, 1, 4), Error::kPlan);  // by columns
}

// A vector that grows: out = -state after x is put behind it.
Made Grows() {
  Made m;
  const int t = m.Sym("t"), room = m.Sym("room"), length = m.Sym("length", 0, 9),
            after = m.Add({.op = Expr::kAdd, .a = length, .b = t});
  m.plan.inputs = {{"x", Input::kTensor, DType::kF32, {t}, -1},
                   {"s", Input::kTensor, DType::kF32, {room}, -1},
                   {"s.length", Input::kNumber, DType::kI64, {}, length}};
  m.plan.bindings = {{0, 0, 0, 1, 0}, {1, 1, 0, 1, 0}, {2, 2, -1, 1, 0}};
  m.plan.outputs.push_back({DType::kF32, false, {after}});
  m.plan.states = {{.input = 1, .dim = 0, .length = 2, .after = after}};
  const int x = m.Buf(Buffer::kInput, t, 4), s = m.Buf(Buffer::kState, room, 4, 1),
            y = m.Buf(Buffer::kOutput, after, 4);
  m.View1(x, DType::kF32, t), m.View1(s, DType::kF32, t, m.Times(length, m.Int(4)));
  m.Kernel("copy", 1, 1, DType::kF32);
  m.View1(s, DType::kF32, after), m.View1(y, DType::kF32, after);
  m.Kernel("neg", 1, 1, DType::kF32);
  return m;
}

TEST(Execute, StatesGrowWhereTheyLie) {
  std::string why;
  const Made m = Grows();
  EXPECT_EQ(m.plan.given_inputs(), 1u);
  auto e = Executable::Make(m.plan, &why);
  ASSERT_TRUE(e) << why;
  Context c(e);
  std::vector<float> state(5), x = {1, 2};
  int64_t length = 0;
  Tensor number;
  number.dtype = DType::kI64, number.data = &length;
  std::vector<float> want;
  for (int i = 0; i < 2; ++i, length += 2) {
    const std::vector<Tensor> in = {Of(x, DType::kF32), Of(state, DType::kF32), number};
    int64_t after = 0;
    ASSERT_FALSE(c.LengthsAfter(in, {&after, 1}));
    EXPECT_EQ(after, length + 2);
    Result out;
    const Error f = c.Run(in, out.into());
    ASSERT_FALSE(f) << f.text;
    want.insert(want.end(), {-1, -2});
    EXPECT_EQ(out.data, want);
  }
  EXPECT_EQ(state, (std::vector<float>{1, 2, 1, 2, 0}));
  // More than there is room for, or than the plan takes.
  Result out;
  std::vector<Tensor> in = {Of(x, DType::kF32), Of(state, DType::kF32), number};
  EXPECT_EQ(c.Run(in, out.into()).kind, Error::kData);
  EXPECT_EQ(state[4], 0);
  length = 10;
  EXPECT_NE(c.Run(in, out.into()).text.find("length = 10"), std::string::npos);
  int64_t after = 0;
  EXPECT_EQ(c.LengthsAfter(in, {&after, 1}).kind, Error::kInput);
}

TEST(Execute, MalformedStatesAreRefused) {
  auto refused = [](auto change) {
    Made m = Grows();
    change(m);
    std::string why;
    return Executable::Make(m.plan, &why) == nullptr;
  };
  EXPECT_FALSE(refused([](Made&) {}));
  EXPECT_TRUE(refused([](Made& m) { m.plan.states[0].input = 0; }));
  EXPECT_TRUE(refused([](Made& m) { m.plan.states[0].input = 7; }));
  EXPECT_TRUE(refused([](Made& m) { m.plan.states[0].dim = 1; }));
  EXPECT_TRUE(refused([](Made& m) { m.plan.states[0].length = 1; }));
  EXPECT_TRUE(refused([](Made& m) { m.plan.states[0].after = -1; }));
  EXPECT_TRUE(refused([](Made& m) { m.plan.states[0].initial = 0; }));
  EXPECT_TRUE(refused([](Made& m) { m.plan.states[0].length = -1; }));
  EXPECT_TRUE(refused([](Made& m) { m.plan.states.clear(); }));  // a buffer of no state
  EXPECT_TRUE(refused([](Made& m) { m.plan.states.push_back(m.plan.states[0]); }));
  EXPECT_TRUE(refused([](Made& m) { m.plan.inputs[1].sizes[0] = m.plan.outputs[0].sizes[0]; }));  // of no symbol
  EXPECT_TRUE(refused([](Made& m) { m.Buf(Buffer::kState, m.Int(1), 4, 1); }));                   // a second buffer
  EXPECT_TRUE(refused([](Made& m) { m.plan.buffers[0].kind = Buffer::kState; }));
}

TEST(Execute, LoopsMayBeEnded) {
  Made m = Chain();
  m.plan.steps[2] = {.kind = Step::kJump, .target = 0};
  std::string why;
  auto e = Executable::Make(m.plan, &why);
  ASSERT_TRUE(e) << why;
  Context c(e, {.step_limit = 1000});
  std::vector<float> x = {1, 2, 3};
  Result out;
  EXPECT_EQ(c.Run(std::vector<Tensor>{Of(x, DType::kF32)}, out.into()).kind, Error::kData);
}

}  // namespace
}  // namespace slipway::kernels
