# The contract of `slipway convert`: exit codes, what stderr gives as the cause, and that a failure leaves the output
# untouched.
slipway=$SLIPWAY sample=$ROOT/samples/minilm.pt2
source <(sed -n '/^cause()/p' "$ROOT/tests/cli/lib.bash")
expect() {  # expect CODE PATTERN COMMAND...: the exit code, and what the line with the cause holds
  want=$1 pattern=$2; shift 2
  set +e; "$@" >out.txt 2>err.txt; got=$?; set -e
  [ "$got" = "$want" ] || { echo "exit $got, expected $want: $*"; cat err.txt; exit 1; }
  cause err.txt | grep -q -- "$pattern" || { echo "the cause lacks '$pattern': $*"; cat err.txt; exit 1; }
  [ ! -s out.txt ] || { echo "stdout is not empty: $*"; exit 1; }
}
printf 'kept' > kept.onnx
expect 5 'missing.pt2' "$slipway" convert missing.pt2 -o kept.onnx
head -c 2000 "$sample" > cut.pt2
expect 3 'SW1001' "$slipway" convert cut.pt2 -o kept.onnx
printf 'PK not a zip' > bad.pt2
expect 3 'SW1001' "$slipway" convert bad.pt2 -o kept.onnx
expect 4 'opset 13' "$slipway" convert "$sample" -o kept.onnx --opset 13
expect 2 'output format' "$slipway" convert "$sample" -o kept.xyz
[ "$(cat kept.onnx)" = kept ]
[ "$(ls | sort | tr '\n' ' ')" = "bad.pt2 cut.pt2 err.txt kept.onnx out.txt " ] || { ls -la; exit 1; }
# Usage errors are 2, --version names the schemas, --diagnostics json is one object a line.
set +e; "$slipway" convert 2>/dev/null; [ $? = 2 ] || exit 1; set -e
"$slipway" --version | grep -q 'opset 18'
set +e; "$slipway" convert bad.pt2 -o x.onnx --diagnostics json 2>err.txt; set -e
"$PYTHON" -c 'import json, sys; d = [json.loads(line) for line in open("err.txt")]; assert d[-1]["id"] == "SW1001", d'
