#!/usr/bin/env python3
"""Writes files that include several sources of a room each, for builds from nothing (SLIPWAY_UNITY).

Most of the time a file takes goes to the templates it uses, which its neighbours use, too: several in one file take
half as long. Names in unnamed namespaces are a file's own. Where another source of the group has the word as well, a
macro gives the file's name another one, behind all headers of the group. Where that would change another name, since a
header of the file declares the word, too, or the file says it of something (x.Name, x::Name), the two do not go
together; nor where the name is a macro. This script looks for names as the style of this repository sets them, at the
beginning of a line.

    unity_groups.py FOLDER MOST_LINES SOURCE...       # prints the files that take the sources' place, with a ; between
"""

import functools
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMED = re.compile(
    r"^(?:inline |static |constexpr |constinit |extern )*(?:struct|class|enum class|enum|union|using|namespace) (\w+)"
)
CALLED = re.compile(r"([~\w]+)\($")  # what stands before the first parenthesis
TAKEN = re.compile(r"^using ([\w:]+)::(\w+);", re.M)
SET = re.compile(r"(\w+)(?:\[[^\]]*\])*\s*(?:[={;]|$)")
INCLUDE = re.compile(r'^#include "([\w/.]+)"', re.M)
INCLUDED = re.compile(r'^#include (?:<[\w/.]+>|"[\w/.]+\.h")', re.M)
NO_WORDS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
WORD = re.compile(r"[A-Za-z_]\w*")
MACRO = re.compile(r"^#define (\w+)")
QUALIFIED = re.compile(r"(?:\.|->|::)(\w+)")
UNNAMED = re.compile(r"^(?:static |constexpr |constinit |const )*(?:struct|union|enum) \{")
AFTER_UNNAMED = re.compile(r"^\} (\w+)(?:\[[^\]]*\])*\s*[={;]")
NO_NAME = (
    "#",
    "//",
    "}",
    "{",
    " ",
    "template",
    "return",
    "namespace {",
    "static_assert",
    "using namespace",
    "using enum",
    "extern \"C\"",
    ")",
)


def own_names(text):
    """What a file declares in unnamed namespaces, or static, too much rather than too little; and its macros."""
    names, macros, unnamed = set(), set(), 0
    for line in text.splitlines():
        if macro := MACRO.match(line):
            macros.add(macro[1])
        if re.match(r"^namespace \{", line):
            unnamed += 1
        elif unnamed and re.match(r"^\}  // namespace$", line):
            unnamed -= 1
        elif (unnamed or line.startswith("static ")) and (name := declared(line)):
            names.add(name)
    return names, macros


def declared(line):
    """The name that a line at the beginning of a declaration declares; None for other lines."""
    if found := AFTER_UNNAMED.match(line):
        return found[1]
    if not line or line.startswith(NO_NAME) or TAKEN.match(line) or UNNAMED.match(line):
        return None
    if found := NAMED.match(line):
        return found[1]
    before = line[: line.find("(") + 1]
    if before and "=" not in before and (found := CALLED.search(before)):
        return found[1]
    found = SET.search(line)
    return found[1] if found else None


@functools.cache
def of_header(path):
    """The words of a header and of those that it includes, the names that they declare, and (name, namespace) of those
    that they take from another one."""
    text = pathlib.Path(path).read_text() if os.path.exists(path) else ""
    words, names, taken = of_headers(text)
    return words | words_of(text), names.union(filter(None, map(declared, text.splitlines()))), taken | taken_by(text)


def of_headers(text):
    found = [of_header(str(ROOT / h)) for h in INCLUDE.findall(text)]
    return tuple(set().union(*parts) for parts in zip(*found)) if found else (set(), set(), set())


def taken_by(text):
    return {(name, space) for space, name in TAKEN.findall(text)}


def words_of(text):
    """The words of a file outside comments and texts."""
    return set(WORD.findall(NO_WORDS.sub(" ", text)))


class Source:
    def __init__(self, path):
        self.path = path
        self.text = pathlib.Path(path).read_text()
        self.lines = self.text.count("\n")
        headers, self.declared, known = of_headers(self.text)
        code = NO_WORDS.sub(" ", self.text)
        self.words = headers | words_of(self.text)
        self.bare = set(WORD.findall(QUALIFIED.sub(" ", code)))
        self.taken = taken_by(self.text)
        self.known = known | self.taken
        names, self.macros = own_names(self.text)
        self.fixed = names & (self.declared | set(QUALIFIED.findall(code)))
        self.names = names - self.fixed  # which another name can be given to

    def disturbs(self, other):
        """Whether a name that this source keeps could mean something else in the other."""
        taken = {name for name, _ in self.taken - other.known}
        return bool(
            self.macros & other.words
            or self.fixed & (other.bare | other.declared - self.declared)
            or taken & other.bare
        )


def write(path, members):
    lines = ["// Written by cmake/unity_groups.py."]
    lines += sorted({i for m in members for i in INCLUDED.findall(m.text)})
    for number, member in enumerate(members):
        renamed = sorted(member.names & set().union(*(m.words for m in members if m is not member)))
        lines += [f"#define {name} {name}_{number}" for name in renamed]
        lines += [f'#include "{member.path}"']
        lines += [f"#undef {name}" for name in renamed]
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    folder, most, paths = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    sources = sorted(map(Source, paths), key=lambda s: (-s.lines, s.path))
    apart = {s: {o for o in sources if o is not s and (s.disturbs(o) or o.disturbs(s))} for s in sources}
    groups = []  # of sources
    for source in sorted(sources, key=lambda s: -len(apart[s])):  # the hardest to place first
        fits = [
            g for g in groups if sum(m.lines for m in g) + source.lines <= most and not apart[source].intersection(g)
        ]
        if fits:
            min(fits, key=lambda g: sum(m.lines for m in g)).append(source)
        else:
            groups.append([source])
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for i, members in enumerate(groups):
        if len(members) == 1:
            files.append(members[0].path)
        else:
            files.append(str(folder / f"{i}.cc"))
            write(folder / f"{i}.cc", sorted(members, key=lambda m: m.path))
    print(";".join(files), end="")


if __name__ == "__main__":
    main()
