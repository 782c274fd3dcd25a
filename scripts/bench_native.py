#!/usr/bin/env python3
"""Native libraries beside torch eager, AOTInductor and ONNX Runtime: whole models, the same threads, runs interleaved.

    python scripts/bench_native.py [--threads 1 2] [--match RE] [--aoti FOLDER] [--minilm model.safetensors] [--seconds 4]

One line a case: least and median wall time of each, and how many times as long the fastest of the others takes; `err` is the
largest difference from torch. --aoti keeps AOTInductor's packages in FOLDER (each takes a compiler about a minute) and is left
out without it. Ratios of interleaved runs hold on a shared machine, milliseconds do not.
"""

import argparse
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "samples"), str(ROOT / "samples" / "native"), str(ROOT / "scripts")]

import numpy as np
import torch
from bench_models import cases
from model import Model


def minilm(path):
    """MiniLM's cases: its real weights and the program that is checked in."""
    from make_minilm import MiniLM
    from safetensors.torch import load_file

    def make(batch, length):
        net = MiniLM()
        net.load_state_dict(load_file(path), strict=False)
        ids = torch.randint(0, 30000, (batch, length))
        return net, (ids, torch.ones_like(ids))

    return {f"MiniLM ({b},{n})": lambda b=b, n=n: make(b, n) for b, n in ((1, 16), (1, 128), (8, 128))}


def package(program, folder, name):
    """AOTInductor's package, compiled for any number of threads unless it is there."""
    path = pathlib.Path(folder) / f"{re.sub('[^A-Za-z0-9]+', '_', name)}.pt2"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with torch._inductor.config.patch({"cpp.dynamic_threads": True}):
            torch._inductor.aoti_compile_and_package(program(), package_path=str(path))
    return torch._inductor.aoti_load_package(str(path))


def flat(x):
    """The first tensor of a result."""
    while not isinstance(x, torch.Tensor):
        x = next(iter(x.values())) if isinstance(x, dict) else x[0]
    return x


def measure(runs, seconds):
    times = {who: [] for who in runs}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times["slipway"]) < 5:
        for who, run in runs.items():
            time.sleep(0.01)  # other libraries' threads go on looking for work for some milliseconds after a run
            for warm in (True, False):  # the first run finds the caches full of another's weights
                begin = time.perf_counter()
                run()
                if not warm or seconds < 1:
                    times[who].append(time.perf_counter() - begin)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--match", default="", help="regular expression of cases")
    parser.add_argument("--aoti", metavar="FOLDER", help="measure AOTInductor too; packages are kept there")
    parser.add_argument("--minilm", help="model.safetensors of all-MiniLM-L6-v2")
    parser.add_argument("--seconds", type=float, default=4, help="for each case")
    args = parser.parse_args()
    import onnxruntime

    cpu = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    print(f"{cpu[0]}, {len(os.sched_getaffinity(0))} processors, torch {torch.__version__}, onnxruntime {onnxruntime.__version__}")
    everything = cases() | (minilm(args.minilm) if args.minilm else {})
    ratios = {n: [] for n in args.threads}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for number, (name, make) in enumerate(everything.items()):
            if not re.search(args.match, name):
                continue
            torch.manual_seed(0)
            net, inputs = make()
            net = net.eval()
            base = pathlib.Path(folder) / f"m{number}"
            archive, more = base.with_suffix(".pt2"), []
            if name.startswith("MiniLM"):
                archive, more = ROOT / "samples" / "minilm.pt2", ["--weights", args.minilm]
            else:
                torch.export.save(torch.export.export(net, inputs), archive)
            for suffix in (".so", ".onnx"):
                subprocess.run([args.slipway, "convert", str(archive), *more, "-o", str(base.with_suffix(suffix))], check=True, capture_output=True)
            native, arrays = Model(str(base.with_suffix(".so"))), [t.numpy() for t in inputs]
            outputs = native(*arrays)
            error = float(np.abs(outputs[0] - flat(net(*inputs)).numpy()).max())
            for threads in args.threads:
                torch.set_num_threads(threads)
                native.set_threads(threads)
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
                # Its threads look for work between runs otherwise, on the others' time.
                options.add_session_config_entry("session.force_spinning_stop", "1")
                session = onnxruntime.InferenceSession(str(base.with_suffix(".onnx")), options, providers=["CPUExecutionProvider"])
                feed = {i.name: a for i, a in zip(session.get_inputs(), arrays)}
                runs = {"slipway": native.bind(arrays, outputs), "torch": lambda: net(*inputs), "ort": lambda: session.run(None, feed)}
                if args.aoti:
                    compiled = package(lambda: torch.export.export(net, inputs), args.aoti, name)
                    runs["aoti"] = lambda: compiled(*inputs)
                times = measure(runs, args.seconds)
                least = {who: min(t) for who, t in times.items()}
                ratio = min(t for who, t in least.items() if who != "slipway") / least["slipway"]
                ratios[threads].append(ratio)
                shown = "  ".join(f"{who} {least[who] * 1e3:8.3f} ({statistics.median(t) * 1e3:8.3f})" for who, t in times.items())
                print(f"{name:33} {threads}T  {shown} ms  best/slipway {ratio:.2f}  err {error:.0e}", flush=True)
                del session
    for threads, r in ratios.items():
        if r:
            print(f"{threads} threads: geometric mean {math.exp(statistics.fmean(map(math.log, r))):.2f}, least {min(r):.2f}, {len(r)} cases")


if __name__ == "__main__":
    main()
