// Quantizes the tensors of a safetensors file with one configuration and writes every part, the codes and the numbers
// they stand
// for as they are: what tests compare with torchao's, without the layout of a checkpoint.
//
//     quantize_tensor CONFIG IN.safetensors OUT.safetensors [0.14]
//
// Of a tensor X: X.qdata, X.scale, X.zero_point, ..., X.codes (a byte each) and X.dequant (f32).
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/floats.h"
#include "exporters/safetensors/safetensors.h"
#include "importers/safetensors/safetensors.h"
#include "io/mapped_file.h"
#include "quantizer/config.h"
#include "quantizer/scheme.h"
#include "weights/named_tensor.h"

namespace slipway {
namespace {

int Fail(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  return 3;
}

std::vector<float> Floats(const ir::TensorRef& t) {
  const std::string bytes = ir::ReadDense(t).value();
  std::vector<float> out(static_cast<size_t>(t.numel()));
  const auto& loops = quantizer::BestLoops();
  if (t.dtype == ir::DType::kBFloat16)
    loops.widen_bf16(reinterpret_cast<const uint16_t*>(bytes.data()), out.data(), t.numel());
  else if (t.dtype == ir::DType::kFloat16)
    loops.widen_f16(reinterpret_cast<const uint16_t*>(bytes.data()), out.data(), t.numel());
  else
    std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

int Run(int argc, char** argv) {
  if (argc < 4) return Fail("quantize_tensor CONFIG IN OUT [0.14]");
  const auto config = quantizer::ParseShortName(argv[1]);
  if (!config.ok()) return Fail(std::string(config.status().message()));
  auto file = io::MappedFile::Open(argv[2]);
  if (!file.ok()) return Fail(std::string(file.status().message()));
  auto set = importers::ReadSafetensors(*file);
  if (!set.ok()) return Fail(std::string(set.status().message()));
  std::vector<weights::NamedTensor> out;
  const auto add = [&](std::string name, ir::DType dtype, std::vector<int64_t> sizes, std::string bytes) {
    out.push_back({std::move(name), ir::OwnedTensor(dtype, std::move(sizes), std::move(bytes)), dtype});
  };
  for (const auto& [name, t] : set->tensors) {
    auto scheme = quantizer::Scheme::Make(*config, t.dtype, t.sizes[0], t.sizes[1], {.eps_of_0_14 = argc > 4});
    if (!scheme.ok()) return Fail(std::string(scheme.status().message()));
    const std::vector<float> w = Floats(t);
    const int64_t n = t.sizes[0], k = t.sizes[1];
    // In two chunks, as large tensors go by.
    const int64_t half = n / 2;
    quantizer::Scheme& s = **scheme;
    s.Start();
    if (s.observes()) {
      s.Observe(w.data(), 0, half);
      s.Observe(w.data() + half * k, half, n - half);
      s.Settle();
    }
    std::vector<int8_t> codes(static_cast<size_t>(n * k));
    std::vector<float> numbers(codes.size());
    if (!s.Quantize(w.data(), 0, half, codes.data(), numbers.data()) ||
        !s.Quantize(w.data() + half * k, half, n - half, codes.data() + half * k, numbers.data() + half * k))
      return Fail(name + " is not finite");
    std::string packed(static_cast<size_t>(n * s.packed_row()), '\0');
    s.Pack(codes.data(), n, reinterpret_cast<uint8_t*>(packed.data()));
    for (size_t i = 0; i < s.parts().size(); ++i) {
      const quantizer::Part& p = s.parts()[i];
      add(name + "." + std::string(p.name), p.dtype, p.sizes, i == 0 ? packed : s.Values(i));
    }
    add(name + ".codes", ir::DType::kInt8, {n, k},
        std::string(reinterpret_cast<const char*>(codes.data()), codes.size()));
    add(name + ".scales", ir::DType::kFloat32, {static_cast<int64_t>(s.scales().size())},
        quantizer::Encode(s.scales(), ir::DType::kFloat32));
    add(name + ".zeros", ir::DType::kFloat32, {static_cast<int64_t>(s.zeros().size())},
        quantizer::Encode(s.zeros(), ir::DType::kFloat32));
    add(name + ".dequant", ir::DType::kFloat32, {n, k}, quantizer::Encode(numbers, ir::DType::kFloat32));
  }
  const auto written = exporters::ExportSafetensors(out, argv[3], {});
  return written.ok() ? 0 : Fail(std::string(written.status().message()));
}

}  // namespace
}  // namespace slipway

int main(int argc, char** argv) { return slipway::Run(argc, argv); }
