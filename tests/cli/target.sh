# Libraries for another machine: made, looked at, run and verified under an emulator, refused with the reason.
source "$ROOT/tests/cli/lib.bash"
mkdir out
case $(uname -m) in
  x86_64) here=x86_64-linux there=aarch64-linux ;;
  *) here=aarch64-linux there=x86_64-linux ;;
esac
slipway convert net.sw -o out/here.so -q
slipway convert net.sw -o out/same.so -q --target $here
cmp out/here.so out/same.so
slipway inspect out/here.so > stdout
grep -q "native library for $here, " stdout || fails "inspect does not say the machine"
expect 2 "SW1003.*target 'riscv64-linux' is not aarch64-linux.x86_64-linux" \
  slipway convert net.sw -o out/m.so --target riscv64-linux
expect 2 'SW1003.*--to onnx does not take --target \(a flag of so, native-pt2\)' \
  slipway convert net.sw -o out/m.onnx --target $here

# What is code of this machine, or judged on it alone. Nothing is read before that is said.
expect 4 "SW2002.*--target $there with --plugin: plugins are code of this machine, $here" \
  slipway convert none.sw -o out/m.so --target $there --plugin ./p.so
says 'convert on such a machine'
expect 4 "SW2002.*--target $there with --to native-pt2" \
  slipway convert none.sw -o out/m.pt2 --to native-pt2 --target $there
only here.so same.so

# There is a library where slipway carries the runtime; else the next step is said.
if ! slipway convert net.sw -o out/m.so --target $there 2> stderr; then
  expect 4 "SW2002.*--target $there: this slipway, for $here, does not carry the runtime" \
    slipway convert net.sw -o out/m.so --target $there
  says g++-aarch64-linux-gnu
  only here.so same.so
  echo "not run: this slipway does not carry the runtime for $there"
  exit 0
fi
grep -q 'out/m.so: 2 nodes -> ' stderr || fails "no summary"
slipway convert net.sw -o out/again.so -q --target $there
cmp out/m.so out/again.so
slipway inspect out/m.so > stdout
grep -q "native library for $there, " stdout || fails "inspect does not say the machine"
slipway inspect out/m.so --json | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["target"])' > stdout
[ "$(cat stdout)" = $there ] || fails "inspect --json does not say the machine"
# The program and its interface are those of the other library.
for side in here m; do slipway inspect out/$side.so | sed 1d > $side.text; done
cmp here.text m.text
slipway inspect out/m.so --header > m.h
mkdir other
cp out/here.so other/m.so
slipway inspect other/m.so --header | cmp - m.h
expect 4 "SW2002.*--kernels says which loops this processor takes, and the library is for $there" \
  slipway inspect out/m.so --kernels
# Segments for pages of 4, 16 and 64 KiB; the glibc of all libraries.
readelf -lW out/m.so | awk '$1 == "LOAD" { if (strtonum($NF) < 65536) exit 1; n++ } END { exit n < 3 }' 2> stderr \
  || "$PYTHON" - <<'PYTHON'
import subprocess
loads = [line.split() for line in subprocess.run(["readelf", "-lW", "out/m.so"], capture_output=True, text=True,
                                                 check=True).stdout.splitlines() if line.split()[:1] == ["LOAD"]]
assert len(loads) >= 3 and all(int(row[-1], 16) >= 65536 for row in loads), loads
PYTHON
if [ -e "$(dirname "$SLIPWAY")/glibc/libc.so" ]; then python3 "$ROOT/packaging/check_glibc.py" out/m.so > log; fi

# Under an emulator.
"$PYTHON" - <<'PYTHON'
import torch
from safetensors.torch import save_file
torch.manual_seed(0)
save_file({"input.0": torch.randn(3, 8)}, "in.safetensors")
save_file({"input.0": torch.randn(3, 7)}, "bad.safetensors")
PYTHON
run() { slipway run out/m.so --inputs in.safetensors --outputs out/y.safetensors "$@"; }
expect 4 "SW2002.*the library is for $there, and there is no ./none to run it" run --emulator ./none
says 'install qemu-user' '--emulator'
expect 4 "SW2002.*not run under false: it ended with exit code 1" run --emulator false
expect 4 "SW2002.*not run under true: it ended without a reply" run --emulator true
# What an emulator says is not believed: a reply that is none, and one that is cut off.
printf '#!/bin/sh\nfor reply; do :; done\nprintf %%s "SLPWRUN" > "$reply"\n' > liar
chmod +x liar
expect 3 'SW1001.*reply is cut off' run --emulator ./liar
sed -i 's/SLPWRUN/SLPWRUN200000000/' liar
expect 3 'SW1001.*reply is none' run --emulator ./liar
sed -i 's/SLPWRUN2/SLPWRUN1/' liar
expect 3 'SW1001.*reply is cut off' run --emulator ./liar
expect 4 'SW2002.*--profile' run --profile
expect 4 'SW2002.*--decode' run --decode in.safetensors
expect 4 'SW2002.*--plugin' run --plugin ./p.so
[ ! -e out/y.safetensors ] || fails "outputs were written"
emulator=qemu-${there%-linux}
if ! command -v $emulator > /dev/null; then
  PATH=$(dirname "$SLIPWAY") expect 4 "SW2002.*there is no $emulator to run it" "$SLIPWAY" run out/m.so \
    --inputs in.safetensors --outputs out/y.safetensors
  echo "not run: no $emulator"
  exit 0
fi
expect 0 '' run
expect 0 '' run --emulator "$(command -v $emulator)" --threads 2
slipway run out/here.so --inputs in.safetensors --outputs out/x.safetensors
expect 0 '' slipway diff out/x.safetensors out/y.safetensors --tolerance 1e-5
expect 0 '' run --repeat 3 --json
grep -q '"run_s":\[' stdout || fails "no times: $(cat stdout)"
(cd out && expect 0 '' slipway run m.so --inputs ../in.safetensors --outputs y.safetensors)
expect 3 'SW1001.*input 0 \(x\).*' slipway run out/m.so --inputs bad.safetensors --outputs out/z.safetensors
[ ! -e out/z.safetensors ] || fails "outputs were written"
expect 0 '' slipway verify net.sw out/m.so --seed 1
grep -q "ran under an emulator of $there" stdout || fails "verify does not say so: $(cat stdout)"
expect 0 '' slipway verify out/here.so out/m.so --inputs in.safetensors
# Of another model: the answer is no.
sed 's/aten.relu/aten.sigmoid/' net.sw > other.sw
slipway convert other.sw -o out/other.so -q --target $there
expect 1 SW6001 slipway verify net.sw out/other.so --seed 1
# State is reset for each set, and kept between the runs of one.
head -c 100000 out/m.so > out/cut.so
expect 3 SW1001 slipway run out/cut.so --inputs in.safetensors --outputs out/z.safetensors
