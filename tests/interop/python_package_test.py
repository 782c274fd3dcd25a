"""The package of the wheel (packaging/python) over this build's program: conversions, errors, models by numpy and
torch."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch


@pytest.fixture(scope="module")
def slipway(package):
    return package


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 4)

    def forward(self, x, y):
        return self.fc(x).relu(), y.sum(-1)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    torch.manual_seed(0)
    net = Net()
    batch = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(net, (torch.randn(2, 8), torch.randn(2, 3)), dynamic_shapes=({0: batch}, {0: batch}))
    path = tmp_path_factory.mktemp("program") / "net.pt2"
    torch.export.save(exported, path)
    return path, net


def test_convert_and_run(slipway, program, tmp_path):
    path, net = program
    result = slipway.convert(path, tmp_path / "m.onnx", opset=18, metadata={"who": "us"}, verify_each=True)
    assert result.output.exists() and result.report["bytes_written"] > 0 and result.report["dims"]
    slipway.convert(path, tmp_path / "m.so")
    with slipway.load(tmp_path / "m.so", threads=1) as model:
        assert (
            [v.name for v in model.inputs] == ["x", "y"]
            and model.inputs[0].dtype == "float32"
            and model.inputs[0].dims[1] == "8"
        )
        x, y = torch.randn(8, 5).T, torch.randn(5, 3)
        wanted = [t.detach().numpy() for t in net(x, y)]
        for given in ((x, y), (x.numpy(), y.numpy()), (x.numpy().tolist(), y)):
            got = model(*given)
            assert all(isinstance(g, np.ndarray) for g in got)
            np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(got[1], wanted[1], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(model(y=y, x=x)[1], got[1])
        assert torch.from_dlpack(got[0]).shape == (5, 4)
        kept = model(x, y)
    np.testing.assert_array_equal(kept[0], got[0])  # results outlive the model


def test_errors(slipway, program, tmp_path):
    path, _ = program
    with pytest.raises(slipway.SlipwayError) as e:
        slipway.convert(path, tmp_path / "m.onnx", opset=17)
    assert e.value.code == 4 and not (tmp_path / "m.onnx").exists()
    (tmp_path / "odd.pt2").write_bytes(b"PK no archive")
    with pytest.raises(slipway.SlipwayError) as e:
        slipway.convert(tmp_path / "odd.pt2", tmp_path / "m.onnx")
    assert e.value.code == 3 and e.value.diagnostics[-1].id == "SW1001" and "SW1001" in str(e.value)
    with pytest.raises(slipway.ModelError):
        slipway.load(path)
    slipway.convert(path, tmp_path / "m.so")
    model = slipway.load(tmp_path / "m.so")
    with pytest.raises(slipway.ModelError) as e:
        model(np.zeros((2, 7), np.float32), np.zeros((2, 3), np.float32))
    assert e.value.code == 3
    with pytest.raises(TypeError, match="x, y"):
        model(np.zeros((2, 8), np.float32), z=1)


def test_other_types(slipway, tmp_path):
    class Half(torch.nn.Module):
        def forward(self, x, flag, n):
            return x * 2, flag.logical_not(), n + 1

    x = torch.randn(3).bfloat16()
    torch.export.save(
        torch.export.export(Half(), (x, torch.tensor([True, False]), torch.arange(3))), tmp_path / "h.pt2"
    )
    slipway.convert(tmp_path / "h.pt2", tmp_path / "h.so")
    model = slipway.load(tmp_path / "h.so")
    double, flags, numbers = model(x, torch.tensor([True, False]), np.arange(3))
    assert double.dtype.name == "bfloat16" and (double.astype(np.float32) == (x * 2).float().numpy()).all()
    assert flags.tolist() == [False, True] and numbers.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(model(double, flags, numbers)[0], double * 2)


def test_quantize_and_inspect(slipway, program, tmp_path):
    path, _ = program
    result = slipway.quantize(path, tmp_path / "q.pt2", "int8-weight-only")
    assert result.output.exists() and result.report
    assert slipway.inspect(tmp_path / "q.pt2")["programs"]


def test_command(slipway):
    done = subprocess.run(
        [sys.executable, "-c", "from slipway._program import main; main()", "--version"],
        env=os.environ | {"PYTHONPATH": str(slipway.program().parent.parent.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.startswith("slipway ")


class Counter(torch.nn.Module):
    """A state that grows."""

    def forward(self, x, past):
        new = torch.cat([past, x], 1)
        return new.sum(1), new


def test_state(slipway, tmp_path):
    past = torch.export.Dim("past", max=50)
    exported = torch.export.export(
        Counter(), (torch.randn(2, 1), torch.randn(2, 3)), dynamic_shapes=(None, {1: past}), strict=False
    )
    torch.export.save(exported, tmp_path / "m.pt2")
    slipway.convert(tmp_path / "m.pt2", tmp_path / "m.so", state="auto")
    with slipway.load(tmp_path / "m.so") as model:
        assert [v.name for v in model.states] == ["past"] and len(model.inputs) == 1
        x = np.ones((2, 1), np.float32)
        assert [float(model(x)[0][0]) for _ in range(3)] == [1, 2, 3] and model.state_length() == 3
        model.truncate_state(1)
        assert float(model(x)[0][0]) == 2
        model.set_state(np.full((2, 4), 5, np.float32))
        assert model.state_length() == 4 and float(model(x)[0][0]) == 21
        np.testing.assert_array_equal(model.get_state(0), [[5, 5, 5, 5, 1]] * 2)
        model.reset_state()
        assert model.state_length() == 0 and float(model(x)[0][0]) == 1
        with pytest.raises(slipway.ModelError):
            model.truncate_state(7)
        with pytest.raises(IndexError):
            model.get_state(1)
