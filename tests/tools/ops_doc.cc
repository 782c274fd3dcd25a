// Writes docs/ops.md from the operator tables: how each operator reaches each target.
//
//   ops_doc TESTED.txt
//
// TESTED.txt has a line per operator that the suite of torch's operator samples checks. tests/golden/ops.golden keeps
// the document current.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <set>
#include <string>

#include "exporters/onnx/lowering.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "passes/decompose.h"
#include "passes/pass.h"
#include "planner/lowering/rules.h"

namespace {

using namespace slipway;  // NOLINT: a tool of one file

constexpr int kFirstOpset = exporters::kMinOpset, kLastOpset = exporters::kMaxOpset;

constexpr char kIntroduction[] =
    R"(# Operators

Written by `ops_doc` from the tables of shape functions, decompositions, lowerings and plans.

- **ONNX**: *direct*, one lowering row; *decomposed*, into operators that have one; *direct or decomposed*, by its
  arguments; *complex*, only of complex tensors, which become pairs of reals; *removed*, as it changes no value.
- **ATen**: whether the types of its results can be inferred, which a program written back as ATen needs.
- **native**: plans, which `run` and native libraries execute: *direct*, one row of the planner; *number*, symbolic
  arithmetic that plans hold as expressions; the rest as for ONNX.
- **tested**: among the operators in the programs that `tests/interop/opinfo_test.py` compares with torch. Many others
  are in tests of their own.
- **traits**: what passes ask for beside the declaration; `schemas/op_traits.txt` explains each.

In-place and `out=` overloads are not listed: they become the functional one first.

)";

std::string OnnxForm(std::string_view op, int opset) {
  using exporters::onnx_out::FindRow;
  const auto* row = FindRow(op, opset, nullptr);
  const bool decomposed = passes::FindDecomposition(op) != nullptr;
  if (row && row->legal_if && decomposed) return "direct or decomposed";
  if (row) return "direct";
  if (decomposed) return "decomposed";
  if (passes::IsNoOp(op)) return "removed";
  return passes::HasComplexRule(op) ? "complex" : "-";
}

// "decomposed", or where it changes "decomposed; direct from 23".
std::string OnnxForms(std::string_view op) {
  std::string last = OnnxForm(op, kFirstOpset), text = last;
  for (int opset = kFirstOpset + 1; opset <= kLastOpset; ++opset) {
    std::string form = OnnxForm(op, opset);
    if (form == last) continue;
    text += "; " + form + " from " + std::to_string(opset);
    last = form;
  }
  return text;
}

std::string NativeForm(std::string_view op) {
  if (planner::FindPlanRow(op)) return "direct";
  if (passes::FindDecomposition(op)) return "decomposed";
  if (passes::IsNoOp(op)) return "removed";
  if (passes::HasComplexRule(op)) return "complex";
  const bool number = op.starts_with("_operator.") || op.starts_with("math.") || op.starts_with("torch.") ||
                      op.starts_with("aten.sym_");
  return number && ir::FindShapeFn(op) ? "number" : "-";
}

}  // namespace

int main(int argc, char** argv) {
  std::ifstream file(argc == 2 ? argv[1] : "");
  if (!file) {
    std::fputs("usage: ops_doc TESTED.txt\n", stderr);
    return 2;
  }
  std::set<std::string, std::less<>> tested;
  for (std::string line; std::getline(file, line);) tested.insert(line);

  std::cout << kIntroduction << "| operator | ONNX " << kFirstOpset << " … " << kLastOpset
            << " | ATen | native | tested | traits |\n|---|---|---|---|---|---|\n";
  for (std::string_view op : ir::AllOps()) {
    if (ir::GetOp(op).mutates()) continue;
    const std::string onnx = OnnxForms(op);
    const bool shape = ir::FindShapeFn(op) != nullptr;
    if (onnx == "-" && !shape && NativeForm(op) == "-") continue;
    std::cout << "| `" << op << "` | " << onnx << " | " << (shape ? "yes" : "-") << " | " << NativeForm(op) << " | "
              << (tested.contains(op) ? "yes" : "-") << " | " << ir::GetOp(op).traits.words << " |\n";
  }
  return 0;
}
