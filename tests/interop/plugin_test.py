"""Operators of torch.library whose kernels come from a plugin (samples/plugin): run, carried inside a library, and
refused."""

import pathlib
import subprocess
import sys

import pytest
import torch
from exported import export
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "samples" / "plugin"), str(ROOT / "samples" / "native")]
import blend  # noqa: E402
from model import Model  # noqa: E402


class Net(torch.nn.Module):
    def forward(self, x):
        y = blend.blend(x.relu(), (x * 2).t().contiguous().t(), 0.25)
        z = blend.blend(x, y, mode="largest")
        return z.sum(1), blend.positive(z[0]) * 2, blend.weighted_sum([x, y, z], [0.5, -1.0, 2.0])


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugin") / "blend.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic",
    f"-I{ROOT / 'include'}",
                    ROOT / "samples/plugin/blend.c", "-o", path], check=True)  # fmt: skip
    return path


def exported(folder):
    export(Net(), (torch.randn(4, 6),), folder / "m.pt2", dynamic_shapes=({0: torch.export.Dim("B", min=2, max=64)},))
    return folder / "m.pt2"


def test_run_and_inside_a_library(slipway, plugin, tmp_path):
    source = exported(tmp_path)
    slipway("convert", source, "-o", tmp_path / "m.so", "--plugin", plugin)
    slipway("convert", source, "-o", tmp_path / "n.so", "--plugin", plugin)
    assert (tmp_path / "m.so").read_bytes() == (tmp_path / "n.so").read_bytes()
    for b in (4, 2, 9):
        x = torch.randn(b, 6)
        want = Net()(x)
        save_file({"input.0": x}, tmp_path / "in.safetensors")
        for model, flags in (("m.pt2", ("--plugin", plugin)), ("m.so", ()), ("m.so", ("--plugin", plugin))):
            slipway(
                "run",
                tmp_path / model,
                "--inputs",
                tmp_path / "in.safetensors",
                "--outputs",
                tmp_path / "out.safetensors",
                *flags,
            )
            got = load_file(tmp_path / "out.safetensors")
            for k, w in enumerate(want):
                torch.testing.assert_close(got[f"output.{k}"], w)
    # Two models with the same plugin in one process, and one opened twice.
    models = [Model(tmp_path / name) for name in ("m.so", "n.so", "m.so")]
    for model in models:
        for got, w in zip(model(x.numpy()), want, strict=True):
            torch.testing.assert_close(torch.from_numpy(got), w)
        model.close()


@pytest.mark.filterwarnings("ignore")
def test_inside_torchs_package(slipway, plugin, tmp_path):
    slipway("convert", exported(tmp_path), "-o", tmp_path / "p.pt2", "--to", "native-pt2", "--plugin", plugin)
    x = torch.randn(5, 6)
    for got, want in zip(torch._inductor.aoti_load_package(str(tmp_path / "p.pt2"))(x), Net()(x), strict=True):
        torch.testing.assert_close(got, want)


def test_what_goes_wrong(slipway, plugin, tmp_path):
    source = exported(tmp_path)
    out = tmp_path / "out.safetensors"
    save_file({"input.0": torch.randn(4, 6)}, tmp_path / "in.safetensors")
    run = ("--inputs", tmp_path / "in.safetensors", "--outputs", out)
    failed = slipway("run", source, *run, status=4)
    assert "mylib.blend.default" in failed.stderr and "mylib.weighted_sum.default" in failed.stderr
    assert "no such file" in slipway("run", source, *run, "--plugin", tmp_path / "nothing.so", status=3).stderr.lower()

    # No plugin, one of another version, and sizes that are not those of the program.
    def made(name, body):
        (tmp_path / f"{name}.c").write_text('#include "slipway/slipway_kernel.h"\n' + body)
        subprocess.run(
            ["cc", "-shared", "-fPIC", f"-I{ROOT / 'include'}", tmp_path / f"{name}.c", "-o", tmp_path / f"{name}.so"],
            check=True,
        )
        return tmp_path / f"{name}.so"

    library = (
        "const slipway_kernel_library* slipway_kernels(void) {"
        " static const slipway_kernel_library l = {%s, sizeof(slipway_kernel), k, 1}; return &l; }\n"
    )
    kernel = 'static const slipway_kernel k[] = {{"mylib::blend", run, %s, 0}};\n'
    fine = "static const char* run(const slipway_kernel_call* c) { (void)c; return 0; }\n"
    for name, body, text in [
        ("none", "int other(void) { return 0; }", "no function slipway_kernels"),
        ("version", fine + kernel % 0 + library % 99, "another version"),
        ("unnamed", fine + (kernel % 0).replace("mylib::", "") + library % 1, "is not as in mylib::blend"),
    ]:
        assert text in slipway("run", source, *run, "--plugin", made(name, body), status=3).stderr
    sizes = (
        "static const char* sizes(const slipway_kernel_call* c, int64_t* const* s)"
        " { (void)c; s[0][0] = 1; s[0][1] = 2; return 0; }\n"
    )
    other = made("other", fine + sizes + kernel % "sizes" + library % 1)
    failed = slipway("run", source, *run, "--plugin", other, "--plugin", plugin, status=3)
    assert "other sizes than the program declares" in failed.stderr
    assert not out.exists()


def test_an_error_is_a_text(slipway, plugin, tmp_path):
    class Bad(torch.nn.Module):
        def forward(self, x):
            return blend.blend(x, x, mode="odd")

    export(Bad(), (torch.randn(3),), tmp_path / "b.pt2")
    save_file({"input.0": torch.randn(3)}, tmp_path / "in.safetensors")
    failed = slipway(
        "run",
        tmp_path / "b.pt2",
        "--plugin",
        plugin,
        "--inputs",
        tmp_path / "in.safetensors",
        "--outputs",
        tmp_path / "o",
        status=3,
    )
    assert "mylib.blend.default: blend has no mode 'odd'" in failed.stderr
