"""`slipway quantize` beside torchao 0.18: the same tensors bit for bit, files that torchao's loader takes, and programs
that compute what torchao's quantized modules compute, in torch without torchao, in ONNX Runtime and as native
libraries."""

import json
import warnings

import forks
import onnxruntime
import pytest
import torch
import torchao.quantization as ao
from exported import export
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torchao.core.config import config_to_dict
from torchao.prototype.mx_formats import MXDynamicActivationMXWeightConfig, NVFP4WeightOnlyConfig
from torchao.prototype.mx_formats.mx_tensor import MXTensor
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict, unflatten_tensor_state_dict
from torchao.quantization.granularity import PerAxis, PerGroup, PerTensor
from torchao.quantization.quantize_.workflows import IntxChooseQParamsAlgorithm

warnings.filterwarnings("ignore")
SYM, NO_CLIPPING, ASYM = (
    ao.MappingType.SYMMETRIC,
    ao.MappingType.SYMMETRIC_NO_CLIPPING_ERR,
    ao.MappingType.ASYMMETRIC,
)
HQQ = IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY


class Net(nn.Module):
    """Linears with and without bias, of sizes that are no powers of two, an embedding, a norm and a tied-looking
    head."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(40, 64)
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 160)
        self.down = nn.Linear(160, 64, bias=False)
        self.lm_head = nn.Linear(64, 48)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        x = x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))
        return self.lm_head(x)


def net(dtype=torch.float32):
    torch.manual_seed(1)
    model = Net().eval()
    with torch.no_grad():
        model.up.weight[3] = 0  # a row of zeros
        model.up.weight[5, :32] = 0  # a group of zeros
        model.down.weight.mul_(torch.logspace(-3, 1, 64)[:, None])
    return model.to(dtype)


# Short names and what they stand for. Whether programs take them, too.
CONFIGS = {
    "int8-weight-only": ao.Int8WeightOnlyConfig(version=2),
    "int8-weight-only:per=tensor": ao.Int8WeightOnlyConfig(version=2, granularity=PerTensor()),
    "int8-weight-only:group=32": ao.Int8WeightOnlyConfig(version=2, granularity=PerGroup(32)),
    "int8-dynamic": ao.Int8DynamicActivationInt8WeightConfig(version=2),
    "int8-dynamic:act=asymmetric": ao.Int8DynamicActivationInt8WeightConfig(version=2, act_mapping_type=ASYM),
    "intx:bits=4": ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0)),
    "intx:bits=2,group=32": ao.IntxWeightOnlyConfig(weight_dtype=torch.int2, granularity=PerGroup(32)),
    "intx:bits=3,group=16,mapping=asymmetric": ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int3, granularity=PerGroup(16), mapping_type=ASYM
    ),
    "intx:bits=5,group=32,mapping=no-clipping": ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int5, granularity=PerGroup(32), mapping_type=NO_CLIPPING
    ),
    "8da4w": ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)),
    "8da4w:mapping=asymmetric": ao.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32), weight_mapping_type=ASYM
    ),
    "float8-weight-only": ao.Float8WeightOnlyConfig(version=2),
    "float8-weight-only:per=tensor": ao.Float8WeightOnlyConfig(version=2, granularity=PerTensor()),
}
BF16_ONLY = {
    "nvfp4": NVFP4WeightOnlyConfig(),
    "mxfp8": MXDynamicActivationMXWeightConfig(),
}


def bits(t):
    return t.detach().contiguous().reshape(-1).view(torch.uint8)


def read(path):
    with safe_open(path, "pt") as f:
        return load_file(path), f.metadata()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", [*CONFIGS, *BF16_ONLY])
def test_files_are_torchaos(slipway, tmp_path, name, dtype):
    if name in BF16_ONLY and dtype != torch.bfloat16:
        pytest.skip("torchao takes bf16 only")
    model = net(dtype)
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    slipway("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "q.safetensors", "--config", name)
    got, metadata = read(tmp_path / "q.safetensors")
    quantized = net(dtype)
    ao.quantize_(quantized, {**CONFIGS, **BF16_ONLY}[name])
    want, want_metadata = flatten_tensor_state_dict(quantized.state_dict())
    assert set(got) == set(want)
    zero_rows = "float8" in name  # torchao gives NaN for blocks of zeros; slipway zeros
    for key, w in want.items():
        assert got[key].dtype == w.dtype and got[key].shape == w.shape, key
        if zero_rows and (torch.isnan(w.float()).any() or (w.float() == 0).any()):
            finite = ~torch.isnan(w.float()) & ~((w.float() == 0) & key.endswith("scale"))
            assert torch.isfinite(got[key].float()).all()
            assert torch.equal(got[key].float()[finite], w.float()[finite]), key
        else:
            assert torch.equal(bits(got[key]), bits(w)), key
    for key, text in want_metadata.items():
        if key == "tensor_names":
            assert sorted(json.loads(metadata[key])) == sorted(json.loads(text))
        else:
            assert json.loads(metadata[key]) == json.loads(text), key
    loaded, left = unflatten_tensor_state_dict(got, metadata)
    assert not left
    again = net(dtype)
    again.load_state_dict(loaded, assign=True)
    tokens = torch.arange(12).reshape(2, 6)
    if name in ("nvfp4", "mxfp8") or zero_rows:  # zero rows are finite here; float4 products need their own hardware
        return
    with torch.no_grad():
        torch.testing.assert_close(again(tokens), quantized(tokens), rtol=0, atol=0)


def test_other_schemes_load(slipway, tmp_path):
    """Those that torchao cannot make without a GPU: the classes take what slipway writes, and dequantize to what it
    says."""
    save_file(net(torch.bfloat16).state_dict(), tmp_path / "m.safetensors")
    for name, cls in [("int4-weight-only:group=32", "Int4Tensor"), ("mxfp4", "MXTensor"),
    ("float8-dynamic", "Float8Tensor"),
                      ("nvfp4-dynamic", "NVFP4Tensor")]:  # fmt: skip
        slipway("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "q.safetensors", "--config", name)
        loaded, left = unflatten_tensor_state_dict(*read(tmp_path / "q.safetensors"))
        assert not left and type(loaded["up.weight"]).__name__ == cls and loaded["up.weight"].shape == (160, 64)
    [w, q] = net(torch.bfloat16).up.weight, loaded["up.weight"]
    slipway("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "q.safetensors", "--config", "mxfp4:scaling=floor")
    q = unflatten_tensor_state_dict(*read(tmp_path / "q.safetensors"))[0]["up.weight"]
    want = MXTensor.to_mx(w, torch.float4_e2m1fn_x2, 32)
    assert torch.equal(bits(q.qdata), bits(want.qdata))
    assert torch.equal(q.dequantize(torch.float32), want.dequantize(torch.float32))
    # Int4: f32 arithmetic, codes around 8 in two halves of a byte, scale and zero point transposed.
    slipway(
        "quantize",
        tmp_path / "m.safetensors",
        "-o",
        tmp_path / "q.safetensors",
        "--config",
        "int4-weight-only:group=32",
    )
    q = unflatten_tensor_state_dict(*read(tmp_path / "q.safetensors"))[0]["up.weight"]
    groups = w.detach().float().reshape(160, 2, 32)
    low, high = groups.amin(2), groups.amax(2)
    scale = (high - low).clamp(min=1e-6) / 15
    codes = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15).reshape(160, 64).int() - 8
    packed = (codes[:, ::2] & 15) | (codes[:, 1::2] & 15) << 4
    assert torch.equal(q.qdata.view(torch.uint8).int(), packed)
    assert torch.equal(q.scale, scale.t().bfloat16()) and torch.equal(q.zero_point, (low + scale * 8).t().bfloat16())


@pytest.mark.parametrize("numerics", ["0.18", "0.14"])
def test_older_eps(slipway, tmp_path, numerics):
    """torchao 0.14.1 bounds Intx scales by the dtype's epsilon: 2^-7 for bf16."""
    w = (torch.randn(16, 64) * 1e-3).bfloat16()
    save_file({"a.weight": w}, tmp_path / "m.safetensors")
    slipway(
        "quantize",
        tmp_path / "m.safetensors",
        "-o",
        tmp_path / "q.safetensors",
        "--config",
        "intx:bits=4,group=32",
        "--numerics",
        numerics,
    )
    scale = load_file(tmp_path / "q.safetensors")["a._weight_scale"]
    assert (scale == 0.0078125).all() == (numerics == "0.14")


