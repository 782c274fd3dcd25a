# The preset asan: all rooms with AddressSanitizer and UndefinedBehaviorSanitizer, but not optimized, which takes half
# the time; unit tests, golden texts and hostile inputs run on it.
source "$ROOT/tests/builds/lib.bash"
folder="$ROOT/build/presets/asan"
SETTINGS="-DSLIPWAY_QUICK=ON $NO_ARM" builds asan all
env -u SLIPWAY SLIPWAY_BUILD="$folder" SLIPWAY_TEST_LIMIT_S=1800 "$PYTHON" "$ROOT/tests/runner.py" unit golden hostile \
  > said 2>&1 || { cat said; exit 1; }
tail -n 1 said
