// Kernels `attention` and `quant_attention`: scaled dot-product attention without the matrix of all scores. Blocks of
// queries meet blocks of keys, and each row's largest score, sum and result so far are corrected as blocks come (online
// softmax: Milakov and Gimelshein, 2018). A block of keys and values is packed for several blocks of queries, a group,
// which meet it one after the other. Keys that a mask of false or -inf hides from all queries of a block, such as those
// that a cache has not written yet or that a sliding window has left behind, are not read. Sums are f32; operands are
// f32 or narrower. Queries, keys and values of bf16 are multiplied as such where the processor has instructions for it,
// and so are weights, rounded to bf16.
//
// Keys and values of `quant_attention` are int8 or float8, each row with a scale. For a few queries codes are widened
// in registers, and scales multiply scores and weights; for many a block is dequantized before it is packed. Query
// heads that share keys and have a query each are taken together, so that these are widened once.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/convert.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packing.h"
#include "kernels/gemm/product.h"
#include "kernels/isa/bf16_gemm.h"
#include "kernels/registry.h"
#include "kernels/scratch.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

constexpr const char* kTypes = "attention is for f32 and narrower";
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kMaxKeys = 512, kScores = 16384;  // of a block: scores stay in the near caches
constexpr int64_t kManyQueries = 12;                // for so many keys and values are packed
constexpr int64_t kGroup = 16;                      // blocks of queries

// The last two dims of a tensor, at one place of the leading ones.
struct Plane {
  char* at = nullptr;
  DType dtype = DType::kF32;
  int64_t row = 0, column = 0;
  char* Row(int64_t i) const { return at + i * row * ByteSize(dtype); }
  MatrixRef Matrix(int64_t first_row) const { return {Row(first_row), dtype, row, column}; }
  CodeRows Codes(int64_t first_row) const { return {Row(first_row), dtype, row}; }
};

// Keys or values: rows, and a scale for each of them where they are codes.
struct Rows {
  Plane plane, scales;
};

// Places [begin, end) that are within [0, n).
struct Span {
  int64_t begin = 0, end = 0;
};

// Joins `span` with the first to the last of `mask`'s n elements, `column` apart, that differ from `hidden`.
template <typename T>
void JoinVisible(const T* mask, int64_t column, int64_t n, T hidden, Span* span) {
  int64_t first = 0, last = n;
  while (first < span->begin && mask[first * column] == hidden) ++first;
  while (last > span->end && mask[(last - 1) * column] == hidden) --last;
  if (first >= last && span->begin >= span->end) return;
  *span = {std::min(first, span->begin), std::max(last, span->end)};
}

// From the first to the last of keys [j, j + n) that one of the queries [i, i + rows) sees; `mask` is there.
Span Visible(const Plane& mask, int64_t i, int64_t rows, int64_t j, int64_t n) {
  Span span = {n, 0};
  if (mask.row == 0) rows = 1;
  for (int64_t r = i; r < i + rows && (span.begin > 0 || span.end < n); ++r) {
    const char* at = mask.Row(r) + j * mask.column * ByteSize(mask.dtype);
    const auto join = [&]<typename T>(T hidden) {
      JoinVisible(reinterpret_cast<const T*>(at), mask.column, n, hidden, &span);
    };
    switch (mask.dtype) {
      case DType::kBool: join(uint8_t{0}); break;
      case DType::kF32: join(uint32_t{0xff800000}); break;  // -inf
      case DType::kBF16: join(uint16_t{0xff80}); break;
      case DType::kF16: join(uint16_t{0xfc00}); break;
      default: return {0, n};
    }
  }
  return span;
}

