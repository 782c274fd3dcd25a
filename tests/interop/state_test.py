"""State in native libraries (convert --state): decoders token by token beside torch, whose cache is passed in and out,
or is a buffer that the program updates; reset, several handles, limits, and what is refused."""

import json
import re
import sys

import pytest
import torch
from conftest import ROOT
from json_schema import conform
from safetensors.torch import load_file, save_file
from torch import nn
from torch.export import Dim, export

sys.path.insert(0, str(ROOT / "samples" / "native"))
from model import Model  # noqa: E402

LAYERS, WIDE, HEADS, DEEP, WORDS = 2, 32, 2, 16, 50


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDE)
        self.qkv = nn.ModuleList(nn.Linear(WIDE, 3 * WIDE) for _ in range(LAYERS))
        self.out = nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in range(LAYERS))
        self.head = nn.Linear(WIDE, WORDS)

    def split(self, i, x):
        b, t, _ = x.shape
        return (y.view(b, t, HEADS, DEEP).transpose(1, 2) for y in self.qkv[i](x).chunk(3, -1))

    def attend(self, i, x, q, k, v, mask):
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out[i](y.transpose(1, 2).reshape(x.shape))


class Stacked(Decoder):
    """One tensor of all layers' keys and values."""

    def forward(self, ids, past):
        x, new = self.words(ids), []
        t, p = ids.shape[1], past.shape[4]
        mask = torch.arange(p + t)[None] <= torch.arange(t)[:, None] + p
        for i in range(LAYERS):
            q, k, v = self.split(i, x)
            k, v = torch.cat([past[i, 0], k], 2), torch.cat([past[i, 1], v], 2)
            new.append(torch.stack([k, v]))
            x = self.attend(i, x, q, k, v, mask)
        return self.head(x), torch.stack(new)

    @staticmethod
    def empty():
        return [torch.zeros(LAYERS, 2, 1, HEADS, 0, DEEP)]


class Separate(Decoder):
    """A tensor for the keys and one for the values of each layer."""

    def forward(self, ids, *past):
        x, new = self.words(ids), []
        t, p = ids.shape[1], past[0].shape[2]
        mask = torch.arange(p + t)[None] <= torch.arange(t)[:, None] + p
        for i in range(LAYERS):
            q, k, v = self.split(i, x)
            k, v = torch.cat([past[2 * i], k], dim=-2), torch.cat([past[2 * i + 1], v], dim=-2)
            new += [k, v]
            x = self.attend(i, x, q, k, v, mask)
        return (self.head(x), *new)

    @staticmethod
    def empty():
        return [torch.zeros(1, HEADS, 0, DEEP) for _ in range(2 * LAYERS)]


class EmptyFirst(Separate):
    """Each past begins with an empty tensor of one dim, as in transformers' DynamicCache."""

    def forward(self, ids, *past):
        return super().forward(ids, *(torch.cat([torch.zeros(0), p], dim=-2) for p in past))


class Fixed(Decoder):
    """Caches of fixed size, buffers that are written in one of three ways."""

    def __init__(self, how, size=24):
        super().__init__()
        self.how, self.size = how, size
        for i in range(LAYERS):
            for name in "kv":
                self.register_buffer(f"{name}{i}", torch.zeros(1, HEADS, size, DEEP))

    def forward(self, ids, at):
        x = self.words(ids)
        mask = torch.arange(self.size)[None] <= at[:, None]
        for i in range(LAYERS):
            q, k, v = self.split(i, x)
            for cache, new in ((self.get_buffer(f"k{i}"), k), (self.get_buffer(f"v{i}"), v)):
                if self.how == "index_copy":
                    cache.index_copy_(2, at, new)
                elif self.how == "index_put":
                    cache[:, :, at] = new
                else:
                    cache.copy_(torch.where((torch.arange(self.size) == at)[:, None], new, cache))
            x = self.attend(i, x, q, self.get_buffer(f"k{i}"), self.get_buffer(f"v{i}"), mask)
        return self.head(x)


def made(kind, folder, limit=None):
    torch.manual_seed(0)
    model = kind().eval()
    past = [torch.zeros(*(5 if s == 0 else s for s in p.shape)) for p in model.empty()]
    length = Dim("length", max=limit) if limit else Dim.DYNAMIC
    tokens = torch.zeros(1, 3, dtype=torch.long)
    shapes = [{p.shape.index(5): length} for p in past]
    dynamic = ({1: Dim.DYNAMIC}, tuple(shapes)) if issubclass(kind, Separate) else ({1: Dim.DYNAMIC}, *shapes)
    torch.export.save(export(model, (tokens, *past), dynamic_shapes=dynamic, strict=False), folder / "m.pt2")
    return model


def same(got, want):
    want = want.detach()
    return (torch.from_numpy(got) - want).abs().max() <= 1e-5 * want.abs().max()


