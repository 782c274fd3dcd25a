"""`--embeddings` beside torchao 0.18 and transformers: embeddings of the same integers and scales, look-ups that
dequantize the rows that they read to the same numbers, heads tied to them that share one copy."""

import json
import warnings

import onnx
import onnxruntime
import pytest
import torch
import torchao.quantization as ao
from exported import export
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
from torchao.quantization.granularity import PerGroup

warnings.filterwarnings("ignore")
VOCABULARY, WIDTH = 136, 64
LINEARS = ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))
ASYM = ao.MappingType.ASYMMETRIC
CONFIGS = {
    "int8": ao.IntxWeightOnlyConfig(weight_dtype=torch.int8),
    "int4:group=32": LINEARS,
    "int4:group=16,mapping=asymmetric": ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=PerGroup(16), mapping_type=ASYM
    ),
    "intx:bits=3,group=32,scale=f16": ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int3, granularity=PerGroup(32), scale_dtype=torch.float16
    ),
    "int8-weight-only": ao.Int8WeightOnlyConfig(version=2),
    "float8-weight-only": ao.Float8WeightOnlyConfig(version=2),
}


class Model(nn.Module):
    def __init__(self, dtype, tied):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH, dtype=dtype)
        self.proj = nn.Linear(WIDTH, WIDTH, dtype=dtype)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=dtype)
        if tied:
            self.lm_head.weight = self.embed_tokens.weight

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        return x, self.lm_head(torch.tanh(self.proj(x)))


def quantized(model, name, tied):
    """What torchao makes of it; a tied head takes the embedding's weight."""
    ao.quantize_(model, LINEARS, filter_fn=lambda m, n: isinstance(m, nn.Linear) and not (tied and n == "lm_head"))
    ao.quantize_(model, CONFIGS[name], filter_fn=lambda m, n: isinstance(m, nn.Embedding))
    if tied:
        model.lm_head.weight = nn.Parameter(model.embed_tokens.weight, requires_grad=False)
    return model


def run(slipway, path, tokens):
    inputs, outputs = path.with_suffix(".in"), path.with_suffix(".out")
    save_file({"input.0": tokens}, inputs)
    slipway("run", path, "--inputs", inputs, "--outputs", outputs)
    got = load_file(outputs)
    return [got["output.0"], got["output.1"]]


def run_onnx(path, tokens, dtype):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, tokens.numpy())
    outputs = [torch.empty(*tokens.shape, n, dtype=dtype) for n in (WIDTH, VOCABULARY)]
    kind = onnx.TensorProto.FLOAT if dtype == torch.float32 else onnx.TensorProto.BFLOAT16
    for o, t in zip(session.get_outputs(), outputs, strict=True):
        binding.bind_output(o.name, "cpu", 0, kind, list(t.shape), t.data_ptr())
    session.run_with_iobinding(binding)
    return outputs


def off(got, want):
    return (torch.linalg.norm(got.float() - want.float()) / torch.linalg.norm(want.float())).item()


