// repro.py of an ONNX model: a text that is the same for all but its constants, so that whoever gets the folder can
// read it.
#include "base/text.h"
#include "base/utf8.h"
#include "driver/minify/files.h"
#include "io/atomic_writer.h"

namespace slipway::driver {
namespace {

constexpr char kText[] = R"PY(
    python repro.py             does the check: exits as it does, or 1 where onnxruntime refuses the model or results
                                differ
    python repro.py --run       runs min.onnx on the inputs and prints what it gives

Needs onnxruntime and numpy.
"""
import ctypes
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

HERE = os.path.dirname(os.path.abspath(__file__))
# numpy's names, and the numbers that ONNX has for types without one in numpy
TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "I16": "int16",
         "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
         "BF16": "uint16", "F8_E4M3": "uint8", "F8_E4M3FNUZ": "uint8", "F8_E5M2": "uint8", "F8_E5M2FNUZ": "uint8"}
NUMBERS = {"BF16": 16, "F8_E4M3": 17, "F8_E4M3FNUZ": 18, "F8_E5M2": 19, "F8_E5M2FNUZ": 20}
# How far results may be from each other: of the element, and of the root mean square of all
TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1e-4, 3e-5), "float16": (1e-2, 5e-3), "bfloat16": (4e-2, 2e-2)}


def inputs():
    """input.0, input.1, ... of inputs.safetensors: a length, as many bytes of JSON, and the numbers."""
    with open(os.path.join(HERE, "inputs.safetensors"), "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    values = []
    for i in range(len(header)):
        entry = header[f"input.{i}"]
        begin, end = (8 + size + at for at in entry["data_offsets"])
        array = np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        number = NUMBERS.get(entry["dtype"])
        values.append(ort.OrtValue.ortvalue_from_numpy(array) if number is None
                      else ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, number))
    return values


def run(name, optimize=True):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(os.path.join(HERE, name), options, providers=["CPUExecutionProvider"])
    feeds = {i.name: value for i, value in zip(session.get_inputs(), inputs())}
    return session.run_with_ort_values(None, feeds)


def numbers(value):
    """An array, and the name of its type."""
    kind = value.data_type().removeprefix("tensor(").removesuffix(")")
    if kind == "bfloat16":
        size = int(np.prod(value.shape())) * 2
        bits = np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", np.uint16)
        return (bits.astype(np.uint32) << 16).view(np.float32).reshape(value.shape()), kind
    return value.numpy(), {"float": "float32", "double": "float64"}.get(kind, kind)


def compare(a, b):
    differ = 0
    for k, (x, y) in enumerate(zip(a, b)):
        (x, kind), (y, _) = numbers(x), numbers(y)
        if x.shape != y.shape:
            print(f"output {k}: {x.shape} and {y.shape}")
            differ += 1
            continue
        if kind in TOLERANCES:
            x, y = x.astype(np.float64), y.astype(np.float64)
            rtol, atol = TOLERANCES[kind]
            finite = x[np.isfinite(x)]
            atol *= float(np.sqrt(np.mean(finite**2))) if finite.size else 0
            good = np.isclose(y, x, rtol, atol, equal_nan=True)
        else:
            good = x == y
        if not good.all():
            first = tuple(int(i) for i in np.argwhere(~good)[0])
            print(f"output {k}: {int((~good).sum())} of {good.size} differ; at {first} {x[first]} and {y[first]}")
            differ += 1
    return differ


def steps():
    slipway = os.environ.get("SLIPWAY", "slipway")
    here = lambda name: os.path.join(HERE, name)  # noqa: E731
    files = {"{}": here("min.onnx"), "{onnx}": here("min.onnx"), "{ir}": here("min.ir"),
             "{inputs}": here("inputs.safetensors"), "{other}": here("other.onnx"), "{folder}": tempfile.mkdtemp()}
    code = 0
    for step in CHECK:
)PY";
constexpr char kMain[] = R"PY(

def main():
    if "--run" in sys.argv:
        for value in run("min.onnx"):
            print(value.data_type(), value.shape() if value.is_tensor() else "")
        return 0
    if WHAT == "":
        return steps()
    try:
        if WHAT == "run":
            run("min.onnx")
            return 0
        if WHAT == "unoptimized":
            return 1 if compare(run("min.onnx", optimize=False), run("min.onnx")) else 0
        return 1 if compare(run("min.onnx"), run("other.onnx")) else 0
    except Exception as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1
)PY";

}  // namespace

absl::Status WriteReproOnnx(const ReproOptions& o, const std::string& folder) {
  const bool plain =
      text::IsUtf8(o.failure) && !text::Contains(o.failure, "\"\"\"") && !text::Contains(o.failure, "\\");
  std::string out = text::StrCat("#!/usr/bin/env python3\n\"\"\"What is left of an ONNX model that fails",
                                 plain ? ": " : "", plain ? o.failure : "", "\n", kText, kReproStep, kMain, kReproMain);
  out.insert(out.find("# numpy's names"), text::StrCat(ReproConstants(o, "model"), "WHAT = ", text::Quoted(o.runtime),
                                                       "  # what onnxruntime is asked; \"\": CHECK\n"));
  return io::WriteFile(folder + "/repro.py", out);
}

}  // namespace slipway::driver
