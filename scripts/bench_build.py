"""What the benchmarks share: which build they run, and results as lines of JSON.

    bench_build.flags(parser)                            # --record FILE
    bench_build.announce(args.slipway, args.record)
    bench_build.record("conv 3x3", threads=2, slipway_s=0.0012, torch_s=0.0019)

Numbers of the preset `once` (quick to build, plain kernels less optimized) are not those of `release`. A line has the
benchmark, the case, numbers under names that end in their unit (_s, _bytes, _s_per_gb; less is better), the build, and
the machine. scripts/bench_compare.py reads such files.
"""

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd")
_open = {"file": None, "build": "unknown"}


def flags(parser):
    parser.add_argument("--record", metavar="FILE", help="appends each result to FILE as a line of JSON")


def describe(slipway):
    """The preset of the build folder that the program is in, or its build type; "installed" where there is none."""
    cache = pathlib.Path(slipway).resolve().parent / "CMakeCache.txt"
    if not cache.exists():
        return "installed"
    entries = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(), re.M))
    return (
        f"preset {entries['SLIPWAY_PRESET']}"
        if entries.get("SLIPWAY_PRESET")
        else entries.get("CMAKE_BUILD_TYPE", "unknown")
    )


def announce(slipway, record=None):
    """Says it before the numbers, on standard error, and where record() writes."""
    _open.update(file=record, build=describe(slipway))
    print(f"{slipway}: {_open['build']}", file=sys.stderr)


def commit():
    """The commit of the checkout, with "+" where files differ from it."""
    call = ["git", "-C", ROOT, "describe", "--always", "--dirty=+", "--abbrev=12"]
    done = subprocess.run(call, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def machine():
    """What numbers depend on: processor, instruction sets, memory, kernel."""
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.*)$", cpu, re.M)
    known = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", cpu, re.M)
    memory = re.search(r"^MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)
    return {
        "cpu": model[1] if model else platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "instructions": [name for name in INSTRUCTIONS if known and name in known[1].split()],
        "isa": os.environ.get("SLIPWAY_ISA", "best"),
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "kernel": ".".join(platform.release().split(".")[:2]),
        "load": round(os.getloadavg()[0], 1),
    }


def record(case, threads=1, **numbers):
    """Appends a result, where --record names a file."""
    if not _open["file"]:
        return
    line = {
        "benchmark": pathlib.Path(sys.argv[0]).stem,
        "case": case,
        "threads": threads,
        "numbers": {name: float(f"{number:.6g}") for name, number in numbers.items() if number is not None},
        "build": _open["build"],
        "version": (ROOT / "VERSION").read_text().strip(),
        "commit": commit(),
        "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": machine(),
    }
    with open(_open["file"], "a") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