def test_hqq(slipway, tmp_path):
    config = ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=PerGroup(32), intx_choose_qparams_algorithm=HQQ
    )
    model = net()
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    slipway(
        "quantize", tmp_path / "m.safetensors", "-o", tmp_path / "q.safetensors", "--config", "intx:bits=4,group=32,hqq"
    )
    got = load_file(tmp_path / "q.safetensors")
    ao.quantize_(model, config)
    for name in ("up", "down", "lm_head"):
        want = getattr(model, name).weight
        torch.testing.assert_close(got[f"{name}._weight_scale"], want.scale, rtol=1e-5, atol=0)
        assert (got[f"{name}._weight_qdata"] != want.qdata).float().mean() < 1e-3


def run_onnx(path, tokens):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: tokens.numpy()})[0])


LOAD_WITHOUT_TORCHAO = """
import sys, torch
sys.modules["torchao"] = None
tokens, out = torch.load(sys.argv[2]), torch.export.load(sys.argv[1]).module()
torch.save(out(tokens), sys.argv[3])
"""


@pytest.mark.parametrize("name", [*CONFIGS, "int4-weight-only:group=32", "nvfp4"])
def test_programs(slipway, tmp_path, name):
    model, tokens = net(), torch.arange(12).reshape(2, 6)
    export(model, (tokens,), tmp_path / "m.pt2", dynamic_shapes=({0: torch.export.Dim.AUTO},))
    float_result = model(tokens).detach()
    save_file({"input.0": tokens}, tmp_path / "in.safetensors")
    if name in CONFIGS:
        ao.quantize_(model, CONFIGS[name])
        with torch.no_grad():
            want = model(tokens)
        if torch.isnan(want).any():  # float8 with rows of zeros
            want = None
    else:
        want = None
    results = {}
    for target in ("q.pt2", "q.onnx", "q.so", "q21.onnx"):
        flags = ("--opset", "21") if target == "q21.onnx" else ()
        slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / target, "--config", name, *flags)
        if target.endswith(".onnx"):
            results[target] = run_onnx(tmp_path / target, tokens)
        else:
            slipway(
                "run",
                tmp_path / target,
                "--inputs",
                tmp_path / "in.safetensors",
                "--outputs",
                tmp_path / "out.safetensors",
            )
            results[target] = load_file(tmp_path / "out.safetensors")["output.0"]
    torch.save(tokens, tmp_path / "tokens.pt")
    forks.of("torch._inductor.codecache", "torch.export._unlift", "torch._export.serde.serialize").run(
        LOAD_WITHOUT_TORCHAO, tmp_path / "q.pt2", tmp_path / "tokens.pt", tmp_path / "torch.pt"
    )
    results["torch"] = torch.load(tmp_path / "torch.pt").detach()
    if want is None:
        want = results["torch"]
    assert torch.linalg.norm(want - float_result) / torch.linalg.norm(float_result) < 0.6
    for target, got in results.items():
        # A rounding of an activation may fall on the other side of a half.
        relative = torch.linalg.norm(got - want) / torch.linalg.norm(want)
        assert relative < (2e-2 if "8da4w" in name or "dynamic" in name else 1e-5), (target, relative)


