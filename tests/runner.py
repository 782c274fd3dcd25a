#!/usr/bin/env python3
"""Finds and runs the tests, as many at a time as there are processors, and counts them.

NAME is a tier, a suite, a group, or SUITE/FILE, one test of a suite. Without names: lint and change.

  tier    lint      what reads the sources alone; it runs before anything is built
          change    unit, golden, cli, hostile and interop, but for the tests that a group has: for every change
          all       lint, change and all groups
          ci        lint, change, today's groups and those whose files the commits of the last two days touch, as far
                    as they end within 65 minutes: the last line says which ran
  suite   unit      every case of GoogleTest that ctest knows in the build folder
          golden, cli, hostile, interop, lint, builds, arm: the folder of this name under tests/
  group   tests/groups.py has them: builds with sanitizers and other compilers, releases, 64-bit Arm, fuzzing

  SUITE/*.golden    a transcript: the first line is "$ COMMAND", the rest what it must print on stdout; a status other
                    than 0 is a last line "[exit N]". --update rewrites the expected part.
  SUITE/*.sh        a bash script that must exit 0, run with -eu in an empty folder; one whose last line says "not run:
                    WHY" counts as neither passed nor failed
  SUITE/*_test.py   pytest: one process a processor for all files

Commands see SLIPWAY (the binary, also first on PATH), ROOT (the checkout), PYTHON and MINILM (the folder with the
sample's weights). The build folder is build/, or what SLIPWAY_BUILD says: SLIPWAY_BUILD=build/clang tests/runner.py
unit golden cli. SLIPWAY_TEST_LIMIT_S are the seconds that one test may take (900), where an emulator runs them. Before
the last line stand the seconds of each suite and the slowest tests; the last line is "N passed, M failed: NAMES".
"""

import argparse
import collections
import concurrent.futures
import datetime
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import groups

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("SLIPWAY_BUILD", ROOT / "build")).resolve()
LINT = ("lint",)
CHANGE = ("unit", "golden", "cli", "hostile", "interop")
SUITES = (*LINT, *CHANGE, "builds", "arm")
JOBS = int(os.environ.get("JOBS", 0)) or len(os.sched_getaffinity(0))
LIMIT_S = int(os.environ.get("SLIPWAY_TEST_LIMIT_S", 900))
GROUP_LIMIT_S = 3600  # of a test of a group, which builds
CI_END_S = 65 * 60  # after the beginning of a run of the tier ci: a group that takes longer is not begun
CI_STOP_S = 80 * 60  # a test of a group that runs then, on a slower machine, is stopped
NOT_RUN = "not run: "
SHOWN_LINES = 60
SLOWEST = 10
TIMES = BUILD / "test_times.json"  # seconds by test, of the last runs: the long ones begin first


class Outcome:
    """Of one test, or of one case of a suite that counts its own."""

    def __init__(self, name, passed, failed, seconds, output=""):
        self.name, self.passed, self.failed, self.seconds, self.output = name, passed, failed, seconds, output

    @property
    def suite(self):
        return self.name.partition("/")[0]


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
    """(exit status, stdout): a command past the time limit, in seconds, has status 124, and what it began is ended."""
    with subprocess.Popen(
        command, cwd=folder, env=environment() | more, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=stderr, text=True, errors="replace", start_new_session=True,
    ) as running:  # fmt: skip
        try:
            output, _ = running.communicate(timeout=limit)
            return running.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            output, _ = running.communicate()
            return 124, f"{output}\nstopped after {limit:.0f} s\n"


# --- scripts and transcripts ------------------------------------------------------------------------------------------


def run_script(path, scratch, update, stop):
    place = 'trap \'echo "${BASH_SOURCE[0]}:$LINENO: $BASH_COMMAND: exit $?" >&2\' ERR; source "$0"'
    limit = GROUP_LIMIT_S if path.parent.name in ("builds", "arm") else LIMIT_S
    left = stop - time.monotonic()
    status, output = call(
        ["bash", "-eEu", "-o", "pipefail", "-c", place, path], scratch, limit=max(0, min(limit, left)),
        TMPDIR=str(scratch),
    )  # fmt: skip
    if status == 124 and left < limit:
        return 0, 0, f"{output}{NOT_RUN}the time of this run was over"
    if status == 0 and output.rstrip().rpartition("\n")[2].startswith(NOT_RUN):
        return 0, 0, output
    return int(status == 0), int(status != 0), output


def run_golden(path, scratch, update, stop):
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


def run_alone(path, update, stop):
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slipway-test-") as scratch:
        run = run_golden if path.suffix == ".golden" else run_script
        passed, failed, output = run(path, pathlib.Path(scratch), update, stop)
    return Outcome(f"{path.parent.name}/{path.name}", passed, failed, time.monotonic() - start, output)


