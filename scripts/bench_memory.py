#!/usr/bin/env python3
"""What a run of a native library takes of memory beside its weights, and what its plan says it takes.

    python scripts/bench_memory.py --slipway build/slipway [--minilm model.safetensors]

For each case: `tensors`, the bytes of temporaries and results (slipway run --json, of the same plan); `plan`, what a
run asks the caller's allocator for, which is these and the memory that kernels work in, placed among the temporaries;
`peak`, by how much a process that has opened the library grew while it ran it once, at the most (VmHWM, reset before
the run; pages of files, which are the weights, do not count); and the ratios of `peak` to both. That to the plan is to
be at most 1.3. Inputs are there before and count on neither side.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import bench_build

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKER = r"""
import ctypes, json, re, sys

class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]
class DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("dtype", DType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]

def status():
    text = open("/proc/self/status").read()
    return {key: int(re.search(key + r":\s*(\d+)", text)[1]) * 1024 for key in ("VmHWM", "RssAnon", "RssFile")}

ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
DEALLOCATE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("plugins", ctypes.c_void_p), ("plugin_count", ctypes.c_size_t),
                ("threads", ctypes.c_int32),
                ("parallel_for", ctypes.c_void_p), ("parallel_user", ctypes.c_void_p), ("allocate", ALLOCATE),
                ("deallocate", DEALLOCATE),
                ("memory_user", ctypes.c_void_p)]

libc = ctypes.CDLL(None)
libc.aligned_alloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
held = most = 0

def allocate(user, size, alignment):
    global held, most
    held += size
    most = max(most, held)
    return libc.aligned_alloc(alignment, -(-size // alignment) * alignment)

def deallocate(user, memory, size):
    global held
    held -= size
    libc.free(memory)

library = ctypes.CDLL(sys.argv[1])
inputs = json.loads(sys.argv[2])  # [[code, bits, shape], ...]
model = ctypes.c_void_p()
if sys.argv[3] == "plan":  # counts what is asked for; ctypes' own memory would disturb the peak
    options = Options(ctypes.sizeof(Options), allocate=ALLOCATE(allocate), deallocate=DEALLOCATE(deallocate))
    assert library.slipway_model_open_with(ctypes.byref(model), ctypes.byref(options)) == 0
else:
    assert library.slipway_model_open(ctypes.byref(model)) == 0
library.slipway_model_output_count.restype = ctypes.c_size_t
tensors, kept = [], []
for code, bits, shape in inputs:
    n = bits // 8
    for s in shape:
        n *= s
    data, sizes = ctypes.create_string_buffer(n), (ctypes.c_int64 * len(shape))(*shape)
    ctypes.memset(data, 0, n)
    kept += [data, sizes]
    tensors.append(Tensor(ctypes.addressof(data), Device(1, 0), len(shape), DType(code, bits, 1), sizes, None, 0))
array = (ctypes.POINTER(Tensor) * len(tensors))(*map(ctypes.pointer, tensors))
count = library.slipway_model_output_count(model)
results = (ctypes.c_void_p * count)()
open("/proc/self/clear_refs", "w").write("5")
before = status()
assert library.slipway_model_run(model, array, ctypes.c_size_t(len(tensors)), results, ctypes.c_size_t(count)) == 0
after = status()
print(json.dumps({"peak": after["VmHWM"] - after["RssFile"] - before["RssAnon"], "plan": most}))
"""
ALWAYS = 1 << 20  # bytes that no model is too small for: tables of the plan, pages of the C library
CODES = {"torch.float32": (2, 32), "torch.int64": (0, 64)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--minilm", help="model.safetensors of all-MiniLM-L6-v2")
    parser.add_argument("--match", default="", help="regular expression of cases")
    parser.add_argument("--threads", type=int, default=1)
    bench_build.flags(parser)
    args = parser.parse_args()
    bench_build.announce(args.slipway, args.record)
    sys.path.insert(0, str(ROOT / "scripts"))
    import torch
    from bench_models import cases
    from bench_native import minilm
    from safetensors.torch import load_file, save_file

    failed = False
    print(f"{'case':33} {'tensors':>9} {'plan':>9} {'peak MiB':>9} {'/ tensors':>9} {'/ plan':>6}")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        folder = pathlib.Path(folder)
        for name, make in (cases() | (minilm(args.minilm) if args.minilm else {})).items():
            if not re.search(args.match, name):
                continue
            torch.manual_seed(0)
            net, inputs = make()
            torch.export.save(torch.export.export(net.eval(), inputs), folder / "m.pt2")
            subprocess.run([args.slipway, "convert", folder / "m.pt2", "-o", folder / "m.so", "-q"], check=True)
            inputs = [x for x in torch.utils._pytree.tree_leaves(inputs) if isinstance(x, torch.Tensor)]
            save_file({f"input.{i}": x.contiguous() for i, x in enumerate(inputs)}, folder / "in.safetensors")
            text = subprocess.run([args.slipway, "run", folder / "m.pt2", "--inputs", folder / "in.safetensors",
            "--outputs", folder / "out.safetensors",
                                   "--json"], check=True, capture_output=True, text=True).stdout  # fmt: skip
            results = sum(x.numel() * x.element_size() for x in load_file(folder / "out.safetensors").values())
            tensors = json.loads(text)["temporaries_bytes"] + results
            shapes = [[*CODES[str(x.dtype)], list(x.shape)] for x in inputs]
            plan, peak = (
                json.loads(subprocess.run([sys.executable, "-S", "-c", WORKER, folder / "m.so", json.dumps(shapes),
                what], check=True,
                                          capture_output=True, text=True,
                                          env=os.environ | {"SLIPWAY_NUM_THREADS": str(args.threads)}).stdout)[what]
                for what in ("plan", "peak"))  # fmt: skip
            bench_build.record(name, args.threads, slipway_peak_bytes=peak, slipway_plan_bytes=plan)
            failed |= peak > 1.3 * plan + ALWAYS
            print(
                f"{name:33} {tensors / 2**20:9.2f} {plan / 2**20:9.2f} {peak / 2**20:9.2f} {peak / tensors:9.2f} "
                f"{peak / plan:6.2f}",
                flush=True,
            )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
