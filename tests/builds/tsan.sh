# The preset tsan: the thread pool, the memory that kernels share and the runtime of native libraries under
# ThreadSanitizer. By hand: all tests of kernels, which take minutes (target kernel_thread_tests), and the C API, for
# which all rooms are compiled (SLIPWAY_TSAN_CAPI=1 tests/run.sh builds/tsan.sh).
source "$ROOT/tests/builds/lib.bash"
folder="$ROOT/build/presets/tsan"
builds tsan thread_tests race_native
export TSAN_OPTIONS=halt_on_error=1
"$folder/thread_tests" --gtest_brief=1 > said 2>&1 || { tail -n 60 said; exit 1; }
grep -q 'PASSED' said

# A report is made where there is a race: the run is not one that nothing could fail.
cat > race.cc <<'CC'
#include <thread>
int n = 0;
int main() {
  std::thread t([] { ++n; });
  ++n;
  t.join();
}
CC
c++ -std=c++20 -fsanitize=thread -g race.cc -o race
! ./race 2> said || { echo "no report of a race"; exit 1; }

"$SLIPWAY" convert "$ROOT/tests/cli/net.sw" -o net.so -q
"$SLIPWAY" convert "$ROOT/tests/golden/recognize_norms.sw" -o norms.so -q
"$SLIPWAY" unpack "$ROOT/tests/golden/fuse_conv.sw" -o programs -q
"$SLIPWAY" convert programs/all.pt2 -o convolutions.so -q
for model in net norms convolutions; do
  "$folder/race_native" $model.so 4 10 > said 2>&1 || { tail -n 60 said; exit 1; }
  cat said
done

if [ -z "${SLIPWAY_TSAN_CAPI:-}" ]; then exit 0; fi
builds tsan race_capi
mkdir out
"$SLIPWAY" convert "$ROOT/tests/golden/recognize_norms.sw" -o norms.pt2 -q
models=("$ROOT/tests/cli/net.sw" norms.pt2 programs/all.pt2)
"$folder/race_capi" out 4 3 "${models[@]}" > said 2>&1 || { tail -n 60 said; exit 1; }
cat said
