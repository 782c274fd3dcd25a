# Each fuzz target of tests/fuzz for two seconds, in the build whose tests run; an hour each is scripts/fuzz.sh.
"$ROOT/scripts/setup.sh" fuzz
cmake "$SLIPWAY_BUILD" > log 2>&1 || { cat log; exit 1; }
cmake --build "$SLIPWAY_BUILD" --target fuzz > log 2>&1 || { tail -n 40 log; exit 1; }
fuzz="$SLIPWAY_BUILD/fuzz"
"$PYTHON" "$ROOT/tests/fuzz/make_seeds.py" seeds "$SLIPWAY"
for binary in "$fuzz"/fuzz_*; do
  target=${binary##*/fuzz_}
  [ -d "seeds/$target" ] || { echo "no seeds of $target"; exit 1; }
  mkdir "$target"
  "$binary" "$target" "seeds/$target" -dict="$ROOT/tests/fuzz/$target.dict" -seed=1 -max_total_time=2 -timeout=10 \
    -rss_limit_mb=4096 \
    > log 2>&1 || { tail -n 30 log; exit 1; }
done

# The same targets as OSS-Fuzz has them, each with a corpus that can be read.
"$ROOT/scripts/fuzz_package.sh" package "$(dirname "$fuzz")"
for binary in "$fuzz"/fuzz_*; do
  name=${binary##*/}
  [ -x "package/$name" ] && [ -s "package/$name.dict" ] && [ -s "package/$name.options" ]
  "$PYTHON" -m zipfile -t "package/${name}_seed_corpus.zip"
done
