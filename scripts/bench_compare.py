#!/usr/bin/env python3
"""Compares slipway's numbers of two files that benchmarks wrote with --record: which cases became slower.

    scripts/bench_compare.py benchmarks/OLD.jsonl new.jsonl

Of several lines of a case the least number counts. Exits 1 where a number grew by more than --threshold.
--beside NAME compares the ratio to another library's number of the same file (torch, ort), which a busy or other
machine changes less.
"""

import argparse
import json
import math
import pathlib
import sys


def read(path, beside):
    """{(benchmark, case, threads, number): value} of slipway, and the machines."""
    best, machines = {}, set()
    for count, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            machines.add((entry["machine"]["cpu"], entry["machine"]["isa"], entry["build"]))
            for name, value in entry["numbers"].items():
                key = entry["benchmark"], entry["case"], entry["threads"], name
                best[key] = min(best.get(key, math.inf), value)
        except (ValueError, KeyError, TypeError) as error:
            sys.exit(f"{path}:{count}: not a line that a benchmark writes: {error!r}")
    ours = {}
    for (*key, name), value in best.items():
        if not name.startswith("slipway_"):
            continue
        other = best.get((*key, name.replace("slipway", beside, 1))) if beside else 1
        if other:
            ours[(*key, name)] = value / other
    return ours, machines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--threshold", type=float, default=5, metavar="PERCENT", help="that a number may grow by (5)")
    parser.add_argument("--beside", metavar="NAME", help="divide by this library's number")
    args = parser.parse_args()
    (old, old_machines), (new, new_machines) = read(args.old, args.beside), read(args.new, args.beside)
    if old_machines != new_machines:
        print(f"note: not the same machine and build: {sorted(old_machines)} and {sorted(new_machines)}")
    ratios = {key: new[key] / old[key] for key in old.keys() & new.keys() if old[key] > 0}
    if not ratios:
        sys.exit("no case is in both files")
    slower = 0
    for key, ratio in sorted(ratios.items(), key=lambda item: -item[1]):
        benchmark, case, threads, name = key
        verdict = "slower" if ratio > 1 + args.threshold / 100 else "faster" if ratio < 1 - args.threshold / 100 else ""
        slower += verdict == "slower"
        print(
            f"{ratio:6.3f}  {verdict:6}  {benchmark}: {case}, {threads} threads, {name}  "
            f"{old[key]:.4g} -> {new[key]:.4g}"
        )
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    print(
        f"{len(ratios)} numbers, geometric mean of new / old {mean:.3f}, "
        f"{slower} slower by more than {args.threshold:g} %"
    )
    for what, keys in (
        ("only in " + args.old, old.keys() - new.keys()),
        ("only in " + args.new, new.keys() - old.keys()),
    ):
        if keys:
            print(f"{what}: {len(keys)}")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
