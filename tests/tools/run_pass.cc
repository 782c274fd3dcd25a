// Runs one pass over a program in the text form and prints what comes out: the golden texts are made of it.
//
//   run_pass PASS FILE.sw
//
// The program is verified before (but for infer_shapes, which takes values without types) and after. What the pass has
// to say besides (dropped state, refused decompositions) follows as remarks. Exit 1, with the error on stdout, where
// the pass refuses.
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "base/text.h"
#include "exporters/onnx/export.h"
#include "io/mapped_file.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/outline_blocks.h"
#include "passes/pass.h"
#include "planner/evaluator.h"

namespace {

using namespace slipway;  // NOLINT: a tool of one file

const std::map<std::string, std::function<absl::Status(ir::Program&)>>& Passes() {
  static const auto& passes = *new std::map<std::string, std::function<absl::Status(ir::Program&)>>{
      {"infer_shapes", passes::InferShapes},
      {"unwrap_subclasses", passes::UnwrapSubclasses},
      {"inline_subgraphs", passes::InlineSubgraphs},
      {"remove_vmap", passes::RemoveVmap},
      {"functionalize", passes::Functionalize},
      {"drop_mutations",
       [](ir::Program& p) {
         for (const std::string& name : passes::DropMutations(p)) std::printf("; dropped %s\n", name.c_str());
         return absl::OkStatus();
       }},
      {"remove_no_ops", passes::RemoveNoOps},
      {"eliminate_dead_code", passes::EliminateDeadCode},
      {"common_subexpressions", passes::MergeCommonSubexpressions},
      {"constant_folding",
       [](ir::Program& p) {
         planner::PlanEvaluator evaluator;
         return passes::FoldConstants(p, evaluator);
       }},
      {"lower_complex", passes::LowerComplex},
      {"outline_blocks", passes::OutlineBlocks},
      {"legalize",
       [](ir::Program& p) {
         passes::Refusals refusals;
         absl::Status s = passes::Legalize(
             p, [](const ir::Node& n) { return exporters::OnnxLegal(n, {}); }, &refusals);
         for (const ir::Node* n : *p.graph)
           if (auto it = refusals.find(n); it != refusals.end())
             std::printf("; refused %s\n", std::string(it->second.message()).c_str());
         return s;
       }},
  };
  return passes;
}

absl::Status Run(const std::string& pass, const std::string& path) {
  auto run = Passes().find(pass);
  if (run == Passes().end()) {
    std::string names;
    for (const auto& [name, f] : Passes()) names += " " + name;
    return absl::InvalidArgumentError("passes:" + names);
  }
  auto file = io::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  ir::ParseOptions options;
  options.name = path.substr(path.rfind('/') + 1);
  auto data = (*file)->data();
  auto archive = ir::Parse({reinterpret_cast<const char*>(data.data()), data.size()}, options);
  if (!archive.ok()) return archive.status();
  for (const auto& p : archive->programs) {
    if (absl::Status s = pass == "infer_shapes" ? absl::OkStatus() : ir::Verify(*p); !s.ok()) return s;
    if (absl::Status s = run->second(*p); !s.ok()) return s;
    if (absl::Status s = ir::Verify(*p); !s.ok())
      return absl::InternalError(text::StrCat("afterwards: ", text::FromAbsl(s.message())));
  }
  std::fputs(ir::Print(*archive).c_str(), stdout);
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