@pytest.mark.parametrize("name", ["int8-weight-only", "8da4w:group=32", "int8-dynamic"])
@pytest.mark.parametrize("target", ["q.onnx", "q.so"])
def test_layers_in_a_row(slipway, tmp_path, name, target):
    """A layer whose input another quantized layer gives: by itself, and as an adapter beside a third one."""

    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(64, 64)
            self.base = nn.Linear(64, 64)
            self.down = nn.Linear(64, 32, bias=False)
            self.up = nn.Linear(32, 64, bias=False)

        def forward(self, x):
            x = self.first(x)
            return self.base(x) + self.up(self.down(x))

    torch.manual_seed(0)
    model, x = Adapted().eval(), torch.randn(3, 64)
    export(model, (x,), tmp_path / "m.pt2")
    slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / "q.pt2", "--config", name, "--require-all")
    slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / target, "--config", name, "--require-all")
    want = torch.export.load(tmp_path / "q.pt2").module()(x)
    if target == "q.onnx":
        got = run_onnx(tmp_path / target, x)
    else:
        save_file({"input.0": x}, tmp_path / "in.safetensors")
        slipway(
            "run", tmp_path / target, "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
        )
        got = load_file(tmp_path / "out.safetensors")["output.0"]
    assert torch.linalg.norm(got - want) / torch.linalg.norm(want) < (1e-5 if name == "int8-weight-only" else 2e-2)


