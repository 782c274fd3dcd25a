"""Inputs and outputs of ONNX models have the program's names: the keys of what it returns, else those of its nodes."""

import collections
import dataclasses
import typing

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from exported import export
from torch import nn


class Pair(typing.NamedTuple):
    mean: torch.Tensor
    scale: torch.Tensor


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    hidden: torch.Tensor | None = None
    loss: torch.Tensor | None = None


torch.export.register_dataclass(Result, serialized_type_name="names_test.Result")
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="names_test.Pair")


def names(slipway, tmp_path, module, inputs, *flags):
    export(module.eval(), inputs, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", *flags)
    model = onnx.load(str(tmp_path / "m.onnx"))
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    got = session.run(None, {i.name: np.asarray(x) for i, x in zip(session.get_inputs(), inputs)})
    want = torch.utils._pytree.tree_leaves(module(*inputs))
    for g, w in zip(got, (w for w in want if w is not None), strict=True):
        np.testing.assert_allclose(g, w.detach().numpy(), rtol=1e-4, atol=1e-5)
    return [i.name for i in model.graph.input], [o.name for o in model.graph.output]


class Returns(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f, self.linear = f, nn.Linear(4, 4)

    def forward(self, x):
        return self.f(self.linear(x), x)


@pytest.mark.parametrize(
    "f, want",
    [
        (lambda y, x: y, ["linear"]),  # an inner value of the lowering would have taken it
        (lambda y, x: (y * 2, torch.tanh(y)), ["mul", "tanh"]),
        (lambda y, x: {"out": y, "parts": [x + 1, {"k": x - 1}]}, ["out", "parts_0", "parts_1_k"]),
        (lambda y, x: collections.OrderedDict(b=y, a=x + 1), ["b", "a"]),
        (lambda y, x: Pair(y, x + 1), ["mean", "scale"]),
        (lambda y, x: (Pair(y, x + 1), torch.tanh(y)), ["mean", "scale", "tanh"]),
        (lambda y, x: Result(y, loss=x + 1), ["logits", "loss"]),
        (lambda y, x: {"a": y, "b": y}, ["a", "b"]),  # one value under two names
        (lambda y, x: {"x": y}, ["x_out"]),  # an input's name
        (lambda y, x: ({"a": y}, {"a": torch.tanh(y)}), ["linear", "tanh"]),  # not distinct
        (lambda y, x: {"same": x, "one": torch.ones(2)}, ["same", "one"]),  # handed through, a constant
        (lambda y, x: {"none": None, "y": y}, ["y"]),
        (lambda y, x: {"linear": torch.tanh(y), "tanh": y}, ["linear", "tanh"]),  # each other's
    ],
)
def test_outputs(slipway, tmp_path, f, want):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4)
    assert names(slipway, tmp_path, Returns(f), (x,)) == (["x"], want)


def test_inside_other_graphs(slipway, tmp_path):
    """Outputs that nested graphs read, and the same names inside of them."""

    class Net(nn.Module):
        def forward(self, x):
            y = x * 2
            return {"mul": torch.cond(x.sum() > 0, lambda a: a * 3, lambda a: a - 1, (y,)), "y": y}

    torch.manual_seed(0)
    assert names(slipway, tmp_path, Net(), (torch.rand(2, 3),)) == (["x"], ["mul", "y"])


def test_flags_win(slipway, tmp_path):
    torch.manual_seed(0)
    module = Returns(lambda y, x: {"a": y, "b": x + 1})
    assert names(slipway, tmp_path, module, (torch.randn(2, 4),), "--output-names", "p,a", "--input-names", "q") == (
        ["q"],
        ["p", "a"],
    )


def test_library(slipway, tmp_path):
    """Libraries name their outputs so, too."""
    torch.manual_seed(0)
    export(Returns(lambda y, x: {"out": y, "parts": [x + 1, x]}).eval(), (torch.randn(2, 4),), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    shown = slipway("inspect", tmp_path / "m.so").stdout
    assert "    out " in shown and "    parts_0 " in shown
