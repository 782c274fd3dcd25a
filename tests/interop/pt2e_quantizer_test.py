"""slipway's pt2e-x86 and pt2e-xnnpack beside torchao's PT2E flow (prepare_pt2e, calibration, convert_pt2e) on the same
programs and data: the same values become integers, with the same numbers."""

import json
import operator
import os
import pathlib
import subprocess

import onnxruntime
import pytest
import saturation
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torchao.quantization.pt2e import observer as obs
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)
from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SLIPWAY = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
Q = torch.ops.quantized_decomposed
DYNAMIC = (Q.quantize_per_tensor.tensor, Q.dequantize_per_tensor.tensor)
QUANTIZE = (Q.quantize_per_tensor.default, Q.quantize_per_channel.default)
DEQUANTIZE = (Q.dequantize_per_tensor.default, Q.dequantize_per_channel.default)


def conv_bn(i, o, k=3, stride=1, groups=1):
    return [nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]


class Residual(nn.Module):
    """A residual net of ResNet's blocks, each ReLU a module of its own: torchao refuses those that are shared."""

    class Block(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.one = nn.Sequential(*conv_bn(i, o, 3, stride), nn.ReLU(inplace=True), *conv_bn(o, o))
            self.skip = nn.Sequential(*conv_bn(i, o, 1, stride)) if stride > 1 else nn.Identity()
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.one(x)
            y += self.skip(x)
            return self.relu(y)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(*conv_bn(3, 16, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(self.Block(16, 16, 1), self.Block(16, 24, 2), self.Block(24, 24, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(24, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class Depthwise(nn.Module):
    """MobileNet's inverted residuals, with ReLU6 and Hardswish."""

    class Block(nn.Module):
        def __init__(self, c, act):
            super().__init__()
            self.body = nn.Sequential(
                *conv_bn(c, 2 * c, 1), act(), *conv_bn(2 * c, 2 * c, 3, 1, 2 * c), act(), *conv_bn(2 * c, c, 1)
            )

        def forward(self, x):
            return x + self.body(x)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(*conv_bn(3, 16, 3, 2), nn.Hardswish())
        self.blocks = nn.Sequential(self.Block(16, nn.ReLU6), self.Block(16, nn.Hardswish), *conv_bn(16, 32, 1))
        self.act = nn.ReLU6()
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.dropout(self.act(self.blocks(self.stem(x))).mean([2, 3])))


class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(*conv_bn(3, 16), nn.SiLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce, self.expand = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.act, self.gate = nn.SiLU(), nn.Sigmoid()
        self.out = nn.Sequential(*conv_bn(16, 8, 1), nn.Hardtanh(-2, 2))

    def forward(self, x):
        x = self.stem(x)
        x = x * self.gate(self.expand(self.act(self.reduce(self.pool(x)))))
        return self.out(x * x)


class Dense(nn.Module):
    """DenseNet's concatenations and average pools."""

    class Layer(nn.Module):
        def __init__(self, i):
            super().__init__()
            self.norm, self.relu = nn.BatchNorm2d(i), nn.ReLU()
            self.body = nn.Sequential(*conv_bn(i, 16, 1), nn.ReLU(), nn.Conv2d(16, 8, 3, padding=1))

        def forward(self, x):
            return torch.cat([x, self.body(self.relu(self.norm(x)))], 1)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(*conv_bn(3, 16), nn.ReLU())
        self.layers = nn.Sequential(self.Layer(16), self.Layer(24))
        self.a, self.b = nn.Conv2d(32, 8, 1), nn.Conv2d(32, 8, 3, padding=1)
        self.pool = nn.AvgPool2d(2)
        self.last = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.last(self.pool(torch.cat([self.a(x), self.b(x)], 1)))


class Unet(nn.Module):
    """Transposed convolutions, concatenations across the net, a result that other layers read, too."""

    def __init__(self):
        super().__init__()

        def block(i, o):
            return nn.Sequential(*conv_bn(i, o), nn.ReLU(), *conv_bn(o, o), nn.ReLU())

        self.down1, self.down2, self.bottom = block(3, 8), block(8, 16), block(16, 32)
        self.pool1, self.pool2 = nn.MaxPool2d(2), nn.MaxPool2d(2)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.norm1 = nn.BatchNorm2d(8)
        self.dec2, self.dec1 = block(32, 16), block(16, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool1(a))
        y = self.bottom(self.pool2(b))
        y = self.dec2(torch.cat([self.up2(y), b], 1))
        y = self.dec1(torch.cat([self.norm1(self.up1(y)), a], 1))
        return self.head(y), y


class Mlp(nn.Module):
    """Linear layers with all that torchao takes behind them, on images cut into rows."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 8, 8)
        self.fc1, self.fc2, self.fc3 = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 32, bias=False)
        self.fc4, self.fc5 = nn.Linear(32, 32), nn.Linear(32, 8)
        self.gelu, self.tanh, self.leaky, self.relu = nn.GELU(), nn.Tanh(), nn.LeakyReLU(), nn.ReLU()

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.fc2(self.gelu(self.fc1(x)))
        x = self.relu(self.fc3(x) + x)
        x = self.leaky(self.fc4(x)) * torch.matmul(x, self.fc4.weight)
        return self.tanh(self.fc5(x * 0.5 + 3))


class Functional(nn.Module):
    """Functions instead of modules: torchao takes some of them in strict exports and none in others."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.d = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.c = nn.Conv1d(8, 8, 3)
        self.relu = nn.ReLU()

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 2)
        y = F.hardswish(self.b(x))
        y = F.relu_(self.d(y).add_(x)) * y
        y = F.avg_pool2d(F.conv2d(y, self.b.weight, stride=2), 2)
        return self.relu(self.c(y.flatten(2)))


OBSERVE = pathlib.Path(SLIPWAY).parent / "observe_tensors"


def observe(folder, tensors, config, *options, status=0):
    save_file({f"{i:03}": t.contiguous() for i, t in enumerate(tensors)}, folder / "observed.safetensors")
    done = subprocess.run([OBSERVE, config, folder / "observed.safetensors", *options], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


SHAPES = {
    "normal": lambda x: x,
    "relu": torch.relu,
    "hardswish": lambda x: F.hardswish(2 * x),
    "exp": torch.exp,
    "relu6": F.relu6,
    "narrow": lambda x: 1e-4 * x + 3,
    "infinite": lambda x: torch.where(x > 2, torch.inf, x),
    "constant": lambda x: torch.full_like(x, 0.3) if len(x) % 2 else x,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name, observer", [
    ("histogram", obs.HistogramObserver), ("min-max", obs.MinMaxObserver),
    ("moving-average", obs.MovingAverageMinMaxObserver)])  # fmt: skip
def test_observers(name, observer, shape, tmp_path):
    if shape == "infinite" and name != "histogram":
        torch.manual_seed(0)
        assert "not finite" in observe(tmp_path, [SHAPES[shape](torch.randn(1000))], f"pt2e-x86:observer={name}",
                                       status=1)  # fmt: skip
        return
    for k, (config, dtype, low, high) in enumerate([
        ("pt2e-x86", torch.uint8, 0, 255), ("pt2e-x86:reduce-range", torch.uint8, 0, 127),
        ("pt2e-xnnpack", torch.int8, -128, 127)]):  # fmt: skip
        torch.manual_seed(sum(map(ord, shape)) + k)
        tensors = [SHAPES[shape](torch.randn(100 + 997 * i) * (0.5 + torch.rand(()))) for i in range(1 + 2 * k)]
        theirs = observer(dtype=dtype, quant_min=low, quant_max=high, eps=2**-12)
        for t in tensors:
            theirs(t)
        scale, zero = theirs.calculate_qparams()
        ours = observe(tmp_path, tensors, config + ("," if ":" in config else ":") + f"observer={name}").split()
        assert (float.fromhex(ours[0]), int(ours[1])) == (scale.item(), zero.item())


@pytest.mark.parametrize("shape, seed", [("normal", 8), ("normal", 23), ("relu", 4), ("relu", 19)])
def test_last_bits_of_histograms(shape, seed, tmp_path):
    """Numbers for which sums of errors in another order than torch's give another range."""
    torch.manual_seed(seed)
    tensors = [SHAPES[shape](torch.randn(60000) * (1 + 0.1 * i)) for i in range(3)]
    theirs = obs.HistogramObserver(dtype=torch.uint8, quant_min=0, quant_max=255, eps=2**-12)
    for t in tensors:
        theirs(t)
    scale, zero = theirs.calculate_qparams()
    ours = observe(tmp_path, tensors, "pt2e-x86").split()
    assert (float.fromhex(ours[0]), int(ours[1])) == (scale.item(), zero.item())


def test_weight_observers(tmp_path):
    torch.manual_seed(0)
    w = torch.randn(40, 8, 3, 3) * torch.logspace(-9, 2, 40)[:, None, None, None]
    w[3] = w[3].abs()
    for config, theirs in [
        ("pt2e-x86", obs.PerChannelMinMaxObserver(0, torch.int8, torch.per_channel_symmetric, quant_min=-128,
                                                  quant_max=127, eps=2**-12)),
        ("pt2e-xnnpack:per-channel", obs.PerChannelMinMaxObserver(0, torch.int8, torch.per_channel_symmetric,
                                                                  quant_min=-127, quant_max=127, eps=2**-12)),
        ("pt2e-xnnpack", obs.MinMaxObserver(torch.int8, torch.per_tensor_symmetric, quant_min=-127, quant_max=127,
                                            eps=2**-12)),
    ]:  # fmt: skip
        theirs(w)
        ours = [float.fromhex(x) for x in observe(tmp_path, [w], config, "weight").split()]
        assert ours == theirs.calculate_qparams()[0].tolist()


NETS = {c.__name__: c for c in (Residual, Depthwise, SqueezeExcite, Dense, Unet, Mlp, Functional)}


def make(net, strict=False):
    """A net with running statistics that are not the first, exported, and samples."""
    torch.manual_seed(sum(map(ord, net)))
    m = NETS[net]().train()
    with torch.no_grad():
        for p in m.parameters():
            p.mul_(1.5)
        for _ in range(3):
            m(torch.randn(4, 3, 32, 32) * 1.2 + 0.3)
    m.eval()
    samples = [torch.randn(2, 3, 32, 32) * (0.6 + 0.2 * i) + 0.1 for i in range(4)]
    return torch.export.export(m, (samples[0],), strict=strict), samples


def x86(**options):
    return X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config(**options))


def xnnpack(**options):
    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**options))


def by_torchao(program, samples, quantizer):
    prepared = prepare_pt2e(program.module(), quantizer)
    with torch.no_grad():
        for x in samples:
            prepared(x)
    return convert_pt2e(prepared)


def slipway(*arguments, status=0):
    done = subprocess.run([SLIPWAY, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done


def by_slipway(folder, program, samples, config, *options, name="q.pt2"):
    torch.export.save(program, folder / "model.pt2")
    save_file({"input.0": torch.stack(samples)}, folder / "data.safetensors")
    slipway("quantize", folder / "model.pt2", "--config", config, "--calibration", folder / "data.safetensors", "-o",
            folder / name, *options)  # fmt: skip
    return folder / name


def attribute(gm, path):
    for part in path.split("."):
        gm = getattr(gm, part)
    return gm


# Operators that functionalization names otherwise.
PLAIN = {"relu_": "relu", "add_": "add", "mul_": "mul", "hardtanh_": "hardtanh", "silu_": "silu",
         "hardswish_": "hardswish", "relu6_": "relu6"}  # fmt: skip


def plain(target):
    name = str(target).removeprefix("aten.")
    head, _, rest = name.partition(".")
    return f"{PLAIN.get(head, head)}.{rest}"


def describe(gm):
    """What is computed: a line for each node that reads or makes something, dequantized values by their numbers. Values
    are named by how they are computed, so that names and the order of independent nodes do not matter."""
    names, facts, numbers = {}, [], []
    counts = {}

    def of(argument):
        if isinstance(argument, torch.fx.Node):
            return names[argument]
        if isinstance(argument, (list, tuple)):
            return "[" + ",".join(map(of, argument)) + "]"
        return "" if isinstance(argument, (float, torch.dtype, bool)) else str(argument)

    for n in gm.graph.nodes:
        if n.op == "placeholder":
            names[n] = f"input{len([m for m in names if m.op == 'placeholder'])}"
        elif n.op == "get_attr":
            t = attribute(gm, n.target)
            names[n] = f"constant{tuple(t.shape)}{t.dtype}" if isinstance(t, torch.Tensor) else "graph"
        elif n.op == "call_function":
            if n.target in DEQUANTIZE:
                source, scale, zero = n.args[:3]
                if isinstance(scale, torch.fx.Node):
                    scale, zero = attribute(gm, scale.target), attribute(gm, zero.target)
                stored = attribute(gm, source.target) if source.op == "get_attr" else None
                what = "folded" if stored is not None else names[source.args[0]]
                names[n] = f"dq({what})"
                numbers.append((names[n], scale, zero, n.args[-3:], stored))
                continue
            if n.target in QUANTIZE:
                names[n] = f"q({names[n.args[0]]})"
                continue
            if n.target is operator.getitem:
                names[n] = f"{names[n.args[0]]}[{n.args[1]}]"
                continue
            if n.target in (Q.choose_qparams.tensor, *DYNAMIC):
                names[n] = f"{n.target}({','.join(map(of, n.args))},{n.args[-1]})"
                continue
            key = plain(n.target)
            counts[key] = counts.get(key, 0) + 1
            names[n] = f"{key}#{counts[key]}"
            facts.append(f"{names[n]}({','.join(of(a) for a in n.args)})")
        elif n.op == "output":
            facts.append("output" + of(n.args[0] if len(n.args[0]) > 1 else n.args[0][0]))
    return facts, numbers


def same(ours, theirs, computed=False):
    """The same nodes read the same quantized values; numbers agree: of weights to the bit, unless they are `computed`
    of others; of activations as far as the floats do that they come from."""
    a, b = describe(ours), describe(theirs)
    assert a[0] == b[0]

    def sets(numbers):
        return {(name, tuple(rest)) for name, _, _, rest, stored in numbers if stored is None}

    assert sets(a[1]) == sets(b[1])
    activations = [{name: (s, z) for name, s, z, _, stored in x[1] if stored is None} for x in (a, b)]
    moved = []
    for name, (scale, zero) in activations[0].items():
        other = activations[1][name]
        if isinstance(scale, torch.Tensor):
            torch.testing.assert_close(scale, other[0], rtol=1e-5, atol=0)
            assert torch.equal(zero, other[1]), name
        elif scale != pytest.approx(other[0], rel=1e-5) or zero != other[1]:
            # A last bit of an activation may move the end of a range to the next of 2048 bins.
            assert scale == pytest.approx(other[0], rel=1.2e-3) and abs(zero - other[1]) <= 1, name
            moved.append(name)
    assert len(moved) <= 1, moved
    stored = [sorted((x for x in y[1] if x[4] is not None), key=lambda x: x[4].numpy().tobytes()) for y in (a, b)]
    assert len(stored[0]) == len(stored[1])
    for (_, s, z, rest, codes), (_, s2, z2, rest2, codes2) in zip(*stored):
        assert rest == rest2 and codes.dtype == codes2.dtype
        if computed and isinstance(s, torch.Tensor):
            torch.testing.assert_close(s, s2, rtol=1e-6, atol=0)
            assert (codes.int() - codes2.int()).abs().max() <= 1
            continue
        assert torch.equal(codes, codes2)
        if isinstance(s, torch.Tensor):
            assert torch.equal(s, s2) and s.dtype == s2.dtype and torch.equal(z, z2) and z.dtype == z2.dtype
        else:
            assert s == s2 and z == z2
    return len(activations[0]), len(stored[0])


def with_scales_of(ours, theirs):
    """Our program with the other's scales of activations: it must then compute the same numbers, where a last bit of a
    scale may move a number at the edge of two integers, and with it others."""
    scales = {name: (scale, zero) for name, scale, zero, _, stored in describe(theirs)[1] if stored is None}
    numbers = iter([n[0] for n in describe(ours)[1]])
    for n in ours.graph.nodes:
        if n.target is Q.dequantize_per_tensor.default:
            name = next(numbers)
            if name in scales:
                for node in (n, n.args[0]):
                    if node.op == "call_function":
                        node.args = (node.args[0], *scales[name], *node.args[3:])
        elif n.target in DEQUANTIZE:
            next(numbers)
    ours.recompile()
    return ours


def outputs(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "net, strict", [(net, False) for net in NETS] + [("Residual", True), ("Dense", True), ("Functional", True)]
)
def test_x86(net, strict, tmp_path):
    program, samples = make(net, strict)
    theirs = by_torchao(program, samples, x86())
    path = by_slipway(tmp_path, program, samples, "pt2e-x86")
    ours = torch.export.load(path).module()
    activations, weights = same(ours, theirs)
    assert activations > 0 and weights > 0
    ours = with_scales_of(ours, theirs)
    for x in samples[:2]:
        for a, b in zip(outputs(ours(x)), outputs(theirs(x)), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reduce_range", [False, True])
@pytest.mark.parametrize("net", NETS)
def test_x86_dynamic(net, reduce_range, tmp_path):
    """Nothing is observed, so everything is torchao's to the bit; libraries and ONNX compute it."""
    program, samples = make(net)
    quantizer = X86InductorQuantizer().set_global(
        get_default_x86_inductor_quantization_config(is_dynamic=True, reduce_range=reduce_range)
    )
    theirs = by_torchao(program, samples, quantizer)
    torch.export.save(program, tmp_path / "model.pt2")
    config = "pt2e-x86:" + ("reduce-range," if reduce_range else "") + "dynamic"
    slipway("quantize", tmp_path / "model.pt2", "--config", config, "-o", tmp_path / "q.pt2")
    ours = torch.export.load(tmp_path / "q.pt2").module()
    assert same(ours, theirs) == (0, len(describe(theirs)[1])) and "choose_qparams" in str(describe(ours)[0])
    with torch.no_grad():
        for x in samples[:2]:
            want = outputs(theirs(x))
            for a, b in zip(outputs(ours(x)), want, strict=True):
                assert torch.equal(a, b)
    if reduce_range:
        return
    for suffix in ("so", "onnx"):
        slipway("convert", tmp_path / "q.pt2", "-o", tmp_path / f"q.{suffix}")
    for got in (run(tmp_path / "q.so", x, tmp_path), run_onnx(tmp_path / "q.onnx", x)):
        for a, b in zip(got, want, strict=True):
            assert ((a - b).norm() / b.norm()).item() < 0.05  # as in test_targets


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("net, per_channel", [(net, i % 2 == 1) for i, net in enumerate(NETS)])
def test_xnnpack(net, per_channel, tmp_path):
    program, samples = make(net, net == "Dense")
    theirs = by_torchao(program, samples, xnnpack(is_per_channel=per_channel))
    path = by_slipway(tmp_path, program, samples, "pt2e-xnnpack" + (":per-channel" if per_channel else ""))
    ours = torch.export.load(path).module()
    activations, weights = same(ours, theirs)
    assert activations > 0 and weights > 0
    ours = with_scales_of(ours, theirs)
    for a, b in zip(outputs(ours(samples[0])), outputs(theirs(samples[0])), strict=True):
        torch.testing.assert_close(a, b)


def run(path, x, folder):
    save_file({"input.0": x}, folder / "in.safetensors")
    slipway("run", path, "--inputs", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
    out = load_file(folder / "out.safetensors")
    return [out[f"output.{i}"] for i in range(len(out))]


def run_onnx(path, x, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(str(path), options)
    return [torch.from_numpy(y) for y in session.run(None, {session.get_inputs()[0].name: x.numpy()})]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("config", ["pt2e-x86", "pt2e-xnnpack"])
@pytest.mark.parametrize("net", NETS)
def test_targets(net, config, tmp_path):
    """Libraries and ONNX compute what the quantized program does in eager mode, where floats are summed in another
    order up to a few integers; onnxruntime's integer kernels round once more."""
    program, samples = make(net)
    quantized = by_slipway(tmp_path, program, samples, config)
    with torch.no_grad():
        theirs = outputs(torch.export.load(quantized).module()(samples[0]))
    floats = outputs(program.module()(samples[0]))
    for suffix in ("so", "onnx"):
        slipway("convert", quantized, "-o", tmp_path / f"converted.{suffix}")
        by_slipway(tmp_path, program, samples, config, name=f"direct.{suffix}")
    results = [(run(tmp_path / "converted.so", samples[0], tmp_path), 0.05)]
    direct = run(tmp_path / "direct.so", samples[0], tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(results[0][0], direct, strict=True))
    for name in ("converted.onnx", "direct.onnx"):
        path = tmp_path / name
        results.append((run_onnx(path, samples[0], onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL), 0.05))
        if not saturation.SATURATES:
            results.append((run_onnx(path, samples[0]), 0.15))
    for ours, most in results:
        for a, b, f in zip(ours, theirs, floats, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            assert ((a - b).norm() / b.norm()).item() < most
            assert ((a - f).norm() / f.norm()).item() < 0.35  # what 8 bits lose of these nets


@pytest.mark.filterwarnings("ignore")
def test_dynamic_sizes_and_computed_weights(tmp_path):
    """Batches of any size; weights that are made of others, as of nn.utils.parametrizations.weight_norm, and one that
    is made of the input."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3))
            self.gate = nn.Conv2d(8, 8, 1)
            self.offset = nn.Parameter(torch.randn(1, 8, 1, 1))
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            y = self.gate(self.conv(x)) + self.offset.expand(1, 8, 30, 30)
            z = y.mean([2, 3])
            return F.linear(z, self.fc.weight * z.mean())

    torch.manual_seed(1)
    samples = [torch.randn(3, 3, 32, 32) for _ in range(3)]
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Net().eval(), (samples[0],), dynamic_shapes=({0: batch},), strict=True)
    theirs = by_torchao(program, samples, x86())
    ours = torch.export.load(by_slipway(tmp_path, program, samples, "pt2e-x86")).module()
    activations, weights = same(ours, theirs, computed=True)
    assert (activations, weights) == (4, 3)
    x = torch.randn(7, 3, 32, 32)
    torch.testing.assert_close(with_scales_of(ours, theirs)(x), theirs(x), rtol=0.02, atol=0.01)
    by_slipway(tmp_path, program, samples, "pt2e-x86", name="q.so")
    assert run(tmp_path / "q.so", x, tmp_path)[0].shape == (7, 4)


@pytest.mark.filterwarnings("ignore")
def test_module_name_qconfig(tmp_path):
    """--exclude of a module is set_module_name_qconfig(name, None)."""
    program, samples = make("Residual")
    quantizer = x86().set_module_name_qconfig("blocks.1", None).set_module_name_qconfig("fc", None)
    theirs = by_torchao(program, samples, quantizer)
    path = by_slipway(tmp_path, program, samples, "pt2e-x86", "--exclude", r"^blocks\.1($|\.[^w]*$)",
                       "--exclude", "^fc$")  # fmt: skip
    same(torch.export.load(path).module(), theirs)


@pytest.mark.filterwarnings("ignore")
def test_recipes_of_operators_and_ranges(tmp_path):
    program, samples = make("Functional")
    kept = torch.export.load(by_slipway(tmp_path, program, samples, "pt2e-x86")).module()
    everything = torch.export.load(by_slipway(tmp_path, program, samples, "pt2e-x86:match=operators")).module()
    chosen = torch.export.load(
        by_slipway(tmp_path, program, samples, "pt2e-x86", "--include", "aten.conv2d.default")
    ).module()

    def count(gm, *targets):
        return sum(n.target in targets for n in gm.graph.nodes)

    weights = [count(gm, Q.dequantize_per_channel.default) for gm in (kept, chosen, everything)]
    assert weights == [4, 5, 5]
    reduced = torch.export.load(
        by_slipway(tmp_path, program, samples, "pt2e-x86:reduce-range,per-tensor,observer=min-max")
    ).module()
    assert count(reduced, Q.dequantize_per_channel.default) == 0
    assert {n.args[4] for n in reduced.graph.nodes if n.target is Q.quantize_per_tensor.default} == {127}


@pytest.mark.filterwarnings("ignore")
def test_report(tmp_path):
    program, samples = make("Residual")
    torch.export.save(program, tmp_path / "model.pt2")
    save_file({"input.0": torch.stack(samples)}, tmp_path / "data.safetensors")
    done = slipway("quantize", tmp_path / "model.pt2", "--config", "pt2e-x86", "--calibration",
                   tmp_path / "data.safetensors", "-o", tmp_path / "q.pt2", "--exclude", "^fc$", "--json")  # fmt: skip
    rows = {row["name"]: row for row in json.loads(done.stdout)["weights"]}
    assert rows["stem.0.weight"]["config"] == "pt2e-x86" and 0 < rows["stem.0.weight"]["relative_error"] < 0.02
    assert (
        rows["fc.weight"]["config"] is None
        and not rows["fc.weight"]["asked"]
        and rows["fc.weight"]["why"] == "excluded"
    )
    assert all(row["config"] for name, row in rows.items() if name != "fc.weight")


@pytest.mark.filterwarnings("ignore")
def test_error_budget(tmp_path):
    """Layers stay in float until torch, too, finds the outputs within the budget; the rest is as with --exclude."""
    program, samples = make("Residual")
    torch.export.save(program, tmp_path / "model.pt2")
    save_file({"input.0": torch.stack(samples)}, tmp_path / "data.safetensors")

    def quantize(config, *options, name="q.pt2", status=0):
        return slipway("quantize", tmp_path / "model.pt2", "--config", config, "--calibration",
                       tmp_path / "data.safetensors", "-o", tmp_path / name, *options, status=status)  # fmt: skip

    def error():
        gm, net = torch.export.load(tmp_path / "q.pt2").module(), program.module()
        y = torch.cat([net(x) for x in samples]).double()
        return ((torch.cat([gm(x) for x in samples]) - y).norm() / y.norm()).item()

    whole = json.loads(quantize("auto", "--error-budget", "1000%", "--json").stdout)
    assert whole["output_error"] == pytest.approx(error(), rel=0.05)
    assert all(row["config"] for row in whole["weights"])
    budget = whole["output_error"] / 2
    done = json.loads(quantize("auto", "--error-budget", budget, "--json", "--html", tmp_path / "q.html").stdout)
    assert done["output_error"] <= budget and done["output_error"] == pytest.approx(error(), rel=0.05)
    left = [row for row in done["weights"] if not row["config"]]
    assert left and all(row["why"] == "as the budget chose" and not row["asked"] for row in left)
    assert 0 < done["quantized"] < whole["quantized"] and done["bytes_after"] > whole["bytes_after"]
    assert "layers in float" in (tmp_path / "q.html").read_text()

    layers = "|".join(row["name"].removesuffix(".weight").replace(".", "[.]") for row in left)
    quantize("pt2e-x86:match=operators", "--exclude", f"^({layers})$", name="by_name.pt2")
    ours, by_name = (torch.export.load(tmp_path / name) for name in ("q.pt2", "by_name.pt2"))
    assert [n.target for n in ours.graph.nodes] == [n.target for n in by_name.graph.nodes]
    assert ours.state_dict.keys() == by_name.state_dict.keys()
    assert all(torch.equal(t, by_name.state_dict[name]) for name, t in ours.state_dict.items())
    # A recipe of one's own, and a budget that nothing meets.
    one = json.loads(quantize("pt2e-xnnpack:per-channel,match=operators", "--error-budget", budget, "--json").stdout)
    assert one["output_error"] <= budget and one["output_error"] == pytest.approx(error(), rel=0.05)
    assert "layers in float the outputs are still" in quantize("auto", "--error-budget", "0.0001%", status=1).stderr


@pytest.mark.filterwarnings("ignore")
def test_layers_of_other_classes_are_named(tmp_path):
    """Subclasses of nn.Conv2d stay in programs that are not strict, as in torchao, and the report says so."""

    class Same(nn.Conv2d):
        pass

    torch.manual_seed(0)
    net = nn.Sequential(Same(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.Conv3d(8, 8, (1, 1, 1)))
    net[3].forward = lambda x: nn.Conv3d.forward(net[3], x[:, :, None])
    samples = [torch.randn(1, 3, 16, 16)]
    program = torch.export.export(net.eval(), (samples[0],))
    theirs = by_torchao(program, samples, x86())
    same(torch.export.load(by_slipway(tmp_path, program, samples, "pt2e-x86")).module(), theirs)
    arguments = ["--calibration", tmp_path / "data.safetensors", "-o", tmp_path / "q.pt2", "--json", "--require-all"]
    done = slipway("quantize", tmp_path / "model.pt2", "--config", "pt2e-x86", *arguments, status=1)
    rows = {row["name"]: row for row in json.loads(done.stdout)["weights"]}
    assert "aten.conv2d.default of" in rows["0.weight"]["why"] and "Same" in rows["0.weight"]["why"]
    assert "aten.conv3d.default" in rows["3.weight"]["why"] and rows["2.weight"]["config"] == "pt2e-x86"
    slipway(
        "quantize", tmp_path / "model.pt2", "--config", "pt2e-x86", "--include", "^0$", "--exclude", "^3$", *arguments
    )
