# The main job on real weights: same bytes each time, --dry-run writes nothing, external data beside the model.
slipway=$SLIPWAY sample=$ROOT/samples/minilm.pt2 weights=$MINILM/model.safetensors
"$slipway" convert "$sample" --weights "$weights" -o a.onnx
"$slipway" convert "$sample" --weights "$weights" -o b.onnx -q --verify-each
cmp a.onnx b.onnx
"$slipway" convert "$sample" --weights "$weights" -o dry.onnx --dry-run 2>err.txt
[ ! -e dry.onnx ] && grep -q 'dry run' err.txt
"$slipway" convert "$sample" --weights "$weights" -o e.onnx --external-data always
[ "$(stat -c %s e.onnx)" -lt 1000000 ] && [ "$(stat -c %s e.onnx.data)" -gt 80000000 ]
"$PYTHON" -c '
import onnx
onnx.checker.check_model("e.onnx", full_check=True)
m = onnx.load("a.onnx", load_external_data=False)
assert m.opset_import[0].version == 20'
# A full disk leaves no partial output.
mkdir full
set +e; (ulimit -f 1000; trap '' XFSZ; "$slipway" convert "$sample" --weights "$weights" -o full/x.onnx \
  2>err.txt); code=$?; set -e
[ "$code" = 5 ] || { cat err.txt; exit 1; }
[ -z "$(ls -A full)" ] || { ls -la full; exit 1; }
