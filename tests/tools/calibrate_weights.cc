// Quantizes linear weights of a program with calibration data and writes every part and the numbers they stand for:
// what tests compare with torchao's.
//
//     calibrate_weights CONFIG MODEL CALIBRATION.safetensors OUT.safetensors [memory=BYTES] [percentile=P] [rows=N]
//     [threads=N] [weight=TEXT]
//
// Of a weight X: X.qdata, X.scale, ..., X.codes (a byte each), X.dequant (f32, of W · diag(factors)), X.act_pre_scale,
// X.act_scale, X.act_zero_point. MODEL is a program; weights are its parameters of two dimensions whose name holds TEXT
// (".weight").
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "driver/edge/format.h"
#include "driver/quantize/calibrate.h"
#include "exporters/safetensors/safetensors.h"
#include "quantizer/calibrate.h"
#include "weights/named_tensor.h"

namespace slipway {
namespace {

using ir::DType;

int Fail(const absl::Status& s) {
  std::fprintf(stderr, "%s\n", std::string(s.message()).c_str());
  return 3;
}

// The numbers that codes stand for; the scheme must not have finished.
std::vector<float> Numbers(const quantizer::Scheme& s, const std::string& codes) {
  const quantizer::Shape& shape = s.shape();
  std::vector<float> out(codes.size());
  const auto* q = reinterpret_cast<const int8_t*>(codes.data());
  const quantizer::Loops& loops = quantizer::BestLoops();
  const int64_t groups = static_cast<int64_t>(codes.size()) / shape.group;
  std::vector<float> scales = s.scales(), zeros = s.zeros();
  if (shape.whole)
    scales.assign(static_cast<size_t>(groups), scales[0]), zeros.assign(static_cast<size_t>(groups), zeros[0]);
  if (s.parts()[0].dtype == DType::kUInt8)
    loops.from_float4(reinterpret_cast<const uint8_t*>(q), groups, shape.group, scales.data(), shape.rounding(),
                      out.data());
  else
    (s.float_zero() ? loops.from_uint4 : loops.from_int)(q, groups, shape.group, scales.data(), zeros.data(),
                                                         shape.rounding(), out.data());
  return out;
}

int Run(int argc, char** argv) {
  if (argc < 5)
    return Fail(absl::InvalidArgumentError(
        "calibrate_weights CONFIG MODEL CALIBRATION OUT [memory=] [percentile=] [rows=] [threads=] [weight=]"));
  driver::CalibrationOptions options;
  std::string part = ".weight";
  for (int i = 5; i < argc; ++i) {
    const char* value = std::strchr(argv[i], '=');
    if (!value++) return Fail(absl::InvalidArgumentError(argv[i]));
    if (argv[i][0] == 'm') options.statistics_memory = std::strtoull(value, nullptr, 10);
    if (argv[i][0] == 'r') options.statistics.sample_rows = std::strtoll(value, nullptr, 10);
    if (argv[i][0] == 'p') options.statistics.percentile = std::strtod(value, nullptr);
    if (argv[i][0] == 't') options.threads = std::atoi(value);
    if (argv[i][0] == 'w') part = value;
  }
  const auto config = quantizer::ParseShortName(argv[1]);
  if (!config.ok()) return Fail(config.status());
  auto archive = driver::OpenArchive(std::string(argv[2]));
  if (!archive.ok()) return Fail(archive.status());
  const ir::Program& p = *archive->programs[0];
  std::map<std::string, const quantizer::Config*> layers;
  for (const auto& [name, t] : p.weights)
    if (t.sizes.size() == 2 && name.find(part) != std::string::npos) layers[name] = &*config;

  std::vector<weights::NamedTensor> out;
  const auto add = [&](std::string name, DType dtype, std::vector<int64_t> sizes, std::string bytes) {
    out.push_back({std::move(name), ir::OwnedTensor(dtype, std::move(sizes), std::move(bytes)), dtype});
  };
  const auto use = [&](const std::string& name, const quantizer::LayerStatistics& statistics) -> absl::Status {
    const ir::TensorRef& t = p.weights.at(name);
    const int64_t n = t.sizes[0], k = t.sizes[1];
    auto scheme = quantizer::Scheme::Make(*config, t.dtype, n, k, {});
    if (!scheme.ok()) return scheme.status();
    for (const bool as_they_are : {true, false}) {
      std::vector<std::string> parts((*scheme)->parts().size());
      std::vector<float> numbers;
      auto done = quantizer::QuantizeCalibrated(t, **scheme, statistics, options.threads, as_they_are,
                                                [&](size_t i, uint64_t offset, absl::Span<const uint8_t> bytes) {
                                                  if (i == 1 && as_they_are) numbers = Numbers(**scheme, parts[0]);
                                                  if (parts[i].size() < offset + bytes.size())
                                                    parts[i].resize(offset + bytes.size());
                                                  std::memcpy(parts[i].data() + offset, bytes.data(), bytes.size());
                                                  return absl::OkStatus();
                                                });
      if (!done.ok()) return done.status();
      if (as_they_are) {
        add(name + ".codes", DType::kInt8, {n, k}, parts[0]);
        add(name + ".dequant", DType::kFloat32, {n, k}, quantizer::Encode(numbers, DType::kFloat32));
        if (!done->act_pre_scale.empty())
          add(name + ".act_pre_scale", DType::kFloat32, {k}, quantizer::Encode(done->act_pre_scale, DType::kFloat32));
        if (done->act_scale) {
          add(name + ".act_scale", DType::kFloat32, {}, quantizer::Encode({&*done->act_scale, 1}, DType::kFloat32));
          add(name + ".act_zero_point", DType::kInt8, {}, std::string(1, static_cast<char>(done->act_zero_point)));
        }
        std::printf("%s %.6g %.6g\n", name.c_str(), done->error.relative, done->error.max);
      } else {
        for (size_t i = 0; i < parts.size(); ++i) {
          const quantizer::Part& part_i = (*scheme)->parts()[i];
          add(text::StrCat(name, ".", part_i.name), part_i.dtype, part_i.sizes, parts[i]);
        }
      }
    }
    return absl::OkStatus();
  };
  driver::ConvertOptions data;
  data.calibration = argv[3];
  if (const absl::Status s = driver::Calibrate(p, layers, data, options, use).status(); !s.ok()) return Fail(s);
  const auto written = exporters::ExportSafetensors(out, argv[4], {});
  return written.ok() ? 0 : Fail(written.status());
}

}  // namespace
}  // namespace slipway

int main(int argc, char** argv) { return slipway::Run(argc, argv); }
