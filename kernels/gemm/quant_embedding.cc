// Rows of a table of small integers or float8 with scales (`quant_embedding`). A table lies as the matrix of a product
// does, so that a head that is tied to it has the same bytes: a row of the table is a column of the matrix, one lane of
// a panel of kPanel columns. The instruction set dequantizes a panel at once, of which one lane is kept: a row reads
// kPanel times its bytes, which is little beside the products behind it, and its numbers are those of the product.
#include <algorithm>
#include <atomic>

#include "kernels/convert.h"
#include "kernels/gemm/dequant_linear.h"
#include "kernels/gemm/packing.h"
#include "kernels/isa/isa.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

// Elements of a row that are dequantized at once: a panel of them stays in the cache. A multiple of RowsPerWord.
constexpr int64_t kDepth = 512;

// The operands of a call.
struct Table {
  const Tensor &index, &q;
  const Tensor *scale = nullptr, *zero = nullptr;
  QuantizedMatrix matrix;  // without pointers
};

constexpr const char* kOutOfRange = "index out of range";

bool IsNarrowFloat(DType t) { return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16; }

// False where the operands do not agree.
bool Read(const Call& c, const QuantLinearAttributes& a, Table* t) {
  const bool scaled = (a.parts & kQuantScale) != 0, shifted = (a.parts & kQuantZero) != 0,
             added = (a.parts & kQuantAddedZero) != 0;
  const Tensor& out = c.out[0];
  const int r = t->index.rank;
  if (a.parts < 0 || a.parts > 15 || (a.parts & kQuantBias) != 0 || !scaled ||
      (added ? !shifted || a.middle < -256 || a.middle > 256 : a.middle != 0) || c.in.size() != 3u + shifted ||
      !IsIndexType(t->index.dtype) || t->index.is_packed() || !IsNarrowFloat(a.rounded) ||
      !IsNarrowFloat(a.scale_rounded) || !IsNarrowFloat(out.dtype) || out.rank != r + 1 || t->q.rank != 2 ||
      !(t->q.dtype == DType::kI8 || t->q.dtype == DType::kU8 || (IsFloat8(t->q.dtype) && !shifted)) ||
      out.sizes[r] != t->q.sizes[0] || !SameSizes(t->index, 0, r, out, 0))
    return false;
  t->scale = &c.in[2];
  t->zero = shifted ? &c.in[3] : nullptr;
  const int64_t k = t->q.sizes[0], n = t->q.sizes[1], groups = t->scale->rank == 2 ? t->scale->sizes[0] : 0;
  if (groups < 1 || k % groups != 0) return false;
  for (const Tensor* v : {t->scale, t->zero})
    if (v && (v->rank != 2 || v->sizes[0] != groups || v->sizes[1] != n || IsStoredOnly(v->dtype))) return false;
  if (!IsNarrowFloat(t->scale->dtype) || k < 1 || (added && !IsNarrowFloat(t->zero->dtype))) return false;
  QuantizedMatrix& b = t->matrix;
  SetPacking(t->q, b);
  b.k = k, b.n = std::min(n, kPanel), b.group = k / groups;
  b.adds_zero = added, b.rounded = a.rounded, b.scale_rounded = a.scale_rounded;
  b.offset -= static_cast<float>(a.middle);
  if (shifted && t->zero->dtype == DType::kU8) b.offset -= 128;  // which its panels are less by
  return true;
}

// Columns of a matrix that lies as it is in memory.
Tensor Columns(const Tensor& t, int64_t first, int64_t n) {
  Tensor part = t;
  part.sizes[1] = n;
  if (t.data != nullptr) part.data = t.as<char>() + first * t.strides[1] * ByteSize(t.dtype);
  return part;
}

bool IsByte(DType t) { return t == DType::kI8 || t == DType::kU8; }

