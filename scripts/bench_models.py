"""The models that bench_native.py measures, with seeded weights: what people run on CPUs, written out without other
packages."""

import torch
from torch import nn
from torch.nn import functional


class DecoderLayer(nn.Module):
    """As in Llama: RMS norm, rotary positions, shared key heads, gated MLP; keys and values of earlier tokens may come
    in."""

    def __init__(self, width, heads, kept, inner):
        super().__init__()
        self.heads, self.kept, self.each = heads, kept, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kept * self.each, bias=False) for _ in range(2))
        self.gate, self.up, self.down = (
            nn.Linear(a, b, bias=False) for a, b in ((width, inner), (width, inner), (inner, width))
        )
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)

    def forward(self, x, cos, sin, past):
        batch, length, width = x.shape
        y = self.norm1(x)

        def split(t, n):
            return t.view(batch, length, n, self.each).transpose(1, 2)

        def turn(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin

        q, k, v = turn(split(self.q(y), self.heads)), turn(split(self.k(y), self.kept)), split(self.v(y), self.kept)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=past is None and length > 1, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), (k, v)


class Decoder(nn.Module):
    """Returns logits of the last token and the cache."""

    def __init__(self, length, layers=2, width=256, heads=8, kept=2, inner=768, words=1000, start=0):
        super().__init__()
        self.words, self.norm, self.head = (
            nn.Embedding(words, width),
            nn.RMSNorm(width),
            nn.Linear(width, words, bias=False),
        )
        self.blocks = nn.ModuleList(DecoderLayer(width, heads, kept, inner) for _ in range(layers))
        half = width // heads // 2
        angles = torch.outer(torch.arange(start, start + length).float(), 10000 ** -(torch.arange(half) / half))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def forward(self, ids, *cache):
        x, out = self.words(ids), []
        for i, b in enumerate(self.blocks):
            x, kv = b(x, self.cos, self.sin, cache[2 * i : 2 * i + 2] or None)
            out += kv
        return self.head(self.norm(x[:, -1])), *out


def decoder(layers, cached, **sizes):
    """The model and its inputs: 128 tokens, or one token after `cached`."""
    length = 1 if cached else 128
    net = Decoder(length, layers, start=cached, **sizes)
    each, kept = net.blocks[0].each, net.blocks[0].kept
    past = [torch.randn(1, kept, cached, each) for _ in range(2 * layers)] if cached else []
    return net, (torch.randint(0, 1000, (1, length)), *past)


