# shapes: the ledger of a program, and what may be asked of its dimensions.
source "$ROOT/tests/cli/lib.bash"
sed 's/dims .*/dims { }/; s/\bB\b/3/g' net.sw > static.sw

expect 0 '' slipway shapes net.sw
grep -qE '^  x\.0 +B +' stdout
grep -qE '^  x\.1 +8 +static$' stdout
expect 0 '' slipway shapes static.sw
grep -qE '^  x\.0 +3 +static$' stdout
grep -q 'no node needs that' stdout
expect 0 '' slipway shapes static.sw --dynamic auto
grep -qE '^  x\.0 +batch +2\.\.inf \(3 at export\)$' stdout
grep -q 'aten.linear.default' stdout
expect 0 '' slipway shapes static.sw --dynamic 'x:[rows=1..64,_]' --json
grep -q '"size":"rows","range":\[1,64\]' stdout

# Written as convert writes it.
expect 0 'dims rows = 1..64' slipway shapes static.sw --dynamic 'x:[rows=1..64,_]' -o m.so
expect 0 '' slipway inspect m.so
grep -q 'rows' stdout
expect 0 'dims rows = 1..64' slipway convert static.sw --dynamic 'x:[rows=1..64,_]' -o n.so
cmp m.so n.so

# Asks that cannot be met are quoted, and nothing is written.
expect 2 "SW1003.*'y:\[B,_\]': the program has no input 'y'; it has x" slipway convert static.sw --dynamic 'y:[B,_]' \
  -o x.onnx
expect 2 "SW1003.*'B=9..': the program was exported with x.0 = 3" slipway convert static.sw --dynamic 'x:[B=9..,_]' \
  -o x.onnx
expect 4 'SW2002.*x:1: it is static, 8: aten.linear.default' slipway convert static.sw --dynamic auto \
  --require-dynamic x:1 -o x.onnx
expect 2 "SW1003.*no dimension 'Z'" slipway convert net.sw --dim-names Z=Y -o x.onnx
sed 's/relu.default/sigmoid.default/' static.sw > two.sw
expect 4 'SW2002.*not the same model at several sizes: aten.relu.default: is aten.sigmoid.default' slipway shapes \
  static.sw --unify two.sw
[ ! -e x.onnx ] || fails "x.onnx was written"

# A program with symbols: pinned, bounded, renamed.
expect 0 '' slipway shapes net.sw --dynamic 'B=5'
grep -qE '^  x\.0 +5 +static$' stdout
expect 0 '' slipway shapes net.sw --dynamic 'B=2..8' --dim-names B=rows
grep -qE '^  x\.0 +rows +2\.\.8' stdout
