# --version and --help go to stdout and need nothing else.
source "$ROOT/tests/cli/lib.bash"
expect 0 '' slipway --version
grep -qE "^slipway $(cat "$ROOT/VERSION") \(ONNX opset 18 … 28, PT2 schema .*, torch [0-9.]+ operators\)$" stdout \
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

# Names of other tools, which are far from what they are here.
while read -r typed meant; do
  expect 2 "there is no command '$typed'; did you mean '$meant'\?" slipway "$typed" net.sw
done <<'NAMES'
export convert
compile convert
info inspect
compare verify
bench run
reduce minify
extract unpack
NAMES
while read -r command typed meant; do
  expect 2 "$command has no flag '$typed'; did you mean '$meant'\?" slipway "$command" net.sw "$typed"
done <<'NAMES'
convert --opset-version --opset
convert --opset_version --opset
convert --dynamic-axes --dynamic
convert --fp16 --dtype f16
convert --config --quantize
quantize --quantization_config --config
quantize --quantize --config
quantize --modules-to-not-convert --exclude
run --output --outputs
run --iterations --repeat
verify --tolerance --atol
diff --atol --tolerance
NAMES
while read -r typed meant; do
  expect 2 "unknown configuration '.*'; did you mean '$meant'\?" \
    slipway convert net.sw -o m.onnx --quantize "$typed"
done <<'NAMES'
Int8WeightOnlyConfig int8-weight-only
Float8DynamicActivationFloat8WeightConfig float8-dynamic
Int8DynamicActivationInt4WeightConfig 8da4w
int4 int4-weight-only
fp8 float8-weight-only
Q4_K_M int4-weight-only
q6_k intx:bits=6
NAMES
expect 2 'awq goes around a configuration: awq\(int4-weight-only\)' slipway convert net.sw -o m.onnx --quantize awq
expect 2 "SW1003.*--to 'aoti' is not .*; did you mean 'native-pt2'\?" slipway convert net.sw -o m --to aoti
# Every name that the table gives exists.
rows() { sed -nE "s/^ *\\{NameKind::$1, \"([^\"]*)\", \"([^\"]*)\"\\},/\\2/p" "$ROOT/base/other_names.cc" | sort -u; }
for meant in $(rows kCommand); do slipway help "$meant" > /dev/null; done
for command in convert quantize run verify diff minify inspect; do slipway $command --help; done > helps
[ "$(rows kFlag | wc -l)" -gt 30 ] || fails "few flags: $(rows kFlag)"
rows kFlag | while read -r meant _; do grep -qE -- " $meant( |\$)" helps || fails "there is no $meant"; done
for meant in $(rows kConfiguration); do
  slipway quantize net.sw -o m.onnx --config "$meant" --dry-run > /dev/null 2> stderr \
    || ! grep -E "unknown|goes around" stderr || fails "$meant is no configuration"
done
