"""pt2e's quantization of activations while a program runs (X86InductorQuantizer with is_dynamic): parameters and
integers are torch's to the bit, layers multiply integers in libraries and in ONNX Runtime."""

import re

import onnx
import onnxruntime
import pytest
import torch
import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
from integer_test import PRESENT, run
from safetensors.torch import load_file, save_file
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

Q = torch.ops.quantized_decomposed
EPS = 2.0**-12


def samples(dtype):
    """Around 0, on either side of it, nothing but zeros, smaller than eps allows, with ties; an odd number of rows."""
    x = torch.randn(7, 33)
    ties = torch.arange(-32, 32).float() / 2
    ties[0], ties[1] = -127.5, 127.5  # a scale of 1
    small = (x * 1e-6, x * 3e3)
    return [t.to(dtype) for t in (x, x.abs() + 1, -x.abs() - 1, torch.zeros(7, 33), *small, ties.reshape(2, 32), x[:1])]


class Parameters(nn.Module):
    def __init__(self, op, arguments, quantize, dequantize, low, high, kind):
        super().__init__()
        self.op, self.arguments, self.quantize, self.dequantize = op, arguments, quantize, dequantize
        self.range = low, high, kind

    def forward(self, x):
        scale, zero = self.op(x, *self.arguments)
        q = self.quantize(x, scale, zero, *self.range)
        options = {"output_dtype": torch.float32} if self.dequantize is Q.dequantize_per_token.default else {}
        return scale.double(), zero.long(), q, self.dequantize(q, scale, zero, *self.range, **options)


TENSOR = (Q.quantize_per_tensor.tensor, Q.dequantize_per_tensor.tensor)
TOKEN = (Q.quantize_per_token.default, Q.dequantize_per_token.default)
U8, I8 = torch.uint8, torch.int8
CASES = {
    "tensor-u8": (Q.choose_qparams.tensor, (0, 255, EPS, U8), *TENSOR, 0, 255, U8),
    "tensor-u8-7-bits": (Q.choose_qparams.tensor, (0, 127, EPS, U8), *TENSOR, 0, 127, U8),
    "tensor-i8": (Q.choose_qparams.tensor, (-128, 127, 1e-5, I8), *TENSOR, -128, 127, I8),
    "symmetric-i8": (Q.choose_qparams_symmetric.tensor, (-127, 127, EPS, I8), *TENSOR, -127, 127, I8),
    "symmetric-u8": (Q.choose_qparams_symmetric.tensor, (0, 255, EPS, U8), *TENSOR, 0, 255, U8),
    "symmetric-u8-7-bits": (Q.choose_qparams_symmetric.tensor, (0, 127, EPS, U8), *TENSOR, 0, 127, U8),
    "token": (Q.choose_qparams_per_token.default, (I8,), *TOKEN, -128, 127, I8),
    "token-asymmetric": (Q.choose_qparams_per_token_asymmetric.default, (I8,), *TOKEN, -128, 127, I8),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_parameters_and_integers_are_torch_s(slipway, tmp_path, case, dtype):
    if dtype == torch.bfloat16 and case.startswith("token-"):
        pytest.skip("torch quantizes tokens of bf16 in f64, and refuses to")
    net = Parameters(*CASES[case])
    row, column = torch.export.Dim.AUTO, torch.export.Dim.AUTO
    program = torch.export.export(net, (torch.randn(5, 9, dtype=dtype),), dynamic_shapes=({0: row, 1: column},))
    torch.export.save(program, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    for x in samples(dtype):
        want = net(x)
        save_file({"input.0": x.contiguous()}, tmp_path / "in")
        for file in ("m.pt2", "m.so"):
            slipway("run", tmp_path / file, "--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
            got = load_file(tmp_path / "out")
            for i, (name, w) in enumerate(zip(("scale", "zero point", "integers", "floats"), want)):
                assert torch.equal(got[f"output.{i}"].reshape(w.shape), w), (file, name, x.shape)


def layers():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(96, 160), nn.ReLU(), nn.LayerNorm(160), nn.Linear(160, 72, bias=False), nn.GELU(), nn.Linear(72, 40)
    ).eval()


def quantized(net, x, path, **options):
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(**options))
    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(net, (x,), strict=True).module(), quantizer)
        prepared(x)
        net = convert_pt2e(prepared)
        torch.export.save(torch.export.export(net, (x,), strict=True), path)
    return net


