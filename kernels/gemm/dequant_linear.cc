// The three algorithms of a product of floats with integers. Where there are instructions for sums of products of
// bytes, the floats become fixed-point numbers of three or two int8 slices (isa/int8_gemm.h). Elsewhere the instruction
// set widens the integers in registers for a few rows, and for more, blocks of the matrix become panels of f32 and the
// products of floats do the rest. And what brings operands into the form that all of these read.
#include "kernels/gemm/dequant_linear.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/convert.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packing.h"
#include "kernels/gemm/product.h"
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/registry.h"
#include "kernels/scratch.h"
#include "kernels/strided_iterator.h"

namespace slipway::kernels {
namespace {

// Columns that a thread takes at least, and that become f32 together; rows of such a block.
constexpr int64_t kColumns = 128, kRows = 384;

// The sum of each group of each row of a, in an order that does not depend on the instruction set.
const float* SumsOfGroups(const DequantGemmParams& g, Scratch& scratch) {
  const int64_t groups = g.b.k / g.b.group;
  float* sums = scratch.Take<float>(g.m * groups);
  if (scratch.querying()) return sums;
  constexpr int64_t kLanes = 16;
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < groups; ++j) {
      const float* x = g.a + i * g.a_stride + j * g.b.group;
      float lane[kLanes] = {};
      int64_t p = 0;
      for (; p + kLanes <= g.b.group; p += kLanes)
        for (int64_t l = 0; l < kLanes; ++l) lane[l] += x[p + l];
      for (; p < g.b.group; ++p) lane[p % kLanes] += x[p];
      for (int64_t half = kLanes / 2; half > 0; half /= 2)
        for (int64_t l = 0; l < half; ++l) lane[l] += lane[l + half];
      sums[i * groups + j] = lane[0];
    }
  return sums;
}

// Elements that share a unit where rows of a are taken as SplitInt8Rows (isa/int8_gemm.h): 0 where the product is not
// one of these.
int64_t SplitInt8BlockSize(const QuantizedMatrix& b) {
  if (BestInt8Gemm().split_int8_gemm == nullptr || IsFloat8(b.dtype) || b.rounded != DType::kF32) return 0;
  if (!b.adds_zero && b.zero != nullptr && b.zero_dtype != DType::kI8) return 0;
  // Sums of a block are to fit 32 bits; integers less a middle are larger than those less a zero of 8 bits.
  const int64_t most = b.adds_zero ? SplitInt8Rows::kMaxBlock / 2 : SplitInt8Rows::kMaxBlock;
  if (b.group == b.k) return most;
  for (int64_t block = most; block >= SplitInt8Rows::kChunk; block -= SplitInt8Rows::kChunk)
    if (b.group % block == 0) return block;
  return 0;
}
// Up to so many rows integers are widened in registers for each few of them. Rounding and groups take time for each few
// rows.
int64_t MaxRowsForInRegister(const QuantizedMatrix& b) {
  if (b.group < b.k && b.group % RowsPerWord(b) != 0) return 0;
  return b.rounded == DType::kF16 ? 0 : b.rounded == DType::kBF16 ? 1 : b.group < b.k ? 6 : 24;
}
// The algorithms, the first that takes the product. Where a row cannot be split, it is one of the others.
enum class Algorithm { kSplitInt8, kInRegister, kBlocks };
Algorithm FloatAlgorithm(const DequantGemmParams& g) {
  return g.m <= MaxRowsForInRegister(g.b) ? Algorithm::kInRegister : Algorithm::kBlocks;
}
Algorithm AlgorithmOf(const DequantGemmParams& g) {
  return SplitInt8BlockSize(g.b) > 0 ? Algorithm::kSplitInt8 : FloatAlgorithm(g);
}
// A [groups, n] matrix in panels of floats, in panels of f32; OneNaN and the scale's rounding as dequant_gemm.inc.h has
// them.
const float* PanelsAsF32(const void* from, DType dtype, DType rounded, int64_t groups, int64_t n, Scratch& scratch) {
  if (from == nullptr || (dtype == DType::kF32 && rounded == DType::kF32)) return static_cast<const float*>(from);
  const int64_t all = groups * ((n + kPanel - 1) / kPanel * kPanel);
  float* const to = scratch.Take<float>(all);
  if (!scratch.querying()) LoadRow<float>(from, dtype, 1, all, rounded, to);
  return to;
}

// Columns [begin, begin + n) of the product; begin is a multiple of kPanel.
DequantGemmParams Columns(const DequantGemmParams& g, int64_t begin, int64_t n) {
  DequantGemmParams part = g;
  part.b.n = n;
  const int64_t groups = g.b.k / g.b.group;
  auto advance = [&](const void* p, int64_t bytes) -> const void* {
    return p != nullptr ? static_cast<const char*>(p) + begin * bytes : nullptr;
  };
  part.b.q = advance(g.b.q, (g.b.k + RowsPerWord(g.b) - 1) / RowsPerWord(g.b) * 4);
  part.b.scale = advance(g.b.scale, groups * ByteSize(g.b.scale_dtype));
  part.b.zero = advance(g.b.zero, groups * ByteSize(g.b.zero_dtype));
  part.c = g.c + begin;
  if (g.bias != nullptr) part.bias = g.bias + begin;
  return part;
}

// What a block of columns takes: its f32, and what a product with that takes.
int64_t Depth(const QuantizedMatrix& b) {
  const int64_t blocks = (b.k - 1) / kRows + 1;
  return ((b.k - 1) / blocks + 2) / 2 * 2;
}
GemmParams BlockOf(const DequantGemmParams& g) {
  GemmParams block;
  block.m = g.m, block.n = std::min(kColumns, g.b.n), block.k = Depth(g.b);
  block.a = {g.a, DType::kF32, g.a_stride, 1};
  block.b = {nullptr, DType::kF32, block.k, 0};
  block.packed = true;
  block.b_is_bf16 = g.b.rounded == DType::kBF16;
  block.c_stride = g.c_stride;
  // Rows and elements of bf16 are multiplied as such where there are instructions for it; all blocks are of an even
  // number of rows.
  if (g.is_bf16 && g.b.k % 2 == 0) block.a = {g.bf16_rows, DType::kBF16, g.b.k, 1};
  if (Bf16For(block) == nullptr) block.a = {g.a, DType::kF32, g.a_stride, 1};
  return block;
}
int64_t BlockScratch(const DequantGemmParams& g) {
  const GemmParams block = BlockOf(g);
  const Bf16GemmMicrokernels* bf16 = Bf16For(block);
  return kColumns * Depth(g.b) +
         ((bf16 != nullptr ? bf16->workspace(block) : BestIsa().gemm.workspace(block)) + 15) / 16 * 16;
}
void ByBlocks(const DequantGemmParams& g, float* scratch) {
  const Isa& isa = BestIsa();
  const int64_t depth = Depth(g.b);
  GemmParams part = BlockOf(g);
  const Bf16GemmMicrokernels* const bf16 = Bf16For(part);
  const auto* const a = static_cast<const char*>(part.a.data);
  for (int64_t j = 0; j < g.b.n; j += kColumns)
    for (int64_t p = 0; p < g.b.k; p += depth) {
      part.n = std::min(kColumns, g.b.n - j), part.k = std::min(depth, g.b.k - p);
      for (int64_t i = 0; i < part.n; i += kPanel)
        isa.dequant_gemm.dequantize_panel(g.b, p, part.k, j + i, scratch + i * part.k);
      part.a.data = a + p * ByteSize(part.a.dtype);
      part.b = {scratch, DType::kF32, part.k, 0};
      part.c = g.c + j;
      part.accumulate = p > 0;
      part.bias = p == 0 && g.bias != nullptr ? g.bias + j : nullptr;
      (bf16 != nullptr ? bf16->run : isa.gemm.run)(part, scratch + kColumns * depth);
    }
}

// Leaves roundings out where that is no slower: bf16 instructions take rounded elements for many rows. With a's
// elements of 16 bits, two slices then cost less than the rounding would: 2^-16 of the largest of a block of at most
// 128, beside 2^-9 (f16: 2^-12) of each element of b.
void RelaxRounding(DType a, DequantGemmParams& g) {
  if (g.b.rounded == DType::kF32 && g.b.scale_rounded == DType::kF32) return;
  if (g.b.rounded == DType::kBF16 && g.is_bf16 && Bf16For(BlockOf(g)) != nullptr) return;
  g.b.rounded = g.b.scale_rounded = DType::kF32;
  if (a != DType::kF32) g.slices = 2;
}

Loop LoopOf(const DequantGemmParams& g) {
  const Algorithm algorithm = AlgorithmOf(g);
  if (algorithm == Algorithm::kSplitInt8)
    return {BestInt8Gemm().name, g.slices == 2 ? "floats as two int8 slices, sums of four products"
                                               : "floats as three int8 slices, sums of four products"};
  if (algorithm == Algorithm::kInRegister) return {BestIsa().name, "widened in registers"};
  if (const Bf16GemmMicrokernels* bf16 = Bf16For(BlockOf(g)))
    return {bf16->name, "blocks of bf16, sums of two products of bf16"};
  return {BestIsa().name, "blocks of f32"};
}

// The product by int8 slices of a's rows; false where a row cannot be split. Nothing is written then.
bool GemmBySplitInt8(const DequantGemmParams& g, const Workers* workers, Scratch& scratch) {
  const Scratch::Frame frame(scratch);
  const int64_t block = SplitInt8BlockSize(g.b);
  const Int8GemmMicrokernels& isa = BestInt8Gemm();
  const int64_t groups = g.b.k / g.b.group, blocks = (g.b.k + block - 1) / block, slices = g.slices,
                row_bytes = SplitInt8Rows::RowBytes(g.b.k, slices);
  SplitInt8GemmParams call{g, {.block = block, .slices = g.slices}};
  QuantizedMatrix& b = call.gemm.b;
  if (!b.nibbles) b.offset += static_cast<float>(isa.split_takes_off);
  if (b.scale_rounded != DType::kF32 && b.scale_rounded != b.scale_dtype) {
    b.scale = PanelsAsF32(b.scale, b.scale_dtype, b.scale_rounded, groups, b.n, scratch);
    b.scale_dtype = DType::kF32;
  }
  auto* const rows = scratch.Take<int8_t>(g.m * row_bytes);
  auto* const sums = scratch.Take<int32_t>(g.m * blocks * slices);
  auto* const unit = scratch.Take<float>(g.m * blocks);
  if (scratch.querying()) return true;
  call.a.rows = rows, call.a.sums = sums, call.a.unit = unit;
  const int32_t times = b.zero != nullptr && !b.adds_zero ? 1 : static_cast<int32_t>(b.offset);
  std::atomic<bool> whole = true;
  ParallelFor(workers, g.m, 16, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last && whole.load(std::memory_order_relaxed); ++i)
      if (!isa.split_row(g.a + i * g.a_stride, b.k, block, call.a.slices, times, rows + i * row_bytes,
                         sums + i * blocks * slices, unit + i * blocks))
        whole.store(false, std::memory_order_relaxed);
  });
  if (!whole) return false;
  ParallelFor(workers, (b.n - 1) / kColumns + 1, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kColumns;
    isa.split_int8_gemm({Columns(call.gemm, begin, std::min(b.n, last * kColumns) - begin), call.a});
  });
  return true;
}

