"""What `slipway minify` leaves of programs that torch exported: the right nodes, on the values that they had, in files
that torch loads and a script that makes the same failure again."""

import os
import pathlib
import re
import runpy
import sys

import pytest
import torch
from functorch.experimental.control_flow import map as map_over
from safetensors.torch import load_file
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

AUTO = torch.export.Dim.AUTO
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def save(module, arguments, path, **more):
    torch.export.save(torch.export.export(module.eval(), arguments, **more), str(path))
    return path


def repro(folder, monkeypatch, *flags):
    """repro.py in this process, which has torch already: its exit code."""
    binary = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
    monkeypatch.setenv("SLIPWAY", binary)
    monkeypatch.setattr(sys, "argv", ["repro.py", *flags])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(folder / "repro.py"), run_name="__main__")
    return end.value.code


def operators(folder):
    """The operators of min.pt2, as torch reads them."""
    program = torch.export.load(str(folder / "min.pt2"))
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


class Chain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(12))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            x = torch.relu(x) if i == 7 else torch.tanh(x)
            x = torch.sigmoid(x)
            x = x + 1
        return x


def test_chain(slipway, tmp_path, monkeypatch):
    torch.manual_seed(0)
    model = save(Chain(), (torch.randn(3, 8),), tmp_path / "chain.pt2", dynamic_shapes=({0: AUTO},))
    monkeypatch.chdir(tmp_path)
    done = slipway("minify", model, "-o", "out", "--check", "! grep -q aten.relu {}")
    assert "48 → 1 node ·" in done.stderr
    assert operators(tmp_path / "out") == ["aten.relu.default"]
    assert repro(tmp_path / "out", monkeypatch) == 1
    assert repro(tmp_path / "out", monkeypatch, "--run") == 0
    slipway("minify", model, "-o", "again", "--check", "! grep -q aten.relu {}")
    for name in ("min.pt2", "min.ir", "min.onnx", "repro.py", "report.md"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_values(slipway, tmp_path, monkeypatch):
    """Where sizes must stay, the input is what the program had computed there; min.pt2 has it as sample input."""
    torch.manual_seed(0)
    module, x, seen = Chain(), torch.randn(3, 8), []
    module.layers[7].register_forward_hook(lambda *a: seen.append(a[2].detach()))
    module(x)
    module.layers[7]._forward_hooks.clear()
    model = save(module, (x,), tmp_path / "chain.pt2")
    monkeypatch.chdir(tmp_path)
    slipway("minify", model, "-o", "out", "--check", r"! grep -qE '\[3,8\].* = aten.relu' {ir}")
    value = load_file(tmp_path / "out" / "inputs.safetensors")["input.0"]
    torch.testing.assert_close(value, seen[0])
    program = torch.export.load(str(tmp_path / "out" / "min.pt2"))
    assert torch.equal(program.example_inputs[0][0], value)
    slipway("run", "out/min.pt2", "--inputs", "out/inputs.safetensors", "--outputs", "out.safetensors")
    torch.testing.assert_close(load_file("out.safetensors")["output.0"], torch.relu(value))


class TwoBranches(torch.nn.Module):
    def forward(self, x):
        a, b = x.sin(), x.cos()
        for i in range(10):
            a = torch.relu(a) if i == 4 else torch.sigmoid(a)
            b = torch.tanh(b) if i == 6 else torch.exp(b)
        return (a * b).neg()


def test_branches(slipway, tmp_path, monkeypatch):
    model = save(TwoBranches(), (torch.randn(4, 8),), tmp_path / "branches.pt2")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "check.sh").write_text(
        "relu=$(grep -oE '%[a-z_0-9]+: [^ ]+ = aten.relu' $1 | grep -oE '%[a-z_0-9]+') || exit 0\n"
        "tanh=$(grep -oE '%[a-z_0-9]+: [^ ]+ = aten.tanh' $1 | grep -oE '%[a-z_0-9]+') || exit 0\n"
        "last() { grep -oE \"%[a-z_0-9]+: [^ ]+ = aten.[a-z.]+\\(self=$1\\)\" $2 | grep -oE '^%[a-z_0-9]+'; }\n"
        "while next=$(last $relu $1); do relu=$next; done\n"
        "while next=$(last $tanh $1); do tanh=$next; done\n"
        'grep -q "aten.mul.Tensor(self=$relu, other=$tanh)" $1 && exit 7\nexit 0\n'
    )
    done = slipway("minify", model, "-o", "out", "--check", "sh check.sh {ir}")
    assert "→ 3 nodes" in done.stderr
    assert sorted(operators(tmp_path / "out")) == ["aten.mul.Tensor", "aten.relu.default", "aten.tanh.default"]
    assert repro(tmp_path / "out", monkeypatch) == 7


