#!/usr/bin/env python3
"""Installs a wheel of slipway in an empty venv, from no index, and does with it what it is for; fails where it misses
what it promises.

    check_wheel.py WHEEL --weights build/deps/minilm/model.safetensors [--most-seconds S]

It may be 3 % larger than the last release's, of which wheel_sizes.txt has the bytes. The time counts from `pip install`
to the file of ONNX; one of three tries has to keep to it. What needs numpy runs by the package as it lies in that venv,
under the interpreter that runs this script, if that has numpy.
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "samples" / "minilm.pt2"
GROWTH = 0.03  # of a wheel from release to release

CONVERT = """
import sys, slipway
from slipway import _library
_library._library()  # which writes models in memory
program, weights, output = sys.argv[1:]
result = slipway.convert(program, output, weights=weights)
assert result.output.stat().st_size == result.report["bytes_written"], result.report
try:
    slipway.convert(weights, output + ".onnx")
except slipway.SlipwayError as e:
    assert e.code and e.diagnostics, e
else:
    sys.exit("a program was made of weights")
"""

# Rows of a batch do not depend on each other, and a mask hides what is behind a sentence's end.
RUN = """
import sys, numpy as np, slipway
model = slipway.load(sys.argv[1])
print([(v.name, v.dtype, v.dims) for v in (*model.inputs, *model.outputs)])
ids = np.random.default_rng(0).integers(1000, 30000, (2, 16))
mask = np.ones_like(ids)
mask[1, 9:] = 0
both = model(ids, mask)[1]
assert isinstance(both, np.ndarray) and both.dtype == np.float32 and both.shape == (2, 384), both.shape
first, second = model(ids[:1], mask[:1])[1], model(ids[1:, :9], mask[1:, :9])[1]
np.testing.assert_allclose(both, np.concatenate([first, second]), atol=1e-5)
assert abs(both[0] - both[1]).max() > 0.01
"""


def run(*command, **options):
    subprocess.run([os.fspath(c) for c in command], check=True, **options)


def released_bytes(name):
    """Of the last release's wheel for the machine that this file name has."""
    rows = [line.split() for line in (ROOT / "packaging" / "wheel_sizes.txt").read_text().splitlines()]
    sizes = {row[1]: int(row[2]) for row in rows if row and row[0] != "#"}  # the last line of each machine
    return next(size for machine, size in sizes.items() if name.endswith(f"_{machine}.whl"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--weights", type=pathlib.Path, required=True, help="weights of samples/minilm.pt2")
    parser.add_argument("--most-seconds", type=float, default=10)
    options = parser.parse_args()

    size = options.wheel.stat().st_size
    released = released_bytes(options.wheel.name)
    print(f"{options.wheel.name}: {size / 1e6:.2f} MB, {size / released - 1:+.1%} to the last release")
    if "slipway/THIRD_PARTY_LICENSES" not in zipfile.ZipFile(options.wheel).namelist():
        sys.exit("error: the licences of other projects' code are not in it")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        programs = folder / "venv" / "bin"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_", "VIRTUAL_ENV"))} | {
            "PIP_CONFIG_FILE": os.devnull
        }
        for _ in range(3):  # other programs may take the machine's time
            venv.create(folder / "venv", with_pip=True, clear=True)
            start = time.monotonic()
            run(
                programs / "python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-index",
                "--disable-pip-version-check",
                options.wheel,
                env=clean,
            )
            installed = time.monotonic()
            run(
                programs / "slipway",
                "convert",
                PROGRAM,
                "--weights",
                options.weights,
                "-o",
                folder / "minilm.onnx",
                "-q",
                env=clean,
            )
            took = time.monotonic() - start
            print(f"pip install {installed - start:.2f} s, with the conversion {took:.2f} s")
            if took <= options.most_seconds:
                break
        library = folder / "minilm.so"
        run(programs / "python", "-c", CONVERT, PROGRAM, options.weights, library, env=clean)
        run(sys.executable, ROOT / "packaging" / "check_glibc.py", "--most", "2.28", options.wheel, library)
        if importlib.util.find_spec("numpy"):
            site = next((folder / "venv" / "lib").glob("python*/site-packages"))
            run(sys.executable, "-c", RUN, library, env=clean | {"PYTHONPATH": os.fspath(site)})
        else:
            print("slipway.load: not checked, there is no numpy")
    if size > released * (1 + GROWTH):
        sys.exit(f"error: larger than the last release's by more than {GROWTH:.0%} (packaging/wheel_sizes.txt)")
    if took > options.most_seconds:
        sys.exit(f"error: each of three times more than {options.most_seconds} s from pip install to the file")


if __name__ == "__main__":
    main()
