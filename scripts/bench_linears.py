#!/usr/bin/env python3
"""Linear layers of narrow floats: native libraries beside torch, 128 rows, one thread, runs interleaved.

    python scripts/bench_linears.py [--slipway build/slipway] [--seconds 2]

One line a dtype and size: how many times as long as slipway torch takes, and slipway's own f32 time over its time.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import bench_build

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "samples" / "native")]

import torch
from model import Model

SIZES = ((384, 384), (384, 1536), (1024, 1024))
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def least(runs, seconds):
    """Seconds of each function's quickest call."""
    best = {key: float("inf") for key in runs}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, run in runs.items():
            begin = time.perf_counter()
            run()
            best[key] = min(best[key], time.perf_counter() - begin)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--seconds", type=float, default=2, help="for each size")
    bench_build.flags(parser)
    args = parser.parse_args()
    bench_build.announce(args.slipway, args.record)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for k, n in SIZES:
            runs, kept = {}, []
            for dtype in DTYPES:
                net, x = torch.nn.Linear(k, n).to(dtype), torch.randn(128, k).to(dtype)
                archive, library = (
                    str(pathlib.Path(folder) / f"{k}_{n}_{dtype}{suffix}") for suffix in (".pt2", ".so")
                )
                torch.export.save(torch.export.export(net, (x,)), archive)
                subprocess.run([args.slipway, "convert", archive, "-o", library, "-q"], check=True)
                model = Model(library)
                model.set_threads(1)
                array = (x.view(torch.uint16) if dtype == torch.bfloat16 else x).numpy()
                outputs = model(array)
                expected = net(x)
                got = torch.from_numpy(outputs[0])
                torch.testing.assert_close(
                    got.view(dtype) if dtype == torch.bfloat16 else got, expected, rtol=2e-2, atol=2e-2
                )
                runs["slipway", dtype] = model.bind([array], outputs)
                runs["torch", dtype] = lambda net=net, x=x: net(x)
                kept += [model, array, outputs]
            times = least(runs, args.seconds)
            for dtype in DTYPES:
                own, other = times["slipway", dtype], times["torch", dtype]
                bench_build.record(f"128 x {n} x {k} {str(dtype)[6:]}", slipway_s=own, torch_s=other)
                print(
                    f"128 x {n} x {k} {str(dtype)[6:]:9} slipway {own * 1e3:7.3f} ms, torch {other * 1e3:8.3f} ms: "
                    f"{other / own:5.2f} times; "
                    f"own f32 {100 * times['slipway', torch.float32] / own:5.1f} %",
                    flush=True,
                )


if __name__ == "__main__":
    main()
