"""The program, called with the flags that keyword arguments stand for; what it says becomes results and exceptions."""

from __future__ import annotations

import importlib.util
import json as _json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Union

StrPath = Union[str, "os.PathLike[str]"]
# A flag's value: True sets a switch, a sequence repeats the flag, a mapping repeats it with KEY=VALUE; None and False
# leave it out.
Option = Union[None, bool, int, float, str, "os.PathLike[str]", Sequence[StrPath], Mapping[str, object]]


@dataclass(frozen=True)
class Diagnostic:
    """What the program says of a problem (docs/diagnostics.md)."""

    severity: str  # error, warning or note
    id: str  # "SW2001"
    cause: str
    place: str = ""
    help: str = ""

    def __str__(self) -> str:
        text = f"{self.severity}[{self.id}]: {self.cause}"
        text += f"\n  --> {self.place}" if self.place else ""
        return text + (f"\n  help: {self.help}" if self.help else "")


class SlipwayError(RuntimeError):
    """A command that did not end well: `code` is its exit code (docs/cli.md), `diagnostics` is all that it said."""

    def __init__(self, code: int, diagnostics: Sequence[Diagnostic], output: str = "") -> None:
        self.code = code
        self.diagnostics = list(diagnostics)
        errors = [str(d) for d in self.diagnostics if d.severity == "error"]
        super().__init__("\n".join(errors) or output.strip() or f"slipway ended with exit code {code}")


@dataclass(frozen=True)
class Result:
    """What a conversion came to."""

    output: Path
    report: Mapping[str, Any]  # schemas/convert.schema.json; of quantize() schemas/quantize.schema.json
    diagnostics: Sequence[Diagnostic] = field(default=())  # warnings and notes


@dataclass(frozen=True)
class Report:
    """What a command says as JSON (schemas/COMMAND.schema.json). True as a condition where the answer is yes: two
    models agree, two files are equal."""

    ok: bool
    data: Any
    diagnostics: Sequence[Diagnostic] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return self.ok

    def __getitem__(self, key: str) -> Any:
        return self.data[key]


def program() -> Path:
    """Where the program is."""
    return Path(__file__).parent / "bin" / "slipway"


def main() -> NoReturn:
    """The command `slipway`."""
    path = os.fspath(program())
    os.execv(path, [path, *sys.argv[1:]])


def _diagnostics(text: str) -> tuple[list[Diagnostic], str]:
    found, rest = [], []
    for line in text.splitlines():
        try:
            row = _json.loads(line)
            found.append(Diagnostic(**{key: str(row[key]) for key in ("severity", "id", "cause", "place", "help")}))
        except (ValueError, TypeError, KeyError):
            rest.append(line)
    return found, "\n".join(rest)


def _run(arguments: Sequence[StrPath], accepted: Sequence[int]) -> tuple[int, str, list[Diagnostic]]:
    command = [os.fspath(program()), *(os.fspath(a) for a in arguments), "--diagnostics", "json"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    diagnostics, rest = _diagnostics(done.stderr)
    if done.returncode not in accepted:
        raise SlipwayError(done.returncode, diagnostics, rest)
    return done.returncode, done.stdout, diagnostics


def run_command(arguments: Sequence[StrPath]) -> tuple[str, list[Diagnostic]]:
    """Runs `slipway ARGUMENTS`, which takes --diagnostics: its standard output and what it said. SlipwayError for exit
    codes beyond 0."""
    _, text, diagnostics = _run(arguments, (0,))
    return text, diagnostics


def option_values(options: Mapping[str, Option]) -> Iterator[tuple[str, str | None]]:
    """The flags that keyword arguments stand for, with a value each; None of switches."""
    for name, value in options.items():
        if value is None or value is False:
            continue
        if value is True:
            yield name, None
        elif isinstance(value, Mapping):
            for key, item in value.items():
                yield name, f"{key}={item}"
        elif isinstance(value, (str, os.PathLike)) or not isinstance(value, Sequence):
            yield name, os.fspath(value) if isinstance(value, os.PathLike) else str(value)
        else:
            for item in value:
                yield name, os.fspath(item)


def _flags(options: Mapping[str, Option]) -> list[str]:
    flags: list[str] = []
    for name, value in option_values(options):
        flag = "--" + name.replace("_", "-")
        flags.append(flag if value is None else f"{flag}={value}")
    return flags


def _path(path: StrPath) -> str:
    text = os.fspath(path)
    return "./" + text if text.startswith("-") else text


def _inputs(source: StrPath | Sequence[StrPath] | Mapping[str, StrPath]) -> list[str]:
    if isinstance(source, Mapping):
        return [f"{name}={os.fspath(path)}" for name, path in source.items()]
    if isinstance(source, (str, os.PathLike)):
        return [_path(source)]
    return [_path(path) for path in source]


def convert_files(
    source: StrPath | Sequence[StrPath] | Mapping[str, StrPath], output: StrPath, options: Mapping[str, Option]
) -> Result:
    """`slipway convert`, in a process of its own."""
    flags = _flags(options)
    report, diagnostics = run_command(["convert", *_inputs(source), "-o", os.fspath(output), "--json", *flags])
    return Result(Path(output), _json.loads(report), tuple(diagnostics))


def report(
    command: str, files: Sequence[StrPath], options: Mapping[str, Option], json: bool, no_is_answer: bool = False
) -> Report:
    """A command's report. With `no_is_answer` exit code 1 is one, too. The Python that runs ONNX models is this one, if
    it can."""
    if options.get("python", "") is None and importlib.util.find_spec("onnxruntime") and sys.executable:
        options = {**options, "python": sys.executable}
    arguments = [command, *map(_path, files), *(["--json"] if json else []), *_flags(options)]
    code, text, diagnostics = _run(arguments, (0, 1) if no_is_answer else (0,))
    if code != 0 and not text.strip():
        raise SlipwayError(code, diagnostics)
    return Report(code == 0, _json.loads(text) if text.strip() else {}, tuple(diagnostics))


def result(
    command: str, files: Sequence[StrPath | Sequence[StrPath]], options: Mapping[str, Option], json: bool
) -> Result:
    """A command's that writes a file."""
    text, diagnostics = run_command([command, *_inputs(files[0]), *(["--json"] if json else []), *_flags(options)])
    output = options["output"]
    assert isinstance(output, (str, os.PathLike))
    return Result(Path(output), _json.loads(text) if text.strip() else {}, tuple(diagnostics))


def parsed(command: str, files: Sequence[StrPath], options: Mapping[str, Option], json: bool) -> Any:
    """A command's report as it is printed."""
    return report(command, files, options, json).data
