# convert to PT2 and safetensors: what comes out, what is refused, and that a failure leaves the output alone.
source "$ROOT/tests/cli/lib.bash"
mkdir out
expect 0 'out/m.pt2: 2 nodes -> 2' slipway convert net.sw -o out/m.pt2
slipway convert out/m.pt2 -o m2.pt2 -q
[ "$(slipway inspect m2.pt2 --json | sed 's/"file": *"[^"]*"//; s/"bytes": *[0-9]*//')" = \
  "$(slipway inspect out/m.pt2 --json | sed 's/"file": *"[^"]*"//; s/"bytes": *[0-9]*//')" ] \
  || fails "a second pass changed the archive"
cp out/m.pt2 kept
expect 0 . slipway convert net.sw -o out/m.pt2 --dry-run
expect 2 . slipway convert net.sw -o out/m.pt2 --torch 2.4
expect 3 "two programs are named 'a'" slipway convert a=net.sw a=net.sw -o out/m.pt2
expect 4 'SW2002.*one program' slipway convert a=net.sw b=net.sw -o out/m.pt2 --torch 2.6
expect 5 'SW3001.*nothing' slipway convert a=nothing.pt2 -o out/m.pt2
sed 's/aten.relu.default(self=%linear)/slipway.odd.default(x=%linear)/' net.sw > own.sw
expect 4 'SW2002.*slipway.odd' slipway convert own.sw -o out/m.pt2
cmp out/m.pt2 kept
slipway convert a=net.sw b=net.sw -o out/two.pt2 --metadata note=hello -q
slipway inspect out/two.pt2 | grep -q 'note' || fails "no extra file"
[ "$(slipway inspect out/two.pt2 | grep -c '^program')" = 2 ]

expect 0 '2 tensors of 144 bytes' slipway convert out/m.pt2 -o out/w.safetensors
expect 0 . slipway convert net.sw -o out/b.safetensors --dtype bf16
slipway inspect out/b.safetensors | grep -q 'fc.weight  bf16\[4,8\]' || fails "not cast"
expect 0 . slipway convert out/w.safetensors -o shards/ --shards 2
[ "$(ls shards | tr '\n' ' ')" = "model-00001-of-00002.safetensors model-00002-of-00002.safetensors "\
"model.safetensors.index.json " ]
slipway convert shards -o joined.safetensors -q
cmp joined.safetensors out/w.safetensors
expect 3 'SW1001.*fc.bias' slipway convert out/w.safetensors joined.safetensors -o out/w.safetensors
expect 2 . slipway convert out/w.safetensors -o out/x.safetensors --shards 2
expect 2 . slipway convert out/w.safetensors -o shards/ --max-shard-size 5XB
expect 3 'SW1001' slipway convert net.sw -o out/x.safetensors --exclude .
echo 'no tensors' > text.txt
expect 3 'SW1001.*text.txt' slipway convert text.txt -o out/x.safetensors
only b.safetensors m.pt2 two.pt2 w.safetensors
