"""Special functions and parts of numbers: exported by torch, converted, against torch eager on grids with edge values.

Each case is a function and its inputs, in f32; some also run in f64 and on integers.
"""

import numpy as np
import onnxruntime
import pytest
import torch

NAN, INF = float("nan"), float("inf")
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 10.0, INF, -INF, NAN, 1e-30, -1e-30, 1e-5]


def t(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


def line(low, high, count=301, edges=EDGES):
    return torch.cat([torch.linspace(low, high, count), t(*edges)])


def pairs(a, b):
    return [v.flatten().contiguous() for v in torch.meshgrid(a, b, indexing="ij")]


s = torch.special
POSITIVE = torch.cat([torch.logspace(-3, 2.5, 40), t(0.0, INF, NAN, -1.0, 1.0, 20.0)])
UNIT = torch.cat([torch.linspace(-1, 1, 201), torch.linspace(0.9999, 1, 30), t(1e-30, 1e-10, 1e-5, NAN, 1.5, -1.5)])
INTEGERS = torch.arange(-20, 21)

UNARY = {
    "lgamma": (torch.lgamma, line(-9.9, 40)),
    "lgamma_large": (torch.lgamma, t(1e3, 1e10, 1e30, 1e37, -1e3, -100.25)),
    "digamma": (torch.digamma, line(-9.9, 40)),
    "polygamma_1": (lambda x: torch.polygamma(1, x), line(-9.87, 30, edges=[0.0, INF, NAN, 1.0, 0.5, 2.0])),
    "polygamma_2": (lambda x: torch.polygamma(2, x), line(-9.87, 30, edges=[0.0, -1.0, NAN, 1.0, 0.5, 2.0])),
    "polygamma_3": (lambda x: torch.polygamma(3, x), line(-9.87, 30, edges=[0.0, -1.0, NAN, 1.0, 0.5, 2.0])),
    "polygamma_8": (lambda x: torch.polygamma(8, x), line(0.1, 30)),
    "mvlgamma_1": (lambda x: torch.mvlgamma(x, 1), line(0.1, 30)),
    "mvlgamma_5": (lambda x: torch.mvlgamma(x, 5), line(2.1, 30)),
    "erfc": (torch.erfc, line(-6, 9)),
    "erfcx": (s.erfcx, line(-9, 90)),
    "erfinv": (torch.erfinv, UNIT),
    "ndtr": (s.ndtr, line(-12, 9)),
    "log_ndtr": (s.log_ndtr, line(-90, 12)),
    "ndtri": (s.ndtri, UNIT),
    "entr": (s.entr, line(-2, 9)),
    "bessel_j0": (s.bessel_j0, line(-40, 40)),
    "bessel_j1": (s.bessel_j1, line(-40, 40)),
    "bessel_y0": (s.bessel_y0, line(-2, 40)),
    "bessel_y1": (s.bessel_y1, line(-2, 40)),
    "i0": (torch.i0, line(-95, 95)),
    "i0e": (s.i0e, line(-40, 40)),
    "i1": (s.i1, line(-95, 95)),
    "i1e": (s.i1e, line(-40, 40)),
    "modified_bessel_i0": (s.modified_bessel_i0, line(-40, 40)),
    "modified_bessel_i1": (s.modified_bessel_i1, line(-40, 40)),
    "modified_bessel_k0": (s.modified_bessel_k0, line(-2, 40)),
    "modified_bessel_k1": (s.modified_bessel_k1, line(-2, 40)),
    "scaled_modified_bessel_k0": (s.scaled_modified_bessel_k0, line(-2, 40)),
    "scaled_modified_bessel_k1": (s.scaled_modified_bessel_k1, line(-2, 40)),
    "spherical_bessel_j0": (s.spherical_bessel_j0, line(-40, 40)),
    "airy_ai": (s.airy_ai, line(-10, 12)),
    "angle": (torch.angle, line(-2, 2)),
}
# Compared more loosely: torch's own f32 kernels lose digits there (phases, cancelling sums, exponents).
ROUGH = {"lgamma": 1e-4, "polygamma_2": 1e-4, "polygamma_3": 1e-4, "airy_ai": 2e-4, "igamma": 2e-4, "igammac": 2e-4}
PAIRS = {
    "igamma": (s.gammainc, pairs(POSITIVE, POSITIVE)),
    "igammac": (s.gammaincc, pairs(POSITIVE, POSITIVE)),
    "zeta": (s.zeta, pairs(t(0.5, 1.0, 1.5, 2.0, 3.0, 7.25, 30.0, NAN), line(-6.3, 20, 60))),
}
POLYNOMIALS = {
    name: (
        getattr(s, name),
        pairs(line(-1.2, 1.2, 41, [0.0, 1.0, -1.0, 0.5, 3.0, -4.0]), t(-1, 0, 1, 2, 3, 4.7, 5, 7, 9, 12, 31)),
    )
    for name in [
        *(f"{shifted}chebyshev_polynomial_{k}" for k in "tuvw" for shifted in ("", "shifted_")),
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
    ]
}
NEIGHBOURS = t(
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    3.1,
    -8.4,
    1.4e-45,
    -1.4e-45,
    1.1754944e-38,
    1e-39,
    3.4028235e38,
    -3.4028235e38,
    INF,
    -INF,
    NAN,
)


class Wrapped(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.fixture
def converted(slipway, tmp_path):
    """The results of the converted program and torch's."""

    def run(function, *inputs):
        program = torch.export.export(Wrapped(function), inputs, strict=False)
        torch.export.save(program, tmp_path / "in.pt2")
        slipway("convert", tmp_path / "in.pt2", "-o", tmp_path / "out.onnx")
        session = onnxruntime.InferenceSession(str(tmp_path / "out.onnx"), providers=["CPUExecutionProvider"])
        feed = {v.name: x.numpy() for v, x in zip(session.get_inputs(), inputs)}
        return session.run(None, feed), torch.utils._pytree.tree_leaves(function(*inputs))

    return run


def close(got, want, inputs, rtol, name):
    assert got.shape == tuple(want.shape), name
    want = want.numpy()
    assert got.dtype == want.dtype, name
    ok = np.isclose(got, want, rtol=rtol, atol=rtol * 0.05, equal_nan=True)
    bad = np.flatnonzero(~ok)[:8]
    shown = [
        (*(x.numpy().flatten()[i].item() for x in inputs), got.flatten()[i].item(), want.flatten()[i].item())
        for i in bad
    ]
    assert ok.all(), f"{name}: {(~ok).sum()} of {ok.size}: (inputs, got, expected) {shown}"


def check(converted, cases, tolerance):
    """All cases in one program: {name: (function, inputs)}."""
    functions = [f for f, _ in cases.values()]
    counts = [len(inputs) for _, inputs in cases.values()]

    def together(*args):
        rest = list(args)
        return tuple(f(*[rest.pop(0) for _ in range(n)]) for f, n in zip(functions, counts))

    got, want = converted(together, *(x.clone() for _, inputs in cases.values() for x in inputs))
    for (name, (_, inputs)), g, w in zip(cases.items(), got, want):
        close(g, w, inputs, tolerance(name), name)


def test_unary(converted):
    check(converted, {name: (f, [x]) for name, (f, x) in UNARY.items()}, lambda name: ROUGH.get(name, 2e-5))


def test_pairs(converted):
    check(converted, PAIRS, lambda name: ROUGH.get(name, 2e-5))


def test_polynomials(converted):
    check(converted, POLYNOMIALS, lambda _: 1e-4)
    numbers = {}
    for name, (f, (x, n)) in POLYNOMIALS.items():
        numbers[name + " of order 5"] = (lambda x, f=f: f(x, 5)), [x]
        numbers[name + " at 0.25"] = (lambda n, f=f: f(0.25, n)), [n]
    check(converted, numbers, lambda _: 1e-4)


def test_double(converted):
    # torch's own coefficients of some are good to five digits in places.
    names = ["lgamma", "digamma", "erfc", "erfcx", "erfinv", "ndtri", "log_ndtr", "i0", "i1e", "bessel_j0", "bessel_y1",
             "modified_bessel_k0", "scaled_modified_bessel_k1", "airy_ai"]  # fmt: skip
    cases = {name: (UNARY[name][0], [UNARY[name][1].double()]) for name in names}
    check(converted, cases, lambda name: 1e-4 if name in ("bessel_j0", "bessel_y1", "airy_ai") else 1e-11)


def test_integers(converted):
    names = ["lgamma", "polygamma_1", "erfc", "bessel_j1", "i0", "angle"]
    check(converted, {name: (UNARY[name][0], [INTEGERS]) for name in names}, lambda _: 1e-4)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_divisors(dtype, converted):
    x, y = pairs(torch.arange(0, 49, 6).to(dtype), torch.arange(0, 40, 5).to(dtype))
    if dtype.is_signed:
        x = x * torch.where(torch.arange(x.numel()) % 3 == 0, -1, 1).to(dtype)
    got, want = converted(lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), x, y)
    for g, w in zip(got, want):
        np.testing.assert_array_equal(g, w.numpy())
        assert g.dtype == w.numpy().dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbours_and_parts(dtype, converted):
    x = NEIGHBOURS.to(dtype)
    if dtype == torch.float64:
        x = torch.cat([x, torch.tensor([5e-324, 1e-310, 2.2250738585072014e-308, 1.7976931348623157e308], dtype=dtype)])
    a, b = pairs(x, x)
    got, want = converted(lambda a, b: (torch.nextafter(a, b), *torch.frexp(a)), a, b)
    for g, w in zip(got[:2], want):
        np.testing.assert_array_equal(g, w.numpy())
    regular = np.isfinite(a.numpy())
    np.testing.assert_array_equal(got[2][regular], want[2].numpy()[regular])


def test_hash(converted):
    x = torch.stack([NEIGHBOURS[:16], NEIGHBOURS[:16].flip(0)])
    k = torch.arange(-7, 8).reshape(3, 5)
    got, want = converted(
        lambda x, k: (
            torch.hash_tensor(x), torch.hash_tensor(x[:, :7], 1), torch.hash_tensor(k, 0, keepdim=True),
            torch.hash_tensor(k),
            torch.hash_tensor(x.double()[:, 3], 0),
        ), x, k)  # fmt: skip
    for g, w in zip(got, want):
        assert g.shape == tuple(w.shape)
        np.testing.assert_array_equal(g, w.numpy())


def test_convolutions_torch_allows(converted):
    """Integers, and output paddings that ONNX has no word for."""
    g = torch.Generator().manual_seed(0)
    i = lambda *shape: torch.randint(-9, 9, shape, generator=g)
    F = torch.nn.functional
    got, want = converted(
        lambda x, w, v, u, b: (
            F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
            F.conv_transpose2d(x, v, b, stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2,
            dilation=(2, 1)),
            F.conv_transpose2d(x.float(), u.float(), b.float(), stride=(2, 3), output_padding=(2, 4), dilation=(3, 5)),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 1, divisor_override=4),
        ), i(2, 4, 7, 6), i(6, 2, 3, 2), i(4, 3, 3, 2), i(4, 6, 3, 2), i(6))  # fmt: skip
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-6, atol=1e-4 if w.is_floating_point() else 0)


def test_fake_quantize(converted):
    got, want = converted(
        lambda x, s, z: (
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255),
            torch.fake_quantize_per_tensor_affine(x, s[0], z[0], -128, 127),
            torch.fake_quantize_per_channel_affine(x, s, z, 1, -8, 7),
        ), torch.linspace(-5, 5, 24).reshape(8, 3), t(0.1, 0.25, 0.7), t(0, 2, -1, dtype=torch.int32))  # fmt: skip
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-6, atol=1e-6)