// The sizes of one head, and of the blocks that it is taken in.
struct AttentionShape {
  // `heads` of them are shared out among `threads`.
  AttentionShape(int64_t queries, int64_t keys, int64_t width, int64_t out_width, float scale, bool causal,
                 int64_t heads = 1, int64_t threads = 1)
      : queries(queries), keys(keys), width(width), out_width(out_width), scale(scale), causal(causal),
        block_keys(std::clamp<int64_t>(keys, 1, kMaxKeys)),
        block_queries(EvenBlock(queries, std::max<int64_t>(12, kScores / block_keys))),
        blocks((queries + block_queries - 1) / block_queries) {
    // One block of keys stays packed from one group to the next.
    if (packs() && keys > block_keys)
      group = std::clamp<int64_t>(heads * blocks / (4 * threads), 1, std::min(kGroup, blocks));
    groups = (blocks + group - 1) / group;
  }

  // Rows of a block, of at most `most`: as many in each, in sixes (a tile of a product).
  static int64_t EvenBlock(int64_t n, int64_t most) {
    const int64_t blocks = std::max<int64_t>(1, (n + most - 1) / most);
    return std::max<int64_t>(1, std::min(n, ((n + blocks - 1) / blocks + 5) / 6 * 6));
  }
  int64_t KeysFrom(int64_t j) const { return std::min(block_keys, keys - j); }
  bool packs() const { return queries >= kManyQueries; }

  const int64_t queries, keys, width, out_width;
  const float scale;
  const bool causal;
  const int64_t block_keys, block_queries, blocks;
  int64_t group = 1, groups;  // blocks of queries that are taken together; how often
};

class Attention {
 public:
  // Takes its memory from `scratch`; where that counts, products count theirs and nothing else may be called.
  Attention(const AttentionShape& shape, const Tensor& q, const Tensor& k, const Tensor& v, bool quantized,
            Scratch& scratch)
      : s_(shape), scratch_(scratch), halves_(MultipliesBf16(shape, q, k, v)),
        scales_queries_(!halves_ || IsPowerOfTwo(shape.scale)),
        scores_(scratch.Take<float>(s_.block_queries * s_.block_keys)),
        scaled_(scratch.Take<float>(s_.group * s_.block_queries * s_.width)),
        result_(scratch.Take<float>(s_.group * s_.block_queries * s_.out_width)),
        keys_(s_.packs() ? scratch.Take<float>(Panels(s_.block_keys) * s_.width) : nullptr),
        values_(s_.packs() ? scratch.Take<float>(Panels(s_.out_width) * s_.block_keys) : nullptr),
        weights_(halves_ ? scratch.Take<uint16_t>(s_.block_queries * Even(s_.block_keys)) : nullptr),
        most_(scratch.Take<float>(s_.group * s_.block_queries)), sum_(scratch.Take<float>(s_.group * s_.block_queries)),
        mask_row_(scratch.Take<float>(std::max(s_.block_keys, s_.width))),
        scales_(quantized ? scratch.Take<float>(s_.block_keys) : nullptr),
        wide_(quantized && s_.packs() ? scratch.Take<float>(s_.block_keys * std::max(s_.width, s_.out_width))
                                      : nullptr) {
    if (!scratch.querying() || (quantized && !s_.packs())) return;
    // Whole blocks, and what is left of queries and keys.
    const int r = k.rank;
    for (int64_t rows : {s_.block_queries, (s_.queries - 1) % s_.block_queries + 1})
      for (int64_t n : {s_.block_keys, (s_.keys - 1) % s_.block_keys + 1}) {
        GemmF32(Scores(0, rows, n, {nullptr, k.dtype, k.strides[r - 1], k.strides[r - 2]}), nullptr, scratch);
        GemmF32(Result(0, rows, n, {nullptr, v.dtype, v.strides[r - 2], v.strides[r - 1]}, s_.block_keys), nullptr,
                scratch);
      }
  }

  // The queries of group `i`. `mask`: at is null where there is none.
  void Run(const Plane& q, const Rows& k, const Rows& v, const Plane& mask, const Plane& out, int64_t i) {
    const int64_t first = i * s_.group * s_.block_queries,
                  count = std::min(s_.group * s_.block_queries, s_.queries - first);
    Begin(q, first, count);
    const int64_t seen = Seen(first + count);
    for (int64_t j = 0; j < seen; j += s_.block_keys) {
      if (s_.packs()) Pack(k, v, j);
      for (int64_t at = 0; at < count; at += s_.block_queries)
        Meet(k, v, mask, first, at, std::min(s_.block_queries, count - at), j);
    }
    End(out, first, count);
  }

