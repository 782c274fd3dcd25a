#!/usr/bin/env python3
"""Writes the licences of what slipway's program and library hold of other projects, since whoever passes them on has to
pass those on too.

    licences.py OUTPUT [--package PACKAGE]... [--text NAME VERSION FILE]...

Each component has its name, its version and where that is from, and its licence as its own package states it: a Debian
package's /usr/share/doc/PACKAGE/copyright, or FILE. The output has Debian's format of copyright files (DEP 5): what a
line of such a file says follows one space, and an empty one is a dot. Licences that a component only refers to
(/usr/share/common-licenses) are at the end, since other systems have no such folder. A component without a text is an
error.
"""

import argparse
import pathlib
import re
import subprocess
import sys

COMMON = pathlib.Path("/usr/share/common-licenses")
HEAD = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: slipway

Files: *
Copyright: the authors of slipway
License: Apache-2.0
"""


def indented(text):
    """A text as the continuation of a field."""
    return "".join(
        f" {line}\n" if line.strip() else " .\n" for line in (line.rstrip() for line in text.strip("\n").splitlines())
    )


def of_package(package):
    """(name, version with its source, text) of an installed Debian package."""
    said = subprocess.run(["dpkg-query", "-W", "-f=${source:Package}\n${source:Version}\n${Homepage}\n", package],
                          check=True, capture_output=True, text=True).stdout.splitlines()  # fmt: skip
    name, version, homepage = said[:3]
    text = pathlib.Path("/usr/share/doc", package.partition(":")[0], "copyright").read_text(encoding="utf-8")
    return name, f"{version}, Debian's source package {name} ({homepage})", text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--package", action="append", default=[], metavar="PACKAGE")
    parser.add_argument("--text", action="append", default=[], nargs=3, metavar=("NAME", "VERSION", "FILE"))
    arguments = parser.parse_args()
    components = [of_package(package) for package in arguments.package]
    components += [
        (name, version, pathlib.Path(file).read_text(encoding="utf-8")) for name, version, file in arguments.text
    ]
    out, common = HEAD, {"Apache-2.0"}
    for name, version, text in sorted(components):
        if not text.strip():
            sys.exit(f"{name}: the text of its licence is empty")
        out += f"\nFiles: {name}/*\nComment: {name} {version}\nCopyright: as its licence says\n"
        out += f"License: {name}\n{indented(text)}"
        common.update(word.rstrip(".") for word in re.findall(rf"{COMMON}/([\w.+-]+)", text))
    for name in sorted(common):
        out += f"\nLicense: {name}\n{indented((COMMON / name).read_text(encoding='utf-8'))}"
    arguments.output.write_text(out, encoding="utf-8")


if __name__ == "__main__":
    main()
