"""slipway.compile() and torch.compile(backend="slipway"): what the model gives, at several sizes, with its structure;
the cache; what is not taken runs in eager mode and says so."""

import os
import subprocess
import sys
import warnings

import pytest
import torch
import transformers
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch._dynamo.reset()
    return tmp_path / "cache" / "slipway"


def close(got, wanted, **tolerance):
    torch.testing.assert_close(got, wanted, check_stride=False, **{"rtol": 1e-4, "atol": 1e-4, **tolerance})


class Structured(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 8)

    def forward(self, x, pair, *, scale=2, mask=None):
        y = self.fc(x) * scale
        return {"y": y, "n": x.shape[0], "none": None, "scale": scale}, [pair["a"] - pair["b"], y.argmax(-1)]


def test_structure_and_sizes(library):
    module = Structured().eval()
    x, pair = torch.randn(3, 16), {"a": torch.randn(3).bfloat16(), "b": torch.randn(3).bfloat16()}
    compiled = library.compile(module, (x, pair), {"scale": 3, "mask": None}, dynamic=True)
    assert "slipway.Compiled" in repr(compiled) and "float32[" in repr(compiled)
    for n in (3, 7):
        x, pair = torch.randn(16, n).t(), {"a": torch.randn(n).bfloat16(), "b": torch.randn(n).bfloat16()}
        got, wanted = compiled(x, pair, mask=None, scale=3), module(x, pair, scale=3, mask=None)
        assert isinstance(got[0]["n"], int) and got[0]["none"] is None and got[1][0].dtype == torch.bfloat16
        close(got, wanted)
    kept = compiled(x, pair, scale=3, mask=None)[0]["y"]
    before = kept.clone()
    compiled(x + 1, pair, scale=3, mask=None)
    assert torch.equal(kept, before)  # each call has results of its own
    with pytest.raises(library.SlipwayError, match="scale = 3"):
        compiled(x, pair, scale=4, mask=None)
    with pytest.raises(library.SlipwayError, match="structure"):
        compiled(x)
    with pytest.raises(library.ModelError):
        compiled(torch.randn(3, 15), pair, scale=3, mask=None)


def test_arguments_of_other_libraries(library):
    compiled = library.compile(nn.Linear(4, 2), (torch.randn(3, 4),))
    x = torch.randn(3, 4)
    close(compiled(x.numpy()), compiled(x))


def test_programs_and_transformers(library):
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=99
    )
    module = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(0, 99, (2, 7))
    compiled = library.compile(module, kwargs={"input_ids": ids, "use_cache": False}, dynamic=True)
    for size in ((2, 7), (3, 12)):
        ids = torch.randint(0, 99, size)
        with torch.no_grad():
            wanted = module(input_ids=ids, use_cache=False)
        got = compiled(input_ids=ids, use_cache=False)
        assert type(got) is type(wanted)
        close(got.logits, wanted.logits, rtol=1e-3)
    linear = nn.Linear(4, 2).eval()
    program = torch.export.export(linear, (torch.randn(3, 4),))
    x = torch.randn(6, 4)
    close(library.compile(program, dynamic=True)(x), linear(x))


def test_cache(library, cache, monkeypatch):
    module, x = nn.Linear(8, 4), torch.randn(2, 8)
    first = library.compile(module, (x,))
    files = list(cache.iterdir())
    assert [first.path] == files and cache.stat().st_mode & 0o777 == 0o700
    written = files[0].stat().st_ino
    assert library.compile(module, (x,)).path == first.path and first.path.stat().st_ino == written
    assert library.compile(module, (torch.randn(2, 8),)).path == first.path  # sample values are no part of it
    others = {library.compile(module, (x,), exact_casts=True).path, library.compile(module, (x,), dynamic=True).path}
    with torch.no_grad():
        module.weight.add_(1)
    changed = library.compile(module, (x,))
    others.add(changed.path)
    assert len(others) == 3 and first.path not in others
    close(changed(x), module(x))
    assert not torch.equal(first(x), changed(x))

    # The oldest make room; what runs goes on.
    os.utime(first.path, ns=(0, 0))
    monkeypatch.setenv("SLIPWAY_CACHE_BYTES", str(2 * changed.path.stat().st_size))
    library.compile(module, (torch.randn(5, 8),))
    assert not first.path.exists() and len(list(cache.iterdir())) <= 2
    first(x)

    monkeypatch.setenv("SLIPWAY_CACHE_BYTES", "many")
    with pytest.raises(library.SlipwayError, match="SLIPWAY_CACHE_BYTES"):
        library.compile(module, (torch.randn(6, 8),))


def test_without_cache(library, cache):
    compiled = library.compile(nn.Linear(8, 4), (torch.randn(2, 8),), cache=False)
    assert not cache.exists() and compiled.path.exists()
    path = compiled.path
    del compiled
    assert not path.exists()


