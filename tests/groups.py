#!/usr/bin/env python3
"""The groups of tests that not every change needs: what each runs, and which files it says something about.

Continuous integration (tests/runner.py ci) runs those whose files the commits of the last two days touch and two more,
in turn by date, so that each runs once a week. By hand: tests/run.sh GROUP, or tests/run.sh all. As a program it prints
the groups of today, or with --all every one, as JSON.
"""

import dataclasses
import datetime
import json
import pathlib
import re
import subprocess
import sys

BUILD = (
    r"^(CMakeLists\.txt|CMakePresets\.json|cmake/|scripts/setup\.sh|tests/(groups|runner)\.py|tests/builds/lib\.bash)"
)


@dataclasses.dataclass(frozen=True)
class Group:
    tests: tuple[str, ...]  # as tests/runner.py takes them
    minutes: int  # on two processors, without a compiler cache; what CI begins must end in its time
    paths: tuple[str, ...]  # regular expressions of what git lists; the tests themselves count, too

    def is_touched(self, file):
        return file.removeprefix("tests/") in self.tests or any(re.search(path, file) for path in self.paths)


# What a group's own script says is not repeated here: it begins with what it builds and runs, and why.
GROUPS = {
    "operators": Group(
        ("interop/opinfo_test.py",), 7,
        (r"^(importers|ir|passes|schemas|onnx_model|exporters/onnx)/",),
    ),
    "pt2e": Group(
        ("interop/pt2e_quantizer_test.py", "interop/pt2e_onnx_test.py"), 4,
        (r"^quantizer/",),
    ),
    "samples": Group(
        ("interop/guide_test.py", "interop/llm_sample_test.py", "interop/ci_samples_test.py",
         "interop/notebook_test.py"), 4,
        (r"^samples/", r"^docs/guide/", r"^packaging/python/"),
    ),
    "asan": Group(("builds/asan.sh",), 25, (r"^(io|importers|weights|runtime|capi)/", r"^kernels/executor/")),
    "tsan": Group(("builds/tsan.sh",), 6, (r"^kernels/(parallel|scratch|executor/|posix/)", r"^runtime/")),
    "compilers": Group(
        ("builds/clang.sh", "builds/windows.sh", "builds/aarch64.sh"), 15,
        (r"^(base|io|schemas|ir|kernels|runtime)/", BUILD),
    ),
    "debug": Group(("builds/debug.sh",), 10, (BUILD,)),
    "release": Group(
        ("builds/release.sh",), 25, (r"^packaging/", r"^pyproject\.toml", r"^scripts/(release|build_wheel)", BUILD)
    ),
    "arm": Group(
        ("arm/check.sh", "cli/target.sh", "interop/target_test.py"), 10,
        (r"^kernels/isa/", r"^runtime/", r"^tests/arm/", r"^cmake/(CrossRuntime|InstructionSets)",
         r"^exporters/native/"),
    ),
    "fuzz": Group(("builds/fuzz.sh",), 8, (r"^tests/fuzz/", r"^(io|importers|onnx_model)/")),
}  # fmt: skip


def touched(root, since="2 days ago"):
    """The files of the commits since then; empty where git's history is not there."""
    shallow = subprocess.run(
        ["git", "-C", root, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=False
    )
    if shallow.stdout.strip() != "false":  # its oldest commit would seem to touch everything
        return set()
    listed = subprocess.run(
        ["git", "-C", root, "log", f"--since={since}", "--name-only", "--format="],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return set(filter(None, listed.stdout.splitlines()))


def of_today(root, date):
    """(names of groups in the order in which they run, a sentence that says why). In turn are one of those that build
    and one of those that do not."""
    building = [name for name in GROUPS if any(test.endswith(".sh") for test in GROUPS[name].tests)]
    others = [name for name in GROUPS if name not in building]
    in_turn = [names[date.toordinal() % len(names)] for names in (others, building)]
    files = touched(root)
    first = date.toordinal() % len(GROUPS)
    rotated = [*GROUPS][first:] + [*GROUPS][:first]  # no group is always the last, for which there is no time
    wanted = [name for name in rotated if name not in in_turn and any(map(GROUPS[name].is_touched, files))]
    because = ", ".join(wanted) or "none"
    return in_turn + wanted, f"groups: {', '.join(in_turn)} in turn; touched by {len(files)} files: {because}"


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent.parent
    print(json.dumps(list(GROUPS) if "--all" in sys.argv else of_today(here, datetime.date.today())[0]))
