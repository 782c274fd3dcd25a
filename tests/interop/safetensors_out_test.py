"""Weights through slipway beside the reference implementation: the same bytes, the same roundings, from every
source."""

import json
import os

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

DTYPES = """float32 float16 bfloat16 float64 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64 float8_e4m3fn
float8_e5m2 float8_e8m0fnu complex64"""


def same(got, want):
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert got[name].dtype == tensor.dtype and got[name].shape == tensor.shape, name
        assert torch.equal(got[name].contiguous().view(torch.uint8), tensor.contiguous().view(torch.uint8)), name


@pytest.fixture
def checkpoint(tmp_path):
    base = torch.arange(1200.0).view(30, 40)
    model = {
        "w": base,
        "t": base.t(),
        "part": base[3:9:2, 5:11],
        "wide": torch.ones(5, 1).expand(5, 700),
        "p": torch.nn.Parameter(torch.randn(4)),
        "none": torch.zeros(0, 3),
        "big": torch.randn(1300, 1100).t(),
    }
    path = tmp_path / "nested.pt"
    torch.save({"model": {"state_dict": model}, "optimizer": {"state": {0: {"avg": torch.ones(2)}}, "lr": 0.1}}, path)
    return path, {name: tensor.detach() for name, tensor in model.items()}


def test_bytes_of_the_reference(slipway, tmp_path):
    tensors = {"empty": torch.zeros(0, 3), "scalar": torch.tensor(1.5), 'odd "name" ü\n': torch.ones(2)}
    for name in DTYPES.split():
        for key in ("b", "a"):
            bits = torch.randint(
                0, 2, (3, 5, torch.empty((), dtype=getattr(torch, name)).element_size()), dtype=torch.uint8
            )
            tensors[f"{key}.{name}"] = bits.view(getattr(torch, name)).squeeze(-1)
    save_file(tensors, tmp_path / "in.safetensors", metadata={"format": "pt"})
    slipway("convert", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors")
    assert (tmp_path / "out.safetensors").read_bytes() == (tmp_path / "in.safetensors").read_bytes()


def test_casts_round_as_torch(slipway, tmp_path):
    half = torch.arange(65536).to(torch.uint16)
    single = torch.arange(0, 2**32, 65521).to(torch.uint32).view(torch.float32)
    edges = [
        65504,
        65519.996,
        65520,
        -65520,
        2**-24,
        2**-25,
        2**-25 * 1.001,
        6.1e-5,
        6.0975552e-05,
        0.0,
        -0.0,
        3.39e38,
        float("inf"),
    ]
    tensors = {
        "f32": torch.cat([single, torch.tensor(edges)]),
        "f64": single.double() * 1.0000001,
        "f16": half.view(torch.float16),
        "bf16": half.clone().view(torch.bfloat16),
        "i64": torch.arange(5),
    }
    save_file(tensors, tmp_path / "in.safetensors")
    for flag, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("f32", torch.float32)):
        slipway("convert", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors", "--dtype", flag)
        got = load_file(tmp_path / "out.safetensors")
        for name, tensor in tensors.items():
            want = tensor.to(dtype) if tensor.is_floating_point() else tensor
            nan = torch.isnan(want)
            assert got[name].dtype == want.dtype and torch.equal(torch.isnan(got[name]), nan)
            assert torch.equal(got[name][~nan].view(torch.uint8), want[~nan].view(torch.uint8)), (flag, name)


def test_checkpoints(slipway, checkpoint, tmp_path):
    path, model = checkpoint
    out = tmp_path / "out.safetensors"
    assert "--key names one of those within: model.state_dict" in slipway("convert", path, "-o", out, status=3).stderr
    slipway("convert", path, "-o", out, "--key", "model.state_dict")
    same(load_file(out), model)
    with safe_open(out, "pt") as file:
        assert file.metadata() == {"format": "pt"}
    slipway("convert", path, "-o", out, "--key", "model.state_dict", "--dtype", "bf16")
    same(load_file(out), {name: tensor.bfloat16() for name, tensor in model.items()})
    report = json.loads(slipway("inspect", path, "--json").stdout)
    assert report["format"] == "checkpoint"
    assert {t["name"] for t in report["tensors"]} == {f"model.state_dict.{n}" for n in model} | {
        "optimizer.state.0.avg"
    }


def test_shards(slipway, tmp_path):
    tensors = {f"l{i}.w": torch.randn(100, 10) for i in range(10)}
    whole, folder = tmp_path / "in.safetensors", tmp_path / "shards"
    save_file(tensors, whole, metadata={"format": "pt"})
    slipway("convert", whole, "-o", f"{folder}/", "--max-shard-size", "10KB")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 40000} and index["weight_map"].keys() == tensors.keys()
    assert {p.name for p in folder.glob("*.safetensors")} == {f"model-{i:05}-of-00005.safetensors" for i in range(1, 6)}
    for name, file in index["weight_map"].items():
        assert torch.equal(load_file(folder / file)[name], tensors[name])
    for source in (folder, folder / "model.safetensors.index.json"):
        slipway("convert", source, "-o", tmp_path / "out.safetensors")
        assert (tmp_path / "out.safetensors").read_bytes() == whole.read_bytes()
    for count in (1, 3, 10):
        slipway("convert", folder, "-o", f"{tmp_path}/n{count}/", "--shards", count)
        files = [load_file(p) for p in sorted((tmp_path / f"n{count}").glob("*.safetensors"))]
        assert len(files) == count and max(map(len, files)) - min(map(len, files)) <= 1
        same({name: tensor for file in files for name, tensor in file.items()}, tensors)
    slipway("convert", folder, "-o", f"{tmp_path}/n11/", "--shards", 11, status=3)
    assert not os.path.exists(tmp_path / "n11")
    assert json.loads(slipway("inspect", folder, "--json").stdout)["format"] == "shards"
    index["weight_map"]["l0.w"] = "../in.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    slipway("convert", folder, "-o", tmp_path / "out.safetensors", status=3)