def test_a_folder_that_others_write_to(library, cache):
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with pytest.warns(UserWarning, match="nothing is cached"):
        library.compile(nn.Linear(8, 4), (torch.randn(2, 8),))
    assert not list(cache.iterdir())


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


def test_what_is_not_compiled(library):
    x = torch.randn(2)
    for model, options, said in (
        (Counting(), {}, "has a state.*calls"),
        (nn.Linear(2, 2), {"state": "auto"}, "state is not for"),
        ("m.pt2", {}, "str is no model"),
    ):
        with pytest.raises(library.SlipwayError, match=said) as e:
            library.compile(model, (x,), **options)
        assert e.value.diagnostics[-1].help


# ---- torch.compile


def compiled_by_name(module, **options):
    return torch.compile(module, backend="slipway", options={"threads": 1, **options})


@pytest.mark.filterwarnings("error:slipway")
def test_backend(library):
    module = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 4)).eval()
    fast = compiled_by_name(module)
    with torch.no_grad():
        for n in (3, 5, 8, 1):
            x = torch.randn(n, 16)
            close(fast(x), module(x))
        module[0].weight.mul_(2)  # a later change counts
        close(fast(x), module(x))
        module.load_state_dict({k: v + 0.5 for k, v in module.state_dict().items()})
        close(fast(x), module(x))
    torch._dynamo.reset()
    with torch.inference_mode():
        close(compiled_by_name(module)(x), module(x))


@pytest.mark.filterwarnings("error:slipway")
def test_backend_with_numbers(library):
    class Scaled(nn.Module):
        def forward(self, x, k, f):
            return (x * k + f).reshape(-1), x.shape[0]

    module = Scaled()
    fast = compiled_by_name(module)
    with torch.no_grad():
        for n, k, f in ((3, 2, 0.5), (3, 5, 0.5), (4, 6, 1.5), (5, 7, 1.5)):
            x = torch.randn(n, 4)
            close(fast(x, k, f), module(x, k, f))


@pytest.mark.filterwarnings("error:slipway")
def test_backend_with_transformers(library):
    bert = transformers.BertModel(
        transformers.BertConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=99
        )
    ).eval()
    vit = transformers.ViTModel(
        transformers.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            image_size=32,
            patch_size=8,
        )
    ).eval()
    with torch.no_grad():
        fast = compiled_by_name(bert)
        for size in ((2, 7), (3, 11), (4, 5)):
            ids = torch.randint(0, 99, size)
            close(fast(ids).last_hidden_state, bert(ids).last_hidden_state, rtol=1e-3)
        fast = compiled_by_name(vit)
        for n in (2, 3):
            x = torch.randn(n, 3, 32, 32)
            close(fast(x).last_hidden_state, vit(x).last_hidden_state, rtol=1e-3)


class Unsupported(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x).abs().sum()


def test_backend_falls_back(library):
    x = torch.randn(4, 4)
    fast = compiled_by_name(Unsupported())
    with torch.no_grad(), pytest.warns(UserWarning, match="runs in eager mode.*eig"):
        close(fast(x), Unsupported()(x))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        close(fast(x), Unsupported()(x))  # once for a graph

    module = nn.Linear(4, 4)
    with pytest.warns(UserWarning, match="gradients are on"):
        y = compiled_by_name(module)(x)
    y.sum().backward()
    assert module.weight.grad is not None

    counting, other = Counting(), Counting()
    fast = compiled_by_name(counting)
    with torch.no_grad(), pytest.warns(UserWarning, match="runs in eager mode: .*has a state"):
        for _ in range(3):
            close(fast(x), other(x))


def test_backend_in_two_graphs(library):
    class Broken(nn.Module):
        def forward(self, x):
            y = x * 2
            torch._dynamo.graph_break()
            return y.relu() + 1

    x = torch.randn(5)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="slipway")
        close(compiled_by_name(Broken())(x), Broken()(x))


ANOTHER = """
import sys, torch
m = torch.nn.Linear(8, 4)
with torch.no_grad():
    m.weight.fill_(0.5), m.bias.fill_(1)
    assert torch.compile(m, backend="slipway")(torch.ones(2, 8)).tolist() == [[5.0] * 4] * 2
"""


def test_another_process(library, cache):
    """By the entry point alone, and with the library of the process before."""
    site = os.path.dirname(os.path.dirname(library.__file__))
    seen = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "error:slipway", "-c", ANOTHER],
            env=os.environ | {"PYTHONPATH": site},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        seen.append([(f.name, f.stat().st_ino) for f in cache.iterdir()])
    assert len(seen[0]) == 1 and seen[0] == seen[1]
