"""slipway diff against torch's own arithmetic, across formats and types."""

import json
import math

import pytest
import torch
from safetensors.torch import save_file

pytestmark = pytest.mark.filterwarnings("ignore")
FLOATS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]
INTEGERS = [
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bool,
]


def diff(slipway, a, b, *more, status=1):
    return json.loads(slipway("diff", a, b, "--json", *more, status=status).stdout)


def test_equal_across_formats(slipway, tmp_path):
    state = {
        "w": torch.randn(5, 7),
        "t": torch.randn(4, 6).t(),
        "n": torch.tensor([math.nan, 1.0, -0.0]),
        "i": torch.arange(3),
    }
    torch.save(state, tmp_path / "a.pt")
    torch.save({"model": state}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    other = {name: t.contiguous().clone() for name, t in state.items()}
    other["n"] = torch.tensor([math.nan, 1.0, 0.0])
    save_file(other, tmp_path / "b.safetensors")
    for pair in (("a.pt", "b.safetensors"), ("b.safetensors", "a.pt"), ("a.pt", "a.pt")):
        report = diff(slipway, *(tmp_path / p for p in pair), status=0)
        assert report["equal"] and report["tensors_equal"] == 4 and report["differences"] == []
    assert diff(slipway, tmp_path / "old.pt", tmp_path / "b.safetensors", "--key", "model", status=0)["equal"]
    assert slipway("diff", tmp_path / "a.pt", tmp_path / "b.safetensors").stdout == "4 of 4 common tensors are equal\n"


def test_names_types_and_order(slipway, tmp_path):
    torch.save(
        {"b": torch.ones(2), "c": torch.ones(2, 3), "d": torch.ones(4), "same": torch.ones(1)}, tmp_path / "a.pt"
    )
    torch.save(
        {"a": torch.ones(2), "c": torch.ones(3, 2), "d": torch.ones(4).half(), "same": torch.ones(1)}, tmp_path / "b.pt"
    )
    text = slipway("diff", tmp_path / "a.pt", tmp_path / "b.pt", status=1).stdout
    assert text.splitlines() == [
        "a  only in B  f32[2]",
        "b  only in A  f32[2]",
        "c  f32[2,3] in A, f32[3,2] in B",
        "d  f32[4] in A, f16[4] in B; as f16 0 of 4 differ",
        "1 of 3 common tensors are equal, 2 are in one only",
    ]
    report = diff(slipway, tmp_path / "a.pt", tmp_path / "b.pt")
    assert [(d["name"], d["kind"]) for d in report["differences"]] == [
        ("a", "only_in_b"),
        ("b", "only_in_a"),
        ("c", "type"),
        ("d", "type"),
    ]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats(slipway, tmp_path, dtype):
    """Every code of the small types, random bits of the others."""
    generator = torch.Generator().manual_seed(1)
    width = dtype.itemsize
    # Beyond one step of the comparison.
    count = 70_000 if width == 8 else 300_000
    bits = torch.randint(0, 256, (2, count * width), dtype=torch.uint8, generator=generator)
    bits[:, : 256 * width : width] = torch.arange(256, dtype=torch.uint8)
    bits[1, count * width // 2 :] = bits[0, count * width // 2 :]
    a, b = bits[0].view(dtype), bits[1].view(dtype)
    save_file({"x": a}, tmp_path / "a.safetensors")
    save_file({"x": b}, tmp_path / "b.safetensors")
    x, y = a.double(), b.double()
    nan = x.isnan() != y.isnan()
    unequal = ((x != y) & ~(x.isnan() & y.isnan())).sum().item()
    distance = (x - y).abs()[~x.isnan() & ~y.isnan() & (x != y)]
    [found] = diff(slipway, tmp_path / "a.safetensors", tmp_path / "b.safetensors")["differences"]
    assert (found["elements"], found["unequal"], found["one_nan"]) == (count, unequal, nan.sum().item())
    assert (math.inf if found["max_abs"] == "Infinity" else found["max_abs"]) == distance.max().item()
    limit = distance.median().item()
    [found] = diff(slipway, tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--tolerance", repr(limit))[
        "differences"
    ]
    assert found["unequal"] == (distance > limit).sum().item() + nan.sum().item()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(slipway, tmp_path, dtype):
    low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    torch.save(
        {
            "x": torch.tensor([low, high, low, high]).to(dtype)
            if high < 1 << 63
            else torch.tensor([low, high, low, high], dtype=dtype)
        },
        tmp_path / "a.pt",
    )
    torch.save({"x": torch.tensor([low, low, low, high], dtype=dtype)}, tmp_path / "b.pt")
    # The tolerance is one of floating-point numbers.
    [found] = diff(slipway, tmp_path / "a.pt", tmp_path / "b.pt", "--tolerance", "1e30")["differences"]
    assert found["unequal"] == 1 and found["max_abs"] == float(high - low)


def test_complex(slipway, tmp_path):
    a = torch.tensor([1 + 2j, complex(math.nan, 1), 3 + 4j, complex(math.inf, 0)])
    b = torch.tensor([1 + 2j, complex(math.nan, 1), 0j, complex(math.inf, 0)])
    for dtype in (torch.complex64, torch.complex128):
        torch.save({"x": a.to(dtype)}, tmp_path / "a.pt")
        torch.save({"x": b.to(dtype)}, tmp_path / "b.pt")
        [found] = diff(slipway, tmp_path / "a.pt", tmp_path / "b.pt")["differences"]
        assert (found["unequal"], found["max_abs"]) == (1, 5.0)


def test_tolerance_and_usage(slipway, tmp_path):
    torch.save({"x": torch.zeros(3)}, tmp_path / "a.pt")
    torch.save({"x": torch.tensor([0.0, 1e-6, math.nan])}, tmp_path / "b.pt")
    text = slipway("diff", tmp_path / "a.pt", tmp_path / "b.pt", status=1).stdout
    assert text.splitlines()[0] == "x  f32[3]  2 of 3 differ, by at most 1e-06, 1 NaN in one only"
    [found] = diff(slipway, tmp_path / "a.pt", tmp_path / "b.pt", "--tolerance", "1e-5")["differences"]
    assert (found["unequal"], found["max_abs"]) == (1, None)
    for wrong in ("-1", "x", "nan", "inf"):
        slipway("diff", tmp_path / "a.pt", tmp_path / "b.pt", "--tolerance", wrong, status=2)
    slipway("diff", tmp_path / "a.pt", tmp_path / "nothing.pt", status=5)
