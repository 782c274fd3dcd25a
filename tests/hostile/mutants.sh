# Some mutants of everything that is read, through all commands: tests/hostile/mutate.py says what must never happen,
# and makes any number of them by hand. A sanitized build gets fewer.
"$PYTHON" "$ROOT/tests/hostile/mutate_seeds.py" seeds "$SLIPWAY" 60 2> made
grep -q '[1-9] models, [1-9].* operators' made || { cat made; exit 1; }
if ! "$PYTHON" "$ROOT/tests/hostile/mutate.py" --binary "$SLIPWAY" --seeds seeds --seed 1 --count 100000 --seconds 25 \
  --jobs 2 --keep faults > said; then
  cat said faults/*/what.txt
  exit 1
fi
tail -n 1 said
