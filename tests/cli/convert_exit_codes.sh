# Each way to fail has its exit status and the cause that it states, and leaves what was there as it was.
source "$ROOT/tests/cli/lib.bash"
mkdir out
echo kept > out/m.onnx

# 2: usage
expect 2 . slipway
expect 2 . slipway convert
expect 2 . slipway convert net.sw
expect 2 . slipway convert net.sw -o out/m.onnx --opset twenty
expect 2 . slipway convert net.sw -o out/m.onnx --no-such-flag
expect 2 'SW1002.*out/m.xyz' slipway convert net.sw -o out/m.xyz
expect 2 . slipway convert net.sw -o out/m.onnx --metadata novalue
mkdir folder.onnx
expect 2 "SW1003.*'folder.onnx' is a folder" slipway convert net.sw -o folder.onnx
[ -z "$(ls -A folder.onnx)" ] || fails "something was written into it"
expect 0 . slipway convert net.sw -o folder.onnx/
expect 2 'SW1003.*standard output' slipway convert net.sw -o -
expect 2 'SW1003.*standard output' slipway convert net.sw -o - --to onnx
[ ! -e ./- ] || fails "a file '-' was written"
expect 0 . slipway convert net.sw -o ./- --to onnx

# 3: bad input
printf 'PK\003\004 and no more' > bad.pt2
expect 3 'SW1001.*bad.pt2' slipway convert bad.pt2 -o out/m.onnx
: > empty.pt2
expect 3 'SW1001.*empty.pt2' slipway convert empty.pt2 -o out/m.onnx
expect 3 'SW1001.*out' slipway convert out -o out/m.onnx
sed 's/self=%linear/self=%nothing/' net.sw > undefined.sw
expect 3 "SW1001.*undefined.sw:13:.*'%nothing'" slipway convert undefined.sw -o out/m.onnx
sed 's/aten.relu.default(self=%linear)/aten.relu.default()/' net.sw > missing.sw
expect 3 "SW1001.*argument 'self' is missing" slipway convert missing.sw -o out/m.onnx

# 4: not supported; every operator is listed
expect 4 'SW2002.*opset 13' slipway convert net.sw -o out/m.onnx --opset 13
expect 4 'SW2002.*opset 99' slipway convert net.sw -o out/m.onnx --opset 99
sed 's/%relu: f32\[B,4\] = aten.relu.default(self=%linear)/%a: f32[B,4] = mylib.first.default(x=%linear)\n  %b: '\
'f32[B,4] = mylib.second.default(x=%a)\n  %relu: f32[B,4] = mylib.first.default(x=%b)/' net.sw > custom.sw
expect 4 'SW2001.*mylib.first.*mylib.second' slipway convert custom.sw -o out/m.onnx
grep -q '2 × .*mylib.first' stderr || fails "the count is missing"
expect 4 'SW2001.*mylib.first.*mylib.second' slipway convert custom.sw -o out/m.onnx --dry-run

# 5: could not read or write
expect 5 'SW3001.*nothing.pt2' slipway convert nothing.pt2 -o out/m.onnx
expect 5 'SW3001.*no-such-folder' slipway convert net.sw -o no-such-folder/m.onnx
if [ "$(id -u)" != 0 ]; then
  mkdir locked && chmod a-w locked
  expect 5 'SW3001.*locked' slipway convert net.sw -o locked/m.onnx
  chmod u+w locked
fi

[ "$(cat out/m.onnx)" = kept ] || fails "a failure changed the output"
only m.onnx