bool IsNarrowFloat(DType t) { return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16; }

// The sizes of the product of a call and how its integers lie; false where the operands do not agree.
bool ReadSizes(const Call& c, const QuantLinearAttributes& a, DequantGemmParams* to) {
  const int64_t parts = a.parts;
  const bool scaled = (parts & kQuantScale) != 0, shifted = (parts & kQuantZero) != 0,
             biased = (parts & kQuantBias) != 0;
  const Tensor &x = c.in[0], &q = c.in[1], &out = c.out[0];
  const bool added = (parts & kQuantAddedZero) != 0;
  if (parts < 0 || parts > 15 || (shifted && !scaled) ||
      (added ? !shifted || a.middle < -256 || a.middle > 256 : a.middle != 0) ||
      c.in.size() != 2u + scaled + shifted + biased)
    return false;
  DequantGemmParams& g = *to;
  g.b.adds_zero = added;
  g.b.rounded = a.rounded, g.b.scale_rounded = a.scale_rounded;
  const int r = out.rank;
  bool fits = IsNarrowFloat(g.b.rounded) && IsNarrowFloat(g.b.scale_rounded) && IsNarrowFloat(x.dtype) && r >= 1 &&
              x.rank == r && q.rank == 2 && !IsStoredOnly(out.dtype) &&
              (q.dtype == DType::kI8 || q.dtype == DType::kU8 || IsFloat8(q.dtype)) && x.sizes[r - 1] == q.sizes[0] &&
              out.sizes[r - 1] == q.sizes[1];
  for (int d = 0; fits && d + 1 < r; ++d) fits = x.sizes[d] == out.sizes[d];
  if (!fits) return false;
  g.b.k = q.sizes[0], g.b.n = q.sizes[1], g.b.group = g.b.k;
  if (scaled) {
    const Tensor& scale = c.in[2];
    if (scale.rank != 2 || scale.sizes[0] < 1 || g.b.k % scale.sizes[0] != 0 || scale.sizes[1] != g.b.n) return false;
    if (shifted && (c.in[3].rank != 2 || c.in[3].sizes[0] != scale.sizes[0] || c.in[3].sizes[1] != g.b.n)) return false;
    g.b.group = g.b.k / scale.sizes[0];
  }
  for (size_t i = 2; i < c.in.size(); ++i)
    if (IsStoredOnly(c.in[i].dtype) || (IsFloat8(q.dtype) && shifted)) return false;
  if (added && !IsNarrowFloat(c.in[3].dtype)) return false;
  if (biased && (c.in.back().rank != 1 || c.in.back().sizes[0] != g.b.n)) return false;
  SetPacking(q, g.b);
  if (x.dtype == DType::kBF16 && x.is_contiguous()) g.is_bf16 = true, g.bf16_rows = x.data;
  if (g.b.n > 0) g.m = out.numel() / g.b.n;
  return true;
}

