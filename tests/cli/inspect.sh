# inspect: the table, and the text form that comes back the same.
source "$ROOT/tests/cli/lib.bash"
expect 0 '' slipway inspect net.sw --ops
diff stdout - <<'EOF'
net.sw: slipway text, 412 bytes

program model: 2 nodes of 2 operators, as exported
  inputs
    x  f32[B,8]
  outputs
    relu  f32[B,4]
  dims
    B  1..64
  weights: 2 tensors, 144 bytes (2 f32 of 144 bytes)
    fc.weight  f32[4,8]  128 bytes
    fc.bias    f32[4]    16 bytes
  operators
    1  aten.linear.default
    1  aten.relu.default
EOF
slipway inspect net.sw --ir > again.sw
slipway inspect again.sw --ir | cmp - again.sw
expect 2 . slipway inspect net.sw --ir --json
expect 2 . slipway inspect net.sw --sources none
expect 5 SW3001 slipway inspect nothing.pt2
: > model.onnx
expect 3 'SW1001.*the file is empty' slipway inspect model.onnx
printf '\010\007' > model.onnx
expect 3 'SW1001.*without a graph' slipway inspect model.onnx
# An ONNX model: its graph, and what it states beside it. It is told by what is in it, not by its name.
slipway convert net.sw -o model.onnx -q
cp model.onnx model.bin
expect 0 '' slipway inspect model.bin
grep -q 'ONNX model' stdout && grep -q 'opsets: ai.onnx 20' stdout || fails "what is in an ONNX model: $(cat stdout)"
expect 0 '' slipway inspect model.onnx --ir
grep -q '= onnx.Relu(\[%' stdout || fails "nodes of an ONNX model: $(cat stdout)"
expect 0 '' slipway diff model.onnx model.bin
expect 0 "" slipway convert model.onnx -o model.pt2 -q
echo hello > what.bin
expect 3 'SW1001.*what.bin' slipway inspect what.bin
slipway inspect "$ROOT/samples/minilm.pt2" > minilm
grep -q 'without values' minilm
# A reader that stops early is not a crash.
slipway inspect "$ROOT/samples/minilm.pt2" --ir | head -1 | grep -qx 'slipway.ir 1' || true
