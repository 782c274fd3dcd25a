"""`convert --dtype` to ONNX: close to the f32 program in onnxruntime, and no further from it than torch's own .half().

Bounds are relative errors of the root mean square: a rounding to f16 is off by at most 2^-11 = 5e-4, to bf16 by 2^-8 =
4e-3, and by about 0.6 of half that in the mean; some tens of roundings one behind the other, at random, are worth a few
of them.
"""

import copy

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from exported import clones, export, tensors
from torch import nn

BOUND = {"f16": 2e-3, "bf16": 1.5e-2}
ONNX_TYPES = {"f16": "tensor(float16)", "bf16": "tensor(bfloat16)"}


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 192), nn.Linear(192, 10)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


class Block(nn.Module):
    """Two heads, rotary positions, and a causal mask of finfo.min in which the first rows of padded sequences are all
    masked."""

    def __init__(self, fused):
        super().__init__()
        self.fused = fused
        self.tokens = nn.Embedding(50, 32)
        self.norm = nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("frequencies", 1.0 / 100 ** (torch.arange(0, 16, 2) / 16))

    def rotate(self, x):
        angles = torch.arange(3000, 3000 + x.shape[2]).float()[:, None] * self.frequencies
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def forward(self, ids, seen):
        least = torch.finfo(torch.float32).min
        length = ids.shape[1]
        mask = torch.full((length, length), least).triu(1) + (1 - seen.float())[:, None, None, :] * least
        mask = mask.clamp(min=least)
        x = self.tokens(ids)
        q, k, v = (t.unflatten(-1, (2, 16)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        q, k = self.rotate(q), self.rotate(k)
        if self.fused:
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            y = torch.softmax(q @ k.transpose(-1, -2) / 4 + mask, -1) @ v
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.head(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class ConvNet(nn.Module):
    """One norm that is folded, one that is not, with a variance that f16 has not; a mean."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.after, self.last = nn.BatchNorm2d(16), nn.Linear(16, 5)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)
        nn.init.normal_(self.norm.running_mean)
        nn.init.constant_(self.after.running_var, 1e5)
        nn.init.constant_(self.after.weight, 300)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.last(self.after(torch.nn.functional.max_pool2d(x, 2)).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(8, 16, batch_first=True, bidirectional=True), nn.Linear(32, 4)

    def forward(self, x):
        return self.last(self.lstm(x)[0])


def ids_and_seen():
    seen = torch.ones(2, 12, dtype=torch.int64)
    seen[1, :5] = 0
    return torch.randint(0, 50, (2, 12)), seen


CASES = {
    "mlp": (Mlp, lambda: (torch.randn(8, 64),)),
    "attention": (lambda: Block(fused=True), ids_and_seen),
    "written-attention": (lambda: Block(fused=False), ids_and_seen),
    "convolutions": (ConvNet, lambda: (torch.randn(2, 3, 16, 16),)),
    "lstm": (Recurrent, lambda: (torch.randn(2, 7, 8),)),
}


def session_of(path):
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def error(got, want):
    got, want = (np.asarray(x, dtype=np.float64) for x in (got, want))
    assert got.shape == want.shape and np.isfinite(got).all()
    return np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2))


def run(session, arguments, floats=np.float32):
    feeds = [leaf.numpy() for leaf in tensors(arguments)]
    feeds = [feed.astype(floats) if feed.dtype == np.float32 else feed for feed in feeds]
    return session.run(None, dict(zip([value.name for value in session.get_inputs()], feeds, strict=True)))


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", CASES)
def test_is_close_to_f32(slipway, tmp_path, name, dtype):
    make, inputs = CASES[name]
    module, arguments = make().eval(), inputs()
    source, target = tmp_path / "model.pt2", tmp_path / "model.onnx"
    export(module, arguments, source)
    with torch.no_grad():
        want = module(*clones(arguments)).numpy()
    done = slipway("convert", source, "-o", target, "--dtype", dtype, "--keep-io-types", "--verify-each")
    assert f"f32 is {dtype}" in done.stderr
    session = session_of(target)
    assert [value.type for value in session.get_outputs()] == ["tensor(float)"]
    off = error(run(session, arguments)[0], want)
    assert off < BOUND[dtype]

    again = tmp_path / "again.onnx"
    slipway("convert", source, "-o", again, "--dtype", dtype, "--keep-io-types")
    assert again.read_bytes() == target.read_bytes()

    slipway("convert", source, "-o", target, "--dtype", dtype)
    session = session_of(target)
    assert {value.type for value in session.get_inputs()} <= {ONNX_TYPES[dtype], "tensor(int64)"}
    assert [value.type for value in session.get_outputs()] == [ONNX_TYPES[dtype]]
    if dtype == "bf16":
        return  # numpy has no such type
    assert error(run(session, arguments, np.float16)[0], want) < BOUND[dtype]
    if name in ("attention", "written-attention", "convolutions"):
        return  # finfo.min and the variance overflow in .half()
    with torch.no_grad():
        halves = [x.half() if x.is_floating_point() else x for x in clones(arguments)]
        torchs = error(copy.deepcopy(module).half()(*halves).float().numpy(), want)
    assert off < 1.5 * torchs + 1e-4


def test_weights(slipway, tmp_path):
    """Tied weights stay one; those that only norms read stay f32; others are torch's halves."""
    module = Block(fused=True).eval()
    export(module, ids_and_seen(), tmp_path / "model.pt2")
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "model.onnx", "--dtype", "f16")
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "model.onnx").graph.initializer}
    tokens = [w for w in weights.values() if w.size == 50 * 32]
    assert len(tokens) == 1
    np.testing.assert_array_equal(tokens[0], module.tokens.weight.detach().half().numpy())
    assert weights["norm.weight"].dtype == np.float32


