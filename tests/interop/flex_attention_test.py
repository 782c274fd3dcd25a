"""flex_attention in memory: score_mods and masks beside torch's eager mode, as ONNX and as libraries, and what becomes
one attention operator."""

import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

pytestmark = pytest.mark.filterwarnings("ignore")
AUTO = torch.export.Dim.AUTO
HEADS = 4


class Attention(nn.Module):
    def __init__(self, score_mod=None, mask_mod=None, key_heads=HEADS, lse=False):
        super().__init__()
        self.score_mod, self.mask_mod, self.key_heads, self.lse = score_mod, mask_mod, key_heads, lse
        self.q, self.kv = nn.Linear(32, HEADS * 16), nn.Linear(32, key_heads * 32)
        self.register_buffer("slopes", torch.tensor([0.5, 0.25, 0.125, 0.0625]))
        self.register_buffer("documents", torch.arange(128) // 10)

    def forward(self, x):
        batch, n, _ = x.shape
        q = self.q(x).view(batch, n, HEADS, 16).transpose(1, 2)
        k, v = self.kv(x).view(batch, n, self.key_heads, 32).transpose(1, 2).chunk(2, -1)
        score_mod, mask_mod = self.score_mod and self.score_mod(self), self.mask_mod and self.mask_mod(self)
        block_mask = create_block_mask(mask_mod, None, None, n, n, device="cpu") if mask_mod else None
        y = flex_attention(
            q,
            k,
            v,
            score_mod=score_mod,
            block_mask=block_mask,
            enable_gqa=self.key_heads != HEADS,
            return_lse=self.lse,
        )
        return y if self.lse else y.transpose(1, 2).reshape(batch, n, HEADS * 16)


def alibi(module):
    slopes = module.slopes
    return lambda score, b, h, q, k: score + (k - q) * slopes[h]


def causal_score(module):
    return lambda score, b, h, q, k: torch.where(q >= k, score, -float("inf"))


def capped(module):
    return lambda score, b, h, q, k: 20 * torch.tanh(score / 20)


def twice(module):
    return lambda score, b, h, q, k: score * 2 - (q - k).abs()


def causal(module):
    return lambda b, h, q, k: q >= k


def sliding(module):
    return lambda b, h, q, k: (q >= k) & (q - k <= 16)


def document(module):
    documents = module.documents
    return lambda b, h, q, k: (documents[q] == documents[k]) & (q >= k)


def nothing_for_5(module):
    return lambda b, h, q, k: (q >= k) & (q != 5)


# Name: the module, and whether it is one attention operator.
CASES = {
    "causal": (Attention(None, causal), True),
    "alibi": (Attention(alibi), True),
    "sliding": (Attention(None, sliding), True),
    "document": (Attention(None, document), True),
    "alibi, document, shared heads": (Attention(alibi, document, 2), True),
    "causal score": (Attention(causal_score), True),
    "a row without keys": (Attention(alibi, nothing_for_5), True),
    "plain": (Attention(), True),
    "capped, causal, shared heads": (Attention(capped, causal, 2), False),
    "twice, sliding": (Attention(twice, sliding), False),
    "log of sums": (Attention(alibi, causal, lse=True), False),
}


@pytest.mark.parametrize("name", CASES)
def test_beside_eager(library, name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    module, fused = CASES[name]
    module.eval()
    with torch.no_grad():
        x = torch.randn(2, 48, 32)
        program = torch.export.export(module, (x,), dynamic_shapes=({0: AUTO, 1: AUTO},))
        library.convert(program, tmp_path / "m.onnx", opset=23)
        library.convert(module, tmp_path / "m.pt2", args=(x,), dynamic=True)
        compiled = library.compile(program)
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
        for size in ((2, 48, 32), (3, 100, 32)):
            x = torch.randn(size)
            wanted = module(x)
            for got in (compiled(x), session.run(None, {"x": x.numpy()})):
                flat = lambda y: list(y) if isinstance(y, (list, tuple)) else [y]  # noqa: E731
                assert len(flat(got)) == len(flat(wanted))
                for g, w in zip(flat(got), flat(wanted)):
                    torch.testing.assert_close(torch.as_tensor(g), w, rtol=1e-4, atol=1e-5, check_stride=False)
    names = [str(n.target) for n in torch.export.load(tmp_path / "m.pt2").graph.nodes]
    assert any("scaled_dot_product_attention" in n for n in names) == fused, names
    model = onnx.load(tmp_path / "m.onnx")
    # A mask is one of positions, not one for each head.
    assert len(model.graph.node) < 90


def test_half_precision(library, tmp_path, monkeypatch):
    """Biases are added in float32, as eager mode adds them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with torch.no_grad():
        module = Attention(alibi, causal).eval().bfloat16()
        x = torch.randn(2, 100, 32).bfloat16()
        compiled = library.compile(module, (x,))
        torch.testing.assert_close(compiled(x), module(x), rtol=2e-2, atol=1e-2, check_stride=False)


def test_torch_compile(library, tmp_path, monkeypatch, recwarn):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch._dynamo.reset()
    with torch.no_grad():
        module = Attention(alibi, sliding).eval()
        x = torch.randn(2, 48, 32)
        got = torch.compile(module, backend="slipway")(x)
        assert not [w for w in recwarn if "slipway" in str(w.message)], [str(w.message) for w in recwarn]
        torch.testing.assert_close(got, module(x), rtol=1e-4, atol=1e-5, check_stride=False)
