# One test by its name, as CONTRIBUTING.md says, and a script by itself, with no more than ROOT in the environment (and
# the program, where another build than build/ is tested).
source "$ROOT/tests/cli/lib.bash"
"$PYTHON" "$ROOT/tests/runner.py" cli/version_help.sh golden/flags.golden > said || fails "$(cat said)"
last='2 passed, 0 failed: cli/version_help.sh golden/flags.golden'
grep -q '^ok .*cli/version_help.sh' said && [ "$(tail -n 1 said)" = "$last" ] || fails "$(cat said)"
for wrong in cli/no_such.sh none; do
  expect 2 "no such suite or test: $wrong" "$PYTHON" "$ROOT/tests/runner.py" $wrong
done
mkdir alone
other=()
[ "$SLIPWAY" = "$ROOT/build/slipway" ] || other=(SLIPWAY="$SLIPWAY")
(cd alone && env -i HOME="$PWD" PATH=/usr/bin:/bin ROOT="$ROOT" "${other[@]}" bash -eu -o pipefail \
  "$ROOT/tests/cli/diagnostics.sh") > said 2>&1 || fails "$(cat said)"
