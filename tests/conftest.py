"""What the Python tests share: the binary under test, the sample model's weights, and a seed."""

import os
import pathlib
import random
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "samples"))


@pytest.fixture(autouse=True)
def seeded():
    """Each test sees the same random numbers in each run, alone or after others."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def slipway():
    """Calls the binary: slipway("convert", ...) gives the finished process; fails the test unless it exits as `status`
    says."""
    binary = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))

    def call(*arguments, status=0):
        done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, errors="replace")
        assert done.returncode == status, (
            f"slipway {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}"
        )
        return done

    return call


@pytest.fixture(scope="session")
def minilm():
    """The folder with model.safetensors and vocab.txt of all-MiniLM-L6-v2."""
    folder = pathlib.Path(os.environ.get("MINILM", ROOT / "build" / "deps" / "minilm"))
    assert (folder / "model.safetensors").exists(), f"no weights in {folder}: run scripts/setup.sh minilm"
    return folder