 private:
  static int64_t Panels(int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }
  static int64_t Even(int64_t n) { return n + n % 2; }
  static bool IsPowerOfTwo(float x) {
    int exponent;
    return std::frexp(x, &exponent) == 0.5f;
  }
  static bool MultipliesBf16(const AttentionShape& s, const Tensor& q, const Tensor& k, const Tensor& v) {
    return s.packs() && s.width % 2 == 0 && s.block_keys > 1 && q.dtype == DType::kBF16 && k.dtype == DType::kBF16 &&
           v.dtype == DType::kBF16 && BestBf16Gemm() != nullptr;
  }

  // Keys that queries before `end` see: none after the last of these.
  int64_t Seen(int64_t end) const { return s_.causal ? std::min(s_.keys, end) : s_.keys; }

  // The product of `rows` scaled queries of the group from `at` on and n keys; of their weights and n values. Keys and
  // values that are packed lie in keys_ and values_ (of `packed_rows`) whatever `keys` and `values` say.
  GemmParams Scores(int64_t at, int64_t rows, int64_t n, const MatrixRef& keys) const {
    GemmParams g;
    g.m = rows, g.n = n, g.k = s_.width;
    g.a = {scaled_ + at * s_.width, DType::kF32, s_.width, 1};
    if (halves_) g.a = {queries() + at * s_.width, DType::kBF16, s_.width, 1};
    g.packed = s_.packs();
    g.b = g.packed ? MatrixRef{keys_, halves_ ? DType::kBF16 : DType::kF32, s_.width, 0} : keys;
    g.c = scores_, g.c_stride = n;
    return g;
  }
  GemmParams Result(int64_t at, int64_t rows, int64_t n, const MatrixRef& values, int64_t packed_rows) const {
    GemmParams g;
    g.m = rows, g.n = s_.out_width, g.k = n;
    g.a = {scores_, DType::kF32, n, 1};
    g.packed = s_.packs();
    g.b = g.packed ? MatrixRef{values_, DType::kF32, packed_rows, 0} : values;
    if (halves_) {
      g.k = Even(n);
      g.a = {weights_, DType::kBF16, g.k, 1}, g.b = {values_, DType::kBF16, Even(packed_rows), 0};
    }
    g.c = result_ + at * s_.out_width, g.c_stride = s_.out_width;
    return g;
  }