const char* QuantLinear(const Call& c, const QuantLinearAttributes& a) {
  DequantGemmParams g;
  if (!ReadSizes(c, a, &g)) return "the operands do not agree";
  const Tensor &x = c.in[0], &q = c.in[1], &out = c.out[0];
  const bool scaled = (a.parts & kQuantScale) != 0, shifted = (a.parts & kQuantZero) != 0,
             biased = (a.parts & kQuantBias) != 0;
  const int r = out.rank;
  if (out.numel() == 0) return nullptr;
  if (g.b.k == 0) return "a product over nothing";

  Scratch& scratch = *c.scratch;
  if (!a.exact) RelaxRounding(x.dtype, g);
  TakeIntegers(q, g.b, c, scratch);
  g.b.offset -= static_cast<float>(a.middle);
  if (scaled) {
    const Tensor& scale = c.in[2];
    const bool direct = scale.is_packed();
    g.b.scale = direct ? scale.data : PanelsOfFloats(scale, scratch);
    g.b.scale_dtype = direct ? scale.dtype : DType::kF32;
  }
  if (shifted) {
    const Tensor& zero = c.in[3];
    const bool bytes = zero.dtype == DType::kI8 || zero.dtype == DType::kU8, direct = zero.is_packed() && !bytes;
    g.b.zero = bytes ? PanelsOfBytes(zero, scratch) : direct ? zero.data : PanelsOfFloats(zero, scratch);
    g.b.zero_dtype = bytes ? DType::kI8 : direct ? zero.dtype : DType::kF32;
    if (zero.dtype == DType::kU8) g.b.offset -= 128;  // which these are less by
  }
  if (biased) {
    const Tensor& bias = c.in.back();
    float* row = scratch.Take<float>(g.b.n);
    if (!scratch.querying()) LoadRow<float>(bias.data, bias.dtype, bias.strides[0], g.b.n, bias.dtype, row);
    g.bias = row;
  }
  // Dense rows of f32 on both sides.
  auto dense = [&](Tensor t, int64_t n) {
    t.data = scratch.Take<float>(g.m * n);
    t.dtype = DType::kF32;
    for (int64_t d = r - 1, step = 1; d >= 0; step *= t.sizes[d], --d) t.strides[d] = step;
    return t;
  };
  const bool copied = x.dtype != DType::kF32 || !x.is_contiguous(),
             kept = out.dtype != DType::kF32 || !out.is_contiguous();
  const Tensor from = copied ? dense(x, g.b.k) : x, to = kept ? dense(out, g.b.n) : out;
  if (copied && !scratch.querying())
    Walk<2>({&x, &from}, [&](const auto& at, const auto& step, int64_t n) {
      if (step[1] == 1) return LoadRow<float>(at[0], x.dtype, step[0], n, x.dtype, reinterpret_cast<float*>(at[1]));
      for (int64_t i = 0; i < n; ++i)
        LoadRow<float>(at[0] + i * step[0] * ByteSize(x.dtype), x.dtype, 1, 1, x.dtype,
                       reinterpret_cast<float*>(at[1]) + i * step[1]);
    });
  g.a = from.as<float>(), g.a_stride = g.b.k;
  g.c = to.as<float>(), g.c_stride = g.b.n;
  DequantGemm(g, c.workers, scratch);
  if (kept && !scratch.querying())
    Walk<2>({&out, &to}, [&](const auto& at, const auto& step, int64_t n) {
      for (int64_t i = 0; i < n; i += step[1] == 1 ? n : 1)
        StoreRow<float>(reinterpret_cast<const float*>(at[1]) + i * step[1], step[1] == 1 ? n : 1,
                        at[0] + i * step[0] * ByteSize(out.dtype), out.dtype, step[0]);
    });
  return nullptr;
}

