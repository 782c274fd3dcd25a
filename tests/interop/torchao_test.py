"""Models that torchao quantized, as ONNX and run by the planner: the operators in the file, its size, the kernels that
ONNX Runtime makes of them, and the numbers against eager."""

import collections

import numpy as np
import onnx
import onnxruntime
import pytest
import saturation
import torch
import torchao.quantization as ao
from safetensors.torch import load_file, save_file
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  declares quantized_decomposed

K, N = 256, 384
INT8_GROUPS = lambda: ao.Int8WeightOnlyConfig(granularity=ao.PerGroup(64))  # noqa: E731
INT4 = lambda mapping, group=32: ao.IntxWeightOnlyConfig(  # noqa: E731
    weight_dtype=torch.int4, granularity=ao.PerGroup(group), mapping_type=mapping
)
DYNAMIC_INT4 = lambda: ao.Int8DynamicActivationIntxWeightConfig(  # noqa: E731
    weight_dtype=torch.int4, weight_granularity=ao.PerGroup(32)
)
INT8_ZEROS = lambda: ao.IntxWeightOnlyConfig(  # noqa: E731
    weight_dtype=torch.int8, granularity=ao.PerAxis(0), mapping_type=ao.MappingType.ASYMMETRIC
)
SYMMETRIC, ASYMMETRIC = ao.MappingType.SYMMETRIC, ao.MappingType.ASYMMETRIC

# The operator of the products at opset 20 and from 21 on, and the bytes that a weight takes there.
CASES = {
    "int8 rows": (ao.Int8WeightOnlyConfig, ("DequantizeLinear", 1), ("DequantizeLinear", 1)),
    "int8 rows with zero points": (INT8_ZEROS, ("DequantizeLinear", 1), ("DequantizeLinear", 1)),
    "int8 groups": (INT8_GROUPS, ("DequantizeLinear", 1), ("DequantizeLinear", 1)),
    "int4 groups": (lambda: INT4(SYMMETRIC), ("MatMulNBits", 0.5), ("DequantizeLinear", 0.5)),
    "int4 groups with zero points": (lambda: INT4(ASYMMETRIC, 128), ("MatMulNBits", 0.5), ("DequantizeLinear", 0.5)),
    "int4, dynamic activations": (DYNAMIC_INT4, ("MatMulNBits", 0.5), ("DequantizeLinear", 0.5)),
    "int8, dynamic activations": (ao.Int8DynamicActivationInt8WeightConfig, ("MatMulInteger", 1), ("MatMulInteger", 1)),
    "float8 rows": (ao.Float8WeightOnlyConfig, ("Cast", 1), ("Cast", 1)),
}
# Of bf16 weights 4 bits become bytes where ONNX has no type for them: MatMulNBits does not round to bf16.
BFLOAT16 = {"int4 groups": (("DequantizeLinear", 1), ("DequantizeLinear", 0.5))}


def quantized(config, dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(K, N), nn.ReLU(), nn.Linear(N, K, bias=False)).eval().to(dtype)
    ao.quantize_(model, config)
    return model


def export(model, x, path, decomposed=False):
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program.run_decompositions() if decomposed else program, path)


def close(got, want, exact=5e-6):
    tolerance = exact if want.dtype == torch.float32 else 2e-2
    want = want.float()
    assert (got.float() - want).abs().max() <= tolerance * want.abs().max()


def run_onnx(path, x, wide=False):
    """The results and how often each operator is in ONNX Runtime's own graph."""
    options = onnxruntime.SessionOptions()
    if wide:
        saturation.widen(options)
    options.log_severity_level = 3
    options.optimized_model_filepath = str(path) + ".optimized"
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    if x.dtype == torch.bfloat16:
        feed = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(torch.int16).numpy(), 16)
        (y,) = session.run_with_ort_values(None, {session.get_inputs()[0].name: feed})
        y = torch.from_dlpack(y._ortvalue.to_dlpack()).clone()
    else:
        y = torch.from_numpy(np.array(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]))
    optimized = onnx.load(options.optimized_model_filepath, load_external_data=False)
    return y, collections.Counter(node.op_type for node in optimized.graph.node)


