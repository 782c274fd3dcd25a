"""`convert --opset N` for each N: what ONNX's release says of it, and torch's numbers.

ONNX's table of releases gives the IR version, its checker the form, with shape inference. ONNX Runtime runs the opsets
it knows; newer ones run in ONNX's reference evaluator.
"""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from exported import clones, export, tensors
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.nn import functional as F

OLDEST, NEWEST = 18, 28
RUNTIME_NEWEST = 26  # of onnxruntime 1.31
OPSETS = range(OLDEST, NEWEST + 1)


class Transformer(nn.Module):
    """Attention, norms, rotary positions, an embedding."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.norm, self.rms = nn.LayerNorm(16), nn.RMSNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(32, 16)

    def forward(self, ids):
        x = self.tokens(ids) + torch.arange(ids.shape[1])[:, None] * 0.01
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        gate, value = self.up(self.rms(x)).chunk(2, -1)
        return self.down(F.silu(gate) * value)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.turned = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ConvTranspose2d(8, 4, 2, 2)

    def forward(self, x):
        x = F.max_pool2d(F.gelu(self.norm(self.conv(F.pad(x, (1, 1, 1, 1))))), 2)
        return F.pixel_shuffle(F.celu(self.turned(x), 0.7), 2), x.log_softmax(1).logsumexp((2, 3))


class Numbers(nn.Module):
    """Operators that opsets 25 … 28 define anew: Range, Mod, BitShift, Einsum, OneHot, Unique's and Compress' kin."""

    def forward(self, x, i, halves):
        steps = torch.arange(0, 1.5, 0.25) + x.sum()
        both = torch.einsum("ij,kj->ik", x, x), torch.remainder(x, 0.3), torch.fmod(x, 0.3)
        whole = i % 3, i.remainder(-3), i << 2, i >> (i & 3), F.one_hot(i & 3, 4), x.masked_select(x > 0)
        return steps, *both, *whole, halves.float() + halves.bfloat16().float(), torch.sort(x)[1], x.topk(2)[0]


class Products(nn.Module):
    """CumProd from opset 26 on, a loop before."""

    def forward(self, x, i, empty):
        return x.cumprod(1), x.double().cumprod(0), i.cumprod(-1), (i > 0).cumprod(0), empty.cumprod(0)


class Bits(nn.Module):
    """BitCast, which opset 26 brings."""

    def forward(self, x, i):
        return (
            x.view(torch.int32) & 0x7FFFFFFF,
            i.view(torch.float64),
            x.half().view(torch.int16),
            (i & 127).to(torch.uint8).view(torch.int8),
        )


class Branches(nn.Module):
    """If and Loop, whose types each opset extends."""

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return y, x.cummax(0)[0], y.logcumsumexp(0)  # the reference evaluator scans the first dim only


def signed(*shape):
    return torch.randn(*shape) * 2


INTEGERS = torch.tensor([[1, -7, 40], [2**40, -(2**33), 5]])
MODELS = {
    "transformer": (Transformer, lambda: (torch.randint(0, 20, (2, 5)),), OLDEST),
    "convolutions": (ConvNet, lambda: (signed(2, 3, 8, 8),), OLDEST),
    "numbers": (Numbers, lambda: (signed(3, 4), INTEGERS, signed(3).half()), OLDEST),
    "products": (Products, lambda: (signed(3, 4), INTEGERS, torch.zeros(0, 2)), OLDEST),
    "bits": (Bits, lambda: (signed(3, 4), INTEGERS), 26),
    "branches": (Branches, lambda: (signed(3, 4),), OLDEST),
}


def run(path, opset, feeds):
    if opset <= RUNTIME_NEWEST:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)
    return ReferenceEvaluator(str(path)).run(None, feeds)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The programs, each exported once, their arguments, and what torch computes."""
    torch.manual_seed(0)
    folder, made = tmp_path_factory.mktemp("programs"), {}
    for name, (module, arguments, _) in MODELS.items():
        network, values = module().eval(), arguments()
        export(network, values, folder / f"{name}.pt2")
        with torch.no_grad():
            made[name] = folder / f"{name}.pt2", values, tensors(network(*clones(values)))
    return made


