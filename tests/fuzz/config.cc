// What users write beside models: rules of tensor parallelism, expressions that choose and rename, the index of a
// folder. The first byte says which.
#include "ir/tensor.h"
#include "tests/fuzz/target.h"
#include "weights/checkpoint_folder.h"
#include "weights/names.h"
#include "weights/tensor_parallel.h"

using namespace slipway;

namespace {

void Rules(const fuzz::AsFile& file) {
  std::vector<weights::NamedTensor> tensors;
  for (const char* name : {"layers.0.w", "layers.0.b"}) {
    ir::TensorRef t;
    t.dtype = ir::DType::kFloat32;
    t.sizes = {4, 4};
    t.strides = {4, 1};
    t.storage = std::make_shared<ir::Storage>(ir::Storage{io::Bytes::Of(std::string(64, '\0')), 64});
    tensors.push_back({name, t, t.dtype});
  }
  fuzz::PromiseInputError(weights::SplitTensors(tensors, 2, file.path()).status());
}

void Names(const std::string& text) {
  const size_t cut = text.find('\n');
  const std::string first = text.substr(0, cut), second = cut == std::string::npos ? "" : text.substr(cut + 1);
  auto rules = weights::NameRules::Parse({first}, {second}, {text});
  fuzz::PromiseInputError(rules.status());
  for (const auto& parsed :
       {weights::NameRules::Parse({}, {}, {text}), weights::NameRules::Parse({first}, {}, {second}), rules}) {
    if (!parsed.ok()) continue;
    for (const char* name : {"layers.0.weight", "", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"})
      if (auto renamed = parsed->Apply(name)) fuzz::Answer(*renamed);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::Span<const uint8_t> rest(data + 1, size - 1);
  const fuzz::AsFile file(rest);
  switch (data[0] % 3) {
    case 0: Rules(file); break;
    case 1: Names(std::string(rest.begin(), rest.end())); break;
    default: fuzz::PromiseInputError(weights::ReadIndex(file.path()).status());
  }
  return 0;
}
