#!/usr/bin/env python3
"""Words that the code has given up (docs/glossary.md, last column, in code quotes) do not come back.

check_words.py        # lists FILE:LINE: WORD; exits 1 where there is one
"""

import re
import sys

from tracked import ROOT, tracked_lines

ROOMS = ("kernels/", "planner/", "passes/")
SOURCES = (".cc", ".h")


def former_words():
    """The quoted words of the glossary's last column that are in no other one."""
    former, present = set(), set()
    for line in (ROOT / "docs/glossary.md").read_text(encoding="utf8").splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) == 4 and line.startswith("|"):
            former |= set(re.findall(r"`(\w+)`", cells[3]))
            present |= set(re.findall(r"`(\w+)`", cells[1] + cells[2]))
    return former - present


def main():
    # As whole words, or as the beginning of a longer name in capitals.
    words = "|".join(sorted(former_words()))
    pattern = re.compile(rf"(?<![A-Za-z0-9_])({words})(?=[A-Z]|[^A-Za-z0-9_]|$)")
    found = 0
    for name, lines in tracked_lines(*ROOMS):
        if not name.endswith(SOURCES):
            continue
        for number, line in enumerate(lines, 1):
            for word in pattern.findall(line):
                print(f"{name}:{number}: {word}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
