#!/usr/bin/env bash
# The wheel, in build/dist: `pip install build/dist/slipway-….whl` on any Linux on x86-64 with glibc 2.28 or later.
# Everything but glibc is inside, which is checked before the wheel says so in its name. What it promises is tried at
# the end (packaging/check_wheel.py).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

PLATFORM=manylinux_2_28_x86_64
WHEEL="$BUILD/dist/slipway-$(cat "$ROOT/VERSION")-py3-none-$PLATFORM.whl"

build_wheel() {
  local tools="$BUILD/wheel-venv" made="$BUILD/dist/new"
  [[ -x "$tools/bin/pip" ]] || python3 -m venv "$tools"
  "$tools/bin/pip" install --disable-pip-version-check --require-hashes -r "$ROOT/packaging/wheel_requirements.txt"
  rm -rf "$made"
  mkdir -p "$made"
  export SOURCE_DATE_EPOCH  # the same files give the same wheel
  SOURCE_DATE_EPOCH=$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || stat -c %Y "$ROOT/VERSION")
  CMAKE_GENERATOR=Ninja CMAKE_BUILD_PARALLEL_LEVEL="$JOBS" \
    "$tools/bin/pip" wheel --disable-pip-version-check --no-deps --no-build-isolation -w "$made" "$ROOT"
  python3 "$ROOT/packaging/check_glibc.py" --most 2.28 "$made"/slipway-*.whl
  "$tools/bin/wheel" tags --platform-tag "$PLATFORM" --remove "$made"/slipway-*.whl
  python3 "$ROOT/packaging/smaller_wheel.py" "$made"/slipway-*.whl
  mv "$made"/slipway-*.whl "$BUILD/dist/"
  rm -rf "$made"
}

check_wheel() { "$VENV/bin/python" "$ROOT/packaging/check_wheel.py" "$WHEEL" --weights \
  "$DEPS/minilm/model.safetensors"; }

setup_packages
make_venv
setup_onnx
setup_simdjson
step "wheel for $PLATFORM" build_wheel
setup_minilm
step "the wheel in an empty venv, with samples/minilm.pt2" check_wheel
cat "$LOGS/check_wheel.log"
