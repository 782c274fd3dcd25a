#!/usr/bin/env python3
"""slipway's ONNX files beside those of torch.onnx of the same programs: what onnxruntime takes to run them, and what
its tools make of them (torch, onnxscript, onnxruntime; timm, transformers for all cases; onnxslim for its column).

    scripts/bench_onnx.py                                  # CPU time of a run on one thread
    scripts/bench_onnx.py --tools                          # what quantize_dynamic, the transformers optimizer and
    onnxslim find scripts/bench_onnx.py --match 'U-Net|timm.*' --kept FOLDER

Each file is run in a process of its own. The two of a case live side by side and take turns, a block of runs each, so
that what else the machine does hits both; where a process's memory lies moves its times by some percent, so that there
are several pairs, one after the other. A ratio is the median over the pairs of that of the medians of the blocks' CPU
times, ours over torch's: below 1 we are faster. A program is taken from its archive by both. Cases are those of
bench_native.py; --kept keeps archives and files, and takes those that are there.
"""

import argparse
import collections
import json
import logging
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import bench_build

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts")]

import numpy as np

CASES = r"""MLP \(64\)|decoder 2 layers, (prefill|decode).*|ResNet-18 224|MobileNetV3-L 224|ViT-S 224|U-Net 128
            |text encoder.*|audio encoder.*|timm (convnext_atto|efficientnet_b0|mobilenetv3_large_100)"""
FUSED = """
    Attention MultiHeadAttention LayerNormalization SkipLayerNormalization EmbedLayerNormalization
    Gelu BiasGelu FastGelu
""".split()


def prepare(args, name, make, base):
    """Files of one case: the program's archive, inputs and torch's result, our file and torch's."""
    import torch

    archive = base.with_suffix(".pt2")
    if not archive.exists() or not base.with_suffix(".npz").exists():
        torch.manual_seed(0)
        net, inputs = make()
        net = net.eval()
        with torch.no_grad():
            want = net(*inputs)
            while not isinstance(want, torch.Tensor):
                want = next(iter(want.values())) if isinstance(want, dict) else want[0]
            np.savez(base.with_suffix(".npz"), *[t.numpy() for t in inputs], want=want.numpy())
            torch.export.save(torch.export.export(net, inputs), archive)
    theirs = base.with_suffix(".torch.onnx")
    if not theirs.exists():
        torch.onnx.export(torch.export.load(archive), f=str(theirs), dynamo=True, verbose=False, external_data=False)
    ours = base.with_suffix(".onnx")
    subprocess.run(
        [args.slipway, "convert", str(archive), "-o", str(ours), *args.flags], check=True, capture_output=True
    )
    return ours, theirs


