"""Libraries for 64-bit Arm, made here and run under qemu-user, against eager torch."""

import pathlib
import shutil
import subprocess

import pytest
import torch
from exported import clones, export, tensors
from safetensors.torch import load_file, save_file
from torch import nn

TARGET = "aarch64-linux"


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 24, 3, stride=2, padding=1),
            nn.BatchNorm2d(24),
            nn.Hardswish(),
            nn.Conv2d(24, 24, 5, padding=2, groups=24),
            nn.BatchNorm2d(24),
            nn.ReLU6(),
            nn.Conv2d(24, 40, 1),
            nn.MaxPool2d(2),
            nn.ConvTranspose2d(40, 9, 4, stride=2, padding=1),
        )

    def forward(self, x):
        return self.body(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 48)
        layer = nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids):
        return self.encoder(self.embed(ids)).softmax(-1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(13, 21, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(42, 17, batch_first=True)

    def forward(self, x):
        return self.gru(self.lstm(x)[0])


class Integers(nn.Module):
    """A weight of 8-bit integers with scales, as weight-only quantization leaves it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randint(-128, 128, (70, 96), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(70, 1) * 0.01)

    def forward(self, x):
        return nn.functional.linear(x, self.codes.to(torch.float32) * self.scales)


class Sorts(nn.Module):
    def forward(self, x):
        values, places = x.sort(-1, descending=True)
        top = x.topk(3, dim=1)
        return values, places, top.values, top.indices, x.cumsum(0), x.argmax(-1), (x > 0).sum()


class Doubles(nn.Module):
    def forward(self, x):
        return torch.linalg.vector_norm(x, dim=-1), x @ x.transpose(-1, -2), x.var(-1), x.exp().log1p()


class Counts(nn.Module):
    """With a state that the library keeps between runs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        self.seen.add_(x.sum(0))
        return self.seen * 2


def halves(dtype):
    return nn.Sequential(nn.Linear(40, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 7)).to(dtype)


def normal(*sizes, dtype=torch.float32):
    return (torch.randn(*sizes).to(dtype),)


PROGRAMS = {
    "linear": (lambda: nn.Sequential(nn.Linear(37, 64), nn.SiLU(), nn.Linear(64, 5)), lambda: normal(9, 37)),
    "one_row": (lambda: nn.Linear(300, 77), lambda: normal(1, 300)),
    "convolutions": (Convolutions, lambda: normal(2, 3, 41, 37)),
    "attention": (Attention, lambda: (torch.randint(0, 50, (2, 19)),)),
    "recurrent": (Recurrent, lambda: normal(3, 11, 13)),
    "integers": (Integers, lambda: normal(5, 96)),
    "sorts": (Sorts, lambda: normal(6, 33)),
    "doubles": (Doubles, lambda: normal(4, 7, 9, dtype=torch.float64)),
    "bfloat16": (lambda: halves(torch.bfloat16), lambda: normal(6, 40, dtype=torch.bfloat16)),
    "float16": (lambda: halves(torch.float16), lambda: normal(6, 40, dtype=torch.float16)),
}
WITHIN = {torch.bfloat16: (4e-2, 2e-2), torch.float16: (1e-2, 5e-3), torch.float64: (1e-9, 1e-12)}


@pytest.fixture
def converted(slipway, tmp_path):
    """Makes model.so for the other machine of model.pt2; skips where slipway does not carry the runtime."""

    def call(*flags):
        try:
            slipway("convert", tmp_path / "model.pt2", "-o", tmp_path / "model.so", "--target", TARGET, *flags)
        except AssertionError as error:
            if "does not carry the runtime" in str(error):
                pytest.skip(f"not run: this slipway does not carry the runtime for {TARGET}")
            raise
        return tmp_path / "model.so"

    return call


@pytest.fixture
def emulated(slipway, converted, tmp_path):
    """Converts the program in model.pt2 for the other machine, and runs it; skips where that takes what is not here."""
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("not run: no qemu-aarch64")

    def call(arguments, *flags, convert=()):
        library = converted(*convert)
        inputs, outputs = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
        save_file({f"input.{i}": t.contiguous() for i, t in enumerate(tensors(arguments))}, inputs)
        slipway("run", library, "--inputs", inputs, "--outputs", outputs, *flags)
        found = load_file(outputs)
        return [found[f"output.{i}"] for i in range(len(found))]

    return call


def same(got, wanted):
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        assert g.dtype == w.dtype and g.shape == w.shape
        relative, absolute = WITHIN.get(w.dtype, (1e-4, 3e-5))
        size = w.double().square().mean().sqrt().item() if w.is_floating_point() else 0
        torch.testing.assert_close(g, w, rtol=relative, atol=absolute * size)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(emulated, tmp_path, name):
    make, inputs = PROGRAMS[name]
    module, arguments = make().eval(), inputs()
    export(module, arguments, tmp_path / "model.pt2")
    with torch.no_grad():
        wanted = tensors(module(*clones(arguments)))
    same(emulated(arguments), wanted)


def test_dynamic_sizes_and_threads(slipway, emulated, tmp_path):
    module = Convolutions().eval()
    batch = torch.export.Dim("B", min=1, max=8)
    export(module, normal(2, 3, 32, 32), tmp_path / "model.pt2", dynamic_shapes={"x": {0: batch}})
    for size in (1, 5):
        arguments = normal(size, 3, 32, 32)
        with torch.no_grad():
            wanted = tensors(module(*arguments))
        one = emulated(arguments, "--threads", "1")
        same(one, wanted)
        for a, b in zip(one, emulated(arguments, "--threads", "3")):
            assert torch.equal(a, b)
    slipway("run", tmp_path / "model.so", "--inputs", bad(tmp_path), "--outputs", tmp_path / "o.safetensors", status=3)


def bad(folder):
    save_file({"input.0": torch.zeros(9, 3, 32, 32)}, folder / "bad.safetensors")
    return folder / "bad.safetensors"


def test_state(slipway, emulated, tmp_path):
    """Kept from run to run, and as in the beginning for each set of inputs that verify compares."""
    export(Counts(), normal(3, 4), tmp_path / "model.pt2")
    x = normal(3, 4)
    same(emulated(x, "--repeat", "3", convert=("--state", "auto")), [3 * 2 * x[0].sum(0)])
    slipway("verify", tmp_path / "model.pt2", tmp_path / "model.so", "--sweep", "3")


def test_pages_of_64_kib(emulated, tmp_path):
    """qemu-user maps as a system with pages of 64 KiB does."""
    wrapper = tmp_path / "qemu"
    wrapper.write_text('#!/bin/sh\nexec qemu-aarch64 -p 65536 "$@"\n')
    wrapper.chmod(0o755)
    if subprocess.run([wrapper, "-version"], capture_output=True).returncode != 0:
        pytest.skip("not run: this qemu-aarch64 has no -p")
    module, arguments = Convolutions().eval(), normal(1, 3, 32, 32)
    export(module, arguments, tmp_path / "model.pt2")
    with torch.no_grad():
        wanted = tensors(module(*arguments))
    same(emulated(arguments, "--emulator", wrapper), wanted)


def test_header_compiles_with_the_cross_compiler(slipway, converted, tmp_path):
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("not run: no aarch64-linux-gnu-gcc")
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    export(nn.Linear(8, 4), normal(3, 8), tmp_path / "model.pt2")
    (tmp_path / "model.h").write_text(slipway("inspect", converted(), "--header").stdout)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "model.h"\nint main(void) {\n  slipway_model* m;\n'
        "  if (slipway_model_open(&m) != SLIPWAY_MODEL_OK || !model_fits(m)) return 1;\n"
        '  puts("fits");\n  slipway_model_close(m);\n  return 0;\n}\n'
    )
    command = [compiler, "-Wall", "-Wextra", "-Werror", f"-I{root}/include", "main.c", "./model.so", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    soname = subprocess.run(["readelf", "-d", "model.so"], cwd=tmp_path, capture_output=True, text=True, check=True)
    name = soname.stdout.split("soname: [")[1].split("]")[0]
    (tmp_path / name).symlink_to(tmp_path / "model.so")
    if shutil.which("qemu-aarch64") is None:
        return
    run = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_LIBRARY_PATH={tmp_path}", "./main"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "fits\n"), done.stderr
