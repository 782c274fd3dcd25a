// See ort_kernels.h. The table is parsed once, on first use.
#include "exporters/onnx/ort_kernels.h"

#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "schemas/embedded.h"

namespace slipway::exporters::onnx_out {
namespace {

struct Kernel {
  int since = 0, until = std::numeric_limits<int>::max();
  std::vector<std::pair<std::string_view, std::vector<ir::DType>>> types;
};

const absl::flat_hash_map<std::string_view, std::vector<Kernel>>& Kernels() {
  static const auto& table = *[] {
    auto* m = new absl::flat_hash_map<std::string_view, std::vector<Kernel>>();
    for (std::string_view line : absl::StrSplit(schemas::OrtKernels(), '\n')) {
      if (line.empty() || line[0] == '#') continue;
      std::vector<std::string_view> f = absl::StrSplit(line, '\t');
      if (f.size() < 2) continue;
      Kernel k;
      std::pair<std::string_view, std::string_view> range = absl::StrSplit(f[1], absl::MaxSplits('-', 1));
      (void)absl::SimpleAtoi(range.first, &k.since);
      if (!range.second.empty()) (void)absl::SimpleAtoi(range.second, &k.until);
      if (f.size() > 2) {
        for (std::string_view constraint : absl::StrSplit(f[2], ';', absl::SkipEmpty())) {
          std::pair<std::string_view, std::string_view> kv = absl::StrSplit(constraint, absl::MaxSplits(':', 1));
          std::vector<ir::DType> types;
          for (std::string_view name : absl::StrSplit(kv.second, ','))
            if (auto t = ir::DTypeFromName(name)) types.push_back(*t);
          k.types.emplace_back(kv.first, std::move(types));
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
