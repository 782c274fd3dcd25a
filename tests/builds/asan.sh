# The preset asan: all rooms with AddressSanitizer and UndefinedBehaviorSanitizer, but not optimized, which takes half
# the time; the program runs.
source "$ROOT/tests/builds/lib.bash"
SETTINGS="-DSLIPWAY_QUICK=ON $NO_ARM" compiles asan slipway capi_walk
for kind in onnx pt2 so; do
  "$ROOT/build/presets/asan/slipway" convert "$ROOT/tests/golden/recognize_norms.sw" -o m.$kind
done