def run_pool(paths, update, jobs=JOBS, stop=math.inf):
    """`stop`: of time.monotonic(), where the time of the whole run is over."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        work = [pool.submit(run_alone, path, update, stop) for path in paths]
        for future in concurrent.futures.as_completed(work):
            yield future.result()


# --- suites that count their own cases --------------------------------------------------------------------------------


def cases_of(report, name_of):
    """An Outcome for each case of a JUnit file; skipped ones count as neither passed nor failed."""
    if not report.exists():
        return
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        bad = bool(kinds & {"failure", "error"}) or case.get("status") == "fail"
        skipped = not bad and ("skipped" in kinds or case.get("status") in ("notrun", "disabled"))
        yield Outcome(name_of(case), int(not bad and not skipped), int(bad), float(case.get("time", 0)))


def by_file(cases, files):
    """The cases of each file as one Outcome."""
    found = {file: Outcome(file, 0, 0, 0.0) for file in files}
    for case in cases:
        one = found[case.name]
        one.passed += case.passed
        one.failed += case.failed
        one.seconds += case.seconds
    return found


def run_unit():
    with tempfile.TemporaryDirectory(prefix="slipway-test-") as scratch:
        report = pathlib.Path(scratch) / "report.xml"
        status, output = call(
            ["ctest", "--test-dir", BUILD, "-L", "unit", "-j", str(JOBS), "--output-on-failure", "--no-tests=error",
             "--timeout", str(LIMIT_S), "--output-junit", report], ROOT, limit=10 * LIMIT_S,
        )  # fmt: skip
        cases = list(cases_of(report, lambda case: f"unit/{case.get('name')}"))
    if status != 0:
        if not any(case.failed for case in cases):
            cases.append(Outcome("unit", 0, 1, 0.0))
        next(case for case in cases if case.failed).output = output
    return cases


def run_pytest(paths):
    files = [f"{path.parent.name}/{path.name}" for path in paths]
    with tempfile.TemporaryDirectory(prefix="slipway-test-") as scratch:
        report = pathlib.Path(scratch) / "report.xml"
        parallel = ["-n", str(min(JOBS, len(files))), "--dist", "loadfile", "--no-loadscope-reorder"]
        status, output = call(
            [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", f"--timeout={LIMIT_S}",
             f"--junitxml={report}", *(parallel if len(files) > 1 else []), *paths],
            ROOT, limit=20 * LIMIT_S, TMPDIR=scratch, OMP_NUM_THREADS=str(max(1, JOBS // len(files))),
        )  # fmt: skip
        # A case's class is its file with dots, and a class of the file where there is one.
        stems = {file.removesuffix(".py").replace("/", "."): file for file in files}

        def file_of(case):
            parts = (case.get("classname") or case.get("name")).split(".")
            return next((stems[s] for n in range(len(parts)) if (s := ".".join(parts[n : n + 2])) in stems), files[0])

        found = by_file(cases_of(report, file_of), files)
    outcomes = list(found.values())
    if status != 0:
        bad = next((o for o in outcomes if o.failed), outcomes[0])
        bad.output = output
        bad.failed = bad.failed or 1
    for one in outcomes:
        if not one.passed and not one.failed:
            one.output = f"{NOT_RUN}all of its cases skip themselves"
    return outcomes


# --- what is run ------------------------------------------------------------------------------------------------------


def tests_of(suite):
    folder, _, name = suite.partition("/")
    paths = sorted(
        path for pattern in ("*.golden", "*.sh", "*_test.py") for path in (ROOT / "tests" / folder).glob(pattern)
    )
    return [path for path in paths if not name or path.name == name]


def is_known(name):
    if name in ("change", "all", "ci", "unit") or name in groups.GROUPS:
        return True
    return name.partition("/")[0] in SUITES and bool(tests_of(name))


def longest_first(paths):
    times = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    return sorted(paths, key=lambda path: -times.get(f"{path.parent.name}/{path.name}", 0))


class Report:
    def __init__(self):
        self.outcomes = []

    def add(self, outcome, shown=True):
        self.outcomes.append(outcome)
        if outcome.failed or shown:
            state = "FAIL" if outcome.failed else "ok" if outcome.passed else "--"
            print(
                f"{state:4} {outcome.name:44} {outcome.passed:5} passed {outcome.failed:4} failed  "
                f"{outcome.seconds:7.1f} s",
                flush=True,
            )
        if outcome.output and (outcome.failed or not outcome.passed):
            lines = outcome.output.splitlines()[-SHOWN_LINES:]
            print("\n".join("     | " + line for line in lines), flush=True)

    def totals(self):
        return sum(o.passed for o in self.outcomes), sum(o.failed for o in self.outcomes)

    def print_times(self, started):
        by_suite = collections.defaultdict(lambda: [0, 0, 0.0])
        for o in self.outcomes:
            row = by_suite[o.suite]
            row[0] += o.passed
            row[1] += o.failed
            row[2] += o.seconds
        print(f"\nseconds by suite, of {JOBS} at a time; {time.monotonic() - started:.0f} s in all:")
        for suite, (passed, failed, seconds) in by_suite.items():
            print(f"  {seconds:8.1f}  {suite:10} {passed:5} passed {failed:4} failed")
        print("the slowest:")
        for o in sorted(self.outcomes, key=lambda o: -o.seconds)[:SLOWEST]:
            print(f"  {o.seconds:8.1f}  {o.name}")

    def keep_times(self):
        times = json.loads(TIMES.read_text()) if TIMES.exists() else {}
        times |= {o.name: round(o.seconds, 1) for o in self.outcomes}
        if BUILD.exists():
            TIMES.write_text(json.dumps(times, indent=0, sort_keys=True))


def run_suites(names, report, update, without=frozenset()):
    """All tests of suites, or single ones of them, but for paths: scripts in a pool, then pytest's files together."""
    if "unit" in names:
        for case in run_unit():
            report.add(case, shown=False)
        unit = [o for o in report.outcomes if o.suite == "unit"]
        report.add(Outcome("unit", 0, 0, 0.0), shown=False)
        print(f"ok   unit {sum(o.passed for o in unit):45} passed {sum(o.failed for o in unit):4} failed", flush=True)
    paths = [path for name in names if name != "unit" for path in tests_of(name) if path not in without]
    scripts = [path for path in paths if path.suffix != ".py"]
    for outcome in run_pool(longest_first(scripts), update):
        report.add(outcome)
    if files := longest_first(path for path in paths if path.suffix == ".py"):
        for outcome in run_pytest(files):
            report.add(outcome)


