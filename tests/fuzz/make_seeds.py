#!/usr/bin/env python3
"""The first inputs of the fuzz targets: make_seeds.py FOLDER SLIPWAY makes FOLDER/TARGET/… of small good files:
archives and pickles put together as in tests/hostile, the programs of tests/golden, and what SLIPWAY makes of them."""

import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "hostile"))
import archives  # noqa: E402
import images  # noqa: E402
import pickles  # noqa: E402

PROGRAMS = sorted((ROOT / "tests" / "golden").glob("*.sw")) + [ROOT / "tests" / "cli" / "net.sw"]


def converted(slipway, program, suffix, *flags):
    """What a text form becomes, or None where it cannot be that."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / f"out{suffix}"
        done = subprocess.run([slipway, "convert", program, "-o", out, "-q", *flags], capture_output=True)
        return out.read_bytes() if done.returncode == 0 else None


def program_of(archive):
    with zipfile.ZipFile(io.BytesIO(archive)) as z:
        return next(z.read(name) for name in z.namelist() if "/models/" in name and name.endswith(".json"))


def plan_of(library):
    start = library.rindex(b"SLIPWAY1")
    offset, size = struct.unpack_from("<QQ", library, start + 16)
    return library[start + offset :][:size]


def pickled():
    """Pickles of values, of tensors, and of an object of a class that is not known."""
    yield pickles.pickle({"w": pickles.tensor(), "n": [1, -1, 1 << 70, None, "x", b"y", True, (1, 2)]})
    yield pickles.pickle(
        pickles.record("torchao.x", "Y", {"qdata": pickles.tensor(), "scale": pickles.tensor(), "block_size": [1, 32]})
    )
    yield pickles.pickle(
        pickles.record("torchao.x", "Y", {"nested": pickles.record("torchao.x", "Z", {"q": pickles.tensor()})}), 4
    )


def npy(kind, shape, data, fortran=False):
    """A file of NumPy."""
    header = f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def seeds(slipway):
    good = archives.pack(archives.members())
    deflated = archives.pack(archives.members(), zipfile.ZIP_DEFLATED)
    for data in (good, deflated, archives.flat(b"\x80\x02}."), archives.pack({"a": b""}), archives.pack({})):
        yield "zip", data
    yield "pt2", good
    yield "pt2", archives.pack(archives.members() | {"m/data/weights/weight_0": b""})  # a weight without values
    yield "pt2", archives.flat(b"\x80\x02}.")
    yield "program", json.dumps(archives.program()).encode()
    for data in pickled():
        yield "pickle", data
        yield "checkpoint", pickles.zipped(data)
        yield "checkpoint", pickles.legacy(pickles.Code(data[2:-1]))
    yield "checkpoint", pickles.legacy()
    yield (
        "safetensors",
        archives.safetensors({"w": {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]}}, bytes(128)),
    )
    many = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [], "data_offsets": [0, 2]},
        "b": {"dtype": "F4", "shape": [3, 2], "data_offsets": [2, 5]},
    }
    yield "safetensors", archives.safetensors(many, bytes(5))
    for program in PROGRAMS:
        yield "text", program.read_bytes()
        if archive := converted(slipway, program, ".pt2"):
            yield "program", program_of(archive)
        if model := converted(slipway, program, ".onnx"):
            yield "onnx", model
        if library := converted(slipway, program, ".so"):
            yield "plan_file", plan_of(library)
    library = converted(slipway, PROGRAMS[-1], ".so")
    yield "native", library[:4096] + library[library.rindex(b"SLIPWAY1") & -4096 :]
    yield "native", library
    for array in (npy("<f4", (2, 3), bytes(24)), npy(">i2", (2,), bytes(4), fortran=True), npy("|O", (1,), b"x")):
        yield "npy", array
        yield "npy", archives.pack({"w.npy": array, "v.npy": array})
    for file in sorted(images.JPEGS.iterdir()):
        yield "image", file.read_bytes()
    for color, interlaced in ((0, False), (2, True), (4, True), (6, False)):
        yield "image", images.png([[(7,) * images.CHANNELS[color]] * 5] * 3, color, interlaced=interlaced)
    yield "image", images.scans(3)
    yield (
        "config",
        b"\0"
        + json.dumps(
            [{"match": "w$", "split": "row"}, {"match": ".", "split": "replicate"}, {"match": "b", "split": "column"}]
        ).encode(),
    )
    yield "config", b"\1^layers\\.(\\d+)=>block$1\n(a+)+$"
    yield (
        "config",
        b"\2"
        + json.dumps(
            {
                "metadata": {"total_size": 9},
                "weight_map": {"w": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"},
            }
        ).encode(),
    )


def main():
    folder, slipway = pathlib.Path(sys.argv[1]), sys.argv[2]
    for number, (target, data) in enumerate(seeds(slipway)):
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / f"seed{number:03}").write_bytes(data)


if __name__ == "__main__":
    main()
