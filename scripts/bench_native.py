#!/usr/bin/env python3
"""Native libraries beside torch eager and ONNX Runtime, all on one thread: whole models, runs interleaved, least CPU time of each.

    python scripts/bench_native.py --slipway build/slipway [--minilm model.safetensors] [--seconds 3]

One line a case: milliseconds of each, and how many times as long torch (onnxruntime) takes; `err` is the largest difference
from torch. Ratios of interleaved runs hold on a shared machine, milliseconds do not.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "samples"), str(ROOT / "samples" / "native")]

import numpy as np
import torch
from model import Model
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A decoder's layer as in Llama: RMS norm, rotary positions, shared heads, gated MLP."""

    def __init__(self, width=256, heads=8, kept=2, inner=768):
        super().__init__()
        self.heads, self.kept, self.each = heads, kept, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kept * self.each, bias=False) for _ in range(2))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, inner), (width, inner), (inner, width)))
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        y = self.norm1(x)

        def split(t, n):
            return t.view(batch, length, n, self.each).transpose(1, 2)

        def turn(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin

        q, k, v = turn(split(self.q(y), self.heads)), turn(split(self.k(y), self.kept)), split(self.v(y), self.kept)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, length, width=256, words=1000):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(words, width), nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        angles = torch.outer(torch.arange(length).float(), 10000 ** -(torch.arange(16) / 16))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def forward(self, ids):
        x = self.words(ids)
        for b in self.blocks:
            x = b(x, self.cos, self.sin)
        return self.head(self.norm(x))


def conv_net():
    def conv(*a, **k):
        return nn.Conv2d(*a, **k)

    return nn.Sequential(
        conv(3, 32, 3, 2, 1), nn.ReLU(), conv(32, 32, 3, 1, 1, groups=32), nn.ReLU(), conv(32, 64, 1), nn.ReLU(),
        conv(64, 128, 3, 2, 1), nn.ReLU(), conv(128, 128, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100))


def cases(minilm):
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10))
    for rows in (1, 8, 128):
        yield f"mlp ({rows})", mlp, (torch.randn(rows, 256),), None
    for length in (1, 128):
        yield f"decoder (1,{length})", Decoder(length), (torch.randint(0, 1000, (1, length)),), None
    yield "conv net (1,3,112,112)", conv_net(), (torch.randn(1, 3, 112, 112),), None
    if minilm:
        from make_minilm import MiniLM
        from safetensors.torch import load_file

        net = MiniLM()
        net.load_state_dict(load_file(minilm), strict=False)
        for batch, length in ((1, 16), (1, 128), (8, 128)):
            ids = torch.randint(0, 30000, (batch, length))
            yield f"minilm ({batch},{length})", net, (ids, torch.ones_like(ids)), ROOT / "samples" / "minilm.pt2"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--minilm", help="model.safetensors of all-MiniLM-L6-v2")
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    try:
        import onnxruntime
    except ImportError:
        onnxruntime = None
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for number, (name, net, inputs, archive) in enumerate(cases(args.minilm)):
            net = net.eval()
            base = pathlib.Path(folder) / f"m{number}"
            more = ["--weights", args.minilm] if archive else []
            if not archive:
                archive = base.with_suffix(".pt2")
                torch.export.save(torch.export.export(net, inputs), archive)
            for suffix in [".so", ".onnx"] if onnxruntime else [".so"]:
                subprocess.run([args.slipway, "convert", str(archive), *more, "-o", str(base.with_suffix(suffix))], check=True, capture_output=True)
            native, arrays = Model(str(base.with_suffix(".so"))), [t.numpy() for t in inputs]
            runs = {"torch": lambda: net(*inputs), "slipway": lambda: native(*arrays)}
            if onnxruntime:
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = options.inter_op_num_threads = 1
                session = onnxruntime.InferenceSession(str(base.with_suffix(".onnx")), options, providers=["CPUExecutionProvider"])
                feed = {i.name: a for i, a in zip(session.get_inputs(), arrays)}
                runs["ort"] = lambda: session.run(None, feed)
            want = net(*inputs)
            want = next(iter(want.values())) if isinstance(want, dict) else want
            error = float(np.abs(native(*arrays)[0] - want.numpy()).max())
            best = dict.fromkeys(runs, float("inf"))
            end = time.monotonic() + args.seconds
            while time.monotonic() < end:
                for who, run in runs.items():
                    begin = time.thread_time()
                    run()
                    best[who] = min(best[who], time.thread_time() - begin)
            times = "  ".join(f"{who} {t * 1e3:8.3f} ms" for who, t in best.items())
            ratios = "  ".join(f"{who}/slipway {best[who] / best['slipway']:.2f}" for who in best if who != "slipway")
            print(f"{name:24} {times}  {ratios}  err {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
