"""Static exports made dynamic: what torch computes at sizes that the export never saw, by every target; and numbers
that may be sizes, which must never be guessed."""

import importlib.util
import json
import re

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
    return [
        torch.from_numpy(x) if hasattr(x, "shape") and x.shape else torch.tensor(x) for x in session.run(None, feed)
    ]


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


# The same for each role that a number has among an operator's arguments (schemas/op_numbers.txt), and for what a trace
# computes itself.
ROLES = {
    "fill: full_like": lambda x: x.sum(1) / torch.full_like(x[:, 0], x.shape[1]),
    "fill: scalar_tensor": lambda x: x.sum(1) / torch.scalar_tensor(x.shape[1]),
    "fill: new_full": lambda x: x * x.new_full((1,), x.shape[0]),
    "fill: masked_fill": lambda x: x.masked_fill(x > 0.5, x.shape[1]),
    "fill: half of a size": lambda x: x + torch.full((1,), x.shape[1] // 2),
    "fill: pad": lambda x: F.pad(x, (1, 1), value=x.shape[1]),
    "operand: add": lambda x: x + x.shape[0],
    "operand: negative": lambda x: x * (-x.shape[1]),
    "operand: exponent": lambda x: x ** x.shape[0],
    "operand: clamp": lambda x: (x * 20).clamp(max=x.shape[1]),
    "operand: root": lambda x: x * x.shape[1] ** -0.5,
    "operand: ratio": lambda x: x * (x.shape[0] / x.shape[1]),
    "operand: elements": lambda x: x.sum() / x.numel(),
    "operand: quantile": lambda x: torch.quantile(x, 1 / x.shape[1], dim=1),
    "count: triu_indices": lambda x: (x @ x.T)[tuple(torch.triu_indices(x.shape[0], x.shape[0], 1))],
    "count: linspace": lambda x: (x * 1.5, torch.linspace(0, 1, x.shape[1])),
    "count: window": lambda x: (x * 1.5, torch.hann_window(x.shape[1])),
    "count: vander": lambda x: torch.vander(x[0], x.shape[0]),
    "count: one_hot": lambda x: F.one_hot((x * 3).long(), x.shape[1]),
    "pad": lambda x: F.pad(x, (0, x.shape[1])),
    "pad: half": lambda x: F.pad(x, (x.shape[1] // 2, 0)),
    "pad: circular": lambda x: F.pad(x[None], (x.shape[1] - 1, 0), mode="circular"),
    "setting: roll": lambda x: x.roll(x.shape[0], 1),
    "setting: diagonal": lambda x: torch.tril(x, -(x.shape[0] // 2)),
    "setting: topk": lambda x: x.topk(x.shape[0], 1)[0],
    "bound: of a fixed size": lambda x: torch.cat([x.sum(1, keepdim=True)] * 13, 1)[:, : x.shape[0]],
    "bound: parts": lambda x: x.split([x.shape[1] - 3, 3], 1)[0],
    "size: of two": lambda x: torch.zeros(x.shape[0] + x.shape[1]),
    "size: multiple": lambda x: torch.zeros(x.shape[0] * 3),
    "size: step": lambda x: torch.arange(0, 1, 1 / x.shape[1]),
    "window": lambda x: F.avg_pool1d(x[None], x.shape[1]),
    "results": lambda x: torch.stack(x.unbind(0)).sum(0),
    "constant": lambda x: x * torch.tensor(x.shape[1]),
    "constant: cast": lambda x: x * torch.tensor(x.shape[1]).to(torch.float32).sqrt(),
    "constant: two sizes": lambda x: x[:, :2] * torch.tensor([x.shape[0], x.shape[1]]),
    "constant: as long as a size": lambda x: (x * 1.5, torch.tensor(list(range(x.shape[1])))),
}


def without_lines(fn):
    """A module whose nodes have no source lines."""
    scope = {"nn": nn, "fn": fn}
    exec("class Unlined(nn.Module):\n    def forward(self, x):\n        return fn(x)", scope)
    return scope["Unlined"]()


def right_or_static(fn, path, first, second, slipway, tmp_path):
    slipway("convert", path, "--dynamic", "auto", "-o", tmp_path / "m.onnx")
    inputs = [torch.rand(s) for s in second]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    static = [
        i.name
        for i, x in zip(session.get_inputs(), inputs)
        for a, b in zip(i.shape, x.shape)
        if isinstance(a, int) and a != b
    ]
    if static:
        dims = ledger(slipway, path, "--dynamic", "auto")
        assert all(d["cause"] for d in dims.values() if d["kind"] == "static")
    else:
        same(run_onnx(tmp_path / "m.onnx", inputs), leaves(fn(*inputs)))
    inputs = [torch.rand(s) for s in first]
    same(run_onnx(tmp_path / "m.onnx", inputs), leaves(fn(*inputs)))


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_sizes(name, slipway, tmp_path):
    """Right at other sizes, or static with a reason; never a wrong number."""
    fn, first, second = HIDDEN[name]
    path = save(Fn(fn), tuple(torch.rand(s) for s in first), tmp_path / "m.pt2")
    right_or_static(fn, path, first, second, slipway, tmp_path)


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("name", ROLES)
def test_roles_of_numbers(name, lines, slipway, tmp_path):
    fn = ROLES[name]
    path = save(Fn(fn) if lines else without_lines(fn), (torch.rand(6, 10),), tmp_path / "m.pt2")
    right_or_static(fn, path, [(6, 10)], [(4, 14)], slipway, tmp_path)


@pytest.mark.parametrize(
    "fn",
    [
        # equations between numbers only
        lambda x: torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(x.shape[1])),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),  # the root of the root of a size
    ],
    ids=["cartesian_prod", "attention"],
)
def test_numbers_of_decompositions(fn, slipway, tmp_path):
    module = without_lines(fn).eval()
    program = torch.export.export(module, (torch.rand(6, 10),)).run_decompositions()
    torch.export.save(program, str(tmp_path / "m.pt2"))
    right_or_static(fn, tmp_path / "m.pt2", [(6, 10)], [(4, 14)], slipway, tmp_path)


# Made of sizes that the code has under names of their own.
LOCAL = {
    "root": "x * columns ** -0.5",
    "ratio": "x * (rows / columns)",
    "diagonal": "torch.tril(x, columns - rows)",
    "window": "(x * 1.5, torch.hamming_window(columns // 2))",
    "range": "torch.arange(0, 1, 1 / columns)",
    "negative range": "(x * 1.5, torch.arange(1 - columns, columns))",
    "keyword": "F.scaled_dot_product_attention(x[None], x[None], x[None], scale=1 / columns)",
    "sum": "torch.zeros(rows + columns)",
}


@pytest.mark.parametrize("name", LOCAL)
def test_sizes_by_name(name, slipway, tmp_path):
    source = tmp_path / "local_model.py"
    source.write_text(
        "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n\nclass Local(nn.Module):\n"
        f"    def forward(self, x):\n        rows, columns = x.shape\n        return {LOCAL[name]}\n"
    )
    spec = importlib.util.spec_from_file_location(f"local_model_{tmp_path.name}", source)
    code = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(code)
    module = code.Local()
    path = save(module, (torch.rand(6, 10),), tmp_path / "m.pt2")
    right_or_static(module, path, [(6, 10)], [(4, 14)], slipway, tmp_path)


class Literals(nn.Module):
    """Numbers that are written in the program are no sizes, whatever they are."""

    def forward(self, x):
        y = F.pad(x * 10, (6, 10), value=6)
        return y / 10, torch.full_like(x, 6) + x, x.sum(1) / 10, torch.linspace(0, 1, 10)


def test_numbers_that_are_written(slipway, tmp_path):
    module = Literals()
    path = save(module, (torch.rand(6, 10),), tmp_path / "m.pt2")
    slipway(
        "convert",
        path,
        "--dynamic",
        "auto",
        "--require-dynamic",
        "x:0",
        "--require-dynamic",
        "x:1",
        "-o",
        tmp_path / "m.onnx",
    )
    x = torch.rand(4, 14)
    same(run_onnx(tmp_path / "m.onnx", [x]), leaves(module(x)))
    notes = json.loads(slipway("shapes", path, "--dynamic", "auto", "--json").stdout)["programs"][0]["notes"]
    assert any("output 3" in n and "aten.linspace.default" in n and "the same at all sizes" in n for n in notes), notes


class Positions(nn.Module):
    """Positions resampled to the patches of the image, a token in front: only the product of rows and columns meets the
    image."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, 8)
        self.token, self.table = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 17, 8))

    def forward(self, x):
        size = (x.shape[-2] // 8, x.shape[-1] // 8)
        y = torch.cat([self.token.expand(x.shape[0], -1, -1), self.patches(x).flatten(2).transpose(1, 2)], 1)
        table = F.interpolate(self.table[:, 1:].reshape(1, 4, 4, 8).permute(0, 3, 1, 2), size=size, mode="bilinear")
        return y + torch.cat([self.table[:, :1], table.permute(0, 2, 3, 1).view(1, -1, 8)], 1)


def test_products_are_not_divided_by_guess(slipway, tmp_path):
    module = Positions().eval()
    a = save(module, (torch.rand(2, 3, 64, 64),), tmp_path / "a.pt2")
    kinds = [d["kind"] for d in ledger(slipway, a, "--dynamic", "auto").values()]
    assert kinds == ["dynamic", "static", "static", "static"]
    # A second image tells.
    b = save(module, (torch.rand(3, 3, 48, 80),), tmp_path / "b.pt2")
    slipway("convert", a, "--unify", b, "-o", tmp_path / "m.onnx")
    for sizes in (2, 3, 64, 64), (1, 3, 32, 40), (1, 3, 40, 96):
        x = torch.rand(sizes)
        same(run_onnx(tmp_path / "m.onnx", [x]), leaves(module(x)))


@pytest.mark.parametrize(
    "name", ["positions over length", "zeros", "last by place", "half", "batch mean", "mean by division"]
)
def test_hidden_sizes_unified(name, slipway, tmp_path):
    """Two exports tell what one does not."""
    fn, first, second = HIDDEN[name]
    third = [tuple(b + (b - a) for a, b in zip(x, y)) for x, y in zip(first, second)]
    a = save(Fn(fn), tuple(torch.rand(s) for s in first), tmp_path / "a.pt2")
    b = save(Fn(fn), tuple(torch.rand(s) for s in second), tmp_path / "b.pt2")
    slipway("convert", a, "--unify", b, "-o", tmp_path / "m.onnx")
    inputs = [torch.rand(s) for s in third]
    same(run_onnx(tmp_path / "m.onnx", inputs), leaves(fn(*inputs)))


# What a trace computes of sizes, and counts that torch takes no symbolic size for: solved from two exports.
UNIFIED = {
    "tensor": lambda x: (x.mean(1), torch.tensor(x.shape[1])),
    "tensor of floats": lambda x: x.sum(1) / torch.tensor(float(x.shape[1])),
    "tensor of two": lambda x: x[:, :2, :2] * torch.tensor([[x.shape[0], 1], [x.shape[1] - 1, 7]]),
    "index": lambda x: x[:, torch.tensor([x.shape[1] - 1, x.shape[1] // 2])],
    "hann": lambda x: torch.fft.rfft(x * torch.hann_window(x.shape[1])[None, :, None], dim=1).abs(),
    "hamming": lambda x: x * torch.hamming_window(x.shape[1], False, 0.6, 0.3)[None, :, None],
    "blackman": lambda x: torch.blackman_window(x.shape[1] // 2),
    "bartlett": lambda x: x[0, 0, 0] * torch.bartlett_window(x.shape[1] - 1, periodic=False),
    "kaiser": lambda x: torch.kaiser_window(x.shape[1], True, 5.0),
    "linspace": lambda x: torch.linspace(0, x.shape[1] - 1, x.shape[1] // 2),
    "logspace": lambda x: torch.logspace(0, 1, x.shape[1]),
    "one_hot": lambda x: F.one_hot((x * 5).long(), x.shape[1]),
    "vander": lambda x: torch.vander(x[0, 0], x.shape[0]),
    "fill": lambda x: x.sum(1) / torch.full_like(x[:, 0], x.shape[1]),
    "exponent": lambda x: x ** x.shape[0],
}


@pytest.mark.parametrize("name", UNIFIED)
def test_unified_numbers(name, slipway, tmp_path):
    fn = UNIFIED[name]
    a = save(Fn(fn), (torch.rand(3, 10, 4),), tmp_path / "a.pt2")
    b = save(Fn(fn), (torch.rand(4, 12, 4),), tmp_path / "b.pt2")
    for target in "m.onnx", "m.so", "m.pt2":
        slipway("convert", a, "--unify", b, "-o", tmp_path / target)
    for sizes in (3, 10, 4), (5, 14, 4), (2, 7, 4):
        x = torch.rand(sizes)
        wanted = leaves(fn(x))
        same(run_onnx(tmp_path / "m.onnx", [x]), wanted)
        same(run_native(slipway, tmp_path / "m.so", [x], tmp_path), wanted)
        same(leaves(torch.export.load(str(tmp_path / "m.pt2")).module()(x)), wanted)


@pytest.mark.parametrize(
    "fn, said",
    [
        (lambda x: x[0] @ x[0].T + torch.triu_indices(x.shape[1], x.shape[1]).sum(), "aten.triu_indices.default.*row "
                                                                                     "is 10 here and 12 there"),
        (lambda x: x + torch.tensor(list(range(x.shape[1])))[None, :, None], "the constant 'lifted_tensor_0'.*is of "
                                                                             "another size"),
        (lambda x: x * torch.tensor(1 / x.shape[1]), "the constant 'lifted_tensor_0'.*has other elements"),
        (lambda x: x * (1 / x.shape[1]), "aten.mul.Tensor.*'other' is 0.1 here and 0.08333"),
        (lambda x: (x, x.shape[1]), "output 1 is the number 10 here and 12 there"),
        (lambda x: torch.tril(x, x.shape[1] - 5), "2.x.0 - 1 or x.1 - 5|one more export"),
    ],
)  # fmt: skip
def test_what_is_not_unified_is_named(fn, said, slipway, tmp_path):
    a = save(Fn(fn), (torch.rand(3, 10, 4),), tmp_path / "a.pt2")
    b = save(Fn(fn), (torch.rand(4, 12, 4),), tmp_path / "b.pt2")
    done = slipway("convert", a, "--unify", b, "-o", tmp_path / "m.onnx", status=4)
    assert re.search(said, done.stderr), done.stderr
    assert "branch" not in done.stderr and not (tmp_path / "m.onnx").exists()


def test_pins_to_another_size(slipway, tmp_path):
    """A number in the spec is the size of the program from then on, its sample inputs included; or an error."""
    a = save(nn.Linear(6, 4), (torch.rand(4, 6),), tmp_path / "a.pt2")
    done = slipway("convert", a, "--dynamic", "input:[5,6]", "-o", tmp_path / "b.pt2")
    assert "sample inputs" in done.stdout + done.stderr
    program = torch.export.load(str(tmp_path / "b.pt2"))
    assert not program.example_inputs
    assert program.module()(torch.rand(5, 6)).shape == (5, 4)
    slipway("convert", a, "--dynamic", "input:[4,6]", "-o", tmp_path / "c.pt2")
    assert torch.export.load(str(tmp_path / "c.pt2")).example_inputs[0][0].shape == (4, 6)
    done = slipway("convert", a, "--dynamic", "input:[4,7]", "-o", tmp_path / "d.pt2", status=2)
    assert "'7': input.1 is 6 and cannot be another size" in done.stderr
    b = save(Fn(lambda x: x.sum(0) / x.shape[0]), (torch.rand(4, 6),), tmp_path / "e.pt2")
    name = list(ledger(slipway, b))[0].rsplit(".", 1)[0]
    done = slipway("convert", b, "--dynamic", f"{name}:[5,6]", "-o", tmp_path / "d.pt2", status=2)
    assert "cannot be another size" in done.stderr and "aten.div.Tensor" in done.stderr
    assert not (tmp_path / "d.pt2").exists()


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
    path = save(
        fn, (torch.rand(3, 5), torch.rand(3, 5)), tmp_path / "s.pt2", dynamic_shapes={"inputs": ({0: AUTO}, {0: AUTO})}
    )
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
    done = slipway(
        "convert", linear, "--dynamic", "auto", "--require-dynamic", "input:1", "-o", tmp_path / "l.onnx", status=4
    )
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
