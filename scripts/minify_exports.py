#!/usr/bin/env python3
"""Minifies programs that torch.onnx.export fails on, the check being that failure, and runs the repros.

    build/venv/bin/python scripts/minify_exports.py FOLDER OUT [NAME...] [--slipway build/slipway]

FOLDER holds .pt2 files. Prints a table: nodes before and after, probes, seconds, whether repro.sh and repro.py fail
with the same message. With NAMEs only those files. torch is imported once, by scripts/check_onnx_export.py.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHECK = os.path.join(HERE, "check_onnx_export.py")


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def kind(message):
    return re.sub(
        r"[0-9]+", "#", re.sub(r"[\[(][^a-zA-Z]*[\])]", "#", re.sub(r"\b[su][0-9]+\b|0x[0-9a-f]+", "#", message))
    )[:60]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("out")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--slipway", default="build/slipway")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    address = os.path.abspath(os.path.join(arguments.out, "server"))
    if os.path.exists(address):
        os.unlink(address)
    with open(os.path.join(arguments.out, "server.log"), "w") as log:
        server = subprocess.Popen([sys.executable, CHECK, "--serve", address], stdout=log, stderr=log)
    try:
        while not os.path.exists(address):
            time.sleep(0.1)
        return run(arguments, address)
    finally:
        server.kill()


def run(arguments, address):
    names = arguments.names or sorted(f[:-4] for f in os.listdir(arguments.folder) if f.endswith(".pt2"))
    nodes = []
    for name in names:
        model = os.path.join(arguments.folder, name + ".pt2")
        check = [sys.executable, "-S", CHECK, "--connect", address]
        first = subprocess.run([*check, model], capture_output=True, text=True)
        if first.returncode != 1:
            continue
        out = os.path.join(arguments.out, name)
        begin = time.time()
        done = subprocess.run(
            [arguments.slipway, "minify", model, "-o", out, "--timeout", "600", "--check", " ".join([*check, "{}"])],
            capture_output=True,
            text=True,
        )
        seconds = time.time() - begin
        found = re.search(r"probe (\d+) · (\d+) → (\d+) node", done.stderr)
        if done.returncode != 0 or not found:
            print(f"{name}: exit {done.returncode}: {last_line(done.stderr)}", flush=True)
            nodes.append(999)
            continue
        probes, before, after = map(int, found.groups())
        nodes.append(after)
        shell = subprocess.run([os.path.join(out, "repro.sh")], capture_output=True, text=True)
        python = subprocess.run([sys.executable, os.path.join(out, "repro.py")], capture_output=True, text=True)
        same = [
            r.returncode == 1 and kind(last_line(r.stderr)) == kind(last_line(first.stderr)) for r in (shell, python)
        ]
        print(
            f"{name}: {before} -> {after} nodes, {probes} probes, {seconds:.0f} s, repro.sh "
            f"{'same' if same[0] else 'OTHER'}, "
            f"repro.py {'same' if same[1] else 'OTHER: ' + last_line(python.stderr)[:100]}; "
            f"{last_line(first.stderr)[:80]}",
            flush=True,
        )
    if nodes:
        print(f"{len(nodes)} programs, median {statistics.median(nodes)}, largest {max(nodes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
