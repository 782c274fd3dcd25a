"""samples/llm: small random decoders of several families, from a folder of transformers' through export.py (without
weights) and convert to generate.py; 30 greedy tokens are torch's on the same weights, quantized by torchao."""

import itertools
import os
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import torch
from conftest import ROOT
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
SIZES = dict(
    vocab_size=WORDS, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.25, pad_token_id=0, bos_token_id=1,
    eos_token_id=None, tie_word_embeddings=False,
)  # fmt: skip
GEMMA = dict(SIZES, head_dim=32, sliding_window=16, tie_word_embeddings=True)  # a window shorter than what is generated
CONFIGS = {
    "qwen3": lambda: Qwen3Config(**SIZES, head_dim=32),
    "llama": lambda: LlamaConfig(**SIZES),
    "gemma2": lambda: Gemma2Config(**GEMMA, query_pre_attn_scalar=32),
    "gemma3": lambda: Gemma3TextConfig(**GEMMA, layer_types=["sliding_attention", "full_attention"]),
    "mixtral": lambda: MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2),
}
PROMPT = "w5 w17 w3 w88 w41 w9 w60"
INT4 = "intx:bits=4,group=32"


def save_tokenizer(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of the hub, made when they are asked for. Mixtral's has the names of transformers' class: experts fused."""
    made = {}

    def folder(family, dtype=torch.float32):
        key = family, dtype
        if key not in made:
            made[key] = tmp_path_factory.mktemp(family)
            torch.manual_seed(1)
            model = AutoModelForCausalLM.from_config(CONFIGS[family](), dtype=dtype)
            model.save_pretrained(made[key], save_original_format=False)
            save_tokenizer(made[key])
        return made[key]

    return folder


def quantized(model):
    """Each linear weight as torchao quantizes it, dequantized."""
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    tied = {id(model.get_input_embeddings().weight)}
    quantize_(
        model,
        IntxWeightOnlyConfig(torch.int4, PerGroup(32)),
        lambda m, _: isinstance(m, nn.Linear) and id(m.weight) not in tied,
    )
    for m in model.modules():
        if isinstance(m, nn.Linear) and hasattr(m.weight, "dequantize") and type(m.weight) is not nn.Parameter:
            m.weight = nn.Parameter(m.weight.dequantize(), requires_grad=False)
    return model


def torch_tokens(folder, quantize):
    """Greedy tokens, and whether they are of use: varied, and each clearly the likeliest."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    if quantize:
        quantized(model)
    tokens, margins = [int(w[1:]) for w in PROMPT.split()], []
    with torch.no_grad():
        for _ in range(NEW):
            logits = model(torch.tensor([tokens]), use_cache=False).logits[0, -1].float()
            best = logits.topk(2).values
            margins.append(float((best[0] - best[1]) / logits.std()))
            tokens.append(int(logits.argmax()))
    answer = tokens[-NEW:]
    assert len(set(answer)) >= 8, answer
    assert min(margins) > (1e-3 if model.dtype == torch.float32 else 2e-2), sorted(margins)[:3]
    return answer


def exported(folder, path, cache):
    model = export.without_weights(folder)
    with torch.no_grad():
        torch.export.save(export.WAYS[cache](model, CONTEXT), path)
    return path


def library_tokens(library):
    decoder = generate.Decoder(library, threads=2)
    prompt = [int(w[1:]) for w in PROMPT.split()]
    return [token for token, _ in generate.generate(decoder, prompt, NEW, lambda logits: int(logits.argmax()))]


CASES = [
    *itertools.product(("qwen3", "llama", "gemma2", "gemma3", "mixtral"), (torch.float32,), ("static",), (None, INT4)),
    *itertools.product(("qwen3", "gemma3"), (torch.float32,), ("growing", "none"), (INT4,)),
    ("mixtral", torch.float32, "growing", None),
    ("llama", torch.bfloat16, "static", INT4),
]


@pytest.mark.parametrize(
    "family,dtype,cache,quantize", CASES, ids=["-".join(map(str, (f, str(d)[6:], c, bool(q)))) for f, d, c, q in CASES]
)
def test_greedy_tokens(slipway, folders, tmp_path, family, dtype, cache, quantize):
    folder = folders(family, dtype)
    program = exported(folder, tmp_path / "program.pt2", cache)
    flags = ["--quantize", quantize] if quantize else []
    flags += ["--state", "auto"] if cache != "none" else []
    done = slipway("convert", program, "--weights", folder, *flags, "-o", tmp_path / "m.so")
    assert "lifted_tensor" not in done.stderr
    assert library_tokens(tmp_path / "m.so") == torch_tokens(folder, quantize)


def test_onnx(slipway, folders, tmp_path):
    folder = folders("qwen3")
    program = exported(folder, tmp_path / "program.pt2", "none")
    slipway("convert", program, "--weights", folder, "--quantize", INT4, "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    tokens = [int(w[1:]) for w in PROMPT.split()]
    for _ in range(NEW):
        logits = session.run(None, {session.get_inputs()[0].name: np.array([tokens], np.int64)})[0]
        tokens.append(int(logits[0, -1].argmax()))
    assert tokens[-NEW:] == torch_tokens(folder, INT4)


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
    ask = (here / "generate.py", "./m.so", folder, "--prompt", PROMPT, "--tokens", NEW)
    done = python(*ask)
    want = torch_tokens(folder, None)
    assert done.stdout.split() == [f"w{t}" for t in want]
    assert "prefill 7 tokens" in done.stderr and f"decode {NEW - 1} tokens" in done.stderr
    sampled = [python(*ask, "--ids", "--top-p", "0.9", "--temperature", "1.5", "--seed", s).stdout for s in (1, 1, 2)]
    assert sampled[0] == sampled[1] != sampled[2] and len(sampled[0].split()) == NEW
    assert python(*ask, "--ids", "--top-p", "0").stdout.split() == [str(t) for t in want]
