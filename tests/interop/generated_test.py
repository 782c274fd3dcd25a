"""The generated data files are what their scripts give with the pinned packages."""

import pathlib
import subprocess
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"


@pytest.mark.parametrize("script", ["gen_op_schemas.py", "gen_ort_kernels.py", "gen_special_tables.py"])
def test_is_current(script):
    done = subprocess.run([sys.executable, SCRIPTS / script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
