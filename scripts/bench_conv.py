#!/usr/bin/env python3
"""Single convolutions, pools and resizes of native libraries beside torch eager and ONNX Runtime: runs interleaved, least CPU time.

    python scripts/bench_conv.py --slipway build/slipway [--seconds 1] [--match REGEX] [--threads 1]

One line a case: microseconds of each, GFLOP/s of slipway counted as a direct convolution does, and how many times as long torch
(onnxruntime) takes; `err` is the largest difference from torch relative to the largest number. With more than one thread, wall
time is measured in place of CPU time.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "samples" / "native")]

import torch
from model import Model
from torch import nn


def conv(c, o, k, size, stride=1, groups=1, batch=1, **more):
    return nn.Conv2d(c, o, k, stride, k // 2, groups=groups, **more), (batch, c, size, size)


def act(layer, *after):
    return nn.Sequential(layer[0], *after), layer[1]


class Residual(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.conv, self.norm = layer, nn.BatchNorm2d(layer.out_channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x)


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
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--match", default="")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    clock = time.thread_time if args.threads == 1 else time.perf_counter
    try:
        import onnxruntime
    except ImportError:
        onnxruntime = None
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for number, (name, make) in enumerate(CASES.items()):
            if not re.search(args.match, name):
                continue
            net, size = make()
            net = net.eval()
            kind = next((p.dtype for p in net.parameters()), torch.float32)
            x = torch.randn(size).to(kind)
            base = pathlib.Path(folder) / f"m{number}"
            torch.export.save(torch.export.export(net, (x,)), base.with_suffix(".pt2"))
            with_ort = onnxruntime is not None and kind == torch.float32
            for suffix in [".so", ".onnx"] if with_ort else [".so"]:
                subprocess.run([args.slipway, "convert", str(base.with_suffix(".pt2")), "-o", str(base.with_suffix(suffix))], check=True, capture_output=True)
            native = Model(str(base.with_suffix(".so")))
            want = net(x)
            runs = {"torch": lambda: net(x)}
            # numpy has no bfloat16: its bits
            array = x.view(torch.uint16).numpy() if kind == torch.bfloat16 else x.numpy()
            result = torch.empty_like(want, memory_format=torch.contiguous_format)
            native.set_threads(args.threads)
            runs["slipway"] = native.bind([array], [result.view(torch.uint16).numpy() if kind == torch.bfloat16 else result.numpy()])
            if with_ort:
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
                session = onnxruntime.InferenceSession(str(base.with_suffix(".onnx")), options, providers=["CPUExecutionProvider"])
                feed = {session.get_inputs()[0].name: array}
                runs["ort"] = lambda: session.run(None, feed)
            runs["slipway"]()
            error = float((result.double() - want.double()).abs().max() / want.double().abs().max())
            best = dict.fromkeys(runs, float("inf"))
            end = time.monotonic() + args.seconds
            while time.monotonic() < end:
                for who, run in runs.items():
                    begin = clock()
                    run()
                    best[who] = min(best[who], clock() - begin)
            times = "  ".join(f"{who} {t * 1e6:8.1f}" for who, t in best.items())
            ratios = "  ".join(f"{who}/slipway {best[who] / best['slipway']:5.2f}" for who in best if who != "slipway")
            speed = f"{work(net, x, want) / best['slipway'] / 1e9:6.1f} GFLOP/s" if work(net, x, want) else " " * 14
            print(f"{name:22} {times}  {speed}  {ratios}  err {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