  void Begin(const Plane& q, int64_t first, int64_t count) {
    begun_.fill(false);
    for (int64_t i = 0; i < count; ++i) {
      const char* from = q.Row(first + i);
      if (halves_) {
        QueryOfBf16(from, q.column, queries() + i * s_.width);
        continue;
      }
      float* row = scaled_ + i * s_.width;
      if (q.dtype != DType::kF32 || q.column != 1) {
        LoadRow<float>(from, q.dtype, q.column, s_.width, q.dtype, row);
        from = reinterpret_cast<const char*>(row);
      }
      Times(reinterpret_cast<const float*>(from), s_.scale, s_.width, row);
    }
    std::fill_n(most_, count, -kInf);
    std::fill_n(sum_, count, 0.0f);
  }
  uint16_t* queries() const { return reinterpret_cast<uint16_t*>(scaled_); }
  void QueryOfBf16(const char* from, int64_t column, uint16_t* to) {
    float* const row = mask_row_;  // room for a row: block_keys or width, see the constructor
    LoadRow<float>(from, DType::kBF16, column, s_.width, DType::kBF16, row);
    if (scales_queries_) Times(row, s_.scale, s_.width, row);
    isa_.elementwise.convert_from_f32(row, to, DType::kBF16, s_.width);
  }
  // `rows` queries of the group from `at` on meet the keys and values from j on.
  void Meet(const Rows& k, const Rows& v, const Plane& mask, int64_t first, int64_t at, int64_t rows, int64_t j) {
    int64_t n = std::min(s_.block_keys, Seen(first + at + rows) - j);
    if (n <= 0) return;
    if (mask.at != nullptr) {
      const Span seen = Visible(mask, first + at, rows, j, n);
      if (seen.begin >= seen.end) return;
      n = seen.end;
      if (!s_.packs()) j += seen.begin, n -= seen.begin;
    }
    bool& begun = begun_[static_cast<size_t>(at / s_.block_queries)];
    const bool codes = scales_ != nullptr && !s_.packs();
    if (codes) {
      isa_.attention.dots(scaled_ + at * s_.width, rows, k.plane.Codes(j), n, s_.width, scores_);
      TimesScales(k.scales, j, n, rows);
    } else {
      GemmF32(Scores(at, rows, n, {k.plane.Row(j), k.plane.dtype, k.plane.column, k.plane.row}), nullptr, scratch_);
    }
    if (!scales_queries_) isa_.elementwise.scale(scores_, s_.scale, rows * n);
    if (mask.at != nullptr && mask.row == 0) LoadMask(mask, 0, j, n);
    for (int64_t i = 0; i < rows; ++i) Weights(mask, first, at + i, scores_ + i * n, j, n, !begun);
    if (codes) {
      TimesScales(v.scales, j, n, rows);
      isa_.attention.combine(scores_, rows, v.plane.Codes(j), n, s_.out_width, begun, result_ + at * s_.out_width);
    } else {
      if (halves_)
        for (int64_t i = 0; i < rows; ++i) {
          uint16_t* const to = weights_ + i * Even(n);
          isa_.elementwise.convert_from_f32(scores_ + i * n, to, DType::kBF16, n);
          if (n % 2 != 0) to[n] = 0;
        }
      GemmParams result = Result(at, rows, n, v.plane.Matrix(j), s_.KeysFrom(j));
      result.accumulate = begun;
      GemmF32(result, nullptr, scratch_);
    }
    begun = true;
  }
  void End(const Plane& out, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      float* row = result_ + i * s_.out_width;
      if (!begun_[static_cast<size_t>(i / s_.block_queries)]) std::fill_n(row, s_.out_width, 0.0f);
      const float by = sum_[i] != 0 ? 1 / sum_[i] : 1;  // nothing but -inf: zeros
      if (out.dtype == DType::kF32 && out.column == 1) {
        Times(row, by, s_.out_width, reinterpret_cast<float*>(out.Row(first + i)));
        continue;
      }
      isa_.elementwise.scale(row, by, s_.out_width);
      StoreRow<float>(row, s_.out_width, out.Row(first + i), out.dtype, out.column);
    }
  }

  void Times(const float* x, float by, int64_t n, float* to) {
    isa_.elementwise.binary[static_cast<int>(PairOp::kMul)](x, &by, to, n, 2);
  }

  // Scales of rows [j, j + n), to scales_.
  void LoadScales(const Plane& scales, int64_t j, int64_t n) {
    LoadRow<float>(scales.Row(j), DType::kF32, scales.row, n, DType::kF32, scales_);
  }
  // Column i of the scores, or of the weights, is of a row of codes with a scale of its own.
  void TimesScales(const Plane& scales, int64_t j, int64_t n, int64_t rows) {
    LoadScales(scales, j, n);
    for (int64_t i = 0; i < rows; ++i)
      isa_.elementwise.binary[static_cast<int>(PairOp::kMul)](scores_ + i * n, scales_, scores_ + i * n, n, 0);
  }
  // Rows [j, j + n) as they are, or dequantized.
  Plane Floats(const Rows& x, int64_t j, int64_t n, int64_t width) {
    if (scales_ == nullptr) return {x.plane.Row(j), x.plane.dtype, x.plane.row, x.plane.column};
    LoadScales(x.scales, j, n);
    isa_.attention.dequantize(x.plane.Codes(j), scales_, n, width, wide_);
    return {reinterpret_cast<char*>(wide_), DType::kF32, width, 1};
  }

  // The block of keys and values from j on, unless it is what there is already.
  void Pack(const Rows& k, const Rows& v, int64_t j) {
    const std::array<const char*, 2> at = {k.plane.Row(j), v.plane.Row(j)};
    if (at == packed_) return;
    const int64_t n = s_.KeysFrom(j);
    packed_ = at;
    if (halves_) {
      PackPanels({at[0], DType::kBF16, k.plane.column, k.plane.row}, s_.width, n, 0, Panels(n) / kPanel, keys_);
      auto* to = reinterpret_cast<uint16_t*>(values_);
      for (int64_t panel = 0; panel < Panels(s_.out_width) / kPanel; ++panel, to += Even(n) * kPanel) {
        PackPanels(v.plane.Matrix(j), n, s_.out_width, panel, panel + 1, to);
        if (n % 2 != 0) std::fill_n(to + n * kPanel, kPanel, uint16_t{0});
      }
      return;
    }
    const Plane keys = Floats(k, j, n, s_.width);
    isa_.gemm.pack({keys.at, keys.dtype, keys.column, keys.row}, s_.width, n, keys_);
    isa_.gemm.pack(Floats(v, j, n, s_.out_width).Matrix(0), n, s_.out_width, values_);
  }

  // What is added to scores; a mask of bools says which stay.
  void LoadMask(const Plane& mask, int64_t row, int64_t j, int64_t n) {
    const char* from = mask.Row(row) + j * mask.column * ByteSize(mask.dtype);
    LoadRow<float>(from, mask.dtype, mask.column, n, mask.dtype, mask_row_);
    if (mask.dtype == DType::kBool)
      for (int64_t i = 0; i < n; ++i) mask_row_[i] = mask_row_[i] != 0 ? 0 : -kInf;
  }

  // The scores of query i of the group and keys [j, j + n), `row`, become weights; what there is of its result is
  // brought to the same scale.
  void Weights(const Plane& mask, int64_t first, int64_t i, float* row, int64_t j, int64_t n, bool begin) {
    const int64_t kept = s_.causal ? std::clamp<int64_t>(first + i + 1 - j, 0, n) : n;
    float most = most_[i];
    if (mask.at != nullptr) {
      const float* add = mask_row_;
      if (mask.row != 0 && mask.dtype == DType::kF32 && mask.column == 1)
        add = reinterpret_cast<const float*>(mask.Row(first + i)) + j;
      else if (mask.row != 0)
        LoadMask(mask, first + i, j, n);
      most = std::max(most, isa_.reduction.add_max(row, add, mask.dtype == DType::kBool,
                                                   kept));  // of bools: whatever the score was
    } else {
      most = std::max(most, isa_.reduction.max(row, kept));
    }
    std::fill_n(row + kept, n - kept, 0.0f);
    const float shift = most == -kInf ? 0 : most;
    const float sum = isa_.reduction.exp_sum(row, shift, row, kept);
    if (begin) {
      sum_[i] = sum;
    } else {
      const float fade = most_[i] == -kInf ? 0 : std::exp(most_[i] - shift);
      sum_[i] = sum_[i] * fade + sum;
      isa_.elementwise.scale(result_ + i * s_.out_width, most_[i] == -kInf ? 1 : fade, s_.out_width);
    }
    most_[i] = most;
  }

  const AttentionShape& s_;
  Scratch& scratch_;
  const bool halves_;          // products are of bf16: scaled_, keys_ and values_ hold such
  const bool scales_queries_;  // otherwise scores are scaled: bf16 would round
  float *const scores_, *const scaled_, *const result_, *const keys_, *const values_;
  uint16_t* const weights_;  // of `rows` queries, rows filled up to an even number; null unless halves_
  float *const most_, *const sum_, *const mask_row_;
  float *const scales_, *const wide_;  // of a block; null where keys and values are floats
  std::array<const char*, 2> packed_ = {};
  std::array<bool, kGroup> begun_ = {};  // of each block: whether it has met a key
  const Isa& isa_ = BestIsa();
};

