// The table is parsed once, on first use.
#include "exporters/onnx/ort_kernels.h"

#include <limits>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "schemas/embedded.h"

namespace slipway::exporters::onnx_out {
namespace {

struct Kernel {
  int since = 0, until = std::numeric_limits<int>::max();
  std::vector<std::pair<std::string_view, std::vector<ir::DType>>> types;
};

const text::ViewMap<std::vector<Kernel>>& Kernels() {
  static const auto& table = *[] {
    auto* m = new text::ViewMap<std::vector<Kernel>>();
    for (std::string_view line : text::Split(schemas::OrtKernels(), '\n')) {
      if (line.empty() || line[0] == '#') continue;
      std::vector<std::string_view> f = text::Split(line, '\t');
      if (f.size() < 2) continue;
      Kernel k;
      std::vector<std::string_view> range = text::Split(f[1], '-');
      (void)text::ParseNumber(range[0], &k.since);
      if (range.size() > 1 && !range[1].empty()) (void)text::ParseNumber(range[1], &k.until);
      if (f.size() > 2) {
        for (std::string_view constraint : text::Split(f[2], ';', true)) {
          size_t colon = constraint.find(':');
          if (colon == std::string_view::npos) continue;
          std::vector<ir::DType> types;
          for (std::string_view name : text::Split(constraint.substr(colon + 1), ','))
            if (auto t = ir::DTypeFromName(name)) types.push_back(*t);
          k.types.emplace_back(constraint.substr(0, colon), std::move(types));
        }
      }
      (*m)[f[0]].push_back(std::move(k));
    }
    return m;
  }();
  return table;
}

}  // namespace

bool HasKernel(std::string_view op, int since_version, const TypeAssignment& types, bool* listed) {
  auto it = Kernels().find(op);
  *listed = it != Kernels().end();
  if (!*listed) return true;
  for (const Kernel& k : it->second) {
    if (since_version < k.since || since_version > k.until) continue;
    bool fits = true;
    for (const auto& [param, dtype] : types) {
      for (const auto& [name, allowed] : k.types) {
        if (name != param) continue;
        bool found = false;
        for (ir::DType a : allowed) found |= a == dtype;
        fits &= found;
      }
    }
    if (fits) return true;
  }
  return false;
}

}  // namespace slipway::exporters::onnx_out
