# `slipway quantize` on files: what is chosen and said, what is refused with which exit code, and that outputs are
# whole.
source "$ROOT/tests/cli/lib.bash"
python3 - <<'PY'
import json, struct
def save(path, tensors, metadata=None):
    header, data = {}, b""
    if metadata: header["__metadata__"] = metadata
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
def w(n, k): return [n, k], [((i * 37) % 101 - 50) / 50 for i in range(n * k)]
layers = {f"layers.{i}.{p}.weight": w(16, 64) for i in range(3) for p in ("up", "down")}
save("m.safetensors", {**layers, "wte.weight": w(8, 64), "norm.weight": ([64], [1.0] * 64),
                       "attn.in_proj_weight": w(16, 64), "attn.out_proj.weight": w(16, 64),
                       "conv.weight": ([2, 4, 8], [0.5] * 64), "odd.weight": w(8, 60)})
save("nan.safetensors", {"a.weight": ([1, 64], [float("nan")] * 64)})
save("inf.safetensors", {"a.weight": ([1, 64], [float("inf")] + [0.0] * 63)})
save("zero.safetensors", {"a.weight": ([16, 64], [0.0] * 1024)})
save("none.safetensors", {"a.bias": ([4], [0.0] * 4)})
PY

# The closing table says what became of each weight, and why.
gives 0 slipway quantize m.safetensors -o q.safetensors --config int8-weight-only
says "layers.*.up.weight" "(3)" "stays: an embedding" "stays: not called MODULE.weight" \
  "stays: of nn.MultiheadAttention" "stays: 3 dimensions"
says "7 of 11 weights quantized"
gives 0 slipway quantize m.safetensors -o q.safetensors --config int8-weight-only --json -q --html q.html
python3 -c '
import json
r = json.load(open("stdout"))
assert r["quantized"] == 7 and r["bytes_after"] < r["bytes_before"]
assert all(0<w["relative_error"]<.02 for w in r["weights"] if w["config"])'
grep -q '"type":"bars","title":"Relative error by weight"' q.html && grep -q "layers.0.up.weight" q.html

# Groups that do not fit are an error of all weights at once; int4 leaves such weights in float, as torchao does, and
# says so.
gives 3 slipway quantize m.safetensors -o x.safetensors --config int8-weight-only:group=32
says "'odd.weight': 60 input features are not a multiple of the group, 32"
gives 0 slipway quantize m.safetensors -o x.safetensors --config int8-weight-only:group=32 --exclude odd
gives 0 slipway quantize m.safetensors -o x.safetensors --config int4-weight-only:group=32
says "stays: 60 input features are not a multiple of the group, 32"
rm x.safetensors
gives 1 slipway quantize m.safetensors -o x.safetensors --config int4-weight-only:group=32 --require-all
says "--require-all: 1 weights would stay in float: 'odd.weight'"
[ ! -e x.safetensors ]

# Names that meet nothing, configurations that do not exist, weights of which no scale can be made.
gives 3 slipway quantize m.safetensors -o x.safetensors --config int8-weight-only --include nothing --exclude never
says "--include 'nothing'" "--exclude 'never'"
echo '{"_type":"FqnToConfig","_version":1,"_data":{"fqn_to_config":{"layers.9.up":null,"_default":null}}}' >c.json
gives 3 slipway quantize m.safetensors -o x.safetensors --config c.json
says "'layers.9.up' of the configuration is the name of no weight"
gives 2 slipway quantize m.safetensors -o x.safetensors --config int8-wieght-only
says "did you mean 'int8-weight-only'?"
gives 2 slipway quantize m.safetensors -o x.safetensors
for bad in nan inf; do
  for config in int8-weight-only 8da4w int4-weight-only:group=32 float8-weight-only mxfp8 intx:bits=4,group=32,hqq \
    int4-weight-only:group=32,hqq; do
    gives 3 slipway quantize $bad.safetensors -o x.safetensors --config $config
    says "'a.weight'" "infinities or NaN"
  done
done
gives 3 slipway quantize none.safetensors -o x.safetensors --config int8-weight-only
says "no weights of two dimensions"
[ ! -e x.safetensors ]

