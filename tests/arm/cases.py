#!/usr/bin/env python3
"""Exported programs with saved numbers as libraries for 64-bit Arm, run under qemu. By hand:

    tests/arm/cases.py FOLDER [--match RE] [--sample N] [--slipway PATH]       # needs torch and safetensors

FOLDER holds NAME.pt2 with NAME.safetensors beside it: tensors input.N and output.N, of tensors and symbolic numbers
alone. Each is converted for this machine and with --target aarch64-linux; what the latter computes under qemu-aarch64
must be what was saved, or what the former computes here, to within the error of the dtype. The last lines are the time
and the bytes that the two took to make, over all that passed, and "N passed, M failed, K not run", which are those that
slipway converts for neither or that do not run here either. --sample N: about N of them, the same ones each time.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from diagnostics import cause  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# (relative, absolute as a multiple of the root mean square)
WITHIN = {
    torch.float64: (1e-6, 1e-7),
    torch.float32: (1e-4, 3e-5),
    torch.float16: (1e-2, 5e-3),
    torch.bfloat16: (4e-2, 2e-2),
}


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


def judge(case, slipway, work, totals):
    """(True, False or None for not run, why)"""
    saved = numbered(load_file(case.with_suffix(".safetensors")), "output")
    results, made = {}, {}
    for side, flags in {"x86": [], "arm": ["--target", "aarch64-linux"]}.items():
        model, outputs = work / f"{side}.so", work / f"{side}.safetensors"
        command = [slipway, "convert", case, "-o", model, "-q", *flags]
        done, times = None, []
        for _ in range(2):  # the better of two: the first one reads the files from the disk
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True)
            times.append(time.monotonic() - began)
        made[side] = min(times)
        if done.returncode != 0:
            return None if side == "x86" else False, cause(done.stderr)
        command = [slipway, "run", model, "--inputs", case.with_suffix(".safetensors"), "--outputs", outputs]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return None if side == "x86" else False, f"{side}, exit {done.returncode}: {cause(done.stderr)}"
        results[side] = numbered(load_file(outputs), "output")
    for side in made:
        totals[side, "seconds"] += made[side]
        totals[side, "bytes"] += (work / f"{side}.so").stat().st_size
    why = difference(results["arm"], saved)
    if why and not difference(results["arm"], results["x86"]):
        totals["as here"] += 1
        return True, ""
    return not why, why


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--match", default=".")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--slipway", default=ROOT / "build" / "slipway")
    arguments = parser.parse_args()
    counts, totals = {True: 0, False: 0, None: 0}, collections.Counter()
    cases = [
        case
        for case in sorted(arguments.folder.rglob("*.pt2"))
        if re.search(arguments.match, case.name) and case.with_suffix(".safetensors").exists()
    ]
    if arguments.sample:
        cases = cases[:: max(1, round(len(cases) / arguments.sample))]
    with tempfile.TemporaryDirectory(prefix="slipway-arm-") as work:
        for case in cases:
            good, why = judge(case, arguments.slipway, pathlib.Path(work), totals)
            counts[good] += 1
            if not good:
                print("FAIL" if good is False else "not run", case.name, why, flush=True)
    for what in ("seconds", "bytes"):
        arm, x86 = totals["arm", what], totals["x86", what]
        print(f"{what}: {arm:.6g} for aarch64, {x86:.6g} for x86-64, {arm / max(x86, 1e-9):.3f} times")
    print(f"{totals['as here']} of those that passed are not what was saved, but what x86-64 computes")
    print(f"{counts[True]} passed, {counts[False]} failed, {counts[None]} not run")
    sys.exit(1 if counts[False] else 0)


if __name__ == "__main__":
    main()
