"""Folders that `slipway quantize` writes, loaded by transformers 5: of each architecture a small random model, saved as
transformers saves it, quantized by slipway and loaded again: nothing is missing, nothing unexpected, and the results
are those of transformers' own TorchAoConfig on the source folder."""

import json
import os
import re
import subprocess
import warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
warnings.filterwarnings("ignore")

import pytest  # noqa: E402
import torch  # noqa: E402
import torchao.quantization as ao  # noqa: E402
import transformers as tf  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from torchao.prototype.safetensors.safetensors_support import unflatten_tensor_state_dict  # noqa: E402
from torchao.utils import TorchAOBaseTensor  # noqa: E402

CONFIGS = {
    "int8-weight-only": ao.Int8WeightOnlyConfig(version=2),
    "8da4w": ao.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=ao.PerGroup(32)),
    "intx:bits=4,group=32": ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32)),
}
DECODER = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
ENCODER = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
VISION = ENCODER | {"image_size": 32, "patch_size": 8, "num_channels": 3}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
IMAGE = 95  # the token that stands for a patch


def tokens(length=7):
    return {"input_ids": torch.arange(3, 3 + length)[None] % 90}


def pixels():
    return {"pixel_values": torch.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32)}


def both(images):
    """A prompt with room for `images` patches."""
    return {"input_ids": torch.tensor([[3, *[IMAGE] * images, 5, 6]])} | pixels()


def qwen_vl():
    patches = torch.linspace(-1, 1, 16 * 3 * 2 * 64).reshape(16, 3 * 2 * 64)
    ids = torch.tensor([[3, 93, *[IMAGE] * 4, 94, 5]])
    types = (ids == IMAGE).int()
    return {
        "input_ids": ids,
        "pixel_values": patches,
        "image_grid_thw": torch.tensor([[1, 4, 4]]),
        "mm_token_type_ids": types,
    }


def deepseek(**more):
    return DECODER | {
        "moe_intermediate_size": 32, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
        "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "kv_lora_rank": 32, "q_lora_rank": 32,
        "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 4,
    } | more  # fmt: skip


