// Feeds the tensors of a safetensors file to an observer, in the order of their names, and prints what it makes of
// them. tests/interop/pt2e_quantizer_test.py compares with torchao's observers.
//
//   observe_tensors CONFIG FILE.safetensors           scale and zero point of activations
//   observe_tensors CONFIG FILE.safetensors weight    the scales of one weight
#include <cstdio>
#include <cstring>
#include <string>

#include "importers/safetensors/safetensors.h"
#include "io/mapped_file.h"
#include "quantizer/pt2e/observers.h"
#include "quantizer/pt2e/recipe.h"

namespace slipway::quantizer::pt2e {
namespace {

int Fail(const absl::Status& s) {
  std::fprintf(stderr, "%s\n", std::string(s.message()).c_str());
  return 1;
}

int Run(const std::string& config, const std::string& path, bool weight) {
  const auto recipe = ParseRecipe(config);
  if (!recipe.ok()) return Fail(recipe.status());
  const auto file = io::MappedFile::Open(path);
  if (!file.ok()) return Fail(file.status());
  const auto set = importers::ReadSafetensors(*file);
  if (!set.ok()) return Fail(set.status());
  const auto observer = ActivationObserver::Make(recipe->observer);
  for (const auto& [name, t] : set->tensors) {
    const auto bytes = ir::ReadDense(t);
    if (!bytes.ok()) return Fail(bytes.status());
    std::vector<float> x(bytes->size() / sizeof(float));
    std::memcpy(x.data(), bytes->data(), bytes->size());
    const auto n = static_cast<int64_t>(x.size());
    if (!weight) {
      if (const absl::Status s = observer->Add(x.data(), n); !s.ok()) return Fail(s);
      continue;
    }
    WeightObserver of_weight(recipe->per_channel ? t.sizes[0] : 1, n);
    if (const absl::Status s = of_weight.Add(x.data(), 0, n); !s.ok()) return Fail(s);
    for (float scale : of_weight.Scales(recipe->weights())) std::printf("%a\n", static_cast<double>(scale));
  }
  if (weight) return 0;
  const auto made = observer->Finish(recipe->activations());
  if (!made.ok()) return Fail(made.status());
  std::printf("%a %lld\n", static_cast<double>(made->scale), static_cast<long long>(made->zero_point));
  return 0;
}

}  // namespace
}  // namespace slipway::quantizer::pt2e

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return slipway::quantizer::pt2e::Run(argv[1], argv[2], argc > 3 && std::string(argv[3]) == "weight");
}
