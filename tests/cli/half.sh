# --dtype of libraries: what goes with it, what does not, and what is said.
source "$ROOT/tests/cli/lib.bash"
mkdir out
expect 0 . slipway convert net.sw -o out/m.so --dtype bf16
grep -q 'f32 is bf16: 2 weights cast; no node stays in f32' stderr || fails 'the summary does not say what was cast'
slipway inspect out/m.so > stdout
grep -q 'slipway.dtype *bf16' stdout || fails 'inspect does not say bf16'
expect 0 . slipway convert net.sw -o out/n.so --dtype bf16
cmp out/m.so out/n.so
expect 0 '' slipway verify net.sw out/m.so
expect 0 . slipway convert net.sw -o out/n.so --dtype f16 --keep-io-types
expect 0 '' slipway verify net.sw out/n.so --sweep 3
expect 2 '--keep-io-types goes with --dtype' slipway convert net.sw -o out/x.so --keep-io-types
expect 4 '--dtype f32 for programs' slipway convert net.sw -o out/x.so --dtype f32
expect 2 '--dtype' slipway convert net.sw -o out/x.pt2 --dtype bf16
expect 4 '--dtype with --quantize pt2e-x86' slipway convert net.sw -o out/x.so --dtype bf16 --quantize pt2e-x86
only m.so n.so
