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

# Types of inputs, outputs and weights are no operators: the help is the opset that has them, or how to go without them.
identity() { printf 'slipway.ir 1\ngraph main(%%x: %s[4], %%y: f32[4]) {\n  %%z: f32[4] = %s\n  return %%z, %%x\n}\n' \
  "$1" "$2" > identity.sw; }
identity f8e4m3fn 'aten.relu.default(self=%y)'
expect 4 'SW2001.*f8e4m3fn at opset 18' slipway convert identity.sw -o m.onnx --opset 18
grep -qx '  help: --opset 19 has all that is needed' stderr || fails "no help"
expect 0 . slipway convert identity.sw -o m.onnx --opset 19
for opset in 18 24 28; do
  identity f8e8m0fnu 'aten.relu.default(self=%y)'
  expect 4 'SW2001.*f8e8m0fnu' slipway convert identity.sw -o m.onnx --opset $opset
  grep -q '^  help: export a module around the model' stderr || fails "no help"
  ! grep -q -- '--custom-op' stderr || fails "a help for operators"
done
identity f8e8m0fnu 'mine.op.default(%y)'
expect 4 'SW2001.*mine.op' slipway convert identity.sw -o m.onnx
grep -q '^  help: of operators: --custom-op .*; of types: export a module' stderr || fails "not both"