class Region(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x).sin()
        if self.kind == "cond":
            x = torch.cond(x.sum() > 0, lambda x: torch.relu(x.cos()).exp(), lambda x: x.tanh(), (x,))
        elif self.kind == "map":
            x = map_over(lambda row: torch.relu(row.cos()).exp(), x)
        elif self.kind == "scan":
            x = scan(lambda c, row: (c + torch.relu(row.cos()).exp(), c.clone()), x[0], x)[1]
        else:
            x = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, torch.relu(x.cos()).exp()), (torch.tensor(0), x))[1]
        return x.exp() + 1


@pytest.mark.parametrize("kind", ["cond", "map", "scan", "while_loop"])
def test_regions(slipway, tmp_path, monkeypatch, kind):
    model = save(Region(kind), (torch.randn(3, 4),), tmp_path / "region.pt2")
    monkeypatch.chdir(tmp_path)
    # The fault is an operator, wherever it stands.
    slipway("minify", model, "-o", "op", "--check", "! grep -q aten.relu {}")
    assert operators(tmp_path / "op") == ["aten.relu.default"]
    # The fault is the operator inside of the region.
    name = {"map": "map_impl"}.get(kind, kind)
    done = slipway(
        "minify",
        model,
        "-o",
        "region",
        "--check",
        f"! (grep -q '= aten.relu' {{ir}} && grep -q '= higher_order.{name}' {{ir}})",
    )
    nodes = int(re.search(r"→ ([0-9]+) node", done.stderr).group(1))
    assert nodes <= {"cond": 2, "map": 2, "scan": 3, "while_loop": 3}[kind], (
        tmp_path / "region" / "min.ir"
    ).read_text()
    if kind != "while_loop":  # what is left may go round for ever
        assert repro(tmp_path / "region", monkeypatch, "--run") == 0
    assert repro(tmp_path / "region", monkeypatch) == 1


def test_symbols(slipway, tmp_path, monkeypatch):
    """A symbol that the failure needs stays, in min.pt2 and in what repro.py exports."""

    class Module(torch.nn.Module):
        def forward(self, x, y):
            return (x.sin() @ y.cos()).reshape(-1, 2).relu()

    model = save(
        Module(), (torch.randn(6, 4), torch.randn(4, 10)), tmp_path / "m.pt2", dynamic_shapes=({0: AUTO}, {1: AUTO})
    )
    monkeypatch.chdir(tmp_path)
    done = slipway("minify", model, "-o", "out", "--check", r"! grep -qE '\[s[0-9]+,s[0-9]+\].* = aten.matmul' {ir}")
    assert "→ 1 node " in done.stderr
    program = torch.export.load(str(tmp_path / "out" / "min.pt2"))
    assert len(program.range_constraints) == 2
    assert repro(tmp_path / "out", monkeypatch) == 1


