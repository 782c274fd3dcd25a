"""What would be lost of a checkpoint's weights without a word: ranges of casts, scales, shards that are missing,
experts that stay in float."""

import json
import shutil

import pytest
import torch
from diagnostics import cause
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.filterwarnings("ignore")


def lost(x, dtype):
    y = x.to(dtype)
    return int((x.isfinite() & y.isinf()).sum()), int(((x != 0) & (y == 0)).sum())


@pytest.mark.parametrize("name,dtype", [("f16", torch.float16), ("bf16", torch.bfloat16), ("f32", torch.float32)])
@pytest.mark.parametrize("source", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_casts_are_counted(slipway, tmp_path, name, dtype, source):
    generator = torch.Generator().manual_seed(1)
    x = (
        torch.randn(10007, generator=generator, dtype=torch.float64)
        * 10.0 ** torch.randint(-50, 45, (10007,), generator=generator)
    ).to(source)
    edges = torch.tensor(
        [
            0.0,
            -0.0,
            float("inf"),
            float("-inf"),
            float("nan"),
            65504,
            65519.9,
            65520,
            -65520,
            2.0**-25,
            2.0**-24,
            3.4e38,
            3.39e38,
        ]
    ).to(source)
    save_file({"x": x, "edges": edges, "fine": torch.ones(3, dtype=source)}, tmp_path / "x.safetensors")
    infinite, zero = (a + b for a, b in zip(lost(x, dtype), lost(edges, dtype)))
    done = slipway("convert", tmp_path / "x.safetensors", "-o", tmp_path / "y.safetensors", "--dtype", name)
    got = load_file(tmp_path / "y.safetensors")
    assert torch.equal(got["x"], x.to(dtype))
    line = [l for l in done.stderr.splitlines() if f"--dtype {name}:" in l]
    assert len(line) == (1 if infinite + zero else 0)
    for count, what in ((infinite, "infinite"), (zero, "zero")):
        if count:
            assert f"{count} value{'s become' if count > 1 else ' becomes'} {what}" in line[0]
        elif line:
            assert what not in line[0]
    assert "'fine'" not in done.stderr
    before = (tmp_path / "y.safetensors").read_bytes()
    for output in ("y.safetensors", "folder/"):
        done = slipway(
            "convert",
            tmp_path / "x.safetensors",
            "-o",
            f"{tmp_path}/{output}",
            "--dtype",
            name,
            "--strict",
            status=1 if line else 0,
        )
        assert not line or "SW5002" in cause(done.stderr)
    if line:
        assert (tmp_path / "y.safetensors").read_bytes() == before and not (tmp_path / "folder").exists()


def test_scales_are_not_rounded(slipway, tmp_path):
    codes, scale = torch.ones(4, 8, dtype=torch.int8), torch.full((4, 1), 0.1)
    kept = {
        "a.weight": codes,
        "a.weight_scale": scale,
        "b._weight_qdata": codes,
        "b._weight_scale": scale,
        "b._weight_zero_point": scale,
        "c.weight": torch.ones(2, 2).to(torch.float8_e4m3fn),
        "c.weight_scale_inv": scale,
        "c.input_scale": torch.tensor(0.3),
        "d.qweight": torch.ones(2, 2, dtype=torch.int32),
        "d.scales": scale,
        "e.weight": torch.ones(8, dtype=torch.uint8),
        "e.weight.absmax": scale,
        "e.weight.quant_map": scale,
        "f.weight.qdata": codes,
        "f.weight.scale": scale,
    }
    cast = {
        "a.bias": torch.full((4,), 0.1),
        "norm.scale": torch.full((4,), 0.1),
        "g.weight": torch.full((4, 4), 0.1),
        "g.logit_scale": torch.tensor(0.1),
    }
    kept = {name: tensor.clone() for name, tensor in kept.items()}
    save_file(kept | cast, tmp_path / "q.safetensors")
    done = slipway("convert", tmp_path / "q.safetensors", "-o", tmp_path / "o.safetensors", "--dtype", "bf16")
    got = load_file(tmp_path / "o.safetensors")
    for name, tensor in kept.items():
        assert got[name].dtype == tensor.dtype, name
    for name, tensor in cast.items():
        assert torch.equal(got[name], tensor.bfloat16()), name
    assert "scales of quantized weights keep their types" in done.stderr


def sharded(folder, count=3):
    folder.mkdir()
    names, index = [], {}
    for i in range(count):
        names.append(f"model-{i + 1:05d}-of-{count:05d}.safetensors")
        save_file({f"w{i}": torch.full((2,), float(i)), f"v{i}": torch.zeros(1)}, folder / names[-1])
        index |= {f"w{i}": names[-1], f"v{i}": names[-1]}
    return names, index


def test_shards_that_are_missing(slipway, tmp_path):
    names, index = sharded(tmp_path / "in")
    slipway("convert", tmp_path / "in", "-o", tmp_path / "o.safetensors")
    for gone in names:
        shutil.copytree(tmp_path / "in", tmp_path / "less")
        (tmp_path / "less" / gone).unlink()
        done = slipway("convert", tmp_path / "less", "-o", tmp_path / "no.safetensors", status=3)
        assert f"missing: {gone}" in cause(done.stderr)
        # The same with an index that does not name what is not there.
        (tmp_path / "less" / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {k: v for k, v in index.items() if v != gone}})
        )
        done = slipway("convert", tmp_path / "less", "-o", tmp_path / "no.safetensors", status=3)
        assert f"missing: {gone}" in cause(done.stderr)
        shutil.rmtree(tmp_path / "less")
    # Checkpoints of torch.save in parts, of which one is left.
    (tmp_path / "bin").mkdir()
    torch.save({"w": torch.ones(2)}, tmp_path / "bin" / "pytorch_model-00001-of-00002.bin")
    done = slipway("convert", tmp_path / "bin", "-o", tmp_path / "no.safetensors", status=3)
    assert "missing: pytorch_model-00002-of-00002.bin" in cause(done.stderr)
    assert not (tmp_path / "no.safetensors").exists()


def test_an_index_that_omits_tensors(slipway, tmp_path):
    names, index = sharded(tmp_path / "in")
    place = tmp_path / "in" / "model.safetensors.index.json"
    place.write_text(json.dumps({"weight_map": index}))
    slipway("convert", tmp_path / "in", "-o", tmp_path / "o.safetensors")
    assert set(load_file(tmp_path / "o.safetensors")) == set(index)
    del index["v1"]
    place.write_text(json.dumps({"weight_map": index}))
    for path in (tmp_path / "in", place):
        done = slipway("convert", path, "-o", tmp_path / "no.safetensors", status=3)
        assert names[1] in cause(done.stderr) and "does not name: v1" in cause(done.stderr)


def test_experts_that_stay_in_float_count(slipway, tmp_path):
    weights = {
        "mlp.experts.gate_up_proj": torch.randn(4, 64, 128),
        "mlp.gate.weight": torch.randn(64, 64),
        "conv.weight": torch.randn(8, 8, 3),
    }
    save_file(weights, tmp_path / "m.safetensors")
    run = ("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "q.safetensors", "--config", "int8-weight-only")
    done = slipway(*run, "--require-all", status=1)
    assert "SW5001" in cause(done.stderr) and "'mlp.experts.gate_up_proj'" in done.stderr
    assert "conv.weight" not in cause(done.stderr)
    assert not (tmp_path / "q.safetensors").exists()
    slipway(*run, "--require-all", "--exclude", "experts")
