"""Complex numbers as pairs of reals and Fourier transforms, against torch eager. Inputs and outputs are real, as ONNX Runtime
has no complex kernels; inside everything is complex."""

import pytest
import torch
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


CASES = {
    "fft": (each_norm(fft.fft, parts), [f(3, 8)]),
    "fft_odd": (each_norm(fft.fft, parts), [f(3, 7)]),
    "fft_long": ([lambda x: parts(fft.fft(x)), lambda x: parts(fft.ifft(x))], [f(2, 1000)]),
    "fft_f64": ([lambda x: parts(fft.fft(x)), lambda x: parts(fft.ifft(x))], [f(2, 12, dtype=torch.float64)]),
    "fft_int": ([lambda x: parts(fft.fft(x))], [torch.arange(6).reshape(2, 3)]),
    "fft_one": ([lambda x: parts(fft.fft(x, dim=1))], [f(3, 1)]),
    "fft_trim_pad": ([lambda x: parts(fft.fft(x, n=5)), lambda x: parts(fft.fft(x, n=11, dim=0))], [f(6, 8)]),
    "ifft_of_pairs": (each_norm(lambda x, norm: fft.ifft(pair(x), dim=0, norm=norm), parts), [f(6, 3, 2)]),
    "fft2_fftn": ([lambda x: parts(fft.fft2(x)), lambda x: parts(fft.fftn(x, s=(3, 5))), lambda x: parts(fft.ifftn(x, dim=(0, -1), norm="ortho")),
                   lambda x: parts(fft.ifft2(x, s=(4, 4), norm="forward")), lambda x: parts(fft.fftn(x))], [f(2, 4, 6)]),
    "rfft": (each_norm(fft.rfft, parts) + each_norm(fft.rfft, parts, n=9) + each_norm(fft.ihfft, parts, dim=0), [f(5, 8)]),
    "rfftn": ([lambda x: parts(fft.rfft2(x, norm="ortho")), lambda x: parts(fft.rfftn(x, s=(3, 7), dim=(0, 2))),
               lambda x: parts(fft.ihfft2(x)), lambda x: parts(fft.ihfftn(x, norm="ortho"))], [f(4, 3, 6)]),
    "irfft": ([g for n in (None, 7, 8, 12, 1) for g in each_norm(lambda x, norm, n=n: fft.irfft(pair(x), n=n, norm=norm), real)], [f(3, 5, 2)]),
    "hfft": ([g for n in (None, 7, 10) for g in each_norm(lambda x, norm, n=n: fft.hfft(pair(x), n=n, norm=norm), real)], [f(3, 5, 2)]),
    "irfftn": ([lambda x: fft.irfft2(pair(x)), lambda x: fft.irfftn(pair(x), s=(4, 7), dim=(0, 1), norm="ortho"),
                lambda x: fft.hfft2(pair(x)), lambda x: fft.hfftn(pair(x), s=(3, 5, 6), norm="forward")], [f(4, 3, 5, 2)]),
    "roundtrip_dynamic": ([lambda x: fft.irfft(fft.rfft(x), n=x.shape[-1]), lambda x: fft.ifft2(fft.fft2(x)).real], [f(3, 8)], [f(4, 13)]),
    "shifts": ([lambda x: parts(fft.fftshift(fft.fft(x))), lambda x: parts(fft.ifftshift(pair(x.reshape(3, 2, 2)), dim=0))], [f(3, 4)]),
    "stft": ([lambda x: parts(torch.stft(x, 8, 3, window=torch.hann_window(8), return_complex=True)),
              lambda x: parts(torch.stft(x, 9, 4, win_length=6, window=torch.hann_window(6), center=False, normalized=True,
                                         onesided=False, return_complex=True)),
              lambda x: parts(torch.stft(x, 4, return_complex=True, window=torch.ones(4)))], [f(2, 30)]),
    "arithmetic": ([lambda x, y: parts(pair(x) + pair(y)), lambda x, y: parts(pair(x) - 2j), lambda x, y: parts(torch.sub(pair(x), pair(y), alpha=3)),
                    lambda x, y: parts(pair(x) * pair(y)), lambda x, y: parts(pair(x) * (1 - 2j)), lambda x, y: parts(pair(x) * y[..., 0]),
                    lambda x, y: parts(pair(x) / pair(y)), lambda x, y: parts(pair(x) / 3.0), lambda x, y: parts(pair(x).reciprocal()),
                    lambda x, y: parts(-pair(x)), lambda x, y: parts(pair(x).square()), lambda x, y: parts(pair(x) ** 3),
                    lambda x, y: parts(y[..., 0] - pair(x))], [f(3, 4, 2), f(4, 2)]),
    "quotient_of_extremes": ([lambda x: parts(pair(x) / pair(x * 0.5))], [torch.tensor([[1e30, -2e30], [3e-30, 1e-30]])]),
    "functions": ([lambda x: pair(x).abs(), lambda x: pair(x).angle(), lambda x: parts(pair(x).exp()), lambda x: parts(pair(x).log()),
                   lambda x: parts(pair(x).sqrt()), lambda x: parts(pair(x).sin()), lambda x: parts(pair(x).cos()), lambda x: parts(pair(x).sgn()),
                   lambda x: parts(pair(x).conj()), lambda x: parts(torch.polar(x[..., 0].abs(), x[..., 1])), lambda x: parts(torch.complex(x[..., 0], x[:1, :, 1]))],
                  [torch.cat([f(3, 4, 2), torch.zeros(1, 4, 2)])]),
    "tests": ([lambda x: pair(x) == pair(x.abs()), lambda x: pair(x) != 1, lambda x: torch.isreal(pair(x)), lambda x: torch.isfinite(pair(x)),
               lambda x: torch.isnan(pair(x)), lambda x: parts(torch.where(x[..., 0] > 0, pair(x), 0j * pair(x)))],
              [torch.tensor([[1.0, 0.0], [float("nan"), 1.0], [2.0, float("inf")], [-1.0, 0.0]])]),
    "movement": ([lambda x: parts(pair(x).reshape(2, -1).T), lambda x: parts(torch.cat([pair(x), x[..., 0]], 1)), lambda x: parts(pair(x)[1:, [0, 2]]),
                  lambda x: torch.view_as_real(pair(x).flip(0).unsqueeze(1)), lambda x: parts(pair(x).mH), lambda x: parts(pair(x).mT), lambda x: parts(torch.stack([pair(x), pair(x) * 2]).sum(0)),
                  lambda x: parts(pair(x).mean(1, keepdim=True)), lambda x: parts(pair(x).split(2, 1)[1]), lambda x: parts(x[..., 0].to(torch.complex64))],
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


@pytest.mark.parametrize("function, message", [
    (lambda x: fft.fft(x), "output '.*' is complex"), (lambda x: (torch.view_as_complex(x) ** 0.5).real, "exponent"),
    (lambda x: torch.view_as_complex(x).tan().real, "aten.tan.default: of complex numbers")])  # fmt: skip
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
    slipway("run", tmp_path / "m.so", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors")
    results = load_file(tmp_path / "out.safetensors")
    for i, w in enumerate(wanted):
        torch.testing.assert_close(results[f"output.{i}"], w, rtol=2e-5, atol=2e-5)
