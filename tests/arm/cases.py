#!/usr/bin/env python3
"""Exported programs with saved numbers, run as native plans by the emulated 64-bit Arm build of tests/arm. By hand:

    tests/arm/check.sh                                       # builds build/arm/run_plan
    tests/arm/cases.py FOLDER [--match RE] [--slipway PATH]  # needs torch, safetensors and numpy

FOLDER holds NAME.pt2 with NAME.safetensors beside it: tensors input.N and output.N, of tensors and symbolic numbers
alone. Each is converted by this machine's slipway; its plan then runs on both machines. What Arm computes must be what
this machine computes, to within the error of the dtype, or what was saved. The last line is "N passed, M failed, K not
run", which are those that slipway does not convert or that do not run here either.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from diagnostics import cause  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# In the order of kernels/tensor.h.
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    # fmt: skip
    torch.uint16,
    torch.uint32,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
]
# (relative, absolute as a multiple of the root mean square)
WITHIN = {
    torch.float64: (1e-6, 1e-7),
    torch.float32: (1e-4, 3e-5),
    torch.float16: (1e-2, 5e-3),
    torch.bfloat16: (4e-2, 2e-2),
}


def write(tensors, path):
    with open(path, "wb") as file:
        for t in tensors:
            t = t.contiguous()
            file.write(numpy.array([DTYPES.index(t.dtype), t.dim()], dtype=numpy.int32).tobytes())
            file.write(numpy.array(t.shape, dtype=numpy.int64).tobytes())
            file.write(t.reshape(-1).view(torch.uint8).numpy().tobytes())


def read(path):
    data, at, out = path.read_bytes(), 0, []
    while at < len(data):
        code, rank = numpy.frombuffer(data, numpy.int32, 2, at)
        shape = numpy.frombuffer(data, numpy.int64, rank, at + 8).tolist()
        at += 8 + 8 * int(rank)
        dtype = DTYPES[code]
        n = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
        out.append(
            torch.frombuffer(bytearray(data[at : at + n]), dtype=dtype).reshape(shape)
            if n
            else torch.empty(shape, dtype=dtype)
        )
        at += n
    return out


def difference(got, want):
    """ "" or what differs."""
    if len(got) != len(want):
        return f"{len(got)} results, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want)):
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"result {i}: {g.dtype}{list(g.shape)}, expected {w.dtype}{list(w.shape)}"
        if not w.is_floating_point():
            if not torch.equal(g, w):
                return f"result {i}: {int((g != w).sum())} of {w.numel()} differ"
            continue
        relative, absolute = WITHIN.get(w.dtype, (0.1, 0.1))
        g, w = g.double(), w.double()
        finite = w[w.isfinite()]
        size = finite.square().mean().sqrt().item() if finite.numel() else 1.0
        if not torch.allclose(g, w, rtol=relative, atol=absolute * size + 1e-9, equal_nan=True):
            return f"result {i}: {(g - w).abs().nan_to_num(9e9).max().item():.3g} apart, root mean square {size:.3g}"
    return ""


def numbered(tensors, name):
    found = {int(key.partition(".")[2]): t for key, t in tensors.items() if re.fullmatch(name + r"\.\d+", key)}
    return [found[i] for i in sorted(found)]


def judge(case, slipway, work):
    """(True, False or None for not run, why)"""
    tensors = load_file(case.with_suffix(".safetensors"))
    model, given, results = work / "m.so", work / "in", {side: work / side for side in ("arm", "here")}
    inputs, saved = numbered(tensors, "input"), numbered(tensors, "output")
    if any(t.dtype not in DTYPES for t in inputs):
        return None, "an input of a type that plans do not have"
    done = subprocess.run([slipway, "convert", case, "-o", model, "-q"], capture_output=True, text=True)
    if done.returncode != 0:
        return None, cause(done.stderr)
    write(inputs, given)
    emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
    runs = {}
    for side, command in {
        "here": [ROOT / "build" / "run_plan"],
        "arm": [*emulator, ROOT / "build" / "arm" / "run_plan"],
    }.items():
        runs[side] = subprocess.run([*command, model, given, results[side]], capture_output=True, text=True)
    if runs["here"].returncode != 0:
        return None, "here too: " + runs["here"].stderr.strip()
    if runs["arm"].returncode != 0:
        return False, f"exit {runs['arm'].returncode}: {runs['arm'].stderr.strip()}"
    arm = read(results["arm"])
    why = difference(arm, read(results["here"]))
    return (True, "") if not why or not difference(arm, saved) else (False, why)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--match", default=".")
    parser.add_argument("--slipway", default=ROOT / "build" / "slipway")
    arguments = parser.parse_args()
    counts = {True: 0, False: 0, None: 0}
    with tempfile.TemporaryDirectory(prefix="slipway-arm-") as work:
        for case in sorted(arguments.folder.rglob("*.pt2")):
            if not re.search(arguments.match, case.name) or not case.with_suffix(".safetensors").exists():
                continue
            good, why = judge(case, arguments.slipway, pathlib.Path(work))
            counts[good] += 1
            if not good:
                print("FAIL" if good is False else "not run", case.name, why, flush=True)
    print(f"{counts[True]} passed, {counts[False]} failed, {counts[None]} not run")
    sys.exit(1 if counts[False] else 0)


if __name__ == "__main__":
    main()