def packed_bytes(path):
    """Of the tables of the vocabulary, in an ONNX file."""
    bits = {onnx.TensorProto.INT4: 4, onnx.TensorProto.UINT4: 4}
    tables = [i for i in onnx.load(str(path)).graph.initializer if i.dims[:1] == [VOCABULARY] and len(i.dims) > 1]
    small = (onnx.TensorProto.UINT8, onnx.TensorProto.INT8, onnx.TensorProto.FLOAT8E4M3FN, *bits)
    return sum(
        torch.Size(t.dims).numel() * bits.get(t.data_type, 8) // 8
        for t in tables
        if t.data_type in small and "zero" not in t.name
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("name", CONFIGS)
def test_programs(slipway, tmp_path, name, tied, dtype):
    model = Model(dtype, tied).eval()
    tokens = torch.randint(0, VOCABULARY, (2, 9))
    dims = ({1: torch.export.Dim.AUTO},)
    export(model, (tokens,), tmp_path / "m.pt2", dynamic_shapes=dims)
    with torch.no_grad():
        rows, scores = quantized(model, name, tied)(tokens)
    flags = ("--config", "intx:bits=4,group=32", "--embeddings", name)
    results = {}
    for target in ("q.so", "q.pt2", "q20.onnx", "q21.onnx"):
        opset = ("--opset", target[1:3]) if "onnx" in target else ()
        slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / target, *flags, *opset)
    results["library"] = run(slipway, tmp_path / "q.so", tokens)
    results["torch"] = torch.export.load(tmp_path / "q.pt2").module()(tokens)
    slipway("convert", tmp_path / "q.pt2", "-o", tmp_path / "again.so")
    results["library of the archive"] = run(slipway, tmp_path / "again.so", tokens)
    for opset in ("20", "21"):
        slipway("convert", tmp_path / "q.pt2", "-o", tmp_path / f"again{opset}.onnx", "--opset", opset)
        for file in (f"q{opset}.onnx", f"again{opset}.onnx"):
            results[file] = run_onnx(tmp_path / file, tokens, dtype)
    for what, (got_rows, got_scores) in results.items():
        assert torch.equal(got_rows, rows), (what, off(got_rows, rows))
        # int8-weight-only scales the head's result behind the product, once for torch's dtype and once for f32.
        assert off(got_scores, scores) < (1e-5 if dtype == torch.float32 else 1e-2), what
    # Of a library that dequantizes an archive's rows, nothing is left wider; a tied head has no copy of its own.
    assert abs((tmp_path / "again.so").stat().st_size - (tmp_path / "q.so").stat().st_size) < 2048
    bytes_of_one = VOCABULARY * WIDTH // (2 if "int4" in name and "weight-only" not in name else 1)
    if dtype == torch.float32 and "weight-only" not in name and "bits=3" not in name:
        head = 0 if tied else VOCABULARY * WIDTH // 2
        for file in ("q20.onnx", "q21.onnx", "again20.onnx", "again21.onnx"):
            assert packed_bytes(tmp_path / file) == bytes_of_one + head, file


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_libraries_have_one_copy_of_four_bits(slipway, tmp_path, tied):
    """The bytes of a table of half a million weights."""
    weights = 1 << 19
    rows = weights // WIDTH
    model = Model(torch.bfloat16, False)
    model.embed_tokens = nn.Embedding(rows, WIDTH, dtype=torch.bfloat16)
    model.lm_head = nn.Linear(WIDTH, rows, bias=False, dtype=torch.bfloat16)
    if tied:
        model.lm_head.weight = model.embed_tokens.weight
    export(model, (torch.tensor([[1, 2]]),), tmp_path / "m.pt2")
    flags = ("--quantize", "intx:bits=4,group=32")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "float.so", *flags)
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "q.so", *flags, "--embeddings", "int4:group=32")
    saved = (tmp_path / "float.so").stat().st_size - (tmp_path / "q.so").stat().st_size
    four_bits = weights * 9 // 16  # with a bf16 scale for 32 of them
    # A tied weight was there twice: the floats of the embedding beside the integers of the head.
    assert abs(saved - (2 * weights if tied else 2 * weights - four_bits)) < 16384


def test_torchaos_embeddings(slipway, tmp_path):
    """Exported from modules that torchao quantized. (Of an Int8Tensor torch keeps an opaque look-up.)"""
    tokens = torch.randint(0, VOCABULARY, (3, 5))
    for name in set(CONFIGS) - {"int8-weight-only"}:
        model = quantized(Model(torch.float32, False).eval(), name, False)
        with torch.no_grad():
            rows, _ = model(tokens)
        export(model, (tokens,), tmp_path / "m.pt2")
        slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so")
        assert torch.equal(run(slipway, tmp_path / "m.so", tokens)[0], rows), name


def test_scales_of_16_bits(slipway, tmp_path):
    """torchao's f32 scales of int8 groups are numbers of bf16: a library has those, an archive torchao's."""
    export(Model(torch.bfloat16, False), (torch.tensor([[1, 2]]),), tmp_path / "m.pt2")
    flags = ("--quantize", "int8-weight-only:group=32")
    kinds, results = {}, {}
    for file in ("m.so", "q.pt2", "q.so"):
        source = "q.pt2" if file == "q.so" else "m.pt2"
        slipway("convert", tmp_path / source, "-o", tmp_path / file, *(flags if source == "m.pt2" else ()))
        report = json.loads(slipway("inspect", tmp_path / file, "--json").stdout)
        kinds[file] = {w["name"]: w["dtype"] for w in report["programs"][0]["weights"]}["lm_head.weight_scale"]
        assert ("runtime_bytes" in report) == file.endswith(".so")
        results[file] = run(slipway, tmp_path / file, torch.tensor([[5, 6]]))[1]
    assert kinds == {"m.so": "bf16", "q.pt2": "f32", "q.so": "f32"}
    assert torch.equal(results["m.so"], results["q.so"]) and off(results["m.so"], results["q.pt2"]) < 1e-2


