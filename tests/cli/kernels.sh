# The products of a library and the loops that they would take: `inspect --kernels`, by instruction set; and what `run
# --profile` says of the same products.
source "$ROOT/tests/cli/lib.bash"
cat > two.sw <<'SW'
slipway.ir 1
dims { B = 1..64 positive }
weights {
  $up.weight: f32[64,64] @ random(seed=7)
  $down.weight: f32[32,64] @ random(seed=8)
}
graph main(
  %p_up_weight: f32[64,64] = parameter $up.weight,
  %p_down_weight: f32[32,64] = parameter $down.weight,
  %x: f32[B,64],
) {
  %up: f32[B,64] = aten.linear.default(input=%x, weight=%p_up_weight, bias=None)
  %relu: f32[B,64] = aten.relu.default(self=%up)
  %down: f32[B,32] = aten.linear.default(input=%relu, weight=%p_down_weight, bias=None)
  return %down
}
SW
slipway convert two.sw -o f32.so -q
slipway convert two.sw -o int8.so -q --quantize int8-weight-only
slipway convert two.sw -o int4.so -q --quantize intx:bits=4,group=32
slipway convert two.sw -o dynamic.so -q --quantize int8-dynamic
has() { grep -qE -- "$1" stdout || { cat stdout; fails "no line of '$1'"; }; }

# Rows decide: few of them read packed panels once.
expect 0 '' slipway inspect f32.so --kernels
has 'products on this machine: [a-z0-9]+, integers [a-z0-9]+'
has 'matmul +B x 64 x 64 +f32 x f32 -> f32 +16.4 kB in panels +1-[24] rows: [a-z0-9]+: packed panels read once; '\
'[35]-64 rows: [a-z0-9]+: tiles of f32'
has 'matmul +B x 64 x 32'
# Floats are split into int8 slices where there are sums of products of bytes; elsewhere rows decide.
slices='floats as three int8 slices, sums of four products'
expect 0 '' slipway inspect int8.so --kernels
has "quant_linear +B x 64 x 64 +f32 x i8 -> f32 .*in quads.*(1-24 rows: [a-z0-9]+: widened in registers; 25-64 rows: "\
"[a-z0-9]+: blocks of f32|(vnni|amx): $slices)"
expect 0 '' slipway inspect int4.so --kernels
has "quant_linear .* in (unsigned )?nibbles, 2 groups .*(blocks of f32|(vnni|amx): $slices)"
SLIPWAY_ISA=avx2 expect 0 '' slipway inspect int8.so --kernels
has 'quant_linear +B x 64 x 64 +f32 x i8 -> f32 .*in quads.*1-24 rows: [a-z0-9]+: widened in registers; 25-64 rows: '\
'[a-z0-9]+: blocks of f32'
SLIPWAY_ISA=avx2 expect 0 '' slipway inspect int4.so --kernels
has 'quant_linear .* in (unsigned )?nibbles, 2 groups .*blocks of f32'
expect 0 '' slipway inspect dynamic.so --kernels
has 'quantize_rows +B x 64 +f32 -> i8 '
has 'integer_linear +B x 64 x 64 +i8 x i8 -> f32 .*in quads'

# The instruction set is capped, and that is said.
if [ "$(uname -m)" = x86_64 ]; then
  SLIPWAY_ISA=v2 expect 0 '' slipway inspect dynamic.so --kernels
  has 'this machine: v2, integers v2 \(capped by SLIPWAY_ISA=v2\)$'
  has 'v2: 16-bit products$'
  SLIPWAY_ISA=v2 expect 0 '' slipway inspect f32.so --kernels
  has '1-2 rows: v2: packed panels read once; 3-64 rows: v2: tiles of f32$'
  if grep -qw avx2 /proc/cpuinfo; then
    SLIPWAY_ISA=avx2 expect 0 '' slipway inspect dynamic.so --kernels
    has 'this machine: avx2, integers avx2 \(capped by SLIPWAY_ISA=avx2\)$'
    has 'avx2: 16-bit products$'
  fi
  if grep -qw avx512_vnni /proc/cpuinfo; then
    SLIPWAY_ISA=avx512vnni expect 0 '' slipway inspect dynamic.so --kernels
    has 'avx512vnni: sums of four products \(VNNI\)$'
  fi
  SLIPWAY_ISA=nothing expect 0 '' slipway inspect f32.so --kernels
  ! grep -q capped stdout || fails 'a name that caps nothing is said to'
fi

# JSON; only what holds kernels has a table of them.
SLIPWAY_ISA=avx2 expect 0 '' slipway inspect int8.so --kernels --json
python3 - <<'PY'
import json
k = json.load(open("stdout"))["kernels"]
up, down = k["products"]
assert (up["m"], up["k"], up["n"], up["batch"]) == ("B", 64, 64, 1), up
assert (up["left"], up["right"], up["result"], up["groups"], up["packing"]) == ("f32", "i8", "f32", 1, "quads"), up
assert up["weight_bytes"] == 64 * 64 + 64 * 4, up
assert [(l["from"], l["to"]) for l in up["loops"]] == [(1, 24), (25, 64)], up
assert all(l["isa"] == k["isa"] for l in up["loops"])
PY
expect 4 'SW2.*two.sw.*--kernels is for native libraries' slipway inspect two.sw --kernels
expect 2 . slipway inspect f32.so --kernels --ir
slipway convert two.sw -o p.pt2 --to native-pt2 -q
diff <(slipway inspect p.pt2 --kernels | grep matmul) <(slipway inspect f32.so --kernels | grep matmul)

# Rates of products, of a program and of a library: GB/s where there is one row.
python3 - <<'PY'
import json, struct
for name, rows in (("one", 1), ("many", 32)):
    header = json.dumps({"input.0": {"dtype": "F32", "shape": [rows, 64], "data_offsets": [0, rows * 256]}}).encode()
    open(name, "wb").write(struct.pack("<Q", len(header)) + header + bytes(rows * 256))
PY
for model in two.sw ./f32.so; do
  expect 0 '' slipway run "$model" --inputs one --outputs out.safetensors --profile
  has 'GB/s +aten.linear.default$'
  has ' MiB of temporaries and '
  ! grep 'relu' stdout | grep -qE '/s' || fails 'a rate of what is no product'
  expect 0 '' slipway run "$model" --inputs many --outputs out.safetensors --profile --repeat 3
  has 'GFLOP/s +aten.linear.default$'
  expect 0 '' slipway run "$model" --inputs many --outputs out.safetensors --profile --repeat 3 --json
  python3 - <<'PY'
import json
r = json.load(open("stdout"))
row = next(x for x in r["profile"] if x["op"] == "aten.linear.default")
assert row["operations"] == 3 * 2 * 32 * (64 * 64 + 64 * 32), row
assert row["weight_bytes"] == 3 * 4 * (64 * 64 + 64 * 32) and row["most_rows"] == 32, row
assert abs(row["gflops"] - row["operations"] / row["s"] * 1e-9) <= 1e-6 * row["gflops"]
assert r["temporaries_bytes"] >= 32 * 64 * 4, r
assert all("gflops" not in x for x in r["profile"] if x["op"] != "aten.linear.default")
PY
done
expect 0 '' slipway run ./f32.so --inputs many --outputs out.safetensors --repeat 2
has 'run [0-9.]+ ms .*\(2 runs\), 0\.0 MiB of temporaries'
