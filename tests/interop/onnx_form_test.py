"""`--onnx-form`: files of each form run in ONNX Runtime, close to the exact one, by the kernels that the form is
for."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from exported import export
from safetensors.torch import save_file
from torch import nn

CONFIGS = [
    "int8-weight-only",
    "int8-weight-only:per=tensor",
    "int8-weight-only:group=32",
    "int8-dynamic",
    "8da4w",
    "8da4w:mapping=asymmetric",
    "intx:bits=4",
    "intx:bits=4,group=32",
    "intx:bits=4,group=32,mapping=asymmetric",
    "intx:bits=8,group=64,mapping=asymmetric",
]


class Net(nn.Module):
    """No ReLU, which keeps ONNX Runtime from fusing; products with and without bias, one with an odd number of
    columns."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 192)
        self.down = nn.Linear(192, 64, bias=False)
        self.head = nn.Linear(64, 47)

    def forward(self, x):
        return self.head(x + self.down(torch.tanh(self.up(x))))


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("form") / "net.pt2"
    x = torch.randn(2, 5, 64)
    export(Net().eval(), (x,), path)
    return path, x.numpy()


def convert(slipway, pt2, out, config, *flags):
    slipway("quantize", pt2, "-o", out, "--config", config, *flags)
    onnx.checker.check_model(str(out), full_check=True)
    return out


def outputs(path, x, dump=None):
    options = onnxruntime.SessionOptions()
    if dump:
        options.optimized_model_filepath = str(dump)
        options.add_session_config_entry("session.disable_prepacking", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.astype(np.float32)})[0]


def operators(path):
    return [n.op_type for n in onnx.load(str(path)).graph.node]


def error(got, want):
    return np.linalg.norm(got - want) / np.linalg.norm(want)


@pytest.mark.parametrize("opset", [20, 21])
@pytest.mark.parametrize("form", ["portable", "ort"])
@pytest.mark.parametrize("config", CONFIGS)
def test_form(slipway, tmp_path, case, config, form, opset):
    pt2, x = case
    flags = ("--opset", str(opset))
    exact = outputs(convert(slipway, pt2, tmp_path / "exact.onnx", config, *flags), x)
    path = convert(slipway, pt2, tmp_path / "form.onnx", config, "--onnx-form", form, *flags)
    assert error(outputs(path, x, tmp_path / "optimized.onnx"), exact) < 5e-2
    written, run = operators(path), operators(tmp_path / "optimized.onnx")
    domains = {o.domain for o in onnx.load(str(path)).opset_import}
    assert domains == ({"", "com.microsoft"} if form == "ort" and config != "int8-dynamic" else {""})
    if config == "int8-dynamic":
        assert written.count("DynamicQuantizeLinear") == written.count("MatMulInteger") == 3
        assert run.count("DynamicQuantizeMatMul") == 3, run
    elif form == "ort":
        assert written.count("MatMulNBits") == run.count("MatMulNBits") == 3
    elif opset == 20 and ("group" in config or config.startswith("8da4w")):  # blocks, which opset 21 has first
        assert written.count("Gemm") + written.count("MatMul") == written.count("DequantizeLinear") == 3
        return
    else:
        assert written.count("MatMul") == written.count("DequantizeLinear") == 3 and "Transpose" not in written
        assert run.count("MatMulNBits") == 3, run
    sizes = {n: (tmp_path / f"{n}.onnx").stat().st_size for n in ("exact", "form")}
    assert sizes["form"] < 1.2 * sizes["exact"]  # nothing became floats


@pytest.mark.parametrize("form", ["portable", "ort"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("config", ["int8-weight-only", "int8-dynamic", "8da4w", "intx:bits=4,group=32"])
def test_other_types(slipway, tmp_path, config, dtype, form):
    torch.manual_seed(4)
    x = torch.randn(7, 64).to(dtype)
    module = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 16)).to(dtype)
    export(module, (x,), tmp_path / "m.pt2")
    got = []
    for name in ("exact", form):
        path = convert(slipway, tmp_path / "m.pt2", tmp_path / f"{name}.onnx", config, "--onnx-form", name)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        kind = onnx.TensorProto.BFLOAT16 if dtype == torch.bfloat16 else onnx.TensorProto.FLOAT16
        value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            x.view(torch.int16).numpy().view(np.uint16), kind
        )
        y = session.run_with_ort_values(None, {session.get_inputs()[0].name: value})[0]
        binding = torch.utils.dlpack.from_dlpack(y._ortvalue.to_dlpack())
        got.append(binding.float().numpy())
    assert error(got[1], got[0]) < 5e-2


@pytest.mark.parametrize(
    "config", ["int8-weight-only", "intx:bits=4,mapping=asymmetric", "intx:bits=4,group=16,mapping=asymmetric"]
)
def test_blocks_of_16(slipway, tmp_path, config):
    """Three blocks a row: zero points of 4 bits fill up a byte at its end."""
    torch.manual_seed(5)
    x = torch.randn(9, 48)
    export(nn.Sequential(nn.Linear(48, 7)), (x,), tmp_path / "m.pt2")
    exact = outputs(convert(slipway, tmp_path / "m.pt2", tmp_path / "exact.onnx", config), x.numpy())
    ort = convert(slipway, tmp_path / "m.pt2", tmp_path / "ort.onnx", config, "--onnx-form", "ort")
    assert error(outputs(ort, x.numpy()), exact) < 2e-2
    (node,) = [n for n in onnx.load(str(ort)).graph.node if n.op_type == "MatMulNBits"]
    assert {a.name: a.i for a in node.attribute} == {
        "K": 48, "N": 7, "bits": 8 if config == "int8-weight-only" else 4, "block_size": 16, "accuracy_level": 4
    }  # fmt: skip


def test_static_activations_stay_exact(slipway, tmp_path, case):
    """Their exact form is a product of integers already."""
    pt2, x = case
    save_file({"input.0": torch.tensor(x)}, tmp_path / "c.safetensors")
    files = [
        convert(
            slipway,
            pt2,
            tmp_path / f"{form}.onnx",
            "int8-static",
            "--calibration",
            tmp_path / "c.safetensors",
            "--onnx-form",
            form,
        )
        for form in ("exact", "portable", "ort")
    ]
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()


def test_small_groups_stay_exact(slipway, tmp_path, case):
    """MatMulNBits has no blocks below 16."""
    pt2, x = case
    exact = convert(slipway, pt2, tmp_path / "exact.onnx", "int8-weight-only:group=8")
    ort = convert(slipway, pt2, tmp_path / "ort.onnx", "int8-weight-only:group=8", "--onnx-form", "ort")
    assert exact.read_bytes() == ort.read_bytes()


@pytest.mark.parametrize("config", CONFIGS)
def test_exact_is_the_default(slipway, tmp_path, case, config):
    pt2, _ = case
    plain = convert(slipway, pt2, tmp_path / "plain.onnx", config)
    exact = convert(slipway, pt2, tmp_path / "exact.onnx", config, "--onnx-form", "exact")
    assert plain.read_bytes() == exact.read_bytes()


def test_float_models_are_the_same_in_all_forms(slipway, tmp_path, case):
    pt2, _ = case
    files = []
    for form in ("exact", "portable", "ort"):
        slipway("convert", pt2, "-o", tmp_path / f"{form}.onnx", "--onnx-form", form)
        files.append((tmp_path / f"{form}.onnx").read_bytes())
    assert files[0] == files[1] == files[2]
