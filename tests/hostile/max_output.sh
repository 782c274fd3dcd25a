# Weights of a few bytes that say they are gigabytes (strides of 0) do not fill a disk: exit 6 and no output unless
# --max-output allows it, and the room is known to be there. What is expanded or cast with measure is written as ever.
source "$ROOT/tests/cli/lib.bash"
mkdir out
head -c 64 /dev/zero > few.bin
model() {  # ROWS
  cat <<SW
slipway.ir 1
storages {
  s0 = "few.bin"+0:64
}
weights { \$w: f32[$1,8]{strides=[0,0]} @ s0+0 }
graph main(%w: f32[$1,8]{strides=[0,0]} = parameter \$w, %x: f32[2,8]) {
  %y: f32[2,$1] = aten.linear.default(input=%x, weight=%w)
  return %y
}
SW
}
model 2147483648 > huge.sw
model 400000 > some.sw
slipway convert huge.sw -o huge.pt2 -q  # which keeps strides
[ "$(stat -c %s huge.pt2)" -lt 10000 ] || fails "huge.pt2 is large"
for input in huge.sw huge.pt2; do
  for output in m.onnx m.safetensors m.so shards/; do
    expect 6 SW4001 bash -c "ulimit -v 4000000; exec slipway convert $input -o out/$output"
    only
    expect 6 SW4001 bash -c "ulimit -v 4000000; exec slipway convert $input -o out/$output --dry-run"
  done
done
expect 6 'SW4001.*68719476.* bytes.*--max-output' slipway convert huge.sw -o out/m.safetensors
expect 6 'SW4001.*--max-output' slipway convert huge.sw -o out/m.safetensors --max-output 60GB
only
# Allowed, it asks for the room first: more than there is, or than the limit on files is.
expect 5 SW3001 bash -c 'ulimit -f 1000; exec slipway convert huge.sw -o out/m.safetensors --max-output 70GB'
only
expect 0 '' slipway convert huge.sw -o out/m.safetensors --max-output 70GB --dry-run -q
for output in m.onnx m.safetensors m.so m.pt2; do
  expect 0 '' slipway convert some.sw -o out/$output -q
done
[ "$(stat -c %s out/m.safetensors)" -gt 12800000 ] || fails "m.safetensors lacks elements"
# A limit of one's own holds for any output.
for output in n.onnx n.safetensors n.so n.pt2 p.pt2; do
  expect 6 'SW4001.*--max-output' slipway convert net.sw -o out/$output --max-output 100 \
    $([ $output = p.pt2 ] && echo --to native-pt2)
done
expect 6 'SW4001.*--max-output' slipway unpack huge.pt2 -o parts --max-output 3
[ ! -e parts ] || fails "a folder is left"
expect 2 . slipway convert net.sw -o out/n.onnx --max-output many

# The same from a checkpoint.
"$PYTHON" - <<'PY'
import torch
torch.save({"w": torch.ones(1).expand(1 << 31, 8)}, "huge.pt")
PY
expect 6 'SW4001.*--max-output' slipway convert huge.pt -o out/c.safetensors
