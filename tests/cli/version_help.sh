# --version and --help go to stdout and need nothing else.
source "$ROOT/tests/cli/lib.bash"
expect 0 '' slipway --version
grep -qE "^slipway $(cat "$ROOT/VERSION") \(ONNX opset 18 … 24, PT2 schema .*, torch [0-9.]+ operators\)$" stdout \
  || fails "$(cat stdout)"
expect 0 '' slipway --help
grep -q convert stdout && grep -q inspect stdout
for command in convert inspect diff; do
  expect 0 '' slipway $command --help
done
slipway convert --help > help
for flag in --opset --weights --external-data --dry-run --diagnostics --metadata --verify-each; do
  grep -qe "$flag" help || fails "$flag is not in the help"
done

# Words that nothing takes.
expect 2 "there is no command 'conver'; did you mean 'convert'\?" slipway conver net.sw
expect 2 "there is no command 'frobnicate'$" slipway frobnicate
expect 2 "convert has no flag '--opest'; did you mean '--opset'\?" slipway convert net.sw --opest 20 -o m.onnx
expect 2 "convert has no flag '--opest'; did you mean '--opset'\?" slipway convert net.sw --opest=20 -o m.onnx
expect 2 "there is no command 'quantise'; did you mean 'quantize'\?" slipway quantise net.sw
expect 2 "slipway has no flag '--vresion'; did you mean '--version'\?" slipway --vresion
expect 2 "^error\[SW1003\]: convert has no flag '-z'" slipway convert net.sw -z -o m.onnx
expect 2 'SW1003.*convert: --output is required' slipway convert net.sw
grep -q 'help: slipway convert --help' stderr || fails "no next step"
expect 2 'SW1003.*a command is wanted' slipway
expect 2 'SW1003.*man: .*not expected: x' slipway man x
expect 2 "SW1003.*--dtype 'fp16' is not .*; did you mean 'f16'\?" slipway convert net.sw -o m.onnx --dtype fp16
expect 2 "SW1003.*--to 'onx' is not .*; did you mean 'onnx'\?" slipway convert net.sw -o m --to onx
expect 2 "SW1002.*'m.onx'; did you mean '.onnx'\?" slipway convert net.sw -o m.onx
expect 2 '"id":"SW1003","cause":"convert has no flag' slipway convert net.sw --opest 20 -o m.onnx --diagnostics json
[ "$(wc -l < stderr)" = 1 ] || fails "not one line of JSON"
