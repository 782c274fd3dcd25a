# Killed at 200 random moments: what is at the destination is what was there, whole, or the new file, whole. Several files
# are renamed one after the other: killed between two, the one that names the others is absent, never an old one beside
# new files.
source "$ROOT/tests/cli/lib.bash"
head -c 24000000 /dev/urandom > big.bin
cat > big.sw <<'EOF'
slipway.ir 1
weights { $v: f32[3000000] @ "big.bin"+0  $w: f32[3000000] @ "big.bin"+12000000 }
graph main(%v: f32[3000000] = parameter $v, %w: f32[3000000] = parameter $w, %x: f32[3000000]) {
  %y: f32[3000000] = aten.add.Tensor(self=%x, other=%w)
  %z: f32[3000000] = aten.mul.Tensor(self=%y, other=%v)
  return %z
}
EOF
"$PYTHON" - <<'EOF'
import pathlib, random, shutil, signal, subprocess, time

KILLS = 200
out = pathlib.Path("out")
targets = {  # what is written -> the arguments
    "m.onnx": ["-o", "out/m.onnx"],
    "d.onnx": ["-o", "out/d.onnx", "--external-data", "always"],
    "m.pt2": ["-o", "out/m.pt2"],
    "old.pt2": ["-o", "out/old.pt2", "--torch", "2.6"],
    "w.safetensors": ["-o", "out/w.safetensors", "--dtype", "f16"],
    "shards": ["-o", "out/shards/", "--shards", "2"],
}
leader = {"d.onnx": "d.onnx", "shards": "shards/model.safetensors.index.json"}  # of several files, the one that names the others


def content():
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file() and not p.name.endswith(".tmp")}


def command(args):
    return ["slipway", "convert", "big.sw", *args, "--quiet"]


random.seed(5)
after, seconds = {}, {}
for name, args in targets.items():
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    start = time.monotonic()
    subprocess.run(command(args), check=True)
    seconds[name] = time.monotonic() - start
    after[name] = content()
killed = 0
for i in range(KILLS):
    name, args = list(targets.items())[i % len(targets)]
    shutil.rmtree(out)
    before = {path: b"before " + path.encode() for path in after[name]} if i % 2 else {}
    for path, bytes_ in before.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(bytes_)
    out.mkdir(exist_ok=True)
    number = random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
    process = subprocess.Popen(command(args))
    time.sleep(random.uniform(0, seconds[name]))
    process.send_signal(number)
    killed += process.wait() == -number
    found = content()
    cut = number == signal.SIGKILL and name in leader and leader[name] not in found
    if cut:
        found[leader[name]] = None
    sizes = {k: v and len(v) for k, v in found.items()}
    if cut:  # each of the others is old or new
        assert all(v in (None, before.get(k), after[name][k]) for k, v in found.items()), (i, name, sizes)
    else:
        assert found in (before, after[name]), (i, name, number, sizes)
    if number != signal.SIGKILL:
        assert not list(out.rglob("*.tmp")), (i, name, list(out.rglob("*")))
assert killed > KILLS // 10, f"only {killed} of {KILLS} came before the end"
EOF
