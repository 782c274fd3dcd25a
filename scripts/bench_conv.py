#!/usr/bin/env python3
"""Single convolutions, pools and resizes of native libraries beside torch eager and ONNX Runtime, each library in a
process of its own.

    python scripts/bench_conv.py --slipway build/slipway [--seconds 2] [--match REGEX] [--threads 1]

One line a case: microseconds of each, GFLOP/s of slipway counted as a direct convolution does, and how many times as
long torch (onnxruntime) takes; `err` is the largest difference from torch relative to the largest number. Processes
take turns (bench_process.py), and the least wall time of a run counts.
"""

import argparse
import pathlib
import re
import sys
import tempfile

import bench_build

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts")]

import torch
from bench_models import Residual
from bench_process import Libraries, save
from torch import nn


def conv(c, o, k, size, stride=1, groups=1, batch=1, **more):
    return nn.Conv2d(c, o, k, stride, k // 2, groups=groups, **more), (batch, c, size, size)


def act(layer, *after):
    return nn.Sequential(layer[0], *after), layer[1]


CASES = {
    # ResNet-18
    "7x7s2 3>64 224": lambda: conv(3, 64, 7, 224, 2),
    "3x3 64>64 56": lambda: conv(64, 64, 3, 56),
    "3x3 64>64 56 b8": lambda: conv(64, 64, 3, 56, batch=8),
    "3x3s2 64>128 56": lambda: conv(64, 128, 3, 56, 2),
    "1x1s2 64>128 56": lambda: conv(64, 128, 1, 56, 2),
    "3x3 128>128 28": lambda: conv(128, 128, 3, 28),
    "3x3s2 128>256 28": lambda: conv(128, 256, 3, 28, 2),
    "3x3 256>256 14": lambda: conv(256, 256, 3, 14),
    "3x3s2 256>512 14": lambda: conv(256, 512, 3, 14, 2),
    "3x3 512>512 7": lambda: conv(512, 512, 3, 7),
    "residual 64 56": lambda: (Residual(conv(64, 64, 3, 56)[0]), (1, 64, 56, 56)),
    # MobileNetV3-Large
    "3x3s2 3>16 224": lambda: conv(3, 16, 3, 224, 2),
    "3x3s2 3>16 224 hswish": lambda: act(conv(3, 16, 3, 224, 2), nn.Hardswish()),
    "dw3x3 16 112": lambda: conv(16, 16, 3, 112, groups=16),
    "1x1 16>64 112": lambda: conv(16, 64, 1, 112),
    "1x1 16>64 112 relu": lambda: act(conv(16, 64, 1, 112), nn.ReLU()),
    "dw3x3s2 64 112": lambda: conv(64, 64, 3, 112, 2, 64),
    "1x1 64>24 56": lambda: conv(64, 24, 1, 56),
    "dw3x3 72 56": lambda: conv(72, 72, 3, 56, groups=72),
    "dw3x3 128 56": lambda: conv(128, 128, 3, 56, groups=128),
    "dw5x5s2 72 56": lambda: conv(72, 72, 5, 56, 2, 72),
    "1x1 72>40 28": lambda: conv(72, 40, 1, 28),
    "dw5x5 120 28": lambda: conv(120, 120, 5, 28, groups=120),
    "dw5x5 240 14": lambda: conv(240, 240, 5, 14, groups=240),
    "1x1 80>200 14": lambda: conv(80, 200, 1, 14),
    "1x1 112>672 14": lambda: conv(112, 672, 1, 14),
    "dw5x5s2 672 14": lambda: conv(672, 672, 5, 14, 2, 672),
    "dw5x5 960 7": lambda: conv(960, 960, 5, 7, groups=960),
    "1x1 160>960 7": lambda: conv(160, 960, 1, 7),
    "1x1 960>160 7": lambda: conv(960, 160, 1, 7),
    "1x1 64>256 56": lambda: conv(64, 256, 1, 56),
    # Depthwise ones, groups of few channels
    "dw3x3s2 144 56": lambda: conv(144, 144, 3, 56, 2, 144),
    "dw5x5s2 240 28": lambda: conv(240, 240, 5, 28, 2, 240),
    "dw7x7 96 56": lambda: conv(96, 96, 7, 56, groups=96),
    "dw7x7 384 14": lambda: conv(384, 384, 7, 14, groups=384),
    "dw7x7s2 96 56": lambda: conv(96, 96, 7, 56, 2, 96),
    "g8 3x3 128 28": lambda: conv(128, 128, 3, 28, groups=16),
    "g8 3x3s2 128 28": lambda: conv(128, 128, 3, 28, 2, 16),
    "g16 3x3 256 14": lambda: conv(256, 256, 3, 14, groups=16),
    "g16 3x3s2 256 14": lambda: conv(256, 256, 3, 14, 2, 16),
    # U-Net
    "3x3 1>32 128": lambda: conv(1, 32, 3, 128),
    "3x3 32>32 128": lambda: conv(32, 32, 3, 128),
    "3x3 64>64 64": lambda: conv(64, 64, 3, 64),
    "3x3 256>128 32": lambda: conv(256, 128, 3, 32),
    "1x1 32>2 128": lambda: conv(32, 2, 1, 128),
    "up2x2 64>32 64": lambda: (nn.ConvTranspose2d(64, 32, 2, 2), (1, 64, 64, 64)),
    "up2x2 256>128 16": lambda: (nn.ConvTranspose2d(256, 128, 2, 2), (1, 256, 16, 16)),
    "up4x4s2p1 64>32 32": lambda: (nn.ConvTranspose2d(64, 32, 4, 2, 1), (1, 64, 32, 32)),
    "nearest x2 64 32": lambda: (nn.Upsample(scale_factor=2), (1, 64, 32, 32)),
    "bilinear x2 64 32": lambda: (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 64, 32, 32)),
    # Pools
    "max3x3s2p1 64 112": lambda: (nn.MaxPool2d(3, 2, 1), (1, 64, 112, 112)),
    "max2x2 32 128": lambda: (nn.MaxPool2d(2), (1, 32, 128, 128)),
    "avg2x2 32 128": lambda: (nn.AvgPool2d(2), (1, 32, 128, 128)),
    "avg3x3s1p1 64 56": lambda: (nn.AvgPool2d(3, 1, 1), (1, 64, 56, 56)),
    "global avg 512 7": lambda: (nn.AdaptiveAvgPool2d(1), (1, 512, 7, 7)),
    "global avg 64 56": lambda: (nn.AdaptiveAvgPool2d(1), (1, 64, 56, 56)),
    "batch norm 64 56": lambda: (nn.BatchNorm2d(64), (1, 64, 56, 56)),
    "3x3 64>64 56 bf16": lambda: conv(64, 64, 3, 56, dtype=torch.bfloat16),
    "3x3 64>64 56 f16": lambda: conv(64, 64, 3, 56, dtype=torch.float16),
}


