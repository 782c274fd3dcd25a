#!/usr/bin/env python3
"""Runs .onnx files that others made as libraries of slipway's and by ONNX Runtime, one thread: are results the same,
and how do times compare?

    bench_onnx_files.py FILE.onnx... [--slipway FILE] [--dim NAME=SIZE]... [--shape INPUT=N,N,…]...
                        [--repeat N] [--no-times]

Inputs are random; dims that a model leaves open are 1, or as --dim and --shape say. A line for each file: right or what
differs, milliseconds of both (the least of N runs in turns) and the ratio. Exit code 1 where one differs.
"""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy
import onnxruntime
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPES = {"float": "float32", "double": "float64"}  # others are called as NumPy's
FIXED = {"sr": 16000}  # inputs whose values mean something


def random_input(i, dims, shapes, rng):
    shape = shapes.get(i.name) or [d if isinstance(d, int) else dims.get(str(d), 1) for d in i.shape]
    kind = i.type.removeprefix("tensor(").removesuffix(")")
    dtype = TYPES.get(kind, kind)
    if i.name in FIXED:
        return numpy.full(shape, FIXED[i.name], dtype)
    if re.search("len", i.name) and dtype.startswith("int"):
        return numpy.full(shape, max(dims.values(), default=1), dtype)
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def difference(got, wanted):
    for i, w in enumerate(wanted):
        g = got.get(f"output.{i}")
        if g is None or g.shape != w.shape or g.dtype != w.dtype:
            return f"output {i}: {None if g is None else (g.dtype, g.shape)} instead of {(w.dtype, w.shape)}"
        if w.dtype.kind != "f":
            if not numpy.array_equal(g, w):
                return f"output {i}: {(g != w).sum()} of {w.size} integers differ"
            continue
        rms = math.sqrt(float(numpy.mean(numpy.square(w, dtype=numpy.float64)))) if w.size else 1.0
        worst = float(numpy.max(numpy.abs(g.astype(numpy.float64) - w))) if w.size else 0.0
        if not numpy.allclose(g, w, 1e-3, 1e-3 * rms + 1e-9, equal_nan=True):
            return f"output {i}: differs by {worst:.3g}, rms {rms:.3g}"
    return None


def milliseconds(report):
    """The least of the runs in the report of `slipway run --repeat --json`."""
    return min(json.loads(report)["run_s"]) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--slipway", default=os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway")))
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--no-times", action="store_true")
    options = parser.parse_args()
    dims = {k: int(v) for k, v in (d.split("=") for d in options.dim)}
    shapes = {k: [int(n) for n in v.split(",")] for k, v in (s.split("=") for s in options.shape)}
    ratios, bad = [], 0

    def slipway(*arguments):
        return subprocess.run([options.slipway, *map(str, arguments)], capture_output=True, text=True)

    for file in options.files:
        rng = numpy.random.default_rng(0)
        session_options = onnxruntime.SessionOptions()
        session_options.intra_op_num_threads = 1
        session_options.log_severity_level = 4
        with tempfile.TemporaryDirectory() as work:
            made = slipway("convert", file, "-o", f"{work}/m.so", "-q")
            if made.returncode != 0:
                print(f"{file.stem:45} refused: {made.stderr.strip().splitlines()[0][:150]}", flush=True)
                bad += 1
                continue
            session = onnxruntime.InferenceSession(str(file), session_options, providers=["CPUExecutionProvider"])
            inputs = [random_input(i, dims, shapes, rng) for i in session.get_inputs()]
            feed = {i.name: x for i, x in zip(session.get_inputs(), inputs)}
            try:
                wanted = session.run(None, feed)
            except Exception as e:
                print(f"{file.stem:45} skipped, ONNX Runtime: {str(e).splitlines()[0][:120]}", flush=True)
                continue
            save_file({f"input.{i}": x for i, x in enumerate(inputs)}, f"{work}/in.st")
            run = ["run", f"{work}/m.so", "--inputs", f"{work}/in.st", "--outputs", f"{work}/out.st"]
            ran = slipway(*run)
            if ran.returncode != 0:
                print(f"{file.stem:45} run failed: {ran.stderr.strip().splitlines()[0][:150]}", flush=True)
                bad += 1
                continue
            why = difference(load_file(f"{work}/out.st"), wanted)
            bad += why is not None
            line = f"{file.stem:45} {why or 'right'}"
            if not options.no_times:
                ours = theirs = math.inf
                for _ in range(3):  # in turns
                    ran = slipway(*run, "--repeat", options.repeat, "--threads", 1, "--json")
                    ours = min(ours, milliseconds(ran.stdout))
                    for _ in range(options.repeat):
                        start = time.perf_counter()
                        session.run(None, feed)
                        theirs = min(theirs, (time.perf_counter() - start) * 1e3)
                ratios.append(theirs / ours)
                line += f"  {ours:.3f} ms beside {theirs:.3f}: {theirs / ours:.2f}"
            print(line, flush=True)
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} of {len(ratios)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