def run_group(name, report, stop):
    paths = [path for test in groups.GROUPS[name].tests for path in tests_of(test)]
    for outcome in run_pool([path for path in paths if path.suffix != ".py"], False, jobs=1, stop=stop):
        report.add(outcome)
    if files := [path for path in paths if path.suffix == ".py"]:
        for outcome in run_pytest(files):
            report.add(outcome)


def set_up(parts):
    """What the tests need beside Python packages: scripts/setup.sh says what it does."""
    if subprocess.run([ROOT / "scripts" / "setup.sh", *parts], check=False).returncode != 0:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="tiers, suites, groups, or tests as SUITE/FILE")
    parser.add_argument("--update", action="store_true", help="rewrite golden texts that differ")
    parser.add_argument("--set-up", action="store_true", help="build what is tested, after the tests of lint")
    arguments = parser.parse_args()
    names = arguments.names or ["lint", "change"]
    if unknown := [name for name in names if not is_known(name)]:
        parser.error(f"no such suite or test: {', '.join(unknown)}")

    started = time.monotonic()
    report = Report()
    tiers = {"change": CHANGE, "all": (*LINT, *CHANGE), "ci": (*LINT, *CHANGE)}
    suites = list(dict.fromkeys(s for name in names if name not in groups.GROUPS for s in tiers.get(name, (name,))))
    grouped = {path for group in groups.GROUPS.values() for test in group.tests for path in tests_of(test)}
    chosen = [name for name in names if name in groups.GROUPS]
    why = ""
    if "all" in names:
        chosen = list(groups.GROUPS)
    elif "ci" in names:
        chosen, why = groups.of_today(ROOT, datetime.date.today())

    run_suites([s for s in suites if s.partition("/")[0] in LINT], report, arguments.update)
    rest = [s for s in suites if s.partition("/")[0] not in LINT]
    if arguments.set_up and (rest or chosen):
        set_up(["onnx", "minilm", "tests"])
    run_suites(rest, report, arguments.update, grouped if set(names) & set(tiers) else frozenset())
    ran = []
    for name in chosen:
        seconds = time.monotonic() - started
        if "ci" in names and seconds + groups.GROUPS[name].minutes * 60 > CI_END_S:
            print(f"--   group {name}: not run, it takes {groups.GROUPS[name].minutes} minutes", flush=True)
            continue
        run_group(name, report, started + CI_STOP_S if "ci" in names else math.inf)
        ran.append(name)

    report.print_times(started)
    report.keep_times()
    if why:
        print(why)
    passed, failed = report.totals()
    print(f"{passed} passed, {failed} failed: {' '.join([*suites, *ran])}")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
