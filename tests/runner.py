#!/usr/bin/env python3
"""Finds and runs the tests, at most two at a time, and counts them.

  unit                     everything ctest knows in the build folder (each gtest case counts)
  SUITE/*.golden           a transcript: the first line is "$ COMMAND", the rest what it must print on stdout; a status
                           other than 0 is a last line "[exit N]". --update rewrites the expected part.
  SUITE/*.sh               a bash script that must exit 0, run with -eu in an empty folder; one whose last line says
                           "not run: WHY" counts as neither
  SUITE/*_test.py          pytest

SUITE is builds, lint, golden, cli, hostile, interop or arm under tests/; SUITE/FILE is one of its tests. Commands see
SLIPWAY (the binary, also first on PATH), ROOT (the checkout), PYTHON and MINILM (the folder with the sample's weights).
The build folder is build/, or what SLIPWAY_BUILD says: SLIPWAY_BUILD=build/clang tests/runner.py unit golden cli.
SLIPWAY_TEST_LIMIT_S are the seconds that one test may take (900), where an emulator runs them. The last line is "N
passed, M failed".
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("SLIPWAY_BUILD", ROOT / "build")).resolve()
SUITES = ("builds", "lint", "unit", "golden", "cli", "hostile", "interop", "arm")  # no long test runs last, alone
JOBS = 2
LIMIT_S = int(os.environ.get("SLIPWAY_TEST_LIMIT_S", 900))
BUILD_LIMIT_S = 3600  # of a test of tests/builds, on an empty machine
NOT_RUN = "not run: "
SHOWN_LINES = 60


def environment():
    return os.environ | {
        "SLIPWAY_BUILD": str(BUILD),
        "SLIPWAY": str(BUILD / "slipway"),
        "ROOT": str(ROOT),
        "PYTHON": sys.executable,
        "MINILM": str(ROOT / "build" / "deps" / "minilm"),
        "PATH": f"{BUILD}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
    }


def call(command, folder, stderr=subprocess.STDOUT, limit=LIMIT_S, **more):
    """(exit status, stdout): a command past the time limit, in seconds, has status 124."""
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment() | more, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=stderr,
            timeout=limit, text=True, errors="replace",
        )  # fmt: skip
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        return 124, (expired.stdout or b"").decode(errors="replace") + f"\nstopped after {limit} s\n"


def counted(files, status):
    """(passed, failed) of JUnit files; a run that failed without saying where counts as one more failure."""
    tests = failed = 0
    for file in files:
        for suite in xml.etree.ElementTree.parse(file).getroot().iter("testsuite"):
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
            tests += int(suite.get("tests", 0)) - skipped
            failed += bad
    passed = tests - failed
    return passed, failed + (1 if status != 0 and failed == 0 else 0)


def run_unit(_, scratch, __):
    status, output = call(
        ["ctest", "--test-dir", BUILD, "--output-on-failure", "--no-tests=error", "--timeout", str(LIMIT_S)],
        ROOT,
        GTEST_OUTPUT=f"xml:{scratch}/",
    )
    return *counted(sorted(scratch.glob("*.xml")), status), output


def run_pytest(path, scratch, _):
    report = scratch / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", path]
    status, output = call(command, ROOT, TMPDIR=str(scratch))
    return *counted([report] if report.exists() else [], status), output


def run_script(path, scratch, _):
    place = 'trap \'echo "${BASH_SOURCE[0]}:$LINENO: $BASH_COMMAND: exit $?" >&2\' ERR; source "$0"'
    limit = BUILD_LIMIT_S if path.parent.name == "builds" else LIMIT_S
    status, output = call(
        ["bash", "-eEu", "-o", "pipefail", "-c", place, path], scratch, limit=limit, TMPDIR=str(scratch)
    )
    if status == 0 and output.rstrip().rpartition("\n")[2].startswith(NOT_RUN):
        return 0, 0, output
    return int(status == 0), int(status != 0), output


def run_golden(path, scratch, update):
    command, _, expected = path.read_text().partition("\n")
    if not command.startswith("$ "):
        return 0, 1, f'{path}: the first line is not "$ COMMAND"\n'
    status, actual = call(["bash", "-c", command[2:]], ROOT, stderr=None, TMPDIR=str(scratch))
    if status != 0:
        actual += f"[exit {status}]\n"
    if actual == expected:
        return 1, 0, ""
    if update:
        path.write_text(f"{command}\n{actual}")
        return 1, 0, "updated\n"
    (scratch / "expected").write_text(expected)
    (scratch / "actual").write_text(actual)
    _, difference = call(["diff", "-u", "expected", "actual"], scratch)
    return 0, 1, difference


KINDS = {"*.golden": run_golden, "*.sh": run_script, "*_test.py": run_pytest}


def jobs(suites):
    for suite in suites:
        if suite == "unit":
            yield "unit", None, run_unit
            continue
        folder, one, name = suite.partition("/")
        for pattern, function in KINDS.items():
            for path in sorted((ROOT / "tests" / folder).glob(pattern)):
                if not one or name == path.name:
                    yield f"{folder}/{path.name}", path, function


def timed(name, path, function, update):
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slipway-test-") as scratch:
        passed, failed, output = function(path, pathlib.Path(scratch), update)
    return name, passed, failed, output, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)} (default: all), or one test: SUITE/FILE"
    )
    parser.add_argument("--update", action="store_true", help="rewrite golden texts that differ")
    arguments = parser.parse_args()
    if unknown := [
        s for s in arguments.suites if s != "unit" and (s.partition("/")[0] not in SUITES or not any(jobs([s])))
    ]:
        parser.error(f"no such suite or test: {', '.join(unknown)}")
    total_passed = total_failed = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        work = [pool.submit(timed, *job, arguments.update) for job in jobs(arguments.suites or SUITES)]
        for future in concurrent.futures.as_completed(work):
            name, passed, failed, output, seconds = future.result()
            total_passed += passed
            total_failed += failed
            print(
                f"{'FAIL' if failed else 'ok' if passed else '--':4} {name:40} {passed:5} passed {failed:4} failed  "
                f"{seconds:7.1f} s",
                flush=True,
            )
            if failed or not passed:
                print("\n".join("     | " + line for line in output.splitlines()[-SHOWN_LINES:]), flush=True)
    print(f"{total_passed} passed, {total_failed} failed")
    sys.exit(1 if total_failed or not total_passed else 0)


if __name__ == "__main__":
    main()