def test_products_with_transposes_and_shared_weights(slipway, tmp_path):
    """Decomposed programs say addmm of a transpose; a weight that something else uses, too, stays for that."""

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(32, 48)
            self.table = nn.Embedding(48, 32)
            self.head = nn.Linear(32, 48, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens, x):
            return self.a(x), self.head(self.table(tokens)), x @ self.a.weight.t()

    model, arguments = Shared().eval(), (torch.arange(6), torch.randn(5, 32))
    program = torch.export.export(model, arguments).run_decompositions()
    torch.export.save(program, tmp_path / "m.pt2")
    slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / "q.pt2", "--config", "int8-weight-only")
    q = torch.export.load(tmp_path / "q.pt2")
    want, got = model(*arguments), q.module()(*arguments)
    for g, w in zip(got, want, strict=True):
        assert torch.linalg.norm(g - w) / torch.linalg.norm(w) < 2e-2
    assert "a.weight_qdata" in q.state_dict and "a.weight" not in q.state_dict


def test_maps_and_config_json(slipway, tmp_path):
    """torchao's own JSON, FqnToConfig, and config.json beside a folder, which transformers reads."""
    save_file(net().state_dict(), tmp_path / "m.safetensors")
    config = ao.FqnToConfig({"up": ao.Int8WeightOnlyConfig(version=2), "re:lm_.*": None, "_default": CONFIGS["8da4w"]})
    (tmp_path / "c.json").write_text(json.dumps(config_to_dict(config)))
    done = slipway(
        "quantize",
        tmp_path / "m.safetensors",
        "-o",
        tmp_path / "q.safetensors",
        "--config",
        tmp_path / "c.json",
        "--json",
    )
    report = {row["name"]: row for row in json.loads(done.stdout)["weights"]}
    assert report["up.weight"]["config"] == "int8-weight-only" and report["down.weight"]["config"] == "8da4w"
    assert report["lm_head.weight"]["config"] is None and report["embed_tokens.weight"]["why"] == "an embedding"
    assert json.loads(done.stdout)["config"] == json.loads(json.dumps(config_to_dict(config)))
    model = net()
    ao.quantize_(model, config, filter_fn=None)
    for key, w in flatten_tensor_state_dict(model.state_dict())[0].items():
        assert torch.equal(bits(load_file(tmp_path / "q.safetensors")[key]), bits(w)), key

    folder = tmp_path / "model"
    folder.mkdir()
    save_file(net().state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "x", "tie_word_embeddings": True}))
    slipway("quantize", folder, "-o", f"{tmp_path}/out/", "--config", "int8-weight-only")
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written["quantization_config"]["quant_method"] == "torchao" and written["model_type"] == "x"
    assert "lm_head" in written["quantization_config"]["modules_to_not_convert"]
    assert written["quantization_config"]["quant_type"]["default"] == config_to_dict(CONFIGS["int8-weight-only"])
    slipway("quantize", tmp_path / "out", "-o", f"{tmp_path}/again/", "--config", "int8-weight-only", status=3)
    # What transformers said to leave alone is said again, once.
    (tmp_path / "t.json").write_text(json.dumps({**written["quantization_config"], "modules_to_not_convert": ["up"]}))
    slipway("quantize", folder, "-o", f"{tmp_path}/skipped/", "--config", tmp_path / "t.json")
    again = json.loads((tmp_path / "skipped" / "config.json").read_text())["quantization_config"]
    assert again["quant_type"]["default"] == config_to_dict(CONFIGS["int8-weight-only"])
    assert sorted(again["modules_to_not_convert"]) == ["embed_tokens", "lm_head", "up"]


