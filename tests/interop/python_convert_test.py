"""slipway.convert() on what a running torch has: modules, programs and state dicts, judged by onnxruntime and torch;
what it cannot take is an error with a next step; memory and progress."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from json_schema import conform
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils import _pytree as pytree

pytestmark = pytest.mark.filterwarnings("ignore")


def onnx_outputs(path, *inputs):
    session = onnxruntime.InferenceSession(path)
    names = [i.name for i in session.get_inputs()]
    return session.run(None, {name: x.numpy() for name, x in zip(names, inputs, strict=True)})


def check_onnx(path, module, *inputs, **tolerance):
    with torch.no_grad():
        wanted = [t for t in pytree.tree_leaves(module(*inputs)) if isinstance(t, torch.Tensor)]
    for got, want in zip(onnx_outputs(path, *inputs), wanted):
        torch.testing.assert_close(torch.from_numpy(got), want, **{"rtol": 1e-4, "atol": 1e-4, **tolerance})


class Everything(nn.Module):
    """Tied weights, views, strides, types, buffers that are not saved, constants, and structured inputs and outputs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)
        self.second.weight = self.first.weight
        whole = torch.randn(64, 32)
        self.upper, self.lower = nn.Parameter(whole[:32]), nn.Parameter(whole[32:])
        self.turned = nn.Parameter(torch.randn(32, 48).t()[:32].t())
        self.spread = nn.Parameter(torch.randn(1, 32).expand(5, 32), requires_grad=False)
        self.register_buffer("small", torch.randn(32).bfloat16(), persistent=False)
        self.register_buffer("count", torch.tensor(3))
        self.constant = torch.arange(32.0)

    def forward(self, x, pair, scale=2):
        y = self.second(self.first(x)) @ self.upper + x @ self.lower + self.turned.sum(0) + self.spread.sum(0)
        return {"y": y * scale + self.small + self.constant * self.count, "none": None, "n": scale}, pair[0] - pair[1]


def everything(n):
    return torch.randn(n, 32), [torch.randn(n), torch.randn(n)]


