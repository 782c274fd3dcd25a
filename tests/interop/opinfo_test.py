"""Operators against torch eager, on samples of torch's operator database (opinfo.py).

A run takes a few samples of every operator in float32 and of every other one in one more dtype; the choice depends on
nothing but names. Environment:

  SLIPWAY_OPINFO=all        every sample, dtype and mode (hours)
  SLIPWAY_OPINFO_MATCH=RE   only cases whose name the expression finds, in every dtype and mode
  SLIPWAY_OPINFO_UPDATE=1   rewrites opinfo_operators.txt, the operators that a whole run checks (docs/ops.md tells
  them)

opinfo_expected_failures.txt lists the cases of which a sample fails: case, status (convert, load or exec; wrong values
are no expected failure), reason, between tabs. It may only shrink: a listed case fails when all its samples pass.
"""

import logging
import os
import pathlib
import re
import subprocess
import warnings
import zlib

import opinfo
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("SLIPWAY", str(ROOT / "build" / "slipway"))
HERE = pathlib.Path(__file__).resolve().parent
LIST, OPERATORS = HERE / "opinfo_expected_failures.txt", HERE / "opinfo_operators.txt"
STATUSES = ("convert", "load", "exec", "sizes")
MODES = ("plain", "dynamic", "decomposed")
DEFAULT_MODES = ("plain",) * 13 + ("dynamic",) * 2 + ("decomposed",)  # by what they cost
SAMPLES = 2  # in a default run
EVERYTHING = os.environ.get("SLIPWAY_OPINFO") == "all"
MATCH = os.environ.get("SLIPWAY_OPINFO_MATCH")
UPDATE = os.environ.get("SLIPWAY_OPINFO_UPDATE") == "1"

warnings.simplefilter("ignore")  # of deprecated operators, and of tracing
logging.disable(logging.ERROR)
torch.set_num_threads(1)

checked = set()  # operators in programs that passed


def expected_failures():
    """Case -> status."""
    rows = [line.split("\t") for line in LIST.read_text().splitlines() if not line.startswith("#")]
    assert all(len(row) == 3 and row[1] in STATUSES and row[2] for row in rows), f"{LIST.name}: case, status, reason"
    assert [row[0] for row in rows] == sorted({row[0] for row in rows}), f"{LIST.name}: sorted, each case once"
    return {case: status for case, status, _ in rows}


def digest(text):
    return zlib.crc32(text.encode())


def cases():
    """(name, OpInfo, dtype) of the run."""
    for name, info in opinfo.operators().items():
        dtypes = [d for d in opinfo.DTYPES if info.supports_dtype(opinfo.DTYPES[d], "cpu")]
        if not EVERYTHING and MATCH is None:
            others = [d for d in dtypes if d != "float32"]
            dtypes = [d for d in dtypes if d == "float32"]
            if others and (digest(name) % 2 == 0 or not dtypes):
                dtypes.append(others[digest(name) // 2 % len(others)])
        for dtype in dtypes:
            if MATCH is None or re.search(MATCH, f"{name}.{dtype}"):
                yield f"{name}.{dtype}", info, opinfo.DTYPES[dtype]


CASES = {name: (info, dtype) for name, info, dtype in cases()}
EXPECTED = expected_failures()


def slipway(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, errors="replace")


def failures(calls, folder, mode):
    """The failing ones of `calls`: [(call, Failure)]. Those of a program that fails or does not export are tried
    apart."""
    try:
        checked.update(opinfo.check(calls, slipway, folder, mode))
        return []
    except opinfo.Skip:
        if len(calls) == 1:
            return []
    except opinfo.Failure as failure:
        if len(calls) == 1:
            return [(calls[0], failure)]
    middle = len(calls) // 2
    return failures(calls[:middle], folder, mode) + failures(calls[middle:], folder, mode)


def programs(name, calls):
    """(calls, mode) of each program to check; the first are a default run's."""
    start = digest(name)
    first = start % max(1, len(calls) - SAMPLES + 1)
    order = calls[first:] + calls[:first]
    usual = DEFAULT_MODES[start % len(DEFAULT_MODES)]
    yield order[:SAMPLES], usual
    if not EVERYTHING and MATCH is None and name not in EXPECTED:
        return
    for mode in MODES:
        rest = order[SAMPLES if mode == usual else 0 :]
        for k in range(0, len(rest), opinfo.PER_PROGRAM):
            yield rest[k : k + opinfo.PER_PROGRAM], mode


@pytest.mark.parametrize("name", CASES)
def test_case(name, tmp_path):
    info, dtype = CASES[name]
    found = []
    try:
        calls = opinfo.calls(info, dtype)
    except opinfo.Skip as skip:
        pytest.skip(str(skip))
    for some, mode in programs(name, calls):
        found += [(mode, *failing) for failing in failures(some, tmp_path, mode)]
        if name in EXPECTED and found and not EVERYTHING:
            break  # fails as it should
    wrong = [f"{mode} {call}: {failure}" for mode, call, failure in found if failure.status != EXPECTED.get(name)]
    assert not wrong, "\n".join(wrong)
    assert found or name not in EXPECTED, f"passes: remove it from {LIST.name}"


def test_list_names_cases():
    operators = opinfo.operators()
    unknown = [
        c for c in EXPECTED if c.rpartition(".")[0] not in operators or c.rpartition(".")[2] not in opinfo.DTYPES
    ]
    assert not unknown


@pytest.mark.skipif(EVERYTHING or MATCH is not None, reason="not the run that the list is of")
def test_operators(request):
    """Runs last: what docs/ops.md tells to be tested was."""
    ran = {item.name for item in request.session.items}
    if not all(f"test_case[{name}]" in ran for name in CASES):
        pytest.skip("not all cases ran")
    met = sorted(str(operator) for operator in checked if operator.namespace == "aten")
    if UPDATE:
        OPERATORS.write_text("".join(f"{operator}\n" for operator in met))
    missing = set(OPERATORS.read_text().split()) - set(met)
    assert not missing, "SLIPWAY_OPINFO_UPDATE=1 rewrites the list"
