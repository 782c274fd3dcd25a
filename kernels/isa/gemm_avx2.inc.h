// The inner loop of products for AVX2 with FMA, in assembler: compilers move loads across steps until the sums do not
// fit the registers any more, which costs 4 to 8 % of what the processor can do, and 20 % of tiles of four rows, whose
// sums wait for each other. Part of tile.inc.h.

// A step: loads of one right row, whose second vector is at B1, then each of the left rows' elements, broadcast, times
// these; and on to the next, NEXT bytes further on. Rows 0 to 2 lie from rax on, the others from rdx, all rcx bytes
// apart.
#define SLIPWAY_ROW(AT, X, S0, S1)                                                                              \
  "vbroadcastss " AT ", %%ymm" X "\n\tvfmadd231ps %%ymm12, %%ymm" X ", %" S0 "\n\tvfmadd231ps %%ymm13, %%ymm" X \
  ", %" S1 "\n\t"
#define SLIPWAY_ROWS(AT0, AT1, S0, S1, S2, S3)                                  \
  "vbroadcastss " AT0                                                           \
  ", %%ymm14\n\t"                                                               \
  "vbroadcastss " AT1                                                           \
  ", %%ymm15\n\t"                                                               \
  "vfmadd231ps %%ymm12, %%ymm14, %" S0 "\n\tvfmadd231ps %%ymm13, %%ymm14, %" S1 \
  "\n\t"                                                                        \
  "vfmadd231ps %%ymm12, %%ymm15, %" S2 "\n\tvfmadd231ps %%ymm13, %%ymm15, %" S3 "\n\t"
#define SLIPWAY_STEP_OF_4(P, B1, NEXT)                                             \
  "vmovups (%%rsi), %%ymm12\n\tvmovups " B1                                        \
  ", %%ymm13\n\t" SLIPWAY_ROWS(P "(%%rax)", P "(%%rax,%%rcx)", "0", "1", "2", "3") \
      SLIPWAY_ROWS(P "(%%rax,%%rcx,2)", P "(%%rdx)", "4", "5", "6", "7") "add " NEXT ", %%rsi\n\t"
#define SLIPWAY_STEP_OF_5(P, B1, NEXT) SLIPWAY_STEP_OF_4(P, B1, NEXT) SLIPWAY_ROW(P "(%%rdx,%%rcx)", "14", "8", "9")
#define SLIPWAY_STEP_OF_6(P, B1, NEXT) \
  SLIPWAY_STEP_OF_4(P, B1, NEXT) SLIPWAY_ROWS(P "(%%rdx,%%rcx)", P "(%%rdx,%%rcx,2)", "8", "9", "10", "11")
// All steps: four at a time, r9 times, each of which fetches the line at r10, and then one at a time, r12 times.
#define SLIPWAY_STEPS(STEP, B1, NEXT) \
  "lea (%%rcx,%%rcx,2), %%rdx\n\t"                                                                    \
  "add %%rax, %%rdx\n\t"                                                                              \
  "test %%r9, %%r9\n\t"                                                                               \
  "jz 2f\n"                                                                                           \
  "1:\n\t"                                                                                            \
  "prefetcht0 (%%r10)\n\t" STEP("0", B1, NEXT) STEP("4", B1, NEXT) STEP("8", B1, NEXT) STEP("12", B1, NEXT) \
  "add $16, %%rax\n\t"                                                                                \
  "add $16, %%rdx\n\t"                                                                                \
  "add %%r11, %%r10\n\t"                                                                              \
  "dec %%r9\n\t"                                                                                      \
  "jnz 1b\n"                                                                                          \
  "2:\n\t"                                                                                            \
  "test %%r12, %%r12\n\t"                                                                             \
  "jz 4f\n"                                                                                           \
  "3:\n\t" STEP("0", B1, NEXT)                                                                       \
  "add $4, %%rax\n\t"                                                                                 \
  "add $4, %%rdx\n\t"                                                                                 \
  "dec %%r12\n\t"                                                                                     \
  "jnz 3b\n"                                                                                          \
  "4:\n\t"

