# verify: whether two models agree, on what inputs, and how it is said.
source "$ROOT/tests/cli/lib.bash"
sed 's/relu.default/sigmoid.default/' net.sw > other.sw
sed 's/return %relu/return %relu, %linear/' net.sw > two.sw
sed 's/f32/f16/g' net.sw > half.sw
slipway convert net.sw -o net.so -q
slipway convert net.sw --to native-pt2 -o package.pt2 -q

# The same, and every kind of model beside every other.
expect 0 '' slipway verify net.sw net.sw
grep -q 'inputs: seed 0 · B = 3 · f32\[3,8\]' stdout
grep -q 'from the f64 reference: A ' stdout
[ "$(tail -n 1 stdout)" = "they agree" ]
expect 0 '' slipway verify net.sw net.so
expect 0 '' slipway verify net.so net.sw
expect 0 '' slipway verify net.sw package.pt2
expect 0 '' slipway verify net.sw net.so --sweep 4 --no-reference
[ "$(grep -c '^inputs: ' stdout)" = 4 ]
grep -q 'B = 1 ' stdout && grep -q 'B = 64 ' stdout
expect 0 '' slipway verify net.sw net.so --adversarial --seed 3
grep -q 'seed 3, edge values' stdout
cp stdout once
expect 0 '' slipway verify net.sw net.so --adversarial --seed 3
cmp once stdout

# Differences: of values, types, numbers of outputs.
expect 1 'SW6001' slipway verify net.sw other.sw
grep -q 'DIFFERS  relu  f32\[3,4\] .*12 of 12 differ, first at \[0,0\]' stdout
[ "$(tail -n 1 stdout)" = "they differ" ]
expect 0 '' slipway verify net.sw other.sw --atol 1000
expect 1 'SW6001' slipway verify net.sw two.sw
grep -q 'A gives 1 outputs, B 2' stdout
expect 1 'SW6001' slipway verify net.sw half.sw
grep -q 'B refuses inputs that A takes: .*f32' stdout
expect 1 'SW6001' slipway verify net.sw other.sw --json
grep -q '"agree":false' stdout
grep -q '"name":"relu","a":"f32\[3,4\]","b":"f32\[3,4\]","agree":false' stdout
grep -q '"reference":{"a":' stdout

# The first node that differs, whichever side is the program.
expect 1 'SW6001' slipway verify net.sw other.sw --layers
grep -q 'first to differ: %relu = aten.relu.default (aten.sigmoid.default in B)' stdout
expect 1 'SW6001' slipway verify net.so other.sw --layers
grep -q 'agrees with A' stdout

# Inputs from files, several of them.
"$PYTHON" -c "
import json, struct
for n, b in ((1, 2), (2, 5)):
    h = json.dumps({'input.0': {'dtype': 'F32', 'shape': [b, 8], 'data_offsets': [0, b * 32]}}).encode()
    open(f'in{n}', 'wb').write(struct.pack('<Q', len(h)) + h + bytes(b * 32))"
expect 0 '' slipway verify net.sw net.so --inputs in1 --inputs in2
grep -q 'inputs: in2 · f32\[5,8\]' stdout
expect 0 '' slipway verify net.so net.so --inputs in1

# What is wrong with the question.
expect 2 'SW1003.*neither is a program' slipway verify net.so net.so
# One model alone: a program beside its library.
expect 0 '' slipway verify net.sw
grep -q '^B  a native library of A' stdout
expect 2 'one library alone' slipway verify net.so
expect 2 . slipway verify net.sw net.so --inputs in1 --seed 1
expect 2 . slipway verify net.sw net.so --atol -1
expect 5 SW3001 slipway verify net.sw nothing.so
expect 5 SW3001 slipway verify net.sw net.so --inputs nothing
expect 3 SW1001 slipway verify net.sw stdout
sed 's/^graph/guard "Mod(B, 100) == 99"\n&/' net.sw > none.sw
expect 3 'no sizes were found' slipway verify none.sw none.sw

# Python without onnxruntime, none at all, one that says nothing or does not end.
echo > net.onnx
mkdir -p bin
printf '#!/bin/sh\nexit 0\n' > bin/mute
printf '#!/bin/sh\nsleep 600\n' > bin/slow
printf '#!/bin/sh\ncat > /dev/null; echo "{\\"error\\": \\"no onnxruntime\\", \\"kind\\": \\"import\\"}"\n' > bin/poor
printf '#!/bin/sh\ncat > /dev/null; kill -SEGV $$\n' > bin/crash
printf '#!/bin/sh\ncat > /dev/null; echo "{\\"version\\": \\"1\\", \\"outputs\\": [], \\"observed\\": [], \\"made\\": '\
'[], \\"opset\\": 20, \\"results\\": [{\\"tensors\\": [{\\"dtype\\": \\"f32\\", \\"shape\\": [4], \\"offset\\": 0, '\
'\\"bytes\\": 16}]}]}"\n' > bin/liar
chmod +x bin/*
expect 4 'SW6002.*no onnxruntime' slipway verify net.sw net.onnx --python bin/poor
grep -q 'help: pip install onnxruntime numpy, and name that Python by --python' stderr
expect 4 'SW6002' slipway verify net.sw net.onnx --python bin/missing
expect 4 'SW6002' slipway verify net.sw net.onnx --python bin/mute
expect 6 'SW4001.*more than 0.2 s' slipway verify net.sw net.onnx --python bin/slow --timeout 0.2
expect 3 'SW1001.*signal 11' slipway verify net.sw net.onnx --python bin/crash
expect 3 'SW1001' slipway verify net.sw net.onnx --python bin/liar
# The environment beside the binary is tried when PATH has none that serves.
mkdir -p alone/venv/bin
cp "$SLIPWAY" alone/slipway
expect 4 'SW6002.*python3' env PATH="$PWD/bin" alone/slipway verify net.sw net.onnx
cp bin/poor alone/venv/bin/python
expect 4 'SW6002.*python3.*no onnxruntime' env PATH="$PWD/nothing" alone/slipway verify net.sw net.onnx
printf '#!/bin/sh\ncat > /dev/null; echo "{\\"version\\": \\"1\\", \\"outputs\\": [], \\"observed\\": [], \\"made\\": '\
'[], \\"opset\\": 20, \\"results\\": [{\\"error\\": \\"too hot\\", \\"kind\\": \\"run\\"}]}"\n' > bin/fussy
chmod +x bin/fussy
expect 1 SW6001 slipway verify net.sw net.onnx --python bin/fussy
grep -q 'B refuses inputs that A takes: onnxruntime: too hot' stdout
# Nobody reads the answer: the signal ends it, as before other programs were run.
{ timeout 60 "$SLIPWAY" verify net.sw net.onnx --python bin/fussy 2> stderr || echo $? > ended; } | true
[ "$(cat ended)" != 124 ] || fails "it does not end without a reader"
