"""clang-tidy (.clang-tidy) over the sources of a build that GCC compiles, in all rooms or those named:

    pip install clang-tidy==18.1.8
    python scripts/clang_tidy.py [--build build] [kernels/gemm quantizer/scheme.cc …]

Compile commands lose what clang does not know: flags of GCC alone and GCC's precompiled header. Exits 1 where anything
is found. By hand, not a test: it takes about seven seconds a file.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GCC_ONLY = {
    "-fno-gnu-unique",
    "-fvect-cost-model=dynamic",
    "-Winvalid-pch",
    "-Wno-maybe-uninitialized",
    "-Wno-restrict",
}
LAUNCHER = "/usr/bin/ccache"
# Not ours, or made for one instruction set that clang-tidy's own target may lack.
LEFT_OUT = ("build/", "kernels/isa/")


def readable(command):
    """The command as clang takes it, without what launches the compiler."""
    words = shlex.split(command)
    start = words.index(LAUNCHER) + 1 if LAUNCHER in words else 0
    out, skip = [], False
    for word, following in zip(words[start:], words[start + 1 :] + [""]):
        if skip:
            skip = False
        elif word == "-include" and "cmake_pch" in following:
            skip = True
        elif word not in GCC_ONLY:
            out.append(word)
    return shlex.join([*out, "-Wno-unknown-warning-option"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("places", nargs="*", help="files or folders, relative to the repository")
    options = parser.parse_args()
    entries, files = [], []
    for entry in json.loads((options.build / "compile_commands.json").read_text()):
        name = os.path.relpath(pathlib.Path(entry["directory"]) / entry["file"], ROOT)
        if name.startswith(("..", *LEFT_OUT)) or not name.endswith(".cc") or name in files:
            continue
        if options.places and not any(name == p or name.startswith(p.rstrip("/") + "/") for p in options.places):
            continue
        entries.append({**entry, "command": readable(entry["command"])})
        files.append(name)
    if not files:
        sys.exit("no source of the build is among those")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps(entries))

        def tidy(name):
            command = ["clang-tidy", "--quiet", "-p", folder, ROOT / name]
            return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            found = 0
            for name, done in zip(files, pool.map(tidy, files)):
                if done.returncode != 0:
                    found += 1
                    print(f"== {name}\n{done.stdout}{done.stderr if not done.stdout else ''}", flush=True)
    print(f"{len(files)} files, {found} with findings")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
