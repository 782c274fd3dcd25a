# For the scripts beside it. Each build has a folder of its own below build/, where the next run goes on; tests run two
# at a time, so a build takes one processor. Under continuous integration no next run follows: the folder is removed.

# builds PRESET TARGET...: with its warnings as errors; SETTINGS are more arguments of CMake.
builds() {
  local preset=$1 folder="$ROOT/build/presets/$1"
  shift
  [ "${CI:-}" != true ] || trap "rm -rf '$folder'" EXIT
  cmake -S "$ROOT" --preset "$preset" -B "$folder" ${SETTINGS:-} > log 2>&1 || { cat log; return 1; }
  grep -qE 'SLIPWAY_TESTS:BOOL=ON' "$folder/CMakeCache.txt"
  cmake --build "$folder" -j 1 --target "$@" > log 2>&1 || { grep -E -A 6 'error:|FAILED' log | head -n 60; return 1; }
}

# compiles PRESET TARGET...: what CONTRIBUTING.md and docs/install.md tell to type.
compiles() {
  builds "$@"
  "$ROOT/build/presets/$1/slipway" --version
}
