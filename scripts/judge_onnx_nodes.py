#!/usr/bin/env python3
"""Runs ONNX's own node tests (onnx.backend.test, models with expected outputs) through `slipway convert MODEL.onnx` and
`slipway run` of the library.

    judge_onnx_nodes.py [--slipway FILE] [--only RE] [--show right|wrong|refused|failed]

Prints how many were right, right with the inputs that give sizes and axes as constants, wrong, refused (exit code 4, by
operator) and failed; and the share of those right among the tests that are of tensors of numbers, of inference and
of one result: without strings, training, random numbers, files of images, and sequences or optionals as inputs or
outputs. Exit code 1 where one is wrong.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy
import onnx
import onnx.backend.test.case.node
import onnx.numpy_helper
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
RTOL, ATOL = 1e-3, 1e-7  # ONNX's own


# What programs have for types of fewer bits (docs/design/onnx-import.md).
WIDE = {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8", "float4_e2m1fn": ml_dtypes.float8_e4m3fn}
FLOATS = {  # that NumPy does not have, as safetensors calls them
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}


def dtype_of(name):
    if name in FLOATS:
        return numpy.dtype(FLOATS[name])
    return numpy.dtype("bool" if name == "BOOL" else f"{dict(I='i', U='u', F='f', C='c')[name[0]]}{int(name[1:]) // 8}")


def save(arrays, path):
    """As safetensors.numpy.save_file, of every type."""
    names = {numpy.dtype(t): name for name, t in FLOATS.items()}
    header, data = {}, b""
    for name, x in arrays.items():
        kind = names.get(x.dtype) or ("BOOL" if x.dtype == bool else f"{x.dtype.kind.upper()}{x.dtype.itemsize * 8}")
        begin, data = len(data), data + x.tobytes()
        header[name] = {"dtype": kind, "shape": x.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)


def load(path):
    data = pathlib.Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    out = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            raw = numpy.frombuffer(data[start + begin : start + end], dtype_of(entry["dtype"]))
            out[name] = raw.reshape(entry["shape"])
    return out


def tensors(values):
    """As NumPy's arrays of the types that programs have; None where one is no tensor of numbers."""
    if any(isinstance(v, (list, dict, tuple)) or v is None for v in values):  # a sequence, an optional
        return None
    try:
        arrays = [
            onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else numpy.asarray(v) for v in values
        ]
    except Exception:
        return None
    return [x.astype(WIDE[x.dtype.name]) if x.dtype.name in WIDE else x for x in arrays]


def near(got, wanted):
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "fc" or wanted.dtype in [numpy.dtype(t) for t in FLOATS.values()]:
        wide = numpy.complex128 if wanted.dtype.kind == "c" else numpy.float64
        g, w = got.astype(wide), wanted.astype(wide)
        finite = numpy.abs(w[numpy.isfinite(w)])
        rtol = 1 / 64 if wanted.dtype.name == "bfloat16" else RTOL  # two steps of its 8 bits
        return numpy.allclose(g, w, rtol, max(ATOL, 1e-6 * finite.max(initial=0)), equal_nan=True)
    return numpy.array_equal(got, wanted)


