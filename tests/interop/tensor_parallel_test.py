"""Splits for tensor-parallel ranks: torch.cat of the ranks' parts is the tensor."""

import json
import re

import pytest
import torch
from diagnostics import cause
from safetensors.torch import load_file, save_file

RULES = [
    {"match": r"\.(q|k|v|up)\.(weight|bias)$", "split": "column"},
    {"match": r"\.(o|down)\.weight$", "split": "row"},
    {"match": r"embed", "split": "column"},
    {"match": r"norm|\.o\.bias", "split": "replicate"},
]


def state():
    generator = torch.Generator().manual_seed(2)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    return {
        "embed.weight": normal(32, 12),
        "l.0.q.weight": normal(24, 12),
        "l.0.q.bias": normal(24),
        "l.0.o.weight": normal(12, 24),
        "l.0.o.bias": normal(12),
        "l.0.up.weight": normal(2048, 300).bfloat16(),
        "l.0.down.weight": normal(300, 4096).half(),
        "l.0.k.weight": normal(12, 24).t(),  # strided in the file
        "l.0.v.weight": normal(4, 3, 2, 2),
        "norm.weight": normal(12),
        "extra": torch.arange(5),
    }


def whole(name):
    return not any(s["split"] != "replicate" and re.search(s["match"], name) for s in RULES)


def convert(slipway, tmp_path, source, ranks, *more, rules=RULES, status=0):
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    done = slipway(
        "convert",
        source,
        "--tp",
        ranks,
        "--tp-rules",
        tmp_path / "rules.json",
        "-o",
        f"{tmp_path}/out/",
        *more,
        status=status,
    )
    files = sorted((tmp_path / "out").iterdir()) if (tmp_path / "out").exists() else []
    return done, files


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("form", ["pt", "safetensors"])
def test_round_trip(slipway, tmp_path, ranks, form):
    want = state()
    source = tmp_path / f"in.{form}"
    torch.save(want, source) if form == "pt" else save_file({n: t.contiguous() for n, t in want.items()}, source)
    done, files = convert(slipway, tmp_path, source, ranks)
    assert "1 tensor that no rule matches is on every rank: extra" in done.stderr
    assert [f.name for f in files] == [f"rank-{i:05}-of-{ranks:05}.safetensors" for i in range(ranks)]
    parts = [load_file(f) for f in files]
    for name, tensor in want.items():
        held = [part[name] for part in parts]
        if whole(name):
            assert all(torch.equal(h, tensor) for h in held), name
            continue
        dim = 1 if ".o." in name or ".down." in name else 0
        assert all(h.shape[dim] == tensor.shape[dim] // ranks for h in held)
        assert torch.equal(torch.cat(held, dim), tensor), name


def test_casts_on_the_way(slipway, tmp_path):
    save_file({"l.0.o.weight": state()["l.0.o.weight"]}, tmp_path / "in.safetensors")
    _, files = convert(slipway, tmp_path, tmp_path / "in.safetensors", 2, "--dtype", "bf16")
    assert torch.equal(torch.cat([load_file(f)["l.0.o.weight"] for f in files], 1), state()["l.0.o.weight"].bfloat16())


def test_refusals(slipway, tmp_path):
    source = tmp_path / "in.safetensors"
    save_file({n: t.contiguous() for n, t in state().items()}, source)
    done, files = convert(slipway, tmp_path, source, 5, status=3)
    last = cause(done.stderr)
    assert (
        "8 tensors cannot be split in 5 equal parts" in last
        and "l.0.o.weight [12,24] in dimension 1" in last
        and "embed.weight" in last
    )
    done, _ = convert(slipway, tmp_path, source, 2, rules=[{"match": "bias", "split": "row"}], status=3)
    assert "l.0.q.bias [24] has no dimension 1" in done.stderr
    done, _ = convert(
        slipway,
        tmp_path,
        source,
        2,
        rules=[{"match": "norm", "split": "column"}, {"match": "norm|zzz", "split": "row"}],
    )
    assert "rules that decide no tensor: 'norm|zzz'" in done.stderr
    for rules in (
        {},
        [1],
        [{"match": "a"}],
        [{"match": "a", "split": "diagonal"}],
        [{"match": "(", "split": "row"}],
        [{"match": "a", "split": "row", "dim": 1}],
        [{"match": 1, "split": "row"}],
    ):
        done, _ = convert(slipway, tmp_path, source, 2, rules=rules, status=3)
        assert "rules.json" in cause(done.stderr)
    slipway("convert", source, "--tp", 2, "-o", f"{tmp_path}/out/", status=2)
    slipway("convert", source, "--tp-rules", tmp_path / "rules.json", "-o", f"{tmp_path}/out/", status=2)
    convert(slipway, tmp_path, source, 2, "--shards", "2", status=2)
    slipway(
        "convert",
        source,
        "--tp",
        2,
        "--tp-rules",
        tmp_path / "rules.json",
        "-o",
        tmp_path / "one.safetensors",
        status=2,
    )
    slipway("convert", source, "--tp", 2, "--tp-rules", tmp_path / "nothing.json", "-o", f"{tmp_path}/out/", status=5)