def work(path, data):
    """The process of one file: a line "seconds error" for each line it is given, which says how many runs to make."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    arrays = np.load(data)
    feed = {i.name: arrays[f"arr_{k}"] for k, i in enumerate(session.get_inputs())}
    want = arrays["want"]
    error = float(np.abs(session.run(None, feed)[0] - want).max() / max(1e-30, np.abs(want).max()))
    for line in sys.stdin:
        begin = time.process_time()
        for _ in range(int(line)):
            session.run(None, feed)
        print((time.process_time() - begin) / int(line), error, flush=True)


class Worker:
    def __init__(self, path, data):
        command = [sys.executable, __file__, "--worker", str(path), str(data)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        seconds, self.error = map(float, self.process.stdout.readline().split())
        return seconds

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure_pair(seconds, ours, theirs, data):
    """The medians of one process for each, and the errors."""
    both = [Worker(p, data) for p in (ours, theirs)]
    count = max(1, round(0.03 / max(w.run(3) for w in both)))
    blocks = [[], []]
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(blocks[0]) < 5:
        for k in (0, 1, 1, 0):
            blocks[k].append(both[k].run(count))
    for w in both:
        w.close()
    return [statistics.median(b) for b in blocks], [w.error for w in both]


def measure(args, ours, theirs, data):
    """The times of both, their ratio and the errors."""
    pairs = [measure_pair(args.seconds / args.pairs, ours, theirs, data) for _ in range(args.pairs)]
    times = [statistics.median(t[k] for t, _ in pairs) for k in (0, 1)]
    return times, statistics.median(t[0] / t[1] for t, _ in pairs), pairs[0][1]


def operators(model):
    found = collections.Counter(n.op_type for n in model.graph.node)
    for f in model.functions:
        found.update(n.op_type for n in f.node)
    return found


def tools(path, folder):
    """Counts of what the tools find in one file."""
    import onnx
    import onnxruntime.quantization as quantization
    from onnxruntime.transformers import optimizer

    found = {"nodes": sum(operators(onnx.load(path)).values()), "size": pathlib.Path(path).stat().st_size}
    out = str(pathlib.Path(folder) / "out.onnx")
    try:
        quantization.quantize_dynamic(str(path), out, weight_type=quantization.QuantType.QInt8)
        now = operators(onnx.load(out))
        found["quantized"] = now["MatMulInteger"] + now["ConvInteger"]
        found["quantized size"] = pathlib.Path(out).stat().st_size
    except Exception as error:  # it is the answer
        found["quantized"] = str(error).splitlines()[0]
    optimized = optimizer.optimize_model(str(path), model_type="bert", num_heads=0, hidden_size=0, opt_level=0)
    now = operators(optimized.model)
    found.update({op: now[op] for op in FUSED if now[op]})
    try:
        import onnxslim

        before = operators(onnx.load(path))
        after = operators(onnxslim.slim(onnx.load(path)))
        found["slim removes"] = {op: n for op, n in (before - after).items() if op != "Constant"}
    except ImportError:
        pass
    return found


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--match", default=re.sub(r"\n\s*", "", CASES), help="regular expression of cases")
    parser.add_argument(
        "--kept", metavar="FOLDER", help="keeps archives and files there, and takes those that are there"
    )
    parser.add_argument("--seconds", type=float, default=10, help="for each case")
    parser.add_argument("--pairs", type=int, default=5, help="of processes for each case")
    parser.add_argument("--tools", action="store_true", help="what tools find instead of times")
    parser.add_argument("--prepare", action="store_true", help="makes the files only")
    parser.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="of slipway convert; last")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    bench_build.flags(parser)
    args = parser.parse_args()
    bench_build.announce(args.slipway, args.record)
    if args.worker:
        return work(*args.worker)
    from bench_models import cases
    from bench_native import timm_cases, transformers_cases

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (cases() | timm_cases() | transformers_cases()).items():
            if not re.fullmatch(args.match, name):
                continue
            base = pathlib.Path(args.kept or folder) / re.sub("[^A-Za-z0-9]+", "_", name).strip("_")
            base.parent.mkdir(parents=True, exist_ok=True)
            ours, theirs = prepare(args, name, make, base)
            if args.prepare:
                continue
            if args.tools:
                for who, path in (("slipway", ours), ("torch", theirs)):
                    print(f"{name:34} {who:8} {json.dumps(tools(path, folder))}", flush=True)
                continue
            times, ratio, errors = measure(args, ours, theirs, base.with_suffix(".npz"))
            rows.append(ratio)
            bench_build.record(name, slipway_s=times[0], torch_s=times[1])
            print(
                f"{name:34} slipway {times[0] * 1e3:8.3f}  torch {times[1] * 1e3:8.3f} ms  ratio {rows[-1]:.3f}  "
                f"errors {errors[0]:.0e} {errors[1]:.0e}",
                flush=True,
            )
    if rows:
        print(
            f"geometric mean {math.exp(sum(map(math.log, rows)) / len(rows)):.3f}, most {max(rows):.3f}, {len(rows)} "
            f"cases"
        )


if __name__ == "__main__":
    main()
