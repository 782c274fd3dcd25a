"""The program's commands as Python functions: generated from the table of flags, with reports and errors."""

import inspect
import shutil
import subprocess
import sys

import pytest
import torch
from conftest import ROOT
from json_schema import conform
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def models(package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    torch.export.save(torch.export.export(module, (torch.randn(2, 8),)), folder / "m.pt2")
    package.convert(folder / "m.pt2", folder / "m.onnx")
    with torch.no_grad():
        module[0].weight.add_(0.01)
    torch.export.save(torch.export.export(module, (torch.randn(2, 8),)), folder / "n.pt2")
    return folder


def test_generated(package, tmp_path):
    """The files are those that the table of flags gives."""
    script = ROOT / "scripts" / "gen_python_commands.py"
    subprocess.run([sys.executable, script, package.program(), tmp_path], check=True)
    for name in ("_commands.py", "_flags.py"):
        kept = (ROOT / "packaging" / "python" / "slipway" / name).read_text()
        assert kept == (tmp_path / name).read_text(), f"{script.name} writes another {name}"


def test_verify(package, models):
    same = package.verify(models / "m.pt2", models / "m.onnx", seed=3)
    assert same and same.ok and same["version"] == 1 and conform(same.data, "verify") is None
    other = package.verify(models / "m.pt2", models / "n.pt2", rtol=1e-6)
    assert not other and conform(other.data, "verify") is None
    assert any(d.id == "SW6001" for d in other.diagnostics)
    with pytest.raises(package.SlipwayError) as e:
        package.verify(models / "m.pt2", models / "none.pt2")
    [d] = [d for d in e.value.diagnostics if d.severity == "error"]
    assert e.value.code == 5 and d.id == "SW3001" and "none.pt2" in d.place + d.cause


def test_diff(package, models):
    assert package.diff(models / "m.pt2", models / "m.pt2")
    report = package.diff(models / "m.pt2", models / "n.pt2")
    assert not report and conform(report.data, "diff") is None
    assert package.diff(models / "m.pt2", models / "n.pt2", tolerance=0.1)


def test_shapes_and_inspect(package, models, tmp_path):
    report = package.shapes(models / "m.pt2", dynamic="auto", output=tmp_path / "d.pt2")
    assert report and conform(report.data, "shapes") is None
    assert package.inspect(tmp_path / "d.pt2", ops=True)["programs"][0]["dims"]
    with pytest.raises(package.SlipwayError) as e:
        package.shapes(models / "m.pt2", require_dynamic="input:0")
    assert e.value.code == 4


def test_run(package, models, tmp_path):
    x = torch.randn(2, 8)
    save_file({"input.0": x}, tmp_path / "in.safetensors")
    report = package.run(models / "m.onnx", tmp_path / "in.safetensors", tmp_path / "out.safetensors", repeat=2)
    assert report.data and conform(report.data, "run") is None
    wanted = torch.export.load(models / "m.pt2").module()(x)
    torch.testing.assert_close(load_file(tmp_path / "out.safetensors")["output.0"], wanted, rtol=1e-4, atol=1e-5)


def test_minify_quantize_unpack(package, models, tmp_path):
    with pytest.raises(package.SlipwayError) as e:
        package.minify(models / "m.pt2", tmp_path / "small", "run")
    assert e.value.code == 1 and e.value.diagnostics[-1].id == "SW6101"
    result = package.quantize(models / "m.pt2", tmp_path / "q.pt2", "int8-weight-only", include=["0"])
    assert result.output.exists() and conform(result.report, "quantize") is None
    shutil.copy(models / "m.pt2", tmp_path / "one.pt2")
    report = package.unpack(tmp_path / "one.pt2", tmp_path / "parts")
    assert report and conform(report.data, "unpack") is None
    assert (tmp_path / "parts" / "model.pt2").exists()


def test_signatures(package):
    """Typed keywords, documented one by one; what is none is refused by Python."""
    for name in ("diff", "doctor", "inspect", "minify", "quantize", "run", "shapes", "unpack", "verify"):
        function = getattr(package, name)
        for parameter in inspect.signature(function).parameters.values():
            assert parameter.annotation not in (inspect.Parameter.empty, "Any")
            assert f"\n    {parameter.name} " in function.__doc__, (name, parameter.name)
    with pytest.raises(TypeError):
        package.verify("a", "b", sede=3)
