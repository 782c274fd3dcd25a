"""What the Python tests share: the binary under test, the sample model's weights, and a seed."""

import gc
import os
import pathlib
import random
import shutil
import subprocess
import sys

import pytest
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "samples"))


def pytest_collection_finish(session):
    """To look through torch's own million objects for garbage, again and again, takes a tenth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


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


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The Python package, imported from a folder that is laid out as an installed wheel."""
    binary = pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway"))
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "packaging" / "python" / "slipway", site / "slipway")
    (site / "slipway" / "bin").mkdir()
    os.symlink(binary, site / "slipway" / "bin" / "slipway")
    (site / "slipway" / "lib").mkdir()
    os.symlink(binary.parent / "libslipway.so", site / "slipway" / "lib" / "libslipway.so.0")
    (site / "slipway-0.dist-info").mkdir()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (site / "slipway-0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: slipway\nVersion: 0\n")
    (site / "slipway-0.dist-info" / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in entries.items())
            for group, entries in project["entry-points"].items()
        )
    )
    sys.path.insert(0, str(site))
    for name in [n for n in sys.modules if n.partition(".")[0] == "slipway"]:
        del sys.modules[name]  # another test's
    if registry := sys.modules.get("torch._dynamo.backends.registry"):  # which looks for packages' backends once
        registry._COMPILER_FNS.pop("slipway", None)
        registry._discover_entrypoint_backends.cache_clear()
        registry._discover_entrypoint_backends()
    import slipway

    yield slipway
    sys.path.remove(str(site))


@pytest.fixture(scope="module")
def library(package):
    """The same where its libslipway.so can be loaded."""
    folder = pathlib.Path(package.__file__).parent / "lib"
    if b"__asan_init" in (folder / "libslipway.so.0").read_bytes():
        pytest.skip("a sanitized library cannot be loaded into Python")
    return package


@pytest.fixture(scope="session")
def minilm():
    """The folder with model.safetensors and vocab.txt of all-MiniLM-L6-v2."""
    folder = pathlib.Path(os.environ.get("MINILM", ROOT / "build" / "deps" / "minilm"))
    assert (folder / "model.safetensors").exists(), f"no weights in {folder}: run scripts/setup.sh minilm"
    return folder
