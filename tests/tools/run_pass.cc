// Runs one pass over a program in the text form and prints what comes out: the golden texts are made of it. Passes over
// plans
// (plan: none of them) print the plan of the program that is legalized to `native`.
//
//   run_pass PASS FILE.sw
//
// PASS is a name of passes/pass.cc, also with _ for -; narrow-floats-for-libraries is narrow-floats as convert --dtype
// bf16 has it for native libraries that keep state.
//
// The program is verified before (but for infer-shapes, which takes values without types) and after. What the pass has
// to say besides (dropped state, refused decompositions) follows as remarks. Exit 1, with the error on stdout, where
// the pass refuses.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "base/text.h"
#include "exporters/onnx/export.h"
#include "io/mapped_file.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "kernels/executor/execute.h"
#include "kernels/executor/print_plan.h"
#include "passes/narrow_floats.h"
#include "passes/pass.h"
#include "planner/evaluator.h"
#include "planner/fuse.h"
#include "planner/planner.h"

namespace {

using namespace slipway;  // NOLINT: a tool of one file

// Of those that are null: what becomes of the program with all of them.
const std::map<std::string, void (*)(planner::PlannedProgram&)>& PlanPasses() {
  static const auto& passes = *new std::map<std::string, void (*)(planner::PlannedProgram&)>{
      {"plan", [](planner::PlannedProgram&) {}}, {"choose-layouts", nullptr},
      {"fuse-depthwise-blocks", nullptr},        {"fuse-conv", planner::FuseConvs},
      {"fuse-chains", planner::FuseChains},      {"concat-in-place", planner::ConcatInPlace},
  };
  return passes;
}

absl::Status PrintPlan(ir::Program& p, void (*pass)(planner::PlannedProgram&)) {
  planner::PlanOptions options;
  options.fuse = options.layouts = pass == nullptr;
  auto planned = planner::LegalizeAndPlan(p, options);
  if (!planned.ok()) return planned.status();
  if (pass != nullptr) pass(*planned);
  std::string why;
  auto executable = kernels::Executable::Make(planned->plan, &why);
  if (!executable) return absl::InternalError(text::StrCat("afterwards: ", why));
  std::printf("%s: %s", p.name.c_str(), kernels::PrintPlan(executable->plan()).c_str());
  return absl::OkStatus();
}

absl::Status NarrowFloatsForLibraries(ir::Program& p, passes::PassContext&) {
  passes::NarrowOptions options;
  options.to = ir::DType::kBFloat16;
  options.rounds_once = planner::RoundsOnce;
  options.narrow_state = true;
  return passes::NarrowFloats(p, options).status();
}

absl::Status Run(std::string name, const std::string& path) {
  std::replace(name.begin(), name.end(), '_', '-');
  static constexpr passes::Pass kForLibraries = {"narrow-floats-for-libraries", "", true, NarrowFloatsForLibraries};
  const passes::Pass* pass = name == kForLibraries.name ? &kForLibraries : passes::FindPass(name);
  const auto plan_pass = PlanPasses().find(name);
  if (!pass && plan_pass == PlanPasses().end()) {
    std::string table;
    for (const passes::Pass& p : passes::Passes()) text::StrAppend(&table, "\n", p.name, ": ", p.summary);
    for (const auto& [plan_pass_name, f] : PlanPasses()) text::StrAppend(&table, "\n", plan_pass_name, ": of plans");
    return absl::InvalidArgumentError("the passes are" + table);
  }
  planner::PlanEvaluator evaluator;
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  ir::ParseOptions options;
  options.name = path.substr(path.rfind('/') + 1);
  auto data = (*file)->data();
  auto archive = ir::Parse({reinterpret_cast<const char*>(data.data()), data.size()}, options);
  if (!archive.ok()) return archive.status();
  for (const auto& p : archive->programs) {
    if (absl::Status s = name == "infer-shapes" ? absl::OkStatus() : ir::Verify(*p); !s.ok()) return s;
    if (plan_pass != PlanPasses().end()) {
      if (absl::Status s = PrintPlan(*p, plan_pass->second); !s.ok()) return s;
      continue;
    }
    passes::PassContext context;
    context.legal = [](const ir::Node& n) { return exporters::OnnxLegal(n, {}); };
    context.evaluator = &evaluator;
    context.verify_each = true;
    if (absl::Status s = passes::RunPass(*pass, *p, context); !s.ok()) return s;
    for (const std::string& state : context.dropped) std::printf("; dropped %s\n", state.c_str());
    for (const passes::CacheOutcome& cache : context.caches)
      if (!cache.kept_because.empty()) std::printf("; kept %s: %s\n", cache.state.c_str(), cache.kept_because.c_str());
    for (const ir::Node* n : *p->graph)
      if (auto it = context.refusals.find(n); it != context.refusals.end())
        std::printf("; refused %s\n", std::string(it->second.message()).c_str());
  }
  if (pass) std::fputs(ir::Print(*archive).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("run_pass PASS FILE.sw\n", stderr);
    return 2;
  }
  if (absl::Status s = Run(argv[1], argv[2]); !s.ok()) {
    std::printf("error: %s\n", std::string(s.message()).c_str());
    return 1;
  }
  return 0;
}
