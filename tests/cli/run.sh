# run: outputs of the numbers given, and inputs that a program does not take.
source "$ROOT/tests/cli/lib.bash"
# inputs FILE DTYPE SHAPE BYTES [NAME]: a safetensors file of one tensor of zeros.
inputs() {
  local header="{\"${5:-input.0}\":{\"dtype\":\"$2\",\"shape\":$3,\"data_offsets\":[0,$4]}}"
  printf '%b' "$(printf '\\x%02x' ${#header})\0\0\0\0\0\0\0" > "$1"
  printf '%s' "$header" >> "$1"
  head -c "$4" /dev/zero >> "$1"
}
inputs two F32 '[2,8]' 64
expect 0 '' slipway run net.sw --inputs two --outputs out.safetensors
[ ! -s stdout ] || fails "nothing to say on standard output"
slipway inspect out.safetensors > table
grep -q 'output.0 *f32\[2,4\]' table
# Of zeros, a linear layer and relu give the bias where it is positive: rows are equal.
head -c 16 <(tail -c 32 out.safetensors) | cmp - <(tail -c 16 out.safetensors)
expect 0 '' slipway run net.sw --inputs two --outputs out.safetensors --repeat 3 --profile
grep -q 'aten.linear.default' stdout
grep -q '(3 runs)' stdout
expect 0 '' slipway run net.sw --inputs two --outputs out.safetensors --repeat 2 --json
grep -qE '"run_s":\[[0-9.e-]+,[0-9.e-]+\]' stdout

inputs wrong F32 '[2,7]' 56
expect 3 'x.*size 1 is 7, the program takes 8' slipway run net.sw --inputs wrong --outputs o
inputs wrong F32 '[65,8]' 2080
expect 3 'B = 65.*1 to 64' slipway run net.sw --inputs wrong --outputs o
inputs wrong F64 '[2,8]' 128
expect 3 'x.*f64' slipway run net.sw --inputs wrong --outputs o
inputs wrong F32 '[16]' 64
expect 3 'x.*1 dims' slipway run net.sw --inputs wrong --outputs o
inputs wrong F32 '[2,8]' 64 input.1
expect 3 "input.1" slipway run net.sw --inputs wrong --outputs o
expect 5 SW3001 slipway run net.sw --inputs nothing --outputs o
expect 5 SW3001 slipway run nothing.pt2 --inputs two --outputs o
expect 2 . slipway run net.sw --inputs two
[ ! -e o ]