def as_onnxruntime(model, inputs, got):
    """Whether ONNX Runtime gives the same: a few tests have data that contradict their operator's definition (integers
    that wrapped where they saturate)."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        theirs = session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs)})
    except Exception:
        return False
    return all(near(got[f"output.{i}"], t) for i, t in enumerate(theirs))


def constants_of(test):
    """The inputs that say how a result is made: small lists of numbers beside the data, as tests of operators give
    sizes, axes and scales. A model that is deployed has them as constants."""
    found = {}
    for i, (declared, value) in enumerate(zip(test.model.graph.input, tensors(test.data_sets[0][0]) or [])):
        if i > 0 and value.ndim <= 1 and value.size <= 16 and value.dtype.name in ("int64", "int32", "float32"):
            found[declared.name] = value
    return found


def judge_again(slipway, test):
    """As judge(); where sizes or the like are inputs, once more with these as constants."""
    result, why = judge(slipway, test, {})
    if result != "refused" or "the program computes" not in why and "dynamic" not in why:
        return result, why
    constants = constants_of(test)
    if not constants or len(test.data_sets) > 1:
        return result, why
    again, _ = judge(slipway, test, constants)
    return (f"{again} with constant inputs", why) if again in ("right", "wrong") else (result, why)


def judge(slipway, test, constants):
    """What became of a test, and why."""
    with tempfile.TemporaryDirectory() as work:
        library = f"{work}/m.so"
        onnx.save(test.model, f"{work}/m.onnx")
        flags = []
        if constants:
            save_file(constants, f"{work}/constants.st")
            flags = ["--constant-inputs", f"{work}/constants.st"]
        made = subprocess.run(
            [slipway, "convert", f"{work}/m.onnx", "-o", library, "-q", *flags], capture_output=True, text=True
        )
        if made.returncode != 0:
            return ("refused" if made.returncode == 4 else "failed"), made.stderr.strip().split("\n")[0]
        for given, expected in test.data_sets:
            inputs, wanted = tensors(given), tensors(expected)
            every = inputs
            if inputs is not None:
                inputs = [x for x, declared in zip(inputs, test.model.graph.input) if declared.name not in constants]
            if inputs is None or wanted is None:
                return "skipped", "not tensors of NumPy's types"
            try:
                save({f"input.{i}": x for i, x in enumerate(inputs)}, f"{work}/in.st")
            except Exception as e:
                return "skipped", f"inputs: {e}"
            ran = subprocess.run([slipway, "run", library, "--inputs", f"{work}/in.st", "--outputs", f"{work}/out.st"],
                                 capture_output=True, text=True)  # fmt: skip
            if ran.returncode != 0:
                return ("refused" if ran.returncode == 4 else "failed"), "run: " + ran.stderr.strip().split("\n")[0]
            got = load(f"{work}/out.st")
            for i, w in enumerate(wanted):
                if f"output.{i}" not in got:
                    return "wrong", f"no output {i}"
                if not near(got[f"output.{i}"], w) and not as_onnxruntime(f"{work}/m.onnx", every, got):
                    g = got[f"output.{i}"]
                    shown = [f"{x.dtype}{x.shape} {x.ravel()[:4]}" for x in (g, w)]
                    return "wrong", f"output {i}: {shown[0]} instead of {shown[1]}"
    return "right", ""


def is_counted(model):
    """Whether a test is one of tensors of numbers, of inference, and of one result."""

    def nodes(graph):
        for n in graph.node:
            yield n
            for a in n.attribute:
                if a.HasField("g"):
                    yield from nodes(a.g)

    values = [*model.graph.input, *model.graph.output]
    if any(not v.type.HasField("tensor_type") for v in values):
        return False
    if any(v.type.tensor_type.elem_type == onnx.TensorProto.STRING for v in values):
        return False
    for n in nodes(model.graph):
        training = any(a.name == "training_mode" and a.i for a in n.attribute)
        if n.op_type == "Dropout" and len(n.input) == 3 and n.input[2]:
            training = True
        if training or "training" in n.domain or n.op_type in ("Momentum", "Adam", "Adagrad", "Gradient"):
            return False
        if n.op_type in ("Bernoulli", "RandomNormalLike", "RandomUniformLike", "ImageDecoder"):
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slipway", default=os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway")))
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="append", default=["wrong", "failed"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of NumPy, while expected outputs are computed
    tests = sorted(onnx.backend.test.case.node.collect_testcases(None), key=lambda t: t.name)
    tests = [t for t in tests if re.search(options.only, t.name)]
    counts, counted, refused = collections.Counter(), collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for test, (result, why) in zip(tests, pool.map(lambda t: judge_again(options.slipway, t), tests)):
            counts[result] += 1
            if is_counted(test.model):
                counted[result.split()[0]] += 1
            if result == "refused":
                refused[re.sub(r"\(node '.*?'\)", "", why)] += 1
            if result.split()[0] in options.show and result != "right with constant inputs":
                print(f"{result} {test.name}: {why}")
    for why, count in refused.most_common():
        print(f"refused {count}: {why}")
    print(", ".join(f"{count} {result}" for result, count in counts.most_common()), "of", len(tests))
    share = counted["right"] / max(1, counted.total())
    print(f"of tensors of numbers, of inference: {counted['right']} right of {counted.total()}, {share:.1%}")
    return 1 if any(k.startswith("wrong") for k in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