bool QuantProduct(const Call& c, const QuantLinearAttributes& a, int64_t rows, Product* p) {
  DequantGemmParams g;
  if (!ReadSizes(c, a, &g)) return false;
  const size_t scales = (a.parts & kQuantScale ? 1 : 0) + (a.parts & kQuantZero ? 1 : 0);
  SetRows(c, 2 + scales, p);
  if (rows > 0) p->m.value = rows;
  g.m = p->m.value;
  if (!a.exact) RelaxRounding(c.in[0].dtype, g);
  p->operations = Operations(*p);
  p->groups = scales > 0 ? g.b.k / g.b.group : 0;
  p->loop = LoopOf(g);
  return true;
}

constexpr Kernel kKernels[] = {With<QuantLinearAttributes, QuantLinear>(
    {.name = "quant_linear",
     .inputs = 2,
     .any_type = true,
     .packed = {Packable::kNever, Packable::kBytesAndNibbles, Packable::kFloats, Packable::kFloatsAndBytes},
     .queries_workspace = true,
     .product = ProductOfCall<QuantLinearAttributes, QuantProduct>})};

}  // namespace

const float* PanelsOfFloats(const Tensor& t, Scratch& scratch) {
  const int64_t groups = t.sizes[0], n = t.sizes[1];
  float* row = scratch.Take<float>(n);
  float* panels = scratch.Take<float>((n + kPanel - 1) / kPanel * kPanel * groups);
  if (scratch.querying()) return panels;
  for (int64_t g = 0; g < groups; ++g) {
    LoadRow<float>(t.as<char>() + g * t.strides[0] * ByteSize(t.dtype), t.dtype, t.strides[1], n, DType::kF32, row);
    for (int64_t j = 0; j < n; j += kPanel) {
      float* to = panels + j * groups + g * kPanel;
      const int64_t width = std::min(kPanel, n - j);
      std::copy_n(row + j, width, to);
      std::fill(to + width, to + kPanel, 0.0f);
    }
  }
  return panels;
}

