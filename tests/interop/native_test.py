"""Native libraries against eager torch: through slipway run, a C program, ctypes with numpy, and torch's own AOT
loader."""

import ctypes
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from exported import export
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "samples" / "native"))
from model import Model  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.register_buffer("scale", torch.tensor([1.0, -2.0, 0.5, 3.0]))

    def forward(self, x, y):
        h = self.fc(x).relu() * self.scale
        return {"sum": h + y.T, "pair": (h.argmax(-1), x.shape[0]), "none": None}


def made(folder, slipway, *flags, name="m.so"):
    torch.manual_seed(1)
    module = Net().eval()
    batch = torch.export.Dim("B", min=2, max=64)
    export(
        module,
        (torch.randn(3, 8), torch.randn(4, 3)),
        folder / "m.pt2",
        dynamic_shapes={"x": {0: batch}, "y": {1: batch}},
    )
    slipway("convert", folder / "m.pt2", "-o", folder / name, *flags)
    return module


def same(got, want):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def test_ctypes_and_numpy(slipway, tmp_path):
    module = made(tmp_path, slipway)
    model = Model(tmp_path / "m.so")
    size = model.inputs[0][2][0]
    assert [(n, str(t), d) for n, t, d in model.inputs] == [
        ("x", "float32", [size, "8"]),
        ("y", "float32", ["4", size]),
    ]
    for b in (1, 2, 64):
        x, y = torch.randn(b, 8), torch.randn(4, b)
        want = module(x, y)
        # The second one strided: the transpose of a dense array.
        got = model(x.numpy(), np.ascontiguousarray(y.numpy().T).T)
        same(got, [want["sum"].detach().numpy(), want["pair"][0].numpy(), np.int64(b)])
    for bad, text in [
        ((np.zeros((65, 8), "f4"), np.zeros((4, 65), "f4")), f"{size} = 65, the program takes 0 to 64"),
        ((np.zeros((3, 8), "f4"), np.zeros((4, 2), "f4")), "y"),
        ((np.zeros((3, 8), "f8"), np.zeros((4, 3), "f4")), r"\(x\): is f64 of 2 dims, the program takes f32 of 2"),
        ((np.zeros((3, 8), "f4"),), "1 inputs, the model takes 2"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            model(*bad)
    model.close()


@pytest.mark.parametrize("compiler", [["cc", "run.c"], ["c++", "-std=c++17", "run.cc"]], ids=["c", "c++"])
def test_program(slipway, tmp_path, compiler):
    module = made(tmp_path, slipway)
    program = tmp_path / "run"
    subprocess.run(
        [
            *compiler[:-1],
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{ROOT / 'include'}",
            ROOT / "samples/native" / compiler[-1],
            "-ldl",
            "-o",
            program,
        ],
        check=True,
    )
    text = subprocess.run(
        [program, tmp_path / "m.so", f"{Model(tmp_path / 'm.so').inputs[0][2][0]}=5"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    want = module(torch.ones(5, 8), torch.ones(4, 5))["sum"].flatten()[:4].tolist()
    line = next(line for line in text.splitlines() if line.startswith("output") and "[5, 4]" in line)
    same([float(x) for x in line.split("]")[1].split()], want)
    failed = subprocess.run(
        [program, tmp_path / "m.so", f"{Model(tmp_path / 'm.so').inputs[0][2][0]}=99"], capture_output=True, text=True
    )
    assert failed.returncode == 1 and "99, the program takes" in failed.stderr


USER = """
#include <stdio.h>
#include "m.h"
int main(void) {
  slipway_model* model;
  int64_t x_shape[2], y_shape[2];
  float x[3 * 8], y[4 * 3];
  DLTensor inputs[M_INPUTS];
  DLManagedTensorVersioned* outputs[M_OUTPUTS];
  int i;
  for (i = 0; i < 24; ++i) x[i] = (float)i / 24;
  for (i = 0; i < 12; ++i) y[i] = (float)i;
  if (slipway_model_open(&model) != SLIPWAY_MODEL_OK || !m_fits(model)) return 2;
  inputs[M_IN_X] = m_in_x(x, x_shape, 3);
  inputs[M_IN_Y] = m_in_y(y, y_shape, 3);
  if (m_run(model, inputs, outputs) != SLIPWAY_MODEL_OK) {
    fprintf(stderr, "%s\\n", slipway_model_error());
    return 1;
  }
  for (i = 0; i < m_out_RESULT_shape(outputs)[0] * m_out_RESULT_shape(outputs)[1]; ++i)
    printf("%g\\n", (double)m_out_RESULT_data(outputs)[i]);
  m_delete(outputs);
  slipway_model_close(model);
  return 0;
}
"""


@pytest.mark.parametrize("language", [["cc", "-std=c11"], ["c++", "-std=c++11", "-x", "c++"]], ids=["c", "c++"])
def test_header(slipway, tmp_path, language):
    module = made(tmp_path, slipway)
    header = slipway("inspect", "--header", tmp_path / "m.so").stdout
    assert header == slipway("inspect", "--header", tmp_path / "m.pt2").stdout
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.native.pt2", "--to", "native-pt2")
    assert header == slipway("inspect", "--header", tmp_path / "m.native.pt2").stdout
    (tmp_path / "m.h").write_text(header)
    (tmp_path / "main.c").write_text(USER.replace("RESULT", re.search(r"const float\* m_out_(\w+)_data", header)[1]))
    subprocess.run([*language, "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{ROOT / 'include'}", tmp_path / "main.c",
    "-x", "none", tmp_path / "m.so",
                    "-o", tmp_path / "main"], check=True)  # fmt: skip
    # The library is found by its soname.
    dynamic = subprocess.run(["readelf", "-dW", tmp_path / "m.so"], check=True, capture_output=True, text=True).stdout
    (tmp_path / re.search(r"soname: \[(.*)\]", dynamic)[1]).symlink_to(tmp_path / "m.so")
    text = subprocess.run(
        [tmp_path / "main"], env={"LD_LIBRARY_PATH": str(tmp_path)}, check=True, capture_output=True, text=True
    ).stdout
    x, y = torch.arange(24).reshape(3, 8) / 24, torch.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(
        [float(t) for t in text.split()], module(x, y)["sum"].detach().flatten().numpy(), rtol=1e-4, atol=1e-5
    )


def test_the_file_is_a_library_like_any_other(slipway, tmp_path):
    made(tmp_path, slipway)
    first = (tmp_path / "m.so").read_bytes()
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "again.so")
    assert hashlib.sha256(first).digest() == hashlib.sha256((tmp_path / "again.so").read_bytes()).digest()
    needed = subprocess.run(["readelf", "-dW", tmp_path / "m.so"], check=True, capture_output=True, text=True)
    assert needed.stderr == ""
    libraries = [line.split("[")[1].rstrip("]") for line in needed.stdout.splitlines() if "(NEEDED)" in line]
    # in several files before 2.34
    glibc = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}
    assert set(libraries) <= glibc, libraries
    x, y = np.ones((3, 8), "f4"), np.ones((4, 3), "f4")
    want = Model(tmp_path / "m.so")(x, y)
    for tool in (["strip"], ["strip", "--strip-unneeded"], ["objcopy", "--strip-debug"]):
        copy = tmp_path / f"{'_'.join(tool)}.so"
        shutil.copy(tmp_path / "m.so", copy)
        subprocess.run([*tool, copy], check=True)
        same(Model(copy)(x, y), want)
    # Another model in the same process has weights of its own.
    torch.manual_seed(2)
    other = Net().eval()
    export(other, (torch.randn(3, 8), torch.randn(4, 3)), tmp_path / "o.pt2")
    slipway("convert", tmp_path / "o.pt2", "-o", tmp_path / "o.so")
    same(Model(tmp_path / "o.so")(x, y)[:1], [other(torch.ones(3, 8), torch.ones(4, 3))["sum"].detach().numpy()])
    same(Model(tmp_path / "m.so")(x, y), want)


def test_slipway_run(slipway, tmp_path):
    from safetensors.torch import load_file, save_file

    module = made(tmp_path, slipway)
    x, y = torch.randn(7, 8), torch.randn(4, 7)
    save_file({"input.0": x, "input.1": y}, tmp_path / "in.safetensors")
    want = module(x, y)
    for model in ("m.so", "m.pt2"):
        slipway(
            "run", tmp_path / model, "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
        )
        got = load_file(tmp_path / "out.safetensors")
        same([got[f"output.{i}"] for i in range(3)], [want["sum"].detach(), want["pair"][0], torch.tensor(7)])
    save_file({"input.0": x, "input.1": y[:, :5].contiguous()}, tmp_path / "in.safetensors")
    failed = slipway(
        "run",
        tmp_path / "m.so",
        "--inputs",
        tmp_path / "in.safetensors",
        "--outputs",
        tmp_path / "no.safetensors",
        status=3,
    )
    assert "y" in failed.stderr and not (tmp_path / "no.safetensors").exists()
    (tmp_path / "bad.so").write_bytes((tmp_path / "m.so").read_bytes()[:5000])
    slipway(
        "run",
        tmp_path / "bad.so",
        "--inputs",
        tmp_path / "in.safetensors",
        "--outputs",
        tmp_path / "no.safetensors",
        status=3,
    )


@pytest.mark.filterwarnings("ignore")
def test_torch_loads_the_package(slipway, tmp_path):
    module = made(tmp_path, slipway, "--to", "native-pt2", name="n.pt2")
    loaded = torch._inductor.aoti_load_package(str(tmp_path / "n.pt2"))
    for b in (2, 5):
        x, y = torch.randn(b, 8), torch.randn(4, b)
        got, want = loaded(x, y), module(x, y)
        torch.testing.assert_close(got["sum"], want["sum"], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(got["pair"][0], want["pair"][0])
        assert got["pair"][1].item() == b
    with pytest.raises(RuntimeError, match=" = 65, the program takes 0 to 64"):
        loaded(torch.randn(65, 8), torch.randn(4, 65))
    assert sorted(loaded.get_constant_fqns()) == ["fc.bias", "fc.weight", "scale"]
    new = Net().eval()
    values = {"fc.weight": new.fc.weight.detach(), "fc.bias": new.fc.bias.detach(), "scale": torch.ones(4)}
    loaded.load_constants(values, check_full_update=True)
    new.scale.copy_(values["scale"])
    x, y = torch.randn(4, 8), torch.randn(4, 4)
    torch.testing.assert_close(loaded(x, y)["sum"], new(x, y)["sum"], rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError):
        loaded.load_constants(
            {"fc.weight": torch.ones(3, 3), "fc.bias": values["fc.bias"], "scale": values["scale"]},
            check_full_update=True,
        )
    torch.testing.assert_close(loaded(x, y)["sum"], new(x, y)["sum"], rtol=1e-5, atol=1e-6)


def test_contract_of_the_loader(slipway, tmp_path):
    """What torch's loaders, of 2.14 too, rely on: inputs are taken over and their handles set to null, on success and
    on failure; and constants come and go as arrays of pairs."""
    handle, size = ctypes.c_void_p, ctypes.c_size_t

    class Pair(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("tensor", handle)]

    module = made(tmp_path, slipway, "--to", "native-pt2", name="n.pt2")
    with zipfile.ZipFile(tmp_path / "n.pt2") as package:
        (tmp_path / "m.so").write_bytes(package.read(next(n for n in package.namelist() if n.endswith(".so"))))
    library = ctypes.CDLL(str(tmp_path / "m.so"))
    aten = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))

    def container(function, *arguments):
        return getattr(library, "AOTInductorModelContainer" + function)(*arguments)

    def tensor_of(value):
        sizes, strides = (ctypes.c_int64 * value.dim())(*value.shape), (ctypes.c_int64 * value.dim())(*value.stride())
        out, data = handle(), handle()
        assert aten.aoti_torch_empty_strided(
            ctypes.c_int64(value.dim()), sizes, strides, aten.aoti_torch_dtype_float32(),
            aten.aoti_torch_device_type_cpu(), 0, ctypes.byref(out)
        ) == 0  # fmt: skip
        assert aten.aoti_torch_get_data_ptr(out, ctypes.byref(data)) == 0
        ctypes.memmove(data, value.contiguous().data_ptr(), value.numel() * 4)
        return out

    def first(out, shape):
        data = handle()
        assert aten.aoti_torch_get_data_ptr(handle(out), ctypes.byref(data)) == 0
        return torch.frombuffer(
            bytearray(ctypes.string_at(data.value, 4 * shape.numel())), dtype=torch.float32
        ).reshape(shape)

    model = handle()
    assert container("CreateWithDevice", ctypes.byref(model), size(1), b"cpu", None) == 0

    leaves = size()
    assert container("GetNumOutputs", model, ctypes.byref(leaves)) == 0

    def run(x, y):
        inputs, outputs = (handle * 2)(tensor_of(x), tensor_of(y)), (handle * leaves.value)()
        status = container("Run", model, inputs, size(2), outputs, leaves, None, None)
        assert list(inputs) == [None, None]
        return status, outputs

    x, y = torch.randn(7, 8), torch.randn(4, 7)
    status, outputs = run(x, y)
    want = module(x, y)["sum"].detach()
    assert status == 0
    torch.testing.assert_close(first(outputs[0], want.shape), want, rtol=1e-5, atol=1e-6)
    assert run(x, torch.randn(4, 5))[0] == 1

    bias = torch.randn(module.fc.bias.shape)
    pairs = (Pair * 1)(Pair(b"fc.bias", tensor_of(bias).value))
    assert container("UpdateConstantBufferPairs", model, pairs, size(1), False, False) == 0
    with torch.no_grad():
        module.fc.bias.copy_(bias)
    torch.testing.assert_close(first(run(x, y)[1][0], want.shape), module(x, y)["sum"].detach(), rtol=1e-5, atol=1e-6)
    entries, count = ctypes.POINTER(Pair)(), size()
    assert container("ExtractConstantsMapEntries", model, ctypes.byref(entries), ctypes.byref(count), False) == 0
    constants = {entries[i].name: entries[i].tensor for i in range(count.value)}
    torch.testing.assert_close(first(constants[b"fc.bias"], bias.shape), bias)
    kind, name = ctypes.c_int32(), ctypes.c_char_p()
    assert container("GetConstantType", model, size(0), ctypes.byref(kind)) == 0
    assert container("GetConstantType", model, size(99), ctypes.byref(kind)) == 1
    assert container("GetOutputName", model, size(0), ctypes.byref(name)) == 1
    assert library.AOTInductorModelCreateV2(ctypes.byref(handle()), None, size(0)) == 1
    assert container("Delete", model) == 0
    did = ctypes.c_bool(True)
    # not all of them
    assert container("CreateWithExternalConstants", ctypes.byref(model), size(1), b"cpu", None, pairs, size(1)) == 1
    assert container("CreateWithDevice", ctypes.byref(model), size(1), b"cpu", None) == 0
    assert container("DidCallLoadConstants", model, ctypes.byref(did)) == 0 and did
    assert container("ExtractConstantsMapEntries", model, ctypes.byref(entries), ctypes.byref(count), False) == 0
    everything = (Pair * 3)(
        *[
            Pair(entries[i].name, pairs[0].tensor if entries[i].name == b"fc.bias" else entries[i].tensor)
            for i in range(3)
        ]
    )
    external = handle()
    assert (
        container("CreateWithExternalConstants", ctypes.byref(external), size(1), b"cpu", None, everything, size(3))
        == 0
    )
    assert container("DidCallLoadConstants", external, ctypes.byref(did)) == 0 and not did
    model, kept = external, model
    torch.testing.assert_close(first(run(x, y)[1][0], want.shape), module(x, y)["sum"].detach(), rtol=1e-5, atol=1e-6)
    assert container("Delete", external) == container("Delete", kept) == 0


@pytest.mark.filterwarnings("ignore")
def test_package_with_the_program(slipway, tmp_path):
    module = made(tmp_path, slipway, "--to", "native-pt2", "--with-program", name="w.pt2")
    program = torch.export.load(tmp_path / "w.pt2")
    library = torch._inductor.aoti_load_package(str(tmp_path / "w.pt2"))
    for b in (2, 7):
        x, y = torch.randn(b, 8), torch.randn(4, b)
        got, want = library(x, y), program.module()(x, y)
        torch.testing.assert_close(got["sum"], want["sum"], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(want["sum"], module(x, y)["sum"])
        torch.testing.assert_close(got["pair"][0], want["pair"][0])
        assert got["pair"][1].item() == want["pair"][1] == b
    assert program.state_dict.keys() == {"fc.weight", "fc.bias", "scale"}
    # It is the program that was exported, and a source as good as that.
    slipway("convert", tmp_path / "w.pt2", "-o", tmp_path / "again.so")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    x, y = np.ones((3, 8), "f4"), np.ones((4, 3), "f4")
    same(Model(tmp_path / "again.so")(x, y), Model(tmp_path / "m.so")(x, y))
    assert "fc.weight" in slipway("inspect", tmp_path / "w.pt2").stdout
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "x.so", "--with-program", status=2)


def run_c(folder, program):
    """A C program that is linked with folder/m.so."""
    (folder / "main.c").write_text(program)
    command = [
        "cc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT / 'include'}",
        folder / "main.c",
        folder / "m.so",
        "-o",
        folder / "main",
    ]
    subprocess.run(command, check=True)
    dynamic = subprocess.run(["readelf", "-dW", folder / "m.so"], check=True, capture_output=True, text=True).stdout
    (folder / re.search(r"soname: \[(.*)\]", dynamic)[1]).symlink_to(folder / "m.so")
    return subprocess.run([folder / "main"], env={"LD_LIBRARY_PATH": str(folder)}, capture_output=True, text=True)


WRONG = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "slipway/slipway_model.h"

static int refused(int code, const char* text) {
  if (code == SLIPWAY_MODEL_BAD_INPUT && strstr(slipway_model_error(), text)) return 1;
  fprintf(stderr, "%d, %s instead of %s\\n", code, slipway_model_error(), text);
  return 0;
}

int main(void) {
  static float data[32], room[32];
  int64_t shape[] = {4, 8}, one[] = {1, 8}, wide[] = {INT64_MAX, 1},
      back[] = {-INT64_MAX, 1}, strange[] = {INT64_MAX, 1};
  DLTensor x = {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0}, y = x;
  const DLTensor *inputs[] = {&x}, *into[] = {&y};
  DLManagedTensorVersioned* out = NULL;
  slipway_model* model;
  if (slipway_model_open(&model)) return 1;
  if (!refused(slipway_model_run(model, inputs, 1, NULL, 1), "outputs is NULL")) return 2;
  if (!refused(slipway_model_run(model, NULL, 1, &out, 1), "inputs is NULL")) return 3;
  if (!refused(slipway_model_run_into(model, inputs, 1, NULL, 1), "outputs is NULL")) return 4;
  x.strides = wide;
  if (!refused(slipway_model_run(model, inputs, 1, &out, 1), "strides out of range")) return 5;
  x.strides = back;
  if (!refused(slipway_model_run(model, inputs, 1, &out, 1), "strides out of range")) return 6;
  x.strides = NULL;
  x.byte_offset = UINT64_MAX - 15;
  if (!refused(slipway_model_run(model, inputs, 1, &out, 1), "beyond the address space")) return 7;
  x.byte_offset = INT64_MAX;
  if (!refused(slipway_model_run(model, inputs, 1, &out, 1), "beyond the address space")) return 8;
  x.byte_offset = 0;
  x.data = NULL;
  if (!refused(slipway_model_run(model, inputs, 1, &out, 1), "no memory")) return 9;
  x.data = data;
  y.data = NULL;
  if (!refused(slipway_model_run_into(model, inputs, 1, into, 1), "no memory")) return 10;
  y.data = room;
  y.strides = wide;
  if (!refused(slipway_model_run_into(model, inputs, 1, into, 1), "strides out of range")) return 11;
  if (out) return 12;
  x.shape = one; /* the stride of a dim of one element is never taken */
  x.strides = strange;
  if (slipway_model_run(model, inputs, 1, &out, 1)) return 13;
  out->deleter(out);
  slipway_model_close(model);
  return 0;
}
"""


def test_wrong_calls(slipway, tmp_path):
    """What a caller may get wrong is an error: no crash, no address that wraps around."""
    shapes = ({0: torch.export.Dim("B", min=1, max=64)},)
    export(nn.Linear(8, 8), (torch.randn(4, 8),), tmp_path / "m.pt2", dynamic_shapes=shapes)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    done = run_c(tmp_path, WRONG)
    assert done.returncode == 0, (done.returncode, done.stderr)


OPTIONS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "slipway/slipway_model.h"

static long live, bytes, loops, tasks_done;
static void* take(void* user, size_t n, size_t alignment) {
  if (user != &live) abort();
  live += 1;
  bytes += (long)n;
  return aligned_alloc(alignment, n);
}
static void* none(void* user, size_t n, size_t alignment) {
  (void)user, (void)n, (void)alignment;
  return NULL;
}
static void give(void* user, void* memory, size_t n) {
  if (user != &live) abort();
  live -= 1;
  bytes -= (long)n;
  free(memory);
}
static void loop(void* user, int64_t tasks, void (*task)(void* context, int64_t i), void* context) {
  if (user != &loops) abort();
  loops += 1;
  for (int64_t i = tasks; i-- > 0;) {
    task(context, i);
    tasks_done += 1;
  }
}

int main(void) {
  static float data[128 * 256];
  int64_t shape[] = {128, 256};
  DLTensor x = {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  const DLTensor* inputs[] = {&x};
  DLManagedTensorVersioned *plain, *own;
  slipway_model* model;
  slipway_model_options options;
  for (int i = 0; i < 128 * 256; ++i) data[i] = (float)(i % 17) / 17;
  if (slipway_model_open_with(&model, NULL) || slipway_model_run(model, inputs, 1, &plain, 1)) return 1;
  slipway_model_close(model);
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.threads = 3;
  options.parallel_for = loop;
  options.parallel_user = &loops;
  options.allocate = take;
  options.memory_user = &live;
  if (slipway_model_open_with(&model, &options) != SLIPWAY_MODEL_BAD_INPUT) return 2;
  options.deallocate = give;
  if (slipway_model_open_with(&model, &options) || slipway_model_run(model, inputs, 1, &own, 1)) return 3;
  printf("%ld blocks, %ld loops of %ld tasks\\n", live, loops, tasks_done);
  if (live < 2 || loops < 1 || tasks_done <= loops) return 4;
  slipway_model_close(model);
  if (live != 1 || memcmp(plain->dl_tensor.data, own->dl_tensor.data, 128 * 256 * 4) != 0) return 5;
  own->deleter(own);
  plain->deleter(plain);
  if (live != 0 || bytes != 0) return 6;
  options.allocate = none;
  if (slipway_model_open_with(&model, &options) ||
      slipway_model_run(model, inputs, 1, &own, 1) != SLIPWAY_MODEL_NO_MEMORY) return 7;
  slipway_model_close(model);
  options.size = offsetof(slipway_model_options, threads); /* a caller who knows the first fields only */
  loops = 0;
  if (slipway_model_open_with(&model, &options) ||
      slipway_model_run(model, inputs, 1, &own, 1) || loops != 0 || live != 0) return 8;
  own->deleter(own);
  slipway_model_close(model);
  return 0;
}
"""


def test_callers_threads_and_memory(slipway, tmp_path):
    net = nn.Sequential(nn.Linear(256, 256), nn.Softmax(-1), nn.Linear(256, 256))
    export(net, (torch.randn(128, 256),), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
    done = run_c(tmp_path, OPTIONS)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
