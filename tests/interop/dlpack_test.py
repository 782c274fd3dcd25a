"""The C library beside torch and numpy, through the ctypes of samples/python_ctypes.py: nothing is copied, everything
is given back once, and files written from live tensors are those written from files."""

import ctypes
import gc
import os
import pathlib
import re
import subprocess
import sys
import weakref

import numpy as np
import onnx
import onnxruntime
import pytest
import python_ctypes as sample
import safetensors.torch
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def library():
    binary = pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway"))
    path = binary.parent / "libslipway.so"
    if b"__asan_init" in path.read_bytes():
        pytest.skip("a sanitized library cannot be loaded into Python")
    return sample.Library(path)


def bytes_of(tensor):
    return tensor.contiguous().flatten().view(torch.uint8)


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """A program of one linear layer, and its module."""
    path = tmp_path_factory.mktemp("linear") / "model.pt2"
    module = torch.nn.Linear(8, 4).eval()
    torch.export.save(torch.export.export(module, (torch.ones(2, 8),)), path)
    return path, module


def test_sample(library, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["python_ctypes.py", library.c._name, str(tmp_path)])
    assert sample.main() == 0, capsys.readouterr().out
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    written = safetensors.torch.load_file(tmp_path / "weights.safetensors")
    assert torch.equal(written["embedding"], torch.arange(12.0).reshape(3, 4).t())
    assert written["scale"].item() == 0.5 and written["scale"].dtype == torch.float16


DTYPES = """bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 complex128
            float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu""".split()


@pytest.mark.parametrize("dtype", DTYPES)
def test_types(library, dtype):
    dtype = getattr(torch, dtype)
    data = (
        torch.randint(0, 2, (6, 16), dtype=torch.uint8)
        if dtype == torch.bool
        else torch.randint(0, 100, (6, 16), dtype=torch.uint8)
    )
    tensor = data.view(dtype)
    with sample.Model(library) as model:
        model["x"] = tensor
        [(name, _, shape)] = model.values(sample.WEIGHT)
        assert name == "x" and shape == [str(n) for n in tensor.shape]
        back = torch.from_dlpack(model["x"])
    assert back.data_ptr() == tensor.data_ptr() and back.dtype == dtype and back.shape == tensor.shape
    assert torch.equal(bytes_of(back), bytes_of(tensor))


def test_packed_floats_of_torch(library, tmp_path):
    """Two numbers in an element: DLPack says lanes, safetensors counts numbers."""
    packed = torch.arange(12, dtype=torch.uint8).view(3, 4).view(torch.float4_e2m1fn_x2)
    with sample.Model(library) as model:
        model["x"] = packed
        assert [shape for _, _, shape in model.values(sample.WEIGHT)] == [["3", "8"]]
        model.export(tmp_path / "x.safetensors")
    written = safetensors.torch.load_file(tmp_path / "x.safetensors")["x"]
    assert written.dtype == torch.float4_e2m1fn_x2 and torch.equal(written.view(torch.uint8), packed.view(torch.uint8))


def test_strides_and_offsets(library, tmp_path):
    base = torch.arange(120.0)
    views = {
        "transposed": base.view(10, 12).t(),
        "column": base.view(10, 12)[:, 3],
        "inner": base.view(2, 5, 12)[1:, 1:4, 2:9:3],
        "expanded": base[:4].expand(3, 4),
        "scalar": base[7],
        "empty": base.view(10, 12)[:, 5:5],
        "one": base.view(1, 120)[:, 8:16],
    }
    with sample.Model(library) as model:
        for name, view in views.items():
            model[name] = view
            back = torch.from_dlpack(model[name])
            assert torch.equal(back, view) and (view.numel() == 0 or back.data_ptr() == view.data_ptr()), name
        model.export(tmp_path / "views.safetensors")
    written = safetensors.torch.load_file(tmp_path / "views.safetensors")
    assert written.keys() == views.keys() and all(torch.equal(written[name], view) for name, view in views.items())


def counted(tensor):
    """A capsule's structure whose deleter counts its calls, and the list of them."""
    capsule = tensor.__dlpack__(max_version=(1, 1))
    pointer = sample._python.PyCapsule_GetPointer(capsule, sample.VERSIONED)
    sample._python.PyCapsule_SetName(capsule, sample.USED)
    managed = ctypes.cast(pointer, ctypes.POINTER(sample.DLManagedTensorVersioned))
    original, calls = ctypes.cast(managed.contents.deleter, ctypes.c_void_p).value, []

    def delete(self):
        calls.append(1)
        sample.Deleter(original)(self)

    keep = sample.Deleter(delete)
    managed.contents.deleter = keep
    return managed, calls, keep