// The operands of a call; scales and the mask may be null.
struct Operands {
  Operands(const Call& c, bool quantized)
      : q(c.in[0]), k(c.in[1]), v(c.in[2]), out(c.out[0]), k_scale(quantized ? &c.in[3] : nullptr),
        v_scale(quantized ? &c.in[4] : nullptr),
        mask(c.in.size() > last(quantized) ? &c.in[last(quantized)] : nullptr) {}
  static size_t last(bool quantized) { return quantized ? 5 : 3; }
  const Tensor &q, &k, &v, &out;
  const Tensor *k_scale, *v_scale, *mask;
};

// What is wrong with a call's operands, or null.
const char* Validate(const Call& c, bool quantized) {
  if (c.in.size() < Operands::last(quantized)) return kSizesDiffer;
  const auto [q, k, v, out, k_scale, v_scale, mask] = Operands(c, quantized);
  const int r = out.rank;
  if (r < 2 || q.rank != r || k.rank != r || v.rank != r || (mask != nullptr && mask->rank != r)) return kSizesDiffer;
  if (q.sizes[r - 2] != out.sizes[r - 2] || q.sizes[r - 1] != k.sizes[r - 1] || k.sizes[r - 2] != v.sizes[r - 2] ||
      v.sizes[r - 1] != out.sizes[r - 1] ||
      (mask != nullptr && (mask->sizes[r - 2] != q.sizes[r - 2] || mask->sizes[r - 1] != k.sizes[r - 2])))
    return kSizesDiffer;
  for (const Tensor* scale : {k_scale, v_scale})
    if (scale != nullptr && (scale->rank != r || scale->sizes[r - 2] != k.sizes[r - 2] || scale->sizes[r - 1] != 1 ||
                             scale->dtype != DType::kF32))
      return kSizesDiffer;
  for (int d = 0; d < r - 2; ++d)
    for (const Tensor& t : c.in)
      if (t.sizes[d] != out.sizes[d]) return kSizesDiffer;
  for (const Tensor* t : {&k, &v}) {
    if (quantized && t->dtype != DType::kI8 && t->dtype != DType::kF8E4M3FN) return "codes are int8 or float8_e4m3fn";
    if (quantized && t->strides[r - 1] != 1 && t->sizes[r - 1] > 1) return "rows of codes are dense";
    if (!quantized && (ComputeType(t->dtype) != DType::kF32 || IsStoredOnly(t->dtype))) return kTypes;
  }
  for (const Tensor* t : {&q, &out})
    if (ComputeType(t->dtype) != DType::kF32 || IsStoredOnly(t->dtype)) return kTypes;
  return mask != nullptr && IsStoredOnly(mask->dtype) ? kTypes : nullptr;
}

