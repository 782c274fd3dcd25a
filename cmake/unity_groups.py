#!/usr/bin/env python3
"""Writes files that include several sources of a room each, for builds from nothing (SLIPWAY_UNITY).

Most of the time a file takes goes to the templates it uses, which its neighbours use, too: several in one file take half as long.
Names in unnamed namespaces and macros are a file's own, so that a source that has a word another has as such a name does not go with
it. This script looks for such names as the style of this repository sets them, at the beginning of a line.

    unity_groups.py FOLDER MOST_LINES SOURCE...       # prints the files that take the sources' place, with a ; between
"""
import functools
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMED = re.compile(r"^(?:inline |static |constexpr |constinit |extern )*(?:struct|class|enum class|enum|union|using|namespace) (\w+)")
CALLED = re.compile(r"([~\w]+)\($")  # what stands before the first parenthesis
TAKEN = re.compile(r"^using [\w:]+::(\w+);")
SET = re.compile(r"(\w+)(?:\[[^\]]*\])*\s*(?:[={;]|$)")
INCLUDE = re.compile(r'^#include "([\w/.]+)"', re.M)
MACRO = re.compile(r"^#define (\w+)")
USING = re.compile(r"^using ir::\w+;")  # a name that all rooms have from there, which may be said twice
TABLES = ("kRows", "kFamilies")  # what many sources call their table: a name that no header has, so that it can be another in each
NO_NAME = ("#", "//", "}", "{", " ", "template", "return", "namespace {", "extern \"C\"", ")")


def own_names(text):
    """What a file declares in unnamed namespaces, or static, or as a macro; too much rather than too little."""
    names, unnamed = set(), 0
    for line in text.splitlines():
        if macro := MACRO.match(line):
            names.add(macro[1])
        if re.match(r"^namespace \{", line):
            unnamed += 1
        elif unnamed and re.match(r"^\}  // namespace$", line):
            unnamed -= 1
        elif (unnamed or line.startswith("static ")) and (name := declared(line)):
            names.add(name)
    return names.difference(TABLES)


def declared(line):
    """The name that a line at the beginning of a declaration declares; None for other lines."""
    if not line or line.startswith(NO_NAME) or USING.match(line):
        return None
    if found := TAKEN.match(line) or NAMED.match(line):
        return found[1]
    before = line[: line.find("(") + 1]
    if before and "=" not in before and (found := CALLED.search(before)):
        return found[1]
    found = SET.search(line)
    return found[1] if found else None


@functools.cache
def header_names(path):
    """What a header declares, and the headers that it includes."""
    names = set()
    for line in pathlib.Path(path).read_text().splitlines() if os.path.exists(path) else ():
        if included := INCLUDE.match(line):
            names |= header_names(str(ROOT / included[1]))
        elif name := declared(line):
            names.add(name)
    return names


def words_of(text):
    """The words of a file outside comments and texts, and the names that its headers declare."""
    return set().union(*(header_names(str(ROOT / h)) for h in INCLUDE.findall(text))) | set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*', " ", text)))


def write(path, members):
    lines = ["// Written by cmake/unity_groups.py."]
    for i, member in enumerate(sorted(members)):
        lines += [f"#define {name} {name}{i}" for name in TABLES]
        lines += [f'#include "{member}"']
        lines += [f"#undef {name}" for name in TABLES]
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    folder, most, paths = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    groups = []  # [lines, names, words, paths]
    rows = []
    for path in paths:
        text = pathlib.Path(path).read_text()
        rows.append((text.count("\n"), path, own_names(text), words_of(text)))
    for lines, path, names, words in sorted(rows, key=lambda r: (-r[0], r[1])):
        fits = [g for g in groups if g[0] + lines <= most and not g[1] & words and not g[2] & names]
        if fits:
            group = min(fits, key=lambda g: g[0])
            group[0] += lines
            group[1] |= names
            group[2] |= words
            group[3].append(path)
        else:
            groups.append([lines, set(names), set(words), [path]])
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for i, (*_, members) in enumerate(groups):
        if len(members) == 1:
            files += members
        else:
            files.append(str(folder / f"{i}.cc"))
            write(folder / f"{i}.cc", members)
    print(";".join(files), end="")


if __name__ == "__main__":
    main()