@pytest.mark.parametrize("dtype", BOUND)
def test_strict_types_multiply_halves(slipway, tmp_path, dtype):
    export(Mlp(), (torch.randn(2, 3, 64),), tmp_path / "model.pt2")
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "model.onnx", "--dtype", dtype, "--strict-types")
    model = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    weights = {t.name: t.data_type for t in model.graph.initializer if len(t.dims) == 2}
    assert set(weights.values()) == {10 if dtype == "f16" else 16}
    assert sum(node.op_type == "MatMul" and node.input[1] in weights for node in model.graph.node) == 2


def test_overflow_is_an_error(slipway, tmp_path):
    module = Mlp()
    with torch.no_grad():
        module.up.weight[3, 4] = -70000.0
    export(module, (torch.randn(2, 64),), tmp_path / "model.pt2")
    done = slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "out.onnx", "--dtype", "f16", status=3)
    assert "'up.weight' (70000)" in done.stderr and "--dtype bf16" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt2"]
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "out.onnx", "--dtype", "bf16")


class Others(nn.Module):
    def forward(self, x, d, h, i):
        return x * 2, d * 2, h * 2, i * 2, (x + 1) > 0, x * d


def test_other_types_stay(slipway, tmp_path):
    arguments = (
        torch.randn(3),
        torch.randn(3, dtype=torch.float64),
        torch.randn(3, dtype=torch.bfloat16),
        torch.arange(3),
    )
    export(Others(), arguments, tmp_path / "model.pt2")
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "model.onnx", "--dtype", "f16")
    session = session_of(tmp_path / "model.onnx")
    types = [
        value.type.removeprefix("tensor(").removesuffix(")") for value in session.get_inputs() + session.get_outputs()
    ]
    assert types == [
        "float16",
        "double",
        "bfloat16",
        "int64",
        "float16",
        "double",
        "bfloat16",
        "int64",
        "bool",
        "double",
    ]


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        self.seen.add_(x.sum(0))
        return self.linear(x) + self.seen


@pytest.mark.parametrize("dtype", BOUND)
def test_state_keeps_its_type(slipway, tmp_path, dtype):
    export(Counter(), (torch.randn(3, 4),), tmp_path / "model.pt2")
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "model.onnx", "--dtype", dtype, "--state", "io")
    session = session_of(tmp_path / "model.onnx")
    assert [value.type for value in session.get_outputs()] == [ONNX_TYPES[dtype], "tensor(float)"]
    assert [value.type for value in session.get_inputs()] == [ONNX_TYPES[dtype]]
    assert [value.type for value in session.get_overridable_initializers()] == ["tensor(float)"]


class Integers(nn.Module):
    """Sums of integers beyond f16 that are scaled down by halves; positions that f16 cannot tell apart."""

    def forward(self, x, ids, image, grid):
        return ids.sum(-1, keepdim=True).float() * (x * 0.01), torch.nn.functional.grid_sample(
            image, grid + ids.float().mean(), align_corners=False
        )


def test_large_integers(slipway, tmp_path):
    ids = torch.randint(2000, 3000, (2, 40))
    arguments = (torch.randn(2, 8), ids, torch.randn(1, 2, 9, 9), torch.rand(1, 4, 4, 2) - ids.float().mean())
    export(Integers(), arguments, tmp_path / "model.pt2")
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "model.onnx", "--dtype", "f16", "--keep-io-types")
    got = run(session_of(tmp_path / "model.onnx"), arguments)
    for result, want in zip(got, Integers()(*arguments), strict=True):
        assert error(result, want.numpy()) < BOUND["f16"]


def test_quantized_parts_stay(slipway, tmp_path):
    """Products of quantized weights compute in f32, the others in halves."""
    module, x = Mlp().eval(), torch.randn(8, 64)
    export(module, (x,), tmp_path / "model.pt2")
    flags = ["--quantize", "int8-weight-only", "--quantize-exclude", "down"]
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "f32.onnx", *flags)
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "f16.onnx", *flags, "--dtype", "f16", "--keep-io-types")
    want = run(session_of(tmp_path / "f32.onnx"), (x,))[0]
    assert error(run(session_of(tmp_path / "f16.onnx"), (x,))[0], want) < BOUND["f16"]


def test_what_does_not_take_it(slipway, tmp_path):
    export(Mlp(), (torch.randn(2, 64),), tmp_path / "model.pt2")
    done = slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "out.pt2", "--dtype", "f16", status=2)
    assert "--dtype (a flag of onnx, so, native-pt2, safetensors)" in done.stderr
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "out.onnx", "--dtype", "f32", status=4)
    slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "out.onnx", "--keep-io-types", status=2)
