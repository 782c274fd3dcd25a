"""No pickle runs: every hostile checkpoint ends with exit 3 and one clear line that says where, no exploit leaves its
mark, and what was at OUT stays. The same exploits do leave their mark with Python's own unpickler.
"""

import json
import os
import pathlib
import re
import struct
import subprocess
import sys

import pytest
from diagnostics import cause

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import pickles
from conftest import ROOT
from pickles import MARK, OK_BYTES, Case

SLIPWAY = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
LIMIT_S = 60
CASES = list(pickles.cases())


def place(folder, data):
    """Writes the checkpoint; its path."""
    if isinstance(data, bytes):
        (folder / "bad.pt").write_bytes(data)
        return "bad.pt"
    (folder / "bad").mkdir()
    for name, content in data.items():
        (folder / "bad" / name).write_bytes(content)
    return "bad"


def run(folder, *arguments):
    done = subprocess.run([SLIPWAY, *arguments], cwd=folder, capture_output=True, timeout=LIMIT_S)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_refused(tmp_path, case: Case):
    path = place(tmp_path, case.data)
    output = tmp_path / "out"
    output.mkdir()
    (output / "m.safetensors").write_bytes(b"before")
    for command in (["convert", path, "-o", "out/m.safetensors", "--quiet"], ["inspect", path]):
        code, stderr = run(tmp_path, *command)
        assert code == case.status, f"exit {code}\n{stderr}"
        assert re.match(r"error\[SW\d{4}\]: ", cause(stderr)) and len(stderr) < 2000, stderr
        assert sum(line.startswith("error") for line in stderr.splitlines()) == 1, stderr
        assert re.search(case.message, cause(stderr)), f"no {case.message!r} in\n{stderr}"
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", stderr), stderr
    assert not (tmp_path / MARK).exists(), "the exploit ran"
    assert [p.name for p in output.iterdir()] == ["m.safetensors"] and (
        output / "m.safetensors"
    ).read_bytes() == b"before"


def test_there_are_enough():
    assert len(CASES) >= 40 and len({c.name for c in CASES}) == len(CASES)
    assert sum(c.program is not None for c in CASES) >= 15


@pytest.mark.parametrize("case", [c for c in CASES if c.program is not None], ids=lambda c: c.name)
def test_python_would_run_it(tmp_path, monkeypatch, case):
    """In a process of its own, with storages as they come."""
    script = (
        "import pickle, sys\nclass U(pickle.Unpickler):\n    persistent_load = lambda self, pid: pid\n"
        "U(open('p', 'rb')).load()"
    )
    (tmp_path / "p").write_bytes(
        re.sub(
            rb"ctorch\nFloatStorage\n",
            b"cbuiltins\nfloat\n",
            case.program.replace(b"ctorch._utils\n_rebuild_tensor_v2\n", b"cbuiltins\nfilter\n"),
        )
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, timeout=LIMIT_S)
    assert (tmp_path / MARK).exists()


# ---- the same builders make good checkpoints


def read(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    return {
        name: (t["dtype"], t["shape"], data[8 + length :][slice(*t["data_offsets"])])
        for name, t in header.items()
        if name != "__metadata__"
    }


VIEW = pickles.storage(identity=("storage", pickles.name("torch", "FloatStorage"), "0", "cpu", 4, ("v", 1, 2)))
GOOD = {
    "zip": (pickles.zipped(pickles.pickle({"w": pickles.tensor()})), {"w": ("F32", [4], OK_BYTES)}),
    "legacy": (pickles.legacy(), {"w": ("F32", [4], OK_BYTES)}),
    "legacy_views": (
        pickles.legacy(
            {"w": pickles.tensor(), "v": pickles.tensor(VIEW, 1, (1,)), "u": pickles.tensor(VIEW, sizes=(2,))}
        ),
        {"w": ("F32", [4], OK_BYTES), "v": ("F32", [1], OK_BYTES[8:12]), "u": ("F32", [2], OK_BYTES[4:12])},
    ),
    "distributed": (pickles.distributed(), {"w": ("F32", [4, 2], OK_BYTES * 2)}),
    "distributed_columns": (
        pickles.distributed(
            sizes=(2, 4),
            chunks=[((0, 0), (2, 2)), ((0, 2), (2, 2))],
            items=[
                ("w", (0, 0), "__0_0.distcp", 0, len(pickles.BLOB)),
                ("w", (0, 2), "__0_0.distcp", len(pickles.BLOB), len(pickles.BLOB)),
            ],
        ),
        {"w": ("F32", [2, 4], struct.pack("<8f", 1, 2, 1, 2, 3, 4, 3, 4))},
    ),
}


@pytest.mark.parametrize("case", sorted(GOOD))
def test_good_ones_convert(tmp_path, case):
    data, want = GOOD[case]
    code, stderr = run(tmp_path, "convert", place(tmp_path, data), "-o", "m.safetensors")
    assert code == 0, stderr
    assert read(tmp_path / "m.safetensors") == want


def test_every_cut_and_flip(tmp_path):
    """Of the form before 1.6, byte by byte: refused or read, never a crash."""
    good = pickles.legacy()
    output = ["-o", "m.safetensors", "--quiet"]
    for at in range(0, len(good), 11):
        (tmp_path / "cut.pt").write_bytes(good[:at])
        assert run(tmp_path, "convert", "cut.pt", *output)[0] == 3
        flipped = bytearray(good)
        flipped[at] ^= 0x55
        (tmp_path / "cut.pt").write_bytes(flipped)
        assert run(tmp_path, "convert", "cut.pt", *output)[0] in (0, 3, 4)
