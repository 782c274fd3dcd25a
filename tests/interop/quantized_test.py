"""Products with quantized weights against eager torch: in memory, in a library, and through torch's loader with other
constants. What torchao's weight-only configurations leave behind is written out here in the operators that it
becomes."""

import pathlib
import sys

import numpy as np
import pytest
import torch
from exported import export
from safetensors.torch import load_file, save_file
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  declares quantized_decomposed

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "samples" / "native"))
from model import Model  # noqa: E402

K, N, GROUP = 256, 192, 32


class Grouped(nn.Module):
    """A scale and a zero point for each GROUP weights of a row; integers from `low` to `high`."""

    def __init__(self, low, high, dtype=torch.float32, zero=True, bias=True):
        super().__init__()
        self.register_buffer("q", torch.randint(low, high + 1, (N, K), dtype=torch.int8))
        self.q[0, :2] = torch.tensor([low, high])
        self.register_buffer("scale", (torch.rand(N, K // GROUP) * 0.1 + 0.01).to(dtype))
        self.register_buffer("zero", torch.randint(-3, 4, (N, K // GROUP), dtype=torch.int8) * int(zero))
        self.bias = nn.Parameter(torch.randn(N).to(dtype)) if bias else None

    def weight(self):
        blocks = self.q.view(N, K // GROUP, GROUP).to(self.scale.dtype)
        return ((blocks - self.zero.unsqueeze(-1).to(self.scale.dtype)) * self.scale.unsqueeze(-1)).view(N, K)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight(), self.bias)


class ScaledAfter(nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.register_buffer("q", torch.randint(-128, 128, (N, K), dtype=torch.int8))
        self.register_buffer("scale", (torch.rand(N) * 0.1 + 0.01).to(dtype))

    def forward(self, x):
        return torch.mm(x, self.q.t().to(x.dtype)) * self.scale


class PerChannel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("q", torch.randint(0, 256, (N, K), dtype=torch.uint8))
        self.register_buffer("scale", torch.rand(N) * 0.1 + 0.01)
        self.register_buffer("zero", torch.randint(100, 150, (N,)))

    def forward(self, x):
        weight = torch.ops.quantized_decomposed.dequantize_per_channel(
            self.q, self.scale, self.zero, 0, 0, 255, torch.uint8
        )
        return x @ weight.t()


# With the bytes that an integer takes in the library.
CASES = {
    "int8 groups": (lambda: Grouped(-128, 127), 1),
    "int8 groups bf16": (lambda: Grouped(-128, 127, torch.bfloat16), 1),
    "int4 groups": (lambda: Grouped(-8, 7), 0.5),
    "int4 groups symmetric": (lambda: Grouped(-8, 7, zero=False, bias=False), 0.5),
    "int4 groups bf16": (lambda: Grouped(-8, 7, torch.bfloat16), 0.5),
    "uint4 groups f16": (lambda: Grouped(0, 15, torch.float16), 0.5),
    "int8 rows after": (ScaledAfter, 1),
    "int8 rows after bf16": (lambda: ScaledAfter(torch.bfloat16), 1),
    "uint8 channels": (PerChannel, 1),
}


def close(got, want):
    """Sums differ in their order; of narrow types they are rounded once."""
    tolerance = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}[want.dtype]
    want = want.float()
    assert got.shape == want.shape
    assert (got.float() - want).abs().max() <= tolerance * want.abs().max()


@pytest.mark.parametrize("case", CASES)
def test_numbers_and_size(slipway, tmp_path, case):
    torch.manual_seed(3)
    module, per_weight = CASES[case][0]().eval(), CASES[case][1]
    dtype = module.scale.dtype
    batch = torch.export.Dim("B", max=64)
    export(module, (torch.randn(3, K).to(dtype),), tmp_path / "m.pt2", dynamic_shapes={"x": {0: batch}})
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    # The weight as integers, beside little else: not as floats.
    module_bytes = sum(t.nbytes for name, t in module.state_dict().items() if name != "q") + N * K * per_weight
    slipway("inspect", tmp_path / "m.so")
    smallest = tmp_path / "small.so"
    export(nn.ReLU(), (torch.randn(3),), tmp_path / "small.pt2")
    slipway("convert", tmp_path / "small.pt2", "-o", smallest)
    grown = (tmp_path / "m.so").stat().st_size - smallest.stat().st_size
    assert abs(grown - module_bytes) <= 3 * 4096, (grown, module_bytes)
    for rows in (1, 5, 40):
        x = torch.randn(rows, K).to(dtype)
        want = module(x).detach()
        save_file({"input.0": x}, tmp_path / "in.safetensors")
        for model in ("m.pt2", "m.so"):
            slipway(
                "run",
                tmp_path / model,
                "--inputs",
                tmp_path / "in.safetensors",
                "--outputs",
                tmp_path / "out.safetensors",
            )
            close(load_file(tmp_path / "out.safetensors")["output.0"], want)
        if dtype == torch.float32:
            (y,) = Model(tmp_path / "m.so")(x.numpy())
            close(torch.from_numpy(np.asarray(y)), want)


def test_other_constants(slipway, tmp_path):
    torch.manual_seed(4)
    module = Grouped(-8, 7).eval()
    x = torch.randn(3, K)
    export(module, (x,), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "n.pt2", "--to", "native-pt2")
    loaded = torch._inductor.aoti_load_package(str(tmp_path / "n.pt2"))
    close(loaded(x), module(x).detach())
    # Integers that fit into four bits, and some that do not.
    for low, high in ((-7, 6), (-128, 127)):
        module.q.copy_(torch.randint(low, high + 1, (N, K), dtype=torch.int8))
        module.scale.mul_(2)
        loaded.load_constants({"q": module.q, "scale": module.scale}, check_full_update=False)
        close(loaded(x), module(x).detach())
