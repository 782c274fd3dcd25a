"""--cache-dtype: decoders whose keys and values are kept in 8 bits, beside torch with a cache that quantizes in the
same way, and beside the float cache."""

import itertools
import json
import sys

import numpy as np
import onnxruntime
import pytest
import torch
from conftest import ROOT
from safetensors.torch import save_file
from torch import nn

sys.path[:0] = [str(ROOT / "samples" / "llm"), str(ROOT / "packaging" / "python")]
import slipway as library  # noqa: E402
from llm_sample_test import CONTEXT, NEW, exported, folders, torch_tokens  # noqa: E402, F401
from state_test import HEADS, LAYERS, WORDS, Fixed, Separate, Stacked, made  # noqa: E402
from transformers import AutoModelForCausalLM, DynamicCache  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
KINDS = ["int8", "fp8"]


def rounded(x, kind):
    """The rows of x in 8 bits and back."""
    wide = x.float()
    most = wide.abs().amax(-1, keepdim=True)
    if kind == "int8":
        scale = (most / 127).clamp(min=2.0**-126)
        return ((wide * (1 / scale)).round().clamp(-127, 127) * scale).to(x.dtype)
    scale = most.clamp(min=448 * 2.0**-126) / 448
    return ((wide / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale).to(x.dtype)


class RoundedCache(DynamicCache):
    kind = "int8"

    def update(self, keys, values, *arguments, **named):
        return super().update(rounded(keys, self.kind), rounded(values, self.kind), *arguments, **named)


def caches(folder, kind):
    """Bytes of codes and scales, for a token: all layers, keys and values."""
    config = AutoModelForCausalLM.from_pretrained(folder).config
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * config.num_key_value_heads * (width + 4)


def take_over(run, past, at, kind):
    """torch's cache becomes the library's, which differs by single codes."""
    at_name = {state.name: i for i, state in enumerate(run.states)}
    for name in (n for n in at_name if f"{n}_scale" in at_name):
        codes = torch.from_numpy(run.get_state(at_name[name]).view(np.int8))
        codes = codes.float() if kind == "int8" else codes.view(torch.float8_e4m3fn).float()
        numbers = (codes * torch.from_numpy(run.get_state(at_name[f"{name}_scale"])))[:, :, :at]
        layer = past.layers[int(name[-1])]
        what = "keys" if "key" in name else "values"
        theirs = getattr(layer, what)
        step = theirs.abs().amax(-1, keepdim=True) * (1 / 127 if kind == "int8" else 1 / 14)
        assert ((numbers - theirs).abs() <= 1.01 * step).all()
        assert ((numbers - theirs).abs() > 0.02 * step).float().mean() < 5e-3
        setattr(layer, what, numbers)


CASES = [
    *itertools.product(("qwen3", "llama"), (torch.float32,), ("static", "growing"), KINDS),
    ("gemma2", torch.float32, "static", "int8"),  # whose attention is written out
    ("gemma3", torch.float32, "static", "fp8"),
    ("gemma3window", torch.float32, "growing", "int8"),
    ("mixtral", torch.float32, "static", "int8"),
    ("llama", torch.bfloat16, "static", "int8"),
]


@pytest.mark.parametrize("family,dtype,cache,kind", CASES, ids=["-".join(map(str, c)) for c in CASES])
def test_tokens(slipway, folders, tmp_path, family, dtype, cache, kind):  # noqa: F811
    folder = folders(family, dtype)
    program = exported(folder, cache)
    path = tmp_path / "m.so"
    done = slipway("convert", program, "--weights", folder, "--state", "auto", "--cache-dtype", kind, "-o", path)
    tokens = caches(folder, kind) * (1 if cache == "growing" else CONTEXT)
    assert f"4 caches are {kind} with a scale a row, {tokens} bytes" in done.stderr
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    run, past = library.load(path, 2), RoundedCache()
    past.kind = kind
    prompt, _ = torch_tokens(folder, None)
    new, at, errors = prompt, 0, []
    for _ in range(NEW):
        positions = (np.arange(at, at + len(new)),) if cache == "static" else ()
        got = run(np.array([new]), *positions)[0][0, -1].astype(np.float32)
        with torch.no_grad():
            want = model(torch.tensor([new]), past_key_values=past, use_cache=True).logits[0, -1].float().numpy()
        errors.append(np.abs(got - want).max() / np.abs(want).max())
        at += len(new)
        new = [int(want.argmax())]
        if dtype == torch.float32 and "window" not in family:
            take_over(run, past, at, kind)
    # In the step where a number is half-way between two codes, sums in another order may choose the other; so may
    # bf16's roundings, and the steps behind it where the caches are not those of the library.
    strict = dtype == torch.float32 and "window" not in family
    assert np.median(errors) < (1e-5 if strict else 1e-3 if dtype == torch.float32 else 4e-2), errors
    assert max(errors) < (1e-2 if dtype == torch.float32 else 1e-1), errors
    report = json.loads(slipway("inspect", path, "--json").stdout)["programs"][0]
    states = {row["name"]: row for row in report["updates"]}
    codes = [name for name in states if f"{name}_scale" in states]
    assert len(codes) == 4
    for name in codes:
        assert states[name]["dtype"] == ("i8" if kind == "int8" else "f8e4m3fn")
        assert states[f"{name}_scale"]["dtype"] == "f32" and states[f"{name}_scale"]["shape"][-1] in (1, "1")


class Attention(nn.Module):
    """Keys and values are given as they are, so that the rounding of them is all that happens."""

    def __init__(self, context=40, width=16):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, HEADS, context, width))
        self.register_buffer("values", torch.zeros(1, HEADS, context, width))

    def forward(self, q, k, v, at):
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        mask = torch.arange(self.keys.shape[2])[None] <= at[:, None]
        return nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask, scale=0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_error_is_bounded(slipway, tmp_path, kind):
    """An element is off by at most e of its row's greatest: half a step of 1/127; half of a unit of 2^-3 below the
    greatest power of two, 2^8 of 448. A score is then off by at most d = 0.25 · |q|₁ · e · max |k|, a weight by a
    factor of at most exp(2d), and a result by (exp(2d) - 1) · max |v| + e · max |v|."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, HEADS, 30, 16)
    at = torch.arange(30)
    torch.export.save(torch.export.export(Attention().eval(), (q, k, v, at)), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "--state", "auto", "--cache-dtype", kind, "-o", tmp_path / "m.so")
    got = torch.from_numpy(library.load(tmp_path / "m.so", 1)(q.numpy(), k.numpy(), v.numpy(), at.numpy())[0])
    exact, same = Attention()(q, k, v, at), Attention()(q, rounded(k, kind), rounded(v, kind), at)
    assert (got - same).abs().max() <= 1e-6 * same.abs().max()
    e = 0.5 / 127 if kind == "int8" else 16 / 448
    d = 0.25 * q.abs().sum(-1, keepdim=True) * e * k.abs().amax()
    assert ((got - exact).abs() <= (torch.expm1(2 * d) + e) * v.abs().amax()).all()
    assert (got - exact).abs().max() > 0


def test_rows_of_zeros_and_of_what_is_not_finite(slipway, tmp_path):
    q, k, v = torch.randn(3, 1, HEADS, 4, 16)
    k[:, :, 1], v[:, :, 2] = 0, 1e-40
    torch.export.save(torch.export.export(Attention().eval(), (q, k, v, torch.arange(4))), tmp_path / "m.pt2")
    for kind in KINDS:
        slipway("convert", tmp_path / "m.pt2", "--state", "auto", "--cache-dtype", kind, "-o", tmp_path / f"{kind}.so")
        run = library.load(tmp_path / f"{kind}.so", 1)

        def call(k, v):
            run.reset_state()
            return torch.from_numpy(run(q.numpy(), k.numpy(), v.numpy(), np.arange(4))[0])

        want = Attention()(q, rounded(k, kind), rounded(v, kind), torch.arange(4))
        assert (call(k, v) - want).abs().max() <= 1e-6
        for value in (float("nan"), float("inf")):
            odd = v.clone()
            odd[0, 0, 1, 3] = value
            got = call(k, odd)
            assert not got[0, 0, 1:, 3].isfinite().any() and got[0, 1].isfinite().all()


@pytest.mark.parametrize("how", ["index_copy", "index_put"])
@pytest.mark.parametrize("kind", KINDS)
def test_buffers(slipway, tmp_path, how, kind):
    torch.manual_seed(0)
    at = torch.tensor([3])
    model = Fixed(how).eval()
    torch.export.save(torch.export.export(model, (torch.zeros(1, 1, dtype=torch.long), at)), tmp_path / "m.pt2")
    for name, flags in (("f.so", ()), ("m.so", ("--cache-dtype", kind))):
        slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / name, "--state", "auto", *flags)
    run, floats = library.load(tmp_path / "m.so", 1), library.load(tmp_path / "f.so", 1)
    assert len(run.states) == 2 * len(floats.states) == 4 * LAYERS
    for i in range(20):
        ids, at = np.random.randint(0, WORDS, (1, 1)), np.array([i])
        got, want = run(ids, at)[0], floats(ids, at)[0]
    assert 0 < np.abs(got - want).max() <= 0.05 * np.abs(want).max()


@pytest.mark.parametrize("kind", [Stacked, Separate])
def test_growing(slipway, tmp_path, kind):
    model = made(kind, tmp_path)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--state", "auto", "--cache-dtype", "int8")
    run, past = library.load(tmp_path / "m.so", 1), model.empty()
    assert len(run.states) == 2 * len(past)
    tokens, at = torch.randint(0, WORDS, (1, 90)), 0
    for count in (4, *[1] * 70, 3, 13):  # beyond the room that there is first
        ids = tokens[:, at : at + count]
        want, *past = model(ids, *past)
        got = torch.from_numpy(run(ids.numpy())[0])
        assert (got - want.detach()).abs().max() <= 0.05 * want.abs().max()
        at += count
        assert all(run.state_length(i) == at for i in range(len(run.states)))


@pytest.mark.parametrize("kind", KINDS)
def test_onnx(slipway, folders, tmp_path, kind):  # noqa: F811
    folder = folders("llama")
    program = exported(folder, "static")
    slipway("convert", program, "--weights", folder, "--state", "io", "--cache-dtype", kind, "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    names, outputs = [i.name for i in session.get_inputs()], [o.name for o in session.get_outputs()]
    element = "tensor(int8)" if kind == "int8" else "tensor(float8e4m3fn)"
    types = {i.name: i.type for i in session.get_inputs() + session.get_overridable_initializers()}
    assert types["state_in.key_cache_0"] == element and types["state_in.key_cache_0_scale"] == "tensor(float)"
    model, past = AutoModelForCausalLM.from_pretrained(folder).eval(), RoundedCache()
    past.kind = kind
    new, at, state, errors = torch_tokens(folder, None)[0], 0, {}, []
    for _ in range(NEW):
        feeds = {names[0]: value(np.array([new])), names[1]: value(np.arange(at, at + len(new)))} | state
        results = dict(zip(outputs, session.run_with_ort_values(None, feeds)))
        state = {n.replace("state_out", "state_in"): v for n, v in results.items() if n.startswith("state_out")}
        got = next(v for n, v in results.items() if n not in state and not n.startswith("state_out")).numpy()[0, -1]
        with torch.no_grad():
            want = model(torch.tensor([new]), past_key_values=past, use_cache=True).logits[0, -1].numpy()
        errors.append(np.abs(got - want).max() / np.abs(want).max())
        at += len(new)
        new = [int(want.argmax())]
    assert np.median(errors) < 1e-5 and max(errors) < 1e-2


def test_run(slipway, folders, tmp_path):  # noqa: F811
    """Rates, and a library without bytes for caches that begin as zeros."""
    folder = folders("llama")
    program = exported(folder, "static")
    slipway("convert", program, "--weights", folder, "--state", "auto", "--cache-dtype", "fp8", "-o", tmp_path / "m.so")
    save_file({"input.0": torch.tensor([[5, 6, 7]]), "input.1": torch.arange(3)}, tmp_path / "prompt")
    save_file({"input.0": torch.tensor([[5]]), "input.1": torch.tensor([3])}, tmp_path / "token")
    ask = ("run", tmp_path / "m.so", "--inputs", tmp_path / "prompt", "--decode", tmp_path / "token")
    report = json.loads(slipway(*ask, "--outputs", tmp_path / "out", "--repeat", 3, "--json").stdout)
    assert report["prefill"]["tokens"] == 3 and report["decode"]["tokens"] == 3
    weights = json.loads(slipway("inspect", tmp_path / "m.so", "--json").stdout)["programs"][0]["weights"]
    assert not any("cache" in w["name"] for w in weights)


class Read(Fixed):
    """Gives the keys back, too."""

    def forward(self, ids, at):
        return super().forward(ids, at), self.k0 + 1


def test_refusals(slipway, tmp_path):
    example = torch.zeros(1, 1, dtype=torch.long), torch.tensor([3])
    torch.export.save(torch.export.export(Read("index_put").eval(), example), tmp_path / "m.pt2")
    out = ("-o", tmp_path / "m.so")
    done = slipway("convert", tmp_path / "m.pt2", *out, "--state", "auto", "--cache-dtype", "int8")
    assert "cache 'k0' stays f32: aten.add.Tensor reads" in done.stderr and "3 caches are int8" in done.stderr
    done = slipway("convert", tmp_path / "m.pt2", *out, "--cache-dtype", "int8", status=2)
    assert "--cache-dtype without --state" in done.stderr and "--state auto" in done.stderr
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--cache-dtype", "int8", status=2)
    assert "--state io" in done.stderr
    done = slipway("convert", tmp_path / "m.pt2", *out, "--state", "auto", "--cache-dtype", "int4", status=2)
    assert "int8|fp8" in done.stderr
    full = Fixed("index_put").eval()
    for buffer in full.buffers():
        buffer.fill_(1)
    torch.export.save(torch.export.export(full, example), tmp_path / "full.pt2")
    done = slipway("convert", tmp_path / "full.pt2", *out, "--state", "auto", "--cache-dtype", "int8", status=4)
    assert (
        "'k0' stays f32: it begins with other numbers than zeros" in done.stderr
        and "leave --cache-dtype out" in done.stderr
    )
