# Of a program that was exported in training mode, the help is to export it again, not how to bring an operator.
source "$ROOT/tests/cli/lib.bash"
cat > train.sw <<'T'
slipway.ir 1
graph main(%x: f32[4]) {
  %y: f32[4] = aten.dropout.default(input=%x, p=0.5, train=true)
  return %y
}
T
for out in m.onnx m.so; do
  expect 4 'SW2001.*dropout in training mode' slipway convert train.sw -o $out
  grep -q 'help: .*model.eval()' stderr || fails "no help"
  ! grep -qE -- '--custom-op|--plugin' stderr || fails "a help for operators"
  [ ! -e $out ] || fails "$out is there"
done

# With an operator that has no lowering, both; of that alone, only how to bring it.
sed 's/return %y/%z: f32[4] = mine.op.default(%y)\n  return %z/' train.sw > both.sw
expect 4 'SW2001.*mine.op' slipway convert both.sw -o m.onnx
grep -q 'help: .*model.eval().*--custom-op' stderr || fails "not both"
sed 's/train=true/train=false/' both.sw > own.sw
expect 4 'SW2001.*mine.op' slipway convert own.sw -o m.onnx
grep -q 'help: --custom-op' stderr || fails "no help"
! grep -q 'model.eval()' stderr || fails "nothing is of training mode"
