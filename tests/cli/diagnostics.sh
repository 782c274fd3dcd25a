# Diagnostics for machines and for terminals.
source "$ROOT/tests/cli/lib.bash"
json() { "$PYTHON" -c 'import json, sys; lines = [json.loads(l) for l in sys.stdin]; print(*[(d["severity"], d["id"], sorted(d)) for d in lines], sep="\n")'; }

expect 5 . slipway convert nothing.pt2 -o m.onnx --diagnostics json
json < stderr | grep -qF "('error', 'SW3001', ['cause', 'help', 'id', 'place', 'severity'])" || fails "not the JSON that is documented"
expect 5 . slipway inspect nothing.pt2 --diagnostics json
json < stderr | grep -q SW3001
expect 0 '' slipway convert net.sw -o m.onnx --diagnostics json

# Names from files cannot break the lines.
sed 's/aten.relu.default(/"my\\nop\\x1b[31m"(/' net.sw > names.sw
expect 4 . slipway convert names.sw -o m2.onnx
! grep -q $'\033' stderr || fails "an escape sequence came through"
expect 4 . slipway convert names.sw -o m2.onnx --diagnostics json
json < stderr > /dev/null

# Colour on a terminal only, and not with NO_COLOR.
env -u NO_COLOR "$PYTHON" -c 'import pty, sys; pty.spawn(sys.argv[1:])' slipway convert nothing.pt2 -o m.onnx > coloured
grep -q $'\033\[31;1m' coloured
NO_COLOR=1 "$PYTHON" -c 'import pty, sys; pty.spawn(sys.argv[1:])' slipway convert nothing.pt2 -o m.onnx > plain
! grep -q $'\033' plain
! grep -q $'\033' stderr
