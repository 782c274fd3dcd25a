# unpack undoes packing: the parts are what went in; a failure leaves the folder alone.
source "$ROOT/tests/cli/lib.bash"
mkdir out
sed 's/aten.relu/aten.gelu/' net.sw > other.sw
slipway convert a=net.sw b=other.sw -o two.pt2 --metadata note=hello -q
expect 0 'out: 4 nodes -> 4' slipway unpack two.pt2 -o out
only a.pt2 b.pt2
slipway inspect out/b.pt2 | grep -q note || fails "the extra file is gone"
slipway inspect out/b.pt2 --ops | grep -q aten.gelu || fails "b is another program"
mkdir again
slipway convert a=out/a.pt2 b=out/b.pt2 -o again/two.pt2 -q
cmp two.pt2 again/two.pt2
slipway unpack two.pt2 -o one --program b -q
[ "$(ls one)" = b.pt2 ] || fails "more than was asked for"
cmp one/b.pt2 out/b.pt2
expect 3 "SW1001.*no program 'c', 'd'; the archive holds a, b" slipway unpack two.pt2 -o none --program c --program d \
  --program a
[ ! -e none ] || fails "a folder after a failure"
expect 5 SW3001 slipway unpack two.pt2 -o nowhere/out
expect 0 'dry run' slipway unpack two.pt2 -o none --dry-run
[ ! -e none ] || fails "a dry run wrote"
rm out/*
: > out/keep
expect 5 'SW3001' bash -c "ulimit -f 1; exec slipway unpack two.pt2 -o out"
only keep
