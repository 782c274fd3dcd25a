// The summary's bytes are those of codes and scales beside what the program has; of caches that grow, of one token.
#include "driver/convert/caches.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "base/text.h"
#include "passes/pass.h"

namespace slipway::driver {
namespace {

// A size, 1 where it grows.
int64_t SizeOf(ir::Sym size) { return size.constant().value_or(1); }

}  // namespace

absl::Status QuantizeCaches(Conversion& c, std::vector<passes::GrowingState>* growing) {
  const std::string& to = c.options.cache_dtype;
  if (to.empty()) return absl::OkStatus();
  c.context.cache_dtype = to == "fp8" ? ir::DType::kFloat8E4M3FN : ir::DType::kInt8;
  RETURN_IF_ERROR(passes::RunPasses(passes::kCaches, c.program(), c.context));
  std::vector<std::string> quantized, kept;
  int64_t before = 0, after = 0;
  bool grows = false;
  for (const passes::CacheOutcome& cache : c.context.caches) {
    if (!cache.kept_because.empty()) {
      kept.push_back(text::StrCat("'", cache.state, "' stays ", ir::Name(cache.type.dtype), ": ", cache.kept_because));
      continue;
    }
    quantized.push_back(cache.state);
    int64_t rows = 1;
    for (int d = 0; d + 1 < cache.type.rank(); ++d) rows *= SizeOf(cache.type.sizes[d]);
    const int64_t width = SizeOf(cache.type.sizes.back());
    before += rows * width * ir::ByteSize(cache.type.dtype);
    after += rows * (width + static_cast<int64_t>(sizeof(float)));
    if (!growing) continue;
    const auto at =
        std::find_if(growing->begin(), growing->end(), [&](const auto& g) { return g.input == cache.state; });
    if (at == growing->end()) continue;
    grows = true;
    passes::GrowingState scales = *at;
    scales.input = cache.scales;
    growing->push_back(std::move(scales));
  }
  if (quantized.empty())
    return WithHelp(absl::UnimplementedError(text::StrCat("--cache-dtype: no state is keys or values of attention",
                                                          kept.empty() ? "" : "; ", text::Join(kept, "; "))),
                    "leave --cache-dtype out: states are then kept as the program has them");
  c.summary.lines.push_back(text::StrCat(quantized.size(), " caches are ", to, " with a scale a row, ", after, " bytes",
                                         grows ? " a token" : "", " instead of ", before, ": ",
                                         text::Join(quantized, ", ")));
  for (const std::string& line : kept) c.summary.lines.push_back(text::StrCat("cache ", line));
  c.extra_metadata.emplace_back("slipway.cache_dtype", to);
  return absl::OkStatus();
}

}  // namespace slipway::driver
