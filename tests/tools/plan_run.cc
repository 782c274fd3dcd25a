// Runs an exported program on the planner's evaluator: what tests/interop/planner_test.py compares with torch.
//
//   plan_run run MODEL.pt2 --inputs IN.safetensors --outputs OUT.safetensors
//
// Keys are input.N and output.N.
#include <cstdio>
#include <fstream>
#include <string>

#include "base/text.h"
#include "importers/pt2/pt2.h"
#include "importers/safetensors/safetensors.h"
#include "io/mapped_file.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "planner/evaluator.h"

namespace {

using namespace slipway;  // NOLINT: a tool of one file

absl::Status Write(const std::string& path, const std::vector<ir::TensorRef>& tensors) {
  std::string header = "{", data;
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto bytes = ir::ReadDense(tensors[i]);
    if (!bytes.ok()) return bytes.status();
    text::StrAppend(&header, i ? "," : "", "\"output.", i, "\":{\"dtype\":\"", ir::Info(tensors[i].dtype).safetensors,
                    "\",\"shape\":[", text::Join(tensors[i].sizes, ","), "],\"data_offsets\":[", data.size(), ",",
                    data.size() + bytes->size(), "]}");
    data += *bytes;
  }
  header += "}";
  const uint64_t size = header.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), 8);
  out << header << data;
  return out ? absl::OkStatus() : absl::UnavailableError(path);
}

absl::Status Run(const std::string& model, const std::string& in, const std::string& out) {
  auto file = io::MappedFile::Open(model);
  if (!file.ok()) return file.status();
  auto archive = importers::ReadPt2(*file);
  if (!archive.ok()) return archive.status();
  auto input_file = io::MappedFile::Open(in);
  if (!input_file.ok()) return input_file.status();
  auto set = importers::ReadSafetensors(*input_file);
  if (!set.ok()) return set.status();
  std::vector<ir::TensorRef> inputs;
  for (size_t i = 0; i < set->tensors.size(); ++i)
    for (const auto& [name, t] : set->tensors)
      if (name == text::StrCat("input.", i)) inputs.push_back(t);
  ir::Program& p = *archive->programs[0];
  planner::PlanEvaluator evaluator;
  for (auto pass : {passes::InferShapes, passes::UnwrapSubclasses, passes::InlineSubgraphs, passes::RemoveVmap,
                    passes::Functionalize})
    if (absl::Status s = pass(p); !s.ok()) return s;
  passes::DropMutations(p);
  for (auto pass : {passes::RemoveNoOps, passes::EliminateDeadCode, passes::MergeCommonSubexpressions})
    if (absl::Status s = pass(p); !s.ok()) return s;
  auto outputs = evaluator.Evaluate(p, inputs);
  if (!outputs.ok()) return outputs.status();
  return Write(out, *outputs);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fputs("plan_run run MODEL.pt2 --inputs IN.safetensors --outputs OUT.safetensors\n", stderr);
    return 2;
  }
  absl::Status s = Run(argv[2], argv[4], argv[6]);
  if (s.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(s.message()).c_str());
  return absl::IsUnimplemented(s) ? 4 : absl::IsInternal(s) ? 70 : 3;
}
