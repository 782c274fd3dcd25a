// The inner loop of products for AVX2 with FMA, in assembler: compilers move loads across steps until the sums do not
// fit the registers any more, which costs 4 to 8 % of what the processor can do. Included by body.h, inside its
// namespaces.

// sum[r][v] = sum over p < k of a[r * a_row + p] · (b + p * b_row)[v], for 6 rows and two vectors, the second `b_next`
// elements after the first. Every fourth step fetches the next line at `ahead`, unless that is null.
SLIPWAY_INLINE void SumTile(int64_t k, const float* a, int64_t a_row, const float* b, int64_t b_row, int64_t b_next,
                            const char* ahead, Vec (&sum)[6][2]) {
// Loads of one right row, then each of the left rows' elements, broadcast, times these.
#define SLIPWAY_ROWS(AT0, AT1, S0, S1, S2, S3)                                     \
  "vbroadcastss " AT0                                                              \
  ", %%ymm14\n\t"                                                                  \
  "vbroadcastss " AT1                                                              \
  ", %%ymm15\n\t"                                                                  \
  "vfmadd231ps %%ymm12, %%ymm14, %[" S0 "]\n\tvfmadd231ps %%ymm13, %%ymm14, %[" S1 \
  "]\n\t"                                                                          \
  "vfmadd231ps %%ymm12, %%ymm15, %[" S2 "]\n\tvfmadd231ps %%ymm13, %%ymm15, %[" S3 "]\n\t"
#define SLIPWAY_STEP(P)                                                                                               \
  "vmovups (%[b]), %%ymm12\n\tvmovups (%[b],%[next]), %%ymm13\n\t" SLIPWAY_ROWS(P "(%[a])", P "(%[a],%[row])", "s00", \
                                                                                "s01", "s10", "s11")                  \
      SLIPWAY_ROWS(P "(%[a],%[row],2)", P "(%[d])", "s20", "s21", "s30", "s31")                                       \
          SLIPWAY_ROWS(P "(%[d],%[row])", P "(%[d],%[row],2)", "s40", "s41", "s50", "s51") "add %[b_row], %[b]\n\t"
#define SLIPWAY_CLEAR(S) "vxorps %[" S "], %[" S "], %[" S "]\n\t"
  const float* d = a + 3 * a_row;
  int64_t fours = k / 4, rest = k % 4;
  const int64_t row = a_row * 4, bytes = b_row * 4, next = b_next * 4, step = ahead != nullptr ? 64 : 0;
  if (ahead == nullptr) ahead = reinterpret_cast<const char*>(b);
  asm volatile(
      SLIPWAY_CLEAR("s00") SLIPWAY_CLEAR("s01") SLIPWAY_CLEAR("s10") SLIPWAY_CLEAR("s11") SLIPWAY_CLEAR("s20") SLIPWAY_CLEAR("s21")
      SLIPWAY_CLEAR("s30") SLIPWAY_CLEAR("s31") SLIPWAY_CLEAR("s40") SLIPWAY_CLEAR("s41") SLIPWAY_CLEAR("s50") SLIPWAY_CLEAR("s51")
      "test %[fours], %[fours]\n\t"
      "jz 2f\n"
      "1:\n\t"
      "prefetcht0 (%[ahead])\n\t"
      SLIPWAY_STEP("0") SLIPWAY_STEP("4") SLIPWAY_STEP("8") SLIPWAY_STEP("12")
      "add $16, %[a]\n\t"
      "add $16, %[d]\n\t"
      "add %[step], %[ahead]\n\t"
      "dec %[fours]\n\t"
      "jnz 1b\n"
      "2:\n\t"
      "test %[rest], %[rest]\n\t"
      "jz 4f\n"
      "3:\n\t"
      SLIPWAY_STEP("0")
      "add $4, %[a]\n\t"
      "add $4, %[d]\n\t"
      "dec %[rest]\n\t"
      "jnz 3b\n"
      "4:"
      : [s00] "=&x"(sum[0][0]), [s01] "=&x"(sum[0][1]), [s10] "=&x"(sum[1][0]), [s11] "=&x"(sum[1][1]), [s20] "=&x"(sum[2][0]),
        [s21] "=&x"(sum[2][1]), [s30] "=&x"(sum[3][0]), [s31] "=&x"(sum[3][1]), [s40] "=&x"(sum[4][0]), [s41] "=&x"(sum[4][1]),
        [s50] "=&x"(sum[5][0]), [s51] "=&x"(sum[5][1]), [a] "+r"(a), [d] "+r"(d), [b] "+r"(b), [fours] "+r"(fours),
        [rest] "+r"(rest), [ahead] "+r"(ahead)
      : [row] "r"(row), [b_row] "r"(bytes), [next] "r"(next), [step] "r"(step)
      : "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
#undef SLIPWAY_ROWS
#undef SLIPWAY_STEP
#undef SLIPWAY_CLEAR
}