@pytest.mark.parametrize("kind", [Stacked, Separate, EmptyFirst])
def test_token_by_token(slipway, tmp_path, kind):
    model = made(kind, tmp_path)
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--state", "auto")
    states = len(model.empty())
    assert done.stderr.count("state: input") == states
    library, other = Model(tmp_path / "m.so"), Model(tmp_path / "m.so")
    assert (
        [name for name, _, _ in library.inputs] == ["ids"]
        and len(library.outputs) == 1
        and len(library.states) == states
    )
    tokens = torch.randint(0, WORDS, (1, 24))
    for again in range(2):
        past, at = model.empty(), 0
        assert library.state_length() == 0
        for count in (4, *[1] * 16, 3, 1):  # a prompt, tokens, a few at once; more than there is room for at first
            ids = tokens[:, at : at + count]
            want, *past = model(ids, *past)
            assert same(library(ids.numpy())[0], want), at
            at += count
            assert [library.state_length(i) for i in range(states)] == [at] * states
        for i in range(states):
            assert same(library.get_state(i), past[i])
        if again == 0:  # another handle knows nothing of this one
            assert other.state_length() == 0
            assert same(other(tokens[:, :2].numpy())[0], model(tokens[:, :2], *model.empty())[0])
        library.reset_state()
    assert other.state_length() == 2
    # Back to where it was: the last tokens are other ones then.
    short = [p[..., :7, :] for p in past]
    for i, p in enumerate(short):
        library.set_state(p.detach().numpy(), i)  # of any strides
    want, *past = model(tokens[:, :2], *short)
    assert same(library(tokens[:, :2].numpy())[0], want)
    library.truncate_state(7)
    assert same(library(tokens[:, :2].numpy())[0], want)
    with pytest.raises(RuntimeError, match="cannot be cut to 10"):
        library.truncate_state(10)
    with pytest.raises(RuntimeError, match="another dtype or other sizes"):
        library.set_state(short[0].detach().double().numpy())
    library.close(), other.close()


def test_beyond_the_programs_limit(slipway, tmp_path):
    made(Stacked, tmp_path, limit=9)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--state", "auto")
    library = Model(tmp_path / "m.so")
    ids = torch.randint(0, WORDS, (1, 10)).numpy()
    first = library(ids)[0]
    with pytest.raises(RuntimeError, match=r"past\.length.* 10, the program takes .* to 9"):
        library(ids)
    assert library.state_length() == 10
    library.reset_state()
    assert (library(ids)[0] == first).all()
    with pytest.raises(RuntimeError):  # an index outside: what has grown stays
        library.truncate_state(3)
        library(ids * 0 + WORDS)
    assert library.state_length() == 3
    library.close()


@pytest.mark.parametrize("how", ["index_copy", "index_put", "where"])
def test_buffers(slipway, tmp_path, how):
    torch.manual_seed(0)
    model = Fixed(how).eval()
    at = torch.tensor([3])
    torch.export.save(export(model, (torch.zeros(1, 1, dtype=torch.long), at)), tmp_path / "m.pt2")
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "d.so")
    assert "SW2010" in done.stderr  # dropped
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--state", "auto")
    assert "SW2010" not in done.stderr and done.stderr.count("is kept and updated by the library") == 2 * LAYERS
    library, other = Model(tmp_path / "m.so"), Model(tmp_path / "m.so")
    assert {name for name, _, _ in library.states} == {f"{name}{i}" for i in range(LAYERS) for name in "kv"}
    tokens = torch.randint(0, WORDS, (20,))
    for _ in range(2):
        for name in model.state_dict():
            if name[0] in "kv":
                model.get_buffer(name).zero_()
        for i in range(20):
            ids, at = tokens[i].reshape(1, 1), torch.tensor([i])
            assert same(library(ids.numpy(), at.numpy())[0], model(ids, at)), i
        for i, (name, _, _) in enumerate(library.states):
            assert same(library.get_state(i), model.get_buffer(name)) and library.state_length(i) == -1
        library.reset_state()
        assert all((library.get_state(i) == 0).all() for i in range(2 * LAYERS))
    assert (other.get_state(1) == 0).all()
    # A run that fails on its way says so until the state is reset.
    with pytest.raises(RuntimeError):
        library(torch.tensor([[WORDS]]).numpy(), at.numpy())
    with pytest.raises(RuntimeError, match="reset"):
        library(tokens[:1].reshape(1, 1).numpy(), at.numpy())
    library.reset_state()
    library(tokens[:1].reshape(1, 1).numpy(), at.numpy())
    library.close(), other.close()


