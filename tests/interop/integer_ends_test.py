"""Integer operators at the ends of their types: what torch computes, to the bit, in ONNX Runtime and in libraries.
Where f64 stands in for integers, as runtimes' kernels have it, numbers above 2^53 tell."""

import copy

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from exported import export
from safetensors.torch import load_file, save_file

TYPES = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def ends(dtype):
    info = torch.iinfo(dtype)
    values = [
        info.min,
        info.min + 1,
        -1 if info.min else 2,
        0,
        1,
        3,
        7,
        info.max - 1,
        info.max,
        info.max // 2 + 1,
        info.max // 3,
    ]
    return torch.tensor(values, dtype=dtype)


def divisors(y):
    """Neither zero nor -1, by which the least number has no quotient: torch's kernels trap."""
    return torch.where((y == 0) | (y == -1 if torch.iinfo(y.dtype).min else y == 0), 5, y).to(y.dtype)


def not_zero(y):
    return torch.where(y == 0, 5, y).to(y.dtype)


def image(x, spatial):
    return x.repeat(2 * 6**spatial // len(x) + 1)[: 2 * 6**spatial].reshape(1, 2, *[6] * spatial)


OF_TWO = {
    "arithmetic": lambda x,
    y: (x + y, x - y, x * y, torch.add(x, y, alpha=3), torch.sub(x, y, alpha=-2), torch.rsub(x, y),
    torch.addcmul(x, x, y, value=2)),
    "order": lambda x,
    y: (torch.maximum(x, y), torch.fmin(x, y), x == y, x != y, x < y, x <= y, x > y, x >= y,
    torch.clamp(x, y, torch.maximum(y, x))),
    "bits": lambda x,
    y: (x & y, x | y, x ^ y, torch.logical_and(x, y), torch.logical_xor(x, y), torch.where(x > y, x, y)),
    "division": lambda x,
    y: tuple(f(x, divisors(y)) for f in (torch.floor_divide, lambda x, y: torch.div(x, y, rounding_mode="trunc"))),
    "remainders": lambda x, y: (torch.remainder(x, not_zero(y)), torch.fmod(x, not_zero(y)), x / y),
    "power": lambda x, y: torch.pow(x, y),
    "shifts": lambda x, y: (x << y, x >> y, x << (y & 15), x >> (y & 15)),
    "gcd": lambda x, y: torch.gcd(x, y),
    "search": lambda x,
    y: (torch.isin(x, y[:3]), torch.searchsorted(x.sort()[0], y), torch.searchsorted(x.sort()[0], y, right=True),
    torch.bucketize(x, y.sort()[0])),
    "products": lambda x,
    y: (torch.outer(x[:5], y[:5]), x[:4].reshape(2, 2) @ y[:4].reshape(2, 2), torch.dot(x, y),
    torch.cross(x[:3], y[:3], dim=0)),
}  # fmt: skip
OF_ONE = {
    "unary": lambda x: (x.abs(), -x, x.sign(), x.square(), ~x, torch.logical_not(x), torch.isfinite(x), x.floor(),
    x.trunc(), torch.relu(x), x.signbit()),
    "powers": lambda x: tuple(x**k for k in (0, 1, 2, 3, 7, 9, 13, 62)) + tuple(k**x for k in (2, 3, -1, -3)),
    "shifts": lambda x: tuple(f for k in (0, 1, 5, 7, 8, 15, 16, 31, 32, 62, 63, 64, -1) for f in (x << k, x >> k)),
    "numbers": lambda x: tuple(f for k in (1, 3, -3, 7) for f in (x // k, x % k, torch.fmod(x, k),
    torch.div(x, k, rounding_mode="trunc"), x * k, k - x)),
    "minus_one": lambda x: (x % -1, torch.fmod(x, -1)),
    "clamps": lambda x: (x.clamp(-2, 5), x.clamp(min=0), F.hardtanh(x, 0, 2), F.threshold(x, 1, 7), x.clamp(-1.5, 2.5),
    x == 1.0, x > 2**53 + 0.5, x < 100),
    "sums": lambda x: (x.sum(), x.sum(dtype=x.dtype), x.sum(dtype=torch.int32), x.repeat(3).reshape(3, -1).sum(1),
    x.repeat(3).reshape(3, -1).sum(0, keepdim=True),
                       x.repeat(6).reshape(3, -1, 2).sum((0, 2)), x.nansum(), x.cumsum(0), x[:4].reshape(2, 2).trace(),
                       x.prod(), x.cumprod(0), x.diff()),
    "extrema": lambda x: (x.amax(), x.amin(), x.argmax(), x.argmin(), *x.max(0), *x.cummax(0), *x.cummin(0), x.any(),
    x.all(), torch.count_nonzero(x), x.median()),
    "order": lambda x: (x.sort(descending=True)[0], x.argsort(stable=True), x.topk(2)[0], x.kthvalue(2)[0], x.unique(),
    x.unique_consecutive(), *x.mode()),
    "casts": lambda x: tuple(x.to(t) for t in (*TYPES, torch.bool, torch.float32, torch.float64)),
    "moves": lambda x: (F.pad(x, (1, 2), value=3), x.flip(0), x.roll(1), x.masked_fill(x == 0, 5),
    torch.full_like(x, 7), x.repeat_interleave(2)),
    "scatters": lambda x: tuple(torch.ones(3, dtype=x.dtype).scatter_reduce(0, torch.arange(len(x)) % 3, x,
    how) for how in ("sum", "prod", "amax", "amin", "mean")),
    "pools": lambda x: tuple(pool for n in (2, 3) for pool in (getattr(F, f"max_pool{n}d")(image(x, n), 3, 2, 1),
    getattr(F, f"max_pool{n}d")(image(x, n), 2, 3, ceil_mode=True))),
}  # fmt: skip


class Each(torch.nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *tensors):
        results = []
        for function in self.functions:
            result = function(*tensors)
            results += result if isinstance(result, tuple) else (result,)
        return results


def accepted(function, tensors):
    """Whether torch has the operator for this type."""
    try:
        function(*copy.deepcopy(tensors))
    except (RuntimeError, NotImplementedError):
        return False
    return True


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: str(t).removeprefix("torch."))
@pytest.mark.parametrize("operands", [1, 2])
def test_equals_eager(slipway, tmp_path, dtype, operands):
    x = ends(dtype)
    tensors = (x,) if operands == 1 else (x.repeat_interleave(len(x)), x.repeat(len(x)))
    functions = {name: f for name, f in (OF_ONE if operands == 1 else OF_TWO).items() if accepted(f, tensors)}
    assert set(OF_ONE if operands == 1 else OF_TWO) - set(functions) == set(), functions.keys()
    names = [
        name for name, f in functions.items() for r in [f(*tensors)] for _ in (r if isinstance(r, tuple) else (r,))
    ]
    module = Each(list(functions.values()))
    export(module, tensors, tmp_path / "m.pt2")
    wanted = module(*tensors)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    results = session.run(None, {v.name: t.numpy() for v, t in zip(session.get_inputs(), tensors, strict=True)})
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    save_file({f"input.{i}": t for i, t in enumerate(tensors)}, tmp_path / "in")
    slipway("run", tmp_path / "m.so", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
    native = load_file(tmp_path / "out")
    for i, (name, got, want) in enumerate(zip(names, results, wanted, strict=True)):
        for what in (torch.from_numpy(got.copy()), native[f"output.{i}"]):
            assert (
                torch.equal(what.reshape(want.shape), want)
                if not want.is_floating_point()
                else torch.allclose(what, want, equal_nan=True)
            ), (name, i)


def test_sums_of_nothing_and_of_sizes_that_are_known_later(slipway, tmp_path):
    module = Each(
        [
            lambda x: x.sum(),
            lambda x: x.sum(1),
            lambda x: x.sum((0, 2), keepdim=True),
            lambda x: x.int().sum(-1),
            lambda x: (x > 0).sum(-1),
        ]
    )
    export(
        module,
        (torch.ones(2, 3, 4, dtype=torch.int64),),
        tmp_path / "m.pt2",
        dynamic_shapes=(({d: torch.export.Dim(f"d{d}", min=0) for d in range(3)},),),
    )
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for sizes in ((2, 3, 4), (0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0), (5, 1, 7)):
        x = torch.randint(-(2**62), 2**62, sizes)
        for got, want in zip(session.run(None, {session.get_inputs()[0].name: x.numpy()}), module(x), strict=True):
            assert torch.equal(torch.from_numpy(got), want), sizes


def test_64_bit_integers_that_cannot_be_pooled_exactly_are_refused(slipway, tmp_path):
    export(
        Each([lambda x: F.max_pool2d(x, 2, return_indices=True)]), (image(ends(torch.int64), 2),), tmp_path / "m.pt2"
    )
    assert "64-bit integers" in slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", status=4).stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nan_stays_in_softmax(slipway, tmp_path, dtype):
    x = torch.tensor([[1, float("nan"), 2], [1, 2, 3], [float("-inf"), 0, 1]], dtype=dtype)
    module = Each([lambda x: torch.log_softmax(x, 1), lambda x: torch.softmax(x, 1), lambda x: torch.logsumexp(x, 1)])
    export(module, (x,), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for got, want in zip(session.run(None, {session.get_inputs()[0].name: x.numpy()}), module(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), want, equal_nan=True)