@pytest.mark.parametrize(
    "make", [lambda *s: torch.zeros(*s), lambda *s: np.zeros(s, np.float32)], ids=["torch", "numpy"]
)
def test_deleters_run_once(library, linear, make):
    path, _ = linear
    with sample.Model(library, path) as model:
        set_weight = lambda name, managed: library.c.slipway_weight_set(model._handle, 0, name, managed)
        first, first_calls, keep_first = counted(make(4, 8))
        second, second_calls, keep_second = counted(make(4, 8))
        wrong, wrong_calls, keep_wrong = counted(make(8, 4))
        unknown, unknown_calls, keep_unknown = counted(make(4, 8))
        future, future_calls, keep_future = counted(make(4, 8))
        future.contents.major = 2
        assert set_weight(b"weight", first) == 0 and not first_calls
        assert set_weight(b"weight", wrong) == 3 and len(wrong_calls) == 1
        assert set_weight(b"nothing", unknown) == 2 and len(unknown_calls) == 1
        assert set_weight(b"weight", future) == 4 and len(future_calls) == 1
        given = torch.from_dlpack(model["weight"])
        assert set_weight(b"weight", second) == 0 and not first_calls, "given out, and so still there"
        del given
        gc.collect()
        assert len(first_calls) == 1 and not second_calls
    assert len(first_calls) == len(second_calls) == 1


def test_arrays_live_as_long_as_they_are_needed(library):
    array = np.arange(6.0)
    alive = weakref.ref(array)
    model = sample.Model(library)
    model["x"] = array
    address = array.ctypes.data
    del array
    gc.collect()
    assert alive() is not None
    back = np.from_dlpack(model["x"])
    model.close()
    assert back.ctypes.data == address and not back.flags.writeable and back.sum() == 15
    del back
    gc.collect()
    assert alive() is None


def test_a_capsule_nobody_takes(library):
    array = np.ones(3)
    alive = weakref.ref(array)
    with sample.Model(library) as model:
        model["x"] = array
        weight = model["x"]
    del array
    gc.collect()
    assert alive() is not None
    del weight
    gc.collect()
    assert alive() is None


def test_read_only_arrays_are_taken(library, tmp_path):
    array = np.arange(4, dtype=np.int16)
    array.flags.writeable = False
    with sample.Model(library) as model:
        model["x"] = array
        model.export(tmp_path / "x.safetensors")
    assert safetensors.torch.load_file(tmp_path / "x.safetensors")["x"].tolist() == [0, 1, 2, 3]


def test_negative_strides_are_refused(library):
    array = np.arange(4.0)[::-1]
    with sample.Model(library) as model:
        with pytest.raises(sample.Error, match="negative stride") as error:
            model["x"] = array
        assert error.value.status == 4


@pytest.mark.parametrize("target", ["model.onnx", "model.pt2"])
def test_exports_compute_with_live_weights(library, linear, tmp_path, target):
    path, module = linear
    weight, bias = torch.randn(8, 4).t(), np.linspace(-1, 1, 4, dtype=np.float32)  # one of them strided
    x = torch.randn(2, 8)
    wanted = torch.nn.functional.linear(x, weight, torch.from_numpy(bias))
    with sample.Model(library, path) as model:
        model["weight"], model["bias"] = weight, bias
        model.export(tmp_path / target)
        (tmp_path / "again").mkdir()
        model.export(tmp_path / "again" / target)
    assert (tmp_path / target).read_bytes() == (tmp_path / "again" / target).read_bytes()
    if target.endswith(".onnx"):
        onnx.checker.check_model(str(tmp_path / target), full_check=True)
        [got] = onnxruntime.InferenceSession(tmp_path / target).run(None, {"input": x.numpy()})
    else:
        got = torch.export.load(tmp_path / target).module()(x).detach().numpy()
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_real_weights_from_memory_give_the_same_file(library, slipway, minilm, tmp_path):
    weights = safetensors.torch.load_file(minilm / "model.safetensors")
    program = ROOT / "samples" / "minilm.pt2"
    with sample.Model(library, program) as model:
        names = [name for name, _, _ in model.values(sample.WEIGHT)]
        for name in names:
            if name in weights:
                model[name] = weights[name]
        model.export(tmp_path / "memory.onnx")
    slipway(
        "convert", program, "--weights", minilm / "model.safetensors", "--allow-missing", "-o", tmp_path / "file.onnx"
    )
    assert (tmp_path / "memory.onnx").read_bytes() == (tmp_path / "file.onnx").read_bytes()


