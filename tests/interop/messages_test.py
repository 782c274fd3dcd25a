"""What people run into in their first minutes: inputs beside outputs, weights under a prefix, two ONNX models, other
Pythons."""

import pytest
import torch
from diagnostics import cause
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))

    def forward(self, x, y):
        return self.body(x) + y


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("net") / "net.pt2"
    torch.manual_seed(0)
    net = Net().eval()
    batch = torch.export.Dim("batch", min=2)
    torch.export.save(
        torch.export.export(net, (torch.randn(2, 3), torch.randn(2, 4)), dynamic_shapes=({0: batch}, {0: batch})), path
    )
    return net, path


def test_two_onnx_models(slipway, program, tmp_path):
    _, path = program
    slipway("convert", path, "-o", tmp_path / "a.onnx")
    for flags in ([], ["--seed", "3"], ["--sweep", "3"]):
        done = slipway("verify", tmp_path / "a.onnx", tmp_path / "a.onnx", *flags)
        assert "seed" in done.stdout
    slipway("convert", path, "-o", tmp_path / "b.onnx", "--metadata", "x=y")
    slipway("verify", tmp_path / "a.onnx", tmp_path / "b.onnx")


def test_inputs_beside_others(slipway, program, tmp_path):
    net, path = program
    x, y = torch.randn(2, 3), torch.randn(2, 4)
    slipway("convert", path, "-o", tmp_path / "net.onnx")
    slipway("convert", path, "-o", tmp_path / "net.so")
    beside = {
        "input2.0": torch.randn(5, 3),
        "input2.1": torch.randn(5, 4),
        "output.0": torch.zeros(2, 4),
        "sample1.input.0": torch.zeros(1),
    }
    with torch.no_grad():
        want = net(x, y)
    for model in (path, tmp_path / "net.onnx", tmp_path / "net.so"):
        for named in ({"input.0": x, "input.1": y}, {"x": x, "y": y}):
            save_file(named | beside, tmp_path / "in.safetensors")
            slipway("run", model, "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors")
            assert torch.allclose(load_file(tmp_path / "out.safetensors")["output.0"], want, atol=1e-5)
        for held, says in (
            ({"input.0": x, "input.1": y, "z": x}, "'z' is no input: the model takes x, y, or input.0 to input.1"),
            ({"input.0": x, "input.1": y, "input.2": y.clone(), "output.0": x.clone()}, "'input.2' is no input"),
            ({"input.0": x, "output.0": y}, "there is no tensor 'input.1'"),
        ):
            save_file({name: t.clone() for name, t in held.items()}, tmp_path / "in.safetensors")
            done = slipway(
                "run",
                model,
                "--inputs",
                tmp_path / "in.safetensors",
                "--outputs",
                tmp_path / "no.safetensors",
                status=3,
            )
            assert says in cause(done.stderr)


@pytest.mark.parametrize(
    "given,program_has,rename,note",
    [
        ("model.", "", r"^model\.=>", "'model.NAME' there is 'NAME' of the program"),
        ("module._orig_mod.", "", r"^module\._orig_mod\.=>", "'module.NAME' there is 'NAME' of the program, wrappers"),
        ("", "body.", "^=>body.", "'NAME' there is 'body.NAME' of the program"),
        ("net.", "body.", r"^net\.=>body.", "'net.NAME' there is 'body.NAME' of the program"),
    ],
)
def test_weights_under_a_prefix(slipway, program, tmp_path, given, program_has, rename, note):
    net, path = program
    save_file(
        {given + k.removeprefix(program_has): v + 1 for k, v in net.state_dict().items()}, tmp_path / "w.safetensors"
    )
    flags = ("convert", path, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "o.pt2")
    for renamed in ((), ("--rename", rename)):
        assert (note in slipway(*flags, *renamed).stderr) == (not renamed)
        got = torch.export.load(tmp_path / "o.pt2").state_dict
        assert got.keys() == net.state_dict().keys() and all(
            torch.equal(got[k], v + 1) for k, v in net.state_dict().items()
        )


def test_a_part_under_a_prefix(slipway, program, tmp_path):
    net, path = program
    state = {("other." if "0." in k else "") + k: v + 1 for k, v in net.state_dict().items()}
    save_file(state, tmp_path / "w.safetensors")
    flags = ("convert", path, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "o.pt2")
    refused = slipway(*flags, status=3)
    assert r"help: --rename '^other\.=>'" in refused.stderr and "SW1010" in cause(refused.stderr)
    slipway(*flags, "--rename", r"^other\.=>")


def test_weights_that_differ_otherwise_are_listed(slipway, program, tmp_path):
    net, path = program
    held = {f"model.{k}": v.clone() for k, v in net.state_dict().items()}
    del held["model.body.0.bias"]
    save_file(held, tmp_path / "w.safetensors")
    refused = slipway("convert", path, "--weights", tmp_path / "w.safetensors", "-o", tmp_path / "o.pt2", status=3)
    assert "names of the program are missing" in refused.stderr and "--rename" not in refused.stderr
    assert (
        "--rename goes with --weights"
        in slipway("convert", path, "-o", tmp_path / "o.onnx", "--rename", "a=>b", status=2).stderr
    )


def test_advice_of_minify(slipway, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))
    torch.export.save(torch.export.export(model.train(), (torch.randn(2, 3),)), tmp_path / "train.pt2")
    done = slipway("minify", tmp_path / "train.pt2", "-o", tmp_path / "out", "--check", "convert:onnx")
    said = done.stdout + done.stderr + (tmp_path / "out" / "report.md").read_text()
    assert "eval#" not in said
