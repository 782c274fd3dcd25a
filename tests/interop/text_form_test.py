"""Programs that torch exports here survive the text form, and `inspect` says what is in them."""

import json
import os
import pathlib
import subprocess

import pytest
import torch
from conftest import ROOT
from json_schema import conform
from torch.export import Dim, export, save

ROUNDTRIP = pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway")).parent / "ir_roundtrip"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.bn = torch.nn.BatchNorm2d(4)
        self.fc = torch.nn.Linear(4, 4)
        self.tied = self.fc
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("table", torch.arange(8.0).reshape(2, 4).t(), persistent=False)

    def forward(self, x, scale=0.5, flag=True):
        self.steps.add_(1)
        y = torch.relu(self.bn(self.conv(x))).mean((2, 3))
        a, b = torch.split(self.tied(self.fc(y)), 2, dim=1)
        return {"y": torch.cat([b * scale, a], 1) @ self.table, "n": x.shape[0] + 1, "none": None}


class Control(torch.nn.Module):
    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda t: (t.sin(), t + 2), lambda t: (t.cos(), t + 1), (x,))
        n = torch._higher_order_ops.map(lambda row: row * 2, y[0])
        idx = torch.nonzero(x)
        return n, y[1], idx, x.sum().item() * 2


PROGRAMS = {
    "static": lambda: export(Net().train(), (torch.randn(2, 3, 8, 8),)),
    "dynamic": lambda: export(
        Net().eval(),
        (torch.randn(2, 3, 8, 8),),
        {"scale": 2.0},
        dynamic_shapes={"x": {0: Dim("batch", max=64), 2: Dim.AUTO, 3: Dim.AUTO}, "scale": None},
    ),
    "control": lambda: export(Control(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=2)},)),
    "decomposed": lambda: export(Net().eval(), (torch.randn(2, 3, 8, 8),)).run_decompositions(),
}


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def archive(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / f"{request.param}.pt2"
    save(PROGRAMS[request.param](), str(path), extra_files={"note.txt": "hello"})
    return path


def test_round_trip(archive):
    done = subprocess.run([ROUNDTRIP, "--verify", archive], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_text_is_read_back(slipway, archive, tmp_path):
    text = slipway("inspect", archive, "--ir").stdout
    copy = archive.with_suffix(".sw")
    copy.write_text(text)
    assert slipway("inspect", copy, "--ir").stdout == text
    short = slipway("inspect", archive, "--ir", "--sources", "short").stdout
    assert "sources {" in text and "sources {" not in short and len(short) < len(text)


def test_json(slipway, archive):
    report = json.loads(slipway("inspect", archive, "--json").stdout)
    conform(report, "inspect")
    [program] = report["programs"]
    loaded = torch.export.load(str(archive))
    assert [w["name"] for w in program["weights"] if w["kind"] == "parameter"] == [
        s.target for s in loaded.graph_signature.input_specs if s.kind.name == "PARAMETER"
    ]
    assert sum(w["bytes"] for w in program["weights"]) == program["weight_bytes"]
    assert sum(program["ops"].values()) == program["nodes"]
    assert report["extra_files"] == {"note.txt": 5}
    table = slipway("inspect", archive, "--ops", "--weights").stdout
    assert all(op in table for op in program["ops"]) and "note.txt" in table


def test_safetensors(slipway, tmp_path):
    from safetensors.torch import save_file

    save_file(
        {"a": torch.zeros(2, 3), "b": torch.zeros(4, dtype=torch.bfloat16)}, tmp_path / "w.safetensors", {"k": "v"}
    )
    report = json.loads(slipway("inspect", tmp_path / "w.safetensors", "--json").stdout)
    conform(report, "inspect")
    assert [(t["name"], t["dtype"], t["shape"], t["bytes"]) for t in report["tensors"]] == [
        ("a", "f32", [2, 3], 24),
        ("b", "bf16", [4], 8),
    ]
    assert report["metadata"] == {"k": "v"}
    assert "2 tensors" in slipway("inspect", tmp_path / "w.safetensors").stdout
