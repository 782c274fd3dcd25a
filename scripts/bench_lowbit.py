#!/usr/bin/env python3
"""Linear layers of few bits: native libraries beside torch's and ONNX Runtime's kernels, each in its own process, in
turns.

    python scripts/bench_lowbit.py [--slipway build/slipway] [--rounds 3] [--threads 1]

int8 dynamic, 128 rows: activations become integers while the layer runs. int4, one row: groups of 32, weight-only, and
with --allow-int8-activations. bf16, 128 rows. Each line has the least time of slipway and how many times as long the
others take. For one row it also has the bytes of weights a second.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import bench_build

ROOT = pathlib.Path(__file__).resolve().parent.parent

MAKE = r'''
import sys, torch, torchao.quantization as tq
from safetensors.torch import save_file
kind, m, k, n, out = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
torch.manual_seed(0)
dtype = torch.bfloat16 if kind == "bf16" else torch.float32
net = torch.nn.Sequential(torch.nn.Linear(k, n, bias=False)).to(dtype).eval()
if kind == "int8": tq.quantize_(net, tq.Int8DynamicActivationInt8WeightConfig())
if kind.startswith("int4"):
    tq.quantize_(net, tq.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=tq.PerGroup(32)))
x = torch.randn(m, k, dtype=dtype)
with torch.no_grad(): torch.export.save(torch.export.export(net, (x,), strict=False), out + ".pt2")
save_file({"input.0": x}, out + ".in")
'''

TIME = r'''
import os, sys, time, warnings
warnings.filterwarnings("ignore")
kind, m, k, n, threads = sys.argv[1], *map(int, sys.argv[2:6])
os.environ["OMP_NUM_THREADS"] = str(threads)
import numpy as np
rng = np.random.default_rng(0)
def session(nodes, inits, inputs):
    import onnx, onnxruntime as ort
    from onnx import helper as h, numpy_helper as nh
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [m, k])],
                     [h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [m, n])],
                     [nh.from_array(v, name) for name, v in inits.items()])
    model = h.make_model(g, opset_imports=[h.make_opsetid("", 20), h.make_opsetid("com.microsoft", 1)], ir_version=9)
    o = ort.SessionOptions(); o.intra_op_num_threads = threads; o.log_severity_level = 4
    s = ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])
    x = rng.standard_normal((m, k)).astype(np.float32)
    return lambda: s.run(None, {"x": x})
def dynamic_quantize_matmul():
    from onnx import helper as h
    return session([h.make_node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], domain="com.microsoft")],
                   {"w": rng.integers(-127, 128, (k, n)).astype(np.int8), "s": np.full(n, 0.01, np.float32)}, None)
def matmul_nbits(level):
    from onnx import helper as h
    return session([h.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft",
                                K=k, N=n, bits=4, block_size=32, accuracy_level=level)],
                   {"w": rng.integers(0, 256, (n, k // 32, 16)).astype(np.uint8),
                    "s": np.full((n, k // 32), 0.01, np.float32)}, None)
def torch_of(make):
    import torch
    torch.set_num_threads(threads)
    f = make(torch)
    def run():
        with torch.inference_mode(): f()
    return run
def torch_dynamic(torch):
    q = torch.ao.nn.quantized.dynamic.Linear.from_float(prepared(torch))
    x = torch.randn(m, k); return lambda: q(x)
def prepared(torch):
    lin = torch.nn.Linear(k, n, bias=False); lin.qconfig = torch.ao.quantization.default_dynamic_qconfig; return lin
def torch_bf16(torch):
    lin = torch.nn.Linear(k, n, bias=False).bfloat16(); x = torch.randn(m, k).bfloat16(); return lambda: lin(x)
f = {"ort": dynamic_quantize_matmul, "torch": lambda: torch_of(torch_dynamic),
     "ort0": lambda: matmul_nbits(0), "ort4": lambda: matmul_nbits(4),
     "torch_bf16": lambda: torch_of(torch_bf16)}[kind]()
f(); best, end = 1e9, time.perf_counter() + 1
while time.perf_counter() < end:
    begin = time.perf_counter(); f(); best = min(best, time.perf_counter() - begin)
print(best)
'''

CASES = [
    ("int8", 128, 1024, 1024, [], ("ort", "torch")),
    ("int8", 128, 4096, 1024, [], ("ort", "torch")),
    ("int4", 1, 4096, 4096, [], ("ort0", "ort4")),
    ("int4", 1, 4096, 4096, ["--allow-int8-activations"], ("ort0", "ort4")),
    ("bf16", 128, 1024, 1024, [], ("torch_bf16",)),
    ("bf16", 128, 384, 1536, [], ("torch_bf16",)),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    bench_build.flags(parser)
    args = parser.parse_args()
    bench_build.announce(args.slipway, args.record)
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    with tempfile.TemporaryDirectory() as folder:
        for index, (kind, m, k, n, flags, peers) in enumerate(CASES):
            stem = f"{folder}/{index}"
            subprocess.run(
                [sys.executable, "-c", MAKE, kind, str(m), str(k), str(n), stem], check=True, capture_output=True
            )
            subprocess.run([args.slipway, "convert", stem + ".pt2", "-o", stem + ".so", "-q", *flags], check=True)
            best = {}
            for _ in range(args.rounds):
                run = subprocess.run(
                    [
                        args.slipway,
                        "run",
                        stem + ".so",
                        "--inputs",
                        stem + ".in",
                        "--outputs",
                        stem + ".out",
                        "--threads",
                        str(args.threads),
                        "--repeat",
                        "300",
                        "--json",
                    ],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                best["slipway"] = min(best.get("slipway", 1e9), *json.loads(run.stdout)["run_s"])
                for peer in peers:
                    run = subprocess.run(
                        [sys.executable, "-c", TIME, peer, str(m), str(k), str(n), str(args.threads)],
                        capture_output=True,
                        text=True,
                        env=environment,
                    )
                    best[peer] = (
                        min(best.get(peer, 1e9), float(run.stdout.split()[-1])) if run.returncode == 0 else float("nan")
                    )
            mine = best["slipway"]
            bench_build.record(
                " ".join([f"{kind} {m} x {k} x {n}", *flags]),
                args.threads,
                **{f"{who}_s": t for who, t in best.items() if t == t},
            )
            print(
                f"{kind} {m} x {k} x {n} {' '.join(flags)}: slipway {mine * 1e3:.3f} ms",
                *(f"{p} x{best[p] / mine:.2f}" for p in peers),
                *([f"{k * n * 0.625 / mine / 1e9:.1f} GB/s"] if m == 1 else []),
                sep="  ",
                flush=True,
            )


if __name__ == "__main__":
    main()
