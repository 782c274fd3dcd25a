"""Checkpoints that come quantized, against the arithmetic that the formats are defined by, written out here in torch:
each folder is made of random codes, packed as the format says, and what slipway makes of it is compared bit by bit."""

import json
import os
import pathlib
import random
import subprocess

import pytest
import torch
from diagnostics import cause
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334]
NF4 += [-0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224]
NF4 += [0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
FP4 = torch.tensor([0, 0.0625, 8, 12, 4, 6, 2, 3, -0.0, -0.0625, -8, -12, -4, -6, -2, -3]) / 12


def pack(codes, bits):
    """Codes along the first dimension as int32 words, from the lowest bit on; the last word may be partial."""
    stream = (codes.to(torch.int64)[:, None] >> torch.arange(bits).reshape(1, bits, *[1] * (codes.dim() - 1))) & 1
    stream = stream.flatten(0, 1)
    stream = torch.cat([stream, stream.new_zeros(-stream.shape[0] % 32, *stream.shape[1:])])
    words = stream.unflatten(0, (-1, 32)) << torch.arange(32).reshape(1, 32, *[1] * (codes.dim() - 1))
    return words.sum(1).to(torch.int32)


def scales(*sizes, dtype=torch.float16):
    return (torch.rand(*sizes) * 0.02 + 0.001).to(dtype)


def e4m3(*sizes):
    codes = torch.randint(0, 256, sizes, dtype=torch.uint8)
    codes[codes & 0x7F == 0x7F] = 0  # NaN
    return codes.view(torch.float8_e4m3fn)


def spread(values, rows, columns, n, k):
    """Values of blocks for each element of [n, k]."""
    return values.repeat_interleave(rows, 0).repeat_interleave(columns, 1)[:n, :k]


# Each makes the tensors of one layer "l", the quantization_config, and a function from a dtype to what they stand for.


def fp8(n=300, k=200, dtype=torch.float32):
    q, s = e4m3(n, k), scales(-(-n // 128), -(-k // 128), dtype=dtype)
    config = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
    tensors = {"l.weight": q, "l.weight_scale_inv": s, "l.bias": torch.randn(n)}
    return tensors, config, lambda t: (q.float() * spread(s.float(), 128, 128, n, k)).to(t)


def fp8_experts(e=3, n=140, k=130):
    q, s = e4m3(e, n, k), scales(e, 2, 2, dtype=torch.bfloat16)
    config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    expanded = torch.stack([spread(x.float(), 128, 128, n, k) for x in s])
    tensors = {"l.weight": q, "l.weight_scale_inv": s, "l.activation_scale": torch.ones(1)}
    return tensors, config, lambda t: (q.float() * expanded).to(t)


def fp8_tensor(n=20, k=30):
    q, s = e4m3(n, k), scales(1, dtype=torch.float32)
    tensors = {"l.weight": q, "l.weight_scale": s, "l.input_scale": torch.ones(1)}
    return tensors, {"quant_method": "fp8"}, lambda t: (q.float() * s).to(t)


def gptq(bits, group=32, order=False, form=None, index=True, scale=torch.float16):
    n_in, n_out = 192, 96
    groups = -(-n_in // group) if group > 0 else 1
    codes, zeros = torch.randint(0, 2**bits, (n_in, n_out)), torch.randint(0, 2**bits, (groups, n_out))
    s = scales(groups, n_out, dtype=scale)
    of = torch.arange(n_in) // (group if group > 0 else n_in)
    if order:
        of = of[torch.randperm(n_in)]
    stored = zeros if form == "gptq_v2" else (zeros - 1) % 2**bits
    tensors = {"l.qweight": pack(codes, bits), "l.qzeros": pack(stored.t(), bits).t().contiguous(), "l.scales": s}
    if index:
        tensors["l.g_idx"] = of.int()
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": order}
    if form:
        config["checkpoint_format"] = form
    return tensors, config, lambda t: (s[of] * (codes - zeros[of])).t().contiguous().to(t)


def awq(group=32):
    n_in, n_out = 128, 72
    codes, zeros = torch.randint(0, 16, (n_in, n_out)), torch.randint(0, 16, (n_in // group, n_out))
    s = scales(n_in // group, n_out)

    def packed(x):
        in_order = x.unflatten(1, (-1, 8))[:, :, [0, 2, 4, 6, 1, 3, 5, 7]].flatten(1)
        return pack(in_order.t(), 4).t().contiguous()

    tensors = {"l.qweight": packed(codes), "l.qzeros": packed(zeros), "l.scales": s}
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
    of = torch.arange(n_in) // group
    return tensors, config, lambda t: ((codes - zeros[of]) * s[of]).t().contiguous().to(t)


def compressed_config(form, **weights):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}


def packed(bits=4, strategy="group", symmetric=True, order=False, scale=torch.bfloat16, n=40, k=96):
    codes = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, k))
    groups = k // 32 if strategy == "group" else 1
    s = scales(n, groups, dtype=scale)
    zeros = (
        torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, groups)) if not symmetric else torch.zeros_like(s).long()
    )
    of = torch.arange(k) // (32 if strategy == "group" else k)
    if order:
        of = of[torch.randperm(k)]
    tensors = {
        "l.weight_packed": pack((codes + 2 ** (bits - 1)).t(), bits).t().contiguous(),
        "l.weight_scale": s,
        "l.weight_shape": torch.tensor([n, k]),
    }
    if not symmetric:
        tensors["l.weight_zero_point"] = pack(zeros + 2 ** (bits - 1), bits)
    if order:
        tensors["l.weight_g_idx"] = of.int()
    config = compressed_config(
        "pack-quantized",
        num_bits=bits,
        type="int",
        symmetric=symmetric,
        strategy=strategy,
        group_size=32 if strategy == "group" else None,
    )
    return tensors, config, lambda t: ((codes.to(scale) - zeros[:, of].to(scale)) * s[:, of]).to(t)


def int8(strategy="channel", symmetric=True, scale=torch.bfloat16, n=40, k=96):
    q = torch.randint(-128, 128, (n, k), dtype=torch.int8)
    s = scales(*{"channel": (n, 1), "tensor": (1,), "group": (n, k // 32)}[strategy], dtype=scale)
    zeros = torch.randint(-128, 128, s.shape, dtype=torch.int8) if not symmetric else torch.zeros_like(s).to(torch.int8)
    tensors = {"l.weight": q, "l.weight_scale": s}
    if not symmetric:
        tensors["l.weight_zero_point"] = zeros
    config = compressed_config(
        "int-quantized",
        num_bits=8,
        type="int",
        symmetric=symmetric,
        strategy=strategy,
        group_size=32 if strategy == "group" else None,
    )

    def plain(t):
        by, less = s, zeros
        if strategy == "group":
            by, less = s.repeat_interleave(32, 1), zeros.repeat_interleave(32, 1)
        return ((q.to(scale) - less.to(scale)) * by).to(t)

    return tensors, config, plain


def float_blocks(n=150, k=200):
    q, s = e4m3(n, k), scales(2, 2, dtype=torch.bfloat16)
    config = compressed_config(
        "float-quantized", num_bits=8, type="float", symmetric=True, strategy="block", block_structure=[128, 128]
    )
    tensors = {"l.weight": q, "l.weight_scale": s, "l.input_scale": torch.ones(1)}
    return tensors, config, lambda t: (q.to(s.dtype) * spread(s, 128, 128, n, k)).to(t)


def nvfp4(n=24, k=64):
    codes = torch.randint(0, 16, (n, k))
    s, whole = scales(n, k // 16, dtype=torch.float32) * 1000, torch.tensor([37.5])
    s = s.to(torch.float8_e4m3fn)
    tensors = {
        "l.weight_packed": (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8),
        "l.weight_scale": s,
        "l.weight_global_scale": whole,
    }
    config = compressed_config(
        "nvfp4-pack-quantized", num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16
    )

    def plain(t):
        by = (s.bfloat16() / whole).repeat_interleave(16, 1)
        return (E2M1[codes].bfloat16() * by).to(torch.bfloat16).to(t)

    return tensors, config, plain


def mxfp4(experts=3, n=36, groups=2):
    blocks = torch.randint(0, 256, (experts, n, groups, 16), dtype=torch.uint8)
    exponents = torch.randint(100, 135, (experts, n, groups), dtype=torch.uint8)
    exponents[0, :3, 0] = torch.tensor([0, 254, 255])

    def plain(t):
        lut = E2M1.to(t)
        out = torch.empty(experts * n * groups, 32, dtype=t)
        rows = blocks.reshape(-1, 16)
        out[:, 0::2] = lut[(rows & 15).long()]
        out[:, 1::2] = lut[(rows >> 4).long()]
        torch.ldexp(out, (exponents.to(torch.int32) - 127).reshape(-1, 1), out=out)
        return out.reshape(experts, n, groups * 32).transpose(1, 2).contiguous()

    return {"l.weight_blocks": blocks, "l.weight_scales": exponents}, {"quant_method": "mxfp4"}, plain


def bnb4(kind="nf4", nested=False, n=24, k=100, own="bfloat16", block=64):
    count = n * k
    codes = torch.randint(0, 16, (count + count % 2,))
    numbers = torch.tensor(NF4) if kind == "nf4" else FP4
    blocks = -(-count // block)
    state = {"quant_type": kind, "blocksize": block, "dtype": own, "shape": [n, k]}
    tensors = {
        "l.weight": (codes[0::2] << 4 | codes[1::2]).to(torch.uint8).reshape(-1, 1),
        "l.weight.quant_map": numbers,
    }
    if nested:
        inner, outer = torch.randint(0, 256, (blocks,), dtype=torch.uint8), torch.rand(-(-blocks // 16)) * 0.1
        code, offset = torch.sort(torch.rand(256) * 2 - 1)[0], 0.0471
        absmax = code[inner.long()] * outer.repeat_interleave(16)[:blocks] + torch.tensor(offset)
        state |= {"nested_blocksize": 16, "nested_dtype": "float32", "nested_offset": offset}
        tensors |= {"l.weight.absmax": inner, "l.weight.nested_absmax": outer, "l.weight.nested_quant_map": code}
    else:
        absmax = torch.rand(blocks)
        tensors["l.weight.absmax"] = absmax
    text = json.dumps(state).encode()
    tensors[f"l.weight.quant_state.bitsandbytes__{kind}"] = torch.tensor(list(text), dtype=torch.uint8)

    def plain(t):
        by = absmax.repeat_interleave(block)[:count]
        return (numbers[codes[:count]] * by).to(getattr(torch, own)).reshape(n, k).to(t)

    return tensors, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind}, plain


def bnb8(n=24, k=100):
    q, s = torch.randint(-127, 128, (n, k), dtype=torch.int8), torch.rand(n)
    tensors = {"l.weight": q, "l.SCB": s, "l.weight_format": torch.tensor(0, dtype=torch.uint8)}
    config = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    return tensors, config, lambda t: (q * s.view(-1, 1) * 7.874015718698502e-3).to(t)


FORMATS = {
    "fp8": fp8,
    "fp8 bf16 scales": lambda: fp8(dtype=torch.bfloat16),
    "fp8 powers of two": lambda: fp8(dtype=torch.float8_e8m0fnu),
    "fp8 experts": fp8_experts,
    "fp8 one scale": fp8_tensor,
    "gptq 2": lambda: gptq(2),
    "gptq 3": lambda: gptq(3),
    "gptq 4": lambda: gptq(4),
    "gptq 8": lambda: gptq(8),
    "gptq 4 v2": lambda: gptq(4, form="gptq_v2"),
    "gptq 4 v1": lambda: gptq(4, form="gptq"),
    "gptq order": lambda: gptq(4, order=True),
    "gptq 3 order": lambda: gptq(3, order=True, scale=torch.bfloat16),
    "gptq columns": lambda: gptq(4, group=-1),
    "gptq no index": lambda: gptq(8, group=128, index=False, scale=torch.float32),
    "awq": awq,
    "awq 64": lambda: awq(64),
    "packed": packed,
    "packed rows": lambda: packed(strategy="channel"),
    "packed asymmetric": lambda: packed(symmetric=False, scale=torch.float16),
    "packed 8": lambda: packed(bits=8, symmetric=False),
    "packed 2": lambda: packed(bits=2, scale=torch.float32),
    "packed order": lambda: packed(order=True),
    "packed partial word": lambda: packed(strategy="channel", n=5, k=93, symmetric=False),
    "int8": int8,
    "int8 one scale": lambda: int8("tensor", scale=torch.float32),
    "int8 asymmetric": lambda: int8("group", symmetric=False, scale=torch.float16),
    "float blocks": float_blocks,
    "nvfp4": nvfp4,
    "mxfp4": mxfp4,
    "nf4": bnb4,
    "nf4 nested": lambda: bnb4(nested=True),
    "fp4": lambda: bnb4("fp4", own="float16"),
    "fp4 odd": lambda: bnb4("fp4", n=3, k=33, own="float32"),
    "bnb int8": bnb8,
}


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, a.shape, b.dtype, b.shape)
    view = {2: torch.int16, 4: torch.int32}[a.element_size()]
    return torch.equal(a.contiguous().view(view), b.contiguous().view(view))


def folder(path, tensors, config, dtype="bfloat16", **more):
    path.mkdir()
    save_file({name: t.contiguous() for name, t in tensors.items()}, path / "model.safetensors", {"format": "pt"})
    whole = {"model_type": "x", "torch_dtype": dtype, **more}
    if config:
        whole["quantization_config"] = config
    (path / "config.json").write_text(json.dumps(whole))
    return path


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORMATS)
def test_numbers(slipway, tmp_path, name, dtype):
    tensors, config, plain = FORMATS[name]()
    tensors["norm.weight"] = torch.randn(5)
    folder(tmp_path / "in", tensors, config)
    done = slipway("convert", tmp_path / "in", "-o", f"{tmp_path}/out/", "--dtype", dtype)
    assert "dequantized to" in done.stderr
    got = load_file(tmp_path / "out" / "model.safetensors")
    assert set(got) == {"l.weight", "norm.weight"} | ({"l.bias"} & set(tensors))
    assert same(got["l.weight"], plain(DTYPES[dtype]))
    assert same(got["norm.weight"], tensors["norm.weight"].to(DTYPES[dtype]))
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written == {"model_type": "x", "torch_dtype": str(DTYPES[dtype]).split(".")[1]}


@pytest.mark.parametrize("name", ["fp8", "gptq 4", "packed", "nf4"])
def test_without_a_type_nothing_is_dequantized(slipway, tmp_path, name):
    tensors, config, _ = FORMATS[name]()
    folder(tmp_path / "in", tensors, config)
    slipway("convert", tmp_path / "in", "-o", tmp_path / "out.safetensors")
    got = load_file(tmp_path / "out.safetensors")
    assert set(got) == set(tensors)


def test_shards(slipway, tmp_path):
    """Parts of a weight lie in different files, and the output is divided anew."""
    made = {f"m.{i}": gptq(4) for i in range(4)}
    tensors = {f"{m}.{name}": t.contiguous() for m, (ts, _, _) in made.items() for name, t in ts.items()}
    (tmp_path / "in").mkdir()
    names, index = sorted(tensors), {}
    for i in range(3):
        shard = f"model-{i + 1:05d}-of-00003.safetensors"
        save_file({name: tensors[name] for name in names[i::3]}, tmp_path / "in" / shard)
        index |= dict.fromkeys(names[i::3], shard)
    (tmp_path / "in" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (tmp_path / "in" / "config.json").write_text(json.dumps({"quantization_config": made["m.0"][1]}))
    slipway("convert", tmp_path / "in", "-o", f"{tmp_path}/out/", "--dtype", "f16", "--max-shard-size", "80KB")
    got = {}
    for file in (tmp_path / "out").glob("*.safetensors"):
        got |= load_file(file)
    assert len(list((tmp_path / "out").glob("model-*-of-*.safetensors"))) > 1
    assert set(got) == {f"{m}.l.weight" for m in made}
    for m, (_, _, plain) in made.items():
        assert same(got[f"{m}.l.weight"], plain(torch.float16))
    # One file of several, without the parts in the others.
    done = slipway("convert", tmp_path / "in" / shard, "-o", tmp_path / "no.safetensors", "--dtype", "f16", status=3)
    assert "is missing" in cause(done.stderr) and "give the folder" in done.stderr


def test_older_files_beside_the_checkpoint(slipway, tmp_path):
    for name, made, own in (
        ("gptq", gptq(4), ("quantize_config.json", {"bits": 4, "group_size": 32, "desc_act": False})),
        ("awq", awq(), ("quant_config.json", {"w_bit": 4, "q_group_size": 32, "version": "GEMM", "zero_point": True})),
    ):
        tensors, _, plain = made
        folder(tmp_path / name, tensors, None)
        (tmp_path / name / own[0]).write_text(json.dumps(own[1]))
        slipway("convert", tmp_path / name, "-o", tmp_path / "o.safetensors", "--dtype", "f32")
        assert same(load_file(tmp_path / "o.safetensors")["l.weight"], plain(torch.float32))


def test_a_config_of_several_parts(slipway, tmp_path):
    tensors, config, plain = packed()
    folder(tmp_path / "in", tensors, None, text_config={"quantization_config": config, "dtype": "bfloat16"})
    slipway("convert", tmp_path / "in", "-o", f"{tmp_path}/out/", "--dtype", "f16")
    assert same(load_file(tmp_path / "out" / "model.safetensors")["l.weight"], plain(torch.float16))
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written == {"model_type": "x", "torch_dtype": "float16", "text_config": {"dtype": "float16"}}


def test_bits_that_vary(slipway, tmp_path):
    """GPTQModel's dynamic: other bits and groups for some layers."""
    made = {"a": gptq(4), "b": gptq(8, group=64), "c": gptq(3, order=True)}
    tensors = {f"{m}.{name}": t for m, (ts, _, _) in made.items() for name, t in ts.items()}
    config = gptq(4)[1] | {"dynamic": {"b.*": {"bits": 8, "group_size": 64}, "c.*": {"bits": 3}}}
    folder(tmp_path / "in", tensors, config)
    slipway("convert", tmp_path / "in", "-o", tmp_path / "o.safetensors", "--dtype", "f16")
    got = load_file(tmp_path / "o.safetensors")
    for m, (_, _, plain) in made.items():
        assert same(got[f"{m}.l.weight"], plain(torch.float16)), m
    assert "2 weights otherwise" in slipway("inspect", tmp_path / "in").stdout


def test_schemes_for_several_modules(slipway, tmp_path):
    """compressed-tensors: by name, by expression, by class."""
    four, eight, rows = packed(4), packed(8), packed(4, strategy="channel")
    tensors = {}
    for module, (made, _, _) in {"a": four, "b.x": eight, "b.y": rows}.items():
        tensors |= {name.replace("l.", f"{module}."): t for name, t in made.items()}
    groups = {}
    for i, (targets, (_, config, _)) in enumerate(((["Linear"], four), (["re:.*x$"], eight), (["b.y"], rows))):
        groups[f"group_{i}"] = {**config["config_groups"]["group_0"], "targets": targets}
    config = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}
    folder(tmp_path / "in", tensors, config)
    slipway("convert", tmp_path / "in", "-o", tmp_path / "o.safetensors", "--dtype", "bf16")
    got = load_file(tmp_path / "o.safetensors")
    for module, (_, _, plain) in {"a": four, "b.x": eight, "b.y": rows}.items():
        assert same(got[f"{module}.weight"], plain(torch.bfloat16))


def test_tensor_parallel(slipway, tmp_path):
    """Parts of a weight that is computed: rows and columns."""
    tensors, config, plain = gptq(4)
    folder(tmp_path / "in", tensors, config)
    for dim, split in enumerate(("column", "row")):
        (tmp_path / "rules.json").write_text(json.dumps([{"match": "weight", "split": split}]))
        arguments = ("--dtype", "f16", "--tp", "2", "--tp-rules", tmp_path / "rules.json")
        slipway("convert", tmp_path / "in", "-o", f"{tmp_path}/out{dim}/", *arguments)
        parts = [load_file(f)["l.weight"] for f in sorted((tmp_path / f"out{dim}").glob("rank-*"))]
        assert same(torch.cat(parts, dim), plain(torch.float16))


def test_inspect(slipway, tmp_path):
    tensors, config, _ = gptq(4)
    folder(tmp_path / "in", tensors, config)
    assert "quantized: GPTQ 4 bits, group 32" in slipway("inspect", tmp_path / "in").stdout
    report = json.loads(slipway("inspect", tmp_path / "in", "--json").stdout)
    assert report["quantization"] == "GPTQ 4 bits, group 32"
    (row,) = report["tensors"]
    assert row["name"] == "l.weight" and row["shape"] == [96, 192] and row["dtype"] == "bf16"
    assert row["form"] == "4 bits, group 32"
    assert row["bytes"] == sum(t.numel() * t.element_size() for t in tensors.values())
    (tmp_path / "in" / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "aqlm"}}))
    report = json.loads(slipway("inspect", tmp_path / "in", "--json").stdout)
    assert "'aqlm'" in report["quantization"] and len(report["tensors"]) == 4


def test_quantized_anew(slipway, tmp_path):
    tensors, config, plain = gptq(4)
    folder(tmp_path / "in", tensors, config, architectures=["X"])
    call = ("quantize", tmp_path / "in", "--config", "int8-weight-only", "-o")
    refused = slipway(*call, f"{tmp_path}/no/", status=3)
    assert "quantized already" in cause(refused.stderr) and "--requantize" in refused.stderr
    assert not (tmp_path / "no").exists()
    slipway(*call, f"{tmp_path}/out/", "--requantize")
    # The same as of the plain checkpoint.
    folder(tmp_path / "plain", {"l.weight": plain(torch.bfloat16)}, None)
    slipway("quantize", tmp_path / "plain", "--config", "int8-weight-only", "-o", f"{tmp_path}/other/")
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in ("out", "other"))
    assert set(a) == set(b) == {"l._weight_qdata", "l._weight_scale", "l._weight_zero_point"}
    assert all(torch.equal(a[name], b[name]) for name in a)
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written["quantization_config"]["quant_method"] == "torchao" and written["architectures"] == ["X"]


def test_what_slipway_quantized_is_known_by_its_metadata(slipway, tmp_path):
    save_file({"a.l.weight": torch.randn(64, 64)}, tmp_path / "in.safetensors")
    call = ("quantize", "--config", "int8-weight-only", "-o", tmp_path / "q.safetensors")
    slipway(*call, tmp_path / "in.safetensors")
    refused = slipway("quantize", tmp_path / "q.safetensors", "--config", "8da4w", "-o", f"{tmp_path}/x/", status=3)
    assert "quantized already" in cause(refused.stderr)
    slipway("quantize", tmp_path / "q.safetensors", "--config", "8da4w", "--requantize", "-o", f"{tmp_path}/x/")
    assert set(load_file(tmp_path / "x" / "model.safetensors")) >= {"a.l._weight_qdata", "a.l._weight_scale"}


class Linear(torch.nn.Module):
    def __init__(self, n_in, n_out, dtype):
        super().__init__()
        self.l = torch.nn.Linear(n_in, n_out, bias=False, dtype=dtype)

    def forward(self, x):
        return self.l(x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_of_a_program(slipway, tmp_path, dtype):
    """In the program's type, not by way of the model's."""
    tensors, config, plain = fp8(96, 192)
    tensors.pop("l.bias")
    folder(tmp_path / "in", tensors, config)
    program = torch.export.export(Linear(192, 96, DTYPES[dtype]), (torch.randn(2, 192, dtype=DTYPES[dtype]),))
    torch.export.save(program, tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "--weights", tmp_path / "in", "-o", tmp_path / "o.pt2")
    got = torch.export.load(tmp_path / "o.pt2").state_dict["l.weight"]
    assert same(got.detach(), plain(DTYPES[dtype]))


class Quantized(torch.nn.Module):
    """A layer that has the parts of its weight, as the formats' own libraries do."""

    def __init__(self, tensors):
        super().__init__()
        self.l = torch.nn.Module()
        for name, tensor in tensors.items():
            self.l.register_buffer(name.removeprefix("l."), torch.zeros_like(tensor))

    def forward(self, x):
        return x + self.l.scales.sum() + self.l.qweight.sum() + self.l.qzeros.sum() + self.l.g_idx.sum()


def test_a_program_of_parts_takes_them_as_they_are(slipway, tmp_path):
    tensors, config, _ = gptq(4)
    folder(tmp_path / "in", tensors, config)
    torch.export.save(torch.export.export(Quantized(tensors), (torch.randn(2),)), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "--weights", tmp_path / "in", "-o", tmp_path / "o.pt2")
    state = torch.export.load(tmp_path / "o.pt2").state_dict
    for name, tensor in tensors.items():
        assert torch.equal(state[name], tensor)


TORCHAO = ["int8-weight-only", "int8-weight-only:per=tensor", "int8-weight-only:group=32", "int8-dynamic", "8da4w"]
TORCHAO += ["intx:bits=4,group=32,asym", "float8-weight-only", "float8-weight-only:group=32", "mxfp8", "mxfp4"]
TORCHAO += ["nvfp4", "nvfp4:one-level", "int4-weight-only:group=32"]


HALVES_ALONE = ("mxfp", "nvfp4")  # that torchao has in bf16 alone


@pytest.mark.parametrize(
    ("config", "own"), [(c, t) for c in TORCHAO for t in DTYPES if t == "bf16" or not c.startswith(HALVES_ALONE)]
)
def test_torchao(slipway, tmp_path, config, own):
    """What slipway quantizes, against torchao's own dequantize()."""
    from torchao.prototype.safetensors.safetensors_support import unflatten_tensor_state_dict

    weight = torch.randn(160, 192).to(DTYPES[own])
    save_file({"a.l.weight": weight, "a.norm": torch.randn(4)}, tmp_path / "in.safetensors")
    slipway("quantize", tmp_path / "in.safetensors", "--config", config, "-o", tmp_path / "q.safetensors")
    parts = load_file(tmp_path / "q.safetensors")
    with open(tmp_path / "q.safetensors", "rb") as file:
        metadata = json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]
    for dtype, t in DTYPES.items():
        slipway("convert", tmp_path / "q.safetensors", "-o", tmp_path / "o.safetensors", "--dtype", dtype)
        got = load_file(tmp_path / "o.safetensors")
        assert set(got) == {"a.l.weight", "a.norm"}
        if config.startswith("int4"):  # torchao has no CPU form of it
            q, by, zero = (parts[f"a.l._weight_{part}"] for part in ("qdata", "scale", "zero_point"))
            q = torch.stack([(q << 4) >> 4, q >> 4], -1).flatten(1)
            want = q.to(by.dtype) * by.t().repeat_interleave(32, 1) + zero.t().repeat_interleave(32, 1)
            want = want.to(t)
        else:
            tensor = unflatten_tensor_state_dict(dict(parts), metadata)[0]["a.l.weight"]
            want = tensor.dequantize().to(t) if config.startswith(("8da4w", "intx")) else tensor.dequantize(t)
        assert same(got["a.l.weight"], want), dtype


@pytest.mark.parametrize("text", ["aqlm", "hqq", "eetq", "quark", "auto-round", "vptq", "modelopt", ""])
def test_other_methods_are_refused(slipway, tmp_path, text):
    folder(tmp_path / "in", {"l.weight": torch.ones(2, 2)}, {"quant_method": text} if text else {"bits": 4})
    done = slipway("convert", tmp_path / "in", "-o", tmp_path / "o.safetensors", "--dtype", "bf16", status=4)
    assert (f"'{text}'" if text else "without a quant_method") in cause(done.stderr)
    assert "help:" in done.stderr and "GPTQ" in done.stderr
    assert not (tmp_path / "o.safetensors").exists()


def changed(made, **config):
    return made[0], made[1] | config


VARIANTS = {
    "marlin": changed(gptq(4), checkpoint_format="marlin"),
    "gptq_p": changed(gptq(3), checkpoint_format="gptq_p"),
    "5 bits": changed(gptq(4), bits=5),
    "gemv": changed(awq(), version="gemv"),
    "without zero points": changed(awq(), zero_point=False),
    "gpt2": gptq(4)[:2],
    "act.scales": (awq()[0] | {"act.scales": torch.ones(3)}, awq()[1]),
    "'token'": (packed()[0], compressed_config("pack-quantized", num_bits=4, strategy="token")),
    "6 bits": (packed()[0], compressed_config("pack-quantized", num_bits=6, strategy="channel")),
    "frozen": changed(packed(), quantization_status="frozen"),
    "sparse-24-bitmask": changed(packed(), sparsity_config={"format": "sparse-24-bitmask"}),
    "fp4": changed(fp8(), expert_dtype="fp4"),
    "e5m2": changed(fp8(), fmt="e5m2"),
    "all of 6 groups": (gptq(4)[0] | {"l.g_idx": torch.zeros(192, dtype=torch.int32)}, gptq(4)[1]),
    "is not that of nf4": (bnb4()[0] | {"l.weight.quant_map": torch.linspace(-1, 1, 16)}, bnb4()[1]),
    "do not lie row by row": (bnb8()[0] | {"l.weight_format": torch.tensor(2, dtype=torch.uint8)}, bnb8()[1]),
}


@pytest.mark.parametrize("what", VARIANTS)
def test_variants_are_refused(slipway, tmp_path, what):
    tensors, config = VARIANTS[what]
    folder(tmp_path / "in", tensors, config, **({"model_type": "gpt2"} if what == "gpt2" else {}))
    done = slipway("convert", tmp_path / "in", "-o", tmp_path / "o.safetensors", "--dtype", "bf16", status=4)
    assert what in cause(done.stderr), done.stderr
    assert "help:" in done.stderr and not (tmp_path / "o.safetensors").exists()


def without(made, name):
    return {key: t for key, t in made[0].items() if key != name}, made[1]


def with_part(made, **parts):
    return made[0] | {f"l.{name}": t for name, t in parts.items()}, made[1]


DAMAGED = {
    "missing zeros": ("l.qzeros", without(gptq(4), "l.qzeros")),
    "missing codes": ("l.g_idx", without(gptq(4), "l.qweight")),
    "scales": ("l.scales", with_part(gptq(4), scales=scales(5, 96))),
    "zeros": ("l.qzeros", with_part(gptq(4), qzeros=torch.zeros(6, 11, dtype=torch.int32))),
    "index below": ("l.g_idx", with_part(gptq(4), g_idx=torch.full((192,), -1, dtype=torch.int32))),
    "index above": ("l.g_idx", with_part(gptq(4), g_idx=torch.full((192,), 6, dtype=torch.int32))),
    "short index": ("l.g_idx", with_part(gptq(4), g_idx=torch.zeros(191, dtype=torch.int32))),
    "no index": ("l.g_idx", without(gptq(4, order=True), "l.g_idx")),
    "index of no dimension": (
        "l.g_idx",
        (gptq(4)[0] | {"l.g_idx": torch.tensor(3)}, gptq(4)[1] | {"dynamic": {"x": {"bits": 8}}}),
    ),
    "other bits": ("l.qweight", (gptq(4)[0], gptq(4)[1] | {"bits": 3})),
    "codes of another type": ("l.qweight", with_part(gptq(4), qweight=torch.zeros(24, 96, dtype=torch.int64))),
    "awq groups": ("l.qweight", (awq()[0], awq()[1] | {"group_size": 48})),
    "awq scales": ("l.scales", with_part(awq(), scales=scales(4, 71))),
    "fp8 without a scale": ("l.weight", without(fp8(), "l.weight_scale_inv")),
    "fp8 scale alone": ("l.weight_scale_inv", without(fp8(), "l.weight")),
    "fp8 scales": ("l.weight_scale_inv", with_part(fp8(), weight_scale_inv=torch.ones(3, 3))),
    "packed shape": ("l.weight_shape", with_part(packed(), weight_shape=torch.tensor([40, 500]))),
    "negative shape": ("l.weight_shape", with_part(packed(), weight_shape=torch.tensor([40, -96]))),
    "packed scales": ("l.weight_scale", with_part(packed(), weight_scale=torch.ones(40, 4).bfloat16())),
    "no zero points": ("l.weight_zero_point", without(packed(symmetric=False), "l.weight_zero_point")),
    "groups of columns": ("l.weight_g_idx", with_part(packed(order=True), weight_g_idx=torch.zeros(96).int())),
    "blocks": ("l.weight_scales", with_part(mxfp4(), weight_scales=torch.zeros(3, 36, 3, dtype=torch.uint8))),
    "state": (
        "l.weight.quant_state",
        (bnb4()[0] | {"l.weight.quant_state.bitsandbytes__nf4": torch.ones(3).byte()},) + bnb4()[1:2],
    ),
    "absmax": ("l.weight.absmax", (bnb4()[0] | {"l.weight.absmax": torch.ones(37)},) + bnb4()[1:2]),
    "SCB": ("l.SCB", with_part(bnb8(), SCB=torch.ones(23))),
    "nothing": ("config.json", ({"l.weight": torch.ones(2, 2)}, gptq(4)[1])),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_does_not_fit_together(slipway, tmp_path, what):
    named, (tensors, config) = DAMAGED[what]
    folder(tmp_path / "in", tensors, config)
    for output in ("o.safetensors", "o/"):
        done = slipway("convert", tmp_path / "in", "-o", f"{tmp_path}/{output}", "--dtype", "bf16", status=3)
        assert named in cause(done.stderr), done.stderr
    assert not (tmp_path / "o.safetensors").exists() and not (tmp_path / "o").exists()
    slipway("inspect", tmp_path / "in")  # shows what lies there


@pytest.mark.parametrize("name", FORMATS)
def test_parts_of_other_sizes_and_types(tmp_path, name):
    """Whatever the parts are, there is a result or one clear error."""
    binary = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
    chance, types = (
        random.Random(name),
        (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float32, torch.float16),
    )
    for i in range(12):
        tensors, config, _ = FORMATS[name]()
        part = chance.choice(sorted(tensors))
        t = tensors[part]
        if chance.random() < 0.3:
            tensors[part] = t.view(torch.uint8).to(chance.choice(types)) if t.dim() else t.to(chance.choice(types))
        elif chance.random() < 0.2:
            tensors[part] = t.reshape(-1)
        elif chance.random() < 0.2:
            tensors[part] = t[None].clone()
        elif t.dim():
            dim = chance.randrange(t.dim())
            size = chance.choice((0, 1, t.shape[dim] - 1, t.shape[dim] + 1, t.shape[dim] * 2))
            tensors[part] = torch.zeros([size if d == dim else n for d, n in enumerate(t.shape)]).to(t.dtype)
        folder(tmp_path / str(i), tensors, config)
        call = [binary, "convert", tmp_path / str(i), "-o", tmp_path / f"{i}.safetensors", "--dtype", "f32"]
        done = subprocess.run(call, capture_output=True, text=True)
        assert done.returncode in (0, 3, 4), (part, tensors[part].shape, done.stderr)
        assert (done.returncode == 0) == (tmp_path / f"{i}.safetensors").exists()


def test_config_json_of_something_else(slipway, tmp_path):
    """Of a folder it is the model's; a file may lie beside any."""
    folder(tmp_path / "in", {"l.weight": torch.ones(2, 2)}, None)
    for text in ("[1, 2]", "{", '{"quantization_config": 3}'):
        (tmp_path / "in" / "config.json").write_text(text)
        call = ("-o", tmp_path / "o.safetensors", "--dtype", "f16")
        slipway("convert", tmp_path / "in" / "model.safetensors", *call)
        assert "config.json" in cause(slipway("convert", tmp_path / "in", *call, status=3).stderr)


def test_a_name_that_is_there_already(slipway, tmp_path):
    tensors, config, _ = gptq(4)
    folder(tmp_path / "in", tensors | {"l.weight": torch.ones(96, 192)}, config)
    done = slipway("convert", tmp_path / "in", "-o", tmp_path / "o.safetensors", "--dtype", "bf16", status=3)
    assert "'l.weight'" in cause(done.stderr)


def test_lost_values_are_counted(slipway, tmp_path):
    q, s = torch.full((4, 4), 448.0).to(torch.float8_e4m3fn), torch.full((1, 1), 1000.0)
    config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    folder(tmp_path / "in", {"l.weight": q, "l.weight_scale_inv": s}, config)
    call = ("convert", tmp_path / "in", "-o", tmp_path / "o.safetensors", "--dtype", "f16")
    assert "16 values become infinite" in slipway(*call).stderr
    slipway(*call, "--strict", status=1)


@pytest.mark.parametrize("name", ["fp8", "gptq", "mxfp4"])
def test_memory_does_not_grow_with_the_weights(tmp_path, name):
    """The most that is resident, of a checkpoint of some hundred megabytes in one tensor and of a small one."""
    binary = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
    peaks = []
    for scale in (1, 24):
        n, k = 1024 * scale, 4096
        if name == "fp8":
            tensors = {"l.weight": torch.zeros(n, k, dtype=torch.uint8).view(torch.float8_e4m3fn)}
            tensors["l.weight_scale_inv"] = torch.ones(n // 128, k // 128)
            config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
        elif name == "gptq":
            tensors = {"l.qweight": torch.zeros(k // 8, n, dtype=torch.int32)}
            tensors |= {"l.qzeros": torch.zeros(k // 128, n // 8, dtype=torch.int32), "l.scales": scales(k // 128, n)}
            config = {"quant_method": "gptq", "bits": 4, "group_size": 128}
        else:
            tensors = {"l.w_blocks": torch.zeros(1, k, n // 32, 16, dtype=torch.uint8)}
            tensors["l.w_scales"] = torch.full((1, k, n // 32), 127, dtype=torch.uint8)
            config = {"quant_method": "mxfp4"}
        folder(tmp_path / f"in{scale}", tensors, config)
        del tensors
        arguments = [binary, "convert", tmp_path / f"in{scale}", "-o", tmp_path / "o.safetensors", "--dtype", "bf16"]
        done = subprocess.run([*arguments, "--json", "-q"], capture_output=True, text=True, check=True)
        peaks.append(json.loads(done.stdout)["peak_bytes"])
    assert peaks[1] < 120e6 and peaks[1] < peaks[0] + 60e6, peaks
