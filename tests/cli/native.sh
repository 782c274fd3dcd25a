# A library from a program: made, run, refused; what goes wrong leaves the old file.
source "$ROOT/tests/cli/lib.bash"
mkdir out
expect 0 'out/m.so: 2 nodes -> ' slipway convert net.sw -o out/m.so
expect 0 'dry run, out/n.so' slipway convert net.sw -o out/n.so --dry-run
expect 0 . slipway convert net.sw -o out/p.pt2 --to native-pt2
only m.so p.pt2
cp out/m.so kept
expect 5 'SW3001.*out/m.so' bash -c 'ulimit -f 100; exec slipway convert net.sw -o out/m.so'
cmp out/m.so kept
sed 's/aten.relu.default(self=%linear)/mylib.odd.default(x=%linear)/' net.sw > odd.sw
expect 4 'SW2002.*mylib.odd' slipway convert odd.sw -o out/m.so
cmp out/m.so kept
slipway convert net.sw -o w.safetensors -q
head -c 3000 out/m.so > cut.so
expect 3 'SW1001.*(cut off|input)' slipway run ./cut.so --inputs w.safetensors --outputs out/x.safetensors
only m.so p.pt2