def test_several_processes(slipway, tmp_path):
    """Each rank writes its own files; the last writes the index; what is there already is kept."""
    folder = tmp_path / "in"
    folder.mkdir()
    names, index = [], {}
    for i in range(5):
        tensors = {f"layers.{i}.{part}.weight": torch.randn(48, 64) for part in ("up", "down")}
        names.append(f"model-{i + 1:05}-of-00005.safetensors")
        save_file(tensors, folder / names[-1])
        index.update(dict.fromkeys(tensors, names[-1]))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    slipway("quantize", folder, "-o", f"{tmp_path}/one/", "--config", "8da4w")
    out = tmp_path / "ranks"
    call = ("quantize", folder, "-o", f"{out}/", "--config", "8da4w", "--world-size", "2")
    assert "others are still to come" in slipway(*call, "--rank", "1").stderr
    assert not (out / "model.safetensors.index.json").exists()
    assert sorted(p.name for p in out.iterdir()) == [names[1], names[3]]
    (out / names[3]).unlink()  # as if killed before it was written
    assert "1 of 5 files written, 1 were there already" in slipway(*call, "--rank", "1").stderr
    assert "the checkpoint is complete" in slipway(*call, "--rank", "0").stderr
    for name in names:
        got, want = load_file(out / name), load_file(tmp_path / "one" / name)
        assert set(got) == set(want) and all(torch.equal(bits(got[k]), bits(want[k])) for k in want)
    assert (out / "model.safetensors.index.json").read_text() == (
        tmp_path / "one" / "model.safetensors.index.json"
    ).read_text()
    slipway("convert", out, "-o", tmp_path / "joined.safetensors")
    assert "is the name of no weight" in slipway("quantize", tmp_path / "joined.safetensors", "-o", f"{out}/",
    "--config", "8da4w", "--include", "never", "--requantize",
                                                 "--world-size", "2", "--rank", "0", status=3).stderr  # fmt: skip

    # A finished file that was damaged since, its header whole: its rank writes it anew, others refuse to complete the
    # checkpoint.
    whole = (out / names[1]).read_bytes()
    (out / names[1]).write_bytes(whole[:-2000] + bytes(2000))
    (out / "model.safetensors.index.json").unlink()
    assert f"{names[1]} is damaged" in slipway(*call, "--rank", "0", status=3).stderr
    assert not (out / "model.safetensors.index.json").exists()
    assert "1 of 5 files written, 1 were there already" in slipway(*call, "--rank", "1").stderr
    assert (out / names[1]).read_bytes() == whole and (out / "model.safetensors.index.json").exists()
    (out / names[1]).write_bytes(whole[:-2000])
    assert "1 of 5 files written, 1 were there already" in slipway(*call, "--rank", "1").stderr
    assert (out / names[1]).read_bytes() == whole


def test_processes_of_another_configuration(slipway, tmp_path):
    """Two runs do not share a folder, whichever comes first."""
    torch.manual_seed(0)
    save_file({f"layers.{i}.weight": torch.randn(48, 64) for i in range(4)}, tmp_path / "in.safetensors")
    for first, second in (("8da4w", "int8-weight-only"), ("int8-weight-only", "8da4w")):
        out = tmp_path / first
        call = ("quantize", tmp_path / "in.safetensors", "-o", f"{out}/", "--shards", "4", "--world-size", "2")
        slipway(*call, "--config", first, "--rank", "0")
        before = {p.name: p.read_bytes() for p in out.iterdir()}
        said = slipway(*call, "--config", second, "--rank", "1", status=4).stderr
        assert "with another configuration or input" in said
        assert {p.name: p.read_bytes() for p in out.iterdir()} == before
        assert "unfinished" in slipway("convert", out, "-o", tmp_path / "no.safetensors", status=3).stderr
        slipway(*call, "--config", first, "--rank", "1")
        slipway("convert", out, "-o", tmp_path / f"{first}.safetensors")
