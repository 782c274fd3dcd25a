"""Static exports made dynamic: what torch computes at sizes that the export never saw, by every target; and numbers that may be sizes,
which must never be guessed."""

import json

import onnxruntime
import pytest
import torch
from json_schema import conform
from safetensors.torch import load_file, save_file
from sized_models import MODELS, export
from torch import nn
from torch.nn import functional as F

AUTO = torch.export.Dim.AUTO


def leaves(result):
    return [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def run_onnx(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs)}
    return [torch.from_numpy(x) if hasattr(x, "shape") and x.shape else torch.tensor(x) for x in session.run(None, feed)]


def run_native(slipway, path, inputs, tmp_path):
    save_file({f"input.{i}": x.contiguous() for i, x in enumerate(inputs)}, str(tmp_path / "in.safetensors"))
    slipway("run", path, "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors")
    made = load_file(str(tmp_path / "out.safetensors"))
    return [made[f"output.{i}"] for i in range(len(made))]


def same(got, wanted, tolerance=1e-4):
    assert [tuple(x.shape) for x in got] == [tuple(x.shape) for x in wanted]
    for x, y in zip(got, wanted):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance, check_dtype=False)


def ledger(slipway, *arguments, status=0):
    report = json.loads(slipway("shapes", *arguments, "--json", status=status).stdout)
    conform(report, "shapes")
    return {f"{d['input']}.{d['axis']}": d for d in report["programs"][0]["dims"]}


def save(module, inputs, path, **more):
    torch.export.save(torch.export.export(module.eval(), inputs, **more), str(path))
    return path


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", ["one", "two"])
def test_models(name, way, slipway, tmp_path):
    _, inputs, sizes = MODELS[name]
    module = export(name, tmp_path / "a.pt2", sizes[0])
    flags = ["--dynamic", "auto"]
    if way == "two":
        export(name, tmp_path / "b.pt2", sizes[1])
        flags = ["--unify", tmp_path / "b.pt2"]
    with torch.no_grad():
        for target in "m.onnx", "m.so", "m.pt2":
            slipway("convert", tmp_path / "a.pt2", *flags, "-o", tmp_path / target)
        for at in (sizes[0], sizes[2]):
            arguments = inputs(*at)
            wanted = leaves(module(*arguments))
            same(run_onnx(tmp_path / "m.onnx", arguments), wanted)
            same(run_native(slipway, tmp_path / "m.so", arguments, tmp_path), wanted)
            same(leaves(torch.export.load(str(tmp_path / "m.pt2")).module()(*arguments)), wanted)


class Fn(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *inputs):
        return self.fn(*inputs)