def test_rows_that_there_are_not(slipway, tmp_path):
    export(Model(torch.float32, False), (torch.tensor([[1, 2]]),), tmp_path / "m.pt2")
    slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", "--quantize", "8da4w", "--embeddings", "int4")
    for bad in (-1, VOCABULARY, 1 << 62):
        save_file({"input.0": torch.tensor([[1, bad]])}, tmp_path / "in")
        done = slipway("run", tmp_path / "m.so", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out", status=3)
        assert "index out of range" in done.stderr


@pytest.mark.parametrize("name", CONFIGS)
def test_checkpoints(slipway, tmp_path, name):
    model = Model(torch.bfloat16, False)
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    slipway(
        "quantize", tmp_path / "m.safetensors", "-o", tmp_path / "q.safetensors",
        "--config", "intx:bits=4,group=32", "--embeddings", name,
    )  # fmt: skip
    want, metadata = flatten_tensor_state_dict(quantized(model, name, False).state_dict())
    got = load_file(tmp_path / "q.safetensors")
    assert got.keys() == want.keys()
    for key, tensor in want.items():
        assert got[key].dtype == tensor.dtype and torch.equal(got[key].view(torch.uint8), tensor.view(torch.uint8)), key
    with safe_open(tmp_path / "q.safetensors", "pt") as f:
        for key in ("embed_tokens.weight", "lm_head.weight"):
            assert json.loads(f.metadata()[key]) == json.loads(metadata[key])


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_folders_load(slipway, tmp_path, tied):
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=tied,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    model.save_pretrained(tmp_path / "m")
    slipway(
        "quantize", tmp_path / "m", "-o", tmp_path / "q/", "--config", "intx:bits=4,group=32", "--embeddings", "int8"
    )
    got, loading = AutoModelForCausalLM.from_pretrained(tmp_path / "q", output_loading_info=True, dtype=torch.bfloat16)
    assert not any(loading.values()), loading
    assert (got.lm_head.weight is got.model.embed_tokens.weight) == tied
    tokens = torch.randint(0, VOCABULARY, (2, 9))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "m", dtype=torch.bfloat16)
    ao.quantize_(model, LINEARS, filter_fn=lambda m, n: isinstance(m, nn.Linear) and not (tied and n == "lm_head"))
    ao.quantize_(model, CONFIGS["int8"], filter_fn=lambda m, n: isinstance(m, nn.Embedding))
    if tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    with torch.no_grad():
        assert torch.equal(got(tokens).logits, model(tokens).logits)


def test_what_is_chosen(slipway, tmp_path):
    model = Model(torch.float32, True)
    export(model, (torch.tensor([[1, 2]]),), tmp_path / "m.pt2")

    def rows(*flags, status=0):
        done = slipway("quantize", tmp_path / "m.pt2", "-o", tmp_path / "q.so", "--json", *flags, status=status)
        return {w["name"]: w.get("config") for w in json.loads(done.stdout)["weights"]} if status == 0 else done.stderr

    shared, twin = "lm_head.weight", "embed_tokens.weight"  # which is no input of the graph
    both = {"proj.weight": "8da4w", shared: "intx:bits=4,group=32", twin: None}
    saved = tmp_path / "config.json"
    assert rows("--config", "8da4w", "--embeddings", "int4:group=32", "--save-config", saved) == both
    first = (tmp_path / "q.so").read_bytes()
    assert rows("--config", saved) == both
    assert (tmp_path / "q.so").read_bytes() == first
    without = rows("--config", "8da4w", "--embeddings", "int8", "--exclude", shared)
    assert without[shared] is None and without["proj.weight"] == "8da4w"
    assert rows("--config", "auto", "--size-budget", "1MB", "--embeddings", "int8")[shared] == "intx"
    for wrong in ("8da4w", "int9", "int4:rows=2", "awq(int8-weight-only)"):
        assert "--embeddings" in rows("--config", "8da4w", "--embeddings", wrong, status=2)
    assert "--quantize" in slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "q.so", "--embeddings", "int8",
                                   status=2).stderr  # fmt: skip
