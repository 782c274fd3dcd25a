"""Complex numbers as pairs of reals and Fourier transforms, against torch eager. Inputs and outputs are real, as ONNX
Runtime has no complex kernels; inside everything is complex."""

import pytest
import torch
import torch.nn.functional as F
from exported import check, export
from torch import fft

NORMS = (None, "forward", "ortho")


def f(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)), dtype=dtype)


def parts(z):
    return z.real, z.imag


def pair(x):
    return torch.view_as_complex(x)


class Of(torch.nn.Module):
    """A function of tensors as a module; some functions share one program to save exports."""

    def __init__(self, *functions):
        super().__init__()
        self.functions = functions

    def forward(self, *tensors):
        leaves = []
        for function in self.functions:
            result = function(*tensors)
            leaves += result if isinstance(result, tuple) else (result,)
        return tuple(leaves)


def each_norm(transform, finish, **options):
    return [lambda x, norm=norm: finish(transform(x, norm=norm, **options)) for norm in NORMS]


def real(x):
    return (x,)


def spectrum(x, n, hop, **options):
    return torch.stft(x, n, hop, window=torch.hann_window(n), return_complex=True, **options)


CASES = {
    "fft": (each_norm(fft.fft, parts), [f(3, 8)]),
    "fft_odd": (each_norm(fft.fft, parts), [f(3, 7)]),
    "fft_long": ([lambda x: parts(fft.fft(x)), lambda x: parts(fft.ifft(x))], [f(2, 1000)]),
    "fft_f64": ([lambda x: parts(fft.fft(x)), lambda x: parts(fft.ifft(x))], [f(2, 12, dtype=torch.float64)]),
    "fft_int": ([lambda x: parts(fft.fft(x))], [torch.arange(6).reshape(2, 3)]),
    "fft_one": ([lambda x: parts(fft.fft(x, dim=1))], [f(3, 1)]),
    "fft_trim_pad": ([lambda x: parts(fft.fft(x, n=5)), lambda x: parts(fft.fft(x, n=11, dim=0))], [f(6, 8)]),
    "ifft_of_pairs": (each_norm(lambda x, norm: fft.ifft(pair(x), dim=0, norm=norm), parts), [f(6, 3, 2)]),
    "fft2_fftn": ([lambda x: parts(fft.fft2(x)), lambda x: parts(fft.fftn(x, s=(3, 5))),
    lambda x: parts(fft.ifftn(x, dim=(0, -1), norm="ortho")),
                   lambda x: parts(fft.ifft2(x, s=(4, 4), norm="forward")), lambda x: parts(fft.fftn(x))],
                   [f(2, 4, 6)]),
    "rfft": (each_norm(fft.rfft, parts) + each_norm(fft.rfft, parts, n=9) + each_norm(fft.ihfft, parts, dim=0),
    [f(5, 8)]),
    "rfftn": ([lambda x: parts(fft.rfft2(x, norm="ortho")), lambda x: parts(fft.rfftn(x, s=(3, 7), dim=(0, 2))),
               lambda x: parts(fft.ihfft2(x)), lambda x: parts(fft.ihfftn(x, norm="ortho"))], [f(4, 3, 6)]),
    "irfft": ([g for n in (None, 7, 8, 12, 1) for g in each_norm(lambda x, norm,
    n=n: fft.irfft(pair(x), n=n, norm=norm), real)], [f(3, 5, 2)]),
    "hfft": ([g for n in (None, 7, 10) for g in each_norm(lambda x, norm, n=n: fft.hfft(pair(x), n=n, norm=norm),
    real)], [f(3, 5, 2)]),
    "irfftn": ([lambda x: fft.irfft2(pair(x)), lambda x: fft.irfftn(pair(x), s=(4, 7), dim=(0, 1), norm="ortho"),
                lambda x: fft.hfft2(pair(x)), lambda x: fft.hfftn(pair(x), s=(3, 5, 6), norm="forward")],
                [f(4, 3, 5, 2)]),
    "roundtrip_dynamic": ([lambda x: fft.irfft(fft.rfft(x), n=x.shape[-1]), lambda x: fft.ifft2(fft.fft2(x)).real],
    [f(3, 8)], [f(4, 13)]),
    "shifts": ([lambda x: parts(fft.fftshift(fft.fft(x))),
    lambda x: parts(fft.ifftshift(pair(x.reshape(3, 2, 2)), dim=0))], [f(3, 4)]),
    "stft": ([lambda x: parts(torch.stft(x, 8, 3, window=torch.hann_window(8), return_complex=True)),
              lambda x: parts(torch.stft(x, 9, 4, win_length=6, window=torch.hann_window(6), center=False,
              normalized=True,
                                         onesided=False, return_complex=True)),
              lambda x: parts(torch.stft(x, 4, return_complex=True, window=torch.ones(4)))], [f(2, 30)]),
    "arithmetic": ([lambda x, y: parts(pair(x) + pair(y)), lambda x, y: parts(pair(x) - 2j), lambda x,
    y: parts(torch.sub(pair(x), pair(y), alpha=3)),
                    lambda x, y: parts(pair(x) * pair(y)), lambda x, y: parts(pair(x) * (1 - 2j)), lambda x,
                    y: parts(pair(x) * y[..., 0]),
                    lambda x, y: parts(pair(x) / pair(y)), lambda x, y: parts(pair(x) / 3.0), lambda x,
                    y: parts(pair(x).reciprocal()),
                    lambda x, y: parts(-pair(x)), lambda x, y: parts(pair(x).square()), lambda x,
                    y: parts(pair(x) ** 3),
                    lambda x, y: parts(y[..., 0] - pair(x))], [f(3, 4, 2), f(4, 2)]),
    "elementary": ([lambda x, name=name: parts(getattr(torch, name)(pair(x))) for name in
                    "rsqrt reciprocal exp2 log2 log10 expm1 log1p sinh cosh tanh tan sigmoid asin acos atan asinh "
                    "acosh atanh sinc".split()]
                   + [lambda x: parts(F.silu(pair(x))), lambda x: parts(F.tanhshrink(pair(x))),
                   lambda x: parts(F.softsign(pair(x)))],
                   [torch.cat([f(4, 6, 2) * 1.5,
                   torch.tensor([[[0.0, 0.0], [1, 0], [-1, 0], [-2, 0], [2, -0.0], [0, 1]],
                                                               [[30.0, 1], [-30, 2], [0.001, 0.001], [-3, -0.0],
                                                               [0, -2], [0, -0.5]]])])]),
    "powers": ([lambda x, y, e=e: parts(pair(x) ** e) for e in (0, 0.5, -0.5, 2, 3, -1, -2, 1.5, -1.5, 9, 1j, 2 + 1j)]
               + [lambda x, y: parts(pair(x) ** pair(y)), lambda x, y: parts(2.0 ** pair(x)), lambda x,
               y: parts(y[..., 0].abs() ** pair(x))],
               [torch.cat([f(2, 4, 2), torch.tensor([[[0.0, 0.0], [-1, 0], [-2, -0.0], [0, 1]]])]), f(3, 4, 2) + 0.5]),
    "reductions": ([lambda x: parts(pair(x).prod()), lambda x: parts(pair(x).prod(1)),
    lambda x: parts(pair(x).prod(0, keepdim=True)), lambda x: parts(pair(x).cumprod(1)),
                    lambda x: pair(x).var(), lambda x: pair(x).std(1),
                    lambda x: torch.var(pair(x), dim=(0, 1), correction=0, keepdim=True),
                    lambda x: (lambda r: (r[0], *parts(r[1])))(torch.var_mean(pair(x), 1)),
                    lambda x: parts(torch.logsumexp(pair(x), 1)),
                    lambda x: pair(x).norm(), lambda x: torch.linalg.vector_norm(pair(x), 3, dim=1),
                    lambda x: torch.linalg.norm(pair(x)), lambda x: torch.linalg.matrix_norm(pair(x), 1),
                    lambda x: pair(x).any(), lambda x: pair(x).all(1), lambda x: torch.count_nonzero(pair(x), 1),
                    lambda x: pair(x).bool(), lambda x: torch.logical_not(pair(x))],
                   [torch.cat([f(4, 5, 2), torch.tensor([[[0.0, 0.0], [0, 1], [1, 0], [2, 2], [-1, 0]]])])]),
    "products_dynamic": ([lambda x: parts(torch.complex(x, x + 1).prod(1)),
    lambda x: parts(torch.complex(x, x + 1).cumprod(0))], [f(3, 4)], [f(5, 7)]),
    "sums_of_products": ([lambda x, y: parts(torch.addmm(pair(x)[:, :4], pair(x), pair(y).T, beta=2, alpha=0.5j)),
    lambda x, y: parts(torch.addcmul(pair(x), pair(x), pair(y), value=1j)),
                          lambda x, y: parts(torch.addcdiv(pair(x), pair(x), pair(y))), lambda x,
                          y: parts(torch.lerp(pair(x), pair(y), 0.3)), lambda x,
                          y: parts(torch.add(pair(x), pair(y), alpha=2j)),
                          lambda x, y: parts(torch.vdot(pair(x)[0], pair(y)[0])), lambda x,
                          y: parts(torch.linalg.vecdot(pair(x), pair(y))), lambda x,
                          y: parts(torch.tensordot(pair(x), pair(y), dims=([1], [1]))),
                          lambda x, y: parts(torch.einsum("ij,kj,lj->ikl", pair(x), pair(y), pair(y))), lambda x,
                          y: parts(F.linear(pair(x), pair(y), pair(x)[:, 0])),
                          lambda x,
                          y: parts(F.conv1d(pair(x)[None], pair(y)[None, :, :3].expand(2, -1, -1), pair(x)[:2, 0])),
                          lambda x, y: parts(torch.linalg.cross(pair(x)[:, :3], pair(y)[:, :3])),
                          lambda x, y: parts(torch.linalg.matrix_power(pair(x)[:, :4], 3)), lambda x,
                          y: parts(torch.logaddexp(pair(x), pair(y)))], [f(4, 6, 2), f(4, 6, 2) + 0.5]),
    "solutions": ([lambda x, y: parts(torch.linalg.solve(pair(x), pair(y))), lambda x,
    y: parts(torch.linalg.inv(pair(x))), lambda x, y: parts(torch.linalg.solve(pair(x), pair(y)[:, 0]))],
                  [f(4, 4, 2), f(4, 3, 2)]),
    "fills": ([lambda x: parts(pair(x).masked_fill(x[..., 0] > 0, 2 + 1j)),
    lambda x: parts(torch.full_like(pair(x), 2 - 1j)), lambda x: parts(pair(x).new_full((2,), 1j)),
               lambda x: parts(F.pad(pair(x), (1, 2), value=3.0)),
               lambda x: parts(F.pad(pair(x)[None], (1, 1), mode="reflect")),
               lambda x: parts(torch.index_fill(pair(x), 0, torch.tensor([1]), 2j)),
               lambda x: parts(torch.where(x[..., 0] > 0, 1j, pair(x))),
               lambda x: parts(pair(x).scatter(0, torch.zeros(1, 4, dtype=torch.long), pair(x)[1:2])),
               lambda x: parts(pair(x).index_put((torch.tensor([0, 2]),), pair(x)[:2])),
               lambda x: torch.isclose(pair(x), pair(x) * (1 + 1e-6))], [f(3, 4, 2)]),
    "stft_of_complex": ([lambda x: parts(torch.stft(pair(x), 8, 3, window=torch.hann_window(8), return_complex=True,
    onesided=False))], [f(2, 30, 2)]),
    "istft": ([lambda x: torch.istft(spectrum(x, 8, 3), 8, 3, window=torch.hann_window(8)),
    lambda x: torch.istft(spectrum(x, 8, 3), 8, 3, window=torch.hann_window(8), length=25),
               lambda x: torch.istft(spectrum(x, 8, 3), 8, 3, window=torch.hann_window(8), length=40),
               lambda x: torch.istft(spectrum(x[0], 8, 2, normalized=True), 8, 2, window=torch.hann_window(8),
               normalized=True),
               lambda x: torch.istft(torch.stft(x, 8, 4, window=torch.ones(8), center=False, return_complex=True), 8, 4,
               window=torch.ones(8), center=False),
               lambda x: torch.istft(spectrum(x, 8, 3, onesided=False), 8, 3, window=torch.hann_window(8),
               onesided=False),
               lambda x: torch.istft(torch.stft(x, 10, 4, win_length=6, window=torch.hamming_window(6),
               return_complex=True), 10, 4, win_length=6, window=torch.hamming_window(6)),
               lambda x: parts(torch.istft(spectrum(x, 8, 3, onesided=False), 8, 3, window=torch.hann_window(8),
               onesided=False, return_complex=True))], [f(2, 30)]),
    "istft_dynamic": ([lambda x: torch.istft(spectrum(x, 8, 2), 8, 2, window=torch.hann_window(8))], [f(2, 30)],
    [f(3, 46)]),
    "quotient_of_extremes": ([lambda x: parts(pair(x) / pair(x * 0.5))],
    [torch.tensor([[1e30, -2e30], [3e-30, 1e-30]])]),
    "functions": ([lambda x: pair(x).abs(), lambda x: pair(x).angle(), lambda x: parts(pair(x).exp()),
    lambda x: parts(pair(x).log()),
                   lambda x: parts(pair(x).sqrt()), lambda x: parts(pair(x).sin()), lambda x: parts(pair(x).cos()),
                   lambda x: parts(pair(x).sgn()),
                   lambda x: parts(pair(x).conj()), lambda x: parts(torch.polar(x[..., 0].abs(), x[..., 1])),
                   lambda x: parts(torch.complex(x[..., 0], x[:1, :, 1]))],
                  [torch.cat([f(3, 4, 2), torch.zeros(1, 4, 2)])]),
    "tests": ([lambda x: pair(x) == pair(x.abs()), lambda x: pair(x) != 1, lambda x: torch.isreal(pair(x)),
    lambda x: torch.isfinite(pair(x)),
               lambda x: torch.isnan(pair(x)), lambda x: parts(torch.where(x[..., 0] > 0, pair(x), 0j * pair(x)))],
              [torch.tensor([[1.0, 0.0], [float("nan"), 1.0], [2.0, float("inf")], [-1.0, 0.0]])]),
    "movement": ([lambda x: parts(pair(x).reshape(2, -1).T), lambda x: parts(torch.cat([pair(x), x[..., 0]], 1)),
    lambda x: parts(pair(x)[1:, [0, 2]]),
                  lambda x: torch.view_as_real(pair(x).flip(0).unsqueeze(1)), lambda x: parts(pair(x).mH),
                  lambda x: parts(pair(x).mT), lambda x: parts(torch.stack([pair(x), pair(x) * 2]).sum(0)),
                  lambda x: parts(pair(x).mean(1, keepdim=True)), lambda x: parts(pair(x).split(2, 1)[1]),
                  lambda x: parts(x[..., 0].to(torch.complex64))],
                 [f(4, 4, 2)]),
    "products": ([lambda x, y: parts(pair(x) @ pair(y)), lambda x, y: parts(pair(x) @ y[..., 0].to(torch.complex64)),
                  lambda x, y: parts(torch.einsum("bij,jk->bik", pair(x), pair(y)))], [f(2, 3, 4, 2), f(4, 5, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(slipway, tmp_path, name):
    functions, arguments, *also = CASES[name]
    options = {}
    if also:
        options["dynamic_shapes"] = (tuple([torch.export.Dim.DYNAMIC] * t.dim() for t in arguments),)
    check(slipway, Of(*functions), [tuple(arguments), *map(tuple, also)], tmp_path, rtol=2e-5, atol=2e-5, **options)


class Rotary(torch.nn.Module):
    """A complex weight, as rotary embeddings keep it, and a complex constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(6, 4), f(6, 4)))

    def forward(self, x):
        z = torch.view_as_complex(x.unflatten(-1, (4, 2)))
        return torch.view_as_real(z * self.turns * torch.tensor([1j, 1, -1j, 2])).flatten(-2)


def test_complex_weights(slipway, tmp_path):
    check(slipway, Rotary(), [(f(2, 6, 8),)], tmp_path)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: fft.fft(x), "output '.*' is complex"),
        (lambda x: torch.linalg.norm(torch.view_as_complex(x[:, None]), 2, dim=(0, 1)), "singular values"),
        # fmt: skip
        (
            lambda x: torch.logcumsumexp(torch.view_as_complex(x), 0).real,
            "aten.logcumsumexp.default: of complex numbers",
        ),
    ],
)
def test_refusals_say_why(slipway, tmp_path, function, message):
    import re

    export(Of(function), (f(3, 2),), tmp_path / "m.pt2")
    stderr = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", status=4).stderr
    assert re.search(message, stderr), stderr


class Signature(torch.nn.Module):
    """Complex numbers come in and go out: beside real ones, twice, and as they came."""

    def forward(self, z, x, w):
        y = z * w.conj() + x
        return y, x + 1, {"twice": y, "same": z}, torch.fft.fft(x)


def test_complex_signature(slipway, tmp_path):
    import onnx
    import onnxruntime
    from safetensors.torch import load_file, save_file

    arguments = (torch.randn(3, 4, dtype=torch.complex64), f(3, 4), torch.randn(4, dtype=torch.complex64))
    export(Signature(), arguments, tmp_path / "m.pt2")
    for target in ("m.onnx", "m.so"):
        stderr = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / target, status=4).stderr
        assert "input 'z', input 'w', output" in stderr and "--complex real" in stderr, stderr
        slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / target, "--complex", "real")
    real = [torch.view_as_real(x) if x.is_complex() else x for x in arguments]
    wanted = torch.utils._pytree.tree_leaves(Signature()(*arguments))
    wanted = [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in wanted]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    got = session.run(None, {v.name: x.numpy() for v, x in zip(session.get_inputs(), real, strict=True)})
    for g, w in zip(got, wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(g), w, rtol=2e-5, atol=2e-5)
    said = {p.key: p.value for p in onnx.load(tmp_path / "m.onnx").metadata_props}["slipway.complex"]
    assert said.startswith("input 'z', input 'w', output") and "view_as_real" in said
    save_file({f"input.{i}": x.contiguous() for i, x in enumerate(real)}, tmp_path / "in.safetensors")
    slipway(
        "run", tmp_path / "m.so", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
    )
    results = load_file(tmp_path / "out.safetensors")
    for i, w in enumerate(wanted):
        torch.testing.assert_close(results[f"output.{i}"], w, rtol=2e-5, atol=2e-5)
