# What no lowering at an opset can express says which newer opset can, if one does.
source "$ROOT/tests/cli/lib.bash"
cat > f8.sw <<'T'
slipway.ir 1
graph main(%x: f32[4]) {
  %y: f8e4m3fn[4] = aten._to_copy.default(self=%x, dtype=f8e4m3fn)
  %z: f32[4] = aten._to_copy.default(self=%y, dtype=f32)
  return %z
}
T
expect 4 'SW2001.*f8e4m3fn at opset 18' slipway convert f8.sw -o m.onnx --opset 18
grep -q 'help: --opset 19' stderr || fails "no help"
expect 0 . slipway convert f8.sw -o m.onnx --opset 19
