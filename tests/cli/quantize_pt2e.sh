# `slipway quantize --config pt2e-x86`: a program without metadata is known by its operators; what is said, what is
# refused with which exit code, and that outputs are whole. tests/interop/pt2e_quantizer_test.py compares with torchao.
source "$ROOT/tests/cli/lib.bash"
cat > net.sw <<'SW'
slipway.ir 1
weights {
  $conv.weight: f32[4,3,3,3] @ random(seed=1)
  $norm.weight: f32[4] @ random(seed=2)
  $norm.var: f32[4] @ splat(0.25)
  $fc.weight: f32[5,4] @ random(seed=3)
}
graph main(
  %w: f32[4,3,3,3] = parameter $conv.weight,
  %g: f32[4] = parameter $norm.weight,
  %v: f32[4] = buffer $norm.var,
  %f: f32[5,4] = parameter $fc.weight,
  %x: f32[1,3,8,8],
) {
  %c: f32[1,4,6,6] = aten.conv2d.default(input=%x, weight=%w)
  %n: f32[1,4,6,6] = NORM
  %r: f32[1,4,6,6] = aten.relu.default(self=%n)
  %p: f32[1,4,1,1] = aten.adaptive_avg_pool2d.default(self=%r, output_size=[1, 1])
  %l: f32[1,4] = aten.flatten.using_ints(self=%p, start_dim=1)
  %y: f32[1,5] = aten.linear.default(input=%l, weight=%f)
  return %y
}
SW
# One line of more than 120 columns.
norm="aten.batch_norm.default(input=%c, weight=%g, bias=None, running_mean=%v, running_var=%v, training=false"
sed -i "s/NORM/$norm, momentum=0.1, eps=1e-5, cudnn_enabled=false)/" net.sw
sed 's/f32/bf16/g' net.sw > half.sw
python3 - <<'PY'
import json, struct
def save(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
def x(n): return [((i * 37) % 101 - 50) / 25 for i in range(n)]
save("data.safetensors", {"input.0": ([4, 1, 3, 8, 8], x(768))})
save("in.safetensors", {"input.0": ([1, 3, 8, 8], x(192))})
save("nan.safetensors", {"input.0": ([1, 3, 8, 8], [float("nan")] + x(191))})
save("inf.safetensors", {"input.0": ([1, 3, 8, 8], [float("inf")] + x(191))})
save("huge.safetensors", {"input.0": ([1, 3, 8, 8], [3e38, -3e38] + x(190))})
save("small.safetensors", {"input.0": ([1, 3, 7, 8], x(168))})
PY

mkdir again
# The same input gives the same bytes, and all targets compute the same.
gives 0 slipway quantize net.sw --config pt2e-x86 --calibration data.safetensors -o q.pt2
says "2 of 2 weights quantized" "4 activations become integers, with 2 scales of 4 samples"
gives 0 slipway quantize net.sw --config pt2e_x86 --calibration data.safetensors -o again/q.pt2
cmp q.pt2 again/q.pt2
gives 0 slipway inspect q.pt2 --ir
[ "$(grep -c quantize_per_tensor.default stdout)" = 8 ]   # of the input, the ReLU, the pool and what is flattened
[ "$(grep -c dequantize_per_channel.default stdout)" = 2 ]
! grep -q "norm\|aten.batch_norm" stdout
grep -q 'conv.weight_qdata: i8\[4,3,3,3\]' stdout
gives 3 slipway quantize q.pt2 --config pt2e-x86 --calibration data.safetensors -o twice.pt2
says "the program is quantized already"
gives 0 slipway convert net.sw --quantize pt2e-x86 --calibration data.safetensors -o q.so
gives 0 slipway run q.pt2 --inputs in.safetensors --outputs a.safetensors
gives 0 slipway run q.so --inputs in.safetensors --outputs b.safetensors
cmp a.safetensors b.safetensors
gives 0 slipway quantize net.sw --config pt2e-xnnpack:per-channel,observer=min-max \
  --calibration data.safetensors -o x.onnx

# A budget for the outputs: layers stay in float.
gives 0 slipway quantize net.sw --config auto --error-budget 90% --calibration data.safetensors -o auto.pt2
says "2 of 2 weights quantized" "0 layers stay in float; outputs on calibration data are"
gives 1 slipway quantize net.sw --config pt2e-x86 --error-budget 0.00001% --calibration data.safetensors -o none.pt2
says "with 1 of 4 layers in float the outputs are still"
[ ! -e none.pt2 ]

# Scales of each run need no data.
gives 0 slipway quantize net.sw --config pt2e-x86:dynamic -o d.pt2
says "2 of 2 weights quantized" "4 activations become integers, with scales of each run"
gives 0 slipway convert d.pt2 -o d.so
gives 0 slipway run d.pt2 --inputs in.safetensors --outputs a.safetensors
gives 0 slipway run d.so --inputs in.safetensors --outputs b.safetensors
cmp a.safetensors b.safetensors
# A weight that is made of the input has a range of data all the same.
sigmoid='%m: f32[1,4] = aten.sigmoid.default(self=%l)'
linear='%y: f32[1,1] = aten.linear.default(input=%l, weight=%m)'
sed "s/^  %y: .*/  $sigmoid\n  $linear/" net.sw > computed.sw
gives 2 slipway quantize computed.sw --config pt2e-x86:dynamic -o q.pt2
says "a layer's weight that is computed of inputs" "--calibration FILE.safetensors"
gives 0 slipway quantize computed.sw --config pt2e-x86:dynamic --calibration data.safetensors -o computed.pt2

# Names, keys and values that there are not.
rm -f q.pt2
gives 2 slipway quantize net.sw --config pt2e-x68 --calibration data.safetensors -o q.pt2
says "unknown configuration 'pt2e-x68'; did you mean 'pt2e-x86'?"
gives 2 slipway quantize net.sw --config pt2e-x86:per-channel,observer=max,reduce-range=1 \
  --calibration data.safetensors -o q.pt2
says "unknown key 'per-channel' of pt2e-x86" "unknown value 'observer=max' of pt2e-x86: histogram, min-max" \
  "'reduce-range' takes no value"
gives 2 slipway quantize net.sw --config pt2e-xnnpack:dynamic --calibration data.safetensors -o q.pt2
says "activations have scales of calibration data only"
gives 2 slipway quantize net.sw --config pt2e-x86:dynamic,observer=min-max -o q.pt2
says "'dynamic' observes no activations"
gives 2 slipway quantize net.sw --config pt2e-x86:dynamic --calibration data.safetensors -o q.pt2
says "pt2e-x86:dynamic computes scales of activations while the program runs"
gives 2 slipway quantize net.sw --config pt2e-x86:dynamic --error-budget 1% -o q.pt2
says "--error-budget does not go with pt2e-x86:dynamic"
gives 2 slipway quantize net.sw --config auto --calibration data.safetensors -o q.pt2
says "--config auto needs a budget"
gives 2 slipway quantize net.sw --config pt2e-x86 --error-budget none --calibration data.safetensors -o q.pt2
says "--error-budget 'none'"
gives 2 slipway quantize net.sw --config pt2e-x86 -o q.pt2
says "pt2e-x86 looks at activations" "--calibration FILE.safetensors"
gives 2 slipway quantize net.sw --config pt2e-x86 --calibration data.safetensors --embeddings int8 -o q.pt2
says "--embeddings does not go with pt2e-x86"
gives 2 slipway quantize data.safetensors --config pt2e-x86 -o q.safetensors
says "pt2e-x86 is for exported programs"

# Data that do not fit, and numbers without a range. Infinities are left out of histograms, as torchao leaves them.
gives 3 slipway quantize net.sw --config pt2e-x86 --calibration small.safetensors -o q.pt2
says "the program takes input.0 of f32[1,3,8,8]"
gives 3 slipway quantize net.sw --config pt2e-x86 --calibration nan.safetensors -o q.pt2
says "activations with NaN have no range" "input x, sample 0 of calibration data"
gives 3 slipway quantize net.sw --config pt2e-x86 --calibration huge.safetensors -o q.pt2
says "activations whose range is not finite in f32"
gives 3 slipway quantize net.sw --config pt2e-x86:observer=min-max --calibration inf.safetensors -o q.pt2
says "activations whose range is not finite in f32"

# What is chosen.
gives 3 slipway quantize net.sw --config pt2e-x86 --calibration data.safetensors -o q.pt2 --exclude nothing.there
says "--exclude 'nothing.there' is found in the name of no module, weight or operator"
gives 3 slipway quantize net.sw --config pt2e-x86 --calibration data.safetensors -o q.pt2 --exclude 'conv|linear'
says "nothing is quantized: pt2e-x86 takes no layer of the program"
gives 3 slipway quantize half.sw --config pt2e-x86 --calibration data.safetensors -o q.pt2
says "the program takes input.0 of bf16[1,3,8,8]"
[ ! -e q.pt2 ]
gives 0 slipway quantize net.sw --config pt2e-x86 --calibration data.safetensors -o q.pt2 --exclude '^fc.weight$' \
  --require-all
says "stays: excluded" "1 of 2 weights quantized"
sed 's/random(seed=3)/splat(nan)/' net.sw > nan.sw
gives 3 slipway quantize nan.sw --config pt2e-x86 --calibration data.safetensors -o q.pt2
says "'fc.weight': it has infinities or NaN"

# Whole or not at all.
gives 5 slipway quantize net.sw --config pt2e-x86 --calibration data.safetensors -o missing/q.pt2
