#!/usr/bin/env bash
# Fuzzes a reader: scripts/fuzz.sh TARGET [SECONDS], where TARGET is a tests/fuzz/TARGET.cc and SECONDS an hour if not
# said. Built with AddressSanitizer, UBSan and coverage in build/coverage, ten minutes the first time. What it learns
# stays in build/coverage/corpus/TARGET; an input that fails lies in build/coverage as crash-… and is run alone by
# build/coverage/fuzz/fuzz_TARGET FILE.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

targets=$(cd "$ROOT/tests/fuzz" && ls -- *.dict | sed 's/\.dict$//' | xargs)
[[ $# -ge 1 && -e "$ROOT/tests/fuzz/$1.cc" ]] || fail "usage: scripts/fuzz.sh TARGET [SECONDS]; the targets: $targets"
target=$1 seconds=${2:-3600}

build_target() {
  cd "$ROOT"
  [[ -e build/coverage/build.ninja ]] || cmake --preset fuzz
  cmake --build build/coverage -j "$JOBS" --target "fuzz_$target" slipway
}

setup_packages
setup_onnx
setup_fuzz
step "fuzz target $target" build_target
cd "$BUILD/coverage"
mkdir -p "corpus/$target"
[[ -d seeds ]] || python3 "$ROOT/tests/fuzz/make_seeds.py" seeds "$BUILD/coverage/slipway"
exec "./fuzz/fuzz_$target" "corpus/$target" "seeds/$target" -dict="$ROOT/tests/fuzz/$target.dict" \
  -max_total_time="$seconds" -timeout=5 \
  -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1
