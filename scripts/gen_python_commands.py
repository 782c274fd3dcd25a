#!/usr/bin/env python3
"""Writes _commands.py and _flags.py of the Python package: the program's commands as functions with typed keyword
arguments, from the manual page that the program prints of its own table of flags.

    build/venv/bin/python scripts/gen_python_commands.py build/slipway packaging/python/slipway

tests/interop/python_commands_test.py compares.
"""

import pathlib
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field

WIDTH = 120
# Commands, and what each gives: the class of its result and whether exit code 1 is an answer.
COMMANDS = {
    "diff": ("Report", True),
    "doctor": ("Report", True),
    "inspect": ("Any", False),
    "minify": ("Report", False),
    "quantize": ("Result", False),
    "run": ("Report", False),
    "shapes": ("Report", False),
    "unpack": ("Report", False),
    "verify": ("Report", True),
}
NOT_ARGUMENTS = {"help", "json", "diagnostics", "sarif", "color", "quiet"}
# Of inspect: other forms than JSON.
NO_JSON = {"inspect": {"ir", "header", "sources"}}
TYPES = {
    "N": "int",
    "RTOL": "float",
    "ATOL": "float",
    "NUMBER": "float",
    "SECONDS": "float",
    "SIZE": "int | str",
    "FILE": "StrPath",
    "DIR": "StrPath",
    "OUT": "StrPath",
    "LIBRARY": "StrPath",
    "PATH": "str",
}
PATHS = {"FILE", "DIR", "OUT", "LIBRARY"}
POSITIONAL = {"IN": "source"}


@dataclass
class Flag:
    name: str
    value: str
    help: str
    several: bool = False

    @property
    def argument(self):
        return self.name.replace("-", "_")

    def type(self):
        value = self.value
        if not value:
            return "bool"
        words = value.split("|")
        if len(words) > 1 and all(re.fullmatch(r"[a-z0-9.-]+", w) for w in words):
            one = "Literal[" + ", ".join(f'"{w}"' for w in words) + "]"
        else:
            one = TYPES.get(value, "str")
        if "=" in value and self.several:
            return f"{one} | Sequence[{one}] | Mapping[str, object]"
        return f"{one} | Sequence[{one}]" if self.several else one


@dataclass
class Command:
    name: str
    help: str
    positional: list = field(default_factory=list)
    flags: list = field(default_factory=list)
    required: list = field(default_factory=list)


def plain(roff):
    return roff.replace("\\&", "").replace("\\-", "-").replace("\\e", "\\").replace("\\fR", "")


def read(program):
    page = subprocess.run([program, "man"], check=True, capture_output=True, text=True).stdout
    commands = {}
    for part in page.split(".SH EXIT STATUS")[0].split(".SS slipway ")[1:]:
        head, *entries = part.split("\n.TP\n")
        name, text = head.split("\n", 1)
        command = Command(name, plain(text.strip()))
        for entry in entries:
            names, text = entry.split("\n", 1)
            found = re.fullmatch(r"\\fB(.*?)\\fR ?(.*)", names)
            words, value = plain(found[1]).split(", "), plain(found[2])
            long = [w[2:] for w in words if w.startswith("--")]
            text = plain(text.split("\n.")[0].strip()).replace("\n", " ")
            if long:
                command.flags.append(Flag(long[0], value, text))
            elif not words[0].startswith("-"):
                command.positional.append(Flag(words[0], "", text))
        usage = subprocess.run(
            [program, name, "-h"], check=True, capture_output=True, text=True, env={"COLUMNS": "200"}
        ).stdout
        for flag in command.flags:  # the page that is printed for people says what may be given several times
            line = re.search(rf"^ .*--{flag.name} .*$", usage, re.M)
            marked = line and re.search(rf"--{flag.name} [^ |]+…|repeated", line[0])
            flag.several = bool(flag.value and (marked or "repeated" in flag.help))
        line = usage.split("\n", 1)[0].split("[FLAG")[0]
        short = {"o": "output"}
        for word in re.findall(r"(?<!\S)--?([a-z-]+)", line):
            command.required.append(short.get(word, word))
        commands[name] = command
    return commands


