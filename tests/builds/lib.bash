# For the scripts beside it. Each build has a folder of its own below build/, where the next run goes on. Under
# continuous integration no next run follows: the folder is removed, and the compiler cache is not filled.
[ "${CI:-}" != true ] || export CCACHE_DISABLE=1
: "${JOBS:=$(nproc)}"

# The runtime for 64-bit Arm takes minutes to compile and has the same flags in all presets: release.sh compiles it.
NO_ARM=-DSLIPWAY_AARCH64=OFF

# needs PACKAGE...: of Debian; where one is missing and cannot be installed the script ends as not run.
needs() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null)" != installed ] || continue
    if [ $EUID -ne 0 ] && ! sudo -n true 2> /dev/null; then
      echo "not run: no $package (a package of Debian)"
      exit 0
    fi
    "$ROOT/scripts/setup.sh" "deb:$package" > log 2>&1 || { cat log; return 1; }
  done
}

# builds PRESET TARGET...: with its warnings as errors; SETTINGS are more arguments of CMake.
builds() {
  local preset=$1 folder="$ROOT/build/presets/$1"
  shift
  [ "${CI:-}" != true ] || trap "rm -rf '$folder'" EXIT
  cmake -S "$ROOT" --preset "$preset" -B "$folder" ${SETTINGS:-} > log 2>&1 || { cat log; return 1; }
  grep -qE 'SLIPWAY_TESTS:BOOL=ON' "$folder/CMakeCache.txt"
  cmake --build "$folder" -j "$JOBS" --target "$@" > log 2>&1 \
    || { grep -E -A 6 'error:|FAILED' log | head -n 60; return 1; }
}

# compiles PRESET TARGET...: what CONTRIBUTING.md and docs/install.md tell to type.
compiles() {
  builds "$@"
  "$ROOT/build/presets/$1/slipway" --version
}

# configures NAME: the preset release in a folder of its own, `folder`, with the header that others include.
configures() {
  folder="$ROOT/build/presets/$1"
  cmake -S "$ROOT" --preset release -B "$folder" > log 2>&1 || { cat log; return 1; }
  cmake --build "$folder" --target slipway_plan_header > log 2>&1 || { cat log; return 1; }
}

# commands_of FOLDER LEFT_OUT TARGETS COMPILER...: a configured build's commands for the sources of these targets (with
# commas between them), a line each, with another compiler and its flags, without headers of /usr. LEFT_OUT is a regular
# expression of sources. Several sources of a room are in one file, those of kernels and the runtime aside.
commands_of() {
  "$PYTHON" - "$@" <<'PYTHON'
import json, pathlib, re, shlex, sys

folder, left_out, targets, *start = sys.argv[1:]
targets = {f"{target}.dir": {} for target in targets.split(",")}
for entry in json.loads(pathlib.Path(folder, "compile_commands.json").read_text()):
    words = shlex.split(entry["command"])
    target = pathlib.Path(words[words.index("-o") + 1]).parts[1]
    if target not in targets or re.search(left_out, entry["file"]):
        continue
    flags = [w for w in words if re.match("-(I|D(?!_F)|W(?!inv)|m|std)", w)]
    places = [words[i + 1] for i, w in enumerate(words) if w == "-isystem"]
    flags += [f"-isystem{place}" for place in places if not place.startswith("/usr/")]
    targets[target].setdefault(tuple(flags), []).append(entry["file"])
written = 0
for target, sources in targets.items():
    for flags, files in sources.items():
        if not re.match("(room_kernels|kernels_.*|slipway_runtime)\\.dir", target):
            # The headers of others take most of the time: several sources in one file.
            parts = [files[i : i + 25] for i in range(0, len(files), 25)]
            files = []
            for part in parts:
                written += 1
                files.append(str(pathlib.Path(f"sources_{written}.cc").absolute()))
                pathlib.Path(files[-1]).write_text("".join(f'#include "{file}"\n' for file in part))
        for file in files:
            print(shlex.join([*start, *flags, file]))
PYTHON
}

# runs_all FILE: each line as a command; shows what the first one says that fails.
runs_all() {
  local command
  while read -r command; do
    bash -c "$command" 2> said || { echo "$command"; head -n 40 said; return 1; }
  done < "$1"
}
