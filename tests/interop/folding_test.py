"""What constant folding and common subexpressions do to ONNX files: fewer nodes, no larger files, the same numbers."""

import numpy as np
import onnx
import onnxruntime
import torch


class Tables(torch.nn.Module):
    """Rotary tables, a causal mask and positions made of numbers, twice; a large mask that is cheaper as nodes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
        self.embed = torch.nn.Embedding(16, 8)
        self.weight = torch.nn.Parameter(torch.randn(8, 8, generator=torch.Generator().manual_seed(0)))

    def rotate(self, x):
        angles = torch.arange(16)[:, None] * self.frequencies[None, :]
        cos, sin = angles.cos(), angles.sin()
        a, b = x[..., :4], x[..., 4:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x):
        x = x + self.embed(torch.arange(16))
        score = self.rotate(x) @ self.rotate(x @ self.weight.T).mT
        score = score.masked_fill(~torch.ones(16, 16, dtype=torch.bool).tril(), float("-inf"))
        far = torch.ones(1000, 1000, dtype=torch.bool).tril().to(torch.float32)
        return score.softmax(-1) @ x, far[:16, :16] + score.shape[0]


def convert(slipway, tmp_path, module, inputs):
    torch.export.save(torch.export.export(module, inputs, strict=False), tmp_path / "in.pt2")
    slipway("convert", tmp_path / "in.pt2", "-o", tmp_path / "out.onnx", "--verify-each")
    onnx.checker.check_model(str(tmp_path / "out.onnx"), full_check=True)
    return onnx.load(tmp_path / "out.onnx"), onnxruntime.InferenceSession(
        str(tmp_path / "out.onnx"), providers=["CPUExecutionProvider"]
    )


def test_tables(slipway, tmp_path):
    module, x = Tables(), torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(1))
    model, session = convert(slipway, tmp_path, module, (x,))
    for got, want in zip(session.run(None, {session.get_inputs()[0].name: x.numpy()}), module(x)):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5, atol=1e-5)
    ops = [node.op_type for node in model.graph.node]
    assert not {"Cos", "Sin", "Range", "Gather"} & set(ops), ops
    assert (tmp_path / "out.onnx").stat().st_size < 16384
    initializers = {t.name: t for t in model.graph.initializer}
    assert "weight.transposed" in initializers  # a parameter keeps its name, which says how it lies
    contents = [(t.data_type, tuple(t.dims), t.raw_data) for t in initializers.values()]
    assert len(set(contents)) == len(contents)


class Derived(torch.nn.Module):
    """Weights of which the program makes others of their sizes: normalized, standardized, merged with a product of few
    ranks, cast."""

    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(3)
        self.conv = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(96, 160, 5))
        self.weight, self.a, self.b = (
            torch.nn.Parameter(torch.randn(s, generator=draw) / 16) for s in ((160, 160), (8, 160), (160, 8))
        )
        self.small = torch.nn.Parameter(torch.randn(320, 160, generator=draw).half() / 16)
        self.twice = torch.nn.Parameter(torch.randn(320, 160, generator=draw) / 16)

    def forward(self, x):
        y = torch.nn.functional.linear(self.conv(x).transpose(1, 2), self.weight + self.b @ self.a)
        w = (self.twice - self.twice.mean(1, keepdim=True)) / self.twice.std(1, keepdim=True)
        return torch.nn.functional.linear(y, self.small.float()), torch.nn.functional.linear(y, w) + self.twice.sum()


def test_weights_of_weights(slipway, tmp_path):
    module, x = Derived().eval(), torch.randn(2, 96, 20, generator=torch.Generator().manual_seed(1))
    model, session = convert(slipway, tmp_path, module, (x,))
    for got, want in zip(session.run(None, {session.get_inputs()[0].name: x.numpy()}), module(x)):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-4, atol=1e-4)
    ops = [node.op_type for node in model.graph.node]
    # The cast weight would be twice its size: it stays. All others replace what they are made of.
    assert ops.count("Cast") == 1 and not {"Div", "Sqrt", "ReduceMean", "ReduceSum", "ReduceL2"} & set(ops), ops
    assert ops.count("MatMul") + ops.count("Gemm") == 3, ops
    weights = sum(p.numel() * p.element_size() for p in module.parameters())
    assert (tmp_path / "out.onnx").stat().st_size < weights + 20000


class Duplicates(torch.nn.Module):
    def forward(self, x):
        return x.exp() + x.exp(), torch.rand_like(x).shape[0] * x, x.exp().sum() / x.exp().sum()


def test_duplicates(slipway, tmp_path):
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(2))
    model, session = convert(slipway, tmp_path, Duplicates(), (x,))
    assert [node.op_type for node in model.graph.node].count("Exp") == 1
    for got, want in zip(session.run(None, {session.get_inputs()[0].name: x.numpy()}), Duplicates()(x)):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)
