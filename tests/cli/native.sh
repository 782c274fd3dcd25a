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
expect 4 'SW2001.*mylib.odd' slipway convert odd.sw -o out/m.so
cmp out/m.so kept
slipway convert net.sw -o w.safetensors -q
head -c 3000 out/m.so > cut.so
expect 3 'SW1001.*(cut off|input)' slipway run ./cut.so --inputs w.safetensors --outputs out/x.safetensors
only m.so p.pt2

# All that kernels lack is told at once, with counts and places, also what is inside nested graphs; what reads a result
# of something refused in a type that kernels have not is no case of its own.
cat > many.sw <<'SW'
slipway.ir 1
form functional
sources {
  #0 {stack="File \"net.py\", line 3, in forward"}
}
graph main(%p: bool[], %x: f32[3,8]) {
  %a: f32[3,8] = mylib.odd.default(x=%x)  ; #0
  %b: f32[3,8] = aten.relu.default(self=%a)
  %c: f32[3,8] = mylib.odd.default(x=%b)
  %d: u64[3,8] = mylib.even.default(x=%c)
  %e: f32[3,8] = aten._to_copy.default(self=%d, dtype=f32)
  [%y: f32[3,8]] = higher_order.cond(%p, @then.0, @else.1, [%e])
  return %y
}
graph then.0(%x: f32[3,8]) {
  %a: f32[3,8] = mylib.inner.default(x=%x)
  return %a
}
graph else.1(%x: f32[3,8]) {
  %a: f32[3,8] = mylib.other.default(x=%x)
  return %a
}
SW
inputs() {
  printf '{"input.0":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}'
  printf ',"input.1":{"dtype":"F32","shape":[3,8],"data_offsets":[1,97]}}'
}
{ printf '%b' "$(printf '\\x%02x' "$(inputs | wc -c)")\0\0\0\0\0\0\0"; inputs; head -c 97 /dev/zero; } > in.safetensors
for command in "convert many.sw -o out/m.so" "run many.sw --inputs in.safetensors --outputs out/x"; do
  # shellcheck disable=SC2086
  expect 4 'SW2001.*by native kernels: mylib.even.*inner.*odd.*other' slipway $command
  for text in 'SW2001.: 2 × mylib.odd' 'SW2001.: mylib.even' '--> .*net.py:3' mylib.inner mylib.other; do
    grep -qE -e "$text" stderr || fails "no $text"
  done
  [ "$(grep -c SW2001 stderr)" = 5 ] || fails "not four problems and their sum"
done
cmp out/m.so kept
expect 0 . slipway convert net.sw -o out/v.so --verify-each
cmp out/v.so kept

# What is inside, without running it.
expect 0 '' slipway inspect out/m.so --ops
diff <(head -16 stdout | sed 's/ for [a-z0-9_]*-linux, [0-9.]* [kM]B ([0-9.]* [kM]B of them kernels)$//') - <<'EOF'
out/m.so: native library

program model: 2 nodes of 2 operators, native plan
  inputs
    x  f32[B,8]
  outputs
    relu  f32[B,4]
  dims
    B  1..64
  weights: 2 tensors, 144 bytes (2 f32 of 144 bytes)
    fc.weight  f32[4,8]  128 bytes  constant
    fc.bias    f32[4]    16 bytes   constant
  operators
    1  aten.linear.default
    1  aten.relu.default
  metadata
EOF
slipway inspect out/p.pt2 | sed 1d > package
slipway inspect out/m.so | sed 1d | cmp - package
expect 0 '' slipway inspect out/m.so --json
expect 0 '' slipway inspect out/m.so --header
grep -q 'static inline DLTensor m_in_x(const float\* data, int64_t shape\[2\], int64_t size_B)' stdout
expect 3 'SW1001.*cut.so' slipway inspect ./cut.so
expect 2 . slipway inspect out/m.so --header --json