# The class, its configuration, a call, and which configurations beside int8-weight-only.
MODELS = {
    "Qwen3ForCausalLM": (lambda: tf.Qwen3Config(**DECODER), tokens, ["8da4w"]),
    "Qwen3MoeForCausalLM": (lambda: tf.Qwen3MoeConfig(**DECODER | EXPERTS), tokens, ["8da4w"]),
    "Qwen2MoeForCausalLM": (
        lambda: tf.Qwen2MoeConfig(**DECODER | EXPERTS, shared_expert_intermediate_size=32), tokens, []),
    "DeepseekV3ForCausalLM": (lambda: tf.DeepseekV3Config(**deepseek()), tokens, ["intx:bits=4,group=32"]),
    "DeepseekV2ForCausalLM": (lambda: tf.DeepseekV2Config(**deepseek(topk_method="greedy")), tokens, []),
    "MixtralForCausalLM": (lambda: tf.MixtralConfig(**DECODER, num_local_experts=4), tokens, ["8da4w"]),
    "PhimoeForCausalLM": (lambda: tf.PhimoeConfig(**DECODER, num_local_experts=4), tokens, []),
    "OlmoeForCausalLM": (lambda: tf.OlmoeConfig(**DECODER, num_experts=4, num_experts_per_tok=2), tokens, []),
    "GraniteMoeForCausalLM": (lambda: tf.GraniteMoeConfig(**DECODER, num_local_experts=4), tokens, []),
    "LlamaForCausalLM": (lambda: tf.LlamaConfig(**DECODER), tokens, ["8da4w", "intx:bits=4,group=32"]),
    "Gemma3ForCausalLM": (lambda: tf.Gemma3TextConfig(**DECODER), tokens, []),
    "Phi3ForCausalLM": (lambda: tf.Phi3Config(**DECODER), tokens, []),
    "GPTNeoXForCausalLM": (lambda: tf.GPTNeoXConfig(**DECODER), tokens, ["8da4w"]),
    "Gemma3ForConditionalGeneration": (
        lambda: tf.Gemma3Config(text_config=DECODER, vision_config=VISION, mm_tokens_per_image=4,
                                image_token_index=IMAGE, image_token_id=IMAGE),
        lambda: both(4) | {"token_type_ids": (both(4)["input_ids"] == IMAGE).int()}, ["8da4w"]),
    "LlavaForConditionalGeneration": (
        lambda: tf.LlavaConfig(text_config=tf.LlamaConfig(**DECODER),
                               vision_config=tf.CLIPVisionConfig(**VISION, projection_dim=32), image_token_id=IMAGE,
                               image_token_index=IMAGE),
        lambda: both(16), []),
    "Qwen2_5_VLForConditionalGeneration": (
        lambda: tf.Qwen2_5_VLConfig(
            text_config=DECODER | {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3],
                                                       "rope_theta": 1e4}},
            vision_config={"depth": 2, "hidden_size": 64, "intermediate_size": 96, "num_heads": 4, "patch_size": 8,
                           "out_hidden_size": 64, "fullatt_block_indexes": [1], "window_size": 32},
            image_token_id=IMAGE, vision_start_token_id=93, vision_end_token_id=94),
        qwen_vl, []),
    "ViTForImageClassification": (lambda: tf.ViTConfig(**VISION, num_labels=5), pixels, ["8da4w"]),
    "SwinForImageClassification": (
        lambda: tf.SwinConfig(image_size=32, patch_size=4, embed_dim=32, depths=[1, 1], num_heads=[2, 4],
                              window_size=4, num_labels=5), pixels, []),
    "Dinov2Model": (lambda: tf.Dinov2Config(**VISION), pixels, ["8da4w"]),
    "CLIPModel": (
        lambda: tf.CLIPConfig(text_config=ENCODER | {"vocab_size": 96, "eos_token_id": 2, "bos_token_id": 1},
                              vision_config=VISION, projection_dim=32), lambda: tokens() | pixels(), []),
    "BertForSequenceClassification": (lambda: tf.BertConfig(**ENCODER, vocab_size=96), tokens, ["8da4w"]),
    "T5ForConditionalGeneration": (
        lambda: tf.T5Config(vocab_size=96, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4,
                            decoder_start_token_id=0, pad_token_id=0),
        lambda: tokens() | {"decoder_input_ids": torch.tensor([[0, 4, 5]])}, []),
    "WhisperForConditionalGeneration": (
        lambda: tf.WhisperConfig(vocab_size=96, num_mel_bins=16, d_model=64, encoder_layers=1, decoder_layers=1,
                                 encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
                                 decoder_ffn_dim=96, max_source_positions=8, max_target_positions=16, pad_token_id=0,
                                 bos_token_id=1, eos_token_id=2, decoder_start_token_id=3),
        lambda: {"input_features": torch.linspace(-1, 1, 16 * 16).reshape(1, 16, 16),
                 "decoder_input_ids": torch.tensor([[3, 4, 5]])}, []),
}  # fmt: skip
TIED = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "T5ForConditionalGeneration")
# Linear layers that stay in float.
LEFT = {
    "GraniteMoeForCausalLM": "router",
    "WhisperForConditionalGeneration": "proj_out",
    **dict.fromkeys(TIED, "lm_head"),
}