const int8_t* PanelsOfBytes(const Tensor& t, Scratch& scratch) {
  if (t.is_packed()) return t.as<int8_t>();
  const int64_t groups = t.sizes[0], n = t.sizes[1];
  auto* const panels = scratch.Take<int8_t>(PanelBytes(groups, n, t.dtype));
  if (!scratch.querying())
    PackPanels({t.data, t.dtype, t.strides[0], t.strides[1]}, groups, n, 0, (n - 1) / kPanel + 1, panels);
  return panels;
}

void SetPacking(const Tensor& q, QuantizedMatrix& b) {
  b.nibbles = q.packed == Packing::kNr16Int4 || q.packed == Packing::kNr16UInt4;
  if (IsFloat8(q.dtype)) b.dtype = q.dtype;
  b.offset = q.packed == Packing::kNr16Int4 ? -8 : !b.nibbles && q.dtype == DType::kI8 ? -128 : 0;
}

void TakeIntegers(const Tensor& q, QuantizedMatrix& b, const Call& c, Scratch& scratch) {
  SetPacking(q, b);
  b.q = q.data;
  if (q.is_packed()) return;
  const int64_t panel = PanelBytes(b.k, kPanel, q.dtype, Packing::kNr16K4), panels = (b.n - 1) / kPanel + 1;
  char* to = scratch.Take<char>(panel * panels);
  if (!scratch.querying())
    ParallelFor(c.workers, panels, 1, [&](int64_t first, int64_t last) {
      PackPanels({q.data, q.dtype, q.strides[0], q.strides[1]}, b.k, b.n, first, last, to + first * panel,
                 Packing::kNr16K4);
    });
  b.q = to;
}

