"""float8-dynamic in programs beside torchao 0.18's Float8Tensor, which runs on a CPU although its configuration asks
for a GPU: activations rounded to the same float8 numbers, products of them within the order of their sums."""

import warnings

import onnxruntime
import pytest
import torch
from exported import export
from safetensors.torch import load_file, save_file
from torch import nn
from torchao.quantization.granularity import PerRow, PerTensor
from torchao.quantization.quantize_.common import KernelPreference
from torchao.quantization.quantize_.workflows.float8.float8_tensor import Float8Tensor, QuantizeTensorToFloat8Kwargs

warnings.filterwarnings("ignore")
GRANULARITIES = {"tensor": PerTensor(), "row": PerRow()}


class Net(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.up = nn.Linear(64, 96, dtype=dtype)
        self.down = nn.Linear(96, 32, bias=False, dtype=dtype)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


def quantized(model, per, element=torch.float8_e4m3fn, low=None, high=None):
    """The model as Float8DynamicActivationFloat8WeightConfig makes it."""
    granularity = GRANULARITIES[per]
    kwargs = QuantizeTensorToFloat8Kwargs(
        element, granularity, hp_value_lb=low, hp_value_ub=high, kernel_preference=KernelPreference.TORCH
    )
    config = torchao_config()
    for layer in (model.up, model.down):
        weight = Float8Tensor.from_hp(
            layer.weight.detach(), element, granularity, config, kernel_preference=KernelPreference.TORCH,
            act_quant_kwargs=kwargs,
        )  # fmt: skip
        layer.weight = nn.Parameter(weight, requires_grad=False)
    return model


def torchao_config():
    from torchao.float8.inference import Float8MMConfig

    return Float8MMConfig(use_fast_accum=False)


def off(got, want):
    return (torch.linalg.norm(got.float() - want.float()) / torch.linalg.norm(want.float())).item()


def run(slipway, path, x):
    save_file({"input.0": x}, path.with_suffix(".in"))
    slipway("run", path, "--inputs", path.with_suffix(".in"), "--outputs", path.with_suffix(".out"))
    return load_file(path.with_suffix(".out"))["output.0"]


CASES = [("tensor", torch.float32), ("tensor", torch.bfloat16), ("row", torch.bfloat16)]


@pytest.mark.parametrize(("per", "dtype"), CASES, ids=str)
def test_quantized_here(slipway, tmp_path, per, dtype):
    model, x = Net(dtype).eval(), torch.randn(2, 5, 64).to(dtype)
    export(model, (x,), tmp_path / "m.pt2", dynamic_shapes=({1: torch.export.Dim.AUTO},))
    float_result = model(x).detach()
    results = {}
    for target in ("q.so", "q.pt2", "q.onnx"):
        slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / target, "--config", f"float8-dynamic:per={per}")
        if target != "q.onnx":
            results[target] = run(slipway, tmp_path / target, x)
    results["torch"] = torch.export.load(tmp_path / "q.pt2").module()(x).detach()
    slipway("convert", tmp_path / "q.pt2", "-o", tmp_path / "again.so")
    results["again.so"] = run(slipway, tmp_path / "again.so", x)
    if dtype == torch.float32:
        session = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), providers=["CPUExecutionProvider"])
        results["onnx"] = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
    with torch.no_grad():
        want = quantized(model, per)(x)
    rounding = off(float_result, want)
    assert 1e-3 < rounding < 0.1
    for what, got in results.items():
        # A rounding to float8 between the layers may fall on the other side.
        assert off(got, want) < (2e-3 if dtype == torch.float32 else 1e-2) < rounding, what
    assert abs((tmp_path / "again.so").stat().st_size - (tmp_path / "q.so").stat().st_size) < 4096


def test_one_layer_to_the_last_bits(slipway, tmp_path):
    """Without a layer behind it nothing is rounded on the other side."""
    layer = nn.Linear(64, 48)
    export(layer, (torch.randn(3, 64),), tmp_path / "m.pt2")
    slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / "q.so", "--config", "float8-dynamic:lb=0.5,ub=1.5")
    kwargs = QuantizeTensorToFloat8Kwargs(
        torch.float8_e4m3fn, PerTensor(), hp_value_lb=0.5, hp_value_ub=1.5, kernel_preference=KernelPreference.TORCH
    )
    layer.weight = nn.Parameter(
        Float8Tensor.from_hp(
            layer.weight.detach(), torch.float8_e4m3fn, PerTensor(), torchao_config(),
            kernel_preference=KernelPreference.TORCH, act_quant_kwargs=kwargs,
        ),
        requires_grad=False,
    )  # fmt: skip
    for scale in (0.1, 1.0, 30.0):
        x = torch.randn(3, 64) * scale
        with torch.no_grad():
            assert off(run(slipway, tmp_path / "q.so", x), layer(x)) < 1e-6
    # Inputs of zeros stay zeros, where torchao divides by a scale of 0.
    slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / "z.so", "--config", "float8-dynamic")
    assert torch.allclose(run(slipway, tmp_path / "z.so", torch.zeros(3, 64)), layer.bias.detach().expand(3, -1))


@pytest.mark.parametrize(("per", "dtype"), CASES, ids=str)
def test_quantized_by_torchao(slipway, tmp_path, per, dtype):
    x = torch.randn(6, 64).to(dtype)
    model = quantized(Net(dtype).eval(), per)
    with torch.no_grad():
        want = model(x)
    export(model, (x,), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    assert off(run(slipway, tmp_path / "m.so", x), want) < (2e-3 if dtype == torch.float32 else 1e-2)
    report = slipway("inspect", tmp_path / "m.so", "--kernels").stdout
    assert report.count("f8e4m3fn") >= 2 and "quant_linear" in report  # weights are float8 in the library


@pytest.mark.parametrize("config", ["float8-dynamic:element=e5m2", "float8-dynamic:element=e5m2,per=row"])
def test_the_other_float8(slipway, tmp_path, config):
    """Where torch has no product on a CPU: the steps in torch."""
    x = torch.randn(6, 64).bfloat16()
    export(Net(torch.bfloat16).eval(), (x,), tmp_path / "m.pt2")
    for target in ("q.so", "q.pt2"):
        slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / target, "--config", config)
    want = torch.export.load(tmp_path / "q.pt2").module()(x).detach()
    assert off(run(slipway, tmp_path / "q.so", x), want) < 1e-2


def test_what_is_refused(slipway, tmp_path):
    export(Net(torch.bfloat16), (torch.randn(2, 64).bfloat16(),), tmp_path / "m.pt2")
    done = slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / "q.so", "--config", "mxfp8", status=4)
    assert "float8-dynamic" in done.stderr
