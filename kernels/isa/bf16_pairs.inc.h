// What bf16 GEMMs share: bf16_gemm.cc and amx.cc include this file after elements.inc.h. Blocks of b are packed
// as pairs of rows, which all kinds of instructions multiply.

// Panels of a block of b, and its rows: as pairs it stays in the second-level cache. Tiles of amx.cc take 32 rows.
constexpr int kPanels = 4;
constexpr int64_t kDepth = 1024;
constexpr int64_t kDepthOfTile = 32;
// From this m on: fewer rows read b once, unpaired, in the same time.
constexpr int64_t kMinRows = 8;

bool Supports(const GemmParams& g) {
  return g.packed && g.a.dtype == DType::kBF16 &&
         (g.b.dtype == DType::kBF16 || (g.b.dtype == DType::kF32 && g.b_is_bf16)) && g.a.column == 1 &&
         g.c_column_stride == 1 && g.k % 2 == 0 && g.k > 0 && g.m >= kMinRows;
}
int64_t Workspace(const GemmParams&) { return kDepth * kPanel * kPanels / 2; }

// Packs rows [0, depth) of a panel as pairs of bf16, `panels` of which are side by side.
void Pair(const uint16_t* panel, int64_t depth, int panels, uint32_t* to) {
  for (int64_t p = 0; p < depth; p += 2, panel += 2 * kPanel, to += kPanel * panels)
    for (int64_t j = 0; j < kPanel; j += kLanes)
      *reinterpret_cast<WordVecAt*>(to + j) = LoadHalfBits(panel + j) | LoadHalfBits(panel + kPanel + j) << 16;
}

void Pair(const float* panel, int64_t depth, int panels, uint32_t* to) {
  for (int64_t p = 0; p < depth; p += 2, panel += 2 * kPanel, to += kPanel * panels)
    for (int64_t j = 0; j < kPanel; j += kLanes)
      *reinterpret_cast<WordVecAt*>(to + j) =
          LoadWords(panel + j) >> 16 | (LoadWords(panel + kPanel + j) & 0xffff0000u);
}

// A block of b that is paired next, to prefetch: of bf16, pieces of as many bytes, one a panel.
struct NextBlock {
  const char* at = nullptr;
  int64_t panels = 0, bytes = 0, step = 0;  // of a piece; from one to the next
};
NextBlock BlockAt(const GemmParams& g, int64_t j, int64_t p) {
  if (g.b.dtype != DType::kBF16 || j >= g.n) return {};
  const int64_t depth = g.k - p < kDepth ? g.k - p : kDepth, left = (g.n - j + kPanel - 1) / kPanel;
  return {static_cast<const char*>(g.b.data) + 2 * (j * g.b.row + p * kPanel), left < kPanels ? left : kPanels,
          2 * depth * kPanel, 2 * kPanel * g.b.row};
}

// Calls f(pairs, panels, j, p, depth, next) for blocks of b: columns from j on, rows [p, p + depth). A pair of rows is
// `panels` · kPanel words; there are zeros behind the last, up to a multiple of kDepthOfTile rows.
template <typename F>
SLIPWAY_INLINE void ForEachPairedBlock(const GemmParams& g, float* workspace, F f) {
  auto* const pairs = reinterpret_cast<uint32_t*>(workspace);
  for (int64_t j = 0; j < g.n; j += kPanels * kPanel) {
    const auto panels =
        static_cast<int>((g.n - j + kPanel - 1) / kPanel < kPanels ? (g.n - j + kPanel - 1) / kPanel : kPanels);
    for (int64_t p = 0; p < g.k; p += kDepth) {
      const int64_t depth = g.k - p < kDepth ? g.k - p : kDepth;
      for (int c = 0; c < panels; ++c)
        if (const int64_t at = (j / kPanel + c) * kPanel * g.b.row + p * kPanel; g.b.dtype == DType::kBF16)
          Pair(static_cast<const uint16_t*>(g.b.data) + at, depth, panels, pairs + c * kPanel);
        else
          Pair(static_cast<const float*>(g.b.data) + at, depth, panels, pairs + c * kPanel);
      const int64_t whole = (depth + kDepthOfTile - 1) / kDepthOfTile * kDepthOfTile;
      __builtin_memset(pairs + depth / 2 * panels * kPanel, 0,
                       static_cast<size_t>((whole - depth) / 2 * panels * kPanel) * sizeof *pairs);
      f(pairs, panels, j, p, depth, p + kDepth < g.k ? BlockAt(g, j, p + kDepth) : BlockAt(g, j + kPanels * kPanel, 0));
    }
  }
}