# The page and the configuration are of an output that is written: also of a program.
cat > net.sw <<'SW'
slipway.ir 1
weights { $up.weight: f32[16, 64] @ "net.bin"+0 }
graph main(%w: f32[16, 64] = parameter $up.weight, %x: f32[3, 64]) {
  %y: f32[3, 16] = aten.linear.default(input=%x, weight=%w)
  return %y
}
SW
python3 -c '
import struct
open("net.bin", "wb").write(struct.pack("<1024f", *(((i * 37) % 101 - 50) / 50 for i in range(1024))))'
gives 0 slipway convert net.sw -o net.onnx --quantize int8-weight-only --html net.html --save-config net.json -q
[ -s net.html ] && [ -s net.json ]
for pair in net.sw:net.onnx m.safetensors:net.safetensors; do
  gives 5 slipway convert ${pair%:*} -o nowhere/${pair#*:} --quantize int8-weight-only --html x.html --save-config \
    x.json -q
  [ ! -e x.html ] && [ ! -e x.json ]
done

# A weight of zeros is one of zeros, whatever the scheme.
for config in int8-weight-only int8-weight-only:per=tensor 8da4w intx:bits=4,group=32,hqq \
  int4-weight-only:group=32,hqq float8-weight-only mxfp8 mxfp4 nvfp4; do
  gives 0 slipway quantize zero.safetensors -o z.safetensors --config $config --json -q
  python3 -c 'import json; [w]=json.load(open("stdout"))["weights"]; assert w["max_error"]==0, w'
done

# Threads change nothing; and so does the environment of a launcher that started one process.
gives 0 slipway quantize m.safetensors -o a.safetensors --config 8da4w --exclude odd --threads 1
gives 0 slipway quantize m.safetensors -o b.safetensors --config 8da4w --exclude odd --threads 4
cmp a.safetensors b.safetensors
export SLURM_PROCID=0 SLURM_NTASKS=1
gives 0 slipway quantize m.safetensors -o b.safetensors --config 8da4w --exclude odd
cmp a.safetensors b.safetensors
export SLURM_PROCID=1 SLURM_NTASKS=2
gives 2 slipway quantize m.safetensors -o b.safetensors --config 8da4w --exclude odd
says "several ranks write a folder"
gives 0 slipway quantize m.safetensors -o b.safetensors --config 8da4w --exclude odd --world-size 1
gives 0 slipway quantize m.safetensors -o ranks/ --config 8da4w --exclude odd --shards 3
says "rank 1 of 2 (Slurm): 1 of 3 files written"
unset SLURM_PROCID SLURM_NTASKS
export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2
gives 0 slipway quantize m.safetensors -o ranks/ --config 8da4w --exclude odd --shards 3
says "rank 0 of 2 (Open MPI): 2 of 3 files written" "the checkpoint is complete"
unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
gives 0 slipway convert ranks/ -o joined.safetensors
# Files of another checkpoint are not mixed in.
gives 4 slipway quantize m.safetensors -o ranks/ --config 8da4w --exclude odd --shards 2 --rank 0 --world-size 2
says "is of another checkpoint"

# Budgets choose for each layer; the choice is a configuration that gives the same file.
for budget in "--error-budget 2%" "--size-budget 20KB"; do
  gives 0 slipway quantize m.safetensors -o auto.safetensors --config auto $budget --save-config chosen.json --json -q
  python3 - "$budget" <<'PY'
import json, sys
r = json.load(open("stdout"))
assert r["relative_error"] <= 0.02 if "error" in sys.argv[1] else r["bytes_after"] <= 20000, r
assert r["quantized"] > 0
PY
  gives 0 slipway quantize m.safetensors -o again.safetensors --config chosen.json -q
  cmp auto.safetensors again.safetensors
done
gives 1 slipway quantize m.safetensors -o x.safetensors --config auto --size-budget 1KB
says "--size-budget: the smallest that int8 and int4 make of it is"
gives 1 slipway quantize m.safetensors -o x.safetensors --config auto --size-budget 20KB --error-budget 0.0001%
gives 2 slipway quantize m.safetensors -o x.safetensors --config auto
gives 2 slipway quantize m.safetensors -o x.safetensors --config auto --error-budget none
gives 2 slipway quantize m.safetensors -o x.safetensors --config int8-weight-only --error-budget 1%
# Methods that look at activations need a program and inputs.
gives 2 slipway quantize m.safetensors -o x.safetensors --config 'awq(int8-weight-only)'
says "which a checkpoint cannot compute"
[ ! -e x.safetensors ]