def test_options_are_the_flags_of_convert(library, slipway):
    flags = set(re.findall(r"^\s+(?:-\w,\s*)?--([a-z][a-z0-9-]+)", slipway("convert", "--help").stdout, re.M))
    keys, i = set(), 0
    while key := library.c.slipway_options_key(i):
        keys.add(key.decode())
        i += 1
    # What the functions' own arguments say, and how the command line reports.
    assert flags - keys == {"help", "output", "diagnostics", "sarif", "color", "quiet", "json"} and keys <= flags


LAYOUT = """
#include <stddef.h>
#include <stdio.h>
#include HEADER
#define SHOW(type, field) printf(#type "." #field " %zu %zu\\n", offsetof(type, field), sizeof(((type*)0)->field))
int main() {
  SHOW(DLTensor, data); SHOW(DLTensor, device); SHOW(DLTensor, ndim); SHOW(DLTensor, dtype); SHOW(DLTensor, shape);
  SHOW(DLTensor, strides); SHOW(DLTensor, byte_offset);
  SHOW(DLManagedTensor, dl_tensor); SHOW(DLManagedTensor, manager_ctx); SHOW(DLManagedTensor, deleter);
  SHOW(DLManagedTensorVersioned, version); SHOW(DLManagedTensorVersioned, manager_ctx);
  SHOW(DLManagedTensorVersioned, deleter);
  SHOW(DLManagedTensorVersioned, flags); SHOW(DLManagedTensorVersioned, dl_tensor);
  SHOW(DLDevice, device_type); SHOW(DLDevice, device_id); SHOW(DLDataType, code); SHOW(DLDataType, bits);
  SHOW(DLDataType, lanes);
  printf("%zu %zu %zu\\n", sizeof(DLTensor), sizeof(DLManagedTensor), sizeof(DLManagedTensorVersioned));
  printf("%d %d %d %d %d\\n", kDLCPU, kDLCUDA, kDLCUDAHost, kDLROCMHost, kDLMAIA);
  printf("%d %d %d %d %d %d %d\\n", kDLInt, kDLUInt, kDLFloat, kDLOpaqueHandle, kDLBfloat, kDLComplex, kDLBool);
  printf("%d %d %d %d %d %d %d %d %d %d %d\\n", kDLFloat8_e3m4, kDLFloat8_e4m3, kDLFloat8_e4m3b11fnuz, kDLFloat8_e4m3fn,
         kDLFloat8_e4m3fnuz, kDLFloat8_e5m2, kDLFloat8_e5m2fnuz, kDLFloat8_e8m0fnu, kDLFloat6_e2m3fn, kDLFloat6_e3m2fn,
         kDLFloat4_e2m1fn);
  printf("%d %lu %lu %lu\\n", DLPACK_MAJOR_VERSION, (unsigned long)DLPACK_FLAG_BITMASK_READ_ONLY,
         (unsigned long)DLPACK_FLAG_BITMASK_IS_COPIED, (unsigned long)DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
}
"""


def test_structures_are_those_of_dlpack(tmp_path):
    """Our declarations beside the header that torch ships; and ours give way to it."""
    torch_include = pathlib.Path(torch.__file__).parent / "include"
    (tmp_path / "layout.cc").write_text(LAYOUT)
    shown = []
    for header in ("slipway/dlpack.h", "ATen/dlpack.h"):
        command = [
            "c++",
            "-std=c++17",
            f"-I{ROOT / 'include'}",
            f"-I{torch_include}",
            f'-DHEADER="{header}"',
            "layout.cc",
            "-o",
            "layout",
        ]
        subprocess.run(command, cwd=tmp_path, check=True)
        shown.append(subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True).stdout)
    assert shown[0] == shown[1]
    (tmp_path / "both.cc").write_text(
        '#include "ATen/dlpack.h"\n#include "slipway/slipway.h"\n#include "slipway/dlpack_producer.h"\n'
    )
    subprocess.run(
        ["c++", "-std=c++17", f"-I{ROOT / 'include'}", f"-I{torch_include}", "-c", "both.cc"], cwd=tmp_path, check=True
    )