void DequantGemm(const DequantGemmParams& call, const Workers* workers, Scratch& scratch) {
  if (call.m <= 0 || call.b.n <= 0) return;
  DequantGemmParams g = call;
  // A thread's attention costs something.
  if (static_cast<double>(g.m) * static_cast<double>(g.b.n) * static_cast<double>(g.b.k) < 64 * 1024) workers = nullptr;
  const bool split = AlgorithmOf(g) == Algorithm::kSplitInt8, few = FloatAlgorithm(g) == Algorithm::kInRegister;
  if (g.b.adds_zero && g.b.rounded == DType::kF32 && (split || few)) g.sums = SumsOfGroups(g, scratch);
  if (split && GemmBySplitInt8(g, workers, scratch) && !scratch.querying()) return;
  const Isa& isa = BestIsa();
  ParallelFor(scratch, workers, (g.b.n - 1) / kColumns + 1, 1, [&](int64_t first, int64_t last, Scratch& own) {
    float* const room = few ? nullptr : own.Take<float>(BlockScratch(g));
    if (own.querying()) return;
    const int64_t begin = first * kColumns;
    const DequantGemmParams part = Columns(g, begin, std::min(g.b.n, last * kColumns) - begin);
    if (few)
      isa.dequant_gemm.gemm(part);
    else
      ByBlocks(part, room);
  });
}

std::span<const Kernel> QuantKernels() { return kKernels; }

}  // namespace slipway::kernels
