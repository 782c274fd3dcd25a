# A full disk and Ctrl-C leave the old file or nothing, and no temporary.
source "$ROOT/tests/cli/lib.bash"
mkdir out
head -c 8000000 /dev/urandom > big.bin
cat > big.sw <<'EOF'
slipway.ir 1
weights { $w: f32[2000000] @ "big.bin"+0 }
graph main(%w: f32[2000000] = parameter $w, %x: f32[2000000]) {
  %y: f32[2000000] = aten.add.Tensor(self=%x, other=%w)
  return %y
}
EOF
echo kept > out/m.onnx

# A limit on file sizes stands for a disk without room.
for external in always never; do
  expect 5 'SW3001.*out/m.onnx' bash -c "ulimit -f 1000; exec slipway convert big.sw -o out/m.onnx --external-data "\
"$external"
  [ "$(cat out/m.onnx)" = kept ] || fails "the old file is gone"
  only m.onnx
done

# Interrupted as soon as the temporary is there: the process ends by the signal, or had finished before it.
"$PYTHON" - <<'EOF'
import os, pathlib, signal, subprocess

out = pathlib.Path("out")
with open("big.bin", "r+b") as file:
    file.truncate(1 << 30)
text = pathlib.Path("big.sw").read_text().replace("2000000", str((1 << 30) // 4))
pathlib.Path("big.sw").write_text(text)
interrupted = 0
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU):
    process = subprocess.Popen(["slipway", "convert", "big.sw", "-o", "out/m.onnx", "--external-data", "always",
        "--quiet"])
    while process.poll() is None and len(list(out.iterdir())) == 1:
        pass
    process.send_signal(number)
    status = process.wait()
    left = sorted(p.name for p in out.iterdir())
    if status == -number:
        interrupted += 1
        assert left == ["m.onnx"] and (out / "m.onnx").read_text() == "kept\n", left
    else:
        assert status == 0, status
        assert not [name for name in left if name.startswith(".")], left
        for path in out.iterdir():
            path.unlink()
        (out / "m.onnx").write_text("kept\n")
assert interrupted, "every conversion was faster than its signal"
EOF

# What SIGKILL leaves between two renames, the old file that names others, whose bytes may be new, and temporaries: they
# stay where a run that writes the same file fails, and go where it succeeds. What a process that lives has put aside
# stays.
rm -r out && mkdir out
(exit 0) & gone=$!
wait "$gone"
echo old > "out/e.onnx.$gone.before.tmp"
echo part > "out/.e.onnx.data.slipway-$gone-1.tmp"
echo alive > "out/e.onnx.$$.before.tmp"
expect 5 . bash -c 'ulimit -f 1000; exec slipway convert big.sw -o out/e.onnx'
[ "$(ls -A out | wc -l)" = 3 ] || fails "not what was there"
expect 0 '' slipway convert net.sw -o out/e.onnx --external-data always --quiet
[ "$(ls -A out | tr '\n' ' ')" = "e.onnx e.onnx.$$.before.tmp e.onnx.data " ] || fails "$(ls -A out)"
! grep -q old out/e.onnx
