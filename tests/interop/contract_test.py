"""What a converted file promises beyond its numbers: carried state, custom operators, chosen names, shared weights,
metadata."""

import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from exported import export
from torch import nn


class Cache(nn.Module):
    """Updates a buffer that its result depends on, and one of its inputs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.arange(6.0).reshape(2, 3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x, total):
        self.cache.mul_(0.5).add_(x)
        self.steps.add_(1)
        total.add_(self.cache.sum())
        return self.cache * self.steps


def session_of(path):
    onnx.checker.check_model(str(path), full_check=True)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_state_is_carried(slipway, tmp_path):
    module, total = Cache(), torch.ones(())
    export(module, (torch.randn(2, 3), total), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--state", "io")
    session = session_of(tmp_path / "m.onnx")
    assert [i.name for i in session.get_inputs()] == ["x", "total"]
    state_names = ["state_in.cache", "state_in.steps"]
    assert [i.name for i in session.get_overridable_initializers()] == state_names
    outputs = [o.name for o in session.get_outputs()]
    assert sorted(outputs[1:]) == ["state_out.cache", "state_out.steps", "state_out.total"]
    state, total_fed = {}, total.numpy().copy()
    for step in range(3):
        x = torch.full((2, 3), float(step + 1))
        wanted = module(x, total)
        results = dict(zip(outputs, session.run(None, {"x": x.numpy(), "total": total_fed} | state), strict=True))
        np.testing.assert_allclose(results[outputs[0]], wanted.numpy(), rtol=1e-6)
        np.testing.assert_allclose(results["state_out.cache"], module.cache.numpy(), rtol=1e-6)
        np.testing.assert_allclose(results["state_out.total"], total.numpy(), rtol=1e-6)
        assert results["state_out.steps"] == step + 1
        state = {name: results[name.replace("_in.", "_out.")] for name in state_names}
        total_fed = results["state_out.total"]


def test_dropped_state_is_named(slipway, tmp_path):
    export(Cache(), (torch.randn(2, 3), torch.ones(())), tmp_path / "m.pt2")
    stderr = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx").stderr
    for name in ("cache", "steps", "total"):
        assert re.search(rf"warning\[SW\d+\].*'{name}'", stderr), stderr
    assert len(session_of(tmp_path / "m.onnx").get_outputs()) == 1


@torch.library.custom_op("slipwaytest::mix", mutates_args=())
def mix(
    x: torch.Tensor, others: list[torch.Tensor], weight: float, axes: list[int], mode: str, k: int = 3
) -> list[torch.Tensor]:
    return [x * weight, x.sum(axes[0])]


@mix.register_fake
def _(x, others, weight, axes, mode, k=3):
    return [torch.empty_like(x), x.new_empty(x.shape[1:])]


class Mixed(nn.Module):
    def forward(self, x, y):
        a, b = torch.ops.slipwaytest.mix(x, [y, x], 0.5, [0], "soft")
        return torch.relu(a) + b


def test_custom_operator(slipway, tmp_path):
    source, target = tmp_path / "m.pt2", tmp_path / "m.onnx"
    rows = torch.export.Dim("rows", min=2, max=64)
    export(Mixed(), (torch.randn(4, 3), torch.randn(3)), source, dynamic_shapes=({0: rows}, None))
    assert "slipwaytest" in slipway("convert", source, "-o", target, status=4).stderr
    slipway("convert", source, "-o", target, "--custom-op", "slipwaytest::mix=com.acme:Mix")
    onnx.checker.check_model(str(target), full_check=True)
    model = onnx.load(str(target))
    assert {(o.domain, o.version) for o in model.opset_import} == {("", 20), ("com.acme", 1)}
    (node,) = [n for n in model.graph.node if n.op_type == "Mix"]
    assert node.domain == "com.acme" and list(node.input) == ["x", "y", "x"] and len(node.output) == 2
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes == {"weight": 0.5, "axes": [0], "mode": b"soft"}
    types = {v.name: v.type.tensor_type for v in model.graph.value_info}
    assert [d.dim_param or d.dim_value for d in types[node.output[0]].shape.dim] == ["rows", 3] or types[
        node.output[0]
    ].shape.dim[0].dim_param
    assert types[node.output[1]].shape.dim[0].dim_value == 3


@pytest.mark.parametrize("spec", ["mix=com.acme:Mix", "a::b", "a::b=Mix", "a::b=:Mix", "a::b=c:", "a::b=c d:e"])
def test_custom_operator_spelling(slipway, tmp_path, spec):
    export(nn.Linear(2, 2), (torch.randn(1, 2),), tmp_path / "m.pt2")
    assert (
        spec in slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--custom-op", spec, status=2).stderr
    )


class Tied(nn.Module):
    """One output that is an input, one that is returned twice, and a weight under two names."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids, x):
        y = self.head(self.embed(ids))
        return y, x, y


