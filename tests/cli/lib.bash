# For the scripts beside it: source "$ROOT/tests/cli/lib.bash". tests/runner.py sets their environment; where a script
# is run by hand, from an empty folder, ROOT=… bash -eu -o pipefail …/tests/cli/X.sh does.
: "${SLIPWAY:=$ROOT/build/slipway}" "${PYTHON:=$ROOT/build/venv/bin/python}" "${MINILM:=$ROOT/build/deps/minilm}"
export ROOT SLIPWAY PYTHON MINILM NO_COLOR=1 PATH="$(dirname "$SLIPWAY"):$PATH"
cp "$ROOT/tests/cli/net.sw" .

# fails WHAT...: says what is wrong, with the command's stderr.
fails() {
  echo "$*"
  cat stderr
  return 1
}

# cause FILE: of what was written to stderr, the line that says what went wrong: the last that begins with error[ID],
# else the last of all. Place and help stand behind it.
cause() { grep '^error\[' "$1" | tail -n 1 | grep . || tail -n 1 "$1"; }

# expect STATUS PATTERN COMMAND...: the exit status, and an extended regular expression that the cause matches ('' for
# an empty stderr). Leaves stdout and stderr in files of these names.
expect() {
  local want=$1 pattern=$2 status=0
  shift 2
  "$@" > stdout 2> stderr || status=$?
  [ "$status" = "$want" ] || fails "exit $status, not $want: $*"
  if [ -z "$pattern" ]; then
    [ ! -s stderr ] || fails "stderr is not empty: $*"
  else
    cause stderr | grep -qE -- "$pattern" || fails "the cause does not match '$pattern': $*"
  fi
}

# gives STATUS COMMAND...: the exit status. Leaves stdout and stderr in files of these names.
gives() {
  local want=$1 status=0
  shift
  "$@" > stdout 2> stderr || status=$?
  [ "$status" = "$want" ] || fails "exit $status, not $want: $*"
}

# says TEXT...: each is somewhere in stderr.
says() {
  local text
  for text in "$@"; do grep -qF -- "$text" stderr || fails "stderr lacks '$text'"; done
}

# Nothing but the given names is in the folder OUT.
only() {
  local found
  found=$(ls -A out | tr '\n' ' ')
  [ "$found" = "$*${1:+ }" ] || fails "out/ holds '$found', not '$*'"
}