class Swap(nn.Module):
    """Each buffer becomes the other; results are of both, before and after."""

    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.arange(6.0).reshape(2, 3).t())
        self.register_buffer("b", torch.zeros(3, 2))
        self.register_buffer("n", torch.zeros((), dtype=torch.long))
        self.register_buffer("turned", torch.arange(9.0).reshape(3, 3))
        self.register_buffer("rolled", torch.arange(4.0))

    def forward(self, x):
        old = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(old)
        self.b[0] += x
        self.b[1:] = self.b[1:] * 2
        self.n += 1
        self.turned.copy_(self.turned.t() * 2)
        before = self.rolled + 1
        self.rolled[:-1] = self.rolled[1:].clone()
        self.rolled[-1] = x[0]
        return old, self.a + self.b, self.n.clone(), before, self.rolled * 2


def test_buffers_that_depend_on_each_other(slipway, tmp_path):
    model = Swap()
    torch.export.save(export(model, (torch.ones(2),)), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--state", "auto")
    library = Model(tmp_path / "m.so")
    model = Swap()
    for i in range(5):
        x = torch.randn(2)
        for got, want in zip(library(x.numpy()), model(x)):
            assert (torch.from_numpy(got) == want).all(), i
    for i, (name, _, _) in enumerate(library.states):
        assert (torch.from_numpy(library.get_state(i)) == model.get_buffer(name)).all()
    library.close()


def test_command_line(slipway, tmp_path):
    model = made(Stacked, tmp_path)
    program, library = tmp_path / "m.pt2", tmp_path / "m.so"
    outputs = [o["name"] for o in json.loads(slipway("inspect", program, "--json").stdout)["programs"][0]["outputs"]]
    slipway("convert", program, "-o", library, "--state", f"past={outputs[1]}")
    shown = slipway("inspect", library).stdout
    assert re.search(r"updates\n +past .* state\n", shown) and re.search(
        rf"slipway\.state\.past +{outputs[1]}\n", shown
    )
    report = json.loads(slipway("inspect", library, "--json").stdout)
    conform(report, "inspect")
    assert [(u["name"], u["kind"]) for u in report["programs"][0]["updates"]] == [("past", "state")]
    assert "0: past: f32" in slipway("inspect", "--header", library).stdout
    assert "keeps past between runs" in slipway("verify", program, library, status=4).stderr
    tokens = torch.tensor([[7]])
    save_file({"input.0": tokens}, tmp_path / "in")
    slipway("run", library, "--inputs", tmp_path / "in", "--outputs", tmp_path / "out", "--repeat", "4")
    past = model.empty()
    for _ in range(4):
        want, *past = model(tokens, *past)
    assert same(load_file(tmp_path / "out")["output.0"].numpy(), want)
    for flag, status, text in [
        ("past=nothing", 2, "no output is named 'nothing'"),
        (f"old={outputs[1]}", 2, "no input is named 'old'"),
        ("past=", 2, "is not drop"),
        ("keep", 2, "keep"),
        ("io", 2, "is for ONNX"),
        (f"past={outputs[0]}", 4, "is not input 'past' with something behind it"),
        (f"ids={outputs[1]}", 4, "is not input 'ids' with something behind it"),
    ]:
        done = slipway("convert", program, "-o", tmp_path / "no.so", "--state", flag, status=status)
        assert text in done.stderr, (flag, done.stderr)
    assert "--state io" in slipway("convert", program, "-o", tmp_path / "no.onnx", "--state", "auto", status=2).stderr
    torch.export.save(export(nn.Linear(3, 3), (torch.ones(2, 3),)), program)
    assert "no state" in slipway("convert", program, "-o", tmp_path / "no.so", "--state", "auto", status=4).stderr
    assert not (tmp_path / "no.so").exists()


class Odd(nn.Module):
    """Outputs that are not the input with something behind it, each in its own way."""

    def forward(self, past, x):
        first, second = torch.cat([past[0], x], 0), torch.cat([past[1], x], 0)
        return (
            torch.stack([second, first]),
            torch.stack([torch.cat([x, past[0]], 0), second]),
            torch.cat([past, past[:, :1]], 1) + 1,
            torch.cat([past[:, 1:], x[None].expand(2, -1, -1)], 1),
            torch.stack([first, first]),
            torch.cat([past, past[:, :1]], 1),
        )


def test_what_only_looks_like_it(slipway, tmp_path):
    model, past, x = Odd(), torch.randn(2, 4, 3), torch.randn(2, 3)
    torch.export.save(
        export(model, (past, x), dynamic_shapes=({1: Dim.DYNAMIC}, None), strict=False), tmp_path / "m.pt2"
    )
    outputs = [
        o["name"] for o in json.loads(slipway("inspect", tmp_path / "m.pt2", "--json").stdout)["programs"][0]["outputs"]
    ]
    for name in outputs[:5]:
        slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--state", f"past={name}", status=4)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--state", f"past={outputs[5]}")
    library = Model(tmp_path / "m.so")
    library.set_state(past.numpy())
    for _ in range(3):
        want = model(past, x)
        for got, w in zip(library(x.numpy()), want[:5]):
            assert (torch.from_numpy(got) == w).all()
        past = want[5]
    assert (torch.from_numpy(library.get_state()) == past).all()
    library.close()
