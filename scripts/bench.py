#!/usr/bin/env python3
"""Measures slipway beside the alternatives, in one run and on the same files, and prints the ratios.

    cmake --build build --target bench          # gets what it needs, then runs this
    build/venv/bin/python scripts/bench.py [--repeats N] [--big]

  MiniLM        a 90 MB program: `slipway convert`, `cp` of the same file, and a Python process that does
  torch.export.load +
                torch.onnx.export; the first two interleaved, the files in the page cache
  graph only    2,000 nodes, less than 1 MB of weights
  --big         bf16 linears of 4 GiB: time and peak resident memory (makes and deletes 8 GiB in build/bench)

Times are wall seconds of whole processes, the output file removed before each. The programs are made with torch once
and kept in build/bench. Peak memory is the kernel's ru_maxrss, which counts mapped pages.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import bench_build

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "bench"
WEIGHTS = ROOT / "build" / "deps" / "minilm" / "model.safetensors"
NODES = 2000
BIG_LINEARS, BIG_IN, BIG_OUT = 16, 8192, 16384  # 16 x 256 MiB of bf16
TORCH_REPEATS = 2
TORCH_ONNX = """
import sys, torch
program = torch.export.load(sys.argv[1])
torch.onnx.export(program, f=sys.argv[2], dynamo=True, opset_version=20, external_data=False, verbose=False)
"""


def make_minilm(path):
    sys.path.insert(0, str(ROOT / "samples"))
    import make_minilm as sample
    import safetensors.torch
    import torch

    model = sample.MiniLM()
    model.load_state_dict(safetensors.torch.load_file(WEIGHTS), strict=False)
    torch.export.save(sample.export(model), path)


def make_graph(path):
    """Blocks of ten nodes with one 8x8 linear each."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            y = torch.sigmoid(self.linear(x)) * 0.5 + x
            z = torch.tanh(y.transpose(0, 1)).transpose(0, 1)
            return torch.relu(z - x.mean(-1, keepdim=True))

    model = nn.Sequential(*(Block() for _ in range(NODES // 10)))
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, (torch.rand(4, 8),), dynamic_shapes=({0: batch},))
    assert sum(node.op == "call_function" for node in program.graph.nodes) >= NODES
    torch.export.save(program, path)


def make_big(path):
    import torch
    from torch import nn

    with torch.device("meta"):
        model = nn.Sequential(
            *(
                nn.Linear(*((BIG_IN, BIG_OUT) if i % 2 == 0 else (BIG_OUT, BIG_IN)), bias=False)
                for i in range(BIG_LINEARS)
            )
        ).to(torch.bfloat16)
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        parameter.data.uniform_(-1, 1)
    torch.export.save(torch.export.export(model, (torch.zeros(2, BIG_IN, dtype=torch.bfloat16),)), path)


MAKERS = {"minilm": make_minilm, "graph": make_graph, "big": make_big}


def made(name):
    """build/bench/NAME.pt2; torch runs in another process so that this one stays small (ru_maxrss counts a child's
    parent)."""
    path = FOLDER / f"{name}.pt2"
    if not path.exists():
        print(f"making {path.relative_to(ROOT)}", file=sys.stderr)
        partial = path.with_name(f"{name}.partial.pt2")
        subprocess.run([sys.executable, __file__, "--make", name, partial], check=True, stdout=sys.stderr)
        partial.rename(path)
    return path


def measure(command, output):
    """(wall seconds, peak resident MiB) of one process that writes `output`."""
    output.unlink(missing_ok=True)
    shutil.rmtree(output.with_name(output.name + ".data"), ignore_errors=True)
    log = FOLDER / "log"
    with open(log, "wb") as sink:
        start = time.perf_counter()
        child = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0 or not output.exists():
        sys.exit(f"{' '.join(map(str, command))}: exit {child.returncode}\n{log.read_text(errors='replace')}")
    return seconds, usage.ru_maxrss / 1024


def row(name, runs):
    seconds = [run[0] for run in runs]
    print(
        f"{name:44} {min(seconds):9.4f} {statistics.median(seconds):9.4f} {max(run[1] for run in runs):9.0f} "
        f"{len(runs):5}"
    )
    return statistics.median(seconds)


def recorded(case, runs, **others):
    """Slipway's runs, and the seconds of others."""
    bench_build.record(
        case,
        slipway_s=statistics.median(run[0] for run in runs),
        slipway_peak_bytes=max(run[1] for run in runs) * 2**20,
        **others,
    )


def header(title):
    print(f"\n{title}\n{'':44} {'min s':>9} {'median s':>9} {'peak MiB':>9} {'runs':>5}")


def bench_minilm(slipway, repeats):
    source, copy = made("minilm"), FOLDER / "copy.pt2"
    onnx, reference = FOLDER / "minilm.onnx", FOLDER / "torch.onnx"
    converts, copies = [], []
    convert = [slipway, "convert", source, "-o", onnx]
    for command, output in ((convert, onnx), (["cp", source, copy], copy)):
        measure(command, output)  # warms the page cache
    for _ in range(repeats):
        converts.append(measure(convert, onnx))
        copies.append(measure(["cp", source, copy], copy))
    peers = [measure([sys.executable, "-c", TORCH_ONNX, source, reference], reference) for _ in range(TORCH_REPEATS)]
    header(f"MiniLM, {source.stat().st_size / 1e6:.0f} MB")
    ours = row("slipway convert", converts)
    copying = row("cp", copies)
    theirs = row("torch.export.load + torch.onnx.export", peers)
    recorded("MiniLM to ONNX", converts, cp_s=copying, torch_s=theirs)
    print(f"slipway / cp                       {ours / copying:8.2f}")
    print(f"torch.export + torch.onnx / slipway {theirs / ours:7.0f}")
    for path in (onnx, copy, reference):
        path.unlink()


def bench_graph(slipway, repeats):
    source, onnx = made("graph"), FOLDER / "graph.onnx"
    measure([slipway, "convert", source, "-o", onnx], onnx)
    runs = [measure([slipway, "convert", source, "-o", onnx], onnx) for _ in range(repeats)]
    header(f"graph only, {NODES} nodes")
    row("slipway convert", runs)
    recorded(f"graph of {NODES} nodes to ONNX", runs)
    onnx.unlink()


def bench_big(slipway):
    source, onnx = made("big"), FOLDER / "big.onnx"
    try:
        runs = [measure([slipway, "convert", source, "-o", onnx], onnx)]
        header(f"bf16 linears, {source.stat().st_size / 2**30:.1f} GiB")
        row("slipway convert", runs)
        recorded("bf16 linears to ONNX", runs)
    finally:
        for path in FOLDER.glob("big.*"):
            path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slipway", type=pathlib.Path, default=ROOT / "build" / "slipway")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--big", action="store_true", help="also convert a 4 GiB program")
    parser.add_argument("--make", nargs=2, metavar=("NAME", "PATH"), help=argparse.SUPPRESS)
    bench_build.flags(parser)
    arguments = parser.parse_args()
    bench_build.announce(arguments.slipway, arguments.record)
    if arguments.make:
        return MAKERS[arguments.make[0]](arguments.make[1])
    FOLDER.mkdir(parents=True, exist_ok=True)
    bench_minilm(arguments.slipway, arguments.repeats)
    bench_graph(arguments.slipway, arguments.repeats)
    if arguments.big:
        bench_big(arguments.slipway)


if __name__ == "__main__":
    main()