def assert_close(got, want):
    """Torch's sums are of floats: where one is next to a tie, an integer of the next layer differs by one."""
    assert (got - want).norm() <= 2e-3 * want.norm()
    assert ((got - want).abs() <= 2e-6 * want.abs().max()).double().mean() > 0.9


@pytest.mark.parametrize("options", [{"is_dynamic": True}, {}, {"is_dynamic": True, "reduce_range": True}], ids=str)
@pytest.mark.parametrize("shape", [(1, 96), (130, 96), (2, 9, 96)], ids=str)
def test_layers_multiply_integers(slipway, tmp_path, shape, options):
    x = torch.randn(shape)
    net = quantized(layers(), x, tmp_path / "m.pt2", **options)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    for scale in (1, 0.3):
        want = net(x * scale)
        for isa in PRESENT:
            assert_close(run(slipway, tmp_path, x * scale, isa)[0], want)
    _, text = run(slipway, tmp_path, x, None, "--profile")
    steps = [line.split() for line in text.split("by shapes")[0].splitlines()]
    assert sum(int(step[4]) for step in steps if step and re.search("integer_(linear|conv)", step[-1])) == 3
    assert "amax" not in text and ("quantize_rows" in text) == ("is_dynamic" in options)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_share_a_large_tensor(slipway, tmp_path, threads):
    x = torch.randn(400, 96)
    x[399, 95] = 40
    net = quantized(layers(), x, tmp_path / "m.pt2", is_dynamic=True)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    assert_close(run(slipway, tmp_path, x, None, "--threads", threads)[0], net(x))


def optimized(path, x):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path) + ".optimized"
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return torch.from_numpy(got), [n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node]


@pytest.mark.parametrize("opset", [18, 20, 23])
@pytest.mark.parametrize("reduce_range", [False, True])
@pytest.mark.parametrize("shape", [(130, 96), (2, 9, 96)], ids=str)
def test_onnx(slipway, tmp_path, shape, reduce_range, opset):
    x = torch.randn(shape)
    net = quantized(layers(), x, tmp_path / "m.pt2", is_dynamic=True, reduce_range=reduce_range)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--opset", opset)
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    products = [n for n in model.graph.node if n.op_type == "MatMulInteger"]
    kinds = {i.name: i.data_type for i in model.graph.initializer}
    # Of 7 bits they do not saturate anywhere as products of u8 and s8.
    weights = onnx.TensorProto.INT8 if reduce_range else onnx.TensorProto.UINT8
    assert [kinds[n.input[1]] for n in products] == [weights] * 3
    for scale in (1, 0.3, 1e-3):  # the last one below eps
        want = net(x * scale)
        got, nodes = optimized(tmp_path / "m.onnx", x * scale)
        assert nodes.count("MatMulIntegerToFloat") == 3 and "Gemm" not in nodes
        # The quotient in place of the product with the reciprocal: few integers differ by one.
        assert (got - want).norm() <= 2e-3 * want.norm()
        assert ((got - want).abs() <= 1e-5 * want.abs().max()).double().mean() > 0.5


def test_onnx_forms_round_in_their_own_way(slipway, tmp_path):
    x = torch.randn(4, 96)
    net = quantized(layers(), x, tmp_path / "m.pt2", is_dynamic=True)
    for form in ("portable", "ort"):
        slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--onnx-form", form)
        got, nodes = optimized(tmp_path / "m.onnx", x)
        assert nodes.count("DynamicQuantizeMatMul") == 3
        assert (got - net(x)).norm() <= 0.02 * net(x).norm()


def test_equal_scales_of_all_columns(slipway, tmp_path):
    """Weights below eps, whose scales are all the same and folded into one number."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 8)).eval()
    with torch.no_grad():
        net[0].weight *= 1e-3
    x = torch.randn(5, 64)
    net = quantized(net, x, tmp_path / "m.pt2", is_dynamic=True)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    got, nodes = optimized(tmp_path / "m.onnx", x)
    assert nodes.count("MatMulIntegerToFloat") == 2
    assert (got - net(x)).norm() <= 1e-3 * net(x).norm()
