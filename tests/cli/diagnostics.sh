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
grep -q "^  - 'w.007'" stderr && grep -qx '  … and 20 more' stderr || fails "not a line each"
expect 3 "names are given twice: 'w.000'.*'w.001'" slipway convert few.safetensors few.safetensors -o m.safetensors
expect 3 "w.059" slipway convert many.safetensors many.safetensors -o m.safetensors --diagnostics json
[ "$(wc -l < stderr)" = 1 ] || fails "not one line of JSON"
expect 3 'SW1010.*2 names of the program are missing: fc' slipway convert net.sw -o m.onnx --weights many.safetensors
grep -qx '  --> many.safetensors' stderr && grep -q 'help: slipway diff' stderr || fails "place or help"

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