def work(net, x, y):
    """Floating-point operations of a convolution, counted directly."""
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            return 2 * y.numel() * m.weight[0].numel()
        if isinstance(m, nn.ConvTranspose2d):
            return 2 * x.numel() * m.weight[0].numel()
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--seconds", type=float, default=2, help="for each library")
    parser.add_argument("--match", default="")
    parser.add_argument("--threads", type=int, default=1)
    bench_build.flags(parser)
    args = parser.parse_args()
    bench_build.announce(args.slipway, args.record)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, Libraries(["torch", "slipway", "ort"], args.threads) as libraries:
        for number, (name, make) in enumerate(CASES.items()):
            if not re.search(args.match, name):
                continue
            net, size = make()
            kind = next((p.dtype for p in net.parameters()), torch.float32)
            x = torch.randn(size).to(kind)
            base = pathlib.Path(folder) / f"m{number}"
            want = save(base, net.eval(), (x,), args.slipway)
            # onnxruntime has no convolutions of halves on the CPU.
            best, error = libraries.measure(
                base, args.seconds, rounds=6, names=None if kind == torch.float32 else ["torch", "slipway"]
            )
            bench_build.record(name, args.threads, **{f"{who}_s": t for who, t in best.items()})
            times = "  ".join(f"{who} {t * 1e6:8.1f}" for who, t in best.items())
            ratios = "  ".join(f"{who}/slipway {best[who] / best['slipway']:5.2f}" for who in best if who != "slipway")
            speed = f"{work(net, x, want) / best['slipway'] / 1e9:6.1f} GFLOP/s" if work(net, x, want) else " " * 14
            print(f"{name:22} {times}  {speed}  {ratios}  err {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
