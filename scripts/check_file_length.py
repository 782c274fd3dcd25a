"""Files of code over 600 lines: file and lines; exits 1 if there are any. A file that has one reason to be long gives
it in its first comment, in a sentence that begins with "Long because". Tests against torch (tests/interop) have no
limit.
"""

import itertools
import re
import sys

from tracked import tracked_lines

LINES = 600
CODE = ("*.cc", "*.h", "*.js", "*.py", ":!tests/interop")
REASON = "Long because"


def first_comment(lines):
    """The comment, or the docstring, that a file begins with, on one line."""
    lines = itertools.dropwhile(lambda line: line.startswith("#!") or not line.strip(), lines)
    text = "\n".join(lines)
    if found := re.match(r'"""(.*?)"""', text, re.S):
        return " ".join(found[1].split())
    taken = itertools.takewhile(lambda line: line.startswith(("//", "#")), text.splitlines())
    return " ".join(line.lstrip("/# ") for line in taken)


def main():
    found = False
    for name, lines in tracked_lines(*CODE):
        if len(lines) > LINES and REASON not in first_comment(lines):
            print(f"{name}: {len(lines)} lines")
            found = True
    sys.exit(found)


if __name__ == "__main__":
    main()
