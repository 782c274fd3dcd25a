#!/usr/bin/env bash
# Slipway itself for 64-bit Arm, built and tested on another machine with Debian 12, in build/arm64: what is there
# already is skipped. By hand, parts by name, and tests by suite:
#
#     scripts/cross_aarch64.sh [packages] [root] [onnx] [archives] [python] [build]
#                                                                    (default: packages root onnx build)
#     scripts/cross_aarch64.sh test [SUITE[/FILE]...]                (default: unit golden cli)
#     scripts/cross_aarch64.sh emulate COMMAND...                    a command to which this is a 64-bit Arm machine
#
# The libraries are Debian's packages for arm64, unpacked into build/arm64/root, which is the compiler's and the
# emulator's root, too; the machine's own packages and settings stay as they are. scripts/build_wheel.sh sources this
# file for its functions.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

ARM="$BUILD/arm64"
ARM_ROOT="$ARM/root"
ARM_DEPS="$ARM_ROOT/opt"  # below the root, where the toolchain file has CMake look for libraries
ARM_PYTHON="$ARM/python"
TOOLCHAIN="$ROOT/cmake/aarch64.cmake"
TARGETS=(shipped unit_tests run_pass diagnostics_doc flags_doc ops_doc)
HOST_TOOLS=(g++-aarch64-linux-gnu qemu-user)

# The packages of libraries among those that slipway is built with, and the Python that a wheel is tried under.
arm_packages() { printf '%s\n' "${DEBIAN_PACKAGES[@]}" | grep -E '^(lib|zlib).*-dev$|^python3-venv$'; }

get_root() {
  local work="$ARM/root-download" apt package packages link
  rm -rf "$work" "$ARM_ROOT"
  mkdir -p "$work/root"
  : >"$work/status"  # no package is installed, so that each comes with all that it needs
  own_apt "$work" deb -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::status=$work/status" \
    -o "Dir::State=$work"
  mapfile -t packages < <(arm_packages)
  "${apt[@]}" install --yes --no-install-recommends --download-only "${packages[@]}"
  for package in "$work"/cache/archives/*.deb; do dpkg-deb -x "$package" "$work/root"; done
  find "$work/root" -type l -lname '/*' -printf '%P\n' | while read -r link; do  # such as libz.so: -> /lib/…
    ln -sfnr "$work/root$(readlink "$work/root/$link")" "$work/root/$link"
  done
  for package in "${ARCHIVES_PACKAGES[@]}"; do
    dpkg-deb -W --showformat='${source:Package}=${source:Version}\n' "$work/cache/archives/${package}"_*.deb
  done >"$work/root/packages"
  arm_packages >"$work/root/.stamp"
  mv "$work/root" "$ARM_ROOT"
  rm -rf "$work"
}

setup_root() {
  if [[ "$(cat "$ARM_ROOT/.stamp" 2>/dev/null)" == "$(arm_packages)" ]]; then
    skip "Debian's libraries for arm64"
  else
    step "Debian's libraries for arm64, in build/arm64/root (20 MB)" get_root
  fi
}

setup_arm_onnx() { setup_onnx "$ARM_DEPS/onnx" -DONNX_OPTIMIZE=-Os "-DCMAKE_TOOLCHAIN_FILE=$TOOLCHAIN"; }

setup_arm_archives() {
  setup_simdjson "$ARM_DEPS/simdjson" aarch64-linux-gnu-
  setup_archives "$ARM_DEPS/archives" "$(cat "$ARM_ROOT/packages")" "-DCMAKE_TOOLCHAIN_FILE=$TOOLCHAIN"
}

make_arm_python() {
  emulate "$ARM_ROOT/usr/bin/python3" -m venv "$ARM_PYTHON"
  emulate "$ARM_PYTHON/bin/pip" install --disable-pip-version-check \
    "$(grep '^numpy==' "$ROOT/samples/requirements.txt")"
}

setup_arm_python() {
  if [[ -e "$ARM_PYTHON/bin/numpy-config" && -e "$ARM_PYTHON/bin/python" ]]; then  # a link into build/arm64/root
    skip "Python for arm64, with numpy"
  else
    step "Python for arm64, with numpy, in build/arm64/python" make_arm_python
  fi
}

build_arm() {
  cd "$ROOT"
  [[ -e "$ARM/build.ninja" ]] || cmake --preset aarch64
  cmake --build "$ARM" -j "$JOBS" --target "${TARGETS[@]}"
}

# What scripts of tests ask the machine for: its name, and compilers of programs for it.
arm_commands() {
  local tool name
  mkdir -p "$ARM/bin"
  for name in cc gcc c++ g++; do
    case $name in *cc) tool=gcc ;; *) tool=g++ ;; esac
    printf '#!/bin/sh\nexec aarch64-linux-gnu-%s --sysroot="%s" "$@"\n' $tool "$ARM_ROOT" >"$ARM/bin/$name"
  done
  printf '#!/bin/sh\nif [ "$*" = -m ]; then echo aarch64; else exec %s "$@"; fi\n' "$(command -v uname)" \
    >"$ARM/bin/uname"
  chmod +x "$ARM"/bin/*
}

# emulate COMMAND...: while it runs, the kernel starts qemu for programs for 64-bit Arm: for this command only, in a
# namespace of its own (Linux 6.7 and later) in which their libraries lie beside the machine's, where the machine does
# not do that anyway (qemu-user-binfmt).
emulate() (  # a shell of its own: PATH stays as it is
  arm_commands
  export PATH="$ARM/bin:$PATH"
  if grep -qs '^enabled' /proc/sys/fs/binfmt_misc/qemu-aarch64; then
    QEMU_LD_PREFIX="$ARM_ROOT" "$@"
  else
    unshare --user --map-root-user --mount bash -euc '
      # Magic bytes of a 64-bit ELF file, program or shared object, of machine 183, and which of their bits count.
      magic="\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
      bits="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
      mount -t overlay overlay -o "lowerdir=$1/usr/lib:$1/lib:/usr/lib" /usr/lib
      mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
      printf "%s" ":qemu-aarch64:M::$magic:$bits:$(command -v qemu-aarch64):P" >/proc/sys/fs/binfmt_misc/register
      shift
      exec "$@"' emulate "$ARM_ROOT" "$@"
  fi
)

test_arm() {
  [[ $# -gt 0 ]] || set -- unit golden cli
  export SLIPWAY_BUILD="$ARM" SLIPWAY_TEST_LIMIT_S="${SLIPWAY_TEST_LIMIT_S:-7200}"
  emulate "$VENV/bin/python" "$ROOT/tests/runner.py" "$@"
}

DEBIAN_PACKAGES+=("${HOST_TOOLS[@]}")
[[ "${BASH_SOURCE[0]}" == "$0" ]] || return 0
[[ $# -gt 0 ]] || set -- packages root onnx build
while [[ $# -gt 0 ]]; do
  case "$1" in
    packages) setup_packages ;;
    root) setup_root ;;
    onnx) setup_arm_onnx ;;
    archives) setup_arm_archives ;;
    python) setup_arm_python ;;
    build) step "slipway for arm64 (${TARGETS[*]})" build_arm ;;
    emulate | test)
      command="$1"
      shift
      if [[ "$command" == test ]]; then test_arm "$@"; else emulate "$@"; fi
      exit
      ;;
    *) fail "no such part: $1 (packages, root, onnx, archives, python, build, test, emulate)" ;;
  esac
  shift
done
