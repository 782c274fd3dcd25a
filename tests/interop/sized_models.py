"""Models of the usual families in plain torch, each with inputs at several sizes: what static exports are made dynamic
of.

MODELS maps a name to (a function that makes the module, a function from a set of sizes to its inputs, three sets of
sizes).
"""

import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "samples"))


def minilm():
    from make_minilm import MiniLM

    return MiniLM()


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(x.transpose(1, 2).reshape(batch, length, width))


class ViT(nn.Module):
    """Patches with a class token, pooled positions: any number of patches up to a table's length."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 8, stride=8)
        self.token = nn.Parameter(torch.randn(1, 1, 24))
        self.positions = nn.Parameter(torch.randn(1, 200, 24))
        self.blocks = nn.ModuleList(Attention(24, 3) for _ in range(2))
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        x = x + self.positions[:, : x.shape[1]]
        for block in self.blocks:
            x = x + block(F.layer_norm(x, (24,)))
        return self.head(x[:, 0])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 9, 3, padding=1)
        self.up, self.out = nn.Conv2d(15, 6, 3, padding=1), nn.Conv2d(6, 2, 1)

    def forward(self, x):
        a = torch.relu(self.down1(x))
        b = torch.relu(self.down2(F.max_pool2d(a, 2)))
        b = F.interpolate(b, size=a.shape[-2:], mode="bilinear")
        return self.out(torch.relu(self.up(torch.cat([a, b], 1))))


class Decoder(nn.Module):
    """A llama: RMS norms, rotary positions, grouped queries, SwiGLU, a causal mask made of the length."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.q, self.k, self.v, self.o = nn.Linear(32, 32), nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(32, 32)
        self.gate, self.up, self.down = nn.Linear(32, 40), nn.Linear(32, 40), nn.Linear(40, 32)
        self.norm = nn.Parameter(torch.ones(32))
        self.register_buffer("frequencies", 1.0 / 100 ** (torch.arange(0, 8, 2).float() / 8))

    def rotate(self, x, cos, sin):
        a, b = x[..., :4], x[..., 4:]
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, ids):
        batch, length = ids.shape
        x = self.words(ids)
        angles = torch.arange(length)[:, None] * self.frequencies[None]
        angles = torch.cat([angles, angles], -1)
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm
        q = self.q(h).view(batch, length, 4, 8).transpose(1, 2)
        k = self.k(h).view(batch, length, 2, 8).transpose(1, 2)
        v = self.v(h).view(batch, length, 2, 8).transpose(1, 2)
        q, k = self.rotate(q, angles.cos(), angles.sin()), self.rotate(k, angles.cos(), angles.sin())
        k = k[:, :, None].expand(batch, 2, 2, length, 8).reshape(batch, 4, length, 8)
        v = v[:, :, None].expand(batch, 2, 2, length, 8).reshape(batch, 4, length, 8)
        mask = torch.full((length, length), float("-inf")).triu(1)
        scores = q @ k.transpose(2, 3) / 8**0.5 + mask
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, 32))
        x = x + self.down(F.silu(self.gate(x)) * self.up(x))
        return x @ self.words.weight.T


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(7, 11, num_layers=2, batch_first=True), nn.Linear(11, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(12, 3, 20, batch_first=True), 2, enable_nested_tensor=False
        )

    def forward(self, x):
        return self.net(x)


def ids(high):
    return lambda batch, length: (torch.randint(1, high, (batch, length)),)


def bert_inputs(batch, length):
    return torch.randint(1, 30000, (batch, length)), torch.ones(batch, length, dtype=torch.long)


def image(channels):
    return lambda batch, height, width: (torch.randn(batch, channels, height, width),)


def floats(width):
    return lambda batch, length: (torch.randn(batch, length, width),)


MODELS = {
    "minilm": (minilm, bert_inputs, [(3, 7), (5, 11), (2, 24)]),
    "vit": (ViT, image(3), [(3, 40, 56), (2, 48, 72), (4, 64, 32)]),
    "unet": (UNet, image(2), [(3, 20, 28), (2, 36, 44), (1, 24, 52)]),
    "decoder": (Decoder, ids(50), [(3, 7), (5, 11), (2, 23)]),
    "lstm": (LSTM, floats(7), [(3, 5), (4, 9), (2, 13)]),
    "transformer": (Transformer, floats(12), [(3, 5), (4, 7), (2, 13)]),
}


def export(name, path, sizes):
    """The model of this name, the same each time, exported for one set of sizes without dynamic dimensions."""
    make, inputs, _ = MODELS[name]
    torch.manual_seed(7)
    module = make().eval()
    torch.manual_seed(sum(sizes))
    arguments = inputs(*sizes)
    torch.export.save(torch.export.export(module, arguments), str(path))
    return module
