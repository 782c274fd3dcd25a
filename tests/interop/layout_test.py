"""Convolutional programs in native libraries beside torch, under each instruction set: images and signals with channels
last, branches that are merged, paddings that convolutions take over."""

import os
import pathlib
import subprocess

import forks
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLIPWAY = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
FLAGS = set(pathlib.Path("/proc/cpuinfo").read_text().split())
PRESENT = [
    isa
    for isa, needs in {
        "v2": {"sse4_2"},
        "avx2": {"avx2", "fma", "f16c"},
        "avx512": {"avx512f", "avx512vl", "avx512bw", "avx512dq"},
    }.items()
    if needs <= FLAGS
] or [""]


def conv(c, o, k, stride=1, groups=1, act=None, padding=None):
    layers = [
        nn.Conv2d(c, o, k, stride, k // 2 if padding is None else padding, groups=groups, bias=False),
        nn.BatchNorm2d(o),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


class Squeeze(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, 8, 1), nn.Conv2d(8, c, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.b(nn.functional.silu(self.a(x.mean((2, 3), keepdim=True)))))


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


class Ghost(nn.Module):
    """Half of the channels are made of the other half."""

    def __init__(self, c, o):
        super().__init__()
        self.a, self.b = conv(c, o // 2, 1, act=nn.ReLU), conv(o // 2, o // 2, 3, groups=o // 2, act=nn.ReLU)

    def forward(self, x):
        y = self.a(x)
        return torch.cat((y, self.b(y)), 1)


class Joined(nn.Module):
    """Branches that are joined, of which one is read by the next, one is added to and summed, one is pooled and one
    resized; behind them a gate of half the image's size."""

    def __init__(self, c):
        super().__init__()
        self.a, self.b, self.p = (
            conv(c, 24, 1, act=nn.ReLU),
            conv(24, 17, 3, act=nn.SiLU),
            conv(c, 20, 1, act=nn.Hardswish),
        )
        self.d, self.small, self.gate = (
            conv(24, 24, 3, groups=24),
            conv(c, 16, 3, 2),
            conv(c, 122, 1, act=nn.Hardsigmoid),
        )

    def forward(self, x):
        a = self.a(x)
        b, p, d = self.b(a), self.p(nn.functional.max_pool2d(x, 3, 1, 1)), self.d(a) + a
        small = nn.functional.interpolate(self.small(x), size=x.shape[2:], mode="bilinear")
        wide = torch.cat((a, b, p, d, small, x[:, :21]), 1)
        gate = nn.functional.interpolate(self.gate(nn.functional.avg_pool2d(x, 2)), size=x.shape[2:], mode="nearest")
        return (
            torch.cat((wide[:, :30] * gate[:, :30], torch.relu(wide[:, 30:] * gate[:, 30:])), 1)
            + a.flatten(1).sum(1)[:, None, None, None] / 1000
            + d.sum(3, keepdim=True).mean(1, keepdim=True) / 100
        )


class Branches(nn.Module):
    def __init__(self, c, groups=1):
        super().__init__()
        self.a, self.b, self.n = conv(c, c, 3, groups=groups), conv(c, c, 1, groups=groups), nn.BatchNorm2d(c)

    def forward(self, x):
        return torch.relu(self.a(x) + self.b(x) + self.n(x))


class Late(nn.Module):
    """A depthwise convolution and a norm over channels that are last."""

    def __init__(self, c):
        super().__init__()
        self.d, self.n, self.u, self.v = (
            nn.Conv2d(c, c, 7, padding=3, groups=c),
            nn.LayerNorm(c),
            nn.Linear(c, 2 * c),
            nn.Linear(2 * c, c),
        )

    def forward(self, x):
        y = self.d(x).permute(0, 2, 3, 1)
        return x + self.v(nn.functional.gelu(self.u(self.n(y)))).permute(0, 3, 1, 2)


class Padded(nn.Module):
    """As TensorFlow pads: one more behind than before."""

    def __init__(self, c):
        super().__init__()
        self.d, self.p = conv(c, c, 3, 2, c, padding=0), conv(c, 24, 3, 2, padding=0)

    def forward(self, x):
        return self.p(nn.functional.pad(self.d(nn.functional.pad(x, (0, 1, 0, 1))), (1, 1, 1, 1)))


class PreNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n, self.p, self.d = nn.BatchNorm2d(c), nn.Conv2d(c, 16, 1), nn.Conv2d(16, 16, 3, padding=1, groups=16)

    def forward(self, x):
        return torch.cat((x, self.d(self.p(torch.relu(self.n(x))))), 1)


class Weighed(nn.Module):
    """Branches that are weighed and added up: of one convolution, as split attention has them, and stacked, as
    selective kernels do."""

    def __init__(self, c):
        super().__init__()
        self.both, self.split = conv(c, 2 * c, 3, groups=2, act=nn.ReLU), nn.Conv2d(c, 2 * c, 1)
        self.a, self.b, self.select = conv(c, c, 3, groups=c), conv(c, c, 5, groups=c), nn.Conv2d(c, 3 * c, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        y = self.both(x).view(n, 2, c, h, w)
        by = self.split(y.sum(1).mean((2, 3), keepdim=True)).view(n, 2, c).softmax(1).reshape(n, -1, 1, 1)
        x = x + (y * by.view(n, 2, c, 1, 1)).sum(dim=1)
        y = torch.stack((self.a(x), self.b(x), x), 1)
        by = self.select(y.sum(1).mean((2, 3), keepdim=True)).view(n, 3, c, 1, 1).softmax(1)
        return torch.relu((y * by).sum(dim=1))


class Scaled(nn.Module):
    """Layer scale, and a shift, behind a linear layer over channels that are last and behind a norm; a norm behind a
    linear layer."""

    def __init__(self, c):
        super().__init__()
        self.late, self.out, self.a = Late(c), nn.Linear(c, c), conv(c, c, 3)
        self.gamma, self.scale, self.shift = (nn.Parameter(torch.randn(c)) for _ in range(3))
        self.tokens, self.norm = nn.Linear(c, c, bias=False), nn.BatchNorm1d(c)

    def forward(self, x):
        n, c, h, w = x.shape
        tokens = self.tokens(x.flatten(2).transpose(1, 2))
        x = x + self.norm(tokens.flatten(0, 1)).reshape_as(tokens).transpose(1, 2).reshape(n, c, h, w)
        y = self.out(self.late(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = x + y * self.gamma.view(1, -1, 1, 1) + self.shift[:, None, None]
        return x + (self.a(x) * self.scale[None, :, None, None] + self.shift[:, None, None])


class Up(nn.Module):
    """An image enlarged beside what it was made of, as in a U-Net, by copies, too; then by other strides, paddings and
    groups, with a norm and a function behind."""

    def __init__(self, c):
        super().__init__()
        self.down, self.up, self.merge = (
            conv(c, 2 * c, 3, 2, act=nn.ReLU),
            nn.ConvTranspose2d(2 * c, c, 2, 2),
            conv(4 * c, 32, 3, act=nn.ReLU),
        )
        self.more = nn.ModuleList(
            [
                nn.ConvTranspose2d(32, 24, 4, 2, 1, bias=False),
                nn.ConvTranspose2d(24, 18, 3, 2, 1, 1),
                nn.ConvTranspose2d(18, 16, (2, 3), (3, 1), (0, 2), dilation=(1, 2)),
                nn.ConvTranspose2d(16, 8, 2, 2, groups=4),
            ]
        )
        self.between = nn.ModuleList(
            [
                nn.Sequential(*act, conv(n, n, 3, groups=n))
                for n, act in ((24, [nn.BatchNorm2d(24), nn.SiLU()]), (18, [nn.ReLU()]), (16, []))
            ]
        )

    def forward(self, x):
        small = self.down(x)
        y, copied = self.up(small), nn.functional.interpolate(small, scale_factor=2.0)
        y = self.merge(
            torch.cat((nn.functional.pad(x, (0, y.shape[3] - x.shape[3], 0, y.shape[2] - x.shape[2])), y, copied), 1)
        )
        for up, between in zip(self.more, self.between):
            y = between(up(y))
        return self.more[-1](y)


class PermutedPools(nn.Module):
    """Pools of views that have channels last, without a convolution that chose it; and of a part of a tensor."""

    def forward(self, x):
        last = torch.relu(x.permute(0, 2, 3, 1) * 2).permute(0, 3, 1, 2)
        pooled = F.max_pool2d(last, 3, 2, 1) + F.avg_pool2d(last, 3, 2, 1, count_include_pad=False)
        return (
            pooled
            + F.max_pool2d(x.transpose(2, 3), 3, 2, 1).transpose(2, 3)
            + F.avg_pool2d(x[:, :, 1:, 1:], 2, 2)[:, :, :1, :1]
        )


class Dense(nn.Module):
    """Each layer reads what all before it gave, joined: lists that begin alike share memory. One is joined in another
    order, one is read twice."""

    def __init__(self, c, by, layers):
        super().__init__()
        self.layers = nn.ModuleList(
            [
                nn.Sequential(
                    nn.BatchNorm2d(c + i * by), nn.ReLU(), nn.Conv2d(c + i * by, 24, 1), conv(24, by, 3, act=nn.ReLU)
                )
                for i in range(layers)
            ]
        )

    def forward(self, x):
        parts = [x]
        for layer in self.layers:
            parts.append(layer(torch.cat(parts, 1)))
        other = torch.cat([parts[0], parts[2], parts[1]], 1)
        short = torch.cat(parts[:2], 1)
        return (
            torch.cat(parts, 1)
            + torch.cat([other, short], 1)[:, :1] * short.mean((1, 2, 3), keepdim=True)
            + torch.cat([x[:1]] * 3, 1).sum(1, keepdim=True)
        )


class Pyramid(nn.Module):
    """Means of windows of several sizes, which do not divide the image, one of them of a single row and one a result of
    the program's."""

    def __init__(self, c):
        super().__init__()
        self.pools, self.conv = (
            nn.ModuleList(nn.AdaptiveAvgPool2d(size) for size in ((3, 4), (1, 5), (19, 1))),
            conv(c, 24, 1, act=nn.ReLU),
        )

    def forward(self, x):
        y = torch.cat(
            [x] + [F.interpolate(self.conv(pool(x)), size=x.shape[2:], mode="bilinear") for pool in self.pools], 1
        )
        return F.adaptive_avg_pool2d(y, 6)


class AddsBehind(nn.Module):
    """What is added comes behind a convolution's function: of the image it reads, in either order, and of another
    tensor."""

    def __init__(self, c):
        super().__init__()
        self.a, self.b, self.d = (
            conv(c, c, 1, act=nn.SiLU),
            conv(c, c, 3, act=nn.ReLU),
            conv(c, c, 7, groups=c, act=nn.Hardswish),
        )

    def forward(self, x):
        y = x + self.a(x)
        z = self.b(y) + y
        return self.d(z) + x


def behind(*layers, c):
    """A norm behind a function, and something added behind that."""
    return Residual(*layers, nn.BatchNorm2d(c))


NETS = {
    "inverted residuals": lambda: [
        conv(3, 16, 3, 2, act=nn.Hardswish),
        Residual(conv(16, 40, 1, act=nn.SiLU), conv(40, 40, 5, groups=40, act=nn.SiLU), Squeeze(40), conv(40, 16, 1)),
        conv(16, 23, 1),
        conv(23, 23, 3, 2, 23, act=nn.ReLU6),
    ],
    "joined": lambda: [
        conv(3, 24, 3, 2, act=nn.ReLU),
        conv(24, 24, 3, groups=24),
        Joined(24),
        conv(122, 24, 3, groups=2),
        Joined(24),
    ],
    "ghosts": lambda: [conv(3, 16, 3, 2, act=nn.ReLU), Ghost(16, 48), Ghost(48, 26)],
    "groups": lambda: [
        conv(3, 32, 7, 2, act=nn.ReLU),
        nn.MaxPool2d(3, 2, 1),
        Residual(conv(32, 64, 1, act=nn.ReLU), conv(64, 64, 3, groups=16, act=nn.ReLU), conv(64, 32, 1)),
        conv(32, 48, 3, 2, groups=2),
        nn.AvgPool2d(2),
    ],
    "branches": lambda: [conv(3, 24, 3, 2, act=nn.ReLU), Branches(24), Branches(24, 24), Branches(24, 4)],
    "late norms": lambda: [nn.Conv2d(3, 40, 4, 4), Late(40), Late(40)],
    "paddings": lambda: [conv(3, 20, 3, act=nn.SiLU), Padded(20)],
    "norms before": lambda: [conv(3, 24, 3, 2), PreNorm(24), PreNorm(40), nn.BatchNorm2d(56), nn.ReLU()],
    "joined again": lambda: [
        conv(3, 20, 3, 2, act=nn.ReLU),
        conv(20, 20, 3, groups=20),
        Dense(20, 12, 4),
        nn.AvgPool2d(2),
        Dense(68, 8, 3),
    ],
    "norms of groups": lambda: [
        conv(3, 24, 3, 2),
        nn.GroupNorm(1, 24),
        conv(24, 24, 3, groups=24, act=nn.ReLU),
        nn.GroupNorm(1, 24),
        conv(24, 40, 3, groups=8),
        nn.GroupNorm(5, 40),
        conv(40, 24, 1),
    ],
    "norms of many groups": lambda: [
        conv(3, 96, 3, 2),
        nn.GroupNorm(32, 96),
        nn.SiLU(),
        conv(96, 96, 3, groups=96),
        nn.GroupNorm(4, 96, affine=False),
        nn.ReLU(),
        Residual(conv(96, 96, 3), nn.GroupNorm(32, 96)),
        nn.GroupNorm(1, 96),
        conv(96, 44, 1),
        nn.InstanceNorm2d(44, affine=True),
        nn.LeakyReLU(0.1),
        conv(44, 33, 3),
        nn.InstanceNorm2d(33),
        conv(33, 24, 3, groups=3),
        nn.GroupNorm(8, 24),
    ],
    "weighed": lambda: [conv(3, 24, 3, 2, act=nn.ReLU), Weighed(24), Weighed(24)],
    "scaled": lambda: [conv(3, 24, 3, 2, act=nn.ReLU), Scaled(24)],
    "transposed": lambda: [conv(3, 20, 3, 2, act=nn.ReLU), conv(20, 20, 3, groups=20), Up(20)],
    "few outputs": lambda: [
        conv(3, 20, 3, 2, act=nn.ReLU),
        conv(20, 20, 3, groups=20),
        nn.PReLU(20),
        nn.ConvTranspose2d(20, 3, 4, 2, 1),
        nn.PReLU(),
    ],
    "enlarged": lambda: [
        conv(3, 24, 3, 2, act=nn.ReLU),
        conv(24, 24, 3, groups=24),
        conv(24, 21, 1),
        nn.Upsample(size=(37, 45), mode="bilinear"),
    ],
    "dilations": lambda: [
        conv(3, 32, 3, 2, act=nn.ReLU),
        nn.Conv2d(32, 40, 3, padding=24, dilation=24),
        nn.LeakyReLU(0.1),
        nn.Conv2d(40, 24, 3, padding=7, dilation=7),
        nn.LeakyReLU(-0.2),
        nn.MaxPool2d(5, 1, 2),
        nn.AvgPool2d(3, 1, 1, count_include_pad=False),
    ],
    "alone": lambda: [
        nn.Conv2d(3, 24, 3, 2, 1),
        nn.Flatten(),
        nn.Unflatten(1, (24, 19, 23)),
        nn.Conv2d(24, 36, 3, 2, 1),
        nn.Flatten(),
        nn.Unflatten(1, (36, 10, 12)),
        nn.Conv2d(36, 72, 3, 1, 1, groups=6),
    ],
    "pyramid": lambda: [conv(3, 40, 3, 2, act=nn.ReLU), conv(40, 40, 3, groups=40), Pyramid(40)],
    "one column": lambda: [
        conv(3, 24, 3, 2, act=nn.ReLU),
        conv(24, 24, 3, groups=24),
        nn.AvgPool2d((1, 23)),
        nn.Conv2d(24, 48, 1, (1, 2), groups=3),
        nn.ReLU(),
        nn.Conv2d(48, 24, 1),
    ],
    "norms behind": lambda: [
        conv(3, 24, 3, 2),
        behind(nn.Conv2d(24, 24, 5, padding=2, groups=24), nn.ReLU(), c=24),
        nn.Conv2d(24, 40, 1),
        nn.SiLU(),
        nn.BatchNorm2d(40),
        behind(nn.Conv2d(40, 40, 3, padding=1), nn.ReLU6(), c=40),
        behind(nn.Conv2d(40, 40, 3, padding=1, groups=10), nn.LeakyReLU(0.2), c=40),
        behind(nn.Conv2d(40, 40, (1, 9), padding=(0, 4), groups=40), nn.ReLU(), c=40),
        nn.Conv2d(40, 20, 3, 2, 13),
        nn.ReLU(),
        nn.BatchNorm2d(20, affine=False),
    ],
    "added behind": lambda: [conv(3, 36, 3, 2, act=nn.ReLU), AddsBehind(36), AddsBehind(36)],
    "permuted pools": lambda: [nn.ReLU(), PermutedPools()],
    "dense": lambda: [
        conv(3, 64, 3, act=nn.ReLU),
        conv(64, 72, 3, act=nn.SiLU),
        Residual(conv(72, 72, 3)),
        conv(72, 70, 1, act=nn.ReLU),
        conv(70, 32, 3, 2, groups=2),
    ],
}


def randomize(net):
    for m in net.modules():
        if isinstance(m, nn.GroupNorm | nn.InstanceNorm2d) and m.affine:
            m.weight.data.uniform_(0.5, 1.5), m.bias.data.normal_(0, 0.2)
        if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.2), m.running_var.uniform_(0.5, 2)
            if m.affine:
                m.weight.data.uniform_(0.5, 1.5), m.bias.data.normal_(0, 0.2)


RUN = """
import sys, numpy as np
sys.path.insert(0, sys.argv[1])
from model import Model
m = Model(sys.argv[2]); x = np.load(sys.argv[3]); outs = []
for threads in (1, 3):
    m.set_threads(threads)
    outs.append([np.array(o) for o in m(x)])
assert all(np.array_equal(a, b) for a, b in zip(*outs)), "the bits depend on the threads"
np.save(sys.argv[4], outs[0][0])
"""


def run_library(folder, **environment):
    """Writes y.npy, what m.so computes of x.npy; the instruction set is chosen once a process."""
    forks.of("numpy").run(
        RUN, ROOT / "samples" / "native", folder / "m.so", folder / "x.npy", folder / "y.npy", **environment
    )


def check(net, x, tmp_path, merged=False, scaled=0):
    with torch.no_grad():
        want = net.double()(x.double()).numpy()
        net.float()
        torch.export.save(torch.export.export(net, (x,)), tmp_path / "m.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    for more in ([], ["--no-algebra"]):
        done = subprocess.run(
            [SLIPWAY, "convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", *more], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert ("merged into their sums" in done.stderr) == (merged and not more), done.stderr
        assert (f"{scaled} factors, summands and norms of channels" in done.stderr) == (scaled > 0 and not more), (
            done.stderr
        )
        for isa in PRESENT:
            run_library(tmp_path, SLIPWAY_ISA=isa)
            error = np.abs(np.load(tmp_path / "y.npy") - want).max() / np.abs(want).max()
            assert error < 1e-5, (isa, more, error)


@pytest.mark.parametrize("name, batch", [(name, 2) for name in NETS] + [("joined again", 1), ("dense", 1)])
def test_native(name, batch, tmp_path):
    torch.manual_seed(len(name))
    net = nn.Sequential(*NETS[name]()).eval()
    randomize(net)
    check(
        net,
        torch.randn(batch, 3, 37, 45),
        tmp_path,
        merged=name in ("branches", "dense", "joined"),
        scaled=4 if name == "scaled" else 0,
    )


def test_depthwise_blocks(tmp_path):
    """Inverted residuals, paddings at one side and separable convolutions whose images between are large: steps that
    never have them whole."""
    torch.manual_seed(1)
    net = nn.Sequential(
        conv(3, 12, 3, act=nn.ReLU),
        Residual(conv(12, 64, 1, act=nn.ReLU6), conv(64, 64, 3, groups=64, act=nn.ReLU6), conv(64, 12, 1)),
        conv(12, 56, 1, act=nn.SiLU), nn.ZeroPad2d((0, 1, 0, 1)), conv(56, 56, 3, 2, 56, act=nn.Hardswish, padding=0),
        conv(56, 40, 1),
        nn.Upsample(scale_factor=2), conv(40, 40, 5, groups=40), conv(40, 72, 1, act=nn.ReLU), conv(72, 72, 7, 2, 72),
    ).eval()  # fmt: skip
    randomize(net)
    check(net, torch.randn(2, 3, 70, 82), tmp_path)
    done = subprocess.run(
        [SLIPWAY, "inspect", "--kernels", tmp_path / "m.so"], check=True, capture_output=True, text=True
    )
    assert done.stdout.count("interleaved with the pointwise ones") == 3, done.stdout


def test_sums_of_branches_stay_without_algebra(tmp_path):
    net = nn.Sequential(*NETS["weighed"]()).eval()
    torch.export.save(torch.export.export(net, (torch.randn(2, 3, 37, 45),)), tmp_path / "m.pt2")
    for more in ([], ["--no-algebra"]):
        subprocess.run([SLIPWAY, "convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so", *more], check=True)
        done = subprocess.run(
            [SLIPWAY, "inspect", "--ops", tmp_path / "m.so"], check=True, capture_output=True, text=True
        )
        assert ("aten.sum.dim_IntList" in done.stdout) == bool(more), done.stdout


@pytest.mark.filterwarnings("ignore")
def test_norms_are_folded_where_weights_need_no_names(tmp_path):
    """Libraries have their convolutions' batch norms in the weights; callers of packages set these by name."""

    def made():
        net = nn.Sequential(conv(3, 24, 3), conv(24, 40, 1, act=nn.ReLU6), conv(40, 40, 3, groups=40)).eval()
        randomize(net)
        return net

    torch.manual_seed(3)
    x, net, other = torch.randn(2, 3, 37, 45), made(), made()
    check(net, x, tmp_path)
    for to, folded in ((("-o", tmp_path / "m.so"), True), (("--to", "native-pt2", "-o", tmp_path / "n.pt2"), False)):
        done = subprocess.run([SLIPWAY, "convert", tmp_path / "m.pt2", *to], check=True, capture_output=True, text=True)
        assert ("3 batch norms are folded" in done.stderr) == folded, done.stderr
    loaded = torch._inductor.aoti_load_package(str(tmp_path / "n.pt2"))
    torch.testing.assert_close(loaded(x), net(x), rtol=1e-4, atol=1e-5)
    state = {name: value for name, value in other.state_dict().items() if not name.endswith("num_batches_tracked")}
    loaded.load_constants(state, check_full_update=True)
    torch.testing.assert_close(loaded(x), other(x), rtol=1e-4, atol=1e-5)


class Signals(nn.Module):
    """As audio encoders have them: long rows, between borders and not, groups with long kernels, and a weight that is
    normalized on the way, behind which the program goes on with the places in front."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 48, 10, 5)
        self.rows = nn.Sequential(
            nn.Conv1d(48, 192, 3, padding=1),
            nn.GELU(),
            nn.Conv1d(192, 160, 3, 2, bias=False),
            nn.BatchNorm1d(160),
            nn.SiLU(),
            nn.Conv1d(160, 96, 5, padding=4, dilation=2),
            nn.ReLU(),
        )
        self.depth = nn.Sequential(
            nn.Conv1d(96, 96, 7, padding=3, groups=96), nn.Conv1d(96, 96, 1), nn.MaxPool1d(2), nn.Hardswish()
        )
        self.place = nn.utils.parametrizations.weight_norm(nn.Conv1d(96, 96, 16, padding=8, groups=4), dim=2)
        self.out = nn.Linear(96, 24)

    def forward(self, x):
        y = self.depth(self.rows(self.first(x))).transpose(1, 2)
        y = y + nn.functional.gelu(self.place(y.transpose(1, 2))[:, :, :-1]).transpose(1, 2)
        return self.out(y)


@pytest.mark.parametrize("batch", [1, 2])
def test_signals(batch, tmp_path):
    torch.manual_seed(batch)
    net = Signals().eval()
    randomize(net)
    check(net, torch.randn(batch, 1, 9001), tmp_path)


def test_sizes_stay_dynamic(tmp_path):
    net = nn.Sequential(*NETS["inverted residuals"]()).eval()
    randomize(net)
    x = torch.randn(2, 3, 32, 32)
    dims = {
        0: torch.export.Dim("n", min=1, max=8),
        2: torch.export.Dim("h", min=8, max=128),
        3: torch.export.Dim("w", min=8, max=128),
    }
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=(dims,)), tmp_path / "m.pt2")
    done = subprocess.run(
        [SLIPWAY, "convert", tmp_path / "m.pt2", "-o", tmp_path / "m.so"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for size in ((1, 3, 8, 9), (3, 3, 31, 50)):
        x = torch.randn(size)
        np.save(tmp_path / "x.npy", x.numpy())
        run_library(tmp_path)
        with torch.no_grad():
            want = net.double()(x.double()).numpy()
            net.float()
        assert np.abs(np.load(tmp_path / "y.npy") - want).max() < 1e-5 * np.abs(want).max()
