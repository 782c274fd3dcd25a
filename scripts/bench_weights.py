#!/usr/bin/env python3
"""Measures slipway's way with weights beside `cp` and torch, on the same files, and prints ratios and peak memory.

    build/venv/bin/python scripts/bench_weights.py [--gb 8] [--repeats 3] [--slipway build/slipway]

  cp        the folder of four f32 shards, --gb in all
  reshard   the same bytes into seven shards
  merge     ... into one file
  cast      ... to bf16 in one file
  tp        ... rows and columns split for four ranks
  diff      the folder with the merged file
  .bin      a torch.save checkpoint of a quarter of that: slipway, and torch.load + safetensors.torch.save_file

Rounds are interleaved; each command starts with its output gone, its input in the page cache as far as it fits, and
nothing left to write back. Times are medians of wall seconds of whole processes, peak memory is the kernel's ru_maxrss,
which counts mapped pages. Everything lies in build/bench_weights and is deleted at the end; about three times --gb must
be free.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import bench_build

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "bench_weights"
SHARDS = 4
ROWS, COLUMNS = 4096, 8192  # a tensor of 128 MiB
# Made and loaded in processes of their own: what this one holds would count as its children's.
MAKE = """
import json, sys, torch
from safetensors.torch import save_file
folder, shards, rows, columns, each = sys.argv[1], *map(int, sys.argv[2:])
index = {}
for shard in range(shards):
    name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
    tensors = {f"layers.{shard * each + i}.weight": torch.randn(rows, columns) for i in range(each)}
    index |= dict.fromkeys(tensors, name)
    save_file(tensors, f"{folder}/{name}", metadata={"format": "pt"})
    if shard == 0:
        torch.save(tensors, f"{folder}.bin")
json.dump({"metadata": {}, "weight_map": index}, open(f"{folder}/model.safetensors.index.json", "w"))
"""
TORCH = """
import sys, torch
from safetensors.torch import save_file
save_file(torch.load(sys.argv[1], weights_only=True), sys.argv[2])
"""


def remove(path):
    if path is not None:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def measure(command, output):
    """(seconds, peak bytes)"""
    remove(output)
    os.sync()
    start = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {process.returncode}\n{message.decode()}")
    return seconds, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--slipway", type=pathlib.Path, default=ROOT / "build" / "slipway")
    bench_build.flags(parser)
    arguments = parser.parse_args()
    bench_build.announce(arguments.slipway, arguments.record)
    each = max(1, round(arguments.gb * 1e9 / SHARDS / (ROWS * COLUMNS * 4)))
    shutil.rmtree(FOLDER, ignore_errors=True)
    source = FOLDER / "in"
    source.mkdir(parents=True)
    binary = FOLDER / "in.bin"
    rules = FOLDER / "rules.json"
    rules.write_text(json.dumps([{"match": "[02468]\\.weight$", "split": "column"}, {"match": ".", "split": "row"}]))
    try:
        subprocess.run(
            [sys.executable, "-c", MAKE, source, str(SHARDS), str(ROWS), str(COLUMNS), str(each)], check=True
        )
        convert = [arguments.slipway, "convert", "--quiet"]
        out, merged, one = FOLDER / "out", FOLDER / "merged.safetensors", FOLDER / "one.safetensors"
        commands = {
            "cp": (["cp", "-r", source, out], out),
            "reshard": ([*convert, source, "--shards", "7", "-o", f"{out}/"], out),
            "merge": ([*convert, source, "-o", merged], merged),
            "diff": ([arguments.slipway, "diff", source, merged], None),
            "cast": ([*convert, source, "--dtype", "bf16", "-o", one], one),
            "tp": ([*convert, source, "--tp", "4", "--tp-rules", rules, "-o", f"{out}/"], out),
            ".bin slipway": ([*convert, binary, "-o", one], one),
            ".bin torch": ([sys.executable, "-c", TORCH, binary, one], one),
        }
        rounds = {name: [] for name in commands}
        for _ in range(arguments.repeats):
            for name, (command, output) in commands.items():
                rounds[name].append(measure(command, output))
                # Room for the next, on the disk and in the page cache; the merged file stays for diff.
                remove(merged if name == "diff" else output if output != merged else None)
        seconds = {name: statistics.median(s for s, _ in r) for name, r in rounds.items()}
        peak = {name: max(p for _, p in r) for name, r in rounds.items()}
        size = sum(p.stat().st_size for p in source.iterdir())
        print("all seconds:", {name: [round(s, 2) for s, _ in r] for name, r in rounds.items()})
        print(
            f"{size / 1e9:.1f} GB in {SHARDS} shards, .bin of {binary.stat().st_size / 1e9:.1f} GB, "
            f"{arguments.repeats} rounds"
        )
        for name in commands:
            who = "other" if name in ("cp", ".bin torch") else "slipway"
            bench_build.record(name, **{f"{who}_s": seconds[name], f"{who}_peak_bytes": peak[name]})
            beside = ".bin torch" if name.startswith(".bin") else "cp"
            print(
                f"{name:14} {seconds[name]:8.2f} s {seconds[name] / seconds[beside]:6.2f} x {beside:11} peak "
                f"{peak[name] / 1e6:8.0f} MB"
            )
        print(
            f".bin: {seconds['.bin torch'] / seconds['.bin slipway']:.1f} times as fast as torch, "
            f"1/{peak['.bin torch'] / peak['.bin slipway']:.0f} of the memory"
        )
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


if __name__ == "__main__":
    main()
