"""The files that git tracks, for the checks beside this one."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tracked_lines(*patterns):
    """(name, lines) of each tracked file that the patterns of `git ls-files` match."""
    command = ["git", "ls-files", "-z", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    for name in listed.stdout.split("\0")[:-1]:
        yield name, (ROOT / name).read_text(encoding="utf8").splitlines()