def test_the_newest_opset_is_onnx_s(slipway):
    assert re.search(rf"ONNX opset {OLDEST} … {NEWEST}\b", slipway("--version").stdout)
    assert f"{OLDEST} … {NEWEST}" in re.search(r"--opset N.*", slipway("convert", "-h").stdout)[0]
    assert onnx.defs.onnx_opset_version() == NEWEST


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", MODELS)
def test_opset(slipway, sources, tmp_path, name, opset):
    source, arguments, wanted = sources[name]
    if opset < MODELS[name][2]:
        refused = slipway("convert", source, "-o", tmp_path / "m.onnx", "--opset", opset, status=4).stderr
        assert f"--opset {MODELS[name][2]} has all that is needed" in refused
        return
    slipway("convert", source, "-o", tmp_path / "m.onnx", "--opset", opset)
    model = onnx.load(tmp_path / "m.onnx")
    assert {o.domain: o.version for o in model.opset_import}[""] == opset
    assert model.ir_version == onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])
    onnx.checker.check_model(model, full_check=True)
    feeds = {value.name: x.numpy() for value, x in zip(model.graph.input, arguments, strict=True)}
    got = run(tmp_path / "m.onnx", opset, feeds)
    for value, want in zip(got, wanted, strict=True):
        assert value.shape == want.shape and value.dtype == want.numpy().dtype
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)


def test_new_operators(slipway, sources, tmp_path):
    """What a new opset brings is used where ONNX Runtime has a kernel for it."""
    kinds = {}
    for name, opset in [("products", 25), ("products", 26), ("bits", 26), ("products", NEWEST)]:
        slipway("convert", sources[name][0], "-o", tmp_path / "m.onnx", "--opset", opset)
        kinds[name, opset] = {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}
    assert "CumProd" not in kinds["products", 25] and "Scan" in kinds["products", 25]
    for opset in (26, NEWEST):
        assert "CumProd" in kinds["products", opset] and "Scan" not in kinds["products", opset]
    assert "BitCast" in kinds["bits", 26]


def test_a_view_of_another_size_is_refused(slipway, tmp_path):
    class Wider(nn.Module):
        def forward(self, x):
            return x.view(torch.int16)

    export(Wider(), (signed(3, 4),), tmp_path / "m.pt2")
    refused = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--opset", NEWEST, status=4)
    assert "aten.view.dtype" in refused.stderr


@pytest.mark.parametrize("opset", [25, 26, 27, 28])
def test_models_of_new_opsets_are_read(slipway, tmp_path, opset):
    """Types of values are inferred by the opset's own schemas; elements of 2 and 6 bits are tensors."""
    helper, proto = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("DequantizeLinear", ["quarter", "scale"], ["d"])]
    weights = [
        helper.make_tensor("quarter", proto.INT2, [5], bytes([0b01_10_11_00, 0b01]), raw=True),
        helper.make_tensor("scale", proto.FLOAT, [], [0.5]),
    ]
    last = "d"
    if opset >= 26:
        nodes += [helper.make_node("CumProd", ["d", "axis"], ["c"])]
        weights += [helper.make_tensor("axis", proto.INT64, [], [0])]
        last = "c"
    if opset >= 28:
        nodes += [
            helper.make_node("Cast", ["six"], ["f"], to=proto.FLOAT),
            helper.make_node("SwiGLU", ["f", "c"], ["g"]),
        ]
        weights += [helper.make_tensor("six", proto.FLOAT6E2M3, [5], [0, 8, 10, 63, 31], raw=False)]
        last = "g"
    graph = helper.make_graph(
        [*nodes, helper.make_node("Add", ["x", last], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", proto.FLOAT, ["n", 5])],
        [helper.make_tensor_value_info("y", proto.FLOAT, ["n", 5])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "m.onnx")
    text = slipway("inspect", tmp_path / "m.onnx", "--ir").stdout
    assert re.search(r"%d: f32\[5\]", text), text
    if opset >= 26:
        assert re.search(r"%c: f32\[5\]", text), text
    if opset >= 28:
        assert re.search(r"%g: f32\[5\]", text), text
    text = slipway("inspect", tmp_path / "m.onnx", "--weights").stdout
    assert re.search(r"quarter +i2\[5\]", text), text
    if opset >= 28:
        assert re.search(r"six +f6e2m3\[5\]", text), text