def test_custom_operator(slipway, tmp_path, monkeypatch):
    """An operator that ONNX has no form for: the diagnostic is the same, of the original, of the result, of what
    repro.py exports."""
    with torch.library._scoped_library("minify_test", "FRAGMENT") as library:
        library.define("odd(Tensor x, int n=3) -> Tensor")
        library.impl("odd", lambda x, n=3: x * n, "CompositeExplicitAutograd")
        torch.library.register_fake("minify_test::odd", lambda x, n=3: torch.empty_like(x), lib=library)

        class Module(torch.nn.Module):
            def forward(self, x):
                for i in range(9):
                    x = torch.ops.minify_test.odd(x, 5) if i == 6 else x.tanh() + x.shape[0]
                return x

        model = save(Module(), (torch.randn(3, 4),), tmp_path / "m.pt2", dynamic_shapes=({0: AUTO},))
        monkeypatch.chdir(tmp_path)
        slipway("convert", model, "-o", "m.onnx", status=4)
        done = slipway("minify", model, "-o", "out", "--check", "convert:onnx@21")
        assert "→ 1 node " in done.stderr and "SW2001" in done.stderr
        assert "minify_test.odd" in (tmp_path / "out" / "min.ir").read_text()
        assert repro(tmp_path / "out", monkeypatch) == 4


def test_mutation(slipway, tmp_path, monkeypatch):
    """In-place nodes of programs as they were exported are nodes like others."""

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(4))

        def forward(self, x):
            self.count.add_(1)
            y = x.clone()
            y[1].mul_(2)
            return (y + self.count).relu_().cos()

    model = save(Module(), (torch.randn(3, 4),), tmp_path / "m.pt2")
    monkeypatch.chdir(tmp_path)
    slipway("minify", model, "-o", "out", "--check", "! grep -q aten.relu_ {}")
    assert operators(tmp_path / "out") == ["aten.relu_.default"]
    slipway("minify", model, "-o", "mul", "--check", "! (grep -q aten.mul_ {} && grep -q aten.select {})")
    assert sorted(operators(tmp_path / "mul")) == ["aten.mul_.Tensor", "aten.select.int"]


def test_accuracy(slipway, minilm, tmp_path, monkeypatch):
    """A wrong constant in one LayerNorm of a copy of a real model: that node is left."""
    model = tmp_path / "minilm.pt2"
    slipway("convert", ROOT / "samples" / "minilm.pt2", "--weights", minilm / "model.safetensors", "-o", model, "-q")
    monkeypatch.chdir(tmp_path)
    text = slipway("inspect", "--ir", "minilm.pt2").stdout
    good = re.search(r"%layer_norm_7: .*", text).group()
    (tmp_path / "bad.ir").write_text(text.replace(good, good.replace("eps=1e-12", "eps=0.01")))
    done = slipway("minify", "minilm.pt2", "-o", "out", "--check", "accuracy:bad.ir")
    assert "→ 1 node " in done.stderr
    assert "%layer_norm_7" in (tmp_path / "out" / "min.ir").read_text()
    assert "layer.3" in (tmp_path / "out" / "report.md").read_text()
    assert repro(tmp_path / "out", monkeypatch) == 1


def test_not_failing(slipway, tmp_path):
    model = save(TwoBranches(), (torch.randn(4, 8),), tmp_path / "m.pt2")
    done = slipway("minify", model, "-o", tmp_path / "out", "--check", "convert:onnx", status=1)
    assert "does not fail" in done.stderr


def test_strides(slipway, tmp_path, monkeypatch):
    """A failure that needs how an input or a weight lies in memory: repro.py makes it lie so."""

    class Transposed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.randn(5, 4).t())

        def forward(self, x, y):
            return torch.relu(x) + self.table.sum(), torch.sin(y).expand(4, 3) * 2

    x, y = torch.randn(3, 4).t(), torch.randn(1, 3).expand(4, 3)
    model = save(Transposed(), (x, y), tmp_path / "strided.pt2")
    monkeypatch.chdir(tmp_path)
    for name, pattern in (
        ("input", r"f32\[4,3\]\{strides=\[1,4\]"),
        ("expanded", r"f32\[4,3\]\{strides=\[0,1\]"),
        ("weight", r"strides=\[1,4\].* = buffer"),
    ):
        slipway("minify", model, "-o", name, "--check", f"! grep -qE '{pattern}' {{ir}}")
        assert "strided(" in (tmp_path / name / "repro.py").read_text()
        assert repro(tmp_path / name, monkeypatch) == 1
