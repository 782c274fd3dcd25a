"""Calibrated quantization against real torchao: AWQ, SmoothQuant, GPTQ and static int8, on programs that slipway runs
on samples."""

import inspect
import os
import pathlib
import subprocess

import onnxruntime
import pytest
import torch
import torchao.prototype.gptq.api as gptq
import torchao.quantization as ao
from safetensors.torch import load_file, save_file
from torch import nn
from torchao.prototype.awq import AWQConfig
from torchao.prototype.mx_formats import NVFP4DynamicActivationNVFP4WeightConfig
from torchao.prototype.smoothquant import SmoothQuantConfig
from torchao.quantization.granularity import PerGroup, PerRow, PerTensor
from torchao.quantization.quant_primitives import choose_qparams_affine

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway")).parent / "calibrate_weights"
ASYM = ao.MappingType.ASYMMETRIC


def export(module, arguments, path):
    sizes = tuple({0: torch.export.Dim("rows", min=2, max=4096)} for _ in arguments)
    torch.export.save(torch.export.export(module.eval(), arguments, dynamic_shapes=sizes), path)


def calibrate(folder, config, samples, *options, status=0):
    """Runs the tool on folder/model.pt2; its tensors, or what it says where it fails."""
    save_file({name: t.clone().contiguous() for name, t in samples.items()}, folder / "calibration.safetensors")
    done = subprocess.run(
        [
            TOOL,
            config,
            folder / "model.pt2",
            folder / "calibration.safetensors",
            folder / "out.safetensors",
            "weight=weight",
            *options,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    return load_file(folder / "out.safetensors") if status == 0 else done.stderr


def layer(folder, n, k, dtype=torch.float32, rows=200):
    """A linear layer, exported, with inputs whose features differ in size; one is always zero."""
    linear = nn.Linear(k, n, bias=False, dtype=dtype)
    x = torch.randn(rows, k) * torch.linspace(0.05, 3, k)[torch.randperm(k)]
    x = (x @ (torch.eye(k) + 0.05 * torch.randn(k, k))).to(dtype)
    x[:, 3] = 0
    export(linear, (x[:2],), folder / "model.pt2")
    return linear, x


def two_steps(method, base, linear, x, **options):
    holder = nn.Sequential(linear)
    ao.quantize_(holder, method(base, step="prepare", **options))
    holder(x)
    ao.quantize_(holder, method(base, step="convert", **options))
    return holder[0].weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize(
    "name,method,base",
    [
        ("awq(int8-weight-only)", AWQConfig, ao.Int8WeightOnlyConfig()),
        ("awq(int8-weight-only:group=32)", AWQConfig, ao.Int8WeightOnlyConfig(granularity=PerGroup(32))),
        ("awq(int8-weight-only:per=tensor)", AWQConfig, ao.Int8WeightOnlyConfig(granularity=PerTensor())),
        ("awq(int8-dynamic)", AWQConfig, ao.Int8DynamicActivationInt8WeightConfig()),
        ("smoothquant(int8-weight-only)", SmoothQuantConfig, ao.Int8WeightOnlyConfig()),
        ("smoothquant(int8-dynamic)", SmoothQuantConfig, ao.Int8DynamicActivationInt8WeightConfig()),
        (
            "smoothquant(int8-dynamic:asym)",
            SmoothQuantConfig,
            ao.Int8DynamicActivationInt8WeightConfig(act_mapping_type=ASYM),
        ),
    ],
)
def test_scaled_activations(name, method, base, dtype, tmp_path):
    linear, x = layer(tmp_path, 24, 128, dtype)
    wanted = two_steps(method, base, linear, x)
    got = calibrate(tmp_path, name, {"input.0": x})
    # Powers and means differ in their last bit.
    torch.testing.assert_close(
        got["weight.act_pre_scale"], wanted.act_pre_scale.float(), rtol=1e-6 if dtype == torch.float32 else 2e-2, atol=0
    )
    torch.testing.assert_close(
        got["weight.scale"].float(), wanted.scale.float(), rtol=1e-6 if dtype == torch.float32 else 2e-2, atol=0
    )
    off = (got["weight.qdata"].int() - wanted.qdata.int()).abs()
    assert off.max() <= 1 if dtype == torch.float32 else off.max() <= 2
    assert (off > 0).float().mean() < (0.002 if dtype == torch.float32 else 0.2)


def test_awq_search_and_sample(tmp_path):
    """The first of the best of a space that the configuration names; a sample that is smaller than the data."""
    linear, x = layer(tmp_path, 24, 128, rows=3000)
    got = calibrate(tmp_path, "awq(int8-weight-only):search=7", {"input.0": x})["weight.act_pre_scale"]
    ratios = [x.abs().mean(0).pow(i / 7).clamp(min=1e-4) for i in range(7)]
    assert any(torch.allclose(got, (c.max() * c.min()).sqrt() / c, rtol=1e-4) for c in ratios)
    assert torch.equal(
        got, calibrate(tmp_path, "awq(int8-weight-only):search=7", {"input.0": x}, "threads=2")["weight.act_pre_scale"]
    )


def int4_rows(x, group_size):
    """What torchao takes from a library for GPUs: scale and zero point, transposed, of groups of 4 bits."""
    groups = x.reshape(-1, group_size).float()
    least, greatest = groups.amin(1, keepdim=True), groups.amax(1, keepdim=True)
    scale = (greatest - least).clamp(min=1e-6) / 15
    zero = least + scale * 8
    codes = ((groups - least) / scale).round().clamp(0, 15) - 8
    turned = [t.view(x.shape[0], -1).t().contiguous().to(x.dtype) for t in (scale, zero)]
    return codes.to(torch.int8).view(x.shape), *turned


def torchao_gptq(hessian, weight, base, **options):
    """torchao's own source without the two lines that want CUDA."""
    source = inspect.getsource(gptq.gptq_quantize).replace("torch.cuda.synchronize()", "pass")
    source = source.replace('assert device.type == "cuda", "GPTQ only supports CUDA currently"', "pass")
    names = dict(
        gptq.__dict__,
        int4_row_quantize_zp=int4_rows,
        pack_int4=lambda q: q,
        _nvfp4_qdq_fn=gptq._nvfp4_with_precalculated_scales_qdq,
        _nvfp4_q_fn=gptq._nvfp4_with_precalculated_scales_q,
        Int4Tensor=lambda **parts: type("Parts", (), parts),
    )
    exec(compile(source, "gptq", "exec"), names)
    config = gptq.GPTQConfig(step="convert", base_config=ao.Int8WeightOnlyConfig(), **options)
    config.base_config = base
    return names["gptq_quantize"](hessian.clone(), weight.clone(), config)


@pytest.mark.parametrize(
    "name,base,k,options",
    [
        ("gptq(int8-weight-only)", ao.Int8WeightOnlyConfig(), 128, {}),
        ("gptq(int8-weight-only)", ao.Int8WeightOnlyConfig(), 250, {"percdamp": 0.05}),
        ("gptq(int4-weight-only:group=32)", ao.Int4WeightOnlyConfig(group_size=32), 384, {}),
        ("gptq(int4-weight-only:group=128)", ao.Int4WeightOnlyConfig(group_size=128), 640, {}),
        ("gptq(int4-weight-only:group=64)", ao.Int4WeightOnlyConfig(group_size=64), 512, {"block": 64}),
        ("gptq(nvfp4-dynamic)", NVFP4DynamicActivationNVFP4WeightConfig(use_triton_kernel=False), 256, {}),
    ],
)
def test_gptq(name, base, k, options, tmp_path):
    linear, x = layer(tmp_path, 160, k, rows=2 * k)
    weight, hessian = linear.weight.detach(), 2 * x.t() @ x
    keys = {"block": "gptq_quantize_block_size"}
    wanted = torchao_gptq(hessian, weight, base, **{keys.get(key, key): value for key, value in options.items()})
    suffix = ":" + ",".join(f"{key}={value}" for key, value in options.items()) if options else ""
    got = calibrate(tmp_path, name + suffix, {"input.0": x})
    if "int4" in name:
        codes, scale, group = got["weight.codes"].int() - 8, got["weight.scale"], base.group_size
        first = int4_rows(torch.where(hessian.diag() == 0, 0, weight), group)
        assert torch.equal(scale[0], first[1][0])  # nothing has been corrected yet
        s, z = (t.t().repeat_interleave(group, 1).float() for t in (wanted.scale, wanted.zero_point))
        off, dequant = (codes - wanted.qdata.int()).abs(), wanted.qdata * s + z
    elif "int8" in name:
        assert torch.equal(got["weight.scale"], wanted.scale)
        off, dequant = (got["weight.qdata"].int() - wanted.qdata.int()).abs(), wanted.dequantize()
    else:
        assert torch.equal(got["weight.per_tensor_scale"], wanted.per_tensor_scale)
        dequant = wanted.dequantize()
        off = got["weight.dequant"] != dequant  # of codes -0 is one, too
    # Sums of floats in another order tip a number over, now and then, and then those after it.
    assert (off > 0).float().mean() < 0.01
    h = hessian.double()

    def loss(q):
        d = q.double() - weight.double()
        return torch.einsum("nk,kl,nl->", d, h, d).item()

    assert loss(got["weight.dequant"]) == pytest.approx(loss(dequant), rel=0.02)


def test_gptq_groups_across_blocks(tmp_path):
    """Groups that are longer than a block, or that do not divide it, still get scales of all their weights."""
    linear, x = layer(tmp_path, 40, 384, rows=800)
    weight, hessian = linear.weight.detach().double(), (x.t() @ x).double()

    def loss(config):
        d = calibrate(tmp_path, config, {"input.0": x})["weight.dequant"].double() - weight
        return torch.einsum("nk,kl,nl->", d, hessian, d).item()

    base = loss("gptq(int4-weight-only:group=96):block=96")
    assert loss("gptq(int4-weight-only:group=96):block=256") == pytest.approx(base, rel=0.05)
    assert loss("gptq(int4-weight-only:group=96):block=32") == pytest.approx(base, rel=0.05)
    assert loss("gptq(int4-weight-only:group=96):block=7") == pytest.approx(base, rel=0.05)
    assert loss("gptq(int8-weight-only):block=50") < base / 100
    # torchao takes a row's scale from its first block.
    wanted = torchao_gptq(hessian.float(), linear.weight.detach(), ao.Int8WeightOnlyConfig())
    d = wanted.dequantize().double() - weight
    assert loss("gptq(int8-weight-only)") < torch.einsum("nk,kl,nl->", d, hessian, d).item()


def test_gptq_few_samples(tmp_path):
    """Fewer inputs than features: only damping makes the sum of products invertible."""
    linear, x = layer(tmp_path, 40, 384, rows=800)
    for percdamp in ("0", "1e-9", "0.01"):
        got = calibrate(tmp_path, f"gptq(int4-weight-only:group=32):percdamp={percdamp}", {"input.0": x[:20]})
        error = x[:20] @ (got["weight.dequant"] - linear.weight.detach()).t()
        assert error.norm() < 0.05 * (x[:20] @ linear.weight.t()).norm()


@pytest.mark.parametrize("mapping", ["symmetric", "asymmetric"])
def test_static(mapping, tmp_path):
    linear, x = layer(tmp_path, 24, 128)
    x = x + 1
    name = f"int8-static:act={mapping}"
    got = calibrate(tmp_path, name, {"input.0": x})
    kind = ASYM if mapping == "asymmetric" else ao.MappingType.SYMMETRIC
    options = {"quant_min": -128, "quant_max": 127, "scale_dtype": torch.float32, "zero_point_dtype": torch.int8}
    scale, zero = choose_qparams_affine(x, kind, x.shape, torch.int8, eps=torch.finfo(torch.float32).eps, **options)
    assert torch.equal(got["weight.act_scale"], scale.squeeze()) and torch.equal(
        got["weight.act_zero_point"], zero.squeeze()
    )
    # The weight is as without calibration.
    linear = nn.Sequential(linear)
    ao.quantize_(linear, ao.Int8WeightOnlyConfig(granularity=PerRow()))
    assert torch.equal(got["weight.qdata"], linear[0].weight.qdata)

    x[7, 9] = 1e4  # one of 25600
    got = calibrate(tmp_path, name, {"input.0": x}, "percentile=99.9")
    if mapping == "symmetric":
        wanted = x.abs().flatten().quantile(0.999) / 127.5
    else:
        wanted = (x.flatten().quantile(0.9995) - x.flatten().quantile(0.0005)) / 255
    assert got["weight.act_scale"].item() == pytest.approx(wanted.item(), abs=2 * 2 * 2**14 / 2048 / 127.5)


class Net(nn.Module):
    """Layers with inputs in common, one that is used twice and one whose weight is turned."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(64, 64), nn.Linear(64, 64)
        self.twice = nn.Linear(64, 64)
        self.turned = nn.Parameter(torch.randn(64, 32) / 8)
        self.last, self.mm = nn.Linear(64, 24), nn.Linear(64, 24, bias=False)

    def forward(self, x, scale):
        x = torch.nn.functional.gelu(self.query(x) + self.key(x)) * scale
        x = self.twice(torch.tanh(self.twice(x)))
        return self.last(x), torch.mm(self.last.weight, x[0].t()), x @ self.turned, torch.mm(x[0], self.mm.weight.t())


def test_programs(tmp_path):
    """A batch of layers at a time, both forms of data, several threads: the same; the inputs are those that torch
    sees."""
    model = Net().eval()
    samples = [(torch.randn(5, 7, 64), torch.tensor(1.0 + i)) for i in range(6)]
    shapes = ({0: torch.export.Dim("b", min=2, max=64)}, None)
    torch.export.save(torch.export.export(model, samples[0], dynamic_shapes=shapes), tmp_path / "model.pt2")
    stacked = {f"input.{i}": torch.stack([s[i] for s in samples]) for i in range(2)}
    separate = {f"sample{j}.input.{i}": s[i] for j, s in enumerate(samples) for i in range(2)}
    first = calibrate(tmp_path, "gptq(int4-weight-only:group=32)", stacked)
    assert {name.split(".")[0] for name in first} == {"query", "key", "twice", "last", "mm"}
    for data, options in ((separate, []), (stacked, ["memory=1"]), (stacked, ["threads=3"])):
        again = calibrate(tmp_path, "gptq(int4-weight-only:group=32)", data, *options)
        assert all(torch.equal(t, again[name]) for name, t in first.items())
    # Samples of different sizes.
    cut = {name: t if t.dim() == 0 or "sample2." not in name else t[:2] for name, t in separate.items()}
    calibrate(tmp_path, "awq(int8-weight-only)", cut)

    seen = {name: [] for name in ("query", "key", "twice", "last")}
    for name in seen:
        getattr(model, name).register_forward_pre_hook(lambda _, x, name=name: seen[name].append(x[0].flatten(0, -2)))
    with torch.no_grad():
        for s in samples:
            model(*s)
    got = calibrate(tmp_path, "smoothquant(int8-dynamic)", stacked)
    eps = torch.finfo(torch.float32).eps
    for name, inputs in seen.items():
        x, w = torch.cat(inputs).abs().amax(0), getattr(model, name).weight.detach().abs().amax(0)
        torch.testing.assert_close(
            got[f"{name}.weight.act_pre_scale"], ((w + eps) / (x + eps)).sqrt(), rtol=1e-4, atol=0
        )


@pytest.mark.parametrize("target", ["q.pt2", "q.onnx"])
@pytest.mark.parametrize(
    "name,method,base",
    [
        ("awq(int8-weight-only)", AWQConfig, ao.Int8WeightOnlyConfig()),
        ("awq(int8-dynamic)", AWQConfig, ao.Int8DynamicActivationInt8WeightConfig()),
        ("smoothquant(int8-dynamic)", SmoothQuantConfig, ao.Int8DynamicActivationInt8WeightConfig()),
        (
            "smoothquant(int8-dynamic:asym)",
            SmoothQuantConfig,
            ao.Int8DynamicActivationInt8WeightConfig(act_mapping_type=ASYM),
        ),
        (
            "smoothquant(int8-dynamic:reduce-range)",
            SmoothQuantConfig,
            ao.Int8DynamicActivationInt8WeightConfig(reduce_range=True),
        ),
        ("int8-static", None, {}),
        ("int8-static:reduce-range", None, {"reduce_range": True}),
        ("int8-static:asym", None, {"act_mapping_type": ASYM}),
    ],
)
def test_quantized_programs(slipway, name, method, base, target, tmp_path):
    """The command line's programs compute what torchao's modules compute."""
    linear, x = layer(tmp_path, 24, 128)
    x = x + 0.5
    save_file({"input.0": x}, tmp_path / "c.safetensors")
    slipway(
        "quantize",
        tmp_path / "model.pt2",
        "-o",
        tmp_path / target,
        "--config",
        name,
        "--calibration",
        tmp_path / "c.safetensors",
        "--require-all",
    )
    model = nn.Sequential(linear)
    if method:
        model[0].weight = two_steps(method, base, linear, x)
    else:
        kind = base.get("act_mapping_type", ao.MappingType.SYMMETRIC)
        options = {"scale_dtype": torch.float32, "zero_point_dtype": torch.int8, "eps": torch.finfo(torch.float32).eps}
        ends = (-64, 63) if "reduce_range" in base else (-128, 127)
        scale, zero = choose_qparams_affine(x, kind, x.shape, torch.int8, *ends, **options)
        config = ao.quant_api.Int8StaticActivationInt8WeightConfig(
            scale.view(1, 1), zero.view(1, 1), [PerTensor(), PerRow()], **base
        )
        ao.quantize_(model, config)
    x = x[:40] * 1.1  # beyond what was seen, too
    with torch.no_grad():
        wanted = model(x)
    if target == "q.pt2":
        got = torch.export.load(tmp_path / target).module()(x)
    else:
        session = onnxruntime.InferenceSession(tmp_path / target, providers=["CPUExecutionProvider"])
        got = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
    # A last bit of a factor may tip a code over.
    assert (got - wanted).norm() < 2e-3 * wanted.norm()


@pytest.mark.parametrize("method", ["gptq(int8-weight-only)", "awq(int8-weight-only)", "int8-static"])
def test_layers_that_are_not_computed(slipway, tmp_path, method):
    """BERT's last hidden state: the pooler is in the file, and nothing of the result depends on it."""

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = nn.Linear(64, 64)
            self.pooler = nn.Linear(64, 64)

        def forward(self, x):
            hidden = self.dense(x)
            self.pooler(hidden).tanh()
            return hidden

    model, x = Encoder().eval(), torch.randn(32, 64)
    export(model, (x,), tmp_path / "model.pt2")
    assert "pooler.weight" in torch.export.load(tmp_path / "model.pt2").state_dict
    save_file({"input.0": x}, tmp_path / "c.safetensors")
    command = ["quantize", tmp_path / "model.pt2", "--config", method, "--calibration", tmp_path / "c.safetensors"]
    said = slipway(*command, "-o", tmp_path / "q.pt2").stderr
    assert "pooler.weight" in said and "not computed by the program" in said
    got = torch.export.load(tmp_path / "q.pt2").module()(x)
    assert (got - model(x)).norm() < 2e-2 * model(x).norm()
    failed = slipway(*command, "-o", tmp_path / "all.pt2", "--require-all", status=1).stderr
    assert "'pooler.weight' (not computed by the program" in failed and not (tmp_path / "all.pt2").exists()


def test_refusals(tmp_path):
    linear, x = layer(tmp_path, 24, 128)
    name = "awq(int8-weight-only)"

    def refused(samples, *words, config=name):
        said = calibrate(tmp_path, config, samples, status=3)
        assert all(word in said for word in words), said

    refused({"x": x}, "'x'", "no inputs of the program")
    refused({"input.0": x, "input.1": x}, "'input.1'")
    refused({"sample0.input.1": x}, "'sample0.input.1'")
    refused(
        {"sample0.x": x, "samplex.input.0": x, "sample01.input.0": x},
        "'sample0.x'",
        "'samplex.input.0'",
        "'sample01.input.0'",
    )
    refused({"input.0": x, "sample0.input.0": x}, "both forms")
    refused({}, "without a sample")
    refused({"input.0": x.half()}, "f16", "f32")
    refused({"input.0": x[:, :64]}, "[200,64]")
    refused({"input.0": x[None, None]}, "4 dimensions")
    refused({"input.0": torch.zeros(0, 3, 128)}, "without a sample")
    bad = x.clone()
    bad[5, 5] = float("nan")
    for config in (name, "gptq(int8-weight-only)", "smoothquant(int8-dynamic)", "int8-static"):
        refused({"input.0": bad}, "infinities or NaN", config=config)
    refused({"input.0": torch.zeros(3, 128)}, "all inputs of the layer are zero", config="gptq(int8-weight-only)")
    refused({"input.0": x}, "HQQ", config="gptq(int4-weight-only:group=32,hqq)")
    refused({"input.0": x}, "needs no calibration data", config="int8-weight-only")
    linear.weight.data[3, 3] = float("inf")
    export(linear, (x[:2],), tmp_path / "model.pt2")
    for config in (name, "gptq(int8-weight-only)", "smoothquant(int8-dynamic)"):
        refused({"input.0": x}, "infinities or NaN", config=config)
