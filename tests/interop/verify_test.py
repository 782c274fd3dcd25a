"""slipway verify: programs, libraries and ONNX models beside each other; --layers finds faults that are planted at random nodes.

SLIPWAY_VERIFY_TRIALS=50 plants as many faults (8 if not said).
"""

import json
import os
import random
import re
import sys

import pytest
import torch
from safetensors.torch import save_file

pytestmark = pytest.mark.filterwarnings("ignore")
TRIALS = int(os.environ.get("SLIPWAY_VERIFY_TRIALS", "8"))


def verify(slipway, a, b, *more, status=0):
    return json.loads(slipway("verify", a, b, "--json", "--python", sys.executable, *more, status=status).stdout)


UNARY = [torch.relu, torch.tanh, torch.sigmoid, torch.sin, torch.nn.functional.gelu, torch.nn.functional.silu, torch.exp]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum]


class Random(torch.nn.Module):
    """A random graph of about `size` nodes over vectors of 16."""

    def __init__(self, rng, size):
        super().__init__()
        self.linears = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(3))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(16) for _ in range(3))
        self.plan = []
        for i in range(size):
            kind = rng.choice(["unary", "unary", "binary", "linear", "norm", "number", "softmax", "shape"])
            self.plan.append((kind, rng.randrange(100), rng.randrange(max(0, i - 6), i + 1), rng.randrange(i + 1), rng.uniform(0.2, 2)))

    def forward(self, x):
        values = [x]
        for kind, which, i, j, number in self.plan:
            a, b = values[i], values[j]
            if kind == "unary":
                out = UNARY[which % len(UNARY)](a.clamp(max=8) if which % len(UNARY) == 6 else a)
            elif kind == "binary":
                out = BINARY[which % len(BINARY)](a, b)
            elif kind == "linear":
                out = self.linears[which % 3](a)
            elif kind == "norm":
                out = self.norms[which % 3](a)
            elif kind == "number":
                out = a * number if which % 2 else a + number
            elif kind == "softmax":
                out = torch.softmax(a, dim=-1)
            else:
                out = a.reshape(a.shape[0], 4, 4).transpose(1, 2).reshape(a.shape[0], 16)
            values.append(out)
        return torch.stack(values[-6:]).sum(0), torch.cat(values[1:], dim=1).tanh()


# Other operators with the same arguments, whose values are others everywhere.
SWAPS = {name: "aten.cos.default" for name in ("relu", "tanh", "sigmoid", "sin", "silu", "exp", "neg")}
SWAPS |= {"add": "aten.sub.Tensor", "sub": "aten.add.Tensor", "mul": "aten.maximum.default", "maximum": "aten.minimum.default"}


def faults(text):
    """Each place where a constant or an operator can be changed: (name of the node's value, text with the fault)."""
    for m in re.finditer(r"^  %(\w+): \S+ = aten\.(\w+)\.(\w+)\((.*)\)", text, re.M):
        name, op, overload, arguments = m.groups()
        place = lambda new: text[: m.start(2)] + new + text[m.end(4) :]
        if op in SWAPS and not re.search(r"other(:pos)?=[-\d]", arguments):
            yield name, place(SWAPS[op].removeprefix("aten.") + "(" + arguments)
        for number in re.finditer(r"=(-?\d+\.\d+(e-?\d+)?)", arguments):
            changed = repr(float(number[1]) * 1.5 + 0.25) if op != "layer_norm" else "0.01"
            yield name, place(f"{op}.{overload}(" + arguments[: number.start(1)] + changed + arguments[number.end(1) :])


def planted(slipway, tmp_path, rng, trial, size=40):
    """A random program as text, one with a fault, and the name of the value that is wrong."""
    program = tmp_path / f"{trial}.pt2"
    torch.manual_seed(trial)
    dims = ({0: torch.export.Dim("B", max=64)},)
    torch.export.save(torch.export.export(Random(rng, size).eval(), (torch.randn(3, 16),), dynamic_shapes=dims), program)
    whole, broken = tmp_path / f"{trial}.sw", tmp_path / f"{trial}_broken.sw"
    whole.write_text(slipway("inspect", program, "--ir").stdout)
    name, changed = rng.choice(list(faults(whole.read_text())))
    broken.write_text(changed)
    return whole, broken, name


def layers(slipway, *arguments):
    """Whether the fault reaches an output or not."""
    arguments = ["verify", *arguments, "--layers", "--json", "--no-reference", "--python", sys.executable]
    try:
        done = slipway(*arguments, status=1)
    except AssertionError:
        done = slipway(*arguments, status=0)
    return json.loads(done.stdout)["layers"]


def test_layers_names_planted_faults(slipway, tmp_path):
    rng = random.Random(1)
    for trial in range(TRIALS):
        whole, broken, name = planted(slipway, tmp_path, rng, trial)
        first = layers(slipway, whole, broken)["first"]
        assert first and first["value"] == name, (trial, name, first, whole)
        assert "verify_test.py:" in first["place"], first


def test_layers_names_faults_in_onnx(slipway, tmp_path):
    """The model of the program with the fault: what onnxruntime computes is compared with what the program says."""
    rng = random.Random(2)
    for trial in range(TRIALS // 2):
        whole, broken, name = planted(slipway, tmp_path, rng, trial, size=25)
        model = tmp_path / f"{trial}.onnx"
        slipway("convert", broken, "-o", model)
        first = layers(slipway, whole, model)["first"]
        assert first and first["value"] == name, (trial, name, first, whole)