// Panel `panel` of scales or zeros, as it lies or made in scratch memory: bytes as i8, what is not packed else as f32.
const void* PanelOf(const Tensor& t, int64_t panel, Scratch& scratch, DType* dtype) {
  *dtype = IsByte(t.dtype) ? DType::kI8 : t.is_packed() ? t.dtype : DType::kF32;
  if (t.is_packed()) return t.as<char>() + panel * PanelBytes(t.sizes[0], kPanel, t.dtype, t.packed);
  const int64_t first = panel * kPanel;
  const Tensor part = Columns(t, first, std::min(kPanel, t.sizes[1] - first));
  if (IsByte(t.dtype)) return PanelsOfBytes(part, scratch);
  return PanelsOfFloats(part, scratch);
}

// Dequantizes row `row` of the table into `to`. Takes scratch memory, which is all that it does where that counts.
void DequantizeRow(const Table& t, int64_t row, const Call& c, char* to, int64_t stride, Scratch& scratch) {
  const Scratch::Frame frame(scratch);
  const int64_t panel = row / kPanel, lane = row % kPanel, first = panel * kPanel;
  QuantizedMatrix b = t.matrix;
  if (t.q.is_packed()) {
    b.q = t.q.as<char>() + panel * PanelBytes(b.k, kPanel, t.q.dtype, t.q.packed);
  } else {
    const float offset = b.offset;
    Call alone = c;
    alone.workers = nullptr;
    TakeIntegers(Columns(t.q, first, std::min(kPanel, t.q.sizes[1] - first)), b, alone, scratch);
    b.offset = offset;
  }
  b.scale = PanelOf(*t.scale, panel, scratch, &b.scale_dtype);
  if (t.zero != nullptr) b.zero = PanelOf(*t.zero, panel, scratch, &b.zero_dtype);
  auto* const block = scratch.Take<float>(std::min(b.k, kDepth) * (kPanel + 1));
  if (scratch.querying()) return;
  float* const column = block + std::min(b.k, kDepth) * kPanel;
  const DType dtype = c.out[0].dtype;
  for (int64_t p = 0; p < b.k; p += kDepth) {
    const int64_t depth = std::min(kDepth, b.k - p);
    BestIsa().dequant_gemm.dequantize_panel(b, p, depth, 0, block);
    for (int64_t i = 0; i < depth; ++i) column[i] = block[i * kPanel + lane];
    StoreRow<float>(column, depth, to + p * stride * ByteSize(dtype), dtype, stride);
  }
}

const char* QuantEmbedding(const Call& c, const QuantLinearAttributes& a) {
  if (c.in.size() < 3) return kSizesDiffer;
  Table t{c.in[0], c.in[1]};
  if (!Read(c, a, &t)) return kSizesDiffer;
  const Tensor& out = c.out[0];
  const int64_t rows = t.q.sizes[1], r = t.index.rank;
  if (out.numel() == 0) return nullptr;
  if (rows == 0) return kOutOfRange;
  Tensor head = out;  // the first element of each row
  head.rank = static_cast<int>(r);
  std::atomic<bool> outside = false;
  ParallelFor(*c.scratch, c.workers, t.index.numel(), 4, [&](int64_t first, int64_t end, Scratch& own) {
    if (own.querying()) return DequantizeRow(t, 0, c, nullptr, 1, own);
    for (Positions<2> at(t.index, {&t.index, &head}, first); first < end; ++first, at.Next()) {
      const int64_t row = t.index.dtype == DType::kI64 ? *reinterpret_cast<const int64_t*>(at[0])
                                                       : *reinterpret_cast<const int32_t*>(at[0]);
      if (row < 0 || row >= rows) {
        outside = true;
        return;
      }
      DequantizeRow(t, row, c, at[1], out.strides[r], own);
    }
  });
  return outside ? kOutOfRange : nullptr;
}

constexpr Kernel kKernels[] = {With<QuantLinearAttributes, QuantEmbedding>(
    {.name = "quant_embedding",
     .inputs = 3,
     .any_type = true,
     .packed = {Packable::kNever, Packable::kBytesAndNibbles, Packable::kFloats, Packable::kFloatsAndBytes},
     .queries_workspace = true})};

}  // namespace

std::span<const Kernel> QuantEmbeddingKernels() { return kKernels; }

}  // namespace slipway::kernels