def described(name, text, width):
    return textwrap.wrap(
        text,
        WIDTH - 4,
        initial_indent=name.ljust(width),
        subsequent_indent=" " * width,
        break_long_words=False,
        break_on_hyphens=False,
    )


def arguments_of(command):
    skipped = NOT_ARGUMENTS | NO_JSON.get(command.name, set())
    return [f for f in command.flags if f.name not in skipped]


def typed_dict(name, text, flags):
    lines = [f"class {name}(TypedDict, total=False):", f'    """{text}"""', ""]
    return [*lines, *(f"    {flag.argument}: {flag.type()} | None" for flag in flags)]


def for_libraries(flag):
    found = re.search(r"For ([a-z0-9, -]+)$", flag.help)
    return not found or "so" in found[1].split(", ")


def function(command):
    gives, no_is_answer = COMMANDS[command.name]
    flags = arguments_of(command)
    required = [f for name in command.required for f in flags if f.name == name]
    optional = [f for f in flags if f not in required]
    positional = [(p, POSITIONAL.get(p.name, p.name.lower())) for p in command.positional]
    several = command.name == "quantize"
    lines = [f"def {command.name}("]
    for p, name in positional:
        lines.append(f"    {name}: " + ("StrPath | Sequence[StrPath]" if several else "StrPath") + ",")
    lines += [f"    {f.argument}: {f.type()}," for f in required]
    if optional:
        lines.append("    *,")
    lines += [
        f"    {f.argument}: {f.type() + ' = False' if f.type() == 'bool' else f'{f.type()} | None = None'},"
        for f in optional
    ]
    lines.append(f") -> {gives}:")
    lines.append(f'    """{command.help}.')
    lines.append("")
    rows = [(name, p.help) for p, name in positional] + [(f.argument, f.help) for f in [*required, *optional]]
    width = max(len(name) for name, _ in rows) + 2
    for name, text in rows:
        lines += ["    " + line for line in described(name, text, width)]
    lines.append('    """')
    given = ", ".join(name for _, name in positional)
    options = [f'        "{f.argument}": {f.argument},' for f in [*required, *optional]]
    call = {"Report": "report", "Result": "result", "Any": "parsed"}[gives]
    json = any(f.name == "json" for f in command.flags)
    lines += ["    flags: dict[str, Option] = {", *options, "    }"]
    extra = ", no_is_answer=True" if no_is_answer else ""
    lines.append(f'    return {call}("{command.name}", [{given}], flags, json={json}{extra})')
    return lines


COMMANDS_HEAD = '''"""The commands as functions. Written by scripts/gen_python_commands.py from the table of flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ._program import Option, Report, Result, StrPath, parsed, report, result'''
FLAGS_HEAD = '''"""The types of convert's flags. Written by scripts/gen_python_commands.py from the table of flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from ._program import StrPath'''


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    project = pathlib.Path(__file__).resolve().parent.parent / "pyproject.toml"
    commands = read(program)
    # Those that are arguments of the functions themselves.
    flags = [f for f in arguments_of(commands["convert"]) if f.name not in ("output", "weights", "dynamic")]
    library = [f for f in flags if for_libraries(f) and f.name not in ("to", "state", "threads", "cache-dtype")]
    dicts = [
        typed_dict("ConvertFlags", "Flags of `slipway convert`.", flags),
        typed_dict("CompileFlags", "Those that libraries take.", library),
    ]
    for name, head, parts in (
        ("_commands.py", COMMANDS_HEAD, [function(commands[name]) for name in COMMANDS]),
        ("_flags.py", FLAGS_HEAD, dicts),
    ):
        text = "\n\n\n".join([head, *("\n".join(part) for part in parts)]) + "\n"
        form = [
            sys.executable,
            "-m",
            "ruff",
            "format",
            "--no-cache",
            "--config",
            project,
            "--stdin-filename",
            name,
            "-",
        ]
        done = subprocess.run(form, input=text, check=True, capture_output=True, text=True)
        (folder / name).write_text(done.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
