#!/usr/bin/env bash
# The wheel, in build/dist: `pip install build/dist/slipway-….whl` on any Linux with glibc 2.28 or later, on x86-64 or,
# built by a cross compiler, on 64-bit Arm. Everything but glibc is inside, which is checked before the wheel says so in
# its name. What it promises is tried at the end (packaging/check_wheel.py), for Arm under qemu-user.
#
#     scripts/build_wheel.sh [x86_64|aarch64]       (default: this machine's)
#     scripts/build_wheel.sh --build FOLDER         with the rooms of a build of the preset release, not compiled again
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
DEBIAN_PACKAGES+=("${RELEASE_PACKAGES[@]}")

MACHINE=$(uname -m)
SETTINGS=()  # pip's, for scikit-build-core
while [[ $# -gt 0 ]]; do
  case "$1" in
    --build)
      SETTINGS=(--config-settings "build-dir=$(realpath "$2")" --config-settings cmake.define.SLIPWAY_UNITY=OFF
        --config-settings cmake.define.SLIPWAY_TESTS=ON)
      shift
      ;;
    *) MACHINE="$1" ;;
  esac
  shift
done
PLATFORM="manylinux_2_28_$MACHINE"
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
    "$tools/bin/pip" wheel --disable-pip-version-check --no-deps --no-build-isolation "${SETTINGS[@]}" -w "$made" \
    "$ROOT"
  python3 "$ROOT/packaging/check_glibc.py" --most 2.28 "$made"/slipway-*.whl
  "$tools/bin/wheel" tags --platform-tag "$PLATFORM" --remove "$made"/slipway-*.whl
  python3 "$ROOT/packaging/smaller_wheel.py" "$made"/slipway-*.whl
  mv "$made"/slipway-*.whl "$BUILD/dist/"
  rm -rf "$made"
}

check_wheel() {
  "${PYTHON[@]}" "$ROOT/packaging/check_wheel.py" "$WHEEL" --weights "$DEPS/minilm/model.safetensors" "$@"
}

PYTHON=("$VENV/bin/python") CHECK=()
if [[ "$MACHINE" == "$(uname -m)" ]]; then
  setup_packages
  setup_shipped_onnx
  setup_simdjson
  setup_archives
elif [[ "$MACHINE" == aarch64 ]]; then
  source "$ROOT/scripts/cross_aarch64.sh"
  setup_packages
  setup_root
  setup_arm_onnx
  setup_arm_archives
  SETTINGS=(--config-settings "build-dir=build/wheel-$MACHINE"
    --config-settings "cmake.define.CMAKE_TOOLCHAIN_FILE=$TOOLCHAIN"
    --config-settings "cmake.define.SLIPWAY_DEPS=$ARM_DEPS")
  setup_arm_python
  PYTHON=(emulate "$ARM_PYTHON/bin/python")
  CHECK=(--most-seconds 900)  # an emulator's time says nothing
else
  fail "usage: scripts/build_wheel.sh [x86_64|aarch64] | --build FOLDER; a $(uname -m) machine builds no wheel for" \
    "$MACHINE"
fi
make_venv
step "wheel for $PLATFORM" build_wheel
setup_minilm
step "the wheel in an empty venv, with samples/minilm.pt2" check_wheel "${CHECK[@]}"
cat "$LOGS/check_wheel.log"
