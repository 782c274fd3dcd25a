// See gemm_fast.h.
#include "kernels/gemm_fast.h"

#include <cstddef>
#include <new>

namespace slipway::kernels {

Scratch::Scratch(int64_t floats)
    : data_(static_cast<float*>(
          ::operator new(static_cast<size_t>(floats > 0 ? floats : 1) * sizeof(float), std::align_val_t(64)))) {}
Scratch::~Scratch() { ::operator delete(data_, std::align_val_t(64)); }

namespace {

// Products below so many multiplications are not worth another thread's attention.
constexpr double kAlone = 64 * 1024;
// Of a part. Rows: by more than 64 the way a sum is taken does not depend on how many there are. Columns: of what is not
// packed the loops take up to 128 together (isa_body.h), and treat what is left otherwise; of packed weights two panels.
constexpr int64_t kRowGrain = 96, kColumnGrain = 128, kPackedGrain = 2 * kPanel;

const char* Advance(const MatrixRef& x, int64_t elements) {
  return static_cast<const char*>(x.data) + elements * ByteSize(x.dtype);
}

void OnThisThread(const GemmCall& g) {
  const Isa& isa = BestIsa();
  Scratch scratch(isa.gemm_scratch(g));
  isa.gemm(g, scratch.data());
}

}  // namespace

void FastGemm(const GemmCall& g, const Workers* workers) {
  if (workers == nullptr || workers->threads < 2 ||
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) < kAlone)
    return OnThisThread(g);
  // Of a packed weight each thread takes its own columns, if that gives each enough: nobody packs what another packs, too.
  const bool by_columns = g.packed && g.n >= 4 * kPackedGrain * workers->threads;
  if (const int64_t blocks = g.m / kRowGrain; blocks > 1 && g.m > g.n / 8 && !by_columns)
    return ParallelFor(workers, blocks, 1, [&](int64_t first, int64_t last) {
      const int64_t begin = first * kRowGrain;  // the last block has the rest, so that none has few rows
      GemmCall part = g;
      part.m = (last == blocks ? g.m : last * kRowGrain) - begin;
      part.a.data = Advance(g.a, begin * g.a.row);
      part.c = g.c + begin * g.c_row;
      OnThisThread(part);
    });
  ParallelFor(workers, g.n, g.packed ? kPackedGrain : kColumnGrain, [&](int64_t begin, int64_t end) {
    GemmCall part = g;
    part.n = end - begin;
    part.b.data = g.packed ? Advance(g.b, begin * g.b.row) : Advance(g.b, begin * g.b.column);
    part.c = g.c + begin * g.c_column;
    if (g.bias != nullptr) part.bias = g.bias + begin;
    OnThisThread(part);
  });
}

}  // namespace slipway::kernels