# Each computes with a size in a way that its static export hides: (function, inputs at one size, at another).
HIDDEN = {
    "mean by division": (lambda x: x.sum(1) / x.shape[1], [(3, 7)], [(3, 9)]),
    "batch mean": (lambda x: F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"), [(5, 7)], [(6, 7)]),
    "positions over length": (lambda x: x * (torch.arange(x.shape[1]) / x.shape[1]), [(3, 7)], [(3, 9)]),
    "flat index": (lambda x: x.reshape(-1)[torch.arange(x.shape[0]) * x.shape[1]], [(3, 7)], [(4, 9)]),
    "zeros": (lambda x: torch.zeros(x.shape[0], 3), [(5, 7)], [(6, 7)]),
    "last by place": (lambda x: x[:, x.shape[1] - 1], [(3, 7)], [(3, 9)]),
    "half": (lambda x: x[:, : x.shape[1] // 2], [(3, 8)], [(3, 12)]),
    "unrolled": (lambda x: torch.stack([x[:, i] * i for i in range(x.shape[1])], 1), [(3, 7)], [(3, 9)]),
    "root of the length": (lambda x: (x @ x.transpose(0, 1)).sum(1) / x.shape[0] ** 0.5, [(5, 4)], [(7, 4)]),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_sizes(name, slipway, tmp_path):
    """Right at other sizes, or static with a reason; never a wrong number."""
    fn, first, second = HIDDEN[name]
    path = save(Fn(fn), tuple(torch.rand(s) for s in first), tmp_path / "m.pt2")
    slipway("convert", path, "--dynamic", "auto", "-o", tmp_path / "m.onnx")
    inputs = [torch.rand(s) for s in second]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    static = [i.name for i, x in zip(session.get_inputs(), inputs) for a, b in zip(i.shape, x.shape) if isinstance(a, int) and a != b]
    if static:
        dims = ledger(slipway, path, "--dynamic", "auto")
        assert all(d["cause"] for d in dims.values() if d["kind"] == "static")
    else:
        same(run_onnx(tmp_path / "m.onnx", inputs), leaves(fn(*inputs)))
    inputs = [torch.rand(s) for s in first]
    same(run_onnx(tmp_path / "m.onnx", inputs), leaves(fn(*inputs)))


@pytest.mark.parametrize("name", ["positions over length", "zeros", "last by place", "half", "batch mean", "mean by division"])
def test_hidden_sizes_unified(name, slipway, tmp_path):
    """Two exports tell what one does not."""
    fn, first, second = HIDDEN[name]
    third = [tuple(b + (b - a) for a, b in zip(x, y)) for x, y in zip(first, second)]
    a = save(Fn(fn), tuple(torch.rand(s) for s in first), tmp_path / "a.pt2")
    b = save(Fn(fn), tuple(torch.rand(s) for s in second), tmp_path / "b.pt2")
    slipway("convert", a, "--unify", b, "-o", tmp_path / "m.onnx")
    inputs = [torch.rand(s) for s in third]
    same(run_onnx(tmp_path / "m.onnx", inputs), leaves(fn(*inputs)))


def test_branch_on_size_is_not_unified(slipway, tmp_path):
    fn = Fn(lambda x: x.sin() if x.shape[0] > 4 else x.cos())
    a = save(fn, (torch.rand(3, 2),), tmp_path / "a.pt2")
    b = save(fn, (torch.rand(7, 2),), tmp_path / "b.pt2")
    done = slipway("shapes", a, "--unify", b, status=4)
    assert "aten.cos.default" in done.stderr and "is aten.sin.default" in done.stderr


def test_reasons(slipway, tmp_path):
    module = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    dims = ledger(slipway, save(module, (torch.rand(3, 6),), tmp_path / "m.pt2"), "--dynamic", "auto")
    assert dims["input.0"]["kind"] == "dynamic" and dims["input.0"]["size"] == "batch"
    assert dims["input.1"]["kind"] == "static" and "aten.linear.default" in dims["input.1"]["cause"]
    # An export with symbols: its own sizes, the nodes' reasons.
    fn = Fn(lambda x, y: x + y)
    path = save(fn, (torch.rand(3, 5), torch.rand(3, 5)), tmp_path / "s.pt2", dynamic_shapes={"inputs": ({0: AUTO}, {0: AUTO})})
    dims = ledger(slipway, path)
    kinds = {k: d["kind"] for k, d in dims.items()}
    assert list(kinds.values()) == ["dynamic", "static", "related", "static"], kinds
    names = list(dims)
    assert "aten.add.Tensor" in dims[names[2]]["cause"]
    assert "no node needs" in dims[names[1]]["cause"]


def test_spec(slipway, tmp_path):
    fn = Fn(lambda x, y: torch.cat([x, y], 1))
    path = save(fn, (torch.rand(4, 6), torch.rand(4, 5)), tmp_path / "m.pt2")
    x, y = [k.rsplit(".", 1)[0] for k in list(ledger(slipway, path))[::2]]
    dims = ledger(slipway, path, "--dynamic", f"{x}:[B,L=2..64]")
    assert dims[f"{x}.0"]["size"] == dims[f"{y}.0"]["size"] == "B"  # it follows
    assert dims[f"{x}.1"]["size"] == "L" and dims[f"{x}.1"]["range"] == [2, 64]
    assert dims[f"{y}.1"]["kind"] == "static"
    dims = ledger(slipway, path, "--dynamic", "auto,batch=4")
    assert dims[f"{x}.0"]["size"] == "4" and dims[f"{x}.1"]["kind"] == "dynamic"
    for spec, said in {
        "z:[B,_]": "has no input 'z'",
        f"{x}:[B]": "1 dimensions",
        f"{x}:[B=8..64,_]": "exported with",
        f"{x}:[B,L],{y}:[B,L]": "not the same|in the example",
        f"{x}:[B,-3]": "is no name, number or range|not negative",
        "auto,nothing=3": "no dimension 'nothing'",
        f"{x}:[B=0..2..3,_]": "is no name, number or range",
    }.items():
        done = slipway("shapes", path, "--dynamic", spec, status=2)
        assert any(part in done.stderr for part in said.split("|")), (spec, done.stderr)
    done = slipway("convert", path, "--dynamic", "auto", "--require-dynamic", f"{x}:0", "-o", tmp_path / "m.onnx")
    linear = save(nn.Linear(6, 4), (torch.rand(3, 6),), tmp_path / "l.pt2")
    done = slipway("convert", linear, "--dynamic", "auto", "--require-dynamic", "input:1", "-o", tmp_path / "l.onnx", status=4)
    assert "aten.linear.default" in done.stderr
    assert not (tmp_path / "l.onnx").exists()


def test_names_reach_onnx(slipway, tmp_path):
    import onnx

    path = save(nn.Linear(6, 4), (torch.rand(3, 6),), tmp_path / "m.pt2", dynamic_shapes=({0: AUTO},))
    symbol = ledger(slipway, path)["input.0"]["size"]
    slipway("convert", path, "--dim-names", f"{symbol}=rows", "-o", tmp_path / "m.onnx")
    graph = onnx.load(str(tmp_path / "m.onnx")).graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "rows"


def test_deterministic(slipway, tmp_path):
    export("transformer", tmp_path / "a.pt2", MODELS["transformer"][2][0])
    for name in "1.onnx", "2.onnx":
        slipway("convert", tmp_path / "a.pt2", "--dynamic", "auto", "-o", tmp_path / name)
    assert (tmp_path / "1.onnx").read_bytes() == (tmp_path / "2.onnx").read_bytes()
