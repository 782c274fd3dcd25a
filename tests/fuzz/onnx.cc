// ONNX models: read with their types, every byte of their weights, and written again as messages that are read to the
// same program.
#include "importers/onnx/onnx.h"

#include "ir/text.h"
#include "ir/verify.h"
#include "onnx_model/onnx_graph.h"
#include "tests/fuzz/target.h"

using namespace slipway;

namespace {
volatile uint8_t sink;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::AsFile file({data, size});
  auto mapped = file.Open();
  (void)importers::LooksLikeOnnx(*mapped);
  auto read = importers::ReadOnnx(mapped);
  fuzz::PromiseInputError(read.status());
  if (!read.ok()) return 0;
  ir::Program& p = *read->program;
  const absl::Status valid = ir::Verify(p);
  fuzz::PromiseInputError(valid);
  if (!valid.ok()) return 0;
  for (const auto& [name, t] : p.weights)
    for (uint8_t byte : ir::MappedBytes(*t.storage)) sink = sink ^ byte;
  ir::PrintOptions print;
  print.data = false;
  const std::string text = ir::Print(p, print);
  std::vector<onnx_model::Weight> weights;
  auto model = onnx_model::ToModel(p, &weights);
  fuzz::PromiseInputError(model.status());
  if (!model.ok()) return 0;
  std::vector<std::optional<ir::TensorRef>> given;
  for (const onnx_model::Weight& w : weights) {
    onnx::TensorProto* t = model->mutable_graph()->add_initializer();
    t->set_name(w.name);
    t->set_data_type(1);
    given.push_back(w.tensor);
  }
  // Those that are written into the message come first.
  given.insert(given.begin(), static_cast<size_t>(model->graph().initializer_size()) - weights.size(), std::nullopt);
  auto again = onnx_model::ToProgram(*model, given, nullptr);
  fuzz::PromiseInputError(again.status());
  onnx_model::StripMetadata(p);
  (void)onnx_model::InferTypes(p, /*afresh=*/true);
  (void)onnx_model::Check(p);
  fuzz::PromiseInputError(ir::Verify(p));
  return 0;
}
