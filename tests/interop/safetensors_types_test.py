"""Every type of the safetensors format, those below a byte included: read, shown, compared and written as the reference
does."""

import ctypes
import json
import struct

import pytest
import safetensors

# Bits of an element, in the order of the reference's enumeration.
TYPES = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64,
    "F64": 64, "I64": 64,
    "U64": 64,
}  # fmt: skip


def write(path, tensors, metadata=None):
    """tensors: name -> (type, shape, bytes), laid out in the order given."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def every_type():
    return {
        f"{name}.{dtype}": (dtype, [3, 8], bytes(range(3 * bits))) for dtype, bits in TYPES.items() for name in "ba"
    }


def test_copied_as_the_reference_writes(slipway, tmp_path):
    write(tmp_path / "in.safetensors", every_type(), {"format": "pt", "k": "v"})
    slipway("convert", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors")
    parsed = safetensors.deserialize((tmp_path / "out.safetensors").read_bytes())
    assert {name: (t["dtype"], t["shape"], bytes(t["data"])) for name, t in parsed} == every_type()
    # The same tensors through the reference's writer, which sorts by type.
    torch_names = {
        "BOOL": "bool", "F4": "float4_e2m1fn_x2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
        "F8_E5M2": "float8_e5m2",
        "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "BF16": "bfloat16", "C64": "complex64",
    }  # fmt: skip
    torch_names |= {
        f"{letter}{bits}": f"{word}{bits}"
        for letter, word in (("I", "int"), ("U", "uint"), ("F", "float"))
        for bits in (8, 16, 32, 64)
    }
    specs, buffers = {}, []
    for name, (dtype, shape, content) in every_type().items():
        if dtype.startswith("F6"):  # not offered to Python
            continue
        buffers.append(ctypes.create_string_buffer(content, len(content)))
        stored = [3, 4] if dtype == "F4" else shape
        specs[name] = safetensors.TensorSpec(
            dtype=torch_names[dtype], shape=stored, data_ptr=ctypes.addressof(buffers[-1]), data_len=len(content)
        )
    safetensors.serialize_file(specs, tmp_path / "reference.safetensors", {"format": "pt", "k": "v"})
    slipway("convert", tmp_path / "in.safetensors", "--exclude", "F6", "-o", tmp_path / "out.safetensors")

    def names(path):
        data = path.read_bytes()
        return list(json.loads(data[8 : 8 + struct.unpack_from("<Q", data)[0]]))[1:]

    assert names(tmp_path / "out.safetensors") == names(tmp_path / "reference.safetensors")


def test_shown_and_sharded(slipway, tmp_path):
    write(tmp_path / "in.safetensors", every_type())
    text = slipway("inspect", tmp_path / "in.safetensors", "--weights").stdout
    for line in (
        "f4e2m1[3,8]      12 bytes",
        "f6e2m3[3,8]      18 bytes",
        "f8e8m0fnu[3,8]   24 bytes",
        "c64[3,8]         192 bytes",
    ):
        assert line in text, text
    slipway("convert", tmp_path / "in.safetensors", "--shards", "5", "-o", f"{tmp_path}/out/")
    assert (
        slipway("diff", tmp_path / "in.safetensors", tmp_path / "out").stdout == "44 of 44 common tensors are equal\n"
    )


def test_differences_below_a_byte(slipway, tmp_path):
    a, b = bytes(range(48)), bytearray(range(48))
    b[5] ^= 0x10  # f4: element 11, code 0 -> 1; f6: bits of byte 5 in group 1 (bytes 3 ... 5): element 6 or 7
    for dtype, bits, elements in (("F4", 4, 96), ("F6_E2M3", 6, 64), ("F6_E3M2", 6, 64)):
        for name, content in (("a", a), ("b", b)):
            write(tmp_path / f"{name}.safetensors", {"x": (dtype, [elements], bytes(content))})
        [found] = json.loads(
            slipway("diff", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--json", status=1).stdout
        )["differences"]
        assert (found["unequal"], found["elements"]) == (1, elements)
        assert found["max_abs"] == {"F4": 0.5, "F6_E2M3": 0.5, "F6_E3M2": 0.25}[dtype]


@pytest.mark.parametrize("dtype,count,size", [("F4", 3, 2), ("F6_E2M3", 2, 2), ("F6_E3M2", 5, 4)])
def test_ends_within_a_byte(slipway, tmp_path, dtype, count, size):
    write(tmp_path / "in.safetensors", {"x": (dtype, [count], bytes(size))})
    assert (
        "within a byte"
        in slipway("convert", tmp_path / "in.safetensors", "-o", tmp_path / "o.safetensors", status=3).stderr
    )
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize((tmp_path / "in.safetensors").read_bytes())


def test_unknown_type(slipway, tmp_path):
    write(tmp_path / "in.safetensors", {"x": ("F3", [8], bytes(3))})
    assert "'x': dtype F3" in slipway("inspect", tmp_path / "in.safetensors", status=4).stderr
