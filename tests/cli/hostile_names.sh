# What files call things is shown with escapes and within bounds, becomes no file's name as it is, and is UTF-8 wherever
# it is written: others must be able to read it.
source "$ROOT/tests/cli/lib.bash"
head -c 8 /dev/zero > w.bin
cat > names.sw <<'SW'
slipway.ir 1
program "p\x1b[31m"
weights { $"w\x1b[31m\n\xc2\x9b": f32[2] @ "w.bin"+0 }
graph main(%"a\x1b": f32[2] = parameter $"w\x1b[31m\n\xc2\x9b", %"x\n": f32[2]) {
  %"y\x1b": f32[2] = aten.add.Tensor(self=%"x\n", other=%"a\x1b")
  return %"y\x1b"
}
SW
plain() {  # no control character but the ends of lines
  ! LC_ALL=C grep -nP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$@" || fails "control characters reach the terminal"
}
expect 0 '' slipway inspect names.sw --weights --ops
plain stdout
grep -qF 'w\x1b[31m\n\xc2\x9b' stdout || fails "not shown with escapes"
for flags in --ir --json --header; do
  expect 0 '' slipway inspect names.sw $flags
  plain stdout
done
expect 0 . slipway convert names.sw -o m.onnx
plain stderr
expect 0 . slipway convert names.sw -o m.so
expect 0 '' slipway inspect m.so
plain stdout
expect 0 . slipway convert names.sw -o m.safetensors
expect 0 '' slipway inspect m.safetensors
plain stdout
slipway convert net.sw -o other.safetensors -q
expect 1 '' slipway diff m.safetensors other.safetensors
plain stdout

# Names of programs and of extra files are names of files.
expect 3 "SW1001.*cannot be the name of a program" slipway convert names.sw -o m.pt2
plain stderr
sed 's/p.x1b.31m/p/' names.sw > fine.sw
slipway convert fine.sw -o m.pt2 -q
"$PYTHON" - <<'PY'
import zipfile
def rewritten(path, change):
    with zipfile.ZipFile("m.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(change(name), old.read(name))
rewritten("program.pt2",
    lambda n: n.replace("models/p.json", "models/p\n\x1b.json").replace("p_weights",
        "p\n\x1b_weights").replace("p_constants", "p\n\x1b_constants"))
rewritten("extra.pt2", lambda n: "m/extra/e\x1b" if n.endswith(".data/version") else n)
PY
for file in program extra; do
  expect 3 'SW1001.*cannot be the name' slipway unpack $file.pt2 -o out
  plain stderr
  [ ! -e out ] || fails "a folder is left"
  expect 0 '' slipway inspect $file.pt2
  plain stdout
done

# Names that are not UTF-8 are refused by every target, so that whatever is written can be read.
sed 's/.n.xc2.x9b/\\xff/g' fine.sw > bytes.sw
for target in onnx pt2 so native-pt2 safetensors; do
  expect 3 'SW1001.*not UTF-8' slipway convert bytes.sw -o bad --to $target
  plain stderr
done
[ ! -e bad ] || fails "something was written"
expect 0 . slipway convert fine.sw -o $'name\xff\x1b.pt2'
plain stderr
"$PYTHON" - <<'PY'
import json, os, zipfile
name = next(n for n in os.listdir(b".") if n.endswith(b".pt2") and n.startswith(b"name"))
with zipfile.ZipFile(os.fsdecode(name)) as z:
    assert all(n.isprintable() for n in z.namelist()), z.namelist()
    config = json.loads(z.read("archive/data/weights/p_weights_config.json"))
    assert list(config["config"]) == ["w\x1b[31m\n\x9b"], config
PY

# However long a name is, what is said of it is short.
"$PYTHON" - <<'PY'
import zipfile
with zipfile.ZipFile("m.pt2") as old, zipfile.ZipFile("long.pt2", "w") as new:
    for name in old.namelist():
        new.writestr(name, old.read(name))
    new.writestr("m/data/" + "n" * 60000, b"")
data = bytearray(open("long.pt2", "rb").read())
data[data.index(b"n" * 60000)] = 0x1b  # the local header differs from the directory
open("long.pt2", "wb").write(data)
text = open("net.sw").read()
open("long.sw", "w").write(text.replace("aten.", "mylib." + "o" * 100000 + "."))
PY
expect 3 SW1001 slipway convert long.pt2 -o m.onnx
[ "$(wc -c < stderr)" -lt 2000 ] || fails "$(wc -c < stderr) bytes of stderr"
for target in onnx so; do
  expect 4 SW2001 slipway convert long.sw -o m2.$target
  [ "$(wc -c < stderr)" -lt 20000 ] || fails "$(wc -c < stderr) bytes of stderr"
done
expect 0 '' slipway inspect long.sw --ops
[ "$(wc -c < stdout)" -lt 5000 ] || fails "$(wc -c < stdout) bytes of stdout"

# Extra files that inflate to a thousand times the archive are not held in memory.
"$PYTHON" - <<'PY'
import zipfile
with zipfile.ZipFile("m.pt2") as old, zipfile.ZipFile("bomb.pt2", "w") as new:
    for name in old.namelist():
        new.writestr(name, old.read(name))
    for i in range(100):
        new.writestr(f"m/extra/{i}", b"\x01" * (8 << 20), compress_type=zipfile.ZIP_DEFLATED)
PY
for command in 'inspect bomb.pt2 --ir' 'inspect bomb.pt2' 'convert bomb.pt2 -o b.pt2'; do
  expect 3 'SW1001.*extra files' bash -c "ulimit -v 1000000; exec slipway $command"
done
