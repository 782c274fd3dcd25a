# base, io, ir, kernels and runtime as they would be compiled for Windows: what does not lie in a folder posix/ needs no
# POSIX header. MinGW-w64's GCC reads them with the flags of the preset release; nothing is linked or run.
source "$ROOT/tests/builds/lib.bash"
compiler=x86_64-w64-mingw32-g++-posix  # whose standard library has threads
if ! command -v $compiler > /dev/null; then
  echo "not run: no $compiler (Debian's g++-mingw-w64-x86-64-posix)"
  exit 0
fi
folder="$ROOT/build/presets/windows"
cmake -S "$ROOT" --preset release -B "$folder" > log 2>&1 || { cat log; exit 1; }
cmake --build "$folder" --target slipway_plan_header > log 2>&1 || { cat log; exit 1; }

# Other projects' headers, without those of this system's C library, which lie beside them.
mkdir include
for header in absl flatbuffers libdeflate.h; do ln -s "/usr/include/$header" include/; done

# The build's commands with another compiler. By hand, SLIPWAY_WINDOWS="-c -O2 -o /dev/null" compiles them as well.
"$PYTHON" - "$folder" $compiler ${SLIPWAY_WINDOWS:--fsyntax-only} > commands <<'PYTHON'
import json, os, pathlib, re, shlex, subprocess, sys

folder, *start = sys.argv[1:]
LEFT_OUT = "/posix/", "runtime/aoti.cc", ".S"  # aoti.cc looks for libtorch in the process with dlopen()
rooms = {f"{room}.dir": {} for room in ("room_base", "room_io", "room_ir", "room_kernels", "slipway_runtime")}
for entry in json.loads(pathlib.Path(folder, "compile_commands.json").read_text()):
    words = shlex.split(entry["command"])
    room = pathlib.Path(words[words.index("-o") + 1]).parts[1]
    if room not in rooms or any(part in entry["file"] for part in LEFT_OUT):
        continue
    flags = [w for w in words if re.match("-(I|D(?!_F)|W(?!inv)|m|std)", w)]
    flags += [f"-I{w}" for w in words if w.endswith("/generated/fbs")]
    rooms[room].setdefault(tuple(flags), []).append(entry["file"])
for room, sources in rooms.items():
    for flags, files in sources.items():
        if room in ("room_base.dir", "room_io.dir", "room_ir.dir"):  # whose headers take most of the time
            groups = [sys.executable, os.environ["ROOT"] + "/cmake/unity_groups.py", room, "6000", *files]
            files = subprocess.run(groups, check=True, stdout=subprocess.PIPE, text=True).stdout.split(";")
        for file in files:
            print(shlex.join([*start, "-isystem", "include", *flags, file]))
PYTHON
total=$(wc -l < commands)
[ "$total" -gt 70 ]
while read -r command; do
  bash -c "$command" 2> said || { echo "$command"; head -n 40 said; exit 1; }
done < commands
echo "$total files for Windows compile"
