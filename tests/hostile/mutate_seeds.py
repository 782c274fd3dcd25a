#!/usr/bin/env python3
"""The good files that mutate.py changes, made with torch: mutate_seeds.py FOLDER SLIPWAY [OPERATORS].

Models of many families, with control flow, quantization, states and sizes that vary; a program for each operator of
torch's own database and ONNX's test of each (every OPERATORS-th, in one dtype); checkpoints in both forms, of plain
tensors and of torchao's; safetensors, folders of shards, a distributed checkpoint; and what SLIPWAY makes of some:
libraries, ONNX models, the layout of torch 2.6, text forms. X.safetensors beside X.pt2 holds inputs to run it with.
"""

import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.ERROR)

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "interop")]
from diagnostics import cause  # noqa: E402

AUTO = torch.export.Dim.AUTO
MODELS = {}


class Function(nn.Module):
    """A function of a module with some weights."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, *inputs):
        return self.function(self, *inputs)


def model(*inputs, dynamic=True):
    """A function (module, inputs…), or one without arguments that makes a module."""

    def note(made):
        MODELS[made.__name__] = (made, inputs, dynamic)
        return made

    return note


def x(*sizes):
    return torch.linspace(-1, 1, torch.Size(sizes).numel()).reshape(sizes)


def layers(made):
    made.layers = True
    return made


@model(x(3, 8))
@layers
def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(), nn.Linear(16, 4), nn.Softmax(-1))


@model(x(2, 3, 12, 12))
@layers
def convolutions():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
    nn.Conv2d(4, 4, 3, groups=4, stride=2), nn.MaxPool2d(2),
                         nn.ConvTranspose2d(4, 2, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())  # fmt: skip


@model(x(2, 3, 20))
@layers
def convolutions_1d():
    return nn.Sequential(
        nn.Conv1d(3, 8, 5, dilation=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.AvgPool1d(3), nn.Upsample(scale_factor=2)
    )


@model(x(5, 2, 4))
@layers
def lstm():
    return nn.LSTM(4, 6, num_layers=2, bidirectional=True)


@model(x(2, 5, 4))
@layers
def gru():
    return nn.GRU(4, 6, batch_first=True)


@model(x(2, 5, 8))
@layers
def transformer():
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


@model(x(2, 5, 8))
def attention(m, x):
    q = x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
    return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(2)


@model(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([0, 2]))
def embeddings(m, ids, offsets):
    table = m.linear.weight.repeat(3, 1)
    return nn.functional.embedding(ids, table), nn.functional.embedding_bag(ids.flatten()[:4], table, offsets)


@model(x(3, 4))
def state(m, x):
    m.count.add_(1)
    y = x.clone()
    y[0] = m.count
    y[:, 1:].mul_(2)
    return y, m.count * 2


@model(x(3, 4))
def sizes(m, x):
    n = x.shape[0]
    return x.view(n * 2, 2), torch.arange(n + 1), x.new_zeros(n, n // 2 + 1), x[: n // 2], x.shape[0] * 1.5


@model(x(3, 4), dynamic=False)
def data_dependent(m, x):
    found = (x > 0).nonzero()
    n = x.flatten()[11].to(torch.int64).item()
    torch._check(n >= 0)
    torch._check(n <= 8)
    return found.sum(0), torch.zeros(n + 1), x.masked_select(x > 0).sum()


@model(x(3, 4))
def cond(m, x):
    return torch.cond(x.sum() > 0, lambda x: (x.sin(), m.linear(x)), lambda x: (x.cos(), x * 2), (x,))


@model(x(3, 4))
def cond_nested(m, x):
    def yes(x):
        return torch.cond(x.mean() > 0.5, lambda x: x + 1, lambda x: m.linear(x), (x,))

    return torch.cond(x.shape[0] > 2, yes, lambda x: x * 3, (x,))


@model(x(3, 4))
def while_counts(m, x):
    return while_loop(
        lambda i, x: i < 4, lambda i, x: (i + 1, torch.tanh(m.linear(x))), (torch.zeros((), dtype=torch.int64), x)
    )


@model(x(3, 4))
def scans(m, x):
    def cell(state, row):
        state = torch.tanh(m.linear(state) + row)
        return state, (state * 2, state.sum())

    return scan(cell, torch.zeros(4), x)


@model(x(3, 4))
def scans_backwards(m, x):
    def cell(state, column):
        state = state[0] + column.sum(), state[1] + 1
        return state, column * 2

    return scan(cell, (torch.zeros(()), torch.zeros((), dtype=torch.int64)), x, dim=1, reverse=True)


@model(x(4, 4), dynamic=False)
def associative(m, x):
    return associative_scan(lambda a, b: a * b + 1, x, 0, combine_mode="generic")


@model(x(3, 4))
def maps(m, x):
    from functorch.experimental.control_flow import map as map_over

    return map_over(lambda row, weight: (row @ weight, row.sum()), x, m.linear.weight)


@model(x(3, 4))
def vmaps(m, x):
    return torch.vmap(lambda row: torch.softmax(row @ m.linear.weight, 0) + row.sum())(x)


@model(x(3, 4))
def autocast(m, x):
    with torch.autocast("cpu", torch.bfloat16):
        y = m.linear(x)
    with torch.no_grad():
        return y.float() + m.linear(x)


@model(x(3, 4))
def regions(m, x):
    @torch.compiler.nested_compile_region
    def block(x):
        return torch.relu(m.linear(x))

    return block(block(x))


@model(x(3, 8))
def spectra(m, x):
    f = torch.fft.rfft(x)
    return torch.fft.irfft(f * f.conj()), f.abs(), torch.view_as_real(f)


@model(x(4, 4) + 3 * torch.eye(4), dynamic=False)
def matrices(m, x):
    return (
        torch.linalg.inv(x),
        torch.linalg.det(x),
        *torch.linalg.qr(x),
        torch.linalg.cholesky(x @ x.T),
        torch.linalg.solve(x, x[0]),
    )


@model(x(3, 4), torch.tensor([2, 0, 1]))
def indices(m, x, i):
    y = x.index_select(0, i) + x.gather(1, i[:, None])
    y = y.index_put((i,), x).scatter_add(0, i[:, None], x[:, :1])
    return y, *torch.topk(y, 2), torch.cumsum(y, 1), *torch.sort(y, stable=True), torch.where(y > 0, y, i[:, None])


def torchao(config):
    def made():
        import torchao.quantization as ao

        made_of = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64, bias=False)).eval()
        ao.quantize_(made_of, config(ao))
        return made_of

    return layers(made)


for name, config in {
    "int8_weights": lambda ao: ao.Int8WeightOnlyConfig(),
    "int8_products": lambda ao: ao.Int8DynamicActivationInt8WeightConfig(),
    "int4_groups": lambda ao: ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32)),
    "int4_dynamic": lambda ao: ao.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=ao.PerGroup(32)
    ),
    "float8_rows": lambda ao: ao.Float8WeightOnlyConfig(),
}.items():
    MODELS[name] = (torchao(config), (x(3, 64),), True)


def tensors_of(inputs):
    leaves = torch.utils._pytree.tree_leaves(inputs)
    return {f"input.{k}": torch.as_tensor(leaf).contiguous() for k, leaf in enumerate(leaves)}


def tried(what, make):
    """Samples that torch itself does not export are no seeds."""
    try:
        make()
        return 1
    except Exception as error:
        print(f"no seed of {what}: {str(error).splitlines()[0] if str(error) else error!r}", file=sys.stderr)
        return 0


def save_model(folder, name):
    made, inputs, dynamic = MODELS[name]
    torch.manual_seed(0)
    module = (made() if hasattr(made, "layers") else Function(made)).eval()
    shapes = tuple({d: AUTO for d, n in enumerate(i.shape) if n > 1} for i in inputs) if dynamic else None
    if dynamic and not hasattr(made, "layers"):
        shapes = (shapes,)  # of *inputs
    program = torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)
    torch.export.save(program, folder / f"{name}.pt2")
    save_file(tensors_of(inputs), folder / f"{name}.safetensors")


def save_operators(folder, every):
    import opinfo

    made = 0
    for number, (name, info) in enumerate(opinfo.operators().items()):
        if number % every:
            continue
        dtypes = [d for d in opinfo.DTYPES.values() if info.supports_dtype(d, "cpu")]

        def save():
            calls = opinfo.calls(info, torch.float32 if torch.float32 in dtypes else dtypes[0])
            call = calls[len(calls) // 2]
            program = torch.export.export(opinfo.Calls([call]), tuple(call.tensors), strict=False)
            path = folder / f"op.{name}.pt2"
            torch.export.save(program, path)
            if all(t.layout == torch.strided for t in call.tensors):
                save_file(tensors_of(call.tensors), path.with_suffix(".safetensors"))

        made += tried(name, save)
    return made


def save_checkpoints(folder):
    import torchao.quantization as ao

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)).eval()
    weights = net.state_dict()
    torch.save(weights, folder / "weights.pt")
    torch.save(weights, folder / "weights.legacy", _use_new_zipfile_serialization=False)
    nested = {
        "model": {"state_dict": weights},
        "epoch": 3,
        "history": [0.5, (1, None)],
        "tied": [weights["0.weight"]] * 2,
    }
    torch.save(nested, folder / "nested.pt")
    many = {
        str(d): torch.zeros(2, 3, dtype=d)
        for d in (
            torch.bool,
            torch.uint8,
            torch.int64,
            torch.float16,
            torch.bfloat16,
            torch.complex64,
            torch.float8_e4m3fn,
        )
    }
    torch.save(many | {"part": torch.arange(12.0).view(3, 4).t()[1:]}, folder / "dtypes.pt")
    plain = {name: t.clone().contiguous() for name, t in weights.items()}
    save_file(plain, folder / "plain.safetensors", metadata={"format": "pt"})
    for name, config in {"int8": ao.Int8WeightOnlyConfig(),
    "int4": ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32)),
                         "float8": ao.Float8WeightOnlyConfig()}.items():  # fmt: skip
        quantized = nn.Sequential(nn.Linear(64, 32)).eval()
        ao.quantize_(quantized, config)
        torch.save(quantized.state_dict(), folder / f"quantized_{name}.pt")
    dcp.save(
        {"w": torch.arange(12.0).view(3, 4), "n": {"b": torch.ones(3)}},
        checkpoint_id=str(folder / "distributed"),
        no_dist=True,
    )


def convert(slipway, *arguments):
    done = subprocess.run([slipway, *map(str, arguments)], capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise RuntimeError(cause(done.stderr))
    return done.stdout


def save_converted(folder, slipway):
    convert(slipway, "convert", folder / "plain.safetensors", "-o", f"{folder}/shards/", "--shards", "3")
    for name in ("mlp", "convolutions", "lstm", "transformer", "cond", "while_counts", "scans", "sizes", "indices"):

        def save():
            convert(slipway, "convert", folder / f"{name}.pt2", "-o", folder / f"lib_{name}.so")
            shutil.copyfile(folder / f"{name}.safetensors", folder / f"lib_{name}.safetensors")
            (folder / f"text_{name}.sw").write_text(convert(slipway, "inspect", "--ir", folder / f"{name}.pt2"))
            convert(slipway, "convert", folder / f"{name}.pt2", "-o", folder / f"flat_{name}.pt2", "--torch", "2.6")
            convert(slipway, "convert", folder / f"{name}.pt2", "-o", folder / f"model_{name}.onnx", "--functions")

        tried(f"{name}, converted", save)
    convert(slipway, "convert", folder / "mlp.pt2", folder / "cond.pt2", "-o", folder / "two.pt2")


def save_node_models(folder, every):
    """Each EVERY-th model of ONNX's own tests of operators."""
    import onnx.backend.test.case.node

    tests = sorted(onnx.backend.test.case.node.collect_testcases(None), key=lambda t: t.name)
    for test in tests[::every]:
        onnx.save(test.model, folder / f"node_{test.name.removeprefix('test_')}.onnx")


def main():
    folder, slipway = pathlib.Path(sys.argv[1]), sys.argv[2]
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    torch.set_num_threads(1)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        place = pathlib.Path(made) / "seeds"
        place.mkdir()
        models = sum(tried(name, lambda: save_model(place, name)) for name in MODELS)
        save_checkpoints(place)
        save_converted(place, slipway)
        save_node_models(place, every)
        print(f"{models} models, {save_operators(place, every)} operators", file=sys.stderr)
        os.rename(place, folder)


if __name__ == "__main__":
    main()
