"""slipway verify: programs, libraries and ONNX models beside each other; --layers finds faults that are planted at
random nodes.

SLIPWAY_VERIFY_TRIALS=50 plants as many faults (8 if not said).
"""

import json
import math
import os
import random
import re
import sys

import onnx
import pytest
import torch
from json_schema import conform
from safetensors.torch import save_file
from torch.export import Dim, export, save

pytestmark = pytest.mark.filterwarnings("ignore")
TRIALS = int(os.environ.get("SLIPWAY_VERIFY_TRIALS", "8"))


def verify(slipway, a, b, *more, status=0):
    report = json.loads(slipway("verify", a, b, "--json", "--python", sys.executable, *more, status=status).stdout)
    conform(report, "verify")
    return report


class Model(torch.nn.Module):
    """Tables, masks, sizes that depend on each other, several results."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(11, 8)
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, ids, mask, scale: float = 2.0, *, places=None):
        x = self.fc(self.table(ids)) * scale
        x = torch.where(mask.unsqueeze(-1), x, -1.0)
        return {
            "x": torch.softmax(x, -1),
            "n": x.shape[0] * 2,
            "sum": x.sum(1),
            "picked": x.flatten(0, 1)[places],
            "none": None,
            "max": x.argmax(-1),
        }


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    arguments = (torch.randint(0, 11, (3, 5)), torch.rand(3, 5) > 0.3, 2.0)
    b, s = Dim("b", min=2, max=32), Dim("s", min=2, max=16)
    program = export(
        Model().eval(),
        arguments,
        {"places": torch.tensor([0, 14])},
        dynamic_shapes={"ids": {0: b, 1: s}, "mask": {0: b, 1: s}, "scale": None, "places": None},
    )
    save(program, folder / "m.pt2")
    return folder


@pytest.mark.parametrize("suffix", [".so", ".onnx", ".pt2"])
def test_conversions_agree(slipway, model, suffix):
    other = model / f"other{suffix}"
    slipway("convert", model / "m.pt2", "-o", other)
    report = verify(slipway, model / "m.pt2", other)
    assert [s["source"] for s in report["sets"]] == ["samples"]
    # Constants and None have no number; the symbolic number has.
    assert [o["a"] for o in report["sets"][0]["outputs"]] == ["f32[3,5,8]", "i64[]", "f32[3,8]", "f32[2,8]", "i64[3,5]"]
    assert all(o["agree"] and ("reference" in o) == o["a"].startswith("f32") for o in report["sets"][0]["outputs"])
    assert report["reference_note"] == ""
    swept = verify(slipway, model / "m.pt2", other, "--sweep", "6", "--seed", "5")
    sizes = [s["sizes"] for s in swept["sets"]]
    assert len(sizes) == 6 and all(2 <= min(s.values()) and max(s.values()) <= 32 for s in sizes)
    assert set(sizes[0].values()) == {2} and set(sizes[1].values()) == {16, 32}
    # Integers lie in the table, and those for the flattened sizes in what the least of these have.
    assert not any(s["reason"] for s in swept["sets"]), swept
    assert verify(slipway, model / "m.pt2", other, "--adversarial", "--no-reference")["agree"]


def test_reference_says_which_side_is_off(slipway, model, tmp_path):
    """One weight of the ONNX model is changed by a part in a thousand."""
    slipway("convert", model / "m.pt2", "-o", tmp_path / "m.onnx")
    m = onnx.load(tmp_path / "m.onnx")
    weight = next(w for w in m.graph.initializer if w.name == "table.weight")
    changed = onnx.numpy_helper.to_array(weight) * 1.001
    weight.CopyFrom(onnx.numpy_helper.from_array(changed, weight.name))
    onnx.save(m, tmp_path / "m.onnx")
    for a, b, off in ((model / "m.pt2", tmp_path / "m.onnx", "b"), (tmp_path / "m.onnx", model / "m.pt2", "a")):
        report = verify(slipway, a, b, "--layers", status=1)
        row = next(o for o in report["sets"][0]["outputs"] if not o["agree"])
        right = "a" if off == "b" else "b"
        assert row["reference"][right] < 1e-5 < 1e-4 < row["reference"][off]
        assert report["layers"]["first"]["op"] == "aten.embedding.default"
    assert (
        "first to differ: %embedding"
        in slipway(
            "verify", model / "m.pt2", tmp_path / "m.onnx", "--layers", "--python", sys.executable, status=1
        ).stdout
    )
    # What is allowed for is not a difference.
    assert verify(slipway, model / "m.pt2", tmp_path / "m.onnx", "--rtol", "0.1", "--atol", "0.1")["agree"]


class Types(torch.nn.Module):
    def forward(self, f, h, b, i, u, m):
        return f * 2, h + h, b * b, i + 1, u | 3, ~m, f.double()


def test_all_types_go_through_onnxruntime(slipway, tmp_path):
    arguments = (
        torch.randn(3),
        torch.randn(3).half(),
        torch.randn(3).bfloat16(),
        torch.arange(3),
        torch.arange(3, dtype=torch.uint8),
        torch.tensor([True, False]),
    )
    save(export(Types(), arguments), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    report = verify(slipway, tmp_path / "m.pt2", tmp_path / "m.onnx", "--rtol", "0")
    assert [o["a"] for o in report["sets"][0]["outputs"]] == [
        "f32[3]",
        "f16[3]",
        "bf16[3]",
        "i64[3]",
        "u8[3]",
        "bool[2]",
        "f64[3]",
    ]
    values = {f"input.{n}": t for n, t in enumerate(arguments)}
    values["input.0"] = torch.tensor([math.nan, math.inf, -0.0])
    save_file(values, tmp_path / "in.safetensors")
    assert verify(slipway, tmp_path / "m.pt2", tmp_path / "m.onnx", "--inputs", tmp_path / "in.safetensors")["agree"]
    done = slipway(
        "verify",
        tmp_path / "m.onnx",
        tmp_path / "m.onnx",
        "--python",
        sys.executable,
        "--inputs",
        tmp_path / "in.safetensors",
    )
    assert done.stdout.endswith("they agree\n")


def test_weights_beside_the_model(slipway, tmp_path):
    save(
        export(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()), (torch.randn(2, 64),)), tmp_path / "m.pt2"
    )
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--external-data", "always")
    report = verify(slipway, tmp_path / "m.pt2", tmp_path / "m.onnx", "--layers")
    assert report["layers"]["first"] is None and report["layers"]["compared"] == 2
    (tmp_path / "m.onnx.data").unlink()
    slipway("verify", tmp_path / "m.pt2", tmp_path / "m.onnx", "--python", sys.executable, status=3)


def test_state_that_the_model_carries_is_no_output(slipway, tmp_path):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(2))

        def forward(self, x):
            self.n.add_(x)
            return x + self.n

    save(export(Counter(), (torch.randn(2),)), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--state", "io")
    assert verify(slipway, tmp_path / "m.pt2", tmp_path / "m.onnx")["agree"]


def test_models_of_torchs_own_exporter(slipway, tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)
    ).eval()
    program = export(net, (torch.randn(3, 4),))
    save(program, tmp_path / "m.pt2")
    torch.onnx.export(program, (), dynamo=True, verbose=False).save(tmp_path / "m.onnx")
    report = verify(slipway, tmp_path / "m.pt2", tmp_path / "m.onnx", "--layers")
    assert report["agree"] and report["layers"]["first"] is None and report["layers"]["compared"] >= 4


def test_no_reference_is_said(slipway, tmp_path):
    class Ranks(torch.nn.Module):
        """Attention that is not decomposed, and whose kernel knows no f64."""

        def forward(self, q, k):
            return torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)

    save(export(Ranks(), (torch.randn(4, 3, 8), torch.randn(4, 4, 6, 8))), tmp_path / "m.pt2")
    report = verify(slipway, tmp_path / "m.pt2", tmp_path / "m.pt2")
    assert "no f64 reference: aten.scaled_dot" in report["reference_note"] and report["agree"]
    assert "reference" not in report["sets"][0]["outputs"][0]


def test_reference_of_narrow_types(slipway, tmp_path):
    """A program in bf16 is far from what it computes in f64, and its f32 twin near."""

    class Net(torch.nn.Module):
        def __init__(self, dtype):
            super().__init__()
            torch.manual_seed(1)
            self.dtype = dtype
            self.fc = torch.nn.Linear(64, 64).bfloat16().to(dtype)

        def forward(self, x, i):
            return (
                torch.tanh(self.fc(x.to(self.dtype))).to(torch.float32)
                + torch.sin(i)
                + torch.full((64,), 0.5, dtype=self.dtype)
            )

    arguments = (torch.randn(4, 64).bfloat16().float(), torch.arange(64))
    for name, dtype in (("low", torch.bfloat16), ("high", torch.float32)):
        save(export(Net(dtype).eval(), arguments), tmp_path / f"{name}.pt2")
    report = verify(slipway, tmp_path / "high.pt2", tmp_path / "low.pt2", status=1)
    errors = report["sets"][0]["outputs"][0]["reference"]
    assert errors["a"] < 1e-6 and 1e-4 < errors["b"] < 1e-1


UNARY = [
    torch.relu,
    torch.tanh,
    torch.sigmoid,
    torch.sin,
    torch.nn.functional.gelu,
    torch.nn.functional.silu,
    torch.exp,
]
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
            self.plan.append(
                (
                    kind,
                    rng.randrange(100),
                    rng.randrange(max(0, i - 6), i + 1),
                    rng.randrange(i + 1),
                    rng.uniform(0.2, 2),
                )
            )

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
SWAPS |= {
    "add": "aten.sub.Tensor",
    "sub": "aten.add.Tensor",
    "mul": "aten.maximum.default",
    "maximum": "aten.minimum.default",
}


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
    dims = ({0: Dim("B", max=64)},)
    save(export(Random(rng, size).eval(), (torch.randn(3, 16),), dynamic_shapes=dims), program)
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
    report = json.loads(done.stdout)
    conform(report, "verify")
    return report["layers"]


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
