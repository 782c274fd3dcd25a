#!/usr/bin/env bash
# The files of a release: wheels for x86-64 and 64-bit Arm, Debian package, sources, an SBOM (CycloneDX) and SHA256SUMS,
# of the commit that is checked out.
#
#     scripts/release.sh [--build FOLDER] [--wheel FILE]... [--out FOLDER]
#     scripts/release.sh --twice
#
# --build: a build of the preset release to package, in place of build/presets/release, which is built. --wheel: a wheel
# that scripts/build_wheel.sh has built, in place of those that are built here; this machine's is linked from the same
# build as the Debian package. --out: an empty folder, in place of build/release. The time in all of them is the
# commit's. --twice makes a release in each of two clones below folders of different names, without the compiler cache,
# and compares them byte by byte; what scripts/setup.sh and scripts/cross_aarch64.sh have got of other projects is the
# same in both.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
DEBIAN_PACKAGES+=("${RELEASE_PACKAGES[@]}")

VERSION=$(cat "$ROOT/VERSION")
build="$BUILD/presets/release" out="$BUILD/release" wheels=() build_wheels=1 twice=
while [[ $# -gt 0 ]]; do
  case "$1" in
    --build) build=$(realpath "$2") && shift ;;
    --out) out=$(realpath -m "$2") && shift ;;
    --wheel) wheels+=("$(realpath "$2")") && build_wheels= && shift ;;
    --twice) twice=1 ;;
    *) fail "usage: scripts/release.sh [--build FOLDER] [--wheel FILE]... [--out FOLDER] | --twice" ;;
  esac
  shift
done

# The changelog's section of this version says something.
check_changelog() {
  awk -v version="## [$VERSION]" '
    /^## / { inside = index($0, version) == 1; next }
    /^\[/ { inside = 0 }
    inside && /^- / { entries++ }
    END { exit entries == 0 }' "$ROOT/CHANGELOG.md" \
    || fail "CHANGELOG.md has no entries for [$VERSION], which VERSION says"
}

build_release() {
  cmake -S "$ROOT" --preset release -B "$build"
  cmake --build "$build" -j "$JOBS" --target shipped
}

make_deb() {
  local work="$out/deb"
  cpack --config "$build/CPackConfig.cmake" -B "$work"
  mv "$work"/*.deb "$out/"
  rm -rf "$work"
}

make_sources() {
  git -C "$ROOT" archive --format=tar --prefix="slipway-$VERSION/" HEAD | gzip -9n >"$out/slipway-$VERSION.tar.gz"
}

# No file names the folders that it was made in.
check_paths() {
  local work="$out/unpacked" file found=0 sources
  sources=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
  mkdir "$work"
  dpkg-deb -x "$out"/*.deb "$work/deb"
  for file in "$out"/*.whl; do
    [[ ! -e $file ]] || python3 -m zipfile -e "$file" "$work/$(basename "$file")"
  done
  for file in "$ROOT" "$build" "$sources"; do
    if grep -rlaF "$file/" "$work"; then found=1; fi
  done
  rm -rf "$work"
  [[ $found == 0 ]] || fail "the files above name folders of this machine"
}

release() {
  local machine wheel
  check_changelog
  [[ ! -e $out || -z "$(ls -A "$out")" ]] || fail "$out is not empty"
  mkdir -p "$out"
  export SOURCE_DATE_EPOCH
  SOURCE_DATE_EPOCH=$(git -C "$ROOT" log -1 --format=%ct)
  if [[ $build == "$BUILD/presets/release" ]]; then
    setup_packages
    setup_shipped_onnx
    setup_simdjson
    setup_archives
    step "slipway, preset release" build_release
  fi
  command -v dpkg-shlibdeps >/dev/null || step "Debian package dpkg-dev" install_packages dpkg-dev
  step "Debian package" make_deb
  step "sources" make_sources
  if [[ -n $build_wheels ]]; then
    "$ROOT/scripts/build_wheel.sh" --build "$build"
    "$ROOT/scripts/build_wheel.sh" aarch64
    for machine in x86_64 aarch64; do wheels+=("$BUILD/dist/slipway-$VERSION"-*"_$machine.whl"); done
  fi
  for wheel in "${wheels[@]}"; do cp "$wheel" "$out/"; done
  step "paths" check_paths
  (cd "$out" && python3 "$ROOT/packaging/sbom.py" "slipway-$VERSION.cdx.json" --licences "$build/licences/copyright" \
    slipway*)
  (cd "$out" && sha256sum slipway* >SHA256SUMS)
  cat "$out/SHA256SUMS"
}

release_twice() {
  local name folder
  "$ROOT/scripts/setup.sh" packages onnx archives
  "$ROOT/scripts/cross_aarch64.sh" packages root onnx archives python
  work=$(mktemp -d)  # not local: the trap runs at the end
  trap 'rm -rf "$work"' EXIT
  for name in a "another place/b"; do
    git clone --quiet "$ROOT" "$work/$name"
    mkdir -p "$work/$name/build/arm64"
    for folder in deps venv arm64/root arm64/python; do ln -s "$BUILD/$folder" "$work/$name/build/$folder"; done
    CCACHE_DISABLE=1 "$work/$name/scripts/release.sh"
  done
  diff -r "$work/a/build/release" "$work/another place/b/build/release"
  echo "the same bytes"
}

if [[ -n $twice ]]; then release_twice; else release; fi