// The tensors of a call as AttentionShape sees them: those of query heads that share keys, and have a query each, as of
// queries of one head.
struct Heads {
  Heads(const Operands& o, bool causal)
      : q(o.q), k(o.k), v(o.v), out(o.out), k_scale(o.k_scale != nullptr ? *o.k_scale : Tensor()),
        v_scale(o.v_scale != nullptr ? *o.v_scale : Tensor()), mask(o.mask != nullptr ? *o.mask : Tensor()) {
    const int r = out.rank, head = r - 3, row = r - 2;
    if (o.k_scale == nullptr || causal || r < 3 || out.sizes[row] != 1 || out.sizes[head] == 1) return;
    for (const Tensor* t : {&k, &v, &k_scale, &v_scale})
      if (t->strides[head] != 0) return;
    for (Tensor* t : {&k, &v, &k_scale, &v_scale}) t->sizes[head] = 1;
    for (Tensor* t : {&q, &out, &mask}) {
      std::swap(t->sizes[head], t->sizes[row]);
      std::swap(t->strides[head], t->strides[row]);
    }
  }
  Tensor q, k, v, out, k_scale, v_scale, mask;
};

// out[…,l,f] = softmax over s of (in[0][…,l,e] · in[1][…,s,e] · scale + mask) · in[2][…,s,f]; of codes in[3] and in[4]
// are the scales of keys and of values, [..., s, 1]; the last operand is the mask where there is one, of bools or
// numbers, [..., l, s]. Leading dims are equal (the caller expands them). Rows that see nothing are zeros.
template <bool kQuantized>
const char* ScaledDotProductAttention(const Call& c, const AttentionAttributes& a) {
  if (const char* wrong = Validate(c, kQuantized)) return wrong;
  const Operands operands(c, kQuantized);
  if (operands.out.numel() == 0) return nullptr;
  const auto [q, k, v, out, k_scale, v_scale, mask] = Heads(operands, a.causal);
  const int r = out.rank;
  const Tensor heads = Head(out, r - 2);
  const AttentionShape shape(out.sizes[r - 2], k.sizes[r - 2], q.sizes[r - 1], out.sizes[r - 1],
                             static_cast<float>(a.scale), a.causal, heads.numel(),
                             c.workers != nullptr ? c.workers->threads : 1);
  // Groups of one head after the other, so that its keys stay near.
  ParallelFor(*c.scratch, c.workers, heads.numel() * shape.groups, 1,
              [&](int64_t first, int64_t last, Scratch& scratch) {
                Attention attention(shape, q, k, v, kQuantized, scratch);
                if (scratch.querying()) return;
                Positions<0> head(heads, {}, first / shape.groups);
                auto plane = [&](const Tensor& t) -> Plane {
                  return t.rank == 0 ? Plane{} : Plane{head.Of(t), t.dtype, t.strides[r - 2], t.strides[r - 1]};
                };
                for (int64_t i = first; i < last; ++i) {
                  attention.Run(plane(q), {plane(k), plane(k_scale)}, {plane(v), plane(v_scale)}, plane(mask),
                                plane(out), i % shape.groups);
                  if ((i + 1) % shape.groups == 0) head.Next();
                }
              });
  return nullptr;
}