def test_names_and_shared_weights(slipway, tmp_path):
    source, target = tmp_path / "m.pt2", tmp_path / "m.onnx"
    module, ids, x = Tied().eval(), torch.tensor([[1, 2, 3]]), torch.randn(2)
    export(module, (ids, x), source)
    slipway("convert", source, "-o", target, "--input-names", "tokens,embed.weight", "--output-names", "a,b,c")
    session = session_of(target)
    assert [i.name for i in session.get_inputs()] == ["tokens", "embed.weight"]
    assert [o.name for o in session.get_outputs()] == ["a", "b", "c"]
    a, b, c = session.run(None, {"tokens": ids.numpy(), "embed.weight": x.numpy()})
    np.testing.assert_allclose(a, module(ids, x)[0].detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(a, c)
    np.testing.assert_array_equal(b, x.numpy())
    assert sum(len(i.raw_data) == 50 * 8 * 4 for i in onnx.load(str(target)).graph.initializer) == 1
    for names, message in (("a,b", "2 names for 3"), ("a,b,a", "twice")):
        assert message in slipway("convert", source, "-o", target, "--output-names", names, status=2).stderr


def test_metadata(slipway, tmp_path):
    digests = []
    for fill in (1.0, 1.0, 2.0):
        module = nn.Linear(3, 2)
        nn.init.constant_(module.weight, fill)
        nn.init.constant_(module.bias, fill)
        rows = torch.export.Dim("rows", min=2, max=9)
        export(module, (torch.randn(4, 3),), tmp_path / "m.pt2", dynamic_shapes=({0: rows},))
        slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--metadata", "team=a=b")
        properties = {p.key: p.value for p in onnx.load(str(tmp_path / "m.onnx")).metadata_props}
        assert properties["team"] == "a=b" and properties["slipway.version"]
        assert re.fullmatch(r"\w+ = 2\.\.9", properties["slipway.dims"])
        digests.append(properties["slipway.source_digest"])
        assert properties["slipway.source"].startswith("torch "), properties
    assert re.fullmatch("sha256:[0-9a-f]{64}", digests[0]) and digests[1] != digests[2]


class Transposed(nn.Module):
    """A linear layer of 16-bit floats behind a transpose that is read once, or twice."""

    def __init__(self, dtype, twice):
        super().__init__()
        self.linear = nn.Linear(8, 24, dtype=dtype)
        self.twice = twice

    def forward(self, x):
        y = x.transpose(0, 1)
        z = self.linear(y)
        return (z, y) if self.twice else z


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_transposed_linear_of_half_precision(slipway, tmp_path, dtype, twice):
    # In a process of its own: ONNX Runtime 1.31.1 dies of a MatMul of Cast(Transpose(x)) by a constant.
    module, x = Transposed(dtype, twice), torch.randn(3, 4, 8, dtype=dtype)
    export(module, (x,), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    producer = {name: node.op_type for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.op_type == "Cast" and producer.get(node.input[0]) == "Transpose":
            assert not any(node.output[0] in user.input and user.op_type == "MatMul" for user in model.graph.node)
    code = (
        "import sys, numpy as np, onnxruntime as ort\n"
        "s = ort.InferenceSession(sys.argv[1])\n"
        "x = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.load(sys.argv[2]), int(sys.argv[3]))\n"
        "y = s.run_with_ort_values(None, {s.get_inputs()[0].name: x})[0]\n"
        "import torch\n"
        "t = torch.empty(tuple(y.shape()), dtype=getattr(torch, sys.argv[5]))\n"
        "import ctypes\n"
        "ctypes.memmove(t.data_ptr(), y.data_ptr(), t.numel() * 2)\n"
        "np.save(sys.argv[4], t.float().numpy())\n"
    )
    np.save(tmp_path / "x.npy", x.view(torch.int16).numpy().view(np.uint16))
    number = {torch.float16: 10, torch.bfloat16: 16}[dtype]
    subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            tmp_path / "m.onnx",
            tmp_path / "x.npy",
            str(number),
            tmp_path / "y.npy",
            str(dtype)[6:],
        ],
        check=True,
    )
    want = module(x)[0] if twice else module(x)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want.detach().float().numpy(), rtol=2e-2, atol=2e-2)
