"""Files of other formats: named with the next step where they are not read, NumPy's as numpy itself reads them."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.filterwarnings("ignore")


def zipped(*names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name in names:
            z.writestr(name, "x")
    return out.getvalue()


def tarred():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        t.addfile(tarfile.TarInfo("model/a.pt"))
    return out.getvalue()


def scripted():
    out = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), out)
    return out.getvalue()


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 123\n"
PAGE = b"\n<!DOCTYPE html><html><head></head></html>"
FLAX = b"\x81\xa6params\x81\xa1w\xc7\x05\x01hello"
FILES = [
    ("a.gguf", b"GGUF\3\0\0\0" + bytes(64), "GGUF"),
    ("model.safetensors", b"GGUF\3\0\0\0" + bytes(64), "GGUF"),
    ("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(64), "HDF5"),
    ("a.keras", zipped("metadata.json", "config.json", "model.weights.h5"), "Keras"),
    ("a.tflite", b"\x1c\0\0\0TFL3" + bytes(64), "TensorFlow Lite"),
    ("a.pte", b"\x30\0\0\0ET12" + bytes(64), "ExecuTorch"),
    ("flax_model.msgpack", FLAX, "Flax"),
    ("noname", FLAX, "Flax"),
    ("saved_model.pb", b"\x08\x01\x12\x05hello", "TensorFlow SavedModel"),
    ("frozen.pb", b"\x0a\x05hello", "TensorFlow"),
    ("x.index", bytes(100) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb", "TensorFlow"),
    ("x.ckpt.data-00000-of-00001", b"abcd" * 10, "TensorFlow"),
    ("script.pt", scripted(), "torch.export"),
    ("script.pt2", scripted(), "torch.export"),
    ("a.mlmodel", b"\x08\x04\x12\x05hello", "Core ML"),
    ("a.xml", b'<?xml version="1.0"?>\n<net name="x" version="11"></net>', "OpenVINO"),
    ("a.engine", b"ftrt" + bytes(40), "TensorRT"),
    ("lfs.safetensors", LFS, "git lfs pull"),
    ("lfs.pt2", LFS, "git lfs pull"),
    ("lfs.bin", LFS, "git lfs pull"),
    ("lfs.onnx", LFS, "git lfs pull"),
    ("page.safetensors", PAGE, "download"),
    ("page.pt2", PAGE, "download"),
    ("error.bin", b'{"error":"not found"}', "download"),
    ("denied.bin", b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "download"),
    ("empty.safetensors", b"", "the file is empty"),
    ("empty.pt2", b"", "the file is empty"),
    ("zeros.safetensors", bytes(5000), "zero bytes"),
    ("a.pt.gz", gzip.compress(b"abc"), "gzip"),
    ("a.xz", lzma.compress(b"abc"), "xz"),
    ("a.bz2", bz2.compress(b"abc"), "bzip2"),
    ("a.zst", b"\x28\xb5\x2f\xfd" + b"a" * 20, "Zstandard"),
    ("a.7z", b"7z\xbc\xaf\x27\x1c" + b"a" * 20, "7z"),
    ("a.nemo", tarred(), "tar archive"),
    ("a.zip", zipped("a/model.pt"), "zip archive"),
    ("model.py", b"import torch\n", "Python source"),
]
FOLDERS = [
    (("saved_model.pb", "variables"), "SavedModel"),
    (("Manifest.json", "Data"), "Core ML"),
    (("a.gguf",), "GGUF"),
    (("x.index", "x.data-00000-of-00001"), "TensorFlow checkpoint"),
    (("_METADATA",), "Orbax"),
]


@pytest.mark.parametrize("name,data,says", FILES, ids=[f[0] for f in FILES])
def test_files_are_named(slipway, tmp_path, name, data, says):
    path = tmp_path / name
    path.write_bytes(data)
    for arguments in (
        ["convert", path, "-o", tmp_path / "o.onnx"],
        ["convert", path, "-o", tmp_path / "o.safetensors"],
        ["inspect", path],
    ):
        done = slipway(*arguments, status=3)
        assert says in done.stderr and "help: " in done.stderr
    assert not (tmp_path / "o.onnx").exists() and not (tmp_path / "o.safetensors").exists()


@pytest.mark.parametrize("names,says", FOLDERS, ids=[f[1] for f in FOLDERS])
def test_folders_are_named(slipway, tmp_path, names, says):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(b"x")
    for output in ("o.onnx", "o.safetensors"):
        assert says in slipway("convert", folder, "-o", tmp_path / output, status=3).stderr


def arrays():
    types = [
        "f2",
        "f4",
        "f8",
        "i1",
        "i2",
        "i4",
        "i8",
        "u1",
        "u2",
        "u4",
        "u8",
        "c8",
        "c16",
        ">f4",
        ">f8",
        ">i2",
        ">u8",
        ">c8",
        "?",
    ]
    made = {f"t{i}": np.arange(6).reshape(2, 3).astype(t) for i, t in enumerate(types)}
    made["complex"] = np.array([1 + 2j, 3 - 4j], ">c16")
    made |= {
        f"fortran{i}": np.asfortranarray(np.arange(24).reshape(2, 3, 4).astype(t)) for i, t in enumerate(["f4", ">i2"])
    }
    return made | {"scalar": np.array(3), "empty": np.zeros((0, 3), "f4"), "one": np.ones((1, 1, 1), "f2")}


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape).astype(array.dtype.newbyteorder("=")))


def same(path, want):
    got = torch.load(path)
    assert set(got) == set(want)
    for name, array in want.items():
        assert got[name].dtype == tensor(array).dtype and torch.equal(got[name], tensor(array)), name


def test_arrays_of_numpy(slipway, tmp_path):
    for name, array in arrays().items():
        np.save(tmp_path / "a.npy", array)
        slipway("convert", tmp_path / "a.npy", "-o", tmp_path / "o.pt")
        same(tmp_path / "o.pt", {"array": array})
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(tmp_path / "a.npy", "wb") as file:
            np.lib.format.write_array(file, np.arange(5), version=version)
        slipway("convert", tmp_path / "a.npy", "-o", tmp_path / "o.pt")
        same(tmp_path / "o.pt", {"array": np.arange(5)})


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_of_numpy(slipway, tmp_path, save):
    save(tmp_path / "a.npz", **arrays())
    slipway("convert", tmp_path / "a.npz", "-o", tmp_path / "o.pt")
    same(tmp_path / "o.pt", arrays())
    save(tmp_path / "b.npz", np.ones(2), names=np.array(["a"]))
    assert (
        "'names' (an array of texts)"
        in slipway("convert", tmp_path / "b.npz", "-o", tmp_path / "o.safetensors", status=4).stderr
    )
    slipway("convert", tmp_path / "b.npz", "-o", tmp_path / "o.safetensors", "--exclude", "names")
    assert torch.equal(load_file(tmp_path / "o.safetensors")["arr_0"], torch.ones(2).double())


def test_arrays_that_are_refused(slipway, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(2, 3))
    good = (tmp_path / "a.npy").read_bytes()
    damaged = [
        good[:-1],
        good + b"x",
        good[:20],
        good.replace(b"(2, 3)", b"(9, 3)"),
        good.replace(b"(2, 3)", b"(-2,3)"),
        good.replace(b"descr", b"desc_"),
        good.replace(b"(2, 3), }", b"(99999999999999999999,)"),
        good.replace(b"(2, 3), }", b"(4611686018427387904, 4,)"),
    ]
    for data in damaged:
        assert data != good
        (tmp_path / "bad.npy").write_bytes(data)
        slipway("convert", tmp_path / "bad.npy", "-o", tmp_path / "o.safetensors", status=3)
    for array, says in (
        (np.array([1, None], dtype=object), "Python objects"),
        (np.zeros(2, "V2"), "bfloat16"),
        (np.zeros(1, [("a", "f4")]), "records"),
        (np.zeros(1, "M8[s]"), "dates"),
        (np.zeros(1, "g"), "which torch has not"),
    ):
        np.save(tmp_path / "o.npy", array)
        assert says in slipway("convert", tmp_path / "o.npy", "-o", tmp_path / "o.safetensors", status=4).stderr
