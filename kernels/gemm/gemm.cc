// How a product is split among threads, so that the bits do not depend on how many there are: by rows or by columns, in
// parts large enough that the instruction set's loops treat each element as they would in the whole product.
#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "kernels/isa/bf16_gemm.h"

namespace slipway::kernels {

namespace {

// Products below so many multiplications are not worth another thread's attention.
constexpr double kAlone = 64 * 1024;
// Of a part. Rows: by more than 64 the way a sum is taken does not depend on how many there are; of packed weights by
// more than a tile's. Columns: of what is not packed the loops take up to 128 together (isa/body.h), and treat what is
// left otherwise; of packed weights two panels.
constexpr int64_t kRowGrain = 96, kNarrowRowGrain = 24, kColumnGrain = 128, kPackedGrain = 2 * kPanel;

const char* Advance(const MatrixRef& x, int64_t elements) {
  return static_cast<const char*>(x.data) + elements * ByteSize(x.dtype);
}

// The parts of a product that threads take: blocks of rows, or columns.
class Split {
 public:
  Split(const GemmParams& g, const Workers* workers) : g_(g) {
    if (workers == nullptr || workers->threads < 2 ||
        static_cast<double>(g.m) * static_cast<double>(std::max(g.n, kPanel)) * static_cast<double>(g.k) < kAlone)
      return;
    workers_ = workers;
    // Of a packed weight each thread takes its own columns, if that gives each enough: no panel is packed twice.
    const bool by_columns = g.packed && g.n >= 4 * kPackedGrain * workers->threads;
    // One that has too few columns for that is read by all.
    const int64_t rows = g.packed && g.n < 2 * kPackedGrain * workers->threads ? kNarrowRowGrain : kRowGrain;
    by_rows_ = g.m / rows > 1 && g.m > g.n / 8 && !by_columns;
    size_ = by_rows_ ? g.m : g.n;
    block_ = by_rows_ ? rows : g.packed ? kPackedGrain : kColumnGrain;
    // The last block has the rest where so little would go another way than the whole; a packed weight's is always
    // whole panels.
    blocks_ = by_rows_ || !g.packed ? std::max<int64_t>(1, size_ / block_) : (size_ + block_ - 1) / block_;
  }
  // Calls f(part, scratch) for each, at the same time.
  template <typename F>
  void ForEach(Scratch& scratch, F f) const {
    if (workers_ == nullptr) {
      const Scratch::Frame frame(scratch);
      return f(g_, scratch);
    }
    ParallelFor(scratch, workers_, blocks_, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      f(own.querying() ? Sizes(begin, end) : Part(begin, end), own);
    });
  }

 private:
  // The blocks [first, last) without where they lie.
  GemmParams Sizes(int64_t first, int64_t last) const {
    GemmParams part = g_;
    (by_rows_ ? part.m : part.n) = (last == blocks_ ? size_ : last * block_) - first * block_;
    return part;
  }
  GemmParams Part(int64_t first, int64_t last) const {
    GemmParams part = Sizes(first, last);
    const int64_t begin = first * block_;
    if (by_rows_) {
      part.a.data = Advance(g_.a, begin * g_.a.row);
      part.c = g_.c + begin * g_.c_stride;
      if (g_.rounded != nullptr) part.rounded = g_.rounded + begin * g_.rounded_stride;
      return part;
    }
    part.b.data = Advance(g_.b, begin * (g_.packed ? g_.b.row : g_.b.column));
    part.c = g_.c + begin * g_.c_column_stride;
    if (g_.bias != nullptr) part.bias = g_.bias + begin;
    if (g_.rounded != nullptr) part.rounded = g_.rounded + begin;
    return part;
  }

  const GemmParams& g_;
  const Workers* workers_ = nullptr;  // null: the calling thread alone
  bool by_rows_ = false;
  int64_t size_ = 1, block_ = 1, blocks_ = 1;  // rows or columns in all, of a block; blocks
};

}  // namespace

const Bf16GemmMicrokernels* Bf16For(const GemmParams& g) {
  const Bf16GemmMicrokernels* bf16 = BestBf16Gemm();
  return bf16 != nullptr && bf16->supports(g) ? bf16 : nullptr;
}

void GemmF32(const GemmParams& g, const Workers* workers, Scratch& scratch) {
  const Isa& isa = BestIsa();
  if (const Bf16GemmMicrokernels* bf16 = Bf16For(g)) {
    Split(g, workers).ForEach(scratch, [&](const GemmParams& part, Scratch& own) {
      float* const room = own.Take<float>(bf16->workspace(part));
      if (!own.querying()) bf16->run(part, room);
    });
    return;
  }
  Split(g, workers).ForEach(scratch, [&](const GemmParams& part, Scratch& own) {
    float* const room = own.Take<float>(isa.gemm.workspace(part));
    if (!own.querying()) isa.gemm.run(part, room);
  });
}

bool RoundsToBf16(const GemmParams& g) {
  const Bf16GemmMicrokernels* bf16 = Bf16For(g);
  return bf16 != nullptr && bf16->rounds;
}

Loop F32GemmLoop(const GemmParams& g) {
  static constexpr const char* kWays[] = {
      "packed panels read once",         "dots along k", "a sum of rows", "dots along the left rows",
      "tiles of the transposed product", "tiles of f32"};
  const Isa& isa = BestIsa();
  return {isa.name, kWays[static_cast<int>(isa.gemm.algorithm(g))]};
}

Loop GemmLoop(const GemmParams& g) {
  if (const Bf16GemmMicrokernels* bf16 = Bf16For(g)) return {bf16->name, "sums of two products of bf16"};
  return F32GemmLoop(g);
}

}  // namespace slipway::kernels