def slipway(*arguments, code=0):
    done = subprocess.run(["slipway", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stderr


def saved(name, folder):
    torch.manual_seed(0)
    model = getattr(tf, name)(MODELS[name][0]()).eval()
    with torch.no_grad():
        for p in model.parameters():  # what is made of zeros or ones would hide what is lost
            p.add_(torch.randn_like(p) * 0.05)
    model.save_pretrained(folder)
    return model


def load(name, folder, **more):
    model, info = getattr(tf, name).from_pretrained(folder, output_loading_info=True, **more)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    return model.eval()


def results(model, name):
    with torch.no_grad():
        out = model(**MODELS[name][1](), return_dict=True)
    return [v for v in out.values() if isinstance(v, torch.Tensor)]


def torchao_of(name, folder, config, skip):
    """The model of a float folder as transformers' TorchAoConfig quantizes it; CLIP's, which it fails on
    (get_input_embeddings), as torchao's quantize_ does."""
    if name != "CLIPModel":
        own = tf.TorchAoConfig(CONFIGS[config], modules_to_not_convert=skip or ["-"])
        return load(name, folder, quantization_config=own)
    model = load(name, folder)
    ao.quantize_(model, CONFIGS[config], lambda m, fqn: type(m) is torch.nn.Linear and fqn not in skip)
    return model


def quantized_names(model):
    return {n for n, p in model.named_parameters() if isinstance(p, TorchAOBaseTensor)}


@pytest.mark.parametrize("name", MODELS)
def test_loads_and_equals_torchao(name, tmp_path):
    exact = results(saved(name, tmp_path / "model"), name)
    for config in ["int8-weight-only", *MODELS[name][2]]:
        slipway("quantize", tmp_path / "model", "-o", tmp_path / "q", "--config", config)
        ours = load(name, tmp_path / "q")
        skip = json.loads((tmp_path / "q" / "config.json").read_text())["quantization_config"]["modules_to_not_convert"]
        own = torchao_of(name, tmp_path / "model", config, skip)
        quantized = quantized_names(ours)
        assert quantized == quantized_names(own)
        left = {n for n, m in ours.named_modules() if type(m) is torch.nn.Linear and n + ".weight" not in quantized}
        assert all(re.search(LEFT.get(name, "^$"), n) for n in left), left
        for a, b, e in zip(results(ours, name), results(own, name), exact, strict=True):
            # Weights are equal; how they lie in memory may change the last bits of torch's products.
            torch.testing.assert_close(a, b, rtol=1e-5, atol=2e-6)
            assert not torch.equal(a, e)


def test_experts_are_refused_and_routers_may_be_asked_for(tmp_path):
    name = "Qwen3MoeForCausalLM"
    saved(name, tmp_path / "model")
    quantize = ("quantize", tmp_path / "model", "-o", tmp_path / "q", "--config", "int8-weight-only")
    said = slipway(*quantize)
    assert re.search(r"mlp\.gate\.weight .*stays: a router", said)
    assert re.search(r"experts\.\*\.up_proj\.weight .*stays: fused or split while transformers loads it", said)
    said = slipway(*quantize[:3], tmp_path / "none", *quantize[4:], "--include", "experts", code=4)
    assert "would not load as Qwen3MoeForCausalLM" in said and "--names file" in said
    assert not (tmp_path / "none").exists()
    slipway(*quantize[:3], tmp_path / "all", *quantize[4:], "--require-all", code=1)
    assert not (tmp_path / "all").exists()
    slipway(*quantize, "--include", r"mlp\.gate\.")
    model = load(name, tmp_path / "q")
    assert "model.layers.1.mlp.gate.weight" in quantized_names(model)
    assert torch.isfinite(results(model, name)[0]).all()
    # For other programs: all linear layers, under the names of the file.
    said = slipway(*quantize, "--names", "file")
    assert "stays: fused" not in said
    with safe_open(tmp_path / "q" / "model.safetensors", "pt") as f:
        assert "model.layers.0.mlp.experts.3.up_proj._weight_qdata" in f.keys()
        assert "slipway_model_names" not in f.metadata()


def test_base_model_names(tmp_path):
    """Names without the base model's prefix, as folders of base models have them."""
    for name, prefix in (("LlamaForCausalLM", "model."), ("ViTForImageClassification", "vit.")):
        folder = tmp_path / name
        exact = saved(name, folder)
        weights = load_file(folder / "model.safetensors")
        weights = {k.removeprefix(prefix): v for k, v in weights.items()}
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        slipway("quantize", folder, "-o", tmp_path / "q", "--config", "int8-weight-only")
        ours = load(name, tmp_path / "q")
        assert len(quantized_names(ours)) == sum(type(m) is torch.nn.Linear for m in exact.modules())
        own = torchao_of(name, folder, "int8-weight-only", [])
        assert torch.equal(results(ours, name)[0], results(own, name)[0])


def test_torchao_loads_the_file_s_names(tmp_path):
    """torchao's own loader sees the weights under the file's names; slipway reads them as plain ones again."""
    saved("ViTForImageClassification", tmp_path / "model")
    slipway("quantize", tmp_path / "model", "-o", tmp_path / "q", "--config", "int8-weight-only")
    with safe_open(tmp_path / "q" / "model.safetensors", "pt") as f:
        tensors, metadata = {k: f.get_tensor(k) for k in f.keys()}, f.metadata()
    state, rest = unflatten_tensor_state_dict(tensors, metadata)
    source = load_file(tmp_path / "model" / "model.safetensors")
    assert set(state) == set(source) and not rest
    slipway("convert", tmp_path / "q", "-o", tmp_path / "plain", "--dtype", "f32")
    plain = load_file(tmp_path / "plain" / "model.safetensors")
    assert set(plain) == set(source)
    for key, value in plain.items():
        w = state[key]
        assert torch.equal(value, w.dequantize() if isinstance(w, TorchAOBaseTensor) else w)
    load("ViTForImageClassification", tmp_path / "plain")


def test_unknown_models(tmp_path):
    saved("LlamaForCausalLM", tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["MyModel"]}))
    quantize = ("quantize", tmp_path / "model", "-o", tmp_path / "q", "--config", "int8-weight-only")
    assert "config.json names no model class" in slipway(*quantize)
    said = slipway(*quantize[:3], tmp_path / "r", *quantize[4:], "--names", "transformers", code=4)
    assert "--names file" in said and not (tmp_path / "r").exists()