@pytest.mark.parametrize("decomposed", [False, True], ids=["torchao", "aten"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("case", CASES)
def test_onnx(slipway, tmp_path, case, dtype, decomposed):
    config, *expected = CASES[case]
    if dtype == torch.bfloat16:
        expected = BFLOAT16.get(case, expected if "MatMulNBits" not in str(expected) else None)
    model = quantized(config(), dtype)
    x = torch.randn(*([2, 5] if dtype == torch.float32 else [5]), K, dtype=dtype)
    export(model, x, tmp_path / "m.pt2", decomposed)
    want = model(x).detach()
    for opset in (20, 21, 23):
        target = tmp_path / f"{opset}.onnx"
        slipway("convert", tmp_path / "m.pt2", "-o", target, "--opset", opset)
        onnx.checker.check_model(str(target), full_check=True)
        got, optimized = run_onnx(target, x)
        close(got, want)
        if expected is None:
            continue
        operator, width = expected[0 if opset == 20 else 1]
        file = onnx.load(str(target))
        assert sum(node.op_type == operator for node in file.graph.node) >= 2, (opset, operator)
        # Weights that stay small in memory, too: the kernel that takes them, or what makes floats of them in each run.
        if operator != "Cast":
            assert optimized[operator] >= 2, optimized
        weights = sum(len(t.raw_data) for t in file.graph.initializer if np.prod(t.dims) >= K * N * 0.5)
        assert weights == 2 * K * N * width, opset


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("case", CASES)
def test_planned(slipway, tmp_path, case, dtype):
    model = quantized(CASES[case][0](), dtype)
    x = torch.randn(5, K, dtype=dtype)
    export(model, x, tmp_path / "m.pt2")
    save_file({"input.0": x}, tmp_path / "in.safetensors")
    slipway(
        "run", tmp_path / "m.pt2", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
    )
    close(load_file(tmp_path / "out.safetensors")["output.0"], model(x).detach())


def test_scales_below_a_ten_millionth(slipway, tmp_path):
    """torchao bounds the scales of activations by the smallest normal number of their type, not by its epsilon."""
    model = quantized(DYNAMIC_INT4(), torch.float32)
    x = torch.randn(5, K) * 1e-7
    export(model, x, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    close(run_onnx(tmp_path / "m.onnx", x)[0], model(x).detach())


def test_scales_wider_than_the_weights(slipway, tmp_path):
    """The product of a weight and a scale of f32 is rounded to bf16 once; the scale is not, before."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("q", torch.randint(-8, 8, (N, K), dtype=torch.int8))
            self.register_buffer("scale", torch.rand(N, K // 32))

        def forward(self, x):
            w = torch.ops.torchao.dequantize_affine(
                self.q, (1, 32), self.scale, None, torch.int8, -8, 7, output_dtype=torch.bfloat16
            )
            return w + x

    x = torch.zeros(N, K, dtype=torch.bfloat16)
    torch.export.save(torch.export.export(Wide().eval(), (x,)), tmp_path / "m.pt2")
    model = torch.export.load(tmp_path / "m.pt2").module()
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    assert torch.equal(run_onnx(tmp_path / "m.onnx", x)[0], model(x))
    save_file({"input.0": x}, tmp_path / "in.safetensors")
    slipway(
        "run", tmp_path / "m.pt2", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
    )
    assert torch.equal(load_file(tmp_path / "out.safetensors")["output.0"], model(x))


def test_static_activations(slipway, tmp_path):
    """Pairs of QuantizeLinear and DequantizeLinear, of which ONNX Runtime makes products of integers."""
    q = torch.ops.quantized_decomposed

    class Static(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("w", torch.randint(-127, 128, (N, K), dtype=torch.int8))
            self.register_buffer("s", torch.rand(N) * 0.01 + 0.001)
            self.register_buffer("z", torch.zeros(N, dtype=torch.int64))

        def forward(self, x):
            x = q.dequantize_per_tensor(
                q.quantize_per_tensor(x, 0.02, 3, -128, 127, torch.int8), 0.02, 3, -128, 127, torch.int8
            )
            w = q.dequantize_per_channel(self.w, self.s, self.z, 0, -127, 127, torch.int8)
            y = torch.nn.functional.linear(x, w)
            return q.dequantize_per_tensor(
                q.quantize_per_tensor(y, 0.5, 0, -128, 127, torch.int8), 0.5, 0, -128, 127, torch.int8
            )

    torch.manual_seed(1)
    model, x = Static().eval(), torch.randn(5, K)
    export(model, x, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    operators = collections.Counter(node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node)
    assert operators["QuantizeLinear"] == 2 and operators["DequantizeLinear"] == 3, operators
    got, optimized = run_onnx(tmp_path / "m.onnx", x, wide=True)
    close(got, model(x))
    assert optimized["QGemm"] == 1, optimized
