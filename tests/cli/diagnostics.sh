# Diagnostics for machines and for terminals.
source "$ROOT/tests/cli/lib.bash"
json() { "$PYTHON" -c '
import json, sys
lines = [json.loads(l) for l in sys.stdin]
print(*[(d["severity"], d["id"], sorted(d)) for d in lines], sep="\n")'; }

expect 5 . slipway convert nothing.pt2 -o m.onnx --diagnostics json
json < stderr | grep -qF "('error', 'SW3001', ['cause', 'help', 'id', 'place', 'severity'])" \
  || fails "not the JSON that is documented"
expect 5 . slipway inspect nothing.pt2 --diagnostics json
json < stderr | grep -q SW3001
expect 0 '' slipway convert net.sw -o m.onnx --diagnostics json

# The place is the file at fault, and the help says what would do.
expect 5 'SW3001.*none/m.onnx' slipway convert net.sw -o none/m.onnx
grep -qx '  --> none/m.onnx' stderr && grep -qx '  help: there is no folder none' stderr || fails "place or help"
expect 3 'SW1001.*none.so' slipway convert net.sw -o m.so --plugin none.so
grep -qx '  --> none.so' stderr || fails "place"

# Long lists are a line each, in the text; JSON has one line.
"$PYTHON" - <<'PY'
import json, struct
for file, names in ("many", [f"w.{i:03}" for i in range(60)]), ("few", ["w.000", "w.001"]):
    header = json.dumps({n: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i,
        n in enumerate(names)}).encode()
    open(file + ".safetensors", "wb").write(struct.pack("<Q", len(header)) + header + bytes(4 * len(names)))
PY
expect 3 'names are given twice$' slipway convert many.safetensors many.safetensors -o m.safetensors
grep -q "^  - 'w.007'" stderr && grep -qx '  … and 50 more' stderr || fails "not a line each"
expect 3 "names are given twice: 'w.000'.*'w.001'" slipway convert few.safetensors few.safetensors -o m.safetensors
expect 3 "w.059" slipway convert many.safetensors many.safetensors -o m.safetensors --diagnostics json
[ "$(wc -l < stderr)" = 1 ] || fails "not one line of JSON"
expect 3 'SW1010.*2 names of the program are missing: fc' slipway convert net.sw -o m.onnx --weights many.safetensors
grep -qx '  --> many.safetensors' stderr && grep -q 'help: slipway diff' stderr || fails "place or help"

# So are problems that have a line each: ten, the number of the others, and the one that is of all. JSON has all.
"$PYTHON" - <<'PY'
lines = open("net.sw").read().splitlines()
at = next(i for i, line in enumerate(lines) if "aten.relu.default" in line)
names = [f"  %o{i}: f32[B,8] = mylib.op{i}.default(self=%x)" for i in range(15)]
results = ", ".join(f"%o{i}" for i in range(15))
text = "\n".join(lines[:at] + names + lines[at:]).replace("return %relu", f"return %relu, {results}")
open("ops.sw", "w").write(text + "\n")
PY
expect 4 'not supported at opset 20.*mylib.op14' slipway convert ops.sw -o ops.onnx
[ "$(grep -c '^error' stderr)" = 11 ] && grep -qx '… and 5 more' stderr || fails "not folded after ten"
expect 4 . slipway convert ops.sw -o ops.onnx --diagnostics json
[ "$(wc -l < stderr)" = 16 ] || fails "not all"

# Names from files cannot break the lines.
sed 's/aten.relu.default(/"my\\nop\\x1b[31m"(/' net.sw > names.sw
expect 4 . slipway convert names.sw -o m2.onnx
! grep -q $'\033' stderr || fails "an escape sequence came through"
expect 4 . slipway convert names.sw -o m2.onnx --diagnostics json
json < stderr > /dev/null

# Colour on a terminal only, unless flags and variables say otherwise: --color, NO_COLOR, FORCE_COLOR, TERM.
colour_of() {
  (env -u NO_COLOR TERM=xterm "$@" 2>&1 > /dev/null || :) | grep -q $'\033\[31;1merror' && echo yes || echo no
}
on_terminal() { "$PYTHON" -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$@" 1>&2 2> /dev/null || :; }
export -f on_terminal
terminal() { colour_of "$@" bash -c 'on_terminal slipway inspect nothing.pt2 '"$flags"; }
piped() { colour_of "$@" slipway inspect nothing.pt2 $flags; }
while IFS='|' read -r flags where variables want; do
  [ "$($where $variables)" = "$want" ] || fails "$where, $flags $variables: not $want"
done <<'COLOURS'
|piped||no
|terminal||yes
|terminal|TERM=dumb|no
|terminal|NO_COLOR=1|no
|terminal|NO_COLOR=|yes
|piped|FORCE_COLOR=1|yes
|piped|FORCE_COLOR=0|no
|piped|FORCE_COLOR=1 NO_COLOR=1|no
--color always|piped||yes
--color always|piped|NO_COLOR=1|yes
--color always|terminal|TERM=dumb|yes
--color=never|terminal||no
--color=never|piped|FORCE_COLOR=1|no
--color always --frobnicate|piped||yes
--color always --diagnostics json|piped||no
COLOURS
expect 2 'SW1003.*--color' slipway inspect net.sw --color sometimes
env -u NO_COLOR "$PYTHON" -c 'import pty, sys; pty.spawn(sys.argv[1:])' slipway convert nothing.pt2 -o m.onnx > coloured
grep -q $'\033\[31;1m' coloured
NO_COLOR=1 "$PYTHON" -c 'import pty, sys; pty.spawn(sys.argv[1:])' slipway convert nothing.pt2 -o m.onnx > plain
! grep -q $'\033' plain
! grep -q $'\033' stderr
