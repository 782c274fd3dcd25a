# What a conversion leaves: the same bytes each time, nothing on stdout, nothing with --dry-run.
source "$ROOT/tests/cli/lib.bash"
mkdir out
expect 0 'out/one.onnx: 2 nodes' slipway convert net.sw -o out/one.onnx
[ ! -s stdout ] || fails "stdout is not empty"
expect 0 '' slipway convert net.sw -o out/two.onnx --quiet
cmp out/one.onnx out/two.onnx
expect 0 . slipway convert net.sw -o out/dry.onnx --dry-run
only one.onnx two.onnx

expect 0 '' slipway convert net.sw -o out/checked.onnx --quiet --verify-each
cmp out/one.onnx out/checked.onnx

# An existing file is replaced, and its permissions stay.
chmod 640 out/two.onnx
expect 0 '' slipway convert net.sw -o out/two.onnx --quiet --opset 18
[ "$(stat -c %a out/two.onnx)" = 640 ]
! cmp -s out/one.onnx out/two.onnx

# External data: the second file belongs to the first, and both are the same each time.
expect 0 '' slipway convert net.sw -o out/ext.onnx --quiet --external-data always
[ "$(ls out | grep -c '^ext')" = 2 ] || fails "$(ls out)"
mkdir again
expect 0 '' slipway convert net.sw -o again/ext.onnx --quiet --external-data always
for file in out/ext*; do cmp "$file" "again/${file#out/}"; done