def conv(cin, cout, k, stride=1, groups=1, act=None):
    return nn.Sequential(
        nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
        act() if act else nn.Identity(),
    )


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a, self.b = conv(cin, cout, 3, stride, act=nn.ReLU), conv(cout, cout, 3)
        self.short = conv(cin, cout, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return functional.relu(self.b(self.a(x)) + self.short(x))


def resnet18():
    layers, width = [conv(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for out in (64, 128, 256, 512):
        layers += [BasicBlock(width, out, 1 if out == 64 else 2), BasicBlock(out, out, 1)]
        width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Squeeze(nn.Module):
    def __init__(self, c):
        super().__init__()
        inner = max(8, (c // 4 + 4) // 8 * 8)
        self.a, self.b = nn.Conv2d(c, inner, 1), nn.Conv2d(inner, c, 1)

    def forward(self, x):
        return x * functional.hardsigmoid(self.b(functional.relu(self.a(functional.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    def __init__(self, cin, k, mid, cout, squeeze, act, stride):
        super().__init__()
        parts = [conv(cin, mid, 1, act=act)] if mid != cin else []
        parts += [conv(mid, mid, k, stride, mid, act=act)] + ([Squeeze(mid)] if squeeze else []) + [conv(mid, cout, 1)]
        self.body, self.same = nn.Sequential(*parts), stride == 1 and cin == cout

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobilenet_v3_large():
    r, h = nn.ReLU, nn.Hardswish
    rows = [
        (3, 16, 16, 0, r, 1),
        (3, 64, 24, 0, r, 2),
        (3, 72, 24, 0, r, 1),
        (5, 72, 40, 1, r, 2),
        (5, 120, 40, 1, r, 1),
        (5, 120, 40, 1, r, 1),
        (3, 240, 80, 0, h, 2),
        (3, 200, 80, 0, h, 1),
        (3, 184, 80, 0, h, 1),
        (3, 184, 80, 0, h, 1),
        # fmt: skip
        (3, 480, 112, 1, h, 1),
        (3, 672, 112, 1, h, 1),
        (5, 672, 160, 1, h, 2),
        (5, 960, 160, 1, h, 1),
        (5, 960, 160, 1, h, 1),
    ]
    layers, width = [conv(3, 16, 3, 2, act=h)], 16
    for k, mid, out, squeeze, act, stride in rows:
        layers.append(Inverted(width, k, mid, out, squeeze, act, stride))
        width = out
    layers += [
        conv(160, 960, 1, act=h),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(960, 1280),
        nn.Hardswish(),
        nn.Linear(1280, 1000),
    ]
    return nn.Sequential(*layers)


class ViTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.o(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w))
        return x + self.down(functional.gelu(self.up(self.n2(x))))


class ViT(nn.Module):
    """ViT-S/16."""

    def __init__(self, width=384, heads=6, layers=12):
        super().__init__()
        self.patch, self.norm, self.head = nn.Conv2d(3, width, 16, 16), nn.LayerNorm(width), nn.Linear(width, 1000)
        self.cls, self.pos = (
            nn.Parameter(torch.randn(1, 1, width) * 0.02),
            nn.Parameter(torch.randn(1, 197, width) * 0.02),
        )
        self.blocks = nn.Sequential(*(ViTBlock(width, heads) for _ in range(layers)))

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        self.down, self.up, self.merge, cin = nn.ModuleList(), nn.ModuleList(), nn.ModuleList(), 3
        for w in widths:
            self.down.append(nn.Sequential(conv(cin, w, 3, act=nn.ReLU), conv(w, w, 3, act=nn.ReLU)))
            cin = w
        for w in reversed(widths[:-1]):
            self.up.append(nn.ConvTranspose2d(2 * w, w, 2, 2))
            self.merge.append(nn.Sequential(conv(2 * w, w, 3, act=nn.ReLU), conv(w, w, 3, act=nn.ReLU)))
        self.out = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for i, d in enumerate(self.down):
            x = d(functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat((up(x), kept.pop()), 1))
        return self.out(x)


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.LSTM(256, 256, 2, batch_first=True)

    def forward(self, x):
        return self.net(x)[0]


class Residual(nn.Module):
    """A convolution with its norm, added to what it goes over."""

    def __init__(self, conv):
        super().__init__()
        self.conv, self.norm = conv, nn.BatchNorm2d(conv.out_channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x)


class LastHiddenState(nn.Module):
    """One of transformers' models as a function to one tensor."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *x):
        return self.net(*x).last_hidden_state


def mlp():
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def cases():
    """name -> (model, inputs), made when asked for."""
    small, large = {}, dict(layers=12, width=512, heads=8, kept=8, inner=1408, words=32000)
    image = lambda side: (torch.randn(1, 3, side, side),)  # noqa: E731
    return {
        "MLP (1)": lambda: (mlp(), (torch.randn(1, 784),)),
        "MLP (64)": lambda: (mlp(), (torch.randn(64, 784),)),
        "decoder 2 layers, prefill 128": lambda: decoder(2, 0, **small),
        "decoder 2 layers, decode at 128": lambda: decoder(2, 128, **small),
        "decoder 12 layers, prefill 128": lambda: decoder(cached=0, **large),
        "decoder 12 layers, decode at 128": lambda: decoder(cached=128, **large),
        "LSTM (1,64,256)": lambda: (LSTM(), (torch.randn(1, 64, 256),)),
        "ResNet-18 224": lambda: (resnet18(), image(224)),
        "MobileNetV3-L 224": lambda: (mobilenet_v3_large(), image(224)),
        "ViT-S 224": lambda: (ViT(), image(224)),
        "U-Net 128": lambda: (UNet(), image(128)),
    }
