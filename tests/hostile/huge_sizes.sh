# Numbers of a program that ask for huge tables cost neither time nor memory when it is converted.
cat >pool.sw <<'EOF'
slipway.ir 1
program "p"
form functional
graph main(%x: f32[1,2,8]) {
  %y: f32[1,2,1073741824], %i: i64[1,2,1073741824] = aten.adaptive_max_pool1d.default(self=%x, output_size=[1073741824])
  return %y, %i
}
EOF
for target in onnx so; do
  (ulimit -v 4000000 && timeout 20 "$SLIPWAY" convert pool.sw -o "pool.$target")
done
