"""Operators and shapes that few programs have, in ONNX and by `run`: affine grids, pooling to the sizes of another
tensor, groups of heads of unknown number, scaled products of small floats, ranges between measured bounds, histograms;
and the distributions of random numbers."""

import math

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

ANY = torch.export.Dim.DYNAMIC


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def results(slipway, function, cases, folder, dynamic=None, onnx_too=True):
    """(runtime, case, outputs) for each."""
    options = {"dynamic_shapes": (dynamic,)} if dynamic else {}
    torch.export.save(
        torch.export.export(Of(function), tuple(x.clone() for x in cases[0]), strict=False, **options), folder / "m.pt2"
    )
    session = None
    if onnx_too:
        slipway("convert", folder / "m.pt2", "-o", folder / "m.onnx")
        onnx.checker.check_model(str(folder / "m.onnx"), full_check=True)
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(folder / "m.onnx"), settings, providers=["CPUExecutionProvider"])
    for case in cases:
        if session:
            feeds = {v.name: x.numpy() for v, x in zip(session.get_inputs(), case, strict=True)}
            yield "onnx", case, [torch.from_numpy(np.array(y)) for y in session.run(None, feeds)]
        save_file({f"input.{i}": x.contiguous() for i, x in enumerate(case)}, folder / "in.safetensors")
        slipway("run", folder / "m.pt2", "--inputs", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
        out = load_file(folder / "out.safetensors")
        yield "run", case, [out[f"output.{i}"] for i in range(len(out))]


def compare(slipway, function, cases, folder, rtol=1e-5, atol=1e-5, **options):
    for runtime, case, got in results(slipway, function, cases, folder, **options):
        want = torch.utils._pytree.tree_leaves(function(*(x.clone() for x in case)))
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype and g.shape == w.shape, runtime
            torch.testing.assert_close(g, w, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{runtime}: {m}")


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [[2, 3, 5, 6], [2, 1, 1, 7], [2, 3, 4, 5, 6], [2, 3, 1, 1, 1]])
def test_affine_grid(slipway, tmp_path, size, align):
    theta = torch.randn(2, len(size) - 2, len(size) - 1)
    compare(slipway, lambda t: F.affine_grid(t, size, align_corners=align), [(theta,)], tmp_path)


def test_spatial_transformer(slipway, tmp_path):
    compare(
        slipway, lambda x,
        t: F.grid_sample(x, F.affine_grid(t, [2, 3, 9, 7], align_corners=False), align_corners=False),
        [(torch.randn(2, 3, 9, 7), torch.randn(2, 2, 3) * 0.5)], tmp_path, atol=1e-4,
    )  # fmt: skip


@pytest.mark.parametrize("image", [{}, {2: ANY, 3: ANY}])
def test_pooling_to_the_sizes_of_another_tensor(slipway, tmp_path, image):
    cases = [
        (torch.randn(2, 3, h, w), torch.randn(a, b))
        for h, w, a, b in [(12, 13, 4, 5), (12, 13, 12, 2), (12, 13, 7, 26)]
    ]
    if image:
        cases.append((torch.randn(2, 3, 30, 4), torch.randn(9, 9)))
    compare(slipway, lambda x, y: F.adaptive_avg_pool2d(x, y.shape), cases, tmp_path, dynamic=(image, {0: ANY, 1: ANY}))


def test_area_interpolation_to_a_part_of_the_size(slipway, tmp_path):
    cases = [(torch.randn(2, 3, h, w),) for h, w in [(12, 13), (21, 16)]]
    compare(
        slipway, lambda x: F.interpolate(x, size=(x.shape[2] // 2, x.shape[3] // 3), mode="area"), cases, tmp_path,
        dynamic=({2: ANY, 3: ANY},),
    )  # fmt: skip


def test_groups_of_heads_of_unknown_number(slipway, tmp_path):
    def attend(k, v, q):
        return F.scaled_dot_product_attention(q.reshape(2, k.shape[1] * 3, 5, 16), k, v, enable_gqa=True)

    cases = [(torch.randn(2, h, 6, 16), torch.randn(2, h, 6, 16), torch.randn(2, 3 * h, 5, 16)) for h in (4, 2, 5)]
    compare(slipway, attend, cases, tmp_path, dynamic=({1: ANY}, {1: ANY}, {1: ANY}))


@pytest.mark.parametrize("scales", [((), ()), ((16, 1), (1, 48))])
@pytest.mark.parametrize("bias", [False, True])
def test_scaled_mm(slipway, tmp_path, scales, bias):
    b = torch.randn(48, dtype=torch.bfloat16)

    def multiply(x, y, scale_x, scale_y):  # the inputs of the model are f32, which every runtime takes
        x, y = (t.to(torch.float8_e4m3fn) for t in (x, y))
        return torch._scaled_mm(x, y.t(), scale_x, scale_y, bias=b if bias else None, out_dtype=torch.bfloat16).float()

    case = (torch.randn(16, 32), torch.randn(48, 32), *(torch.rand(s) for s in scales))
    compare(slipway, multiply, [case], tmp_path, rtol=1e-2, atol=1e-2)


def ends_of(*ends):
    return torch.tensor(ends, dtype=torch.int32)


GROUPS = {
    "rows": ((10, 16), (4, 16, 24), [ends_of(2, 2, 7, 10), ends_of(0, 0, 0, 10), ends_of(1, 3, 9, 10)]),
    "columns": ((4, 8, 16), (16, 24), [ends_of(8, 8, 16, 24), ends_of(0, 24, 24, 24)]),
    "terms": ((8, 16), (16, 24), [ends_of(8, 8, 12, 16), ends_of(1, 2, 3, 16)]),
    "batch": ((4, 8, 16), (4, 16, 24), [None]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_products_of_groups(slipway, tmp_path, name):
    first, second, ends = GROUPS[name]

    def multiply(x, y, *at):
        return torch._grouped_mm(x.bfloat16(), y.bfloat16(), offs=at[0] if at else None).float()

    cases = [(torch.randn(first), torch.randn(second), *([at] if at is not None else [])) for at in ends]
    compare(slipway, multiply, cases, tmp_path, rtol=2e-2, atol=2e-2)


def grouped_mm_fallback(x, weight, ends):
    """As transformers has it: rows behind the last end are zeros."""
    out, start = x.new_zeros(len(x), weight.shape[2]), 0
    for matrix, end in zip(weight, ends.tolist(), strict=True):
        out[start:end] = x[start:end] @ matrix
        start = end
    return out


@pytest.mark.parametrize("whole", [torch.int32, torch.int64])
def test_experts_of_transformers(slipway, tmp_path, whole):
    """transformers::grouped_mm_fallback, with routing as its mixtures of experts have it: the ends are counted in the
    program."""
    with torch.library._scoped_library("transformers", "FRAGMENT") as library:
        if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
            library.define("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")
            library.impl("grouped_mm_fallback", grouped_mm_fallback, "CPU")
            library.impl("grouped_mm_fallback", lambda x, w, at: x.new_empty(x.shape[0], w.shape[2]), "Meta")
        weight = torch.randn(5, 24, 16)

        def mix(x, experts):
            order = experts.argsort(stable=True)
            ends = torch.histc(experts.float(), 5, 0, 4).cumsum(0).to(whole)
            y = torch.ops.transformers.grouped_mm_fallback(x[order], weight.transpose(1, 2), ends)
            return y[order.argsort()], torch.ops.transformers.grouped_mm_fallback(
                x, weight.transpose(1, 2), (ends - 2).clamp(min=0)
            )

        cases = [(torch.randn(n, 16), torch.randint(0, 4, (n,))) for n in (12, 3, 40)]
        compare(slipway, mix, cases, tmp_path, dynamic=({0: ANY}, {0: ANY}))


def test_ranges_of_integers_with_a_step_that_is_a_float(slipway, tmp_path):
    def ranges(x):
        n = x.shape[0]
        return torch.arange(n, -n, -1.0, dtype=torch.int64).float(), torch.arange(
            1.0, 2 * n, 3.0, dtype=torch.int32
        ).float()

    compare(slipway, ranges, [(torch.randn(n),) for n in (5, 3, 9)], tmp_path, dynamic=({0: ANY},))


def test_ranges_between_measured_bounds(slipway, tmp_path):
    def ranges(x, y):
        return torch.arange(x.item(), y.item(), 0.5), torch.arange(0.0, x.item()) * 2

    cases = [(torch.tensor(a), torch.tensor(b)) for a, b in [(1.0, 7.2), (2.5, 2.5), (3.7, 11.9)]]
    compare(slipway, ranges, cases, tmp_path)


@pytest.mark.parametrize("density", [False, True])
def test_histograms(slipway, tmp_path, density):
    edges = torch.tensor([-1.0, -0.5, 0.25, 1.0])

    def counts(x, w):
        a, b = torch.histogram(x, 8, range=(-2.0, 2.0), density=density)
        c, d = torch.histogram(x, 5, weight=w, density=density)
        e, f = torch.histogram(x, edges, weight=w)
        g, h = torch.histogramdd(x.reshape(-1, 2), [3, 4], density=density)
        i, j = torch.histogramdd(x.reshape(-1, 2), [edges, edges], weight=w.reshape(-1, 2)[:, 0])
        return a, b, c, d, e, f, g, *h, i, *j

    point = torch.full((40,), 0.25)
    edge = torch.tensor(
        [-1.0, -0.5, 0.25, 1.0, 1.5, 2.0, -1.5, torch.nextafter(torch.tensor(2.0), torch.tensor(3.0))]
    ).repeat(5)
    compare(
        slipway, counts, [(torch.randn(40), torch.rand(40)), (point, torch.rand(40)), (edge, torch.rand(40))], tmp_path
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.bfloat16, torch.float64])
def test_logspace(slipway, tmp_path, dtype):
    compare(
        slipway,
        lambda x: x + torch.logspace(0.3, 3.7, 9, dtype=dtype).float(),
        [(torch.randn(9),)],
        tmp_path,
        rtol=1e-2,
        atol=1e-2,
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("align", [False, True])
def test_sampling_in_half_precision(slipway, tmp_path, dtype, mode, align):
    def sample(x, grid):
        return F.grid_sample(x.to(dtype), grid.to(dtype), mode=mode, align_corners=align).float()

    case = (torch.randn(2, 3, 9, 8), torch.rand(2, 6, 5, 2) * 2.4 - 1.2)
    compare(slipway, sample, [case], tmp_path, rtol=4e-2, atol=4e-2)


# Distributions: their mean and deviation, and the part below a number.
N = 20000
DISTRIBUTIONS = {
    "rand": (lambda x: torch.rand_like(x), 0.5, math.sqrt(1 / 12)),
    "rand_f64": (lambda x: torch.rand(N, dtype=torch.float64), 0.5, math.sqrt(1 / 12)),
    "rand_half": (lambda x: torch.rand(N, dtype=torch.float16).float(), 0.5, math.sqrt(1 / 12)),
    "randn": (lambda x: torch.randn_like(x), 0, 1),
    "randint": (lambda x: torch.randint(3, 9, (N,)), 5.5, math.sqrt(35 / 12)),
    "randint_wide": (lambda x: torch.randint(-(2**61), 2**61, (N,)).double() / 2**61, 0, math.sqrt(1 / 3)),
    "randint_like": (lambda x: torch.randint_like(x, 10), 4.5, math.sqrt(99 / 12)),
    "uniform": (lambda x: torch.empty_like(x).uniform_(3, 9), 6, math.sqrt(3)),
    "normal": (lambda x: torch.empty_like(x).normal_(2, 3), 2, 3),
    "normal_of": (lambda x: torch.normal(x * 0 + 2, 3.0), 2, 3),
    "normal_of_both": (lambda x: torch.normal(x * 0 + 2, x * 0 + 3), 2, 3),
    "exponential": (lambda x: torch.empty_like(x).exponential_(2), 0.5, 0.5),
    "log_normal": (lambda x: torch.empty_like(x).log_normal_(0, 0.5).log(), 0, 0.5),
    "cauchy": (lambda x: ((torch.empty_like(x).cauchy_(2, 3) - 2) / 3).atan(), 0, math.pi * math.sqrt(1 / 12)),
    "geometric": (lambda x: torch.empty_like(x).geometric_(0.3), 1 / 0.3, math.sqrt(0.7) / 0.3),
    "bernoulli": (lambda x: torch.bernoulli(x * 0 + 0.25), 0.25, math.sqrt(0.1875)),
    "bernoulli_of": (lambda x: torch.empty_like(x).bernoulli_(0.25), 0.25, math.sqrt(0.1875)),
    "multinomial": (
        lambda x: torch.multinomial(torch.tensor([1.0, 0, 2, 1]), N, replacement=True),
        1.75,
        math.sqrt(1.1875),
    ),
    "multinomial_first": (
        lambda x: torch.multinomial(torch.tensor([1.0, 0, 2, 1]).expand(N, 4), 2)[:, 0],
        1.75,
        math.sqrt(1.1875),
    ),
    "randperm": (lambda x: torch.randperm(N).double() / N, 0.5, math.sqrt(1 / 12)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(slipway, tmp_path, name):
    function, mean, deviation = DISTRIBUTIONS[name]
    x = torch.rand(N)
    want = function(x)
    for runtime, _, (got,) in results(slipway, function, [(x,)], tmp_path):
        assert got.dtype == want.dtype and got.shape == want.shape, runtime
        got = got.double()
        assert abs(got.mean().item() - mean) < 6 * deviation / math.sqrt(N), runtime
        assert abs(got.std().item() / deviation - 1) < 0.06, runtime
        # Neighbours have nothing to do with each other.
        apart = (got[1:] - mean) * (got[:-1] - mean)
        assert name == "randperm" or abs(apart.mean().item()) < 6 * deviation**2 / math.sqrt(N), runtime
        if name == "randperm":
            assert len(set(got.tolist())) == N
        if name.startswith("multinomial"):
            assert not (got == 1).any(), runtime
        if name == "geometric":
            assert got.min() == 1, runtime
        if name.startswith("rand") and "int" not in name and name not in ("randn", "randperm"):
            assert 0 <= got.min() and (got.max() < 1 or runtime == "onnx"), runtime


def test_the_first_run_draws_the_same(slipway, tmp_path):
    torch.export.save(torch.export.export(Of(lambda x: torch.rand_like(x)), (torch.rand(50),)), tmp_path / "m.pt2")
    save_file({"input.0": torch.rand(50)}, tmp_path / "in.safetensors")
    found = []
    for _ in range(2):
        slipway(
            "run",
            tmp_path / "m.pt2",
            "--inputs",
            tmp_path / "in.safetensors",
            "--outputs",
            tmp_path / "out.safetensors",
        )
        found.append(load_file(tmp_path / "out.safetensors")["output.0"])
    assert torch.equal(*found)
