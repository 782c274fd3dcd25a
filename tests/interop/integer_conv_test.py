"""Convolutions and linear layers of torchao's static quantization (PT2E, X86InductorQuantizer) in native libraries: the
integers of each layer beside torch's, under each instruction set of the machine; nets of several; any batch."""

import copy
import os
import subprocess

import pytest
import torch
from integer_test import PRESENT
from safetensors.torch import load_file, save_file
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86


class Residual(nn.Module):
    def __init__(self, channels, activation):
        super().__init__()
        self.a, self.b = nn.Conv2d(channels, 24, 1), nn.Conv2d(24, channels, 3, padding=1)
        self.activation = activation

    def forward(self, x):
        return self.activation(self.b(torch.relu(self.a(x))) + x)


class Excite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 6, 1), nn.Conv2d(6, channels, 1)

    def forward(self, x):
        return x * torch.nn.functional.hardsigmoid(self.up(torch.relu(self.down(x.mean((2, 3), keepdim=True)))))


class Dense(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a, self.b = nn.Conv2d(channels, 12, 3, padding=1), nn.Conv2d(channels + 12, 10, 1)

    def forward(self, x):
        return torch.relu(self.b(torch.cat([x, torch.relu(self.a(x))], 1)))


def conv(*a, **k):
    return nn.Conv2d(*a, **k)


# An image of 20 channels comes in; each ends in a layer whose integers are compared.
LAYERS = {
    "pointwise": lambda: [conv(20, 33, 1), nn.ReLU()],
    "strided": lambda: [conv(20, 40, 3, 2, 1), nn.ReLU()],
    "dilated": lambda: [conv(20, 17, 3, 1, 2, dilation=2, bias=False), nn.ReLU()],
    "depthwise": lambda: [conv(20, 20, 3, 1, 1, groups=20), nn.ReLU6()],
    "depthwise5": lambda: [conv(20, 20, 5, 2, 2, groups=20), nn.Hardswish()],
    "groups": lambda: [conv(20, 40, 3, 1, 1, groups=4), nn.SiLU()],
    "odd_groups": lambda: [conv(20, 20, (3, 1), 1, 0, groups=10), nn.ReLU()],
    "pooled": lambda: [conv(20, 24, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(3, 2, 1)],
    "residual": lambda: [Residual(20, torch.relu)],
    "concat": lambda: [Dense(20)],
    "large_kernel": lambda: [conv(20, 8, 7, 3, 3), nn.ReLU()],
}


def exported(net, x, dynamic=False, calibrations=3):
    shapes = ({0: torch.export.Dim.AUTO},) if dynamic else None
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(net, (x,), dynamic_shapes=shapes).module(), quantizer)
        for _ in range(calibrations):
            prepared(torch.randn_like(x))
        prepared(x)
        converted = convert_pt2e(prepared)
        return converted, torch.export.export(converted, (x,), dynamic_shapes=shapes, strict=False)


def run(folder, x, isa=None):
    save_file({"input.0": x.contiguous()}, folder / "in")
    command = [os.environ.get("SLIPWAY", "build/slipway"), "run", folder / "m.so", "--inputs", folder / "in"]
    environment = {**os.environ, **({"SLIPWAY_ISA": isa} if isa else {})}
    subprocess.run([*command, "--outputs", folder / "out"], check=True, env=environment, capture_output=True)
    return list(load_file(folder / "out").values())[0]


def ops(slipway, folder):
    return slipway("run", folder / "m.so", "--inputs", folder / "in", "--outputs", folder / "out", "--profile").stdout


@pytest.mark.parametrize("name", LAYERS)
def test_integers_of_a_layer(slipway, tmp_path, name):
    torch.manual_seed(0)
    # The last convolution makes the layer before it one of bytes on both sides, and takes each as it is.
    net = nn.Sequential(conv(3, 20, 3, 1, 1), nn.ReLU(), *LAYERS[name]()).eval()
    x = torch.randn(2, 3, 19, 17)
    channels = net(x).shape[1]
    identity = conv(channels, channels, 1, bias=False)
    identity.weight.data = torch.eye(channels).reshape(channels, channels, 1, 1)
    program, ep = exported(nn.Sequential(*net, identity).eval(), x)
    torch.export.save(ep, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    for i in range(2):
        x = x if i == 0 else torch.randn_like(x)
        with torch.no_grad():
            expected = program(x)
        step = expected[expected != 0].abs().min()
        for isa in PRESENT:
            given = run(tmp_path, x, isa)
            steps = ((given - expected) / step).round().abs()
            # Sums of floats that lie between two integers may be rounded to the other one, by two layers.
            others = (steps > 0).float().mean()
            assert steps.max() <= 2 and others < 5e-3, (isa, steps.max(), others)
    assert "integer_conv" in ops(slipway, tmp_path)


class Exact(torch.fx.Interpreter):
    """A quantized program in f64, where no sum is next to the tie that f32 has it at."""

    def call_function(self, target, args, kwargs):
        Q = torch.ops.quantized_decomposed
        if target is Q.quantize_per_tensor.default:
            x, scale, zero, low, high, dtype = args
            return (x.double() / scale).round().add(zero).clamp(low, high).to(dtype)
        if target is Q.dequantize_per_tensor.default:
            return (args[0].double() - args[2]) * args[1]
        if target is Q.dequantize_per_channel.default:
            x, scales = args[0], args[1]
            return x.double() * scales.double().reshape(-1, *[1] * (x.dim() - 1))
        args = [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
        return super().call_function(target, tuple(args), kwargs)


@pytest.mark.parametrize("name", LAYERS)
def test_answers(slipway, tmp_path, name):
    """200 images get the classes that they get in torch, but for few where the two are no further apart than torch's
    own results are from the same program in f64: a last integer decides between them."""
    torch.manual_seed(2)
    layers = [conv(3, 20, 3, 1, 1), nn.ReLU(), *LAYERS[name]()]
    channels = nn.Sequential(*layers)(torch.randn(1, 3, 19, 17)).shape[1]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 50)).eval()
    with torch.no_grad():  # what images have in common does not decide
        net[-1].bias -= net(torch.randn(64, 3, 19, 17)).mean(0)
    program, ep = exported(net, torch.randn(2, 3, 19, 17), dynamic=True)
    torch.export.save(ep, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    x = torch.randn(200, 3, 19, 17)
    with torch.no_grad():
        expected, exact = program(x), Exact(program).run(x)
    classes = expected.argmax(1)
    assert len(classes.unique()) > 10
    for isa in PRESENT:
        given = run(tmp_path, x, isa).argmax(1)
        apart = (expected.amax(1) - expected[range(200), given])[given != classes]
        assert len(apart) <= 4 and all(apart <= 2 * (exact - expected).abs().max()), (isa, apart)


NETS = {
    "mobile": lambda: nn.Sequential(
        conv(3, 16, 3, 2, 1), nn.Hardswish(), conv(16, 16, 3, 1, 1, groups=16), nn.ReLU6(), conv(16, 40, 1),
        Excite(40), nn.Hardswish(), conv(40, 40, 5, 2, 2, groups=40), nn.SiLU(), conv(40, 64, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 30),
    ),
    "residual": lambda: nn.Sequential(
        conv(3, 32, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Residual(32, torch.relu), Residual(32, torch.relu),
        Dense(32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_nets(slipway, tmp_path, name):
    """Nearer to torch's own quantized net than that is to the floats, by far, for any batch."""
    torch.manual_seed(1)
    net = NETS[name]().eval()
    x = torch.randn(2, 3, 64, 48)
    program, ep = exported(copy.deepcopy(net), x, dynamic=True)
    torch.export.save(ep, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    for batch in (1, 2, 5):
        x = torch.randn(batch, 3, 64, 48)
        with torch.no_grad():
            expected, floats = program(x), net(x)
        for isa in PRESENT:
            given = run(tmp_path, x, isa)
            assert (given - expected).norm() < 0.5 * (floats - expected).norm(), (batch, isa)
    text = ops(slipway, tmp_path)
    assert "integer_conv" in text and "aten.conv" not in text


def test_signed_activations(slipway, tmp_path):
    """Activations of int8, as other quantizers make them, become unsigned: the same integers."""
    torch.manual_seed(2)
    net = nn.Sequential(conv(3, 20, 3, 1, 1), nn.ReLU(), conv(20, 12, 3, 1, 1)).eval()
    x = torch.randn(1, 3, 12, 12)
    _, ep = exported(net, x)
    graph = ep.graph
    names = ("quantize_per_tensor.default", "dequantize_per_tensor.default")
    for node in graph.nodes:
        if any(name in str(node.target) for name in names) and node.args[5] == torch.uint8:
            value, scale, zero, low, high, _ = node.args
            node.args = (value, scale, zero - 128, low - 128, high - 128, torch.int8)
    signed = torch.export.export(ep.module(), (x,), strict=False)
    assert "torch.int8" in signed.graph_module.code and "torch.uint8" not in signed.graph_module.code
    with torch.no_grad():
        expected = signed.module()(x)
    torch.export.save(signed, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    for isa in PRESENT:
        given = run(tmp_path, x, isa)
        assert (given - expected).norm() < 1e-2 * expected.norm(), isa
    assert "integer_conv" in ops(slipway, tmp_path) and "aten.conv" not in ops(slipway, tmp_path)
