#!/usr/bin/env bash
# The fuzz targets as OSS-Fuzz wants them in $OUT: scripts/fuzz_package.sh OUT [BUILD] lays out, for each target that
# BUILD (build/coverage unless said) holds, fuzz_NAME, fuzz_NAME.dict, fuzz_NAME.options and fuzz_NAME_seed_corpus.zip.
# The corpus is what tests/fuzz/make_seeds.py makes and what scripts/fuzz.sh has learned.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

[[ $# -ge 1 && $# -le 2 ]] || fail "usage: scripts/fuzz_package.sh OUT [BUILD]"
mkdir -p "$1"
out=$(realpath "$1") build=$(realpath "${2:-$BUILD/coverage}")
compgen -G "$build/fuzz/fuzz_*" >/dev/null \
  || fail "no fuzz targets in $build: cmake --preset fuzz && cmake --build --preset fuzz"
slipway=${SLIPWAY:-$build/slipway}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$ROOT/tests/fuzz/make_seeds.py" "$work" "$slipway"
for binary in "$build"/fuzz/fuzz_*; do
  name=${binary##*/fuzz_}
  cp "$binary" "$out/"
  cp "$ROOT/tests/fuzz/$name.dict" "$out/fuzz_$name.dict"
  printf '[libfuzzer]\nmax_len = 65536\ntimeout = 5\nrss_limit_mb = 4096\n' >"$out/fuzz_$name.options"
  if [[ -d $build/corpus/$name ]]; then cp -r "$build/corpus/$name/." "$work/$name/"; fi
  rm -f "$out/fuzz_${name}_seed_corpus.zip"
  # Names are sums of the contents, as libFuzzer names what it keeps: the same input is there once.
  python3 - "$work/$name" "$out/fuzz_${name}_seed_corpus.zip" <<'PYTHON'
import hashlib, pathlib, sys, zipfile

inputs = {hashlib.sha1(data).hexdigest(): data
          for data in (file.read_bytes() for file in pathlib.Path(sys.argv[1]).iterdir() if file.is_file())}
if not inputs:
    sys.exit(f"no inputs for {sys.argv[2]}")
with zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED) as out:
    for name in sorted(inputs):
        out.writestr(zipfile.ZipInfo(name), inputs[name], zipfile.ZIP_DEFLATED)
PYTHON
done