def test_module_to_every_format(library, tmp_path):
    module = Everything().eval()
    args = everything(3)
    result = library.convert(module, tmp_path / "m.onnx", args=args, dynamic=True, opset=18, metadata={"who": "us"})
    assert result.output == tmp_path / "m.onnx" and result.output.stat().st_size == result.report["bytes_written"]
    conform(result.report, "convert")
    for n in (3, 8):
        x, pair = everything(n)
        with torch.no_grad():
            wanted = module(x, pair)
        y, difference = onnx_outputs(tmp_path / "m.onnx", x, *pair)
        torch.testing.assert_close(torch.from_numpy(y), wanted[0]["y"], rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(torch.from_numpy(difference), wanted[1])

    library.convert(module, tmp_path / "m.so", args=args, dynamic=True)
    x, pair = everything(5)
    model = library.load(tmp_path / "m.so")
    torch.testing.assert_close(
        torch.from_numpy(model(x, *pair)[0]), module(x, pair)[0]["y"].detach(), rtol=1e-4, atol=1e-3
    )

    library.convert(module, tmp_path / "m.pt2", args=args, dynamic=True)
    program = torch.export.load(tmp_path / "m.pt2")
    back = program.module()(x, pair)
    assert back[0]["none"] is None and back[0]["n"] == 2
    torch.testing.assert_close(back, module(x, pair))
    assert set(program.state_dict) == set(module.state_dict())
    for name, tensor in module.state_dict().items():
        assert program.state_dict[name].dtype == tensor.dtype and torch.equal(program.state_dict[name], tensor)
    assert program.constants["small"].dtype == torch.bfloat16

    library.convert(module, tmp_path / "m.safetensors", args=args, include="first|upper")
    written = load_file(tmp_path / "m.safetensors")
    assert set(written) == {"first.weight", "first.bias", "upper"} and torch.equal(written["upper"], module.upper)


def test_same_as_from_a_file(library, tmp_path):
    module = Everything().eval()
    program = torch.export.export(module, everything(3))
    torch.export.save(program, tmp_path / "m.pt2")
    library.convert(tmp_path / "m.pt2", tmp_path / "file.safetensors")
    library.convert(program, tmp_path / "memory.safetensors")
    assert (tmp_path / "file.safetensors").read_bytes() == (tmp_path / "memory.safetensors").read_bytes()
    library.convert(tmp_path / "m.pt2", tmp_path / "file.so")
    library.convert(program, tmp_path / "memory.so")
    x, pair = everything(3)
    for a, b in zip(library.load(tmp_path / "file.so")(x, *pair), library.load(tmp_path / "memory.so")(x, *pair)):
        np.testing.assert_array_equal(a, b)


def test_tied_weights_are_written_once(library, tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(1000, 64), nn.Linear(64, 1000, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    module = Tied().eval()
    for target in ("m.onnx", "m.pt2"):
        library.convert(module, tmp_path / target, args=(torch.tensor([1, 2]),))
        assert 256_000 < (tmp_path / target).stat().st_size < 400_000, target
    library.convert(module.state_dict(), tmp_path / "m.safetensors", tied="drop")
    assert list(load_file(tmp_path / "m.safetensors")) == ["embed.weight"]
    library.convert(module, tmp_path / "all.safetensors")
    assert set(load_file(tmp_path / "all.safetensors")) == {"embed.weight", "head.weight"}


FLOATS = ["bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_types(library, tmp_path, dtype):
    tensor = torch.randn(6, 5).to(getattr(torch, dtype))
    library.convert({"a": tensor, "b": tensor.t(), "c": tensor[1:3]}, tmp_path / "w.safetensors")
    written = load_file(tmp_path / "w.safetensors")
    for name, wanted in (("a", tensor), ("b", tensor.t()), ("c", tensor[1:3])):
        got = written[name]
        assert got.dtype == tensor.dtype and torch.equal(got.float(), wanted.float())


def bert(**more):
    config = transformers.BertConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, vocab_size=99, **more
    )
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def ids_and_mask(batch, length):
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, length // 2 :] = 0
    return torch.randint(0, 99, (batch, length)), mask


def test_transformers(library, tmp_path):
    module = bert()
    ids, mask = ids_and_mask(2, 9)
    library.convert(module, tmp_path / "bert.onnx", kwargs={"input_ids": ids, "attention_mask": mask}, dynamic=True)
    for size in ((2, 9), (3, 17)):
        ids, mask = ids_and_mask(*size)
        with torch.no_grad():
            wanted = module(ids, attention_mask=mask).last_hidden_state
        torch.testing.assert_close(
            torch.from_numpy(onnx_outputs(tmp_path / "bert.onnx", ids, mask)[0]), wanted, rtol=1e-3, atol=1e-4
        )


CONVS = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
)
RECURRENT = nn.LSTM(8, 6, batch_first=True)
ENCODER = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)


@pytest.mark.parametrize(
    "module, sizes",
    [
        (CONVS, [(2, 3, 12, 12), (3, 3, 15, 9)]),
        (RECURRENT, [(2, 5, 8), (4, 5, 8)]),
        (ENCODER, [(2, 5, 32), (3, 8, 32)]),
    ],
    ids=["convolutions", "lstm", "transformer"],
)
def test_modules_of_torch(library, tmp_path, module, sizes):
    module = module.eval()
    auto = torch.export.Dim.AUTO
    spec = ({d: auto for d in range(len(sizes[0])) if len({s[d] for s in sizes}) > 1},)
    library.convert(module, tmp_path / "m.onnx", args=(torch.randn(sizes[0]),), dynamic=spec)
    for size in sizes:
        check_onnx(tmp_path / "m.onnx", module, torch.randn(size))


def test_dynamic_by_a_text(library, tmp_path):
    """slipway's own way, of a module or a program of fixed sizes."""
    module = nn.Linear(4, 2)
    library.convert(module, tmp_path / "a.onnx", args=torch.randn(3, 4), dynamic="input:[batch,4]")
    program = torch.export.export(module, (torch.randn(3, 4),))
    library.convert(program, tmp_path / "b.onnx", dynamic=True)
    torch.export.save(program, tmp_path / "m.pt2")
    library.convert(tmp_path / "m.pt2", tmp_path / "c.onnx", dynamic=True)
    for name in "abc":
        check_onnx(tmp_path / f"{name}.onnx", module, torch.randn(7, 4))


def test_weights_from_a_folder(library, tmp_path):
    """A module on the device meta has no values of its own."""
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    x = torch.randn(3, 4, device="meta")
    with pytest.raises(library.SlipwayError) as e:
        library.convert(module, tmp_path / "m.onnx", args=(x,))
    assert e.value.code == 3 and e.value.diagnostics[-1].id == "SW1010" and e.value.diagnostics[-1].help
    real = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    (tmp_path / "hub").mkdir()
    save_file(real.state_dict(), tmp_path / "hub" / "model.safetensors")
    library.convert(module, tmp_path / "m.onnx", args=(x,), weights=tmp_path / "hub")
    check_onnx(tmp_path / "m.onnx", real, torch.randn(3, 4))


def test_quantized_by_torchao(library, tmp_path):
    """Tensors made of several others are part of the program's bytes."""
    import torchao

    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    torchao.quantize_(module, torchao.quantization.Int8WeightOnlyConfig())
    library.convert(module, tmp_path / "q.onnx", args=(torch.randn(2, 64),))
    check_onnx(tmp_path / "q.onnx", module, torch.randn(2, 64), rtol=1e-3, atol=1e-3)


class Branch(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


class Broken(nn.Module):
    def forward(self, x):
        raise KeyError("no such thing")


@pytest.mark.parametrize(
    "model, arguments, said",
    [
        (nn.Linear(2, 2), {}, "no arguments"),
        (nn.Linear(2, 2), {"args": 3}, "not a sequence"),
        (nn.Linear(2, 2), {"args": (torch.ones(1, 2), 1, 2), "dynamic": True}, "do not fit"),
        (nn.Linear(2, 2), {"args": (torch.ones(1, 3),)}, "torch.export does not take"),
        (Branch(), {"args": (torch.ones(2),)}, "torch.export does not take"),
        (Broken(), {"args": (torch.ones(2),)}, "no such thing"),
        (torch.jit.script(nn.Linear(2, 2)), {"args": (torch.ones(1, 2),)}, "TorchScript"),
        (3, {}, "int is no model"),
        ([], {}, "list is no model"),
        (lambda x: x, {}, "function is no model"),
        ("m.pt2", {"args": (1,)}, "args are for modules"),
        ("m.pt2", {"dynamic": {"x": 1}}, "which is for modules"),
        ("m.pt2", {"progress": 3}, "progress is a int"),
        (["a.pt2", "b.pt2"], {"progress": print}, "one input"),
        (nn.Linear(2, 2), {"args": (torch.ones(1, 2),), "opsett": 18}, "opset"),
        (nn.Linear(2, 2), {"args": (torch.ones(1, 2),), "opset": object()}, "opset is a object"),
        ({"w": torch.randn(3, 3).to_sparse()}, {}, "sparse"),
    ],
)
def test_what_is_not_taken(library, tmp_path, model, arguments, said):
    with pytest.raises(library.SlipwayError) as e:
        library.convert(model, tmp_path / "m.onnx", **arguments)
    last = e.value.diagnostics[-1]
    assert e.value.code in (2, 4) and said in str(e.value) and last.severity == "error" and last.id.startswith("SW")
    assert last.help or "opset" in said, last
    assert not any(tmp_path.iterdir())


def test_errors_of_the_library(library, tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x).abs().sum()

    with pytest.raises(library.SlipwayError) as e:
        library.convert(Odd(), tmp_path / "m.onnx", args=(torch.randn(3, 3),))
    [d] = e.value.diagnostics
    assert e.value.code == 4 and d.id == "SW2002" and "linalg_eigvals" in d.cause and d.place == "Odd"
    with pytest.raises(library.SlipwayError) as e:
        library.convert(nn.Linear(2, 2), tmp_path / "no" / "m.onnx", args=(torch.randn(3, 2),))
    assert e.value.code == 5 and str(tmp_path) in str(e.value)


def test_progress(library, tmp_path):
    module = nn.Linear(512, 512)
    calls = []
    library.convert(module, tmp_path / "m.onnx", args=(torch.randn(1, 512),), progress=lambda *n: calls.append(n))
    assert calls and calls[-1][0] == calls[-1][1] > 1_000_000 and sorted(calls) == calls

    class Bar:
        total, n = None, 0

        def update(self, n):
            self.n += n

    torch.export.save(torch.export.export(module, (torch.randn(1, 512),)), tmp_path / "m.pt2")
    bar = Bar()
    library.convert(tmp_path / "m.pt2", tmp_path / "n.onnx", progress=bar)
    assert bar.n == bar.total > 1_000_000

    def raising(done, total):
        raise ZeroDivisionError("of the caller")

    with pytest.raises(ZeroDivisionError, match="of the caller"):
        library.convert(tmp_path / "m.pt2", tmp_path / "n.onnx", progress=raising)


def test_other_threads_go_on(library, tmp_path):
    module = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(12)))
    program = torch.export.export(module, (torch.randn(1, 1024),))
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    spans = []
    with library._live.open_program(*library._live.graph_bytes(program), "m") as archive:
        thread.start()
        begin = time.monotonic()
        archive.export(str(tmp_path / "m.so"), {})
        spans.append((begin, time.monotonic()))
        done.set()
        thread.join()
    assert sum(spans[0][0] < t < spans[0][1] for t in ticks) > 5


MEMORY = """
import resource, sys, torch, slipway
module = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False) for _ in range(4)))
program = torch.export.export(module, (torch.ones(1, 4096),))
slipway.convert(torch.nn.Linear(2, 2), sys.argv[1], args=(torch.ones(1, 2),))  # what code takes
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
slipway.convert(program, sys.argv[1])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_memory(library, tmp_path):
    """A quarter of a gigabyte of weights is not copied."""
    site = pathlib.Path(library.__file__).parent.parent
    for target in ("m.onnx", "m.pt2"):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, tmp_path / target],
            env=os.environ | {"PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert (tmp_path / target).stat().st_size > 256e6 and int(done.stdout) < 60, done.stdout
