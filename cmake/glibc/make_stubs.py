#!/usr/bin/env python3
"""Writes libraries to link with in place of the machine's glibc, so that what is linked runs on older ones.

A linker binds a function to its newest version in the libc.so.6 it finds, so that a program built on Debian 12 asks for
glibc 2.36 though all it calls is in 2.28, too. The machine's libraries keep the older versions of all symbols; of these
this script makes shared libraries without code, in which each symbol has the version it had in the glibc that is asked
for, and which have no newer ones. compat.c has what objects of a newer compiler and its static libraries want beyond
that, start.c how a program begins.

    make_stubs.py FOLDER VERSION COMPILER      # then link with -B FOLDER -L FOLDER

A cross compiler's glibc serves, too.

Fails where the machine's glibc is newer than what compat.c was written for.
"""

import os
import subprocess
import sys

LIBRARIES = {"libc": "libc.so.6", "libm": "libm.so.6"}
NEWEST = (2, 36)  # what compat.c makes up for
# Functions that glibc 2.34 moved into libc.so.6 from libraries of their own, by what their names begin with.
MOVED = {"libpthread": ("pthread_", "__pthread_", "_pthread_", "sem_"), "libdl": ("dl",)}
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
SONAMES = {**LIBRARIES, "libpthread": "libpthread.so.0", "libdl": "libdl.so.2"}


def number(version):
    """GLIBC_2.3.4 as (2, 3, 4); None for other versions, such as GLIBC_PRIVATE."""
    name, _, digits = version.partition("_")
    if name != "GLIBC" or not digits or not digits.replace(".", "").isdigit():
        return None
    return tuple(int(d) for d in digits.split("."))


def symbols_of(path):
    """Rows (name, version, kind, value, size) of the symbols that a library defines."""
    text = subprocess.run(["readelf", "--dyn-syms", "-W", path], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        fields = line.split()
        if (
            len(fields) < 8
            or fields[6] == "UND"
            or "@" not in fields[7]
            or fields[3] not in ("FUNC", "IFUNC", "OBJECT")
        ):
            continue
        name, _, version = fields[7].replace("@@", "@").partition("@")
        if number(version):
            yield name, number(version), fields[3], int(fields[1], 16), int(fields[2], 0)


def choose(path, most):
    """Of each symbol the newest version that is no newer than `most`, and whether there is a newer one."""
    chosen, newer = {}, set()
    for name, version, kind, value, size in symbols_of(path):
        if version > most:
            newer.add(name)
        elif name not in chosen or version > chosen[name][0]:
            chosen[name] = (version, kind, value, size)
    return chosen, newer


def write_library(folder, name, symbols, compiler):
    """`symbols`: by name, (version, kind, value, size). Objects at one address stay at one address."""
    functions = sorted(s for s in symbols if symbols[s][1] != "OBJECT")
    objects = {}
    for s in sorted(symbols):
        if symbols[s][1] == "OBJECT":
            objects.setdefault(symbols[s][2], []).append(s)
    with open(f"{folder}/{name}.S", "w") as out:
        out.write(".text\n" + "".join(f".globl {s}\n.type {s},@function\n{s}:\n" for s in functions) + "nop\n.data\n")
        for value in sorted(objects):
            out.write(".balign 32\n")
            out.writelines(f".globl {s}\n.type {s},@object\n.size {s},{symbols[s][3]}\n{s}:\n" for s in objects[value])
            out.write(f".zero {max(1, max(symbols[s][3] for s in objects[value]))}\n")
        out.write('.section .note.GNU-stack,"",@progbits\n')
    before = ""
    with open(f"{folder}/{name}.map", "w") as out:
        for version in sorted({row[0] for row in symbols.values()}):
            node = "GLIBC_" + ".".join(map(str, version))
            out.write(
                f"{node} {{ global: "
                + "".join(f"{s}; " for s in sorted(symbols) if symbols[s][0] == version)
                + f"}}{before};\n"
            )
            before = " " + node
    subprocess.run(
        [
            compiler,
            "-shared",
            "-nostdlib",
            "-fuse-ld=bfd",
            f"-Wl,-soname,{SONAMES[name]}",
            f"-Wl,--version-script={folder}/{name}.map",
            "-Wl,--no-as-needed",
            "-o",
            f"{folder}/{SONAMES[name]}",
            f"{folder}/{name}.S",
        ],
        check=True,
    )


def main():
    folder, version, compiler = sys.argv[1:]
    most = tuple(int(d) for d in version.split("."))
    here = os.path.dirname(os.path.abspath(__file__))
    os.makedirs(folder, exist_ok=True)
    asked = lambda *question: subprocess.run(
        [compiler, *question], check=True, capture_output=True, text=True
    ).stdout.strip()
    where = lambda file: asked(f"-print-file-name={file}")
    architecture = asked("-dumpmachine").partition("-")[0]
    compile_c = [compiler, "-x", "c", "-O2", "-fPIC", "-fstack-protector-strong", f"-ffile-prefix-map={here}=", "-c"]
    subprocess.run([*compile_c, "-fvisibility=hidden", f"{here}/compat.c", "-o", f"{folder}/compat.o"], check=True)
    subprocess.run([*compile_c, "-fno-stack-protector", f"{here}/start.c", "-o", f"{folder}/Scrt1.o"], check=True)
    subprocess.run([asked("-print-prog-name=ar"), "rcsD", f"{folder}/libcompat.a", f"{folder}/compat.o"], check=True)
    newest = max(v for _, v, *_ in symbols_of(where("libc.so.6")))
    if newest[:2] > NEWEST:
        sys.exit(f"glibc {newest[0]}.{newest[1]} is newer than cmake/glibc/compat.c knows")
    tables = {}
    for name, soname in LIBRARIES.items():
        tables[name], newer = choose(where(soname), most)
        for library, prefixes in MOVED.items() if name == "libc" else ():
            moved = [s for s in tables[name] if s in newer and s.startswith(prefixes)]
            tables[library] = {s: tables[name].pop(s) for s in moved}
    for name, symbols in tables.items():
        write_library(folder, name, symbols, compiler)
    # libc's own linker script names an archive of functions that every program has a copy of. Folders may have spaces.
    with open(f"{folder}/libc.so", "w") as out:
        out.write(
            f'GROUP ( "{folder}/libc.so.6" "{folder}/libcompat.a" "{where("libc_nonshared.a")}" '
            f'AS_NEEDED ( "{folder}/libpthread.so.0" "{folder}/libdl.so.2" "{where(LOADERS[architecture])}" ) )\n'
        )
    for name in ("libm", "libpthread", "libdl"):
        link = f"{folder}/{name}.so"
        if not os.path.lexists(link):
            os.symlink(SONAMES[name], link)


if __name__ == "__main__":
    main()
