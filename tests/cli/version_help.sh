# --version and --help go to stdout and need nothing else.
source "$ROOT/tests/cli/lib.bash"
expect 0 '' slipway --version
grep -qE "^slipway $(cat "$ROOT/VERSION") \(ONNX opset 18 … 24, PT2 schema .*, torch [0-9.]+ operators\)$" stdout || fails "$(cat stdout)"
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
expect 2 'Run with --help' slipway convert net.sw
