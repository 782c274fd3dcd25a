#!/usr/bin/env python3
"""What `slipway shapes` finds out about the dimensions of programs that torch exported with symbols, beside what torch
states.

    python scripts/check_dim_ledger.py FOLDER [--slipway build/slipway] [--match RE]

For each .pt2 in FOLDER whose inputs have symbols: which dimensions are static, which are equal, and their ranges, by
torch (the archive's own types and range constraints) and by the nodes alone (`needs` of the ledger, found out without
torch's symbols). Every difference is a line: `torch pins`, `we pin` (never right where torch does not), `torch
relates`, `we relate`, `range`. The last line counts dimensions.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from diagnostics import cause  # noqa: E402


def ledger(slipway, path):
    done = subprocess.run([slipway, "shapes", str(path), "--json"], capture_output=True, text=True)
    if done.returncode:
        return cause(done.stderr)
    return json.loads(done.stdout)


def classes(dims, key):
    """Which dimensions have the same size, as a set of frozensets; those that are numbers are left out."""
    same = collections.defaultdict(set)
    for i, d in enumerate(dims):
        if not re.fullmatch(r"-?\d+", d[key]):
            same[d[key]].add(i)
    return same


def compare(program):
    dims = program["dims"]
    lines, agree = [], 0
    theirs, ours = classes(dims, "size"), classes(dims, "needs")
    by_dim = lambda same: {i: frozenset(members) for members in same.values() for i in members}
    theirs, ours = by_dim(theirs), by_dim(ours)
    for i, d in enumerate(dims):
        name = f"{d['input']}.{d['axis']}"
        if d["example"] is None or (d["example"] < 2 and d["kind"] == "static"):
            continue
        if i not in theirs and i in ours:
            lines.append(f"{name}: torch pins {d['size']}, no node needs it")
        elif i in theirs and i not in ours:
            lines.append(f"{name}: WE PIN {d['needs']}: {d['cause']}")
        elif i in theirs and theirs[i] != ours[i]:
            names = lambda s: ", ".join(f"{dims[k]['input']}.{dims[k]['axis']}" for k in sorted(s))
            more = ours[i] - theirs[i]
            lines.append(f"{name}: {'WE RELATE' if more else 'torch relates'} {names(more or theirs[i] - ours[i])}")
        elif i in theirs and d["range"] != d["needs_range"]:
            (a, b), (c, e) = d["range"], d["needs_range"]
            looser = c < a or (b is not None and (e is None or e > b))
            lines.append(
                f"{name}: range {'wider' if looser else 'tighter'} than torch's: {d['needs_range']} and {d['range']}; "
                f"{d['cause']}"
            )
        else:
            agree += 1
    return lines, agree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--slipway", default=str(ROOT / "build" / "slipway"))
    parser.add_argument("--match", default=r"_(auto|dyn)\.pt2$")
    args = parser.parse_args()
    counts = collections.Counter()
    for path in sorted(args.folder.glob("*.pt2")):
        if not re.search(args.match, path.name):
            continue
        report = ledger(args.slipway, path)
        if isinstance(report, str):
            print(path.name, report)
            counts["failed"] += 1
            continue
        for program in report["programs"]:
            if not any(d["kind"] != "static" for d in program["dims"]):
                continue
            lines, agree = compare(program)
            counts["programs"] += 1
            counts["agree"] += agree
            for line in lines:
                word = line.split(": ", 1)[1]
                counts[re.match(r"torch pins|WE PIN|WE RELATE|torch relates|range wider|range tighter", word)[0]] += 1
                print(f"{path.name}  {line}")
    print(dict(counts))


if __name__ == "__main__":
    main()
