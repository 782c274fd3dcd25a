// See gemm_fast.h.
#include "kernels/gemm_fast.h"

#include <algorithm>

namespace slipway::kernels {

namespace {

// Products below so many multiplications are not worth another thread's attention.
constexpr double kAlone = 64 * 1024;
// Of a part. Rows: by more than 64 the way a sum is taken does not depend on how many there are. Columns: of what is not
// packed the loops take up to 128 together (isa_body.h), and treat what is left otherwise; of packed weights two panels.
constexpr int64_t kRowGrain = 96, kColumnGrain = 128, kPackedGrain = 2 * kPanel;

const char* Advance(const MatrixRef& x, int64_t elements) {
  return static_cast<const char*>(x.data) + elements * ByteSize(x.dtype);
}

// The parts of a product that threads take: blocks of rows, or columns.
class Split {
 public:
  Split(const GemmCall& g, const Workers* workers) : g_(g) {
    if (workers == nullptr || workers->threads < 2 ||
        static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) < kAlone)
      return;
    workers_ = workers;
    // Of a packed weight each thread takes its own columns, if that gives each enough: nobody packs what another packs, too.
    const bool by_columns = g.packed && g.n >= 4 * kPackedGrain * workers->threads;
    by_rows_ = g.m / kRowGrain > 1 && g.m > g.n / 8 && !by_columns;
    n_ = by_rows_ ? g.m / kRowGrain : g.n;
    grain_ = by_rows_ ? 1 : g.packed ? kPackedGrain : kColumnGrain;
  }
  // Calls f(part) for each, at the same time.
  template <typename F>
  void ForEach(F f) const {
    if (workers_ == nullptr) return f(g_);
    ParallelFor(workers_, n_, grain_, [&](int64_t begin, int64_t end) { f(Part(begin, end)); });
  }
  // Bytes for a part.
  Need PartNeed() const {
    const Isa& isa = BestIsa();
    const Partition parts(workers_, n_, grain_);
    int64_t floats = workers_ == nullptr ? isa.gemm_scratch(g_) : 0;
    for (int64_t i = 0; workers_ != nullptr && i < parts.parts; ++i)
      floats = std::max(floats, isa.gemm_scratch(Sizes(parts.begin(i), parts.end(i))));
    Need need;
    need.Take<float>(floats);
    return need;
  }
  const Workers* workers() const { return workers_; }
  int64_t parts() const { return Partition(workers_, n_, grain_).parts; }

 private:
  // Of a part, that is without where it lies.
  GemmCall Sizes(int64_t first, int64_t last) const {
    GemmCall part = g_;
    if (by_rows_)
      part.m = (last == n_ ? g_.m : last * kRowGrain) - first * kRowGrain;  // the last block has the rest, so that none has few rows
    else
      part.n = last - first;
    return part;
  }
  GemmCall Part(int64_t first, int64_t last) const {
    GemmCall part = Sizes(first, last);
    if (by_rows_) {
      const int64_t begin = first * kRowGrain;
      part.a.data = Advance(g_.a, begin * g_.a.row);
      part.c = g_.c + begin * g_.c_row;
      return part;
    }
    part.b.data = Advance(g_.b, first * (g_.packed ? g_.b.row : g_.b.column));
    part.c = g_.c + first * g_.c_column;
    if (g_.bias != nullptr) part.bias = g_.bias + first;
    return part;
  }

  const GemmCall& g_;
  const Workers* workers_ = nullptr;  // null: the calling thread alone
  bool by_rows_ = false;
  int64_t n_ = 1, grain_ = 1;
};

}  // namespace

Need GemmNeed(const GemmCall& g, const Workers* workers) {
  const Split split(g, workers);
  Need need;
  need.Share(split.workers(), split.PartNeed(), split.parts());
  return need;
}

void FastGemm(const GemmCall& g, const Workers* workers, Workspace* memory) {
  Workspace own;
  if (memory == nullptr) memory = &own;
  const Workspace::Frame frame(*memory);
  const Split split(g, workers);
  Shares shares(*memory, split.workers(), split.PartNeed().bytes(), split.parts());
  split.ForEach([&](const GemmCall& part) {
    Share share(shares);
    const Isa& isa = BestIsa();
    isa.gemm(part, share.Take<float>(isa.gemm_scratch(part)));
  });
}

}  // namespace slipway::kernels