def test_names(slipway, tmp_path):
    save_file({f"model.l{i}.w": torch.full((2,), float(i)) for i in range(5)}, tmp_path / "a.safetensors")
    save_file({"model.l9.w": torch.ones(3)}, tmp_path / "b.safetensors")
    out = tmp_path / "out.safetensors"
    slipway(
        "convert",
        tmp_path / "a.safetensors",
        tmp_path / "b.safetensors",
        "-o",
        out,
        "--include",
        r"l[1-9]\.",
        "--exclude",
        "l2",
        "--rename",
        r"^model\.=>",
        "--rename",
        r"l(\d)=>layer.$1",
        "--metadata",
        "k=v",
    )
    got = load_file(out)
    assert got.keys() == {"layer.1.w", "layer.3.w", "layer.4.w", "layer.9.w"} and torch.equal(
        got["layer.3.w"], torch.full((2,), 3.0)
    )
    with safe_open(out, "pt") as file:
        assert file.metadata() == {"k": "v"}
    assert (
        "'same'" in slipway("convert", tmp_path / "a.safetensors", "-o", out, "--rename", "^.*$=>same", status=3).stderr
    )
    slipway("convert", tmp_path / "a.safetensors", "-o", out, "--include", "(", status=2)
    slipway("convert", tmp_path / "a.safetensors", "-o", out, "--include", "nothing", status=3)
    slipway("convert", tmp_path / "a.safetensors", "-o", out, "--shards", "2", status=2)


def test_weights_of_a_program(slipway, tmp_path):
    model = torch.nn.Linear(4, 3)
    torch.export.save(torch.export.export(model, (torch.ones(2, 4),)), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "out.safetensors")
    same(load_file(tmp_path / "out.safetensors"), {name: t.detach() for name, t in model.state_dict().items()})
    other = torch.nn.Linear(4, 3)
    torch.save({"net": other.state_dict()}, tmp_path / "ckpt.bin")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "n.pt2", "--weights", tmp_path / "ckpt.bin", "--key", "net")
    x = torch.randn(2, 4)
    assert torch.equal(torch.export.load(tmp_path / "n.pt2").module()(x), other(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_are_cast_to_the_programs_types(slipway, tmp_path, dtype):
    module = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.BatchNorm1d(400)).eval()
    torch.export.save(torch.export.export(module, (torch.randn(2, 300),)), tmp_path / "m.pt2")
    state = {
        n: t if not t.is_floating_point() else torch.randn(t.shape).abs().to(dtype)
        for n, t in module.state_dict().items()
    }
    torch.save({n: t.t().contiguous().t() if t.dim() == 2 else t for n, t in state.items()}, tmp_path / "w.pt")
    done = slipway("convert", tmp_path / "m.pt2", "--weights", tmp_path / "w.pt", "-o", tmp_path / "o.pt2")
    assert "6 tensors of --weights are cast" in done.stderr
    got = torch.export.load(tmp_path / "o.pt2").state_dict
    for name, tensor in state.items():
        assert torch.equal(got[name], tensor.to(got[name].dtype)) and got[name].dtype == module.state_dict()[name].dtype
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    state["0.bias"] = torch.ones(400, dtype=torch.int32)
    torch.save(state, tmp_path / "w.pt")
    failed = slipway("convert", tmp_path / "m.pt2", "--weights", tmp_path / "w.pt", "-o", tmp_path / "no.pt2", status=3)
    assert "0.bias is i32[400], the program wants f32[400]" in failed.stderr
