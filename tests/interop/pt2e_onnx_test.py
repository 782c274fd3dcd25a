"""pt2e's static quantization in ONNX Runtime: which operators its optimizer makes of our files, and the numbers beside
torch's. Programs are torchao's (X86InductorQuantizer), of nets in plain torch."""

import collections

import numpy as np
import onnx
import onnxruntime
import pytest
import saturation
import torch
import torch.nn.functional as F
from pt2e_dynamic_test import quantized
from torch import nn


def unit(inputs, outputs, kernel=3, stride=1, groups=1, act=nn.ReLU):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([act()] if act else []))


class Residual(nn.Module):
    """Two blocks, one of which changes the size, behind a pool, and a classifier."""

    def __init__(self):
        super().__init__()
        self.stem = unit(3, 16, 7, 2)
        self.a, self.b = unit(16, 16), unit(16, 16, act=None)
        self.c, self.d, self.e = unit(16, 32, 3, 2), unit(32, 32, act=None), unit(16, 32, 1, 2, act=None)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(self.stem(x), 3, 2, 1)
        x = F.relu(x + self.b(self.a(x)))
        x = F.relu(self.d(self.c(x)) + self.e(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Inverted(nn.Module):
    """Blocks of depthwise convolutions between pointwise ones."""

    def __init__(self, act):
        super().__init__()
        self.stem = unit(3, 16, 3, 2, act=act)
        self.up, self.each, self.down = unit(16, 48, 1, act=act), unit(48, 48, 3, 1, 48, act), unit(48, 16, 1, act=None)
        self.head, self.fc = unit(16, 64, 1, act=act), nn.Linear(64, 10)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.down(self.each(self.up(x)))
        return self.fc(F.adaptive_avg_pool2d(self.head(x), 1).flatten(1))


class Excite(nn.Module):
    """A factor for each channel, made of the means of all."""

    def __init__(self):
        super().__init__()
        self.stem, self.out, self.fc = unit(3, 16, 3, 2), unit(16, 8, 1), nn.Linear(8, 10)
        self.a, self.b = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)

    def forward(self, x):
        x = self.stem(x)
        x = x * torch.sigmoid(self.b(F.relu(self.a(x.mean((2, 3), keepdim=True)))))
        return self.fc(F.adaptive_avg_pool2d(self.out(x), 1).flatten(1))


class Dense(nn.Module):
    """Each layer sees what all before it gave: concatenations, which share scales with what they join."""

    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b, self.c = unit(3, 16, 3, 2), unit(16, 16), unit(32, 16), unit(48, 32, 1)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(self.stem(x), 2)
        x = torch.cat([x, self.a(x)], 1)
        x = torch.cat([x, self.b(x)], 1)
        return self.fc(F.adaptive_avg_pool2d(self.c(x), 1).flatten(1))


class Unet(nn.Module):
    """Down and up again, with nearest neighbours, beside a part that is not scaled."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.out = unit(3, 8), unit(8, 16), unit(24, 8), nn.Conv2d(8, 2, 1)
        self.skip = unit(3, 8)

    def forward(self, x):
        y = self.b(F.max_pool2d(self.a(x), 2))
        return self.out(self.c(torch.cat([self.skip(x), F.interpolate(y, scale_factor=2, mode="nearest")], 1)))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 48), nn.Linear(48, 8)

    def forward(self, x):
        x = x + self.b(F.relu(self.a(x)))
        return self.d(F.gelu(self.c(x)))


IMAGE = (2, 3, 48, 48)
CASES = {
    "residual": (Residual, IMAGE),
    "relu6": (lambda: Inverted(nn.ReLU6), IMAGE),
    "hardswish": (lambda: Inverted(nn.Hardswish), IMAGE),
    "excite": (Excite, IMAGE),
    "dense": (Dense, IMAGE),
    "unet": (Unet, IMAGE),
    "tokens": (Tokens, (2, 6, 32)),
}
# What the optimizer makes of the exact form, and of the portable one where that differs: operators and their number.
# Convolutions that end in floats are the program's: in front of a sum, a hardswish, a mean or another scale.
COUNTS = {
    "residual": {"QLinearConv": 4, "Conv": 2, "MaxPool": 1, "QLinearGlobalAveragePool": 1, "QGemm": 1},
    "relu6": {"QLinearConv": 4, "Conv": 1, "QLinearGlobalAveragePool": 1, "QGemm": 1},
    "hardswish": {"QLinearConv": 0, "Conv": 5, "QGemm": 1},
    "excite": {"QLinearConv": 2, "FusedConv": 2, "QLinearGlobalAveragePool": 1, "QGemm": 1},
    "dense": {"QLinearConv": 4, "Concat": 2, "DequantizeLinear": 0, "Conv": 0, "FusedConv": 0, "QGemm": 1},
    "unet": {"QLinearConv": 4, "FusedConv": 0, "Resize": 1, "Concat": 1},
    "tokens": {"QGemm": 4, "MatMul": 0, "Gemm": 0, "DequantizeLinear": 0},
}
# The second sum's other part has too large a step.
PORTABLE = {
    "residual": {"QLinearConv": 5, "QLinearAdd": 1, "Conv": 1, "QGemm": 1},
    "relu6": {"QLinearConv": 5, "QLinearAdd": 1, "Conv": 0, "DequantizeLinear": 0, "QGemm": 1},
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A program, what it is of, and its file."""
    made = {}

    def make(name):
        if name not in made:
            torch.manual_seed(5)
            build, shape = CASES[name]
            net, x = build(), torch.randn(shape)
            for norm in net.modules():
                if isinstance(norm, nn.BatchNorm2d):
                    nn.init.uniform_(norm.weight, 0.7, 1.3), nn.init.uniform_(norm.bias, -0.2, 0.2)
            with torch.no_grad():
                for _ in range(20):  # statistics of the layers
                    net.train()(torch.randn(shape))
            path = tmp_path_factory.mktemp(name) / "m.pt2"
            made[name] = quantized(net.eval(), x, path), shape, path
        return made[name]

    return make


def session(path, optimize=True):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path) + ".optimized"
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_EXTENDED if optimize else level.ORT_DISABLE_ALL
    made = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    graph = onnx.load(options.optimized_model_filepath).graph
    return made, collections.Counter(n.op_type for n in graph.node), graph


