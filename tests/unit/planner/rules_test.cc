// Rules on programs that no exporter writes: every operator that has a row anywhere, with operands of no elements, one,
// no dimension, many, other dtypes, with optional arguments and without, and with each required one missing. Shape
// functions and, where these take the operands, decompositions, ONNX's lowerings and planning refuse; they never crash.
// An operator's cases run in a process of their own.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "exporters/onnx/export.h"
#include "exporters/onnx/lowering.h"
#include "ir/builder.h"
#include "ir/clone.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "planner/planner.h"

namespace slipway {
namespace {

using ir::DType;
using ir::Sizes;
using ir::Type;

// How the arguments of a case are made.
struct Variant {
  std::string_view name;
  DType dtype;
  Sizes sizes;
  bool optional;   // optional arguments are given
  int number = 1;  // integers
};
const std::vector<Variant>& Variants() {
  // clang-format off
  static const auto& all = *new std::vector<Variant>{
      {"plain", DType::kFloat32, {2, 3}, false},        {"optional arguments", DType::kFloat32, {2, 3}, true},
      {"no rows", DType::kFloat32, {0, 2}, true},       {"no columns", DType::kFloat32, {2, 0}, false},
      {"one element", DType::kFloat32, {1, 1}, true},   {"rank 0", DType::kFloat32, {}, true},
      {"rank 0 of integers", DType::kInt64, {}, false}, {"rank 1", DType::kFloat32, {3}, true},
      {"rank 1, empty", DType::kFloat32, {0}, true},    {"rank 4", DType::kFloat32, {2, 3, 4, 5}, true},
      {"rank 5, empty", DType::kFloat32, {0, 1, 2, 3, 1}, true}, {"integers", DType::kInt64, {2, 3}, true},
      {"small integers", DType::kInt8, {3, 3}, true},   {"bool", DType::kBool, {2, 3}, true},
      {"complex", DType::kComplex64, {3, 3}, true},     {"half", DType::kFloat16, {2, 3}, true},
      {"float8", DType::kFloat8E4M3FN, {2, 3}, true},   {"zeros", DType::kFloat32, {2, 3, 3}, true, 0},
      {"negative numbers", DType::kFloat32, {3, 3}, true, -1},
  };
  // clang-format on
  return all;
}

ir::Arg MakeArg(const ir::ArgDef& a, const Variant& v, ir::Program& p) {
  if (a.type == "Tensor") {
    auto input = [&] {
      p.input_specs.push_back({});
      return p.graph->AddInput("x", Type::Tensor(v.dtype, v.sizes));
    };
    if (a.is_list) return ir::Values{input(), input()};
    return input();
  }
  if (a.type == "int" || a.type == "SymInt") {
    if (a.is_list) return ir::Ints(std::max(a.list_size, 1), v.number);
    return v.number;
  }
  if (a.type == "float" || a.type == "SymFloat")
    return a.is_list ? ir::Arg(std::vector<double>{1.0 * v.number}) : ir::Arg(1.0 * v.number);
  if (a.type == "Scalar") return 1.0 * v.number;
  if (a.type == "bool") return a.is_list ? ir::Arg(std::vector<bool>{true}) : ir::Arg(true);
  if (a.type == "str") return "sum";
  if (a.type == "ScalarType") return DType::kFloat32;
  return {};
}

// A program of the one node, without the required argument number `missing`.
std::unique_ptr<ir::Program> MakeProgram(const ir::OpDef& op, const Variant& v, int missing) {
  auto p = std::make_unique<ir::Program>();
  p->form = ir::Form::kFunctional;
  std::vector<ir::NamedArg> args;
  int required = 0;
  for (const ir::ArgDef& a : op.args) {
    const bool may_miss = a.has_default || a.optional;
    if (may_miss ? !v.optional : required++ == missing) continue;
    ir::Arg arg = MakeArg(a, v, *p);
    if (!arg.is_none()) args.push_back({a.name, std::move(arg), 1});
  }
  if (missing >= required) return nullptr;
  ir::Node* n = p->graph->Insert(op, std::move(args));
  auto inferred = ir::InferTypes(*n);
  std::vector<Type> types;
  if (inferred.ok())
    types = *std::move(inferred);
  else
    types.assign(std::max<size_t>(op.returns.size(), 1), Type::Tensor(v.dtype, v.sizes));
  for (Type& t : types) {
    if (t.kind == Type::kNone)
      p->graph->AddNoneOutput(n);
    else
      p->graph->outputs.push_back(p->graph->AddOutput(n, "y", std::move(t)));
  }
  p->output_specs.resize(p->graph->outputs.size());
  return p;
}

void RunCase(const ir::Program& made) {
  auto p = ir::Clone(made);
  passes::PassContext context;
  // What the shape function refuses goes no further, as in every pipeline.
  if (!passes::RunPass(*passes::FindPass("infer-shapes"), *p, context).ok()) return;
  if (const auto* row = passes::FindDecomposition((*p->graph->begin())->op_name()))
    (void)passes::ApplyDecomposition(*p->graph->begin(), *row);
  p = ir::Clone(made);
  exporters::OnnxOptions options;
  (void)passes::Legalize(*p, [&](const ir::Node& n) { return exporters::OnnxLegal(n, options); }, &context.refusals);
  exporters::OnnxReport report;
  (void)exporters::ExportOnnx(*p, "", options, /*dry_run=*/true, &report);
  p = ir::Clone(made);
  (void)planner::LegalizeAndPlan(*p);
}

std::set<std::string_view> OperatorsWithRows() {
  std::set<std::string_view> out;
  for (std::string_view op : ir::AllOps()) {
    if (ir::GetOp(op).variadic) continue;
    if (ir::FindShapeFn(op) || passes::FindDecomposition(op) || exporters::onnx_out::FindRow(op, 18, nullptr) ||
        exporters::onnx_out::FindRow(op, 24, nullptr))
      out.insert(op);
  }
  return out;
}

TEST(Rules, NoRowCrashesOnWhatProgramsMaySay) {
  // What runs now, where both processes see it.
  constexpr size_t kLongest = 256;
  constexpr unsigned kLimitS = 30;  // an operator
  char* now = static_cast<char*>(mmap(nullptr, kLongest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(now, MAP_FAILED);
  for (std::string_view name : OperatorsWithRows()) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(kLimitS);
      const ir::OpDef& op = ir::GetOp(name);
      auto run = [&](const Variant& v, int missing) {
        std::snprintf(now, kLongest, "%s: %s%s", op.name.c_str(), std::string(v.name).c_str(),
                      missing < 0 ? "" : text::StrCat(", required argument ", missing, " missing").c_str());
        auto p = MakeProgram(op, v, missing);
        if (p) RunCase(*p);
        return p != nullptr;
      };
      for (const Variant& v : Variants()) run(v, -1);
      for (int k = 0; run(Variants()[0], k); ++k) {
      }
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << now;
  }
  munmap(now, kLongest);
}

}  // namespace
}  // namespace slipway
