#!/usr/bin/env bash
# The kernels and the runtime for 64-bit Arm (NEON), as slipway carries them (cmake/CrossRuntime.cmake): their unit
# tests run, and plans that this machine's slipway wrote run and compared with what it computes. The
# group "arm" runs this first (tests/groups.py): the build that is tested carries the runtime from then on.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SLIPWAY=${SLIPWAY:-$ROOT/build/slipway}
BUILD=$(dirname "$SLIPWAY")
OUT=$BUILD/aarch64
TRIPLE=aarch64-linux-gnu
source "$ROOT/tests/builds/lib.bash"
needs g++-aarch64-linux-gnu qemu-user googletest
mkdir -p "$OUT"
cmake -DSLIPWAY_AARCH64=ON "$BUILD" > "$OUT/build.log" || { cat "$OUT/build.log"; exit 1; }
cmake --build "$BUILD" --target aarch64_tests slipway slipway_shared run_plan -j "$JOBS" > "$OUT/build.log" \
  || { tail -n 40 "$OUT/build.log"; exit 1; }
arm() { qemu-aarch64 -L /usr/$TRIPLE "$@"; }

# The library that models are put into: its payload is alone in the last segment, as the exporter wants it.
$TRIPLE-readelf -lW "$OUT/libslipway_runtime.so" | grep -E '^ +0[0-9] ' | grep -F '.slipway_payload' \
  | grep -qE '^ +[0-9]+ +\.slipway_payload *$'

# Instruction sets of x86-64 report themselves as not run, which is no news.
arm "$OUT/kernel_tests" --gtest_brief=1 | sed '/^not run/d'

# qemu's usual processor has all instructions; products of bf16 were not skipped.
arm "$OUT/kernel_tests" --gtest_filter=Gemm.SumsOfTwoProductsOfBF16 | grep -qF '[  PASSED  ] 1 test.'

# Products of integers on a processor without dot products, and on one with those of signed bytes alone.
products_on() {  # CPU and the instruction sets that it lacks
  local cpu=$1 missing=$2
  arm -cpu "$cpu" "$OUT/kernel_tests" --gtest_brief=1 \
    --gtest_filter='Dot.*:IntegerConv.*:Products.*:QuantLinear.*' > "$OUT/log" \
    || { cat "$OUT/log"; exit 1; }
  [ "$(sed -n 's/^not run: \(dotprod\|i8mm\)$/\1/p' "$OUT/log" | sort -u | xargs)" = "$missing" ]
}
products_on cortex-a53 'dotprod i8mm'
products_on cortex-a76 i8mm

# Plans: the same file on both sides, numbers near each other.
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
count=0
for program in "$ROOT"/tests/arm/*.sw "$ROOT/tests/cli/net.sw"; do
  "$SLIPWAY" convert "$program" -o "$WORK/m.so" -q
  arm "$OUT/run_plan" "$WORK/m.so" > "$WORK/arm" 2> "$WORK/arm.isa"
  "${RUN_PLAN:-$BUILD/run_plan}" "$WORK/m.so" > "$WORK/here" 2> "$WORK/here.isa"
  grep -q '^neon' "$WORK/arm.isa"
  relative=2e-5
  [ "$(basename "$program")" != halves.sw ] || relative=8e-3
  paste "$WORK/arm" "$WORK/here" | awk -v name="$(basename "$program")" -v relative=$relative '
    NF != 2 { bad = 1 }
    { d = $1 - $2; if (d < 0) d = -d; m = $2 < 0 ? -$2 : $2; if ($1 != $2 \
      && !(d <= 1e-5 + relative * m)) bad = 1; if (d > worst) worst = d }
    END { printf "%s: %d numbers, at most %g apart\n", name, NR, worst + 0; exit bad || NR == 0 }'
  count=$((count + 1))
done
echo "$count plans as on $(uname -m)"
