"""The commands of docs/guide/*.md, run as a reader would type them: each page's blocks in order, in an empty folder.

  ```sh        is run by bash, with slipway and this Python first on PATH
  ```text      behind it is what the commands print, standard error included; in it a line "…" is any lines, and a
               number with a fraction or a unit is any number
  ```python    or ```c or ```yaml is saved under the name in its first line, a comment: "# export.py"
  <!-- python  is set-up that readers do not see, run by this Python; <!-- sh: by bash. ROOT is the checkout

SLIPWAY_GUIDE_UPDATE=1 rewrites the text blocks that do not match.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import ROOT

PAGES = sorted((ROOT / "docs" / "guide").glob("[!R]*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$|^<!-- (python|sh)\n(.*?)^-->$", re.M | re.S)
NAMED = re.compile(r"(?:#|//|/\*) ([\w./-]+)")
VARYING = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?|\d+e-\d+|\d+(?= ?(?:s|ms|us|µs|ulp|[kKMG]i?B|bytes|%|GFLOP/s|GB/s)\b)")


def pattern(expected):
    """A regular expression for what a text block shows."""
    lines = []
    for line in expected.splitlines():
        if line.strip() == "…":
            lines.append(r"(?:.*\n)*?")
            continue
        parts = [re.escape(part) for part in VARYING.split(" ".join(line.split()))]
        lines.append(r"(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?)".join(parts) + r"\n")
    return re.compile("".join(lines))


def even(text):
    """Without what pads columns, whose widths follow from the numbers in them."""
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines())


def call(command, folder):
    binary = pathlib.Path(os.environ.get("SLIPWAY", ROOT / "build" / "slipway"))
    path = os.pathsep.join([str(binary.parent), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path, "ROOT": str(ROOT), "NO_COLOR": "1", "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tmp_path):
    text, output, done_to, new = page.read_text(), None, 0, []
    for block in BLOCK.finditer(text):
        kind, body = block[1] or block[3], block[2] if block[1] else block[4]
        line = text.count("\n", 0, block.start()) + 1
        if kind == "text":
            assert output is not None, f"{page}:{line}: no commands before this output"
            if not pattern(body).fullmatch(even(output)):
                assert os.environ.get("SLIPWAY_GUIDE_UPDATE"), f"{page}:{line}:\n{body}--- printed:\n{output}"
                new += [text[done_to : block.start(2)], output]
                done_to = block.end(2)
            output = None
        elif kind == "sh" or block[3]:
            run = ["bash", "-euo", "pipefail", "-c"] if kind == "sh" else [sys.executable, "-c"]
            done = call([*run, body], tmp_path)
            assert done.returncode == 0, f"{page}:{line}: exit {done.returncode}\n{body}---\n{done.stdout}"
            output = done.stdout if block[1] else None
        elif name := NAMED.match(body):
            (tmp_path / name[1]).write_text(body)
    if new:
        page.write_text("".join([*new, text[done_to:]]))
