"""Checkpoints in both forms of torch.save against what torch.load makes of them: the one before 1.6, and whatever
people pickle beside their tensors."""

import argparse
import collections
import datetime
import enum
import functools
import pathlib

import numpy as np
import pytest
import torch
from diagnostics import cause
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.filterwarnings("ignore")


def state():
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(6, 8, generator=generator)
    tensors = collections.OrderedDict(
        whole=base,
        tied=base,
        row=base[2:4],
        column=base[:, 3],
        transposed=base.t(),
        expanded=torch.randn(1, 5, generator=generator).expand(3, 5),
        scalar=torch.tensor(7),
        empty=torch.zeros(0, 4),
        half=torch.randn(33, generator=generator).half(),
        bf16=torch.randn(3, 3, generator=generator).bfloat16(),
        f64=torch.randn(2, generator=generator).double(),
        flags=torch.tensor([True, False, True]),
        bytes=torch.arange(5, dtype=torch.uint8),
        complex=torch.randn(2, dtype=torch.complex64, generator=generator),
        parameter=torch.nn.Parameter(torch.randn(4, generator=generator)),
        u16=torch.arange(6, dtype=torch.int32).to(torch.uint16),
        f8=torch.randn(9, generator=generator).to(torch.float8_e4m3fn),
    )
    tensors._metadata = {"": {"version": 1}}
    return tensors


def equal(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    view = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}[a.element_size()]
    return torch.equal(a.detach().contiguous().view(view), b.detach().contiguous().view(view))


@pytest.mark.parametrize("protocol", [2, 4])
def test_legacy_form(slipway, tmp_path, protocol):
    want = state()
    path = tmp_path / "old.bin"
    torch.save(want, path, _use_new_zipfile_serialization=False, pickle_protocol=protocol)
    slipway("convert", path, "-o", tmp_path / "out.safetensors")
    got = load_file(tmp_path / "out.safetensors")
    assert set(got) == set(want)
    for name, tensor in want.items():
        assert equal(tensor, got[name]), name


def test_legacy_nested(slipway, tmp_path):
    want = state()
    path = tmp_path / "old.pth"
    torch.save({"epoch": 3, "model": {"net": want}, "history": [1.5, None]}, path, _use_new_zipfile_serialization=False)
    refused = slipway("convert", path, "-o", tmp_path / "out.safetensors", status=3)
    assert "model.net" in refused.stderr
    slipway("convert", path, "--key", "model.net", "-o", tmp_path / "out.safetensors")
    assert set(load_file(tmp_path / "out.safetensors")) == set(want)
    assert '"model.net.whole"' in slipway("inspect", path, "--json").stdout


def test_tied_storages_of_the_legacy_form_are_one(slipway, tmp_path):
    """What is read is a reference: a view of a large storage does not copy the storage."""
    base = torch.arange(1 << 16, dtype=torch.int32)
    torch.save({"a": base[10:12], "b": base[10:12]}, tmp_path / "v.pt", _use_new_zipfile_serialization=False)
    done = slipway("convert", tmp_path / "v.pt", "-o", tmp_path / "v.safetensors")
    assert "1 tensors share values" in done.stderr
    assert load_file(tmp_path / "v.safetensors")["a"].tolist() == [10, 11]
    assert (tmp_path / "v.safetensors").stat().st_size < 500


def test_older_forms_are_named(slipway, tmp_path):
    import tarfile

    (tmp_path / "storages").write_bytes(b"x")
    with tarfile.open(tmp_path / "ancient.pt", "w") as tar:
        tar.add(tmp_path / "storages", "storages")
    done = slipway("convert", tmp_path / "ancient.pt", "-o", tmp_path / "o.safetensors", status=4)
    assert "before 0.4" in cause(done.stderr)


def test_packed_halves_of_bytes(slipway, tmp_path):
    want = torch.arange(24, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).reshape(4, 6)
    for legacy in (False, True):
        torch.save({"t": want}, tmp_path / "f4.pt", _use_new_zipfile_serialization=not legacy)
        assert "f4e2m1[4,12]  24 bytes" in slipway("inspect", tmp_path / "f4.pt").stdout
        slipway("convert", tmp_path / "f4.pt", "-o", tmp_path / "f4.safetensors")
        save_file({"t": want}, tmp_path / "want.safetensors", metadata={"format": "pt"})
        assert (tmp_path / "f4.safetensors").read_bytes() == (tmp_path / "want.safetensors").read_bytes()


# ---- what else is pickled with the tensors


