"""slipway.convert(module, "m.onnx", args=…, dynamic=True) of models as people have them, at two sizes: transformers'
classes with random weights and torch.nn's layers."""

import math

import onnxruntime
import pytest
import torch

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = dict(vocab_size=256, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
GROUPED = SMALL | dict(num_key_value_heads=2)
VISION = {k: v for k, v in SMALL.items() if k != "vocab_size"}


def made(name, config, **settings):
    settings = getattr(transformers, config)(**settings)
    settings.use_cache = False
    return getattr(transformers, name)(settings)


def tokens(batch, length):
    return {
        "input_ids": torch.randint(3, 200, (batch, length)),
        "attention_mask": torch.ones(batch, length, dtype=torch.int64),
    }


def images(batch, size):
    return {"pixel_values": torch.randn(batch, 3, size, size)}


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(8, 16, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 8, 3, groups=8), torch.nn.GELU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        )  # fmt: skip

    def forward(self, x):
        return self.body(x)


class Rounded(torch.nn.Module):
    """math.ceil and math.floor of sizes, which torch.export.save refuses."""

    def forward(self, x):
        up, down = math.ceil(x.shape[1] / 4) * 4, math.floor(x.shape[1] / 3)
        return torch.nn.functional.interpolate(x[:, None], size=(up,)), x[:, :down]


def encoder():
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


# How it is made, the arguments that it is exported with, and others.
MODELS = {
    "bert": (lambda: made("BertModel", "BertConfig", **SMALL), tokens(2, 9), tokens(3, 17)),
    "deberta": (
        lambda: made("DebertaV2Model", "DebertaV2Config", relative_attention=True, pos_att_type=["p2c", "c2p"],
                     position_buckets=16, **SMALL),
        tokens(2, 9),
        tokens(3, 17),
    ),
    "gpt2": (
        lambda: made("GPT2LMHeadModel", "GPT2Config", vocab_size=256, n_embd=32, n_layer=2, n_head=4),
        tokens(2, 9),
        tokens(3, 17),
    ),
    "llama": (lambda: made("LlamaForCausalLM", "LlamaConfig", **GROUPED), tokens(2, 9), tokens(3, 17)),
    "gemma2": (lambda: made("Gemma2ForCausalLM", "Gemma2Config", head_dim=8, **GROUPED), tokens(2, 9), tokens(3, 17)),
    "t5": (
        lambda: made("T5EncoderModel", "T5Config", vocab_size=256, d_model=32, d_kv=8, d_ff=64, num_layers=2,
                     num_heads=4),
        tokens(2, 9),
        tokens(3, 17),
    ),
    "vit": (lambda: made("ViTModel", "ViTConfig", image_size=64, **VISION), images(2, 64), images(5, 64)),
    "segformer": (
        lambda: made("SegformerForSemanticSegmentation", "SegformerConfig", hidden_sizes=[8, 16, 24, 32],
                     depths=[1, 1, 1, 1], decoder_hidden_size=16),
        images(2, 64),
        images(3, 96),
    ),
    "lstm": (Recurrent, (torch.randn(2, 7, 8),), (torch.randn(3, 7, 8),)),
    "convolutions": (Convolutions, (torch.randn(2, 3, 16, 16),), (torch.randn(3, 3, 24, 20),)),
    "rounded": (Rounded, (torch.randn(2, 7),), (torch.randn(3, 17),)),
    "encoder": (encoder, (torch.randn(2, 7, 32),), (torch.randn(3, 13, 32),)),
}  # fmt: skip


def leaves(y):
    values = y.to_tuple() if hasattr(y, "to_tuple") else y
    return [t for t in torch.utils._pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize("name", MODELS)
def test_model(library, name, tmp_path):
    make, *sizes = MODELS[name]
    model = make().eval()
    arguments = [(x, {}) if isinstance(x, tuple) else ((), x) for x in sizes]
    args, kwargs = arguments[0]
    library.convert(model, tmp_path / "m.onnx", args=args, kwargs=kwargs or None, dynamic=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for args, kwargs in arguments:
        with torch.no_grad():
            wanted = leaves(model(*args, **kwargs))
        given = zip([i.name for i in session.get_inputs()], [*args, *kwargs.values()])
        got = session.run(None, {input: value.numpy() for input, value in given})
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted):
            torch.testing.assert_close(torch.from_numpy(a), b, rtol=1e-3, atol=1e-4)
