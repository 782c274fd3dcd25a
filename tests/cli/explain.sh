# `slipway explain` knows every id that a message may have; help and version are commands, too.
source "$ROOT/tests/cli/lib.bash"
for id in $(grep -oE '"SW[0-9]{4}"' "$ROOT/driver/edge/diagnostic.h" | tr -d '"'); do
  expect 0 '' slipway explain "$id"
  grep -q "^$id (" stdout && grep -q '^help:$' stdout || fails "explain $id: $(cat stdout)"
done
slipway explain sw1010 > lower; slipway explain 1010 > bare; slipway explain '[SW1010]' > whole
cmp lower bare && cmp lower whole
expect 0 '' slipway explain
[ "$(grep -c '^SW' stdout)" = "$(grep -cE '"SW[0-9]{4}"' "$ROOT/driver/edge/diagnostic.h")" ] || fails "$(cat stdout)"
expect 2 "SW1003.*'SW1019' is no diagnostic's id; did you mean 'SW1010'" slipway explain SW1019
expect 2 "SW1003.*'nonsense' is no diagnostic's id" slipway explain nonsense

slipway help convert > a; slipway convert --help > b; cmp a b
slipway help > a; slipway --help > b; cmp a b
expect 2 "SW1003.*did you mean 'convert'" slipway help conver
slipway version > a; slipway --version > b; slipway -V > c; cmp a b && cmp a c
