# inspect --verify finds every member whose bytes are not those of its checksum, in zips within zips too.
source "$ROOT/tests/cli/lib.bash"
slipway convert net.sw -o m.pt2 -q
slipway convert net.sw -o old.pt2 --torch 2.6 -q
slipway convert net.sw -o w.safetensors -q
expect 0 '' slipway inspect m.pt2 --verify
grep -qE 'verified: [0-9]+ members' stdout || fails "says nothing"
expect 0 '' slipway inspect old.pt2 --verify --json
"$PYTHON" -c 'import json, sys; v = json.load(open("stdout"))["verified"]; assert v["members"] > 8 and v["bytes"] > 144, v'
expect 0 '' slipway inspect w.safetensors --verify
grep -q 'no checksums' stdout || fails "claims to have verified"
# One bit of a weight in each. The weights of the old layout are in a zip within the zip: both directories state a CRC-32.
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
expect 3 "SW1001.*2 members .*'serialized_state_dict.pt', 'serialized_state_dict.pt/.*data/0'" slipway inspect bad_old.pt2 --verify
expect 0 '' slipway inspect bad_m.pt2
expect 3 'SW1001' slipway convert bad_m.pt2 -o x.pt2 --check-crc
[ ! -e x.pt2 ]
