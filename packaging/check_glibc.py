#!/usr/bin/env python3
"""Says which glibc ELF files ask for, and fails where it is newer than a limit, or where they need other shared
libraries. Those that lie in the same wheel are not others.

    check_glibc.py [--most 2.28] FILE...       # FILE: a program, a shared library, or a wheel (.whl) of them
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import zipfile

OF_GLIBC = {
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}


def version(text):
    return tuple(int(n) for n in text.split("."))


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True, text=True).stdout


def complaints(path, most, beside):
    """Prints what `path` needs; returns what is wrong with that. `beside`: names of files that come with it."""
    needs = readelf("-V", path)
    needs = needs[needs.find("Version needs section") :]
    versions = sorted({version(v) for v in re.findall(r"Name: GLIBC_([0-9.]+)", needs)})
    others = set(re.findall(r"Name: (GLIBC_[A-Z]\w*|GLIBCXX_\S+|CXXABI_\S+|GCC_\S+)", needs))
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path))
    highest = ".".join(map(str, versions[-1])) if versions else "none"
    print(f"{path}: glibc {highest}; {' '.join(libraries)}")
    wrong = []
    if versions and versions[-1] > most:
        wrong.append(f"{path} asks for glibc {highest}")
    wrong += [f"{path} asks for {v}" for v in sorted(others)]
    wrong += [f"{path} needs {library}" for library in libraries if library not in OF_GLIBC | beside]
    return wrong


def elf_files(path, folder):
    """`path`, or the ELF files in a wheel, unpacked into `folder`."""
    if not path.endswith(".whl"):
        return [path]
    found = []
    with zipfile.ZipFile(path) as wheel:
        for member in wheel.namelist():
            if not member.endswith("/") and wheel.open(member).read(4) == b"\x7fELF":
                found.append(wheel.extract(member, folder))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", default="2.28", help="the newest glibc that may be asked for")
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for i, path in enumerate(options.files):
            files = elf_files(path, os.path.join(folder, str(i)))
            if not files:
                wrong.append(f"{path} holds no ELF file")
            beside = {os.path.basename(file) for file in files} if path.endswith(".whl") else set()
            for file in files:
                wrong += complaints(file, version(options.most), beside)
    for line in wrong:
        print("error:", line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
