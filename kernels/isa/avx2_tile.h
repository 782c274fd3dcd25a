// The inner loop of products for AVX2 with FMA, in assembler: compilers move loads across steps until the sums do not
// fit the registers any more, which costs 4 to 8 % of what the processor can do, and 20 % of tiles of four rows, whose sums wait for each other.
// Included by body.h, inside its namespaces.

// sum[r][v] (+)= sum over p < k of a[r * a_row + p] · (b + p * b_row)[v], for R rows, 4 to 6, and two vectors, the second `b_next`
// elements after the first: added to what there is, or from zeros. Every fourth step fetches the next line at `ahead`, ahead_step bytes further on,
// unless that is null.
template <int R, bool kFromZeros = false>
SLIPWAY_INLINE void SumTile(int64_t k, const float* a, int64_t a_row, const float* b, int64_t b_row, int64_t b_next,
                            const char* ahead, Vec (&sum)[R][2], int64_t ahead_step = 64) {
  static_assert(R >= 4 && R <= 6);
// A step: loads of one right row, then each of the left rows' elements, broadcast, times these. Rows 0 to 2 lie from rax on, the others from rdx.
#define SLIPWAY_ROW(AT, X, S0, S1) \
  "vbroadcastss " AT ", %%ymm" X "\n\tvfmadd231ps %%ymm12, %%ymm" X ", %" S0 "\n\tvfmadd231ps %%ymm13, %%ymm" X ", %" S1 "\n\t"
#define SLIPWAY_ROWS(AT0, AT1, S0, S1, S2, S3)                                     \
  "vbroadcastss " AT0                                                              \
  ", %%ymm14\n\t"                                                                  \
  "vbroadcastss " AT1                                                              \
  ", %%ymm15\n\t"                                                                  \
  "vfmadd231ps %%ymm12, %%ymm14, %" S0 "\n\tvfmadd231ps %%ymm13, %%ymm14, %" S1     \
  "\n\t"                                                                           \
  "vfmadd231ps %%ymm12, %%ymm15, %" S2 "\n\tvfmadd231ps %%ymm13, %%ymm15, %" S3 "\n\t"
#define SLIPWAY_STEP_OF_4(P)                                                                                           \
  "vmovups (%%rsi), %%ymm12\n\tvmovups (%%rsi,%%r8), %%ymm13\n\t" SLIPWAY_ROWS(P "(%%rax)", P "(%%rax,%%rcx)", "0", "1", "2", "3") \
      SLIPWAY_ROWS(P "(%%rax,%%rcx,2)", P "(%%rdx)", "4", "5", "6", "7") "add %%rdi, %%rsi\n\t"
#define SLIPWAY_STEP_OF_5(P) SLIPWAY_STEP_OF_4(P) SLIPWAY_ROW(P "(%%rdx,%%rcx)", "14", "8", "9")
#define SLIPWAY_STEP_OF_6(P) SLIPWAY_STEP_OF_4(P) SLIPWAY_ROWS(P "(%%rdx,%%rcx)", P "(%%rdx,%%rcx,2)", "8", "9", "10", "11")
// All steps: four at a time, r9 times, and then one at a time, as many as r12 says.
#define SLIPWAY_STEPS(STEP)                                                              \
  "lea (%%rcx,%%rcx,2), %%rdx\n\t"                                                       \
  "add %%rax, %%rdx\n\t"                                                                 \
  "test %%r9, %%r9\n\t"                                                                  \
  "jz 2f\n"                                                                              \
  "1:\n\t"                                                                               \
  "prefetcht0 (%%r10)\n\t" STEP("0") STEP("4") STEP("8") STEP("12")                     \
  "add $16, %%rax\n\t"                                                                   \
  "add $16, %%rdx\n\t"                                                                   \
  "add %%r11, %%r10\n\t"                                                                 \
  "dec %%r9\n\t"                                                                         \
  "jnz 1b\n"                                                                             \
  "2:\n\t"                                                                               \
  "test %%r12, %%r12\n\t"                                                                \
  "jz 4f\n"                                                                              \
  "3:\n\t" STEP("0")                                                                    \
  "add $4, %%rax\n\t"                                                                    \
  "add $4, %%rdx\n\t"                                                                    \
  "dec %%r12\n\t"                                                                        \
  "jnz 3b\n"                                                                             \
  "4:"
  if (ahead == nullptr) ahead = reinterpret_cast<const char*>(b), ahead_step = 0;
  if constexpr (kFromZeros) {
    static_assert(R == 6);
#define SLIPWAY_ZERO(S) "vxorps %" S ", %" S ", %" S "\n\t"
    register const float *rax asm("rax") = a, *rsi asm("rsi") = b;
    register const char* r10 asm("r10") = ahead;
    register int64_t r9 asm("r9") = k >> 2, r12 asm("r12") = k & 3;
    register const int64_t rcx asm("rcx") = a_row * 4, rdi asm("rdi") = b_row * 4, r8 asm("r8") = b_next * 4, r11 asm("r11") = ahead_step;
    asm volatile(SLIPWAY_ZERO("0") SLIPWAY_ZERO("1") SLIPWAY_ZERO("2") SLIPWAY_ZERO("3") SLIPWAY_ZERO("4") SLIPWAY_ZERO("5") SLIPWAY_ZERO("6") SLIPWAY_ZERO("7")
                     SLIPWAY_ZERO("8") SLIPWAY_ZERO("9") SLIPWAY_ZERO("10") SLIPWAY_ZERO("11") SLIPWAY_STEPS(SLIPWAY_STEP_OF_6)
                 : "=&x"(sum[0][0]), "=&x"(sum[0][1]), "=&x"(sum[1][0]), "=&x"(sum[1][1]), "=&x"(sum[2][0]), "=&x"(sum[2][1]), "=&x"(sum[3][0]), "=&x"(sum[3][1]),
                   "=&x"(sum[4][0]), "=&x"(sum[4][1]), "=&x"(sum[5][0]), "=&x"(sum[5][1]), "+r"(rax), "+r"(rsi), "+r"(r10), "+r"(r9), "+r"(r12)
                 : "r"(rcx), "r"(rdi), "r"(r8), "r"(r11)
                 : "rdx", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
#undef SLIPWAY_ZERO
    return;
  }
  // What the code below reads by its place: 12 sums in and out leave no operands for these.
  const struct {
    const float *a, *b;
    const char* ahead;
    int64_t fours, rest, row, b_row, next, step;
  } in = {a, b, ahead, k >> 2, k & 3, a_row * 4, b_row * 4, b_next * 4, ahead_step};
#define SLIPWAY_SUM(STEP, ...)                                                                                         \
  asm volatile(                                                                                                        \
      "mov (%[in]), %%rax\n\t"                                                                                         \
      "mov 8(%[in]), %%rsi\n\t"                                                                                        \
      "mov 16(%[in]), %%r10\n\t"                                                                                       \
      "mov 24(%[in]), %%r9\n\t"                                                                                        \
      "mov 32(%[in]), %%r12\n\t"                                                                                       \
      "mov 40(%[in]), %%rcx\n\t"                                                                                       \
      "mov 48(%[in]), %%rdi\n\t"                                                                                       \
      "mov 56(%[in]), %%r8\n\t"                                                                                        \
      "mov 64(%[in]), %%r11\n\t" SLIPWAY_STEPS(STEP)                                                                   \
      : __VA_ARGS__                                                                                                    \
      : [in] "r"(&in)                                                                                                  \
      : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc")
#define SLIPWAY_SUMS(R) "+x"(sum[R][0]), "+x"(sum[R][1])
  if constexpr (R == 6)
    SLIPWAY_SUM(SLIPWAY_STEP_OF_6, SLIPWAY_SUMS(0), SLIPWAY_SUMS(1), SLIPWAY_SUMS(2), SLIPWAY_SUMS(3), SLIPWAY_SUMS(4), SLIPWAY_SUMS(5));
  else if constexpr (R == 5)
    SLIPWAY_SUM(SLIPWAY_STEP_OF_5, SLIPWAY_SUMS(0), SLIPWAY_SUMS(1), SLIPWAY_SUMS(2), SLIPWAY_SUMS(3), SLIPWAY_SUMS(4));
  else
    SLIPWAY_SUM(SLIPWAY_STEP_OF_4, SLIPWAY_SUMS(0), SLIPWAY_SUMS(1), SLIPWAY_SUMS(2), SLIPWAY_SUMS(3));
#undef SLIPWAY_ROW
#undef SLIPWAY_ROWS
#undef SLIPWAY_STEP_OF_4
#undef SLIPWAY_STEP_OF_5
#undef SLIPWAY_STEP_OF_6
#undef SLIPWAY_STEPS
#undef SLIPWAY_SUM
#undef SLIPWAY_SUMS
}