def test_several_processes(tmp_path):
    """Headers of several processes have more in them, which transformers must not stumble over."""
    name = "MixtralForCausalLM"
    saved(name, tmp_path / "model")
    for rank in (1, 0):
        slipway("quantize", tmp_path / "model", "-o", tmp_path / "q", "--config", "int8-weight-only", "--shards", "3",
                "--rank", rank, "--world-size", "2")  # fmt: skip
    with safe_open(tmp_path / "q" / "model-00001-of-00003.safetensors", "pt") as f:
        assert not [k for k in f.metadata() if k.startswith("slipway.")]
    own = torchao_of(name, tmp_path / "model", "int8-weight-only", ["model.embed_tokens"])
    assert torch.equal(results(load(name, tmp_path / "q"), name)[0], results(own, name)[0])


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        return self.model(pixel_values=pixel_values).logits


@pytest.mark.parametrize("quantized", [False, True])
def test_a_program_takes_the_folder_s_weights(quantized, tmp_path):
    """A program without weights has the names of the model class, the folder those of older transformers."""
    name = "ViTForImageClassification"
    model = saved(name, tmp_path / "model")
    folder = tmp_path / "model"
    with torch.device("meta"):
        empty = Logits(tf.ViTForImageClassification(model.config)).eval()
        program = torch.export.export(empty, (torch.empty(1, 3, 32, 32),))
    torch.export.save(program, tmp_path / "empty.pt2")
    if quantized:
        folder = tmp_path / "q"
        slipway("quantize", tmp_path / "model", "-o", folder, "--config", "int8-weight-only")
        model = load(name, folder)
    said = slipway("convert", tmp_path / "empty.pt2", "-o", tmp_path / "full.pt2", "--weights", folder)
    assert "tensors go by the names of transformers 5." in said
    got = torch.export.load(tmp_path / "full.pt2").module()(pixels()["pixel_values"])
    torch.testing.assert_close(got, results(model, name)[0], rtol=1e-5, atol=1e-6)
