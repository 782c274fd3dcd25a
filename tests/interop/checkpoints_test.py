"""Checkpoints in the form that torch.save wrote before 1.6, against what torch.load makes of them."""

import collections
import pathlib
import sys

import pytest
import torch
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
    assert "before 0.4" in done.stderr.splitlines()[-1]


def test_packed_halves_of_bytes(slipway, tmp_path):
    want = torch.arange(24, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).reshape(4, 6)
    for legacy in (False, True):
        torch.save({"t": want}, tmp_path / "f4.pt", _use_new_zipfile_serialization=not legacy)
        assert "f4e2m1[4,12]  24 bytes" in slipway("inspect", tmp_path / "f4.pt").stdout
        slipway("convert", tmp_path / "f4.pt", "-o", tmp_path / "f4.safetensors")
        save_file({"t": want}, tmp_path / "want.safetensors", metadata={"format": "pt"})
        assert (tmp_path / "f4.safetensors").read_bytes() == (tmp_path / "want.safetensors").read_bytes()
