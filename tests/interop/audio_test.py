"""torchaudio's filters over time, in ONNX and by `run`: its operators' schemas with its own loops behind them, where
torchaudio is not installed."""

import pytest
import torch
from rare_operators_test import ANY, compare

SCHEMAS = {
    "_lfilter_core_loop": "(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform) -> "
    "Tensor(a!)",
    "_overdrive_core_loop": "(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, Tensor(c!) "
    "output_waveform) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
}


def lfilter_core_loop(x, a, y):
    taps = a.shape[1]
    for t in range(x.shape[2]):
        y[:, :, t + taps - 1] = x[:, :, t] - (y[:, :, t : t + taps] * a).sum(-1)
    return y


def overdrive_core_loop(x, temp, last_in, last_out, y):
    for t in range(x.shape[1]):
        last_out.copy_(temp[:, t] - last_in + 0.995 * last_out)
        last_in.copy_(temp[:, t])
        y[:, t] = x[:, t] * 0.5 + last_out * 0.75
    return last_in, last_out, y


LOOPS = {"_lfilter_core_loop": lfilter_core_loop, "_overdrive_core_loop": overdrive_core_loop}


@pytest.fixture(autouse=True)
def operators():
    with torch.library._scoped_library("torchaudio", "FRAGMENT") as library:
        for name, schema in SCHEMAS.items():
            if not hasattr(torch.ops.torchaudio, name):
                library.define(name + schema)
                library.impl(name, LOOPS[name], "CPU")
                written = 1 if name == "_lfilter_core_loop" else 3
                library.impl(name, lambda *x, n=written: x[-1] if n == 1 else x[-n:], "Meta")
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("taps", [1, 2, 3, 6])
def test_filters_with_memory(slipway, tmp_path, taps, dtype):
    a = torch.cat([torch.rand(2, taps - 1) - 0.5, torch.ones(2, 1)], 1).to(dtype) / 2

    # what is written is read by its own name, and by the operator's result; `y` is not zero where it is written
    def filtered(x, y):
        y = y.clone()
        z = torch.ops.torchaudio._lfilter_core_loop(x, a, y)
        return y[..., taps - 1 :] * 1.0, z.sum(-1)

    cases = [
        (torch.randn(n, 2, t).to(dtype), torch.randn(n, 2, t + taps - 1).to(dtype))
        for n, t in ((2, 40), (3, 7), (2, 2))
    ]
    n = torch.export.Dim("n", min=1)
    compare(slipway, filtered, cases[:1], tmp_path, rtol=1e-4, atol=1e-4)
    compare(slipway, filtered, cases[:1] + [(torch.randn(5, 2, 40).to(dtype), torch.randn(5, 2, 39 + taps).to(dtype))],
    tmp_path,
            rtol=1e-4, atol=1e-4, dynamic=({0: n}, {0: n}))  # fmt: skip
    if taps == 1:
        t = torch.export.Dim("t", min=2)
        compare(slipway, filtered, cases, tmp_path, rtol=1e-4, atol=1e-4, dynamic=({0: ANY, 2: t}, {0: ANY, 2: t}))


def test_overdrive(slipway, tmp_path):
    def driven(x, temp):
        last_in, last_out, y = torch.zeros_like(x[:, 0]), torch.ones_like(x[:, 0]), torch.zeros_like(x)
        torch.ops.torchaudio._overdrive_core_loop(x, temp, last_in, last_out, y)
        return y, last_in, last_out * 1.0

    cases = [(torch.randn(n, 30), torch.randn(n, 30)) for n in (2, 4)]
    compare(slipway, driven, cases, tmp_path, dynamic=({0: ANY}, {0: ANY}))


def test_operators_that_nothing_knows_are_refused(slipway, tmp_path):
    """Their results are not looked up among those of operators that write."""
    with torch.library._scoped_library("mylib", "FRAGMENT") as library:
        library.define("two(Tensor x) -> (Tensor, Tensor)")
        library.impl("two", lambda x: (x.clone(), x.clone()), "Meta")

        class Two(torch.nn.Module):
            def forward(self, x):
                return torch.ops.mylib.two(x)[1] + x

        torch.export.save(torch.export.export(Two(), (torch.randn(2),)), tmp_path / "m.pt2")
        for target in ("m.onnx", "m.so"):
            assert "mylib.two" in slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / target, status=4).stderr
