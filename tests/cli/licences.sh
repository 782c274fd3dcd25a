# What is linked into the program and the library, and whose headers their sources include, is all in the file of
# licences, with a version and a text; the build says what that is. (install.sh and wheel.sh look for the file where it
# is installed.)
source "$ROOT/tests/cli/lib.bash"
build=$(dirname "$SLIPWAY")
licences=$build/licences/copyright
if [ ! -e "$licences" ]; then
  echo "not run: the licences of other projects are taken from Debian's packages"
  exit 0
fi
ninja -C "$build" -t deps > dependencies
"$PYTHON" - "$build" "$licences" <<'PYTHON'
import os, pathlib, re, subprocess, sys

build, licences = map(pathlib.Path, sys.argv[1:])
paragraphs = licences.read_text().split("\n\n")
for line in licences.read_text().splitlines():
    assert not line or re.match(r"[A-Z][A-Za-z-]*:( |$)| [^ ]| +\S| \.$", line), f"not Debian's format: {line!r}"
named = {}
for paragraph in paragraphs:
    if found := re.match(r"Files: (.+)/\*\nComment: (.*)\nCopyright: .*\nLicense: \S+\n((?: .*\n?)+)$", paragraph):
        named[found[1]] = found[2], found[3]
assert len(named) >= 9 and len(named) == sum(p.startswith("Files: ") for p in paragraphs) - 1, list(named)
for name, (version, text) in named.items():
    assert re.match(rf"{re.escape(name)} \d[^,]*, .*source", version) and len(text) > 900, (name, version, len(text))
    for common in re.findall(r"/usr/share/common-licenses/([\w.+-]*[\w+-])", text):
        assert any(p.startswith(f"License: {common}\n") for p in paragraphs), f"{name} refers to {common}"

# Which source package each file of Debian is of.
owner, source = {}, {}
said = subprocess.run(["dpkg-query", "-W", "-f=${Package} ${source:Package}\n"], check=True, capture_output=True,
    text=True).stdout
for line in said.splitlines():
    package, source[package] = line.split()
for files in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
    package = files.stem.partition(":")[0]
    for file in files.read_text().splitlines():
        owner[file] = package

root = build.absolute() / "root"  # of packages for another machine (scripts/cross_aarch64.sh), which are here, too
def component(path):
    path = (build / path).absolute()
    if path.is_relative_to(root):
        path = pathlib.Path("/", path.relative_to(root))
        if path.parts[1] == "opt":
            return path.parts[2]
        path = pathlib.Path(str(path).replace("aarch64-linux-gnu", f"{os.uname().machine}-linux-gnu"))
    if "deps" in path.parts:
        found = path.parts[path.parts.index("deps") + 1]
        return {"libprotobuf.a": "protobuf", "libre2.a": "re2",
            "libabsl.a": "abseil"}[path.name] if found == "archives" else found
    if path.parent == build.absolute() and path.name in ("libpng.a", "libjpeg.a"):  # Debian's, with a name changed
        return {"libpng.a": "libpng1.6", "libjpeg.a": "libjpeg-turbo"}[path.name]
    real = str(path.resolve())
    package = owner.get(real) or owner.get(real.removeprefix("/usr")) or owner.get("/usr" + real)
    assert package, f"{path} is of no package"
    return source[package]

# Linked.
ninja = (build / "build.ninja").read_text()
seen = {}
for target in ("slipway", "libslipway.so"):
    edge = re.search(rf"^build {re.escape(target)}\S*: CXX_\S*LINKER.*?\n\n", ninja, re.M | re.S)[0]
    for word in re.search(r"LINK_LIBRARIES = (.*)", edge)[1].split():
        if not word.startswith("-") and not pathlib.Path(word).name.startswith("libroom_"):
            seen.setdefault(component(word), word)
    if "-static-libstdc++" in edge:
        runtime = subprocess.run(["c++", "-print-file-name=libstdc++.a"], check=True, capture_output=True,
            text=True).stdout.strip()
        seen.setdefault(component(runtime), runtime)
# Included: ninja knows of each object what its source read.
ours = False
for line in open("dependencies"):
    if not line.startswith(" "):
        ours = line.startswith(("CMakeFiles/room_", "CMakeFiles/slipway.dir/"))
    elif ours and line.strip().startswith("/") and (line.strip().startswith(f"{root}/") or
        not line.strip().startswith((os.environ["ROOT"] + "/", str(build.resolve()) + "/"))):
        seen.setdefault(component(line.strip()), line.strip())
assert {"abseil", "cli11", "flatbuffers", "onnx"} <= set(seen), f"the build says too little: {seen}"
# Of glibc and Linux, which every system has, declarations only. The exception in LLVM's licence is for what Clang's own
# headers put into a program.
lacking = {name: why for name, why in seen.items()
    if name not in named and name not in ("glibc", "linux", "cross-toolchain-base")
    and not name.startswith("llvm-toolchain-")}
assert not lacking, f"not in the file of licences: {lacking}"
PYTHON
