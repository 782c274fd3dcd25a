"""Symbolic integers against sympy: sym_property.py on a few fixed seeds."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("seed", [0, 1])
def test_random_expressions(seed):
    tool = pathlib.Path(os.environ.get("SLIPWAY", HERE.parent.parent / "build" / "slipway")).parent / "sym_eval"
    done = subprocess.run(
        [sys.executable, HERE / "sym_property.py", tool, "--seed", str(seed), "--count", "3000"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
