# The preset asan: all rooms with AddressSanitizer and UndefinedBehaviorSanitizer, and all tests; the kernels' run.
source "$ROOT/tests/builds/lib.bash"
compiles asan all
"$ROOT/build/presets/asan/unit_tests" --gtest_brief=1 --gtest_filter='Gemm*:*Conv*:Dot*:Text*' > log 2>&1 ||
  { tail -n 40 log; exit 1; }
