#!/usr/bin/env python3
"""Converts .onnx files to ONNX again and compares the two: how many nodes, whose names, the same results?

    judge_onnx_round_trip.py FILE.onnx... [--slipway FILE] [--most 1.05] [--operators]
                             [--dim NAME=SIZE]... [--shape INPUT=N,N,…]...

A line for each file: nodes before and after with those of nested graphs (Constant nodes are not counted, which become
initializers), their ratio, the share of the new nodes' results and of the new initializers that are called as in the
file, and what ONNX Runtime gives for both on random inputs. Dims that a model leaves open are as --dim and --shape say,
else of the first size with which ONNX Runtime runs it. --operators tells which operators became more and fewer. Then
the geometric mean of the ratios; exit code 1 where one is above --most, where inputs or outputs have other names or
results differ, and where a file is not converted for another cause than an operator that is not read.
"""

import argparse
import collections
import math
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from bench_onnx_files import FIXED, difference, random_input

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = (32, 1, 64, 16, 4, 320, 1024, 16000)  # that open dims are tried with, the first one of an input as 1, too


def graphs(graph):
    yield graph
    for node in graph.node:
        for a in node.attribute:
            for g in [a.g] * a.HasField("g") + list(a.graphs):
                yield from graphs(g)


class Model:
    def __init__(self, file):
        model = onnx.load(file, load_external_data=False)
        every = list(graphs(model.graph))
        nodes = [n for g in every for n in g.node if n.op_type != "Constant"]
        self.operators = collections.Counter(n.op_type for n in nodes)
        self.results = {name for n in nodes for name in n.output if name}
        self.constants = {i.name for g in every for i in g.initializer}
        self.constants.update(n.output[0] for g in every for n in g.node if n.op_type == "Constant")
        self.inputs = [i.name for i in model.graph.input if i.name not in self.constants]
        self.outputs = [o.name for o in model.graph.output]


def session(file):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def is_index(name, x):
    """Whether an input may be indices, which a table may be too small for."""
    return x.dtype.kind in "iu" and "len" not in name and name not in FIXED


def feeds(inputs, dims, shapes):
    """Inputs of one size after the other."""
    for size in SIZES:
        for batch in sorted({1, size}):
            sizes = {}
            for i in inputs:
                for k, d in enumerate(i.shape):
                    if not isinstance(d, int):
                        sizes.setdefault(str(d), size if k > 0 else batch)
            rng = numpy.random.default_rng(0)
            feed = {i.name: random_input(i, sizes | dims, shapes, rng) for i in inputs}
            yield feed
            if any(is_index(name, x) for name, x in feed.items()):
                yield {name: x % 4 if is_index(name, x) else x for name, x in feed.items()}


def last(error):
    return str(error).strip().splitlines()[-1][:120]


def compare(before, after, dims, shapes, skip, say):
    """Says each number of inputs before it takes them, then what differs, "" for nothing."""
    old, new = session(before), session(after)
    for number, feed in enumerate(feeds(old.get_inputs(), dims, shapes)):
        if number < skip:
            continue
        say(number)
        try:
            wanted = old.run(None, feed)
        except Exception:
            continue
        try:
            got = new.run([o.name for o in old.get_outputs()], feed)
        except Exception as e:
            return say(f"does not run: {last(e)}")
        return say(difference({f"output.{i}": x for i, x in enumerate(got)}, wanted) or "")


def compared(before, after, dims, shapes):
    """What differs in results, "" for nothing; None where ONNX Runtime does not run the file. In processes of their
    own: models that are run with sizes that they are not for may end theirs."""
    skip = 0
    while True:
        here, there = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(
            target=compare, args=(before, after, dims, shapes, skip, there.send)
        )
        child.start()
        there.close()
        number, result = skip - 1, None
        try:
            while result is None:
                said = here.recv()
                number, result = (said, None) if isinstance(said, int) else (number, said)
        except EOFError:
            pass
        child.join()
        if result is not None or child.exitcode == 0 or number < skip:
            return result
        skip = number + 1


def judge(file, options, dims, shapes):
    """The ratio (None: not converted), a line, and whether it is good."""
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "again.onnx"
        made = subprocess.run([options.slipway, "convert", file, "-o", out, "-q"], capture_output=True, text=True)
        if made.returncode != 0:
            line = (made.stderr.strip().splitlines() or ["said nothing"])[0][:150]
            return None, f"exit code {made.returncode}: {line}", made.returncode == 4
        before, after = Model(file), Model(out)
        counts = sum(before.operators.values()), sum(after.operators.values())
        ratio = counts[1] / max(counts[0], 1)

        def kept(names, of):
            return f"{len(names & of) / max(len(names), 1):4.2f}"

        signature = before.inputs == after.inputs and before.outputs == after.outputs
        differs = compared(file, out, dims, shapes)
        results = "not run" if differs is None else differs or "same"
        line = (
            f"{counts[0]:5d} {counts[1]:5d}  {ratio:5.2f}  {kept(after.results, before.results)}"
            f"  {kept(after.constants, before.constants)}  {results}"
        )
        if not signature:
            line += f"; called {before.inputs} -> {before.outputs} before, {after.inputs} -> {after.outputs} after"
        if options.operators:
            change = {op: after.operators[op] - before.operators[op] for op in before.operators | after.operators}
            line += "  " + " ".join(f"{op}{by:+d}" for op, by in sorted(change.items(), key=lambda x: -x[1]) if by)
        return ratio, line, ratio <= options.most and signature and not differs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--slipway", default=os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway")))
    parser.add_argument("--most", type=float, default=1.05)
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--shape", action="append", default=[])
    options = parser.parse_args()
    dims = {k: int(v) for k, v in (d.split("=") for d in options.dim)}
    shapes = {k: [int(n) for n in v.split(",")] for k, v in (s.split("=") for s in options.shape)}
    width = max(len(f.stem) for f in options.files)
    print(f"{'':{width}}  before after  ratio results' and constants' names, outputs")
    ratios, bad = [], 0
    for file in options.files:
        ratio, line, good = judge(file, options, dims, shapes)
        bad += not good
        if ratio is not None:
            ratios.append(max(ratio, 1e-9))
        print(f"{file.stem:{width}}  {line}{'' if good else '  !'}", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        above = sum(r > options.most for r in ratios)
        print(f"geometric mean {mean:.3f} of {len(ratios)}, {above} above {options.most}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
