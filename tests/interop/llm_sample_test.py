"""samples/llm: small random decoders of several families, from a folder of transformers' through export.py (without
weights) and convert to generate.py; 30 greedy tokens are torch's on the same weights, quantized by torchao."""

import functools
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import torch
from conftest import ROOT
from safetensors.torch import load_file, save_file
from torch import nn

sys.path[:0] = [str(ROOT / "samples" / "llm"), str(ROOT / "packaging" / "python")]
import export  # noqa: E402
import generate  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MixtralConfig,
    Qwen3Config,
)

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS, CONTEXT, NEW = 96, 64, 30
PROMPTS = 48  # that torch answers, of which one is taken
SIZES = dict(
    vocab_size=WORDS, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.25, pad_token_id=0, bos_token_id=1,
    eos_token_id=None, tie_word_embeddings=False,
)  # fmt: skip
GEMMA = dict(SIZES, head_dim=32, sliding_window=CONTEXT, tie_word_embeddings=True)
LAYERS = ["sliding_attention", "full_attention"]
CONFIGS = {
    "qwen3": lambda: Qwen3Config(**SIZES, head_dim=32),
    "llama": lambda: LlamaConfig(**SIZES),
    "gemma2": lambda: Gemma2Config(**GEMMA, query_pre_attn_scalar=32),
    "gemma3": lambda: Gemma3TextConfig(**GEMMA, layer_types=LAYERS),
    "gemma3window": lambda: Gemma3TextConfig(**(GEMMA | {"sliding_window": 16}), layer_types=LAYERS),
    "mixtral": lambda: MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2),
}
INT4 = "intx:bits=4,group=32"


