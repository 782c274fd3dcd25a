"""Which build a benchmark runs: numbers of `once` (quick to build, plain kernels less optimized) are not those of
`release`."""

import pathlib
import re
import sys


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


def announce(slipway):
    """Says it before the numbers, on standard error."""
    print(f"{slipway}: {describe(slipway)}", file=sys.stderr)
