#!/usr/bin/env python3
"""Writes schemas/ort_kernels.txt: the kernels of onnxruntime's CPU provider in the ai.onnx domain, one a line, sorted.

A valid ONNX node can still have no kernel for its element types in the most used runtime; the exporter reads this table
to pick a form that runs (or to say that none does). A line is

    OpName<TAB>since-until<TAB>T:f32,f64;Tind:i64

with the opset versions the kernel serves (`until` is empty for "and later") and the element types of each type
constraint, by slipway's dtype names; seq(...) and opt(...) wrap them for sequences and optionals. A kernel without
constraints has "-". Several lines of one operator are alternatives: a node runs if any line's constraints all hold.
Operators that ONNX defines as functions run without a kernel of their own wherever their bodies do; they may be missing
here.

    python scripts/gen_ort_kernels.py            # rewrites schemas/ort_kernels.txt
    python scripts/gen_ort_kernels.py --check    # exit 1 if the file is not what the installed onnxruntime gives
"""

import argparse
import pathlib
import re
import sys

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "schemas" / "ort_kernels.txt"
PROVIDER = "CPUExecutionProvider"
OPEN_ENDED = 2**31 - 1
OLDEST_OPSET = 18  # slipway writes none older
SHORT = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "string": "str",
    "complex64": "c64", "complex128": "c128",
    "float4e2m1": "f4e2m1fn", "float8e8m0": "f8e8m0fnu",
    "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz",
    **{f"int{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}  # fmt: skip


def short(type_name):
    """'tensor(float)' -> 'f32', 'seq(tensor(int64))' -> 'seq(i64)'; None for the kinds slipway never writes."""
    match = re.fullmatch(r"(seq|optional|tensor|sparse_tensor|map)\((.*)\)", type_name)
    if not match or match[1] in ("sparse_tensor", "map"):
        return None
    if match[1] == "tensor":
        return SHORT[match[2]]
    inner = short(match[2])
    return inner and f"{'seq' if match[1] == 'seq' else 'opt'}({inner})"


def lines():
    for kernel in state.get_all_opkernel_def():
        if kernel.domain != "" or kernel.provider != PROVIDER:
            continue
        since, until = kernel.version_range
        if until < OLDEST_OPSET:
            continue
        constraints = []
        for name, types in sorted(kernel.type_constraints.items()):
            known = sorted({short(t) for t in types} - {None})
            if not known:
                break  # only sparse or map types: nothing slipway can feed it
            constraints.append(f"{name}:{','.join(known)}")
        else:
            versions = f"{since}-{'' if until == OPEN_ENDED else until}"
            yield f"{kernel.op_name}\t{versions}\t{';'.join(constraints) or '-'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="compare with the checked-in file instead of writing it")
    arguments = parser.parse_args()
    table = sorted(set(lines()))
    version = onnxruntime.__version__
    text = f"# onnxruntime {version}: CPU kernels, written by scripts/gen_ort_kernels.py\n" + "\n".join(table) + "\n"
    if arguments.check:
        if OUTPUT.read_text() != text:
            sys.exit(f"{OUTPUT} differs from what onnxruntime {version} registers")
        return
    OUTPUT.write_text(text)
    print(f"{OUTPUT}: {len(table)} kernels of onnxruntime {version}")


if __name__ == "__main__":
    main()