def save_tokenizer(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of the hub, made when they are asked for. Experts are fused, as transformers' class has them."""
    made = {}

    def folder(family, dtype=torch.float32):
        key = family, dtype
        if key not in made:
            made[key] = tmp_path_factory.mktemp(family)
            torch.manual_seed(1)
            model = AutoModelForCausalLM.from_config(CONFIGS[family](), dtype=dtype)
            if family.startswith("gemma"):  # a tied head would repeat the token that it is given
                with torch.no_grad():
                    model.get_input_embeddings().weight.mul_(0.1)
            model.save_pretrained(made[key])
            save_tokenizer(made[key])
        return made[key]

    return folder


def quantized(model):
    """Each linear weight as torchao quantizes it, dequantized."""
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    quantize_(model, IntxWeightOnlyConfig(torch.int4, PerGroup(32)))  # nn.Linear alone: neither routers nor experts
    for m in model.modules():
        if isinstance(m, nn.Linear) and hasattr(m.weight, "dequantize") and type(m.weight) is not nn.Parameter:
            m.weight = nn.Parameter(m.weight.dequantize(), requires_grad=False)
    return model


@functools.cache
def torch_tokens(folder, quantize):
    """(prompt, greedy tokens after it) of the first seeded prompt whose answer is varied, each token clearly the
    likeliest: with torch's numbers alone."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    if quantize:
        quantized(model)
    least = 1e-3 if model.dtype == torch.float32 else 3e-2
    tokens = torch.randint(3, WORDS, (PROMPTS, 7), generator=torch.Generator().manual_seed(0))
    margins = torch.full((PROMPTS,), torch.inf)
    with torch.no_grad():
        for _ in range(NEW):
            logits = model(tokens, use_cache=False).logits[:, -1].float()
            best = logits.topk(2).values
            margins = torch.minimum(margins, (best[:, 0] - best[:, 1]) / logits.std(dim=1))
            tokens = torch.cat([tokens, logits.argmax(1, keepdim=True)], 1)
    for row, margin in zip(tokens.tolist(), margins.tolist()):
        if margin > least and len(set(row[7:])) >= 8:
            return row[:7], row[7:]
    raise AssertionError("no prompt has an answer that is of use")


@functools.cache
def exported(folder, cache):
    """The program file, made once."""
    path = folder.with_name(f"{folder.name}-{cache}.pt2")
    model = export.without_weights(folder)
    with torch.no_grad():
        torch.export.save(export.WAYS[cache](model, CONTEXT), path)
    return path


def library_tokens(library, prompt):
    decoder = generate.Decoder(library, threads=2)
    return [token for token, _ in generate.generate(decoder, prompt, NEW, lambda logits: int(logits.argmax()))]


CASES = [
    *itertools.product(("qwen3", "llama", "gemma2", "gemma3", "mixtral"), (torch.float32,), ("static",), (None, INT4)),
    *itertools.product(("qwen3", "gemma3window"), (torch.float32,), ("growing", "none"), (INT4,)),
    ("mixtral", torch.float32, "growing", None),
    ("llama", torch.bfloat16, "static", INT4),
]


@pytest.mark.parametrize(
    "family,dtype,cache,quantize", CASES, ids=["-".join(map(str, (f, str(d)[6:], c, bool(q)))) for f, d, c, q in CASES]
)
def test_greedy_tokens(slipway, folders, tmp_path, family, dtype, cache, quantize):
    folder = folders(family, dtype)
    program = exported(folder, cache)
    flags = ["--quantize", quantize] if quantize else []
    flags += ["--state", "auto"] if cache != "none" else []
    done = slipway("convert", program, "--weights", folder, *flags, "-o", tmp_path / "m.so")
    assert "lifted_tensor" not in done.stderr
    prompt, want = torch_tokens(folder, quantize)
    assert library_tokens(tmp_path / "m.so", prompt) == want


def test_onnx(slipway, folders, tmp_path):
    folder = folders("qwen3")
    program = exported(folder, "none")
    slipway("convert", program, "--weights", folder, "--quantize", INT4, "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    prompt, want = torch_tokens(folder, INT4)
    tokens = list(prompt)
    for _ in range(NEW):
        logits = session.run(None, {session.get_inputs()[0].name: np.array([tokens], np.int64)})[0]
        tokens.append(int(logits[0, -1].argmax()))
    assert tokens[7:] == want


def test_as_the_page_says(slipway, folders, tmp_path):
    """The three commands, each a process of its own."""
    folder, here = folders("llama"), ROOT / "samples" / "llm"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "packaging" / "python")}

    def python(*arguments):
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done

    python(here / "export.py", folder, "-o", "program.pt2", "--cache", "growing", "--context", CONTEXT)
    slipway("convert", tmp_path / "program.pt2", "--weights", folder, "--state", "auto", "-o", tmp_path / "m.so")
    prompt, want = torch_tokens(folder, None)
    ask = (here / "generate.py", "./m.so", folder, "--prompt", " ".join(f"w{t}" for t in prompt), "--tokens", NEW)
    done = python(*ask)
    assert done.stdout.split() == [f"w{t}" for t in want]
    assert "prefill 7 tokens" in done.stderr and f"decode {NEW - 1} tokens" in done.stderr
    other = python(*ask, "--ids", "--top-p", "0.9", "--temperature", "3", "--seed", 1).stdout.split()
    assert len(other) == NEW and other != [str(t) for t in want]


def test_top_p():
    logits, rng = np.log(np.array([0.1, 0.5, 0.15, 0.25], np.float32)), np.random.default_rng(0)
    assert generate.pick(logits, None, 1.0, rng) == 1
    for p, kept in ((0.0, {1}), (0.4, {1}), (0.7, {1, 3}), (0.85, {1, 2, 3}), (1.0, {0, 1, 2, 3})):
        assert {generate.pick(logits, p, 1.0, rng) for _ in range(300)} == kept, p


def test_a_window_shorter_than_a_static_cache_is_refused(folders, tmp_path):
    with pytest.raises(SystemExit, match="window of 16 tokens"):
        exported(folders("gemma3window"), "static")


@pytest.mark.parametrize("cache", ["static", "growing"])
def test_rates(slipway, folders, tmp_path, cache):
    """slipway run --decode: a prompt, then one token again and again; results and rates."""
    folder = folders("llama")
    program = exported(folder, cache)
    slipway("convert", program, "--weights", folder, "--state", "auto", "-o", tmp_path / "m.so")
    prompt, want = torch_tokens(folder, None)

    def inputs(path, tokens, at):
        tensors = {"input.0": torch.tensor([tokens])}
        if cache == "static":
            tensors["input.1"] = torch.arange(at, at + len(tokens))
        save_file(tensors, path)

    inputs(tmp_path / "prompt", prompt, 0)
    inputs(tmp_path / "token", want[:1], len(prompt))
    ask = ["run", tmp_path / "m.so", "--inputs", tmp_path / "prompt", "--decode", tmp_path / "token"]
    ask += ["--outputs", tmp_path / "out"]
    slipway(*ask)
    assert int(load_file(tmp_path / "out")["output.0"][0, -1].argmax()) == want[1]
    report = json.loads(slipway(*ask, "--repeat", 6, "--json").stdout)
    for what, tokens in (("prefill", len(prompt)), ("decode", 6)):
        row = report[what]
        assert row["tokens"] == tokens and row["s"] > 0
        assert row["tokens_per_s"] == pytest.approx(tokens / row["s"])
    assert len(report["run_s"]) == 6 and sum(report["run_s"]) == pytest.approx(report["decode"]["s"])
    assert "decode 6 at" in slipway(*ask, "--repeat", 6).stdout
    if cache == "growing":  # as one that continues after the prompt, and beyond what the program takes
        assert "to 64" in slipway(*ask, "--repeat", CONTEXT, status=3).stderr
    refused = slipway(*ask[:1], program, *ask[2:], status=4).stderr
    assert "only a native library keeps state" in refused and "--state auto" in refused


def test_rates_without_state(slipway, folders, tmp_path):
    folder = folders("llama")
    program = exported(folder, "none")
    slipway("convert", program, "--weights", folder, "-o", tmp_path / "m.so")
    save_file({"input.0": torch.tensor([[5]])}, tmp_path / "token")
    save_file({"input.0": torch.tensor([[5, 6]])}, tmp_path / "prompt")
    ask = ["--inputs", tmp_path / "prompt", "--decode", tmp_path / "token", "--outputs", tmp_path / "out"]
    assert "keeps no state" in slipway("run", tmp_path / "m.so", *ask, status=4).stderr
    assert not (tmp_path / "out").exists()