// Of the two products, the one with the keys; the work is that of both, over the keys that queries see.
template <bool kQuantized>
bool AttentionProduct(const Call& c, const AttentionAttributes& a, int64_t rows, Product* p) {
  if (Validate(c, kQuantized) != nullptr) return false;
  const Operands o(c, kQuantized);
  const int r = o.q.rank;
  p->batch = SizeOf(o.q, 0, 0, r - 2), p->m = SizeOf(o.q, 0, r - 2, r - 1), p->k = SizeOf(o.q, 0, r - 1, r),
  p->n = SizeOf(o.k, 1, r - 2, r - 1);
  if (rows > 0) p->m.value = rows;
  const double queries = static_cast<double>(p->m.value), keys = static_cast<double>(p->n.value),
               less = std::min(queries, keys);
  const double pairs = a.causal ? less * (less + 1) / 2 + (queries - less) * keys : queries * keys;
  p->operations =
      2 * static_cast<double>(p->batch.value) * pairs * static_cast<double>(o.q.sizes[r - 1] + o.v.sizes[r - 1]);
  for (size_t i = 1; i < Operands::last(kQuantized); ++i) p->bytes += BytesOf(c.in[i]);
  p->matrix = 1;
  const AttentionShape shape(p->m.value, p->n.value, p->k.value, o.v.sizes[r - 1], 1, a.causal);
  p->loop = {BestIsa().name, !shape.packs()
                                 ? kQuantized ? "codes widened in registers" : "keys and values read in place"
                             : kQuantized ? "blocks of keys and values dequantized and packed"
                                          : "blocks of keys and values packed"};
  return true;
}

constexpr Kernel kKernels[] = {With<AttentionAttributes, ScaledDotProductAttention<false>>(
                                   {.name = "attention",
                                    .inputs = 3,
                                    .queries_workspace = true,
                                    .product = ProductOfCall<AttentionAttributes, AttentionProduct<false>>}),
                               With<AttentionAttributes, ScaledDotProductAttention<true>>(
                                   {.name = "quant_attention",
                                    .inputs = 5,
                                    .any_type = true,
                                    .queries_workspace = true,
                                    .product = ProductOfCall<AttentionAttributes, AttentionProduct<true>>})};

}  // namespace

std::span<const Kernel> AttentionKernels() { return kKernels; }

}  // namespace slipway::kernels
