"""Layers whose activations become integers while they run, in native libraries: the numbers of torchao to the bit where
its sums are exact, under each instruction set of the machine, for one row, a few and many; and --allow-int8-activations
beside the floats it replaces."""

import json
import os
import pathlib
import subprocess

import pytest
import torch
import torchao.quantization as ao
from safetensors.torch import load_file, save_file
from torch import nn

FLAGS = set(pathlib.Path("/proc/cpuinfo").read_text().split())
AVX512 = {"avx512f", "avx512vl", "avx512bw", "avx512dq"}
SETS = {
    "v2": set(),
    "avx2": {"avx2", "fma"},
    "avxvnni": {"avx_vnni"},
    "avx512": AVX512,
    "avx512vnni": AVX512 | {"avx512_vnni"},
    "avx512bf16": AVX512 | {"avx512_vnni", "avx512_bf16"},
    "amx": AVX512 | {"avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"},
}
PRESENT = [name for name, needs in SETS.items() if needs <= FLAGS]
INT8 = lambda: ao.Int8DynamicActivationInt8WeightConfig()  # noqa: E731
ASYMMETRIC = lambda: ao.Int8DynamicActivationInt8WeightConfig(act_mapping_type=ao.MappingType.ASYMMETRIC)  # noqa: E731
INT4 = lambda: ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=ao.PerGroup(32))


def layers(config, dtype):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(96, 160), nn.ReLU(), nn.Linear(160, 72, bias=False)).to(dtype).eval()
    ao.quantize_(net, config())
    return net


def exported(net, dtype, folder):
    x = torch.randn(5, 96, dtype=dtype)
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},)), folder / "m.pt2")


def library(slipway, folder, *flags):
    return slipway("convert", folder / "m.pt2", "-o", folder / "m.so", *flags)


def run(slipway, folder, x, isa=None, *flags):
    save_file({"input.0": x}, folder / "in")
    environment = {**os.environ, **({"SLIPWAY_ISA": isa} if isa else {})}
    done = subprocess.run(
        [
            os.environ.get("SLIPWAY", "build/slipway"),
            "run",
            folder / "m.so",
            "--inputs",
            folder / "in",
            "--outputs",
            folder / "out",
            *flags,
        ],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return load_file(folder / "out")["output.0"], done.stdout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("config", [INT8, ASYMMETRIC], ids=["symmetric", "asymmetric"])
def test_exact_sums_give_torchao_s_bits(slipway, tmp_path, config, dtype):
    net = layers(config, dtype)
    exported(net, dtype, tmp_path)
    library(slipway, tmp_path)
    for rows in (1, 7, 64):
        x = torch.randn(rows, 96, dtype=dtype) * 3
        x[0, :3] = torch.tensor([0.0, -0.0, 100.0])
        if rows > 2:
            x[2] = 0
        want = net(x)
        for isa in PRESENT:
            got, _ = run(slipway, tmp_path, x, isa)
            assert torch.equal(got, want), (rows, isa)


def test_one_node_a_layer(slipway, tmp_path):
    for config in (INT8, INT4):
        exported(layers(config, torch.float32), torch.float32, tmp_path)
        library(slipway, tmp_path)
        _, _ = run(slipway, tmp_path, torch.randn(3, 96))
        _, text = run(slipway, tmp_path, torch.randn(3, 96), None, "--profile")
        assert "integer_linear" in text and "quantize_rows" in text and "_int_mm" not in text and "amax" not in text


@pytest.mark.parametrize("isa", PRESENT)
def test_groups(slipway, tmp_path, isa):
    net = layers(INT4, torch.float32)
    exported(net, torch.float32, tmp_path)
    library(slipway, tmp_path)
    for rows in (1, 7, 64):
        x = torch.randn(rows, 96)
        got, _ = run(slipway, tmp_path, x, isa)
        want = net(x)
        assert (got - want).abs().max() <= 2e-6 * want.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "config",
    [ao.Int8WeightOnlyConfig, lambda: ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32))],
    ids=["int8", "int4"],
)
def test_activations_may_be_rounded(slipway, tmp_path, config, dtype):
    net = layers(config, dtype)
    exported(net, dtype, tmp_path)
    x = torch.randn(16, 96, dtype=dtype)
    want = net(x).float()
    done = library(slipway, tmp_path, "--allow-int8-activations")
    assert "activations of 2 linear layers" in done.stdout + done.stderr
    got, text = run(slipway, tmp_path, x, None, "--profile")
    assert "integer_linear" in text
    error = (got.float() - want).norm() / want.norm()
    assert 1e-5 < error < 0.03  # rounded, and not by more than 8 bits ask for
    library(slipway, tmp_path)
    got, text = run(slipway, tmp_path, x, None, "--profile")
    assert "integer_linear" not in text
    assert (got.float() - want).norm() / want.norm() < (1e-6 if dtype == torch.float32 else 1e-2)


def test_only_for_libraries(slipway, tmp_path):
    exported(layers(ao.Int8WeightOnlyConfig, torch.float32), torch.float32, tmp_path)
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--allow-int8-activations", status=2)
    assert "allow-int8-activations" in done.stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_float8_weights_are_not_widened_in_memory(slipway, tmp_path, dtype):
    net = layers(ao.Float8WeightOnlyConfig, dtype)
    exported(net, dtype, tmp_path)
    library(slipway, tmp_path)
    for rows in (1, 40):
        x = torch.randn(rows, 96, dtype=dtype)
        got, text = run(slipway, tmp_path, x, None, "--profile")
        want = net(x).float()
        assert (got.float() - want).abs().max() <= (3e-6 if dtype == torch.float32 else 2e-2) * want.abs().max()
        assert "slipway.quantized_linear" in text
    report = json.loads(slipway("inspect", tmp_path / "m.so", "--json").stdout)
    assert report


@pytest.mark.parametrize("isa", PRESENT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_zero_points_behind_the_scale(slipway, tmp_path, dtype, isa):
    """int4-weight-only, (q - 8) · scale + zero: one product a layer, beside torch with the same program."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(128, 160), nn.ReLU(), nn.Linear(160, 72, bias=False)).to(dtype).eval()
    with torch.no_grad():
        net[0].weight += 0.03  # zero points far from 0
    x = torch.randn(5, 128, dtype=dtype)
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},)), tmp_path / "f.pt2")
    slipway("quantize", tmp_path / "f.pt2", "-o", tmp_path / "m.pt2", "--config", "int4-weight-only:group=32")
    reference = torch.export.load(tmp_path / "m.pt2").module()
    library(slipway, tmp_path)
    for rows in (1, 3, 40):
        x = torch.randn(rows, 128, dtype=dtype)
        got, _ = run(slipway, tmp_path, x, isa)
        want = reference(x).float()
        assert (got.float() - want).abs().max() <= (3e-6 if dtype == torch.float32 else 1e-2) * want.abs().max()
    assert slipway("inspect", tmp_path / "m.so", "--kernels").stdout.count("unsigned nibbles") == 2
