#!/usr/bin/env python3
"""Runs ONNX's own node tests (onnx.backend.test, models with expected outputs) through `slipway convert MODEL.onnx` and
`slipway run` of the library.

    judge_onnx_nodes.py [--slipway FILE] [--only RE] [--show right|wrong|refused|failed]

Prints how many were right, wrong, refused (exit code 4, by operator) and failed. Exit code 1 where one is wrong.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnx.backend.test
import onnx.numpy_helper
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
RTOL, ATOL = 1e-3, 1e-7  # ONNX's own


def tensors(folder, kind):
    """The tensors of a test set in order; None for what is no tensor of a type that NumPy has."""
    out = []
    for i in range(len(list(folder.glob(f"{kind}_*.pb")))):
        message = onnx.TensorProto()
        try:
            message.ParseFromString((folder / f"{kind}_{i}.pb").read_bytes())
            out.append(onnx.numpy_helper.to_array(message))
        except Exception:  # a sequence, an optional, a type of fewer bits
            return None
    return out


def near(got, wanted):
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "fc" or wanted.dtype.name == "bfloat16":
        g, w = got.astype(numpy.complex128), wanted.astype(numpy.complex128)
        finite = numpy.abs(w[numpy.isfinite(w)])
        return numpy.allclose(g, w, RTOL, max(ATOL, 1e-6 * finite.max(initial=0)), equal_nan=True)
    return numpy.array_equal(got, wanted)


def as_onnxruntime(test, inputs, got):
    """Whether ONNX Runtime gives the same: a few tests have data that contradict their operator's definition (integers
    that wrapped where they saturate)."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(test / "model.onnx"), providers=["CPUExecutionProvider"])
        theirs = session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs)})
    except Exception:
        return False
    return all(near(got[f"output.{i}"], t) for i, t in enumerate(theirs))


def judge(slipway, test):
    """What became of a test, and why."""
    with tempfile.TemporaryDirectory() as work:
        library = f"{work}/m.so"
        made = subprocess.run(
            [slipway, "convert", test / "model.onnx", "-o", library, "-q"], capture_output=True, text=True
        )
        if made.returncode != 0:
            return ("refused" if made.returncode == 4 else "failed"), made.stderr.strip().split("\n")[0]
        for folder in sorted(test.glob("test_data_set_*")):
            inputs, wanted = tensors(folder, "input"), tensors(folder, "output")
            if inputs is None or wanted is None:
                return "skipped", "not tensors of NumPy's types"
            try:
                save_file(
                    {f"input.{i}": numpy.require(x, requirements="C") for i, x in enumerate(inputs)}, f"{work}/in.st"
                )
            except Exception as e:
                return "skipped", f"inputs: {e}"
            ran = subprocess.run([slipway, "run", library, "--inputs", f"{work}/in.st", "--outputs", f"{work}/out.st"],
                                 capture_output=True, text=True)  # fmt: skip
            if ran.returncode != 0:
                return ("refused" if ran.returncode == 4 else "failed"), "run: " + ran.stderr.strip().split("\n")[0]
            try:
                got = load_file(f"{work}/out.st")
            except AttributeError as e:
                return "skipped", f"outputs: {e}"
            for i, w in enumerate(wanted):
                if f"output.{i}" not in got:
                    return "wrong", f"no output {i}"
                if not near(got[f"output.{i}"], w) and not as_onnxruntime(test, inputs, got):
                    g = got[f"output.{i}"]
                    shown = [f"{x.dtype}{x.shape} {x.ravel()[:4]}" for x in (g, w)]
                    return "wrong", f"output {i}: {shown[0]} instead of {shown[1]}"
    return "right", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slipway", default=os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway")))
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="append", default=["wrong", "failed"])
    options = parser.parse_args()
    nodes = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "node"
    tests = [t for t in sorted(nodes.iterdir()) if re.search(options.only, t.name)]
    counts, refused = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for test, (result, why) in zip(tests, pool.map(lambda t: judge(options.slipway, t), tests)):
            counts[result] += 1
            if result == "refused":
                refused[re.sub(r"\(node '.*?'\)", "", why)] += 1
            if result in options.show:
                print(f"{result} {test.name}: {why}")
    for why, count in refused.most_common():
        print(f"refused {count}: {why}")
    print(", ".join(f"{count} {result}" for result, count in counts.most_common()), "of", len(tests))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
