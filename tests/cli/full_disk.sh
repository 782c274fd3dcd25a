# A file system without room: exit 5, the old file or nothing, and no temporary. Needs the right to mount in a namespace
# of its own; where that is not given, tests/cli/interrupted.sh has the same with a limit on file sizes.
source "$ROOT/tests/cli/lib.bash"
if ! unshare -rm true 2> /dev/null; then
  echo "no user namespaces here: not run"
  exit 0
fi
head -c 8000000 /dev/zero > big.bin
cat > big.sw <<'EOF'
slipway.ir 1
weights { $w: f32[2000000] @ "big.bin"+0 }
graph main(%w: f32[2000000] = parameter $w, %x: f32[2000000]) {
  %y: f32[2000000] = aten.add.Tensor(self=%x, other=%w)
  return %y
}
EOF
export PATH ROOT
unshare -rm bash -eu <<'EOF'
cp "$ROOT/tests/cli/net.sw" .
source "$ROOT/tests/cli/lib.bash"
mkdir out
mount -t tmpfs -o size=4m none out
for target in m.onnx m.pt2 w.safetensors shards/; do
  for old in yes no; do
    rm -rf out/*
    [ "$old" = no ] || { [ "$target" = shards/ ] && mkdir out/shards && echo kept > out/shards/keep \
      || echo kept > "out/$target"; }
    find out -type f -exec cat {} + > before
    expect 5 'SW3001.*(No space left|ENOSPC)' slipway convert big.sw -o "out/$target"
    find out -type f -exec cat {} + > after
    cmp before after
    [ -z "$(find out -name '.*.tmp')" ] || fails "a temporary is left"
    [ "$old" = yes ] || [ -z "$(ls -A out)" ] || fails "something is left"
  done
done
expect 0 . slipway convert net.sw -o out/m.onnx
EOF