class Net(torch.nn.Module):
    """What a detector has: buffers that do not persist, names, a module list, a circle back to itself."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.names, self.blocks = {0: "cat"}, torch.nn.ModuleList([torch.nn.Linear(4, 4), None])
        self.again, self.blocks[0].bias = self.blocks[0], None
        self.register_buffer("grid", torch.ones(2), persistent=False)
        self.register_buffer("anchors", None)
        self.__dict__["parent"] = [self]
        self.conv.__dict__["parent"] = self
        self.conv.register_forward_hook(self.hook)

    def hook(self, *arguments):
        pass


class Color(enum.Enum):
    RED = 1


class Settings(dict):
    pass


class Outer:
    class Inner:
        pass


def around():
    """What trainers put beside the tensors."""
    return {
        "args": argparse.Namespace(lr=1e-3, out=pathlib.Path("x")),
        "color": Color.RED,
        "date": datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
        "settings": Settings(a=1),
        "deque": collections.deque([1, 2]),
        "log": collections.defaultdict(functools.partial(list)),
        "nested": Outer.Inner(),
        "class": torch.nn.Linear,
        "score": np.float64(0.1),
        "array": np.zeros(3),
        "objects": np.array([1, None], dtype=object),
        "numpy_random": np.random.get_state(),
        "generator": np.random.default_rng(1),
        "random": torch.get_rng_state(),
        "exception": ValueError("x"),
    }


def converted(slipway, tmp_path, what, *flags, status=0, **how):
    torch.save(what, tmp_path / "c.pt", **how)
    done = slipway("convert", tmp_path / "c.pt", "-o", tmp_path / "c.safetensors", *flags, status=status)
    return done if status else (load_file(tmp_path / "c.safetensors"), done.stderr)


def same(got, want):
    assert set(got) == set(want)
    for name in want:
        assert equal(want[name], got[name]), name


FORMS = [{}, {"pickle_protocol": 4}, {"pickle_protocol": 5}, {"_use_new_zipfile_serialization": False}]


@pytest.mark.parametrize("how", FORMS, ids=str)
def test_whatever_lies_beside_the_tensors_is_passed_over(slipway, tmp_path, how):
    want = state()
    got, said = converted(slipway, tmp_path, {"model": want} | around(), "--key", "model", **how)
    same(got, want)
    assert "none of them made" in said and "argparse.Namespace" in said
    # Each alone, beside a state dict that is found by its usual name.
    for name, value in around().items():
        got, said = converted(slipway, tmp_path, {"state_dict": want, name: value}, **how)
        same(got, want)
        assert "the tensors of 'state_dict' are taken" in said


@pytest.mark.parametrize("how", FORMS, ids=str)
def test_a_module_gives_its_state_dict(slipway, tmp_path, how):
    net = Net()
    want = net.state_dict()
    assert "again.weight" in want and "grid" not in want
    same(converted(slipway, tmp_path, net, **how)[0], want)
    detector = {"model": net.half(), "ema": None, "epoch": 3, "date": datetime.datetime(2026, 1, 1)}
    same(converted(slipway, tmp_path, detector, **how)[0], net.state_dict())
    # The part first, whose parent is the whole.
    parts = {"head": net.conv, "model": net}
    same(converted(slipway, tmp_path, parts, "--key", "model", **how)[0], net.state_dict())
    same(converted(slipway, tmp_path, parts, "--key", "model.conv", **how)[0], net.conv.state_dict())
    for module in (
        torch.nn.LSTM(3, 4, 2),
        torch.nn.DataParallel(Net()),
        torch.fx.symbolic_trace(torch.nn.Linear(2, 2)),
    ):
        same(converted(slipway, tmp_path, module, **how)[0], module.state_dict())


def test_which_dict_is_meant(slipway, tmp_path):
    a, b = {"w": torch.ones(2)}, {"w": torch.zeros(2)}
    refused = converted(slipway, tmp_path, {"model": a, "ema": b}, status=3)
    assert "--key names one of those within: model, ema" in cause(refused.stderr)
    same(converted(slipway, tmp_path, {"model": a, "ema": b}, "--key", "ema")[0], b)
    same(converted(slipway, tmp_path, argparse.Namespace(net=Settings(a)), "--key", "net")[0], a)
    same(converted(slipway, tmp_path, [a, {"lr": 1}], "--key", "0")[0], a)
    optimizer = torch.optim.AdamW(torch.nn.Linear(2, 2).parameters())
    same(converted(slipway, tmp_path, {"weights": a, "optimizer": optimizer, "states": [optimizer.state_dict()]})[0], a)


def test_lists_and_bare_tensors(slipway, tmp_path):
    pair = collections.namedtuple("Pair", "x y")
    globals()["Pair"] = pair
    pair.__module__, pair.__qualname__ = __name__, "Pair"
    x, y = torch.ones(2), torch.arange(3)
    for what in ([x, y], (x, y), pair(x, y), {0: x, 1: y}):
        same(converted(slipway, tmp_path, what)[0], {"0": x, "1": y})
    same(converted(slipway, tmp_path, torch.nn.Parameter(x))[0], {"0": x})


@pytest.mark.parametrize("how", FORMS, ids=str)
def test_arrays_are_tensors(slipway, tmp_path, how):
    arrays = {
        "f32": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)),
        "swapped": np.arange(5, dtype=">i8"),
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 3), np.uint8),
        "flags": np.array([True, False]),
        "c64": np.array([1 + 2j], np.complex64),
        "u32": np.arange(3, dtype=np.uint32),
    }
    want = {
        name: torch.from_numpy(np.ascontiguousarray(a).reshape(a.shape).astype(a.dtype.newbyteorder("=")))
        for name, a in arrays.items()
    }
    same(converted(slipway, tmp_path, arrays, **how)[0], want)
    same(converted(slipway, tmp_path, {"state_dict": arrays, "epoch": np.int64(3)}, **how)[0], want)
    same(
        converted(slipway, tmp_path, {"w": torch.ones(2), "mean": arrays["f32"], "n": 3}, **how)[0],
        {"w": torch.ones(2), "mean": want["f32"]},
    )


class Image(torch.Tensor):
    pass


def test_tensors_of_subclasses(slipway, tmp_path):
    x = torch.arange(3.0)
    marked = torch.nn.Parameter(torch.arange(3.0))
    marked.note = pathlib.Path("x")
    got, _ = converted(slipway, tmp_path, {"image": x.as_subclass(Image), "marked": marked})
    same(got, {"image": x, "marked": x})


def test_a_torchao_subclass_is_its_parts(slipway, tmp_path):
    torchao = pytest.importorskip("torchao.quantization")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64))
    torchao.quantize_(model, torchao.Int8WeightOnlyConfig())
    got, said = converted(slipway, tmp_path, model.state_dict())
    weight = model[0].weight
    assert (
        equal(got["0.weight.qdata"], weight.qdata)
        and equal(got["0.weight.scale"], weight.scale)
        and equal(got["0.bias"], model[0].bias)
    )
    assert "is given as its parts" in said


def unreadable():
    eye = torch.eye(4)
    return {
        "coo": (eye.to_sparse(), "a sparse tensor (torch.sparse_coo)"),
        "csr": (eye.to_sparse_csr(), "a sparse tensor (torch.sparse_csr)"),
        "qint8": (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "(torch.qint8)"),
        "channels": (
            torch.quantize_per_channel(torch.ones(3, 2), torch.ones(3), torch.zeros(3), 0, torch.quint8),
            "(torch.quint8)",
        ),
        "meta": (torch.ones(3, device="meta"), "which has no values"),
        "nested": (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "a nested tensor"),
        "lazy": (torch.ones(2, dtype=torch.complex64).conj(), "lazy conj"),
        "packed": ((torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), torch.ones(1)), "it holds"),
    }


@pytest.mark.parametrize("how", [{}, {"_use_new_zipfile_serialization": False}], ids=str)
def test_what_is_not_read_is_named_and_excluded(slipway, tmp_path, how):
    for name, (value, what) in unreadable().items():
        held = {"w": torch.ones(2), "bad": value}
        refused = converted(slipway, tmp_path, held, status=4, **how)
        assert "'bad'" in cause(refused.stderr) and what in cause(refused.stderr) and "--exclude" in refused.stderr, (
            name
        )
        same(converted(slipway, tmp_path, held, "--exclude", "^bad$", **how)[0], {"w": torch.ones(2)})
        same(
            converted(slipway, tmp_path, {"model": {"w": torch.ones(2)}, "bad": value}, "--key", "model", **how)[0],
            {"w": torch.ones(2)},
        )
        assert slipway("diff", tmp_path / "c.pt", tmp_path / "c.pt", "--key", "model").returncode == 0


def test_packed_layers_are_named(slipway, tmp_path):
    model = torch.ao.quantization.quantize_dynamic(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)), {torch.nn.Linear}
    )
    for what in (model, model.state_dict()):
        refused = converted(slipway, tmp_path, what, status=4)
        assert "'0._packed_params._packed_params'" in cause(refused.stderr)
        same(
            converted(slipway, tmp_path, what, "--exclude", "^0")[0],
            {"1.weight": model[1].weight, "1.bias": model[1].bias},
        )


def test_weights_of_a_pickled_module(slipway, tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2))
    torch.export.save(torch.export.export(net, (torch.ones(1, 3),)), tmp_path / "m.pt2")
    other = torch.nn.Sequential(torch.nn.Linear(3, 2))
    torch.save({"model": other, "bad": torch.eye(2).to_sparse()}, tmp_path / "w.pt")
    slipway("convert", tmp_path / "m.pt2", "--weights", tmp_path / "w.pt", "-o", tmp_path / "o.pt2")
    same(torch.export.load(tmp_path / "o.pt2").state_dict, other.state_dict())
