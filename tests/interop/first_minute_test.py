"""What users reach for at once: inputs by their names, checkpoints written by their suffix, tied weights, a diff across
types, the summary as JSON, and a help that says the next step."""

import json
import sys

import pytest
import torch
from json_schema import conform
from safetensors.torch import load_file, save_file


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 4)
        self.head = torch.nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids, scale):
        return self.head(self.embed(ids) * scale)


@pytest.fixture
def program(tmp_path):
    net = Net()
    torch.export.save(torch.export.export(net, (torch.tensor([1, 2]), torch.ones(1))), tmp_path / "net.pt2")
    return net, tmp_path / "net.pt2"


@pytest.mark.parametrize("suffix", ["pt2", "so", "onnx"])
def test_inputs_by_name(slipway, program, tmp_path, suffix):
    net, path = program
    model = tmp_path / f"net.{suffix}"
    if suffix != "pt2":
        slipway("convert", path, "-o", model)
    ids, scale = torch.tensor([3, 4]), torch.tensor([0.5])
    save_file({"scale": scale, "ids": ids}, tmp_path / "named.safetensors")
    slipway(
        "run",
        model,
        "--inputs",
        tmp_path / "named.safetensors",
        "--outputs",
        tmp_path / "out.safetensors",
        "--python",
        sys.executable,
    )
    torch.testing.assert_close(load_file(tmp_path / "out.safetensors")["output.0"], net(ids, scale).detach())
    save_file({"scales": scale, "ids": ids}, tmp_path / "odd.safetensors")
    done = slipway(
        "run", model, "--inputs", tmp_path / "odd.safetensors", "--outputs", tmp_path / "x.safetensors", status=3
    )
    assert (
        "'scales' is no input: the model takes ids, scale" in done.stderr
        and "odd.safetensors" in done.stderr
        and "help:" in done.stderr
    )


@pytest.mark.parametrize("suffix", ["pt", "bin", "pth"])
def test_checkpoints_by_suffix(slipway, tmp_path, suffix):
    base = torch.randn(6, 4)
    tensors = {
        "a": base, "tied": base, "t": base.t(), "part": base[2:4], "half": torch.randn(3).bfloat16(),
        "i": torch.arange(5),
        "flag": torch.tensor([True, False]), "none": torch.empty(0, 3), "u16": torch.arange(4).to(torch.uint16),
        "f8": torch.randn(4).to(torch.float8_e4m3fn), "c": torch.randn(2, dtype=torch.complex64),
    }  # fmt: skip
    torch.save(tensors, tmp_path / "in.bin")
    slipway("convert", tmp_path / "in.bin", "-o", tmp_path / f"out.{suffix}")
    back = torch.load(tmp_path / f"out.{suffix}", weights_only=True)
    assert set(back) == set(tensors)
    for name, t in tensors.items():
        assert back[name].dtype == t.dtype and back[name].shape == t.shape
        assert torch.equal(
            back[name].view(torch.uint8) if name == "f8" else back[name], t.view(torch.uint8) if name == "f8" else t
        ), name
    assert back["tied"].data_ptr() == back["a"].data_ptr()
    slipway("diff", tmp_path / "in.bin", tmp_path / f"out.{suffix}")
    slipway("convert", tmp_path / "in.bin", "-o", tmp_path / "n.pt", "--include", "^(a|i)$", "--rename", "^a$=>b")
    assert list(torch.load(tmp_path / "n.pt", weights_only=True)) == ["b", "i"]
    done = slipway("convert", tmp_path / "in.bin", "-o", tmp_path / "q.pt", "--quantize", "int8-weight-only", status=2)
    assert "--to torch does not take --quantize" in done.stderr and not (tmp_path / "q.pt").exists()


def test_tied_weights(slipway, program, tmp_path):
    net, path = program
    torch.save(net.state_dict(), tmp_path / "net.bin")
    slipway("convert", tmp_path / "net.bin", "-o", tmp_path / "both.safetensors")
    assert set(load_file(tmp_path / "both.safetensors")) == {"embed.weight", "head.weight"}
    done = slipway("convert", tmp_path / "net.bin", "-o", tmp_path / "one.safetensors", "--tied", "drop")
    assert "'head.weight' is left out: it is 'embed.weight'" in done.stderr
    assert torch.equal(load_file(tmp_path / "one.safetensors")["embed.weight"], net.embed.weight)
    base = torch.randn(4, 4)
    torch.save({"a": base, "b": base.t(), "c": base[:2]}, tmp_path / "views.bin")  # which share memory, and are others
    slipway("convert", tmp_path / "views.bin", "-o", tmp_path / "views.safetensors", "--tied", "drop")
    assert set(load_file(tmp_path / "views.safetensors")) == {"a", "b", "c"}


def test_diff_across_types(slipway, tmp_path):
    a = torch.randn(1000)
    save_file({"w": a, "n": torch.arange(3)}, tmp_path / "a.safetensors")
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.float64, "f32")):
        save_file({"w": a.to(dtype), "n": torch.arange(3)}, tmp_path / "b.safetensors")
        files = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
        slipway("diff", *files, "--by-value")
        done = slipway("diff", *files, status=1)
        assert f"; as {name} 0 of 1000 differ" in done.stdout
        report = json.loads(slipway("diff", *files, "--json", status=1).stdout)
        conform(report, "diff")
        assert report["differences"][0]["compared_as"] == name and report["differences"][0]["unequal"] == 0
    other = a.bfloat16()
    other[7] += 1
    save_file({"w": other, "n": torch.arange(3)}, tmp_path / "b.safetensors")
    assert "as bf16 1 of 1000 differ" in slipway("diff", *files, "--by-value", status=1).stdout
    save_file({"w": a.bfloat16(), "n": torch.arange(3)}, tmp_path / "a.safetensors")
    save_file({"w": a.bfloat16().half(), "n": torch.arange(3)}, tmp_path / "b.safetensors")
    differ = int((a.bfloat16().half().float() != a.bfloat16().float()).sum())
    done = slipway("diff", *files, "--by-value", status=1 if differ else 0)  # bf16's smallest are no f16


def test_summary_as_json(slipway, program, tmp_path):
    _, path = program
    for flags in ((), ("--diagnostics", "json"), ("-q",)):
        done = slipway("convert", path, "-o", tmp_path / "m.onnx", "--json", *flags)
        report = json.loads(done.stdout)
        conform(report, "convert")
        assert report["nodes"] > 0 and report["bytes_written"] == (tmp_path / "m.onnx").stat().st_size
    report = json.loads(slipway("convert", path, "-o", tmp_path / "w.safetensors", "--json").stdout)
    conform(report, "convert")
    assert report["tensors"] > 0
    assert slipway("convert", path, "-o", tmp_path / "m.onnx", "--json", "--opset", "3", status=4).stdout == ""


def test_next_steps(slipway, program, tmp_path):
    save_file({"w": torch.ones(2)}, tmp_path / "w.safetensors")
    done = slipway("convert", tmp_path / "w.safetensors", "-o", tmp_path / "m.onnx", status=4)
    assert "help: torch.export.save" in done.stderr
    (tmp_path / "text.pt2").write_text("no model")
    done = slipway("convert", tmp_path / "text.pt2", "-o", tmp_path / "m.onnx", status=3)
    assert "text.pt2" in done.stderr