def run(made, x):
    return made.run(None, {made.get_inputs()[0].name: x.numpy()})[0]


def convert(slipway, path, out, *flags):
    done = slipway("convert", path, "-o", out, *flags)
    onnx.checker.check_model(str(out), full_check=True)
    return done.stderr


@pytest.mark.parametrize("name", CASES)
def test_runtime_finds_its_integer_operators(slipway, tmp_path, program, name):
    _, _, path = program(name)
    convert(slipway, path, tmp_path / "m.onnx")
    _, counts, graph = session(tmp_path / "m.onnx")
    assert {op: counts[op] for op in COUNTS[name]} == COUNTS[name], counts
    # Weights of integer operators are the program's, those of others are dequantized once, when the session starts.
    stored = {i.name: i for i in graph.initializer}
    for n in graph.node:
        if n.op_type in ("QLinearConv", "QGemm"):
            assert stored[n.input[3]].data_type == onnx.TensorProto.INT8, n.name
        if n.op_type == "DequantizeLinear":
            assert n.input[0] not in stored, n.name


@pytest.mark.skipif(saturation.SATURATES, reason=saturation.WHY)
@pytest.mark.parametrize("name", PORTABLE)
def test_portable_rounds_sums(slipway, tmp_path, program, name):
    net, shape, path = program(name)
    said = convert(slipway, path, tmp_path / "m.onnx", "--onnx-form", "portable")
    sums = PORTABLE[name]["QLinearAdd"]
    assert f"results of {sums} convolutions are rounded to 8 bits" in said
    made, counts, _ = session(tmp_path / "m.onnx")
    assert {op: counts[op] for op in PORTABLE[name]} == PORTABLE[name], counts
    assert "are rounded to 8 bits" not in convert(slipway, path, tmp_path / "exact.onnx")
    errors = []
    for seed in range(10):
        torch.manual_seed(seed)
        x = torch.randn(shape)
        want = net(x).detach().numpy()
        errors.append(np.linalg.norm(run(made, x) - want) / np.linalg.norm(want))
    assert np.mean(errors) < 0.06


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("opset", [18, 20, 23])
def test_numbers_are_torch_s_as_written(slipway, tmp_path, program, name, opset):
    """Without the runtime's fusions, whose requantization rounds once more."""
    net, shape, path = program(name)
    convert(slipway, path, tmp_path / "m.onnx", "--opset", opset)
    made, _, _ = session(tmp_path / "m.onnx", optimize=False)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(shape)
        want = net(x).detach().numpy()
        # Where a sum is next to a tie, an integer differs by one.
        assert np.linalg.norm(run(made, x) - want) < 0.02 * np.linalg.norm(want)


@pytest.mark.skipif(saturation.SATURATES, reason=saturation.WHY)
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_torch_s_when_fused(slipway, tmp_path, program, name):
    net, shape, path = program(name)
    convert(slipway, path, tmp_path / "m.onnx")
    made, _, _ = session(tmp_path / "m.onnx")
    same = total = 0
    for seed in range(20):
        torch.manual_seed(seed)
        x = torch.randn(shape)
        want, got = net(x).detach().numpy(), run(made, x)
        assert np.linalg.norm(got - want) < 0.06 * np.linalg.norm(want)
        if name not in ("unet", "tokens"):
            top = np.sort(want, axis=1)
            clear = top[:, -1] - top[:, -2] > 0.1 * np.abs(want).max()
            same += (got.argmax(1) == want.argmax(1))[clear].sum()
            total += clear.sum()
    assert same == total


class Activations(nn.Module):
    """Bounds in front of a quantize whose zero point lies within them."""

    def __init__(self, bound):
        super().__init__()
        self.bound = bound

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        low, high, kind = 0, 255, torch.uint8
        y = F.max_pool2d(self.bound(x), 2)
        return q.quantize_per_tensor.default(torch.cat([y, y * 0.5], 1), 0.02, 100, low, high, kind)


@pytest.mark.parametrize(
    "bound",
    [F.relu, F.relu6, lambda x: F.hardtanh(x, -0.73, 0.55), lambda x: x.clamp(max=1.0), lambda x: x.clamp(min=-0.31)],
)
def test_bounds_become_integers(slipway, tmp_path, bound):
    x = torch.randn(2, 4, 16, 16) * 3
    net = Activations(bound)
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "m.pt2")
    convert(slipway, tmp_path / "m.pt2", tmp_path / "m.onnx")
    made, _, _ = session(tmp_path / "m.onnx", optimize=False)
    got, want = run(made, x).astype(int), net(x).numpy().astype(int)
    assert np.abs(got - want).max() <= 1 and (got != want).mean() < 1e-3  # quotients, not products with the reciprocal