// sum[r][v] += sum over p < k of a[r * a_stride + p] · (b + p * b_stride)[v], for R rows, 4 to 6, and two vectors, the
// second `b_next` elements after the first. Every fourth step fetches the next line at `ahead`, prefetch_stride bytes
// further on, unless that is null.
template <int R>
SLIPWAY_INLINE void AccumulateTile(int64_t k, const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                                   int64_t b_next, const char* ahead, Vec (&sum)[R][2], int64_t prefetch_stride = 64) {
  static_assert(R >= 4 && R <= 6);
  // What the code below reads by its place: 12 sums in and out leave no operands for these.
  const struct {
    const float *a, *b;
    const char* ahead;
    int64_t fours, rest, row, b_stride, next, step;
  } in = {a,
          b,
          ahead != nullptr ? ahead : reinterpret_cast<const char*>(b),
          k / 4,
          k % 4,
          a_stride * 4,
          b_stride * 4,
          b_next * 4,
          ahead != nullptr ? prefetch_stride : 0};
#define SLIPWAY_SUM(STEP, ...)                                                                                  \
  asm volatile(                                                                                                 \
      "mov (%[in]), %%rax\n\t"                                                                                  \
      "mov 8(%[in]), %%rsi\n\t"                                                                                 \
      "mov 16(%[in]), %%r10\n\t"                                                                                \
      "mov 24(%[in]), %%r9\n\t"                                                                                 \
      "mov 32(%[in]), %%r12\n\t"                                                                                \
      "mov 40(%[in]), %%rcx\n\t"                                                                                \
      "mov 48(%[in]), %%rdi\n\t"                                                                                \
      "mov 56(%[in]), %%r8\n\t"                                                                                 \
      "mov 64(%[in]), %%r11\n\t" SLIPWAY_STEPS(STEP, "(%%rsi,%%r8)", "%%rdi")                                   \
      : __VA_ARGS__                                                                                             \
      : [in] "r"(&in)                                                                                           \
      : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "xmm12", "xmm13", "xmm14", "xmm15", \
        "memory", "cc")
#define SLIPWAY_SUMS(R) "+x"(sum[R][0]), "+x"(sum[R][1])
  if constexpr (R == 6)
    SLIPWAY_SUM(SLIPWAY_STEP_OF_6, SLIPWAY_SUMS(0), SLIPWAY_SUMS(1), SLIPWAY_SUMS(2), SLIPWAY_SUMS(3), SLIPWAY_SUMS(4),
                SLIPWAY_SUMS(5));
  else if constexpr (R == 5)
    SLIPWAY_SUM(SLIPWAY_STEP_OF_5, SLIPWAY_SUMS(0), SLIPWAY_SUMS(1), SLIPWAY_SUMS(2), SLIPWAY_SUMS(3), SLIPWAY_SUMS(4));
  else
    SLIPWAY_SUM(SLIPWAY_STEP_OF_4, SLIPWAY_SUMS(0), SLIPWAY_SUMS(1), SLIPWAY_SUMS(2), SLIPWAY_SUMS(3));
#undef SLIPWAY_SUM
#undef SLIPWAY_SUMS
}

// What the runs of a block's tiles share.
struct SegmentSteps {
  int64_t fours = 0, rest = 0;  // steps are 4 · fours + rest
  int64_t skip = 0;             // bytes from the end of a run's weights to those of the next
};
// sum[r][v] = sum over `count` runs and p < k of x[r * x_stride + runs[…] + p] · (b + p * 16)[v], for 6 rows and two
// vectors, one behind the other. Every fourth step fetches the next line, fetch_step bytes further on: of each run from
// `ahead` bytes behind what it reads, or, where that is 0, from `fetch` on. Operands are in registers, and zeros are
// made here: what begins a tile takes a quarter of the time of short sums.
SLIPWAY_INLINE void AccumulateSegments(const SegmentSteps& steps, const float* x, int64_t x_stride, const int64_t* runs,
                                       int64_t count, const float* b, int64_t ahead, const char* fetch,
                                       int64_t fetch_step, Vec (&sum)[6][2]) {
#define SLIPWAY_ZERO(S) "vxorps %" S ", %" S ", %" S "\n\t"
#define SLIPWAY_OUT(R) "=&x"(sum[R][0]), "=&x"(sum[R][1])
  register const SegmentSteps* const r8 asm("r8") = &steps;
  register const float *const rdi asm("rdi") = x, *rsi asm("rsi") = b;
  register const int64_t rcx asm("rcx") = x_stride * 4, r11 asm("r11") = fetch_step;
  register const int64_t *r13 asm("r13") = runs, *const r14 asm("r14") = runs + count;
  register const char* r10 asm("r10") = fetch;
  // clang-format off
  asm volatile(SLIPWAY_ZERO("0") SLIPWAY_ZERO("1") SLIPWAY_ZERO("2") SLIPWAY_ZERO("3") SLIPWAY_ZERO("4")
               SLIPWAY_ZERO("5") SLIPWAY_ZERO("6") SLIPWAY_ZERO("7") SLIPWAY_ZERO("8") SLIPWAY_ZERO("9")
               SLIPWAY_ZERO("10") SLIPWAY_ZERO("11")
               "cmp %%r14, %%r13\n\t"
               "jae 7f\n"
               "5:\n\t"
               "mov (%%r13), %%rax\n\t"
               "lea (%%rdi,%%rax,4), %%rax\n\t"
               "test %[ahead], %[ahead]\n\t"
               "jz 6f\n\t"
               "lea (%%rax,%[ahead]), %%r10\n"
               "6:\n\t"
               "mov (%%r8), %%r9\n\t"
               "mov 8(%%r8), %%r12\n\t" SLIPWAY_STEPS(SLIPWAY_STEP_OF_6, "32(%%rsi)", "$64")
               "add 16(%%r8), %%rsi\n\t"
               "add $8, %%r13\n\t"
               "cmp %%r14, %%r13\n\t"
               "jb 5b\n"
               "7:"
               : SLIPWAY_OUT(0), SLIPWAY_OUT(1), SLIPWAY_OUT(2), SLIPWAY_OUT(3), SLIPWAY_OUT(4), SLIPWAY_OUT(5),
                 "+r"(rsi), "+r"(r10), "+r"(r13)
               : "r"(rdi), "r"(r8), "r"(rcx), "r"(r11), "r"(r14), [ahead] "r"(ahead)
               : "rax", "rdx", "r9", "r12", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
  // clang-format on
#undef SLIPWAY_ZERO
#undef SLIPWAY_OUT
}
#undef SLIPWAY_ROW
#undef SLIPWAY_ROWS
#undef SLIPWAY_STEP_OF_4
#undef SLIPWAY_STEP_OF_5
#undef SLIPWAY_STEP_OF_6
#undef SLIPWAY_STEPS
