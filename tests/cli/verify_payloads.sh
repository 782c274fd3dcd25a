# inspect --verify finds every member whose bytes are not those of its checksum, in zips within zips too, and programs
# whose types cannot be. Conversions compare the checksums of what they read.
source "$ROOT/tests/cli/lib.bash"
slipway convert net.sw -o m.pt2 -q
slipway convert net.sw -o old.pt2 --torch 2.6 -q
slipway convert net.sw -o w.safetensors -q
expect 0 '' slipway inspect m.pt2 --verify
grep -qE 'verified: [0-9]+ members' stdout || fails "says nothing"
expect 0 '' slipway inspect old.pt2 --verify --json
"$PYTHON" -c '
import json
v = json.load(open("stdout"))["verified"]
assert v["members"] > 8 and v["bytes"] > 144, v'
expect 0 '' slipway inspect w.safetensors --verify
grep -q 'no checksums' stdout || fails "claims to have verified"
# One bit of a weight in each. The weights of the old layout are in a zip within the zip: both directories state a
# CRC-32.
"$PYTHON" - <<'EOF'
import zipfile
for name, member in (("m.pt2", "weight_0"), ("old.pt2", "serialized_state_dict.pt")):
    data = bytearray(open(name, "rb").read())
    with zipfile.ZipFile(name) as z:
        info = next(i for i in z.infolist() if i.filename.endswith(member))
        at = data.index(z.read(info), info.header_offset)
    if name == "old.pt2":
        import io
        inner = zipfile.ZipFile(io.BytesIO(bytes(data[at:at + info.file_size])))
        stored = next(i for i in inner.infolist() if i.filename.endswith("data/0"))
        at = data.index(inner.read(stored), at)
    data[at] ^= 1
    open("bad_" + name, "wb").write(data)
EOF
expect 3 "SW1001.*1 member .*weight_0'" slipway inspect bad_m.pt2 --verify
expect 3 "SW1001.*2 members .*'serialized_state_dict.pt', 'serialized_state_dict.pt/.*data/0'" \
  slipway inspect bad_old.pt2 --verify
expect 0 '' slipway inspect bad_m.pt2
# Every target refuses it: bytes that are read are compared, large ones that the kernel copies with --check-crc.
for target in onnx pt2 so native-pt2 safetensors; do
  expect 3 "SW1001.*CRC-32" slipway convert bad_m.pt2 -o x --to $target
  expect 3 "SW1001.*CRC-32" slipway convert bad_m.pt2 -o x --to $target --check-crc
done
expect 3 'SW1001.*CRC' slipway convert bad_old.pt2 -o x.onnx
expect 3 'SW1001.*CRC-32' slipway convert bad_m.pt2 -o x.safetensors --dtype f16
expect 3 'SW1001.*CRC-32' slipway unpack bad_m.pt2 -o folder
[ ! -e x ] && [ ! -e x.onnx ] && [ ! -e x.safetensors ] && [ ! -e folder ] || fails "something was written"

# A larger weight, which is copied, packed or cast.
head -c 9000000 /dev/urandom > big.bin
cat > big.sw <<'SW'
slipway.ir 1
weights { $w: f32[1500, 1500] @ "big.bin"+0 }
graph main(%w: f32[1500, 1500] = parameter $w, %x: f32[2, 1500]) {
  %y: f32[2, 1500] = aten.mm.default(self=%x, mat2=%w)
  return %y
}
SW
slipway convert big.sw -o big.pt2 -q
"$PYTHON" - <<'EOF'
data = bytearray(open("big.pt2", "rb").read())
data[5_000_000] ^= 1
open("bad_big.pt2", "wb").write(data)
EOF
for flags in '--to onnx' '--to so' '--to native-pt2' '--to safetensors' '--to safetensors --dtype bf16' \
  '--to pt2 --torch 2.6'; do
  expect 3 "SW1001.*CRC-32" slipway convert bad_big.pt2 -o x $flags
done
for target in onnx pt2 so native-pt2 safetensors; do
  expect 3 "SW1001.*'w'.*CRC-32" slipway convert bad_big.pt2 -o x --to $target --check-crc
done
[ ! -e x ] || fails "something was written"
expect 0 '' slipway convert big.pt2 -o x --to onnx --check-crc -q

# Types that the operators do not give, though nothing else is wrong with the file.
cat > lying.sw <<'SW'
slipway.ir 1
graph main(%q: i8[1,2,4,8], %k: f32[1,2,4,8]) {
  %y: f32[1,2,4,8] = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%k)
  return %y
}
SW
expect 3 'SW1001.*different dtypes' slipway convert lying.sw -o x.onnx
expect 0 '' slipway inspect lying.sw
expect 3 'SW1001.*different dtypes' slipway inspect lying.sw --verify
expect 0 '' slipway inspect "$ROOT/tests/golden/infer_shapes_states.sw" --verify
grep -q 'aten.lstm.input: %hn is declared as f32\[1,1,2,7\], corrected to f32\[1,2,7\]' stdout \
  || fails "does not say what is corrected"
expect 0 '' slipway inspect "$ROOT/tests/golden/infer_shapes_states.sw" --verify --json
"$PYTHON" -c 'import json; assert len(json.load(open("stdout"))["verified"]["corrected"]) == 2'
