# A program without its weights: every target and whatever runs it says so, lists them and says how they are given, and
# writes nothing.
source "$ROOT/tests/cli/lib.bash"
sample=$ROOT/samples/minilm.pt2
mkdir out
printf 'kept' > out/kept
lists() {  # lists HELP COMMAND...
  local help=$1
  shift
  expect 3 'SW1010\]: 102 weights have no values$' "$@"
  grep -q -- "^  help: $help" stderr || fails "the help: $*"
  grep -qx '  - embeddings.word_embeddings.weight' stderr || fails "no list: $*"
  grep -qx '  … and 92 more' stderr || fails "the end of the list: $*"
  only kept
}
for target in onnx so native-pt2; do
  lists '--weights FILE or FOLDER gives them' slipway convert "$sample" -o out/kept --to $target
  [ "$(cat out/kept)" = kept ]
done
lists '--weights FILE or FOLDER gives them' slipway quantize "$sample" -o out/none.pt2 --config int8-weight-only
"$PYTHON" - <<'PY'
import json, struct
header = json.dumps({f"input.{i}": {"dtype": "I64", "shape": [1, 2], "data_offsets": [16 * i, 16 * i + 16]} for i in (0,
    1)}).encode()
open("in.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + struct.pack("<4q", 1, 1, 1, 1))
PY
lists 'slipway convert .*--weights FILE' slipway run "$sample" --inputs in.safetensors --outputs out/none.safetensors
lists 'slipway convert .*--weights FILE' slipway verify "$sample" "$sample"
lists 'slipway convert .*--weights FILE' slipway inspect "$sample" --header

# What needs no values asks for none: an archive, an analysis of sizes, an operator that reads a weight's sizes only.
expect 0 . slipway convert "$sample" -o out/same.pt2
slipway shapes "$sample" > /dev/null
slipway inspect "$sample" > /dev/null
cat > sizes.sw <<'T'
slipway.ir 1
graph main(%p_w: f32[4] = parameter $w, %x: f32[4]) {
  %z: f32[4] = aten.ones_like.default(self=%p_w)
  %y: f32[4] = aten.add.Tensor(self=%x, other=%z)
  return %y
}
T
expect 0 . slipway convert sizes.sw -o out/sizes.so
expect 0 . slipway convert sizes.sw -o out/sizes.onnx

# One without values counts as well as all, beside what kernels lack.
sed 's/ones_like/relu/' sizes.sw > one.sw
expect 3 'SW1010\]: 1 weight has no values: w$' slipway convert one.sw -o out/one.so
expect 3 'SW1010\]: 1 weight has no values: w$' slipway convert one.sw -o out/one.onnx
[ ! -e out/one.so ] && [ ! -e out/one.onnx ]
